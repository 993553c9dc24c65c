from __future__ import annotations

import gc
import threading

import numpy as np

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
