"""Streams against the oracle: every token of an epoch once, in the order that is said, wherever one begins."""

from __future__ import annotations

import copy
import gc
import subprocess
import sys
import textwrap
import threading
import time
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest
import token_oracle as oracle
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from token_oracle import Packed
from waiting import PATIENCE, wait_until

import toolkit
from toolkit import TokenBatch, TokenStream
from toolkit.errors import LoaderError, UsageError

FEW = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
PHASES = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 6), st.sampled_from([1, 7, 64, 300, 1024])), max_size=3)


def whole(batches: list[TokenBatch], name: str) -> np.ndarray:
    """Return a column of one rank's batches, masked places left out."""
    return np.concatenate([np.asarray(batch[name])[np.asarray(batch.mask)] for batch in batches])


def joined(ranks: list[list[TokenBatch]], name: str) -> list[np.ndarray]:
    """Return the global batches of a column from those of each rank."""
    return [np.concatenate([batch[name] for batch in at]) for at in zip(*ranks, strict=True)]


@FEW
@given(
    phases=PHASES,
    last=st.tuples(st.integers(1, 8), st.sampled_from([1, 16, 100, 513, 1024])),
    world=st.sampled_from([1, 2, 4]),
    shuffle=st.sampled_from(["block", "none"]),
    block=st.sampled_from([None, 16, 100, 1000, 10**6]),
    remainder=st.sampled_from(["pad", "drop"]),
    epochs=st.integers(1, 2),
    threads=st.integers(0, 2),
    dtype=st.sampled_from(["int32", "int64", "uint16", "uint32"]),
    seed=st.integers(0, 3),
)
def test_steps_are_those_of_the_oracle(packed: Packed, **drawn: Any) -> None:
    phases, (rows, seq_len), world = drawn["phases"], drawn["last"], drawn["world"]
    run, total = packed.run, len(packed.run)
    assume(rows * seq_len * world > 100)  # few enough steps
    options = {name: drawn[name] for name in ("shuffle", "remainder", "epochs", "threads", "dtype", "seed")}
    ds = packed.open()
    streams = [
        ds.tokens(
            seq_len=seq_len,
            batch_size=rows,
            phases=phases,
            block_size=drawn["block"],
            rank=r,
            world_size=world,
            **options,
        )
        for r in range(world)
    ]
    ranks = [list(stream) for stream in streams]
    block = drawn["block"] or max([seq_len, *(one[2] for one in phases)])
    orders = [oracle.order(total, block if drawn["shuffle"] == "block" else 0, drawn["seed"], e) for e in range(2)]
    each = [(count, world * n, length) for count, n, length in [*phases, (None, rows, seq_len)]]
    expected = list(oracle.steps(total, each, pad=drawn["remainder"] == "pad", epochs=drawn["epochs"]))
    assert len(ranks[0]) == len(expected)
    batches = joined(ranks, "tokens")
    masks = [np.concatenate([batch.mask for batch in at]) for at in zip(*ranks, strict=True)]
    for got, mask, (epoch, position, units, n, length) in zip(batches, masks, expected, strict=True):
        assert got.shape == (n, length)
        assert got.dtype == drawn["dtype"]
        want = np.full(n * length, oracle.EOS)
        want[:units] = run[orders[epoch][position : position + units]]
        np.testing.assert_array_equal(got.reshape(-1), want)
        np.testing.assert_array_equal(mask.reshape(-1), np.arange(n * length) < units)
    if drawn["remainder"] == "pad" and not phases:
        for epoch in range(drawn["epochs"]):
            mine = [g[m] for g, m, e in zip(batches, masks, expected, strict=True) if e[0] == epoch]
            np.testing.assert_array_equal(np.sort(np.concatenate(mine)), np.sort(run))


