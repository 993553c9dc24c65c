"""Bring pieces from the thread that adds records to the one that writes shards, in order and a few at a time."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

__all__ = ["Flow"]

_In = TypeVar("_In")
_Out = TypeVar("_Out")


class Flow(Generic[_In, _Out]):
    """`make` runs on several threads, `take` on one thread of its own, in the order of put(). put() is for one thread.

    An error of either is raised by the next put(), or by close().
    """

    def __init__(self, make: Callable[[_In], _Out], take: Callable[[_Out], None], threads: int) -> None:
        """Start the threads."""
        self._make = make
        self._take = take
        self._error: BaseException | None = None
        self._ended = False
        self._room = threading.Semaphore(threads + 1)  # what is being made, what is being taken
        self._made: queue.SimpleQueue[Future[_Out] | None] = queue.SimpleQueue()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="toolkit-pack")
        self._thread = threading.Thread(target=self._run, name="toolkit-writer", daemon=True)
        self._thread.start()

    def put(self, piece: _In) -> None:
        """Hand on a piece; wait when there are enough already."""
        self._room.acquire()
        try:
            self._check()
            self._made.put(self._pool.submit(self._make, piece))
        except BaseException:
            self._room.release()
            raise

    def check(self) -> None:
        """Raise what went wrong."""
        self._check()

    def close(self) -> None:
        """Wait until everything is taken."""
        self._end()
        self._check()

    def abort(self) -> None:
        """Stop, and return when no thread does anything any more."""
        if self._error is None:
            self._error = RuntimeError("the writer was given up")
        self._end()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _end(self) -> None:
        if not self._ended:
            self._ended = True
            self._made.put(None)
        self._thread.join()  # also when an interrupt ended the wait of close()
        self._pool.shutdown()

    def _run(self) -> None:
        while (future := self._made.get()) is not None:
            try:
                if self._error is None:
                    self._take(future.result())
                else:
                    future.cancel()
                    with contextlib.suppress(BaseException):
                        future.result()
            except BaseException as error:
                self._error = self._error or error
            finally:
                self._room.release()
