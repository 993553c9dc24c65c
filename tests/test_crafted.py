"""The helper for crafted datasets: what it only takes apart and mends is as good as it was."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from crafted import Batch, Crafted

import toolkit
from toolkit.checks.verify import verify
from toolkit.errors import IntegrityError


def test_a_dataset_that_is_not_edited_stays_the_same(dataset: Path, tmp_path: Path) -> None:
    Crafted.of(dataset).write(tmp_path / "again")
    for split in ("train", "val"):
        one, other = toolkit.open(dataset, split=split), toolkit.open(tmp_path / "again", split=split)
        assert len(one) == len(other)
        assert all(one[i] == other[i] for i in range(len(one)))
    assert verify(tmp_path / "again", full=True, decode=True).findings == ()


def test_pyarrow_reads_a_mended_shard_as_a_stream(dataset: Path, tmp_path: Path) -> None:
    """So what the helper writes is what Arrow calls a message, flatbuffer and all."""
    crafted = Crafted.of(dataset)
    crafted.write(tmp_path / "again")
    data = (tmp_path / "again" / crafted.shard("train").path).read_bytes()
    with pa.ipc.open_stream(pa.BufferReader(data[8:])) as stream:
        rows = stream.read_all()
    keys = toolkit.open(dataset, split="train").keys()
    assert rows["__key__"].to_pylist() == keys[: len(rows)]


def test_an_edited_value_is_the_dataset_s_own(dataset: Path, tmp_path: Path) -> None:
    """Digests, chunk sums, hashes and pin agree: not even a full verification knows that it was another value."""
    crafted = Crafted.of(dataset)
    batch = crafted.batch("train")
    rows = batch.records(crafted.schema)
    keys = ["other", *rows["__key__"].to_pylist()[1:]]
    rows = rows.set_column(0, rows.schema.field(0), pa.array(keys))
    crafted.shard("train").batches[0] = Batch.of(rows)
    pin = crafted.write(tmp_path / "edited")
    assert toolkit.open(f"{tmp_path / 'edited'}@sha256:{pin}", split="train")[0]["__key__"] == "other"
    assert verify(tmp_path / "edited", full=True).findings == ()


def test_edited_offsets_reach_the_reader(dataset: Path, tmp_path: Path) -> None:
    crafted = Crafted.of(dataset)
    batch = crafted.batch("train")
    offsets = batch.numbers(1, np.int32)
    batch.put(1, offsets[::-1].copy())
    crafted.write(tmp_path / "edited")
    with pytest.raises(IntegrityError, match="offsets"):
        toolkit.open(tmp_path / "edited", split="train")[0]
