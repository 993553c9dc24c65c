"""Tell one thread that something is done.

Not with threading.Event: where an interrupt ends a wait for one at a bad instruction, its lock is open when the thread
that sets it believes to hold it, and that thread dies. Nor with SimpleQueue: its get(timeout) may wait without end.
"""

from __future__ import annotations

import contextlib
import threading

__all__ = ["Done"]


class Done:
    """Is set once something is done, as an Event is, for one who waits."""

    def __init__(self) -> None:
        self._unsaid = threading.Lock()  # closed until it is said
        self._unsaid.acquire()

    def set(self) -> None:
        """Say it; more often does no harm."""
        with contextlib.suppress(RuntimeError):  # it is open already
            self._unsaid.release()

    def is_set(self) -> bool:
        """Whether it is said, and nobody has waited for it."""
        return not self._unsaid.locked()

    def wait(self, seconds: float) -> bool:
        """Wait so long at the most; is it done?"""
        return self._unsaid.acquire(timeout=seconds)
