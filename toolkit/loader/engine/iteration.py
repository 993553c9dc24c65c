"""An iteration that stays broken once it broke: a generator would end quietly, and the epoch would be short."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Generator, Iterator
from typing import Any, TypeVar

from toolkit.errors import LoaderError, UsageError

__all__ = ["Iteration"]

_Batch = TypeVar("_Batch")
_RUNNING = "generator already executing"


class Iteration(Iterator[_Batch]):
    """Gives the batches of a generator; after an error of it, an error that names the first one.

    The interpreter's end ends it before modules are taken apart, which its clean-up needs.
    """

    def __init__(self, batches: Generator[_Batch, None, None]) -> None:
        self._batches = batches
        self._broken: str | None = None
        self._user: threading.Thread | None = None
        _alive.add(self)

    def __next__(self) -> _Batch:
        if self._user is None:
            self._user = threading.current_thread()
        try:
            if self._broken is not None:
                raise LoaderError(f"this iteration ended with an error, its epoch is not complete: {self._broken}")
            return next(self._batches)
        except StopIteration:
            raise
        except BaseException as error:
            if isinstance(error, ValueError) and str(error) == _RUNNING:
                raise LoaderError(
                    "another thread is taking a batch from this iteration: let one thread take them, and hand them on "
                    "in a queue, or give each thread a loader of its own, with rank= and world_size="
                ) from None
            self._broken = self._broken or str(error) or type(error).__name__
            if _ending.is_set() and threading.current_thread().daemon:
                threading.Event().wait()  # the interpreter drops this thread where it stands, with no word about it
            raise

    def __reduce__(self) -> tuple[Any, ...]:
        raise UsageError("an iteration doesn't pickle: pickle the loader, or its state_dict(), and begin a new one")

    def note_fork(self) -> None:
        """Let it go no further, here in the child: what fills its batches runs in the parent."""
        if self._batches.gi_frame is not None:  # type: ignore[attr-defined]  # it isn't over
            self._broken = self._broken or "it began before a fork: open a new one in the child process"

    def end(self) -> None:
        """Run the generator's clean-up, unless a thread that goes on is at it."""
        user = self._user
        if user is not None and user is not threading.current_thread() and user.is_alive():
            return
        if self._batches.gi_frame is not None:  # type: ignore[attr-defined]  # it isn't over
            self._broken = self._broken or "the interpreter is ending"
            try:
                self._batches.close()
            except ValueError as error:
                if str(error) != _RUNNING:
                    raise


_alive: weakref.WeakSet[Iteration[Any]] = weakref.WeakSet()
_ending = threading.Event()


def _end_all() -> None:
    """What lives on is dropped when half of Python is gone: an iterator that torch, say, keeps in a cycle."""
    _ending.set()
    for iteration in list(_alive):
        iteration.end()


def _note_fork() -> None:
    for iteration in list(_alive):
        iteration.note_fork()


atexit.register(_end_all)
os.register_at_fork(after_in_child=_note_fork)