@FEW
@given(
    cut=st.integers(0, 60),
    before=st.tuples(st.integers(1, 5), st.sampled_from([64, 500])),
    after=st.tuples(st.integers(1, 5), st.sampled_from([16, 333, 900])),
    world=st.sampled_from([1, 3]),
    shuffle=st.sampled_from(["block", "none"]),
)
def test_a_state_goes_on_at_the_very_token_with_any_form(
    packed: Packed, cut: int, before: tuple[int, int], after: tuple[int, int], world: int, shuffle: str
) -> None:
    ds = packed.open()
    common: dict[str, Any] = {"shuffle": shuffle, "seed": 5, "block_size": 128}
    first = ds.tokens(batch_size=before[0], seq_len=before[1], **common)
    cut = min(cut, len(first))
    iterator = iter(first)
    done = [next(iterator) for _ in range(cut)]
    state = first.state_dict()
    first.close()
    ranks = []
    for rank in range(world):
        stream = ds.tokens(batch_size=after[0], seq_len=after[1], rank=rank, world_size=world, **common)
        stream.load_state_dict(copy.deepcopy(state))
        ranks.append(list(stream) if cut < len(first) or len(stream) else [])
    if done and done[-1].place.position + done[-1]["tokens"].size >= len(packed.run):
        return  # the epoch was over: what follows is the next one
    masks = [np.concatenate([batch.mask for batch in at]) for at in zip(*ranks, strict=True)]
    rest = [got[mask] for got, mask in zip(joined(ranks, "tokens"), masks, strict=True)]
    seen = np.concatenate([*(whole([batch], "tokens") for batch in done), *rest])
    at = oracle.order(len(packed.run), 128 if shuffle == "block" else 0, 5, 0)
    np.testing.assert_array_equal(seen, packed.run[at])


@pytest.mark.parametrize("shuffle", ["block", "none"])
@pytest.mark.parametrize(("seq_len", "block"), [(64, 64), (100, 33), (700, 128)])
def test_targets_segments_and_positions(packed: Packed, shuffle: str, seq_len: int, block: int) -> None:
    run, total = packed.run, len(packed.run)
    stream = packed.open().tokens(
        seq_len=seq_len, batch_size=5, shuffle=shuffle, seed=2, block_size=block, targets=True, documents=True
    )
    masked = packed.open().tokens(
        seq_len=seq_len, batch_size=5, shuffle=shuffle, seed=2, block_size=block, targets=True, mask_documents=True
    )
    at = oracle.order(total, block if shuffle == "block" else 0, 2, 0)
    following = np.append(run[1:], -100)
    within = following.copy()
    within[packed.ends - 1] = -100
    for batch, other in zip(stream, masked, strict=True):
        place = batch.place.position
        wanted = np.full(5 * seq_len, -1)
        taken = at[place : place + 5 * seq_len]
        wanted[: len(taken)] = taken
        there = wanted >= 0
        np.testing.assert_array_equal(batch["targets"].reshape(-1), np.where(there, following[wanted], -100))
        np.testing.assert_array_equal(other["targets"].reshape(-1), np.where(there, within[wanted], -100))
        for row in range(5):
            segments, positions = oracle.marks(packed.starts, packed.ends, wanted.reshape(5, -1)[row])
            np.testing.assert_array_equal(batch["segments"][row], segments)
            np.testing.assert_array_equal(batch["positions"][row], positions)


def test_global_batches_are_the_same_for_one_rank_and_four(packed: Packed) -> None:
    ds = packed.open()
    options: dict[str, Any] = {"seq_len": 64, "shuffle": "block", "targets": True, "documents": True, "epochs": 2}
    one = [list(ds.tokens(batch_size=8, **options))]
    four = [list(ds.tokens(batch_size=2, rank=r, world_size=4, **options)) for r in range(4)]
    other = [list(ds.tokens(global_batch_size=8, rank=r, world_size=4, **options)) for r in range(4)]
    for name in ("tokens", "targets", "segments", "positions"):
        for a, b, c in zip(joined(one, name), joined(four, name), joined(other, name), strict=True):
            np.testing.assert_array_equal(a, b)
            np.testing.assert_array_equal(a, c)


def test_runs_are_bit_identical_and_epochs_differ(packed: Packed) -> None:
    ds = packed.open()
    stream = ds.tokens(seq_len=128, batch_size=4, shuffle="block", seed=9)
    first, second = whole(list(stream), "tokens"), whole(list(stream), "tokens")
    assert (first != second).any()
    again = ds.tokens(seq_len=128, batch_size=4, shuffle="block", seed=9, epochs=2, threads=0)
    np.testing.assert_array_equal(whole(list(again), "tokens"), np.concatenate([first, second]))
    other = ds.tokens(seq_len=128, batch_size=4, shuffle="block", seed=10)
    assert (whole(list(other), "tokens") != first).any()


