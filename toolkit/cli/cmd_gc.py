"""`toolkit gc`: remove what no kept version of a dataset names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from toolkit.cli.flags import flag
from toolkit.cli.options import DebugOption, JsonOption
from toolkit.cli.output import note, print_document, print_line
from toolkit.options.compound import Names

__all__ = ["gc"]

_SHOWN_FOREIGN = 5


def gc(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="The dataset's folder.")],
    keep: Annotated[
        Sequence[str] | None,
        flag(
            "--keep",
            "Versions to keep besides the current one: their pins, or 12 or more digits.",
            Names(),
            metavar="PIN,...",
        ),
    ] = None,
    delete: Annotated[bool, flag("--delete", "Remove the files; without it they are only listed.")] = False,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """List the files that neither the current version nor a kept one names; remove them with --delete.

    The last line on stdout is for programs: files=12 bytes=4096 deleted=false.
    """
    from toolkit.checks.gc import gc as run_gc

    found = run_gc(dataset, keep=tuple(keep or ()), delete=delete)
    if json:
        print_document("toolkit.gc/1", found)
        return
    for name in found.files:
        print_line(name)
    if found.foreign:
        more = ", …" if len(found.foreign) > _SHOWN_FOREIGN else ""
        names = ", ".join(map(repr, found.foreign[:_SHOWN_FOREIGN]))
        note(f"{len(found.foreign):,} left alone, which are no files of the format: {names}{more}")
    print_line(f"files={len(found.files)} bytes={found.bytes} deleted={'true' if delete else 'false'}")
