"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from toolkit.cli.flags import flag

__all__ = ["DatasetArgument", "DebugOption", "JsonOption", "ProgressOption", "QuietOption"]

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
