"""Flags of commands, each with its environment twin: of declared options, and of what a command says itself."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import typer

from toolkit.errors import UsageError
from toolkit.options.option import Option
from toolkit.options.value_type import ValueType
from toolkit.options.values import Flag

__all__ = ["envvar", "flag", "flag_for", "gathered", "with_options"]

Command = TypeVar("Command", bound=Callable[..., None])


def envvar(flag: str) -> str:
    """Return the environment twin of a flag: --shard-size has TOOLKIT_SHARD_SIZE."""
    return "TOOLKIT_" + flag.removeprefix("--").replace("-", "_").upper()


def flag(
    name: str,
    help: str | None = None,
    value: ValueType | None = None,
    *,
    short: str | None = None,
    metavar: str | None = None,
    **more: Any,
) -> Any:
    """Return what makes a parameter a flag, for Annotated.

    Args:
        name: The flag; --on/--off for both of a bool.
        help: What it means.
        value: What reads its text; None for text as it is, and for a bool.
        short: A second flag of one letter, as in -n.
        metavar: What stands for the value in the help, where it isn't what its type says.
        more: As typer.Option takes it.
    """
    return typer.Option(
        name, *([] if short is None else [short]), **_common(name.partition("/")[0], help, value, metavar), **more
    )


def flag_for(option: Option) -> Any:
    """Return what makes a parameter the flag of a declared option, for Annotated."""
    return flag(option.flag, option.help, option.value, short=option.short, metavar=option.metavar)


def with_options(options: Mapping[str, Option], *, before: str) -> Callable[[Command], Command]:
    """Return a decorator: the command has the flags of these options too, in front of its parameter `before`.

    The function doesn't get them: it reads them from the context.
    """

    def decorate(command: Command) -> Command:
        own = inspect.signature(command, eval_str=True).parameters
        place = list(own).index(before)
        added = [_parameter(option) for option in options.values()]

        @functools.wraps(command)
        def run(**values: Any) -> None:
            command(**{name: values[name] for name in own})

        parameters = [*own.values()]
        run.__signature__ = inspect.Signature([*parameters[:place], *added, *parameters[place:]])  # type: ignore[attr-defined]
        run.__annotations__ = {}  # all are in the signature
        return run  # type: ignore[return-value]

    return decorate


def gathered(arguments: Sequence[str], flag: str, is_value: Callable[[str], bool]) -> list[str]:
    """Return a command's arguments with all values of a flag in one, with commas between them.

    The flag may come several times, and several values may stand behind it: those that `is_value` knows.
    """
    values: list[str] = []
    others: list[str] = []
    left = list(arguments)
    while left and left[0] != "--":
        word, equals, value = left.pop(0).partition("=")
        if word != flag or not (equals or left):
            others.append(word + equals + value)
            continue
        values.append(value if equals else left.pop(0))
        while left and not left[0].startswith("-") and is_value(left[0]):
            values.append(left.pop(0))
    return [*([flag, ",".join(values)] if values else []), *others, *left]


def _parameter(option: Option) -> inspect.Parameter:
    names = [option.flag] if option.short is None else [option.flag, option.short]
    common = _common(option.flag, option.help, option.value, option.metavar)
    return inspect.Parameter(
        option.name,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        default=typer.Option(option.default, *names, **common),
        annotation=bool if isinstance(option.value, Flag) else str,
    )


def _common(name: str, help: str | None, value: ValueType | None, metavar: str | None) -> dict[str, Any]:
    if value is None or isinstance(value, Flag):
        return {"envvar": envvar(name), "help": help, "metavar": metavar}
    shown = metavar or value.metavar or "<str>"
    return {"envvar": envvar(name), "help": help, "metavar": shown, "parser": _parser(value)}


def _parser(value: ValueType) -> Callable[[Any], Any]:
    def parse(given: Any) -> Any:
        try:
            return value.read(given)
        except UsageError as error:
            raise typer.BadParameter(str(error)) from None

    return parse