def test_start_step_is_counted_from_the_very_first_and_phases_may_be_over(packed: Packed) -> None:
    ds = packed.open()
    phases = [(5, 2, 100), (3, 4, 50)]
    options: dict[str, Any] = {"seq_len": 128, "batch_size": 3, "shuffle": "block", "block_size": 128}
    full = list(ds.tokens(phases=phases, **options))
    for start in (0, 1, 5, 6, 8, 20, len(full)):
        rest = list(ds.tokens(phases=phases, start_step=start, **options)) if start < len(full) else []
        assert [batch.step for batch in rest] == list(range(start, len(full)))
        for a, b in zip(rest, full[start:], strict=True):
            np.testing.assert_array_equal(a["tokens"], b["tokens"])
    after = ds.tokens(completed_phases=phases, total_steps=4, **options)
    assert len(after) == 4
    for a, b in zip(after, full[8:12], strict=True):
        np.testing.assert_array_equal(a["tokens"], b["tokens"])
    assert len(ds.tokens(phases=phases, seq_len=None)) == 8
    assert ds.tokens(phases=phases, **options).steps_per_epoch() == -(-len(packed.run) // 384)
    assert ds.tokens(phases=phases, **options).steps_per_epoch(seq_len=10, batch_size=7) == -(-len(packed.run) // 70)


def test_endless_streams_end_at_total_steps(packed: Packed) -> None:
    stream = packed.open().tokens(seq_len=1000, batch_size=40, epochs=None, total_steps=11, shuffle="block")
    assert len(stream) == 11
    batches = list(stream)
    assert [batch.step for batch in batches] == list(range(11))
    assert batches[-1].epoch == 10 // stream.steps_per_epoch()
    assert list(stream) == []
    with pytest.raises(UsageError, match="total_steps"):
        len(packed.open().tokens(seq_len=1000, batch_size=40, epochs=None))


def test_a_stream_goes_on_after_a_break(packed: Packed) -> None:
    stream = packed.open().tokens(seq_len=64, batch_size=4)
    for batch in stream:
        if batch.step == 6:
            break
    assert next(iter(stream)).step == 7
    assert stream.place.step == 8


def test_state_counts_what_was_received_and_is_the_same_on_every_rank(packed: Packed) -> None:
    ds = packed.open()
    states = []
    for rank in range(2):
        stream = ds.tokens(seq_len=64, batch_size=4, rank=rank, world_size=2, prefetch=3)
        iterator = iter(stream)
        for _ in range(3):
            next(iterator)
        states.append(stream.state_dict())
        stream.close()
    assert states[0] == states[1]
    assert states[0]["position"] == 3 * 64 * 4 * 2


def test_arrays_stay_good_while_they_are_held(packed: Packed) -> None:
    stream = packed.open().tokens(seq_len=64, batch_size=4, epochs=3)
    held = list(stream)
    copies = [batch["tokens"].copy() for batch in packed.open().tokens(seq_len=64, batch_size=4, epochs=3)]
    for batch, copied in zip(held, copies, strict=True):
        np.testing.assert_array_equal(batch["tokens"], copied)
    held[0]["tokens"][:] = 0  # the consumer's own


def test_two_loops_over_one_stream_are_refused(packed: Packed) -> None:
    stream = packed.open().tokens(seq_len=64, batch_size=4)
    first = iter(stream)
    next(first)
    iter(stream)
    with pytest.raises(LoaderError, match="another iteration"):
        list(first)
    with pytest.raises(LoaderError, match="not complete"):
        next(first)
    stream.close()
    with pytest.raises(LoaderError, match="closed"):
        iter(stream)


def test_the_end_stays_the_end(packed: Packed) -> None:
    iterator = iter(packed.open().tokens(seq_len=1000, batch_size=40))
    list(iterator)
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(iterator)


def test_torch_shares_the_memory(packed: Packed) -> None:
    import torch

    stream = packed.open().tokens(seq_len=64, batch_size=4, dtype="int64", output="torch", targets=True)
    batch = next(iter(stream))
    assert batch["tokens"].dtype == torch.int64
    assert batch.mask.dtype == torch.bool
    assert batch["tokens"][0, 1:].tolist() == batch["targets"][0, :-1].tolist()
    stream.close()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"seq_len": 10**6, "batch_size": 1}, "more than the .* tokens there are"),
        ({"seq_len": 2**13, "batch_size": 100, "remainder": "drop"}, "nothing is left"),
        ({"seq_len": 0, "batch_size": 1}, "seq_len must be an int of at least 1"),
        ({"seq_len": 8}, "give seq_len and batch_size"),
        ({"batch_size": 8}, "give seq_len and batch_size"),
        ({}, "give seq_len and batch_size"),
        ({"seq_len": 8, "batch_size": 2, "global_batch_size": 2}, "one of them"),
        ({"seq_len": 8, "global_batch_size": 3, "rank": 0, "world_size": 2}, "can't be cut for 2 ranks"),
        ({"seq_len": 8, "batch_size": 2, "phases": [(1, 2)]}, "phases must be"),
        ({"seq_len": 8, "batch_size": 2, "dtype": "float32"}, "dtype must be one of"),
        ({"seq_len": 8, "batch_size": 2, "dtype": "uint16", "targets": True}, "targets mark"),
        ({"seq_len": 8, "batch_size": 2, "mask_documents": True}, "say targets=True"),
        ({"seq_len": 8, "batch_size": 2, "shuffle": "blok"}, "Did you mean 'block'"),
        ({"seq_len": 8, "batch_size": 2, "block_size": 3}, "block_size must be"),
        ({"seq_len": 8, "batch_size": 2, "start_step": -1}, "start_step must be"),
        ({"seq_len": 8, "batch_size": 2, "rank": 1}, "give both, or none"),
        ({"seq_len": 8, "batch_size": 2, "rank": 1, "world_size": 1}, "rank 1 of a world of 1"),
        ({"seq_len": 8, "batch_size": 2, "tokenizer": "bytes"}, "packed with ready ids"),
        ({"phases": [(3, 2, 8)], "start_step": 4}, "behind the last phase"),
        ({"phases": [(3, 2, 8), (3, 2, 16)], "pack": "best"}, "one seq_len"),
    ],
)
def test_options_that_cannot_be(packed: Packed, options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        packed.open().tokens(**options)


def test_a_state_of_other_data_or_order_is_refused(packed: Packed) -> None:
    ds = packed.open()

    def stream(**options: Any) -> TokenStream:
        return ds.tokens(**{"seq_len": 64, "batch_size": 2, "shuffle": "block", "seed": 1, **options})

    state = stream().state_dict()
    for change in ({"seed": 2}, {"shuffle": "none"}, {"block_size": 32}, {"pack": "best"}):
        with pytest.raises(UsageError, match="the state is of another run"):
            stream(**change).load_state_dict(state)
    with pytest.raises(UsageError, match="pin"):
        stream().load_state_dict({**state, "pin": "0" * 64})
    with pytest.raises(UsageError, match="no token stream's state: it has no position"):
        stream().load_state_dict({name: state[name] for name in state if name != "position"})
    with pytest.raises(UsageError, match="position must be a whole number"):
        stream().load_state_dict({**state, "position": 10**9})


def test_other_datasets_are_refused(packed: Packed, dataset: Any) -> None:
    with pytest.raises(UsageError, match="no tokens column"):
        toolkit.open(dataset, split="train").tokens(seq_len=8, batch_size=2)
    with pytest.raises(UsageError, match="whole split"):
        packed.open()[:10].tokens(seq_len=8, batch_size=2)
    ds = packed.open()
    for view in (ds[::-1], ds.repeat(2), ds.take(range(len(ds))), ds.filter(pc.field("__key__") == "0")):
        with pytest.raises(UsageError, match="open the split itself"):
            view.tokens(seq_len=8, batch_size=2)
    with pytest.raises(UsageError, match=r"2 joined datasets.*mix them"):
        toolkit.concat([ds, ds]).tokens(seq_len=8, batch_size=2)
    assert ds[:].tokens(seq_len=8, batch_size=2).steps_per_epoch() > 0  # all rows: no view


def test_total_steps_are_those_of_a_run_however_often_it_is_resumed(packed: Packed) -> None:
    ds = packed.open()
    options: dict[str, Any] = {"seq_len": 64, "batch_size": 4, "total_steps": 10, "epochs": None}
    stream = ds.tokens(**options)
    iterator = iter(stream)
    for _ in range(4):
        next(iterator)
    other = ds.tokens(**options)
    other.load_state_dict(stream.state_dict())
    assert [batch.step for batch in other] == [4, 5, 6, 7, 8, 9]
    stream.close()


def test_a_dropped_stream_ends_its_threads(packed: Packed) -> None:
    def threads() -> int:
        return sum(thread.name.startswith("toolkit-loader") for thread in threading.enumerate())

    stream = packed.open().tokens(seq_len=64, batch_size=4, epochs=None, threads=2)
    iterator = iter(stream)
    next(iterator)
    assert threads() > 0
    del stream, iterator
    gc.collect()
    wait_until(lambda: not threads())


def test_a_forked_child_is_refused(packed: Packed) -> None:
    program = f"""
        import os, toolkit
        from toolkit.errors import LoaderError
        stream = toolkit.open({str(packed.path)!r}).tokens(seq_len=64, batch_size=4)
        child = os.fork()
        if not child:
            try:
                iter(stream)
            except LoaderError:
                os._exit(7)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=60)


def test_a_process_over_its_memory_gets_an_error(packed: Packed) -> None:
    toolkit.set_memory_guard(1)
    try:
        with pytest.raises(LoaderError, match="memory runs out"):
            next(iter(packed.open().tokens(seq_len=64, batch_size=4)))
    finally:
        toolkit.set_memory_guard(None)


@pytest.mark.parametrize("dropped", ["iteration", "stream"])
def test_dropping_waits_for_no_lock(packed: Packed, dropped: str) -> None:
    """The collector may drop one at any instruction, also where its thread has a lock that workers wait for."""
    ds = packed.open()
    stream = ds.tokens(seq_len=64, batch_size=4, epochs=None, threads=2, prefetch=2000)
    lock, done = stream._budget._lock, threading.Event()
    held: list[Any] = [iter(stream)]
    next(held[0])
    if dropped == "stream":
        held.append(stream)
        del stream

    def drop() -> None:
        with lock:
            time.sleep(0.1)  # workers come to it
            held.clear()
        done.set()

    threading.Thread(target=drop, daemon=True).start()
    assert done.wait(PATIENCE)
    for thread in threading.enumerate():
        if thread.name.startswith("toolkit-loader"):
            thread.join(PATIENCE)
            assert not thread.is_alive()


def test_a_function_makes_of_a_batch_what_the_loop_gets(packed: Packed) -> None:
    ds, options = packed.open(), {"seq_len": 64, "batch_size": 4}

    def sums(batch: TokenBatch) -> tuple[int, int]:
        return batch.step, int(batch["tokens"].sum())

    def fragile(batch: TokenBatch) -> int:
        if batch.step == 3:
            raise StopIteration("enough")
        return batch.step

    wanted = [sums(batch) for batch in ds.tokens(**options)]
    assert list(ds.tokens(**options, output=sums)) == wanted
    assert list(toolkit.mix_tokens({"a": ds}, {"a": 1}, **options, output=sums))[:2]
    stream = ds.tokens(**options, output=fragile)
    seen: list[int] = []
    with pytest.raises(LoaderError, match=r"epoch 0, step 3, output adapter fragile: StopIteration: enough"):
        seen.extend(stream)
    assert seen == [0, 1, 2]
    assert stream.place.step == 3  # the batch wasn't received


def test_a_mix_takes_what_a_stream_does(packed: Packed) -> None:
    ds = packed.open()
    options = {"seq_len": 700, "batch_size": 48}
    last = list(toolkit.mix_tokens({"a": ds}, {"a": 1}, **options, pad_id=7, verify="always"))[-1]
    assert (last["tokens"][~last.mask] == 7).all()
    assert not last.mask.all()
    with pytest.raises(UsageError, match="packed with ready ids"):
        toolkit.mix_tokens({"a": ds}, {"a": 1}, **options, tokenizer="bytes")
