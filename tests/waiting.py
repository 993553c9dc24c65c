"""Wait for what another thread, another process or the file system's clock is going to do, however long it takes."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

PATIENCE = 300.0
"""Seconds until a test gives up waiting for what is sure to come: no machine that works pauses for so long."""


def wait_until(true: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Return once `true()` holds."""
    until = time.monotonic() + seconds
    while True:
        late = time.monotonic() > until
        if true():
            return
        assert not late, "it doesn't come true"
        time.sleep(0.005)


def tick(folder: Path) -> None:
    """Return when a file that changes from now on has a later time than any file had that changed before.

    Some file systems know the time to a hundredth of a second only.
    """
    with tempfile.TemporaryFile(dir=folder) as file:
        before = os.fstat(file.fileno()).st_ctime_ns
        number = 0
        while os.fstat(file.fileno()).st_ctime_ns <= before:
            number += 1
            os.utime(file.fileno(), ns=(0, number))
