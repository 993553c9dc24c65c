"""Columns of bytes in batches: one block a batch, equal to a list, right under damage, padding and threads."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from keyed_rows import keyed

import toolkit
from toolkit.errors import CorruptShardError
from toolkit.memory.bytes_column import BytesColumn

VALUES = st.lists(st.none() | st.binary(max_size=40), max_size=30)


@given(VALUES)
def test_a_column_is_the_list_it_was_made_of(values: list[bytes | None]) -> None:
    column = BytesColumn(values)
    assert column == values
    assert list(column) == values
    assert len(column) == len(values)
    assert [column[i] for i in range(-len(values), len(values))] == values + values
    assert column[1:7:2] == values[1:7:2]
    assert [None if view is None else bytes(view) for view in map(column.view, range(len(values)))] == values
    assert bytes(column.data) == b"".join(value or b"" for value in values)
    assert pickle.loads(pickle.dumps(column)) == column
    assert column != [*values, b""]
    assert column.data.flags.writeable
    for index in (len(values), -len(values) - 1):
        with pytest.raises(IndexError):
            column[index]


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(
    values=st.lists(st.none() | st.binary(max_size=3000), min_size=1, max_size=30),
    large=st.booleans(),
    threads=st.integers(1, 3),
    batch_size=st.integers(1, 40),
    cut=st.integers(0, 30),
)
def test_batches_hold_what_was_packed(
    tmp_path_factory: pytest.TempPathFactory,
    commit_rows: Callable[..., str],
    values: list[bytes | None],
    large: bool,
    threads: int,
    batch_size: int,
    cut: int,
) -> None:
    root = tmp_path_factory.mktemp("d") / "ds"
    rows = keyed({"data": pa.array(values, pa.large_binary() if large else pa.binary())})
    commit_rows(root, {"train": [[rows.slice(0, cut)], [rows.slice(cut)]]}, batch_body_bytes=5000)
    options: dict[str, Any] = {"batch_size": batch_size, "shuffle": "full", "threads": threads, "epochs": 2}
    with toolkit.open(root).loader(**options, rank=0, world_size=1, remainder="pad") as loader:
        for batch in loader:
            column = batch["data"]
            expected = [values[row] if row >= 0 else None for row in batch.rows.tolist()]
            assert isinstance(column, BytesColumn)
            assert column == expected
            assert bytes(column.data) == b"".join(value or b"" for value in expected)
            assert column.offsets[0] == 0
            assert column.offsets[-1] == len(column.data)
            column.data[:] = 7  # the consumer's own


def dataset(root: Path, commit_rows: Callable[..., str], shards: int = 2) -> tuple[toolkit.Dataset, list[bytes]]:
    """Return 40 values of 5000 bytes in some shards of one record batch each."""
    rng = np.random.default_rng(5)
    values = [rng.integers(1, 256, 5000, np.uint8).tobytes() for _ in range(40)]
    rows = keyed({"data": pa.array(values, pa.binary())})
    size = 40 // shards
    commit_rows(root, {"train": [[rows.slice(i * size, size)] for i in range(shards)]})
    return toolkit.open(root), values


def damage(ds: toolkit.Dataset, value: bytes) -> None:
    """Flip a bit in the middle of a stored value."""
    for file in ds.files:
        data = bytearray(Path(file).read_bytes())
        at = data.find(value)
        if at >= 0:
            data[at + len(value) // 2] ^= 1
            Path(file).write_bytes(data)


@pytest.mark.parametrize("threads", [1, 3])
def test_a_skipped_value_is_none_and_its_bytes_are_zeros(
    tmp_path: Path, commit_rows: Callable[..., str], threads: int
) -> None:
    ds, values = dataset(tmp_path / "ds", commit_rows)
    damage(ds, values[13])
    with (
        toolkit.open(tmp_path / "ds").loader(batch_size=20, threads=threads) as loader,
        pytest.raises(CorruptShardError, match="row 1"),
    ):
        list(loader)
    # Values are put into blocks that had other values before.
    options: dict[str, Any] = {"batch_size": 10, "threads": threads, "on_error": "skip", "epochs": 3, "prefetch": 0}
    with toolkit.open(tmp_path / "ds").loader(**options) as loader:
        for batch in loader:
            column = batch["data"]
            for i, row in enumerate(batch.rows.tolist()):
                stored = bytes(column.data[column.offsets[i] : column.offsets[i + 1]])
                if batch.mask[i]:
                    assert column[i] == stored == values[row]
                else:
                    assert column[i] is None
                    assert not any(stored)
            assert not batch.mask.all() or 13 not in batch.rows


@pytest.mark.parametrize("threads", [1, 3])
def test_a_missing_shard_costs_its_own_samples(tmp_path: Path, commit_rows: Callable[..., str], threads: int) -> None:
    ds, values = dataset(tmp_path / "ds", commit_rows, shards=4)
    Path(ds.files[1]).unlink()
    with (
        toolkit.open(tmp_path / "ds").loader(batch_size=40, threads=threads) as loader,
        pytest.raises(CorruptShardError, match="it is missing"),
    ):
        list(loader)
    with toolkit.open(tmp_path / "ds").loader(
        batch_size=40, threads=threads, on_error="skip", shuffle="full", seed=3
    ) as loader:
        (batch,) = loader
        there = [not 10 <= row < 20 for row in batch.rows.tolist()]
        assert batch.mask.tolist() == there
        assert batch["data"] == [values[r] if ok else None for r, ok in zip(batch.rows.tolist(), there, strict=True)]


def test_a_batch_map_gets_a_list_of_its_own(tmp_path: Path, commit_rows: Callable[..., str]) -> None:
    ds, values = dataset(tmp_path / "ds", commit_rows)

    def reverse(columns: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        columns["data"].reverse()
        return columns

    steps = toolkit.pipeline(batch_maps=[reverse])
    (batch,) = ds.loader(steps, batch_size=40, threads=1)
    assert batch["data"] == values[::-1]


@pytest.mark.parametrize("output", ["torch", "jax"])
def test_frameworks_leave_bytes_as_they_are(tmp_path: Path, commit_rows: Callable[..., str], output: str) -> None:
    pytest.importorskip(output)
    ds, values = dataset(tmp_path / "ds", commit_rows)
    (batch,) = ds.loader(batch_size=40, threads=2, output=output)
    assert isinstance(batch["data"], BytesColumn)
    assert batch["data"] == values


def test_torch_datasets_give_single_bytes(tmp_path: Path, commit_rows: Callable[..., str]) -> None:
    pytest.importorskip("torch")
    import toolkit.torch

    ds, values = dataset(tmp_path / "ds", commit_rows)
    samples = toolkit.torch.Dataset(ds)
    assert [sample["data"] for sample in samples.__getitems__([3, 0])] == [values[3], values[0]]
    assert type(samples[5]["data"]) is bytes
