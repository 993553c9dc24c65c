"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from toolkit.cli.flags import flag
from toolkit.errors import UsageError

__all__ = [
    "DatasetArgument",
    "DebugOption",
    "JsonOption",
    "ProgressOption",
    "QuietOption",
    "RootsOption",
    "given_roots",
]

JsonOption = Annotated[bool, flag("--json", "Print one JSON object and nothing else on stdout.")]
# Both are read in toolkit.cli.main before parsing, so that they hold for errors of parsing too.
DebugOption = Annotated[bool, flag("--debug", "Show the traceback of an error.")]
QuietOption = Annotated[bool, flag("--quiet", "No progress, no notes, only the result.", short="-q")]
ProgressOption = Annotated[
    bool | None,
    flag("--progress/--no-progress", "Show progress on stderr.", show_default="when stderr is a terminal"),
]
DatasetArgument = Annotated[
    str,
    typer.Argument(
        metavar="DATASET", help="Folder or manifest file, with or without a pin: PATH@sha256:<12 to 64 hex digits>."
    ),
]
RootsOption = Annotated[
    list[str] | None,
    flag(
        "--roots",
        "Where a folder lies that DATASET refers to, as in source=/data/photos; several times for several. inspect "
        "says which there are.",
        metavar="NAME=PATH",
    ),
]


def given_roots(texts: list[str] | None) -> dict[str, str] | None:
    """Return what --roots says: a path for each name. Raises UsageError."""
    roots: dict[str, str] = {}
    for text in texts or ():
        name, equals, path = text.partition("=")
        if not (name and equals and path):
            raise UsageError(f"--roots {text!r} is not NAME=PATH, as in source=/data/photos")
        if name in roots:
            raise UsageError(f"--roots: {name!r} is given twice")
        roots[name] = path
    return roots or None
