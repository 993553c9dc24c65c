"""ROXXEL02 files as a source: blocks or documents behind an id, and files that can't be right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sources import roxxels

import toolkit
from toolkit.errors import SourceError, UsageError
from toolkit.pack.job import PackJob
from toolkit.pack.run import pack
from toolkit.sources.detect import find_kind


def packed(path: Path, **options: object) -> tuple[toolkit.Dataset, list[list[int]]]:
    pack(PackJob(source=str(path), dataset=str(path.parent / "ds"), **options))  # type: ignore[arg-type]
    ds = toolkit.open(path.parent / "ds")
    return ds, [ds[i]["tokens"] for i in range(len(ds))]


@pytest.mark.parametrize("dtype", ["int32", "uint16", "int64", "uint8"])
def test_blocks_become_documents(tmp_path: Path, dtype: str) -> None:
    ids = np.arange(100).astype(dtype)
    roxxels.write(tmp_path / "a.rox", ids, 64)
    assert find_kind([str(tmp_path / "a.rox")]) == "roxxel"
    ds, found = packed(tmp_path / "a.rox")
    each = 64 // ids.itemsize
    assert {len(one) for one in found} == {each}
    assert sum(found, [])[:100] == list(range(100))  # noqa: RUF017 - a few short lists
    assert ds.columns[0].tokens.vocabulary == 100  # type: ignore[union-attr]
    assert ds[0]["__key__"] == "a.rox#0"


def test_documents_end_behind_an_id(tmp_path: Path) -> None:
    ids = np.array([5, 6, 9, 9, 1, 2, 3, 9, 4, 4, 0, 0], np.int32)
    roxxels.write(tmp_path / "a.rox", ids, 16)
    ds, found = packed(tmp_path / "a.rox", eos_token="9")
    assert found == [[5, 6, 9], [9], [1, 2, 3, 9], [4, 4, 0, 0]]
    assert ds.columns[0].tokens.eos == 9  # type: ignore[union-attr]


def test_large_files_give_the_same_run_however_they_are_cut(tmp_path: Path) -> None:
    ids = np.random.default_rng(0).integers(0, 70_000, 200_000).astype(np.int32)
    roxxels.write(tmp_path / "a.rox", ids, 4000)
    ds, found = packed(tmp_path / "a.rox", shard_size=100_000)
    np.testing.assert_array_equal(np.concatenate(found), ids)
    assert ds.index.shards > 3
    rows = [batch["tokens"][batch.mask] for batch in ds.tokens(seq_len=1000, batch_size=7)]
    np.testing.assert_array_equal(np.concatenate(rows), ids)


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        (np.array([1, -1], np.int32), "holds -1, which is no token id"),
        (np.array([1, 1 << 40], np.int64), "is no token id"),
        (np.array([0.5, 1]), "float64, which are no token ids"),
    ],
)
def test_values_that_are_no_ids(tmp_path: Path, ids: np.ndarray, said: str) -> None:
    roxxels.write(tmp_path / "a.rox", ids, ids.nbytes)
    with pytest.raises(SourceError, match=said):
        packed(tmp_path / "a.rox")


def test_blocks_that_hold_no_whole_ids_and_files_cut_short(tmp_path: Path) -> None:
    roxxels.write(tmp_path / "a.rox", np.arange(8, dtype=np.int32), 6)
    with pytest.raises(SourceError, match="aren't whole ids of int32"):
        packed(tmp_path / "a.rox")
    data = (tmp_path / "a.rox").read_bytes()
    (tmp_path / "a.rox").write_bytes(data[8:])
    with pytest.raises(SourceError, match="its footer says"):
        packed(tmp_path / "a.rox")
    (tmp_path / "a.rox").write_bytes(data[:-1])
    with pytest.raises(SourceError, match="no kind that is known"):
        packed(tmp_path / "a.rox")
    with pytest.raises(SourceError, match="doesn't end as a ROXXEL02 file does"):
        packed(tmp_path / "a.rox", source_kind="roxxel")


def test_options_that_mean_nothing(tmp_path: Path) -> None:
    roxxels.write(tmp_path / "a.rox", np.arange(8, dtype=np.int32), 32)
    for options, said in (
        ({"tokenizer": "bytes"}, "--tokenizer means nothing for a source of kind roxxel"),
        ({"eos": True}, "which of them ends a document"),
        ({"eos_token": "</s>"}, "give the number"),
        ({"columns": ("a",)}, "--columns means nothing"),
    ):
        with pytest.raises(UsageError, match=said):
            packed(tmp_path / "a.rox", **options)
