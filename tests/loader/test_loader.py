from __future__ import annotations

import gc
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from waiting import PATIENCE, wait_until

import toolkit
from toolkit import slot
from toolkit.errors import LoaderError, PipelineError, UsageError

STEPS = slot("image").decode_image().resize_short(32).center_crop(24)


def loader_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("toolkit-loader")]


def keys(loader: toolkit.Loader) -> list[str | None]:
    return [key for batch in loader for key in batch.sample_keys]


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(
    batch_size=st.integers(1, 200),
    threads=st.integers(1, 5),
    prefetch=st.integers(0, 6),
    shuffle=st.sampled_from(["full", "none"]),
    world_size=st.integers(1, 4),
)
def test_ranks_together_deliver_what_was_planned(
    packed: Path, batch_size: int, threads: int, prefetch: int, shuffle: str, world_size: int
) -> None:
    ds = toolkit.open(packed, split="train", columns=["label"])
    remainder = "keep" if world_size == 1 else "drop"
    whole = keys(ds.loader(batch_size=len(ds), shuffle=shuffle, seed=4, threads=1))
    if world_size > 1 and batch_size * world_size > len(ds):
        with pytest.raises(UsageError, match="leaves nothing of 150 samples"):
            ds.loader(batch_size=batch_size, rank=0, world_size=world_size, remainder="drop")
        return
    seen: list[list[list[str | None]]] = []
    for rank in range(world_size):
        with ds.loader(
            batch_size=batch_size,
            shuffle=shuffle,
            seed=4,
            threads=threads,
            prefetch=prefetch,
            rank=rank,
            world_size=world_size,
            remainder=remainder,
        ) as loader:
            batches = [batch.sample_keys for batch in loader]
            assert len(batches) == len(loader)
            seen.append(batches)
    joined = [key for step in zip(*seen, strict=True) for part in step for key in part]
    expected = len(ds) if world_size == 1 else len(ds) // (batch_size * world_size) * batch_size * world_size
    assert joined == whole[:expected]


def test_batches_hold_the_samples_they_name(packed: Path) -> None:
    ds = toolkit.open(packed, split="train")
    by_key = {ds[i]["__key__"]: ds[i] for i in range(len(ds))}
    for batch in ds.loader(batch_size=32, shuffle="full", seed=1):
        assert batch["label"].dtype == np.int64
        for key, image, label in zip(batch.sample_keys, batch["image"], batch["label"], strict=True):
            assert image == by_key[key]["image"]
            assert label == by_key[key]["label"]
            assert ds.classes is not None
            assert key.split("/")[1] == ds.classes[label]


def test_an_epoch_has_its_own_order_and_iter_advances(packed: Path) -> None:
    ds = toolkit.open(packed, split="train", columns=["label"])
    loader = ds.loader(batch_size=50, shuffle="full")
    first, second = keys(loader), keys(loader)
    assert first != second
    assert sorted(first) == sorted(second)
    assert loader.epoch == 2
    loader.set_epoch(0)
    assert keys(loader) == first
    both = ds.loader(batch_size=50, shuffle="full", epochs=2)
    assert keys(both) == first + second
    assert len(both) == 6


def test_no_batch_spans_epochs(packed: Path) -> None:
    ds = toolkit.open(packed, split="val", columns=["label"])
    batches = [(b.epoch, len(b.positions)) for b in ds.loader(batch_size=8, epochs=2)]
    assert batches == [(0, 8), (0, 8), (0, 4), (1, 8), (1, 8), (1, 4)]


@pytest.mark.parametrize("output", ["numpy", "torch", "jax"])
def test_outputs_agree_and_share_the_batch_memory(packed: Path, output: str) -> None:
    ds = toolkit.open(packed, split="val")
    pipeline = toolkit.pipeline(STEPS.normalize("imagenet"))
    expected = next(iter(ds.loader(pipeline, batch_size=16)))
    batch = next(iter(ds.loader(pipeline, batch_size=16, output=output)))
    assert np.array_equal(np.asarray(batch["image"]), expected["image"])
    assert np.asarray(batch["label"]).tolist() == expected["label"].tolist()
    assert _address(batch["image"]) % 64 == 0
    assert batch["image"].shape == (16, 3, 24, 24)


@pytest.mark.parametrize("output", ["torch", "jax"])
def test_frameworks_alias_host_memory(output: str) -> None:
    from toolkit.loader.outputs.registry import named
    from toolkit.memory.pool import BlockPool

    array = BlockPool(keep=1).lend(64 * 1024).view(np.float32)
    array[:] = 1.5
    assert _address(named(output).converter()(array)) == array.ctypes.data


def _address(array: Any) -> int:
    if isinstance(array, np.ndarray):
        return array.ctypes.data
    return int(array.data_ptr() if hasattr(array, "data_ptr") else array.unsafe_buffer_pointer())


