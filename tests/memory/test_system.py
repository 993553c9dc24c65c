"""Limits of memory, read from trees of files as kernels with version 1, version 2, or both of control groups show."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from toolkit.checks.doctor import doctor
from toolkit.memory.system import MemoryLevel, SystemMemory, proc_bytes

MIB = 1 << 20
GIB = 1 << 30
UNLIMITED = 9223372036854771712  # version 1's word for it
V2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = (
    "34 31 0:31 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
    "33 31 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
)


def machine(
    root: Path, cgroup: str, mounts: str, *, total: int = 64 * GIB, available: int = 40 * GIB, swap: int = 0
) -> Path:
    """Write what /proc says."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(cgroup)
    (root / "proc/self/mountinfo").write_text(f"23 1 8:1 / / rw shared:1 - ext4 /dev/vda rw\n{mounts}")
    (root / "proc/self/status").write_text("Name:\tpython\nRssAnon:\t  100 kB\nRssFile:\t 7 kB\nRssShmem:\t  20 kB\n")
    meminfo = {"MemTotal": total, "MemFree": 1 << 20, "MemAvailable": available, "SwapFree": swap}
    (root / "proc/meminfo").write_text("".join(f"{name}: {size >> 10} kB\n" for name, size in meminfo.items()))
    return root


def group(folder: Path, **files: object) -> None:
    """Write a group's files; in names, "__" stands for a dot."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in files.items():
        (folder / name.replace("__", ".")).write_text(f"{value}\n")


def v2(folder: Path, limit: object, current: int, *, cached: int = 0, slab: int = 0, **more: object) -> None:
    stat = f"anon 5\nfile 9\ninactive_file {cached // 2}\nactive_file {cached - cached // 2}\nslab_reclaimable {slab}"
    group(folder, memory__max=limit, memory__current=current, memory__stat=stat, **more)


def v1(folder: Path, limit: int, usage: int, *, cached: int = 0, **more: object) -> None:
    stat = f"cache 3\ninactive_file 1\ntotal_inactive_file {cached // 2}\ntotal_active_file {cached - cached // 2}"
    group(folder, memory__limit_in_bytes=limit, memory__usage_in_bytes=usage, memory__stat=stat, **more)


def short(memory: SystemMemory) -> MemoryLevel | None:
    """Return the tightest limit if it is time to stop."""
    level = memory.tightest()
    return level if level is not None and level.slack < 0 else None


def test_own_memory_is_anonymous_and_shared(tmp_path: Path) -> None:
    assert SystemMemory(machine(tmp_path, "0::/\n", V2)).own_bytes() == 120 << 10
    assert SystemMemory(tmp_path / "elsewhere").own_bytes() is None


def test_cached_files_and_reclaimable_slabs_are_room(tmp_path: Path) -> None:
    memory = SystemMemory(machine(tmp_path, "0::/job\n", V2))
    folder = tmp_path / "sys/fs/cgroup/job"
    v2(folder, GIB, GIB - MIB, cached=500 * MIB)
    assert short(memory) is None
    v2(folder, GIB, GIB - MIB, cached=20 * MIB, slab=10 * MIB)
    level = short(memory)
    assert level is not None
    assert (level.limit, level.used, level.slack) == (GIB, GIB - 31 * MIB, 31 * MIB - GIB // 20)
    assert str(level).endswith(f"of {GIB} bytes (1024.0 MiB), the limit of control group {folder}/memory.max")


def test_of_nested_groups_the_one_with_the_least_room_counts(tmp_path: Path) -> None:
    memory = SystemMemory(machine(tmp_path, "0::/pod/job/step\n", V2))
    top = tmp_path / "sys/fs/cgroup"
    v2(top / "pod/job/step", "max", 100 * MIB)
    v2(top / "pod/job", 4 * GIB, 4 * GIB - 100 * MIB)
    v2(top / "pod", 8 * GIB, 8 * GIB - 50 * MIB)
    level = short(memory)
    assert level is not None
    assert level.source.endswith("/pod/memory.max")
    v2(top / "pod", 80 * GIB, 8 * GIB)  # raised while the process runs
    level = short(memory)
    assert level is not None
    assert level.source.endswith("/pod/job/memory.max")


def test_version_1_counts_files_of_groups_below_too(tmp_path: Path) -> None:
    mounts = V1 + V2.replace("/sys/fs/cgroup ", "/sys/fs/cgroup/unified ")
    memory = SystemMemory(machine(tmp_path, "5:cpu:/x\n4:cpuset,memory:/a/b\n1:name=systemd:/x\n0::/\n", mounts))
    top = tmp_path / "sys/fs/cgroup/memory"
    v1(top, UNLIMITED, 30 * GIB)
    v1(top / "a", 2 * GIB, 2 * GIB - MIB, cached=GIB)
    v1(top / "a/b", UNLIMITED, GIB)
    assert short(memory) is None
    v1(top / "a", 2 * GIB, 2 * GIB - MIB, cached=MIB)
    level = short(memory)
    assert level is not None
    assert (level.used, level.source) == (2 * GIB - 2 * MIB, f"control group {top}/a/memory.limit_in_bytes")


def test_a_container_sees_its_own_part_of_the_tree(tmp_path: Path) -> None:
    """As Docker shows version 1: the path is the host's, the mount begins at the container."""
    mounts = V1.replace("0:30 / ", "0:30 /docker/abc ")
    memory = SystemMemory(machine(tmp_path, "4:memory:/docker/abc/job\n", mounts))
    v1(tmp_path / "sys/fs/cgroup/memory", GIB, GIB)
    v1(tmp_path / "sys/fs/cgroup/memory/job", GIB, MIB)
    level = short(memory)
    assert level is not None
    assert level.source.endswith("sys/fs/cgroup/memory/memory.limit_in_bytes")


