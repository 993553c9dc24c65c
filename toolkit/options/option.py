"""Declare an option once, as the field of a frozen dataclass: its flag, environment twin, YAML key and Python keyword.

A field that is made by option() has the option's name and, for the code that obeys it, its type. The rest is read from
the declaration: by toolkit.cli.flags (flag and twin), toolkit.options.load (YAML), toolkit.options.schema, scripts/
make_pack.py (the keyword and its documentation), toolkit.pack.prepare (the journal) and echo() (--json).
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import operator
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, SupportsIndex

from toolkit.errors import UsageError
from toolkit.options.value_type import ValueType

__all__ = ["Option", "dotted", "echo", "flag_of", "option", "options_of", "take"]

_KEY = "option"


@dataclass(frozen=True, kw_only=True, eq=False)
class Option:
    """An option.

    Attributes:
        name: Its name wherever it is given; the flag has - for _.
        value: What it takes.
        help: What it means, in a sentence or two.
        default: What it has when it isn't given, as people write it; None where that is nothing.
        short: A second flag of one letter, as in -j.
        metavar: What stands for the value in the command's help.
        in_journal: An unfinished pack goes on only with the same.
        in_manifest: Its word in manifests, when that isn't its name: pins are made of manifests, so it stays.
    """

    name: str
    value: ValueType
    help: str
    default: Any = None
    short: str | None = None
    metavar: str | None = None
    in_journal: bool = False
    in_manifest: str | None = None

    @property
    def flag(self) -> str:
        """Its flag: shard_size has --shard-size."""
        return flag_of(self.name)


def flag_of(name: str) -> str:
    """Return the flag of an option of that name."""
    return f"--{name.replace('_', '-')}"


def option(
    value: ValueType,
    help: str,
    default: Any = None,
    *,
    factory: Callable[[], Any] | None = None,
    written: str | None = None,
    short: str | None = None,
    metavar: str | None = None,
    in_journal: bool = False,
    in_manifest: str | None = None,
) -> Any:
    """Declare an option as the field of a dataclass that has keywords only.

    Args:
        value: What it takes.
        help: What it means, in a sentence or two.
        default: What the field has when the option isn't given.
        factory: What makes the default.
        written: The default as people write it, where that isn't what value.plain() makes of it: auto, 256MiB.
        short, metavar, in_journal, in_manifest: See Option.
    """
    made = default if factory is None else factory()
    shown = value.plain(made) if written is None else written
    declared = Option(
        name="",
        value=value,
        help=help,
        default=None if shown in ([], {}) else shown,
        short=short,
        metavar=metavar or value.metavar,
        in_journal=in_journal,
        in_manifest=in_manifest,
    )
    if factory is None:
        return dataclasses.field(default=default, metadata={_KEY: declared})
    return dataclasses.field(default_factory=factory, metadata={_KEY: declared})


@functools.cache
def options_of(holder: type[Any]) -> Mapping[str, Option]:
    """Return the options that are fields of a dataclass, by name, in the order of its fields."""
    fields = [field for field in dataclasses.fields(holder) if _KEY in field.metadata]
    return {field.name: dataclasses.replace(field.metadata[_KEY], name=field.name) for field in fields}


def echo(holder: object) -> dict[str, object]:
    """Return the options of an object as JSON has them, by name."""
    kind: Any = type(holder)
    return {name: one.value.plain(getattr(holder, name)) for name, one in options_of(kind).items()}


def take(options: Mapping[str, Option], given: Mapping[str, object]) -> dict[str, Any]:
    """Return the values, each in its one form, of keywords as Python has them; None is as if it weren't given.

    Raises:
        UsageError: An option doesn't take its value; the message names it.
    """
    taken = {}
    for name, value in given.items():
        if value is None:
            continue
        plain = _plain(value)
        fault = options[name].value.fault(plain)
        if fault is not None:
            raise UsageError(f"{dotted((name, *fault.path))}: {fault.message}")
        try:
            taken[name] = options[name].value.read(plain)
        except UsageError as error:
            raise UsageError(f"{name}: {error}") from error
    return taken


def dotted(path: tuple[str | int, ...]) -> str:
    """Return a place inside a value for a message: map.image, columns[2]."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def _plain(value: object) -> object:
    """Return what YAML has for a value of Python."""
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, SupportsIndex) and not isinstance(value, int):  # a whole number of NumPy
        return operator.index(value)
    return value
