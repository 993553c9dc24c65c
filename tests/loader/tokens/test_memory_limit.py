"""Token streams under toolkit.set_memory_limit() and max_bytes: what counts, what is refused, what is seen."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator

import numpy as np
import pytest
from token_oracle import Packed
from waiting import PATIENCE, wait_until

import toolkit
from toolkit.errors import LoaderError, UsageError

BATCH = 32 * 256 * 4  # bytes


@pytest.fixture(autouse=True)
def _lifted() -> Iterator[None]:
    yield
    toolkit.set_memory_limit(None)


@pytest.mark.parametrize("threads", [0, 1])
def test_what_a_loop_holds_of_a_stream_counts(packed: Packed, threads: int) -> None:
    """Steps that are filled in one go lie in one block: it is held as long as one of them is."""
    batches = iter(packed.open().tokens(seq_len=256, batch_size=32, epochs=None, threads=threads))
    held = [next(batches) for _ in range(14)]  # of two epochs: a fill doesn't cross the end of one
    delivered = [seen for seen in toolkit.debug_batches() if seen.delivered and "tokens" in seen.columns]
    assert {seen.epoch for seen in delivered} == {batch.epoch for batch in held} == {0, 1}
    assert sum(seen.nbytes for seen in delivered) >= sum(batch["tokens"].nbytes for batch in held)
    del batches, held
    gc.collect()
    # A thread that was filling when the loop ended lets go when it is through.
    wait_until(lambda: not [seen for seen in toolkit.debug_batches() if "tokens" in seen.columns])


def test_a_stream_of_larger_batches_than_the_limit_is_refused(packed: Packed) -> None:
    toolkit.set_memory_limit("4KiB")
    with pytest.raises(toolkit.errors.ToolkitError, match=r"set_memory_limit\(\) allows 4096 bytes"):
        next(iter(packed.open().tokens(seq_len=256, batch_size=32)))
    with pytest.raises(UsageError, match="a batch of 32 rows of 256 tokens needs 32768 bytes, and max_bytes allows"):
        packed.open().tokens(seq_len=256, batch_size=32, max_bytes="4000")


@pytest.mark.parametrize("threads", [0, 1, 2])
def test_a_limit_of_a_few_batches_changes_nothing_but_memory(packed: Packed, threads: int) -> None:
    ds = packed.open()
    expected = [batch["tokens"].copy() for batch in ds.tokens(seq_len=256, batch_size=32)]
    stream = ds.tokens(seq_len=256, batch_size=32, threads=threads, max_bytes=3 * BATCH, prefetch=4)
    found = []
    for batch in stream:
        found.append(batch["tokens"].copy())
        del batch
    assert all(np.array_equal(one, other) for one, other in zip(expected, found, strict=True))
    stats = stream.stats()
    assert stats["budget_peak_bytes"] <= 3 * BATCH
    assert (stats["batches"], stats["samples"]) == (len(expected), -(-len(packed.run) // 256))
    assert stats["fetched_bytes"] > 0
    assert f"{len(expected)} batches" in stream.report()


def test_who_holds_on_is_told_what_he_holds(packed: Packed) -> None:
    stream = packed.open().tokens(seq_len=256, batch_size=32, max_bytes=3 * BATCH, hold_timeout=0.2)
    held = []
    with pytest.raises(LoaderError, match=r"epoch 0, positions 0\.\.8191, 32768 bytes, delivered: tokens"):
        held.extend(stream)
    assert len(held) == 3


@pytest.mark.parametrize("threads", [0, 1])
def test_a_limit_that_is_lowered_is_for_the_fills_that_come(packed: Packed, threads: int) -> None:
    """A fill that was made before is larger than the new limit, and still is what its consumer gets."""
    ds = packed.open()
    toolkit.set_memory_limit("1MiB")
    stream = ds.tokens(seq_len=64, batch_size=8, epochs=4, threads=threads)
    seen = 0
    for batch in stream:
        seen += 1
        if seen == 20:
            toolkit.set_memory_limit("64KiB")
        del batch
    assert seen == 4 * stream.steps_per_epoch()


def test_times_of_a_stream_are_of_its_batches(packed: Packed) -> None:
    stream = packed.open().tokens(seq_len=64, batch_size=8, threads=0)
    begun, batches = time.monotonic(), iter(stream)
    next(batches)
    for _ in range(30):
        time.sleep(0.01)
        next(batches)
    stats = stream.stats()
    assert 0.3 <= stats["running_seconds"] <= time.monotonic() - begun  # though all of them were filled at once
    assert stats["consumer_wait_seconds"] <= stats["running_seconds"] - 0.3


def test_a_limit_that_comes_while_a_stream_runs_holds_from_the_next_fill_on(packed: Packed) -> None:
    stream = packed.open().tokens(seq_len=256, batch_size=32, epochs=2, threads=0)
    batches = iter(stream)
    next(batches)
    toolkit.set_memory_limit(60 * BATCH)
    assert 1 + sum(1 for _ in batches) == stream.steps_per_epoch() * 2


@pytest.mark.parametrize("threads", [0, 1])
@pytest.mark.parametrize("output", ["numpy", "jax"])
def test_streams_that_take_turns_share_a_limit(packed: Packed, threads: int, output: str) -> None:
    """Each took a quarter of it for a fill, and the fifth was told to let go of what streams held themselves."""
    ds = packed.open()
    expected = [batch["tokens"].copy() for batch in ds.tokens(seq_len=64, batch_size=64)]
    toolkit.set_memory_limit("1MiB")
    streams = [
        ds.tokens(seq_len=64, batch_size=64, threads=threads, hold_timeout=PATIENCE, output=output) for _ in range(12)
    ]
    turns = [iter(stream) for stream in streams]
    for wanted in expected:
        for turn in turns:
            assert np.array_equal(np.asarray(next(turn)["tokens"]), wanted)
    assert all(stream.stats()["batches"] == len(expected) for stream in streams)


@pytest.mark.parametrize("threads", [0, 1])
def test_streams_that_begin_one_after_the_other_share_a_limit(packed: Packed, threads: int) -> None:
    """The first ones were alone when they took what they have, and go on with it."""
    ds = packed.open()
    toolkit.set_memory_limit("1MiB")
    turns = []
    for _ in range(16):
        turns.append(iter(ds.tokens(seq_len=64, batch_size=32, epochs=None, threads=threads, hold_timeout=PATIENCE)))
        for turn in turns:
            next(turn)
    for _ in range(10):
        for turn in turns:
            next(turn)


def test_what_a_stream_gave_up_is_held_by_its_consumer_alone(packed: Packed) -> None:
    stream = packed.open().tokens(seq_len=256, batch_size=32, max_bytes=BATCH, threads=0)  # a fill is one batch
    batches = iter(stream)
    batch = next(batches)
    assert [seen.nbytes for seen in toolkit.debug_batches() if seen.delivered] == [BATCH]
    del batch
    gc.collect()
    assert not [seen for seen in toolkit.debug_batches() if seen.delivered]
    next(batches)


@pytest.mark.parametrize("world", [1, 3])
@pytest.mark.parametrize("form", [{}, {"pack": "best"}, {"remainder": "drop"}], ids=str)
def test_padded_rows_are_no_samples(packed: Packed, world: int, form: dict[str, str]) -> None:
    ds, rows = packed.open(), 0
    for rank in range(world):
        stream = ds.tokens(seq_len=700, batch_size=48 // world, rank=rank, world_size=world, epochs=2, **form)
        there = sum(int(batch.mask.any(axis=1).sum()) for batch in stream)
        assert stream.stats()["samples"] == there
        rows += there
    each = -(-len(packed.run) // 700)
    if not form:
        assert rows == 2 * each
    mix = toolkit.mix_tokens({"a": ds}, {"a": 1}, seq_len=700, batch_size=48)
    assert sum(1 for _ in mix) * 48 > each
    assert mix.stats()["samples"] == each