def test_a_kept_batch_is_never_overwritten(packed: Path) -> None:
    ds = toolkit.open(packed, split="train")
    loader = ds.loader(toolkit.pipeline(STEPS), batch_size=10, epochs=4, prefetch=1)
    kept = [(batch["image"][2:4], batch["image"][2:4].copy()) for batch in loader]
    gc.collect()
    assert all(np.array_equal(view, copy) for view, copy in kept)


def test_arrays_are_writable(packed: Path) -> None:
    batch = next(iter(toolkit.open(packed, split="val").loader(toolkit.pipeline(STEPS), batch_size=4)))
    batch["image"][:] = 0
    batch["label"][:] = 1


def test_images_without_a_fixed_size_come_as_a_list(packed: Path) -> None:
    ds = toolkit.open(packed, split="val")
    batch = next(iter(ds.loader(toolkit.pipeline(slot("image").decode_image()), batch_size=4)))
    assert [image.shape for image in batch["image"]] == [(48, 64, 3)] * 4


def test_threads_end_with_the_last_batch_with_close_and_with_the_loader(packed: Path) -> None:
    ds = toolkit.open(packed, split="train")
    for batch in ds.loader(batch_size=50, threads=3):
        del batch
    assert not loader_threads()
    with ds.loader(batch_size=10, threads=3) as loader:
        next(iter(loader))
        loader.close()
        loader.close()
        assert not loader_threads()
    loader = ds.loader(batch_size=10, threads=3)
    iterator = iter(loader)
    next(iterator)
    assert loader_threads()
    del loader, iterator
    gc.collect()
    for thread in loader_threads():
        thread.join(PATIENCE)
    assert not loader_threads()


def test_a_loop_that_another_loop_ended_says_so(packed: Path) -> None:
    loader = toolkit.open(packed, split="train").loader(batch_size=10)
    first = iter(loader)
    next(first)
    next(iter(loader))
    with pytest.raises(LoaderError, match="another iteration"):
        list(first)


def test_a_closed_loader_is_refused(packed: Path) -> None:
    loader = toolkit.open(packed, split="val").loader(batch_size=10)
    loader.close()
    with pytest.raises(LoaderError, match="closed"):
        iter(loader)


