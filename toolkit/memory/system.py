"""What Linux says of memory: this process's own, and the limits above it, beyond which it kills.

A control group's limit holds for all processes in it and in those below, so of nested ones the one with the least room
counts; above them all stands the machine itself. Files that are cached, and of the kernel's own memory what it can do
without, give way before anybody is killed and count as room; so does swap. The nested groups are found once, their
limits are read at each look: they may be changed while a process runs.
"""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from pathlib import Path

from toolkit.memory.sizes import size_text

__all__ = ["MemoryLevel", "SystemMemory", "proc_bytes", "trim_heap"]

_SPARE_PARTS = 20  # of a limit: the last part is spare
_MOST_SPARE = 1 << 30
_PLENTY = 1 << 29  # more slack than this is not counted exactly


@dataclass(frozen=True, slots=True)
class MemoryLevel:
    """A limit.

    Attributes:
        limit: In bytes.
        used: Bytes in use that can't be reclaimed, by everybody it holds for.
        slack: Bytes that may still be taken before it is time to stop; negative when it is. Where it is plenty, there
            may be more.
        source: Where the limit comes from.
    """

    limit: int
    used: int
    slack: int
    source: str

    def __str__(self) -> str:
        return f"{size_text(self.used)} in use of {size_text(self.limit)}, the limit of {self.source}"


class SystemMemory:
    """Reads /proc and /sys/fs/cgroup below `root`."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._proc = root / "proc"
        self._groups = _find_groups(root)

    def own_bytes(self) -> int | None:
        """Return this process's anonymous and shared memory, mapped files left out; None where nothing tells."""
        status = proc_bytes(self._proc / "self/status", "RssAnon", "RssShmem")
        return sum(status.values()) if status else None

    def machine(self) -> dict[str, int]:
        """Return MemTotal, MemAvailable and SwapFree of the machine in bytes, those that are told."""
        return proc_bytes(self._proc / "meminfo", "MemTotal", "MemAvailable", "SwapFree")

    def tightest(self) -> MemoryLevel | None:
        """Return the limit with the least slack; None where nothing tells of any."""
        machine = self.machine()
        swap = machine.get("SwapFree", 0)
        levels = [level for level in (group.level(swap) for group in self._groups) if level is not None]
        if "MemAvailable" in machine:
            total, available = machine["MemTotal"], machine["MemAvailable"]
            levels.append(MemoryLevel(total, total - available, available + swap - _spare(total), "this machine"))
        return min(levels, key=lambda level: level.slack, default=None)


def trim_heap() -> None:
    """Let the C library give the system the memory that was freed between what is still in use, where it can (glibc).

    A large block is not always a mapping of its own, gone when it is freed: where the heap has a hole that is large
    enough, it lies there, and the hole stays this process's.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim is not None:
        trim(ctypes.c_size_t(0))


@dataclass(frozen=True, slots=True)
class _Group:
    """A memory control group, by the names that its files have in this version of control groups."""

    folder: Path
    limit: str
    usage: str
    reclaimable: tuple[str, ...]

    def level(self, machine_swap: int) -> MemoryLevel | None:
        """Return how much of its limit is used, or None without a limit. Reads the long memory.stat only if need be."""
        limit, usage = _number(self.folder / self.limit), _number(self.folder / self.usage)
        if limit is None or usage is None:
            return None
        source = f"control group {self.folder / self.limit}"
        slack = limit - usage - _spare(limit)
        if slack <= _PLENTY:
            reclaimable = min(usage, sum(_stat(self.folder / "memory.stat", self.reclaimable)))
            slack += reclaimable + self._swap(limit - usage, machine_swap)
            usage -= reclaimable
        return MemoryLevel(limit, usage, slack, source)

    def _swap(self, room: int, machine_swap: int) -> int:
        """Return how much of the machine's free swap it may take."""
        most, used = _number(self.folder / "memory.swap.max"), _number(self.folder / "memory.swap.current")
        if most is None or used is None:  # version 1 counts memory and swap together
            most = _number(self.folder / "memory.memsw.limit_in_bytes")
            both = _number(self.folder / "memory.memsw.usage_in_bytes")
            if most is None or both is None:
                return machine_swap
            used = both + room
        return max(0, min(machine_swap, most - used))


def _spare(limit: int) -> int:
    """Return what of a limit is left for what is taken between two looks."""
    return min(limit // _SPARE_PARTS, _MOST_SPARE)


def proc_bytes(path: Path | str, *names: str) -> dict[str, int]:
    """Return the "Name:  123 kB" lines of a file in /proc in bytes, those of `names` that it has."""
    found: dict[str, int] = {}
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            for line in file:
                name, _, rest = line.partition(":")
                if name in names:
                    found[name] = int(rest.split()[0]) * 1024
                    if len(found) == len(names):
                        break
    except OSError:
        pass
    return found


def _find_groups(root: Path) -> list[_Group]:
    """Return this process's memory control groups, the innermost first, of both versions: a system may have both."""
    groups: list[_Group] = []
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        if not controllers:
            kind, names = "cgroup2", ("memory.max", "memory.current")
            cached: tuple[str, ...] = ("inactive_file", "active_file", "slab_reclaimable")
        elif "memory" in controllers.split(","):
            kind, names = "cgroup", ("memory.limit_in_bytes", "memory.usage_in_bytes")
            cached = ("total_inactive_file", "total_active_file")
        else:
            continue
        groups += [_Group(folder, *names, cached) for folder in _folders(root, kind, path)]
    return groups


def _folders(root: Path, kind: str, path: str) -> list[Path]:
    """Return the folders of a group and those above it, as far as they are to be seen from here."""
    for line in _lines(root / "proc/self/mountinfo"):
        mount, _, filesystem = line.partition(" - ")
        fstype, _, options = filesystem.split(" ", 2)
        if fstype != kind or (kind == "cgroup" and "memory" not in options.split(",")):
            continue
        inside, point = mount.split(" ")[3:5]
        top = root / point.lstrip("/")
        # In a container the mount may show only the process's own part of the tree.
        below = os.path.relpath(path, inside)
        folder = top if below.startswith("..") else top / below
        return [each for each in (folder, *folder.parents) if each.is_relative_to(top)]
    return []


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").splitlines()
    except OSError:
        return []


def _number(path: Path) -> int | None:
    """Return the number in a file; None without the file, and for "max"."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _stat(path: Path, names: tuple[str, ...]) -> list[int]:
    pairs = (line.split() for line in _lines(path))
    return [int(number) for name, number in pairs if name in names]
