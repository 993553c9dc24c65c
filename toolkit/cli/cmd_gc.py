"""`toolkit gc`: remove what no kept version of a dataset names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from toolkit.cli.options import DebugOption, JsonOption, envvar
from toolkit.cli.output import note, print_document, print_line
from toolkit.cli.source_options import names_of

__all__ = ["gc"]

_SHOWN_FOREIGN = 5


def gc(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="The dataset's folder.")],
    keep: Annotated[
        Sequence[str] | None,
        typer.Option(
            "--keep",
            envvar=envvar("--keep"),
            parser=names_of,
            metavar="PIN,...",
            help="Versions to keep besides the current one: their pins, or 12 or more digits.",
        ),
    ] = None,
    delete: Annotated[
        bool,
        typer.Option("--delete", envvar=envvar("--delete"), help="Remove the files; without it they are only listed."),
    ] = False,
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
