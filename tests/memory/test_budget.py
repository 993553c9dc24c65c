from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from waiting import PATIENCE

from toolkit.errors import UsageError
from toolkit.memory.budget import Budget, process_budget, set_memory_limit
from toolkit.memory.holding import Holding, debug_batches, held_batches
from toolkit.memory.pool import BlockPool, NoRoomError
from toolkit.memory.sizes import parse_bytes, size_text


@given(
    st.one_of(st.none(), st.integers(0, 100)),
    st.one_of(st.none(), st.integers(0, 100)),
    st.lists(st.integers(-40, 40), max_size=30),
)
def test_a_budget_refuses_what_goes_over_its_own_or_its_parents_limit(
    limit: int | None, above: int | None, steps: list[int]
) -> None:
    parent = Budget(above)
    budget = Budget(limit, parent)
    used = peak = 0
    for step in steps:
        if step < 0:
            back = min(used, -step)
            budget.release(back)
            used -= back
        else:
            fits = used + step <= min(100_000 if limit is None else limit, 100_000 if above is None else above)
            assert budget.charge(step) == fits
            used += step * fits
        peak = max(peak, used)
        assert (budget.used, parent.used, budget.peak) == (used, used, peak)


def test_what_is_in_use_already_is_counted_beyond_the_limit_and_stops_the_rest() -> None:
    budget = Budget(10)
    budget.add(15)
    assert budget.is_over
    assert not budget.charge(0)
    budget.add(-6)
    assert not budget.is_over
    assert budget.charge(1)
    assert (budget.used, budget.peak) == (10, 15)


def test_threads_charge_and_release_without_losing_a_byte() -> None:
    parent = Budget(50)
    budgets = [Budget(30, parent), Budget(None, parent)]

    def work(budget: Budget) -> None:
        for nbytes in range(3000):
            if budget.charge(nbytes % 7):
                budget.release(nbytes % 7)

    threads = [threading.Thread(target=work, args=(budgets[i % 2],)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [each.used for each in (*budgets, parent)] == [0, 0, 0]
    assert parent.peak <= 50


def test_free_blocks_count_and_make_room_for_other_sizes_and_other_pools() -> None:
    parent = Budget(250)
    first, second = BlockPool(2, Budget(None, parent)), BlockPool(2, Budget(None, parent))
    block = first.lend(100)
    del block
    gc.collect()
    assert parent.used == 100  # free, and charged
    held = second.lend(200)  # fits only without it
    assert parent.used == 200
    with pytest.raises(NoRoomError):
        first.lend(100)
    del held
    gc.collect()
    assert first.lend(100).nbytes == 100


def test_a_pool_and_its_blocks_give_everything_back_in_any_order() -> None:
    budget = Budget()
    pool = BlockPool(1, budget)
    blocks = [pool.lend(10), pool.lend(10)]
    del blocks[0]
    pool.close()
    assert budget.used == 10
    del pool, blocks
    gc.collect()
    assert budget.used == 0


def test_a_holding_lasts_until_blocks_and_batch_are_gone() -> None:
    budget = Budget()
    assert budget.charge(30)
    holding = Holding(budget, 2, 64, 127, 30)
    token = holding.token()
    holding.add_block("image", 100)
    holding.set_other(50)
    (seen,) = held_batches(budget)
    assert (seen.epoch, seen.first, seen.last, seen.nbytes, seen.delivered) == (2, 64, 127, 150, False)
    assert "epoch 2, positions 64..127, 150 bytes, in flight: image, other values" in str(seen)
    assert seen in debug_batches()
    del token
    assert budget.used == 0
    assert [held.columns for held in held_batches(budget)] == [{"image": 100}]
    holding.drop_block("image")
    assert held_batches(budget) == []


def test_the_process_limit_is_checked_and_can_be_lifted() -> None:
    for wrong in ("8 Gigs", 0, True, 1.5, -1):
        with pytest.raises(UsageError):
            set_memory_limit(wrong)  # type: ignore[arg-type]
    try:
        set_memory_limit("8GiB")
        assert process_budget().limit == 8 << 30
    finally:
        set_memory_limit(None)
    assert process_budget().limit is None


def test_a_forked_child_counts_anew_even_when_the_lock_was_held() -> None:
    code = """if True:
        import os
        from toolkit.memory.budget import process_budget, set_memory_limit
        set_memory_limit(100)
        assert process_budget().charge(90)
        with process_budget()._lock:
            child = os.fork()
            if child == 0:
                assert process_budget().charge(90) and not process_budget().charge(11)
                os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert process_budget().used == 90
    """
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_sizes_read_and_written() -> None:
    assert parse_bytes("1.5GiB") == 3 << 29
    assert parse_bytes(4096) == 4096
    assert size_text(100) == "100 bytes"
    assert size_text(3 << 20) == "3145728 bytes (3.0 MiB)"


def test_a_wait_ends_though_others_take_what_came_back() -> None:
    """CPython's SimpleQueue.get(timeout) waited without end where another thread took what had woken it."""
    budget, over = Budget(100), threading.Event()

    def wait() -> None:
        while not over.is_set():
            budget.wait()

    def use() -> None:
        while not over.is_set():
            budget.add(1)
            budget.release(1)
            _ = budget.used
            time.sleep(0.0005)

    def work() -> None:
        while not over.is_set():
            sum(range(1000))

    threads = [threading.Thread(target=wait) for _ in range(4)]
    threads += [threading.Thread(target=use), threading.Thread(target=work), threading.Thread(target=work)]
    for thread in threads:
        thread.daemon = True
        thread.start()
    time.sleep(3)
    over.set()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
