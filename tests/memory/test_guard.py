"""A guard over memory: when it looks, what it says, and what it does before."""

from __future__ import annotations

import gc
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest

from toolkit.errors import LoaderError, UsageError
from toolkit.memory import guard as guard_module
from toolkit.memory.budget import Budget, process_budget
from toolkit.memory.guard import MemoryGuard, check_memory, set_memory_guard
from toolkit.memory.holding import Holding
from toolkit.memory.system import SystemMemory

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
MIB = 1 << 20


@pytest.mark.parametrize("wrong", [0, -1, "0", "12 apples", "12M", True, 1.5])
def test_a_limit_that_is_no_size_is_refused(wrong: object) -> None:
    with pytest.raises(UsageError):
        set_memory_guard(wrong)  # type: ignore[arg-type]


def test_it_names_who_has_what() -> None:
    gc.collect()
    budget = Budget(None, process_budget())
    before = process_budget().used
    budget.add(9 * MIB)
    holding = Holding(budget, 3, 64, 95, 5 * MIB)
    token = holding.token()
    holding.delivered = True
    with pytest.raises(LoaderError) as caught:
        MemoryGuard(MIB, SystemMemory()).check()
    said = str(caught.value)
    assert f"of {MIB} bytes (1.0 MiB), the limit of toolkit.set_memory_guard(). This process has" in said
    assert "epoch 3, positions 64..95, 5242880 bytes (5.0 MiB), delivered: other values" in said
    if not before:
        assert f"the program holds {5 * MIB} bytes (5.0 MiB), batches in flight, filled or not, 0 bytes" in said
        assert f"other memory of loaders {4 * MIB} bytes (4.0 MiB)" in said
    for advice in ("Let go of batches", "max_bytes=", "toolkit.set_memory_limit()"):
        assert advice in said
    del token
    budget.release(4 * MIB)


def test_it_names_the_control_group_and_what_other_processes_have(tmp_path: Path) -> None:
    group = tmp_path / "sys/fs/cgroup/job"
    group.mkdir(parents=True)
    proc = tmp_path / "proc/self"
    proc.mkdir(parents=True)
    (proc / "cgroup").write_text("0::/job\n")
    (proc / "mountinfo").write_text("30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
    (proc / "status").write_text("RssAnon: 1048576 kB\nRssShmem: 0 kB\n")
    (group / "memory.max").write_text(f"{4 << 30}\n")
    (group / "memory.current").write_text(f"{4 << 30}\n")
    (group / "memory.stat").write_text(f"inactive_file {10 * MIB}\n")
    with pytest.raises(LoaderError) as caught:
        MemoryGuard(None, SystemMemory(tmp_path)).check()
    used = (4 << 30) - 10 * MIB
    said = str(caught.value)
    assert f"{used} bytes (4086.0 MiB) in use of {4 << 30} bytes (4096.0 MiB)" in said
    assert f"the limit of control group {group}/memory.max" in said
    assert f"other processes have {used - (1 << 30)} bytes (3062.0 MiB)" in said


def test_free_blocks_are_given_back_before_it_raises() -> None:
    # In a process of its own: what earlier tests left would be given back as well.
    code = """
        import time
        from toolkit.errors import LoaderError
        from toolkit.memory.budget import Budget, process_budget
        from toolkit.memory.guard import MemoryGuard
        from toolkit.memory.pool import BlockPool
        from toolkit.memory.system import SystemMemory
        pool = BlockPool(2, Budget(None, process_budget()))
        block = pool.lend(100 << 20)
        block[:] = 1
        guard = MemoryGuard(SystemMemory().own_bytes() - (50 << 20), SystemMemory())
        try:
            guard.check()
        except LoaderError:
            del block
            time.sleep(0.06)
            guard.check()
        else:
            raise AssertionError("what is lent is over the limit")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_what_lies_in_a_hole_of_the_heap_is_given_back_too() -> None:
    """A block that fits between what others have there is no mapping of its own, so freeing it alone gives nothing."""
    code = """
        import ctypes, time
        from toolkit.memory.budget import Budget, process_budget
        from toolkit.memory.guard import MemoryGuard
        from toolkit.memory.pool import BlockPool
        from toolkit.memory.system import SystemMemory
        libc = ctypes.CDLL(None)
        libc.malloc.restype = ctypes.c_void_p
        parts = [libc.malloc(100_000) for _ in range(2000)]
        stays = libc.malloc(100_000)
        for part in parts:
            libc.free(ctypes.c_void_p(part))
        pool = BlockPool(2, Budget(None, process_budget()))
        block = pool.lend(100 << 20)
        assert parts[0] <= block.ctypes.data < stays
        block[:] = 1
        guard = MemoryGuard(SystemMemory().own_bytes() - (50 << 20), SystemMemory())
        del block
        guard.check()
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_a_look_is_rare_and_what_it_saw_stays_until_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(guard_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    guard = MemoryGuard(1, SystemMemory())
    for _ in range(3):
        with pytest.raises(LoaderError):
            guard.check()
    guard.limit = 1 << 60
    with pytest.raises(LoaderError):
        guard.check()
    now[0] += 0.06
    guard.check()


def test_no_guard_is_the_default_and_none_lifts_one() -> None:
    check_memory()
    try:
        set_memory_guard(1)
        with pytest.raises(LoaderError):
            check_memory()
    finally:
        set_memory_guard(None)
    check_memory()


def test_a_forked_child_has_a_guard_that_works() -> None:
    code = """
        import os
        from toolkit.errors import LoaderError
        from toolkit.memory import guard
        guard.set_memory_guard(1)
        guard._guard._lock.acquire()
        pid = os.fork()
        if pid == 0:
            try:
                guard.check_memory()
            except LoaderError:
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