@pytest.mark.parametrize(("inside", "path"), [("/docker/ab", "/docker/abc"), ("/other", "/"), ("/../..", "/")])
def test_a_path_that_is_not_to_be_seen_is_where_the_mount_begins(tmp_path: Path, inside: str, path: str) -> None:
    mounts = V2.replace("0:26 / ", f"0:26 {inside} ")
    memory = SystemMemory(machine(tmp_path, f"0::{path}\n", mounts))
    v2(tmp_path / "sys/fs/cgroup", GIB, GIB)
    level = short(memory)
    assert level is not None
    assert level.used == GIB


@pytest.mark.parametrize(
    ("swap_max", "swap_used", "machine_free", "room"),
    [("0", 0, GIB, 0), (30 * MIB, 10 * MIB, GIB, 20 * MIB), ("max", 0, 40 * MIB, 40 * MIB), ("max", 0, GIB, None)],
)
def test_swap_that_it_may_take_is_room(
    tmp_path: Path, swap_max: object, swap_used: int, machine_free: int, room: int | None
) -> None:
    memory = SystemMemory(machine(tmp_path, "0::/\n", V2, swap=machine_free))
    swap = {"memory__swap__max": swap_max, "memory__swap__current": swap_used}
    v2(tmp_path / "sys/fs/cgroup", GIB, GIB, **swap)
    level = short(memory)
    assert (level and level.slack + GIB // 20) == room


@pytest.mark.parametrize(("both", "room"), [(GIB, 0), (GIB + 30 * MIB, 30 * MIB), (UNLIMITED, None)])
def test_version_1_limits_memory_and_swap_together(tmp_path: Path, both: int, room: int | None) -> None:
    memory = SystemMemory(machine(tmp_path, "4:memory:/\n", V1, swap=GIB))
    used = {"memory__memsw__limit_in_bytes": both, "memory__memsw__usage_in_bytes": GIB}
    v1(tmp_path / "sys/fs/cgroup/memory", GIB, GIB, **used)
    level = short(memory)
    assert (level and level.slack + GIB // 20) == room


def test_the_machine_is_the_outermost_limit(tmp_path: Path) -> None:
    machine(tmp_path, "", "", total=8 * GIB, available=300 * MIB)
    assert short(SystemMemory(tmp_path)) == MemoryLevel(
        8 * GIB, 8 * GIB - 300 * MIB, 300 * MIB - 8 * GIB // 20, "this machine"
    )
    meminfo = tmp_path / "proc/meminfo"
    meminfo.write_text(meminfo.read_text().replace("SwapFree: 0", f"SwapFree: {GIB >> 10}"))
    assert short(SystemMemory(tmp_path)) is None


@pytest.mark.parametrize(("limit", "spare"), [(GIB, GIB // 20), (100 * GIB, GIB)])
def test_the_spare_part_of_a_large_limit_is_a_gibibyte(tmp_path: Path, limit: int, spare: int) -> None:
    memory = SystemMemory(machine(tmp_path, "0::/\n", V2, total=1000 * GIB, available=900 * GIB))
    v2(tmp_path / "sys/fs/cgroup", limit, limit - spare)
    assert short(memory) is None
    v2(tmp_path / "sys/fs/cgroup", limit, limit - spare + 1)
    assert short(memory) == MemoryLevel(
        limit, limit - spare + 1, -1, f"control group {tmp_path}/sys/fs/cgroup/memory.max"
    )


def test_nothing_to_read_is_no_limit(tmp_path: Path) -> None:
    assert SystemMemory(tmp_path).tightest() is None
    level = SystemMemory(machine(tmp_path, "0::/gone\n", V2)).tightest()
    assert level is not None
    assert level.source == "this machine"


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_this_system_is_understood() -> None:
    own = SystemMemory().own_bytes()
    assert own is not None
    assert 5 * MIB < own < proc_bytes("/proc/meminfo", "MemTotal")["MemTotal"]
    assert short(SystemMemory()) is None


def test_the_doctor_shows_the_limit_that_the_guard_goes_by(tmp_path: Path) -> None:
    system = SystemMemory(machine(tmp_path, "0::/pod/job\n", V2))
    v2(tmp_path / "sys/fs/cgroup/pod/job", 4 * GIB, GIB)
    v2(tmp_path / "sys/fs/cgroup/pod", 8 * GIB, GIB)
    found = doctor(system)
    assert (found.memory_bytes, found.memory_available_bytes) == (64 * GIB, 40 * GIB)
    assert found.memory_limit_bytes == 4 * GIB
    assert str(found.memory_limit_source).endswith("pod/job/memory.max")
    level = system.tightest()
    assert level is not None
    assert (level.limit, level.source) == (found.memory_limit_bytes, found.memory_limit_source)