def test_stats_count_what_was_delivered(packed: Path) -> None:
    ds = toolkit.open(packed, split="train")
    loader = ds.loader(batch_size=40)
    sizes = [len(image) for batch in loader for image in batch["image"]]
    stats = loader.stats()
    assert stats["samples"] == len(ds) == 150
    assert stats["batches"] == 4
    assert stats["fetched_bytes"] == sum(sizes)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"batch_size": 0}, "batch_size must be an int of at least 1"),
        ({"batch_size": 4, "shuffle": "ful"}, "Did you mean 'full'"),
        ({"batch_size": 4, "output": "pytorch"}, "Did you mean 'torch'"),
        ({"batch_size": 4, "threads": "all"}, "threads must be an int of at least 0 or 'auto', got 'all'"),
        ({"batch_size": 4, "threads": -1}, "threads must be an int of at least 0 or 'auto', got -1"),
        ({"batch_size": 4, "rank": 2, "world_size": 2, "remainder": "drop"}, "ranks count from 0"),
        ({"batch_size": 4, "rank": 0, "world_size": 2}, "remainder='drop'"),
        ({"batch_size": 4, "world_size": 2}, "give both, or none"),
        ({}, "one of them"),
        ({"batch_size": 4, "global_batch_size": 4}, "one of them"),
        ({"global_batch_size": 5, "rank": 0, "world_size": 2, "remainder": "pad"}, "can't be shared by 2 ranks"),
        ({"batch_size": 4, "epoch_samples": 9}, "needs weights="),
        ({"batch_size": 4, "weights": [1.0]}, "one number a sample"),
        ({"batch_size": 4, "weights": "equal"}, "an array or 'balanced'"),
        ({"batch_size": 4, "weights": "balanced", "shuffle": "full"}, "draws at random already"),
        ({"batch_size": 4, "on_error": "skp"}, "Did you mean 'skip'"),
        ({"batch_size": 4, "max_skips": -1}, "max_skips must be"),
        ({"batch_size": 4, "epochs": 0}, "epochs must be"),
        ({"batch_size": 4, "seed": "x"}, "seed must be an int"),
        ({"batch_size": 4, "pipeline": slot("image")}, "a loader takes a pipeline, got Slot"),
    ],
)
def test_bad_options_are_refused_with_words(packed: Path, options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        toolkit.open(packed, split="val").loader(**options)


def test_a_slot_without_a_column_names_the_nearest(packed: Path) -> None:
    with pytest.raises(PipelineError, match="Did you mean 'image'"):
        toolkit.open(packed, split="val").loader(toolkit.pipeline(slot("imgae").decode_image()), batch_size=4)


def test_a_loader_in_a_forked_child_raises(packed: Path) -> None:
    code = f"""
        import os, sys, toolkit
        it = iter(toolkit.open({str(packed)!r}, split="train").loader(batch_size=10, threads=2))
        next(it)
        if os.fork() == 0:
            try:
                next(it)
            except toolkit.errors.LoaderError as error:
                os._exit(7 if "fork" in str(error) else 8)
            os._exit(9)
        os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
    """
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", "import toolkit.errors\n" + textwrap.dedent(code)])
    assert done.returncode == 7


def test_interrupt_ends_a_waiting_loop(packed: Path) -> None:
    code = f"""
        import sys, toolkit
        from toolkit import slot
        ds = toolkit.open({str(packed)!r}, split="train")
        steps = toolkit.pipeline(slot("image").decode_image().resize_short(900).center_crop(900))
        with ds.loader(steps, batch_size=16, epochs=100000) as loader:
            for batch in loader:
                print("going", flush=True)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE)
    assert b"KeyboardInterrupt" in errors
    assert process.returncode in (130, -signal.SIGINT)


def test_dataset_outlives_nothing_it_needs(packed: Path) -> None:
    loader = toolkit.open(packed, split="train").loader(batch_size=10)
    gc.collect()
    assert len(keys(loader)) == 150


def test_two_batches_are_in_flight_while_threads_are_behind(packed: Path) -> None:
    ready = threading.Semaphore(0)  # labels that the thread may make: those of the batch that is waited for

    def label(value: np.ndarray) -> np.ndarray:
        ready.acquire()
        return value

    steps = toolkit.pipeline(slot("label").scalar("int64").python(label, "int64"))
    with toolkit.open(packed, split="train").loader(steps, batch_size=30, epochs=4, threads=1, prefetch=5) as loader:
        batches = iter(loader)
        for _ in range(len(loader)):
            ready.release(30)
            next(batches)
        assert loader.stats()["in_flight_peak"] == 2


def test_prefetch_is_used_once_threads_ran_dry(packed: Path) -> None:
    made: list[int] = []

    def label(value: np.ndarray) -> np.ndarray:
        made.append(1)
        return value

    steps = toolkit.pipeline(slot("label").scalar("int64").python(label, "int64"))
    with toolkit.open(packed, split="train").loader(steps, batch_size=30, epochs=4, threads=1, prefetch=5) as loader:
        for delivered, _ in enumerate(loader, 1):
            while len(made) < 30 * (delivered + loader.stats()["in_flight"]):
                time.sleep(0.001)
        assert loader.stats()["in_flight_peak"] == 6


@pytest.mark.parametrize("more", [{}, {"max_bytes": "3MiB"}, {"prefetch": 0}], ids=str)
def test_without_threads_batches_are_filled_where_they_are_asked_for(packed: Path, more: dict[str, Any]) -> None:
    names: set[str] = set()

    def label(value: np.ndarray) -> np.ndarray:
        names.add(threading.current_thread().name)
        return value

    steps = toolkit.pipeline(STEPS, slot("label").scalar("int64").python(label, "int64"))
    ds = toolkit.open(packed, split="train")
    options: dict[str, Any] = {"batch_size": 40, "shuffle": "full", "epochs": 2}
    wanted = [(b["image"].tobytes(), b["label"].tolist()) for b in ds.loader(steps, **options)]
    names.clear()
    before = len(loader_threads())
    loader = ds.loader(steps, threads=0, **options, **more)
    made = []
    for batch in loader:
        made.append((batch["image"].tobytes(), batch["label"].tolist()))
        assert len(loader_threads()) == before
        del batch
    assert made == wanted
    assert names == {"MainThread"}
    assert loader.stats()["samples"] == 300


def test_without_threads_bad_samples_are_skipped_and_errors_come_in_their_place(damaged: Path) -> None:
    ds = toolkit.open(damaged, split="train")
    Path(ds.files[1]).unlink()
    wanted = [b.mask.tolist() for b in ds.loader(batch_size=16, on_error="skip", max_skips=150)]
    assert [b.mask.tolist() for b in ds.loader(batch_size=16, on_error="skip", max_skips=150, threads=0)] == wanted
    received: list[int] = []
    with pytest.raises(toolkit.errors.CorruptShardError):
        received.extend(row for batch in ds.loader(batch_size=4, threads=0) for row in batch.rows)
    assert received == list(range(len(received)))
    assert received


@pytest.mark.parametrize("threads", [0, 2])
def test_a_batch_that_the_loop_let_go_of_is_gone(packed: Path, threads: int) -> None:
    def delivered() -> int:
        gc.collect()
        return sum(seen.delivered for seen in toolkit.debug_batches())

    ds, before = toolkit.open(packed, split="train"), delivered()
    batches = iter(ds.loader(toolkit.pipeline(STEPS), batch_size=10, threads=threads))
    batch = next(batches)
    assert delivered() == before + 1
    del batch
    wait_until(lambda: delivered() == before)  # a thread that filled a part of it has to let go as well
    next(batches)
