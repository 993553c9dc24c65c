"""Memory of this process, as Linux counts it; None on systems that don't tell."""

from __future__ import annotations

import resource
import sys
import threading
from types import TracebackType
from typing import Self

from toolkit.memory.system import proc_bytes

__all__ = ["AnonymousPeak", "available_bytes", "peak_resident_bytes"]

_EVERY_SECONDS = 0.005


def peak_resident_bytes() -> int | None:
    """Return the highest resident memory so far, mapped files included."""
    from_status = proc_bytes("/proc/self/status", "VmHWM").get("VmHWM")
    if from_status is not None:
        return from_status
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def available_bytes() -> int | None:
    """Return how much memory new work may take without swapping."""
    return proc_bytes("/proc/meminfo", "MemAvailable").get("MemAvailable")


class AnonymousPeak:
    """Watches the process's anonymous memory inside a `with` block, from a thread of its own."""

    def __init__(self) -> None:
        self._before = proc_bytes("/proc/self/status", "RssAnon").get("RssAnon")
        self._highest = self._before or 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="toolkit-bench-memory", daemon=True)

    def __enter__(self) -> Self:
        if self._before is not None:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._before is not None:
            self._thread.join()

    @property
    def growth_bytes(self) -> int | None:
        """How far it rose above what it was when this was made."""
        return None if self._before is None else self._highest - self._before

    def _watch(self) -> None:
        while True:
            self._highest = max(self._highest, proc_bytes("/proc/self/status", "RssAnon").get("RssAnon", 0))
            if self._stop.wait(_EVERY_SECONDS):
                return
