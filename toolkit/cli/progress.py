"""Progress on stderr: a bar on a terminal, a line now and then elsewhere when it was asked for."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

__all__ = ["shown_progress"]

Update = Callable[[int, int], None]

_BAR_SECONDS = 0.1
_LINE_SECONDS = 5.0


@contextlib.contextmanager
def shown_progress(what: str, unit: str, asked: bool | None, *, quiet: bool = False) -> Iterator[Update]:
    """Yield a function to call, from any thread, with (done, total) as often as one likes.

    Args:
        what: What is being done.
        unit: What is counted.
        asked: True and False decide; None shows it when stderr is a terminal.
        quiet: Never show it.
    """
    terminal = sys.stderr.isatty()
    if quiet or not (terminal if asked is None else asked):
        yield lambda done, total: None
    elif terminal:
        with _bar(what, unit) as update:
            yield _throttled(update, _BAR_SECONDS)
    else:
        yield _throttled(lambda done, total: _line(what, unit, done, total), _LINE_SECONDS)


@contextlib.contextmanager
def _bar(what: str, unit: str) -> Iterator[Update]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    counted = (
        (DownloadColumn(binary_units=True), TextColumn("left:"))
        if unit == "bytes"
        else (MofNCompleteColumn(), TextColumn(f"{unit}, left:"))
    )
    columns = (TextColumn("{task.description}"), BarColumn(), *counted, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def _line(what: str, unit: str, done: int, total: int) -> None:
    sys.stderr.write(f"{what}: {done:,} of {total:,} {unit}\n")
    sys.stderr.flush()


def _throttled(update: Update, seconds: float) -> Update:
    last = time.monotonic()

    def throttled(done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if done == total or now - last >= seconds:
            last = now
            update(done, total)

    return throttled
