"""Tell one thread that something is done.

Not with threading.Event: where an interrupt ends a wait for one at a bad instruction, its lock is open when the thread
that sets it believes to hold it, and that thread dies.
"""

from __future__ import annotations

import queue

__all__ = ["Done"]


class Done:
    """Is set once something is done, as an Event is, for one who waits."""

    def __init__(self) -> None:
        self._said: queue.SimpleQueue[None] = queue.SimpleQueue()

    def set(self) -> None:
        """Say it; more often does no harm."""
        self._said.put(None)

    def is_set(self) -> bool:
        """Whether it is said, and nobody has waited for it."""
        return not self._said.empty()

    def wait(self, seconds: float) -> bool:
        """Wait so long at the most; is it done?"""
        try:
            self._said.get(timeout=seconds)
        except queue.Empty:
            return False
        return True
