"""Options that several commands share, and how option values are read. Each flag has a TOOLKIT_* twin."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable
from typing import Annotated

import typer

from toolkit.errors import UsageError, did_you_mean
from toolkit.memory.sizes import parse_bytes
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
    try:
        return parse_bytes(value)
    except UsageError as error:
        raise typer.BadParameter(str(error)) from None


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
