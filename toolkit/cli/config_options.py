"""--config and --set: settings that stand between a flag's environment twin and its default.

Both are read before any other option and become the context's default map, which click asks after the command line and
the environment. Each value goes to the flag's own parser at once as well, so that a mistake is reported with its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolkit.cli.options import envvar
from toolkit.cli.output import Mode
from toolkit.errors import UsageError

if TYPE_CHECKING:
    from toolkit.config.keys import Key
    from toolkit.config.load import Setting

__all__ = ["ConfigOption", "SetOption", "effective_options", "keys_of", "take_config", "take_settings", "values_of"]

_NO_KEYS = ("help", "config", "set", "further")
_SET = "toolkit.set"  # in a context's meta: the keys that --set gave


def keys_of(command: Any) -> dict[str, Key]:
    """Return the keys of a command's config: one for each of its flags and arguments, with their help texts."""
    from toolkit.config.keys import make_keys

    return make_keys({key: param.help or "" for key, param in _params(command).items()})


def take_config(context: typer.Context, path: str) -> None:
    """Put the settings of a config file under those that are there already."""
    from toolkit.config.load import load_config

    _take(context, load_config(path, keys_of(context.command)), above=False)


def take_settings(context: typer.Context, texts: Sequence[str]) -> None:
    """Put KEY=VALUE settings over those that are there already."""
    from toolkit.config.load import read_settings

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


def values_of(context: typer.Context, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values by the names of the command's parameters; None for those that have no key."""
    by_key = {param.name: options[key] for key, param in _params(context.command).items()}
    return {param.name: by_key.get(param.name) for param in context.command.params if param.name is not None}


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
    typer.Option(
        "--config",
        envvar=envvar("--config"),
        metavar="FILE",
        is_eager=True,
        callback=_config_callback,
        help="YAML file of options, SOURCE and DATASET: a key for each flag, as in shard_size. "
        "Paths in it are relative to it.",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        envvar=envvar("--set"),
        metavar="KEY=VALUE",
        is_eager=True,
        callback=_set_callback,
        help="Another value for a key of the config, as its flag takes it; flags and their environment twins win.",
    ),
]


def _params(command: Any) -> dict[str, Any]:
    from toolkit.config.keys import key_of_flag

    params = {}
    for param in command.params:
        flag = next((opt for opt in param.opts if opt.startswith("--")), param.name)
        params[key_of_flag(flag)] = param
    return {key: param for key, param in params.items() if key not in _NO_KEYS}


def _take(context: typer.Context, settings: Mapping[str, Setting], *, above: bool) -> None:
    params = _params(context.command)
    taken = {}
    for key, setting in settings.items():
        try:
            params[key].process_value(context, setting.value)
        except typer.BadParameter as error:
            place = setting.where if setting.where.startswith("--set") else f"{setting.where}: {key}"
            raise UsageError(f"{place}: {error.message}") from error
        taken[params[key].name] = setting.value
    if above:
        context.meta.setdefault(_SET, set()).update(settings)
    before = dict(context.default_map or {})
    context.default_map = {**before, **taken} if above else {**taken, **before}
    if isinstance(context.obj, Mode):
        said = {name: params[name].process_value(context, context.default_map.get(name)) for name in ("json", "debug")}
        context.obj.configure(json=bool(said["json"]), debug=bool(said["debug"]))
