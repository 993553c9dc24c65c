from __future__ import annotations

import functools
import gc
import sys
import threading

import numpy as np
import pytest

from toolkit.memory.budget import Budget, process_budget
from toolkit.memory.holding import Holding, debug_batches
from toolkit.memory.pool import ALIGNMENT, BlockPool


def test_blocks_are_aligned_writable_and_of_the_size_asked() -> None:
    pool = BlockPool(keep=2)
    for nbytes in (1, 63, 64, 1000, 1 << 20):
        block = pool.lend(nbytes)
        assert block.nbytes == nbytes
        assert block.ctypes.data % ALIGNMENT == 0
        block[:] = 7
    assert pool.lend(0).nbytes == 0


def test_a_block_comes_back_only_when_the_last_view_is_gone() -> None:
    pool = BlockPool(keep=2)
    block = pool.lend(4096)
    address = block.ctypes.data
    view = block.view(np.float32).reshape(32, 32)[3:5]
    del block
    gc.collect()
    other = pool.lend(4096)
    assert other.ctypes.data != address
    del view
    gc.collect()
    assert pool.lend(4096).ctypes.data == address


def test_no_more_blocks_are_kept_than_allowed() -> None:
    pool = BlockPool(keep=1)
    lent = [pool.lend(100) for _ in range(5)]
    lent.clear()
    gc.collect()
    assert len(pool._free[100]) == 1


def test_a_block_may_outlive_its_pool() -> None:
    block = BlockPool(keep=1).lend(10)
    gc.collect()
    block[:] = 1
    del block
    gc.collect()


def test_threads_never_share_a_block() -> None:
    pool = BlockPool(keep=8)
    wrong = []

    def work(mark: int) -> None:
        for _ in range(2000):
            block = pool.lend(256)
            block[:] = mark
            if not (block == mark).all():
                wrong.append(mark)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("idle", [False, True])
def test_giving_back_runs_no_python(keep: int, shared: bool, idle: bool) -> None:
    """An interrupt that hits Python in a finalizer is printed and lost."""
    budget = Budget(None, process_budget() if shared else None)
    pool = BlockPool(keep, budget)
    budget.add(50)
    holding = Holding(budget, 0, 0, 9, 50)
    holding.add_block("image", 4096)
    held = [
        holding.token(),
        pool.lend(4096, returned=functools.partial(holding.drop_block, "image")).view(np.float32)[3:],
    ]
    assert (holding.nbytes, budget.used) == (4146, 4146)
    if idle:
        pool.trim()
    called: list[str] = []
    gc.disable()  # else it may find what other tests left, whose finalizers are Python
    try:
        sys.setprofile(lambda frame, event, argument: called.append(f"{event} {frame.f_code.co_qualname}"))
        held.clear()
        sys.setprofile(None)
    finally:
        gc.enable()
    assert not [what for what in called if what.startswith("call ")]
    assert (holding.nbytes, budget.used) == (0, 4096 * keep)
    assert holding.seen() not in debug_batches()
