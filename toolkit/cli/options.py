"""Options that several commands share, and how option values are read. Each flag has a TOOLKIT_* twin."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Annotated

import typer

from toolkit.errors import did_you_mean
from toolkit.processors import processors

__all__ = [
    "DatasetArgument",
    "DebugOption",
    "JsonOption",
    "ProgressOption",
    "QuietOption",
    "at_least",
    "choice",
    "envvar",
    "parse_budget",
    "parse_jobs",
    "parse_size",
    "parse_threads",
]

_UNITS = {"": 1, "b": 1} | {
    f"{letter}{middle}b": base ** (power + 1)
    for power, letter in enumerate("kmgt")
    for middle, base in (("", 1000), ("i", 1024))
}
_SIZE = re.compile(r"(?P<number>\d+(\.\d+)?|\.\d+) *(?P<unit>[A-Za-z]*)", re.ASCII)
_MOST_BYTES = (1 << 63) - 1


def envvar(flag: str) -> str:
    """Return the environment twin of a flag: --shard-size has TOOLKIT_SHARD_SIZE."""
    return "TOOLKIT_" + flag.removeprefix("--").replace("-", "_").upper()


JsonOption = Annotated[
    bool, typer.Option("--json", envvar=envvar("--json"), help="Print one JSON object and nothing else on stdout.")
]
# Both are read in toolkit.cli.main before parsing, so that they hold for errors of parsing too.
DebugOption = Annotated[bool, typer.Option("--debug", envvar=envvar("--debug"), help="Show the traceback of an error.")]
QuietOption = Annotated[
    bool,
    typer.Option("--quiet", "-q", envvar=envvar("--quiet"), help="No progress, no notes, only the result."),
]
ProgressOption = Annotated[
    bool | None,
    typer.Option(
        "--progress/--no-progress",
        envvar=envvar("--progress"),
        show_default="when stderr is a terminal",
        help="Show progress on stderr.",
    ),
]
DatasetArgument = Annotated[
    str,
    typer.Argument(
        metavar="DATASET", help="Folder or manifest file, with or without a pin: PATH@sha256:<12 to 64 hex digits>."
    ),
]


def choice(known: Iterable[str] | type[enum.Enum]) -> Callable[[str], str]:
    """Return a parser that takes one of `known` (an enum: its values), and names the nearest for anything else."""
    values = tuple(one.value if isinstance(one, enum.Enum) else one for one in known)

    def parse(value: str) -> str:
        if value not in values:
            raise typer.BadParameter(f"{value!r} is not one of {', '.join(values)}.{did_you_mean(value, values)}")
        return value

    return parse


def parse_size(value: str | int) -> int:
    """Return a size in bytes: 4096, 100MB (10^6), 256MiB (2^20), 1.5GiB."""
    text = str(value).strip()
    match = _SIZE.fullmatch(text)
    unit = "" if match is None else match["unit"].lower()
    if unit in ("k", "m", "g", "t"):
        number, letter = text[:-1].strip(), unit.upper()
        raise typer.BadParameter(
            f"{text!r} can mean two sizes: say {number}{letter}B (powers of 1000) or {number}{letter}iB (of 1024)"
        )
    if match is None or unit not in _UNITS:
        raise typer.BadParameter(f"{text!r} is not a size: expected bytes or a unit, as in 4096, 100MB, 256MiB, 1.5GiB")
    nbytes = int(Decimal(match["number"]) * _UNITS[unit])
    if nbytes > _MOST_BYTES:
        raise typer.BadParameter(f"{text!r} is more bytes than a file can have")
    return nbytes


def parse_budget(value: str | float) -> int | float:
    """Return a number of samples, or a share of all of them as a float: 12, 1%, 0.5%."""
    text = str(value).strip()
    match = re.fullmatch(r"(\d{1,3}(\.\d+)?) *%", text, re.ASCII)
    if match is None:
        return at_least(0)(text)
    share = float(match[1]) / 100
    if share > 1:
        raise typer.BadParameter(f"{text!r} is more than all samples")
    return share


def parse_jobs(value: str | int) -> int:
    """Return a number of jobs; "auto" is the number of processors this process may use."""
    if value == "auto":
        return processors()
    return _count(str(value))


def parse_threads(value: str) -> tuple[int, ...]:
    """Return thread counts, given as 1,2,4; "auto" is the number of processors this process may use."""
    counts = [processors() if part == "auto" else _count(part) for part in map(str.strip, value.split(","))]
    return tuple(dict.fromkeys(counts))


def at_least(least: int) -> Callable[[str | int], int]:
    """Return a parser for whole numbers that aren't below `least`."""

    def parse(value: str | int) -> int:
        text = str(value).strip()
        if not re.fullmatch(r"-?\d{1,18}", text, re.ASCII):
            raise typer.BadParameter(f"{text!r} is not a whole number")
        if int(text) < least:
            raise typer.BadParameter(f"{text} is less than {least}")
        return int(text)

    return parse


def _count(text: str) -> int:
    if not re.fullmatch(r"\d{1,6}", text, re.ASCII) or int(text) == 0:
        hint = did_you_mean(text, ["auto"])
        raise typer.BadParameter(f"{text!r} is neither a number of at least 1 nor 'auto'.{hint}")
    return int(text)
