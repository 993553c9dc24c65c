"""Files out of the page cache, and what a process then reads: how often, how many bytes, how many of them from disk.

Linux only. The pages of files go; names and inodes stay known to the system, and a disk may have a cache of its own.
"""

from __future__ import annotations

import ctypes
import dataclasses
import mmap
import os
import resource
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from turns import BenchmarkError

__all__ = ["Usage", "drop_pages", "readahead_bytes", "resident_bytes", "resident_ranges"]

_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclasses.dataclass(frozen=True)
class Usage:
    """What this process has used so far; or between two moments, as their difference.

    Attributes:
        seconds: Of wall time.
        cpu_seconds: Of all its threads.
        reads: Calls of read and its kin; pages that a map brings in are none.
        read_bytes: What these calls returned.
        disk_bytes: What was fetched from disk, by calls, by maps, and ahead of either.
        faults: Times that a map had to wait for the disk.
    """

    seconds: float
    cpu_seconds: float
    reads: int
    read_bytes: int
    disk_bytes: int
    faults: int

    @classmethod
    def now(cls) -> Usage:
        """Return what was used up to now, the reads by which this looks at itself left out."""
        descriptor = os.open("/proc/self/io", os.O_RDONLY)
        try:
            text = os.read(descriptor, 1 << 16)
        finally:
            os.close(descriptor)
        counted = {name: int(number) for name, number in (line.split(": ") for line in text.decode().splitlines())}
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_majflt
        used = cls(
            time.perf_counter(),
            time.process_time(),
            counted["syscr"] - len(_looks),
            counted["rchar"] - sum(_looks),
            counted["read_bytes"],
            faults,
        )
        _looks.append(len(text))
        return used

    def since(self, before: Usage) -> Usage:
        """Return what was used since then."""
        used = {
            field.name: getattr(self, field.name) - getattr(before, field.name) for field in dataclasses.fields(self)
        }
        return Usage(**used)


_looks: list[int] = []  # bytes of each


def drop_pages(files: Sequence[Path]) -> None:
    """Write files to disk and take their pages out of the page cache. Raises BenchmarkError when some stay."""
    for path in files:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
    left = resident_bytes(files)
    if left:
        raise BenchmarkError(f"{left} bytes of {files[0].parent} stay in the page cache: another process uses them")


def resident_bytes(files: Sequence[Path]) -> int:
    """Return how many bytes of files are in the page cache, whoever brought them there."""
    return sum(int(_resident(path).sum()) for path in files) * mmap.PAGESIZE


def resident_ranges(files: Sequence[Path]) -> int:
    """Return how many ranges of files are in the page cache: after cold reads, the fewest that were fetched."""
    return sum(int(np.diff(_resident(path), prepend=0).clip(0).sum()) for path in files)


def readahead_bytes(path: Path) -> int:
    """Return how far the system reads ahead on the disk that a file or folder lies on; 0 where it doesn't say."""
    device = path.stat().st_dev
    setting = Path(f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb")
    return int(setting.read_text()) * 1024 if setting.exists() else 0


def _resident(path: Path) -> NDArray[np.int8]:
    """Return 1 for each page of a file that is in the page cache, 0 for the others."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        pages = np.zeros(-(-len(mapped) // mmap.PAGESIZE), np.int8)
        view = np.frombuffer(mapped, np.uint8)
        address, length = ctypes.c_void_p(view.ctypes.data), ctypes.c_size_t(len(mapped))
        if _LIBC.mincore(address, length, ctypes.c_void_p(pages.ctypes.data)):
            raise OSError(ctypes.get_errno(), f"mincore of {path}")
        del view
        return pages & 1
