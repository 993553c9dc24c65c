"""A loader pickles as what it was made of and where it stands; what can't be pickled or shared says so."""

from __future__ import annotations

import copy
import pickle
import threading
from pathlib import Path

import numpy as np
import pytest

import toolkit
from toolkit import slot
from toolkit.errors import LoaderError, UsageError


def test_a_loader_pickles_as_dataset_options_and_state(packed: Path) -> None:
    steps = toolkit.pipeline(slot("image").decode_image().random_resized_crop(16))
    ds = toolkit.open(packed, split="train")[::-2]
    loader = ds.loader(
        steps, batch_size=5, shuffle="full", seed=4, epochs=2, rank=1, world_size=3, remainder="pad", threads=2
    )
    assert [b.epoch for b in pickle.loads(pickle.dumps(loader))] == [0] * 5 + [1] * 5
    whole = [(b.epoch, b.positions.tolist(), b["image"].tobytes()) for b in loader]
    for cut in (1, 4, 5, 9):
        first = ds.loader(steps, **loader.options.given)
        for number, _ in enumerate(first, start=1):
            if number == cut:
                break
        for made in (pickle.loads(pickle.dumps(first)), copy.deepcopy(first)):
            assert made.state_dict() == first.state_dict()
            rest = [(b.epoch, b.positions.tolist(), b["image"].tobytes()) for b in made]
            assert rest == whole[cut:]
    other = ds.loader(batch_size=5, output=lambda batch: batch)
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(other)


def test_iterations_and_streams_say_why_they_do_not(packed: Path, tmp_path: Path) -> None:
    toolkit.pack_tokens(["text " * 100], tmp_path / "tokens", tokenizer="bytes")
    stream = toolkit.open(tmp_path / "tokens").tokens(seq_len=8, batch_size=2)
    loader = toolkit.open(packed, split="train").loader(batch_size=4)
    datasets = "pickle its datasets and its state_dict"
    for thing, says in ((iter(loader), "pickle the loader"), (iter(stream), "pickle the loader"), (stream, datasets)):
        for call in (pickle.dumps, copy.deepcopy):
            with pytest.raises(UsageError, match=says):
                call(thing)


def test_two_threads_in_one_iteration_are_told(packed: Path) -> None:
    inside, go = threading.Event(), threading.Event()

    def output(batch: toolkit.Batch) -> int:
        inside.set()
        assert go.wait(60)
        return len(batch.rows)

    iterator = iter(toolkit.open(packed, split="train").loader(batch_size=50, output=output))
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.extend(iterator))
    thread.start()
    assert inside.wait(60)
    with pytest.raises(LoaderError, match="another thread is taking a batch from this iteration"):
        next(iterator)
    go.set()
    thread.join(60)
    assert found == [50, 50, 50]  # the first thread's loop isn't hurt


def test_ids_in_another_byte_order_are_refused(tmp_path: Path) -> None:
    """numpy calls both int32; the stream's memory is written in the machine's own order."""
    toolkit.pack_tokens([np.arange(100, dtype=">u2")], tmp_path / "tokens", vocabulary=100)
    ds = toolkit.open(tmp_path / "tokens")
    assert next(iter(ds.tokens(seq_len=10, batch_size=1)))["tokens"].tolist() == [list(range(10))]
    for wrong in (">i4", ">u2"):
        with pytest.raises(UsageError, match="machine's byte order"):
            ds.tokens(seq_len=10, batch_size=1, dtype=wrong)
