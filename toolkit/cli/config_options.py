"""--config and --set: settings that stand between a flag's environment twin and its default.

Both are read before any other option and become the context's default map, which click asks after the command line and
the environment. Each value goes to the flag's own parser at once as well, so that a mistake is reported with its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolkit.cli.flags import flag
from toolkit.cli.output import Mode
from toolkit.errors import UsageError
from toolkit.options.option import Option, options_of
from toolkit.options.values import Flag, Text
from toolkit.pack.index.job import IndexJob

if TYPE_CHECKING:
    from toolkit.options.load import Setting

__all__ = ["ConfigOption", "SetOption", "effective_options", "keys_of", "take_config", "take_settings"]

_NO_KEYS = ("help", "config", "settings", "further")
_SET = "toolkit.set"  # in a context's meta: the keys that --set gave


def keys_of(command: Any) -> dict[str, Option]:
    """Return the keys of a command's config: its declared options, its arguments and its other flags, by name."""
    declared = options_of(IndexJob)  # which has a pack's as well
    return {key: declared.get(key) or _own(key, param) for key, param in _params(command).items()}


def take_config(context: typer.Context, path: str) -> None:
    """Put the settings of a config file under those that are there already."""
    from toolkit.options.load import load_config

    _take(context, load_config(path, keys_of(context.command)), above=False)


def take_settings(context: typer.Context, texts: Sequence[str]) -> None:
    """Put KEY=VALUE settings over those that are there already."""
    from toolkit.options.load import read_settings

    _take(context, read_settings(texts, keys_of(context.command)), above=True)


def effective_options(context: typer.Context) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the value of each key, and where it comes from, when the command line gives none.

    Raises:
        UsageError: An environment twin holds what its flag doesn't take.
    """
    places = {"ENVIRONMENT": "environment", "DEFAULT_MAP": "config", "DEFAULT": "default"}
    values, origins = {}, {}
    for key, param in _params(context.command).items():
        raw, source = param.consume_value(context, {})
        origins[key] = places[source.name]
        if origins[key] == "config" and key in context.meta.get(_SET, ()):
            origins[key] = "set"
        try:
            values[key] = None if raw is None else param.process_value(context, raw)
        except typer.BadParameter as error:
            raise UsageError(f"{param.envvar}: {error.message}") from error
    return values, origins


def _config_callback(context: typer.Context, value: str | None) -> str | None:
    if value is not None and not context.resilient_parsing:
        take_config(context, value)
    return value


def _set_callback(context: typer.Context, value: list[str] | None) -> list[str] | None:
    if value and not context.resilient_parsing:
        take_settings(context, value)
    return value


ConfigOption = Annotated[
    str | None,
    flag(
        "--config",
        "YAML file of options, SOURCE and DATASET: a key for each flag, as in shard_size. "
        "Paths in it are relative to it.",
        metavar="FILE",
        is_eager=True,
        callback=_config_callback,
    ),
]
SetOption = Annotated[
    list[str] | None,
    flag(
        "--set",
        "Another value for a key of the config, as its flag takes it; flags and their environment twins win.",
        metavar="KEY=VALUE",
        is_eager=True,
        callback=_set_callback,
    ),
]


def _own(key: str, param: Any) -> Option:
    """Return what a config has for a parameter of the command itself: a path for an argument, or yes and no."""
    is_argument = param.param_type_name == "argument"
    return Option(name=key, value=Text(path=True) if is_argument else Flag(), help=param.help or "")


def _params(command: Any) -> dict[str, Any]:
    return {param.name: param for param in command.params if param.name not in _NO_KEYS}


def _take(context: typer.Context, settings: Mapping[str, Setting], *, above: bool) -> None:
    params = _params(context.command)
    taken = {}
    for key, setting in settings.items():
        try:
            params[key].process_value(context, setting.value)
        except typer.BadParameter as error:
            place = setting.where if setting.where.startswith("--set") else f"{setting.where}: {key}"
            raise UsageError(f"{place}: {error.message}") from error
        taken[key] = setting.value
    if above:
        context.meta.setdefault(_SET, set()).update(settings)
    before = dict(context.default_map or {})
    context.default_map = {**before, **taken} if above else {**taken, **before}
    if isinstance(context.obj, Mode):
        said = {name: params[name].process_value(context, context.default_map.get(name)) for name in ("json", "debug")}
        context.obj.configure(json=bool(said["json"]), debug=bool(said["debug"]))
