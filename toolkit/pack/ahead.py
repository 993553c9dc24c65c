"""Read the next piece of a slice while the one before is packed: on a thread of its own, in the same order."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Generator, Iterator

from toolkit.sources.base import Rows

__all__ = ["read_ahead"]

_WAITING = 0.05  # seconds until a full queue is looked at again


def read_ahead(pieces: Iterator[Rows]) -> Generator[Rows]:
    """Yield what `pieces` does, which is asked for the next while the consumer has one; at most two wait.

    An error comes where it would have come. Closing the generator ends the thread, and closes `pieces` there.
    """
    waiting: queue.Queue[Rows | BaseException | None] = queue.Queue(1)
    stopped = threading.Event()
    reader = threading.Thread(target=_read, args=(pieces, waiting, stopped), name="toolkit-read", daemon=True)
    reader.start()
    try:
        while (one := waiting.get()) is not None:
            if isinstance(one, BaseException):
                raise one
            yield one
    finally:
        stopped.set()
        reader.join()


def _read(pieces: Iterator[Rows], waiting: queue.Queue[Rows | BaseException | None], stopped: threading.Event) -> None:
    last: BaseException | None = None
    try:
        for rows in pieces:
            if not _put(rows, waiting, stopped):
                break
    except BaseException as error:  # whatever it is, the consumer raises it
        last = error
    finally:
        if isinstance(pieces, Generator):
            pieces.close()
    _put(last, waiting, stopped)


def _put(
    one: Rows | BaseException | None, waiting: queue.Queue[Rows | BaseException | None], stopped: threading.Event
) -> bool:
    """Hand something on; False when nobody wants it any more."""
    while not stopped.is_set():
        with contextlib.suppress(queue.Full):
            waiting.put(one, timeout=_WAITING)
            return True
    return False
