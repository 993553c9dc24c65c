"""Pools, leases, loaders and token streams while Python switches threads after every few instructions.

    python tests/sanitize/switching.py [SECONDS] [SEED]

What must hold: no block is lent to two at a time, every sample of an epoch comes once and whole, to whichever thread
takes it, and when all is over nothing is counted as in use.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import os
import queue
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))
if "TOOLKIT_SANITIZED" not in os.environ:
    sys.path.insert(1, str(TESTS.parent))

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
import token_oracle  # noqa: E402
from conftest import _commit_rows  # noqa: E402

import toolkit  # noqa: E402
from toolkit._native.memory.lease import when_gone  # noqa: E402
from toolkit.errors import LoaderError  # noqa: E402
from toolkit.memory.budget import Budget, process_budget  # noqa: E402
from toolkit.memory.holding import debug_batches  # noqa: E402
from toolkit.memory.pool import BlockPool, NoRoomError  # noqa: E402

ROWS = 600
HANG_SECONDS = 120
Work = Callable[[random.Random], None]


def together(work: Work, count: int, seed: int) -> None:
    """Do the same in some threads; raise what the first of them raised."""
    raised: queue.SimpleQueue[BaseException] = queue.SimpleQueue()

    def one(number: int) -> None:
        try:
            work(random.Random(seed * 100 + number))
        except BaseException as error:
            raised.put(error)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if not raised.empty():
        raise raised.get()


class Ring:
    """A reference to itself and to others: only the collector frees it, in whatever thread it runs."""

    def __init__(self, *held: object) -> None:
        self.held = (self, *held)


def pools(seed: int) -> int:
    """Lend, write, hold, give back by reference or by the collector; return how often."""
    all_pools = Budget()  # as process_budget() stands over a loader's
    budget = Budget(40_000, all_pools)
    lent, back = [0], queue.SimpleQueue[int]()
    pool = BlockPool(keep=3, budget=budget)
    guard = threading.Lock()

    def work(draw: random.Random) -> None:
        held: list[tuple[Any, int]] = []
        for _ in range(150):
            size, mark = draw.choice((256, 1000, 4096)), draw.randrange(256)
            try:
                block = pool.lend(size, late=draw.random() < 0.1, returned=None)
            except NoRoomError:
                held.clear()
                continue
            when_gone(block, lambda: back.put(1))
            with guard:
                lent[0] += 1
            block[:] = mark
            held.append((block[draw.randrange(size) :], mark))
            if draw.random() < 0.2:
                Ring(held.pop(draw.randrange(len(held))))
            if len(held) > 4:
                view, expected = held.pop(draw.randrange(len(held)))
                assert (view == expected).all(), "a block was lent twice"
            if draw.random() < 0.02:
                pool.trim() if draw.random() < 0.5 else pool.drop_free()
        for view, expected in held:
            assert (view == expected).all(), "a block was lent twice"

    together(work, 6, seed)
    gc.collect()
    assert back.qsize() == lent[0], f"{back.qsize()} of {lent[0]} blocks were said to be gone"
    assert budget.used == pool.free_bytes, f"{budget.used} bytes counted, {pool.free_bytes} free"
    pool.close()
    assert (budget.used, all_pools.used) == (0, 0), "bytes are counted that nobody has"
    return lent[0]


def dataset(folder: Path) -> toolkit.Dataset:
    """Pack rows whose values follow from their number."""
    numbers = np.arange(ROWS)
    batch = pa.RecordBatch.from_pydict(
        {
            "__key__": [str(number) for number in numbers],
            "number": pa.array(numbers, pa.int64()),
            "text": [f"{number} " * (number % 50) for number in numbers],
        }
    )
    _commit_rows(
        folder / "ds", {"train": [[batch.slice(at, 100)] for at in range(0, ROWS, 100)]}, batch_body_bytes=2048
    )
    return toolkit.open(folder / "ds")


def check(batch: Any) -> list[int]:
    """Compare a batch with what its rows say; return its samples that count."""
    numbers = [int(number) for number in batch["number"]]
    for number, key, text in zip(numbers, batch.sample_keys, batch["text"], strict=True):
        assert key == str(number), f"row {number} has the key {key}"
        assert text == f"{number} " * (number % 50), f"row {number} has another's text"
    return numbers


def loaders(ds: toolkit.Dataset, seed: int) -> int:
    """Iterate over loaders in threads of their own, hold batches, drop loaders half way; return how many batches."""
    counts: queue.SimpleQueue[int] = queue.SimpleQueue()

    def work(draw: random.Random) -> None:
        epochs, size = draw.randint(1, 2), draw.randint(1, 90)
        loader = ds.loader(
            batch_size=size, shuffle=draw.choice(["none", "full"]), threads=draw.randint(1, 4), epochs=epochs,
            prefetch=draw.randint(0, 4), max_bytes=draw.choice([None, "1MiB"]),
        )  # fmt: skip
        seen: list[int] = []
        held: list[Any] = []
        most = draw.choice([10**9, 10**9, draw.randint(1, 6)])
        for taken, batch in enumerate(loader):
            seen += check(batch)
            counts.put(1)
            held.append(batch)
            if draw.random() < 0.3:
                Ring(held.pop())
            elif len(held) > 2:
                check(held.pop(0))
            if taken + 1 >= most:
                break
        else:
            assert sorted(seen) == sorted(list(range(ROWS)) * epochs), "not every sample came once an epoch"
        for batch in held:
            check(batch)
        with contextlib.suppress(LoaderError):
            loader.close() if draw.random() < 0.5 else None

    together(work, 3, seed)
    return counts.qsize()


def streams(packed: token_oracle.Packed, seed: int) -> int:
    """Iterate over token streams in threads of their own, hold steps, drop streams half way; return how many steps."""
    run, ds = packed.run, packed.open()
    counts: queue.SimpleQueue[int] = queue.SimpleQueue()

    def work(draw: random.Random) -> None:
        rows, length = draw.randint(1, 40), draw.choice([7, 64, 200])
        stream = ds.tokens(
            seq_len=length, batch_size=rows, remainder="drop", threads=draw.randint(0, 3), prefetch=draw.randint(1, 4),
            max_bytes=draw.choice([None, "512KiB"]),
        )  # fmt: skip
        held: list[Any] = []
        most = draw.choice([10**9, 10**9, draw.randint(1, 6)])
        for taken, batch in enumerate(stream):
            counts.put(1)
            held.append(batch)
            if len(held) > 2:
                held.pop(0)
            for each in held:
                expected = run[each.place.position :][: rows * length]
                assert (each["tokens"].reshape(-1) == expected).all(), "a step has another's tokens"
            if taken + 1 >= most:
                break
        else:
            assert taken + 1 == len(run) // (rows * length), "not every step came"

    together(work, 3, seed)
    return counts.qsize()


def main() -> int:
    """Do all of it for so many seconds; return 0, or die of what went wrong."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 20)
    print(f"switching: seed {seed}", flush=True)
    sys.setswitchinterval(1e-6)
    end, rounds, blocks, batches = time.monotonic() + seconds, 0, 0, 0
    docs = token_oracle.documents(100, 300)
    with tempfile.TemporaryDirectory(prefix="switching.") as made:
        ds = dataset(Path(made))
        packed = token_oracle.Packed(Path(made) / "tokens", token_oracle.write(Path(made) / "tokens", docs))
        while rounds == 0 or time.monotonic() < end:
            faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
            blocks += pools(seed + rounds)
            batches += loaders(ds, seed + rounds) + streams(packed, seed + rounds)
            rounds += 1
        del ds
        gc.collect()
        deadline = time.monotonic() + HANG_SECONDS / 2
        while (debug_batches() or process_budget().used) and time.monotonic() < deadline:
            time.sleep(0.01)  # workers of dropped loaders end by themselves,
            gc.collect()  # and leave what only the collector finds
        assert not debug_batches(), f"batches are held: {debug_batches()}"
        assert process_budget().used == 0, f"{process_budget().used} bytes are counted that nobody has"
    faulthandler.cancel_dump_traceback_later()
    print(f"switching: {rounds} rounds, {blocks} blocks, {batches} batches")
    return 0


if __name__ == "__main__":
    sys.exit(main())
