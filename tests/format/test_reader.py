"""An open shard: what is refused when it is opened, and what holds while it is open."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from format.shard_indexes import index_of

import toolkit
from toolkit._native.shards.body import READ_CRC, READ_FAULT, READ_OK, READ_RANGE
from toolkit._native.shards.locate import FileIdentity
from toolkit.checks.verify import verify
from toolkit.errors import CorruptShardError, CorruptTableError, StorageError
from toolkit.format.index import ShardIndex
from toolkit.format.layout import BatchShape
from toolkit.format.reader import ShardReader, read_failure
from toolkit.format.shard import BatchPlace, ShardRecord
from toolkit.loader.dataset.fetch import Fetcher
from toolkit.storage.local import LocalStore

SHAPE = BatchShape(0, np.empty(0, np.int32), None)


def one_shard(**changes: object) -> ShardIndex:
    fields = {"path": "a", "rows": 1, "file_bytes": 4, "sha256": bytes(32), "nonbody_sha256": bytes(32)}
    record = ShardRecord(**{**fields, "batches": (BatchPlace(0, 1, 2, 2, 1, 0, bytes(32)),), **changes})  # type: ignore[arg-type]
    return index_of([record])


def test_missing_and_of_another_size(tmp_path: Path) -> None:
    with pytest.raises(CorruptShardError, match="shard a: it is missing") as caught:
        ShardReader(LocalStore(str(tmp_path)), one_shard(), 0, SHAPE)
    assert caught.value.shard == "a"
    (tmp_path / "a").write_bytes(b"abc")
    with pytest.raises(CorruptShardError, match="has 3 bytes, packed were 4"):
        ShardReader(LocalStore(str(tmp_path)), one_shard(), 0, SHAPE)


def test_a_folder_in_a_shards_place(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(CorruptShardError, match="no regular file"):
        ShardReader(LocalStore(str(tmp_path)), one_shard(), 0, SHAPE)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_permission_denied_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abcd")
    (tmp_path / "a").chmod(0)
    with pytest.raises(StorageError, match="can't read"):
        ShardReader(LocalStore(str(tmp_path)), one_shard(), 0, SHAPE)


def test_no_descriptor_stays_open(dataset: Path) -> None:
    gc.collect()  # what other tests left
    before = os.listdir("/proc/self/fd")
    ds = toolkit.open(dataset, split="train")
    for row in range(len(ds)):
        assert ds[row]["image"]
    assert os.listdir("/proc/self/fd") == before


def test_a_shard_removed_or_replaced_by_name_still_delivers(dataset: Path) -> None:
    ds = toolkit.open(dataset, split="train")
    expected = list(ds)
    for path in ds.files:
        os.rename(path, path + ".old")
    assert list(ds) == expected
    for path in ds.files:
        Path(path).write_bytes(b"another file")
    assert list(ds) == expected
    with pytest.raises(CorruptShardError):
        toolkit.open(dataset, split="train")[0]


def test_threads_open_and_read_together(dataset: Path) -> None:
    expected = list(toolkit.open(dataset, split="train"))
    for _ in range(5):
        ds, found = toolkit.open(dataset, split="train"), {}

        def work(seed: int, ds: toolkit.Dataset = ds, found: dict[int, dict] = found) -> None:
            for row in np.random.default_rng(seed).permutation(len(ds)).tolist():
                found[row] = ds[row]

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [found[row] for row in range(len(ds))] == expected


def test_failures_in_words() -> None:
    assert "CRC32C" in read_failure(READ_CRC, 3)
    assert "chunk 3" in read_failure(READ_CRC, 3)
    assert "cut short" in read_failure(READ_FAULT, 0)
    assert "offsets" in read_failure(READ_RANGE, -1)
    with pytest.raises(KeyError):
        read_failure(READ_OK, 0)


def test_a_file_cut_short_behind_the_identity_check(dataset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check of size and time comes before a read: what is cut in between is caught by the guarded copy."""
    ds = toolkit.open(dataset, split="train")
    other = (dataset / "manifest.json").stat()  # a file that never changes, in place of the shard
    identity = FileIdentity(os.fsencode(dataset / "manifest.json"), other)
    opened = Fetcher.open_batch
    monkeypatch.setattr(Fetcher, "open_batch", lambda self, batch: (opened(self, batch)[0], identity))
    assert len(list(ds)) == len(ds)  # each record batch was opened, with that identity
    os.truncate(ds.files[0], 0)
    with pytest.raises(CorruptShardError, match="was cut short"):
        list(ds)
    with pytest.raises(CorruptShardError, match="was cut short"):
        list(ds.loader(batch_size=6))


def test_null_children_are_not_null_structs(tmp_path: Path, commit_samples: Callable[..., str]) -> None:
    images = [None, {"bytes": None, "path": "p"}, {"bytes": b"x", "path": None}, {"bytes": None, "path": None}]
    samples = [{"__key__": f"{i}", "image": image, "label": None} for i, image in enumerate(images)]
    commit_samples(tmp_path / "d", {"train": [samples]})
    ds = toolkit.open(tmp_path / "d")
    assert [one["image"] for one in ds] == [None, None, b"x", None]
    assert verify(tmp_path / "d", full=True).findings == ()


# --- what is checked when ---------------------------------------------------------------------------------------


def reader_of(root: Path, shard: int = 0) -> ShardReader:
    stored = toolkit.open(root, split="train").stored.parts[0]
    return ShardReader(stored.version.store, stored.index, shard, stored.shape)


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << at % 8
    path.write_bytes(data)


def test_a_message_is_checked_when_its_record_batch_is_asked_for(dataset: Path) -> None:
    ds = toolkit.open(dataset, split="train")
    batches = [ds.index.batch(number) for number in ds.index.shard(0).batches]
    assert len(batches) > 1
    flip(Path(ds.files[0]), batches[1].offset + 40)
    reader = reader_of(dataset)
    assert reader.body(0).rows == batches[0].rows
    with pytest.raises(CorruptShardError, match=r"the metadata of record batch 1 has changed .* pack again") as caught:
        reader.body(1)
    assert caught.value.shard == ds.index.shard(0).path
    rows = [row for row in range(len(ds)) if not batches[1].start <= row < batches[1].start + batches[1].rows]
    assert [ds[row]["__key__"] for row in rows] == ds.keys(rows)
    for row in set(range(len(ds))) - set(rows):
        with pytest.raises(CorruptShardError, match="record batch 1"):
            ds[row]
    (finding,) = verify(dataset).findings
    assert (finding.split, finding.shard, finding.kind) == ("train", ds.index.shard(0).path, "integrity")


def test_what_only_other_tools_read_is_checked_by_verify(dataset: Path) -> None:
    ds = toolkit.open(dataset, split="train")
    expected, path = list(ds), Path(ds.files[0])
    info = ds.index.shard(0)
    batches = [ds.index.batch(number) for number in info.batches]
    good = path.read_bytes()
    outside = [0, 30, batches[0].offset - 1, batches[-1].body_offset + batches[-1].body_bytes, info.file_bytes - 20]
    for at in (*outside, info.file_bytes - 1):
        flip(path, at)
        assert list(toolkit.open(dataset, split="train")) == expected
        with pytest.raises(CorruptShardError, match="its schema, batch metadata or footer has changed"):
            reader_of(dataset).check_nonbody()
        (finding,) = verify(dataset).findings
        assert (finding.shard, finding.place) == (info.path, "file")
        path.write_bytes(good)
    for batch in batches:  # bodies have sums of their own
        flip(path, batch.body_offset + 100)
        reader_of(dataset).check_nonbody()
        assert verify(dataset).findings == ()
        assert verify(dataset, full=True).findings
        path.write_bytes(good)
    reader_of(dataset).check_nonbody()


def test_nonbody_bytes_of_a_shard_without_rows(tmp_path: Path, commit_samples: Callable[..., str]) -> None:
    commit_samples(tmp_path / "d", {"train": [[]]})
    reader_of(tmp_path / "d").check_nonbody()
    ds = toolkit.open(tmp_path / "d")
    flip(Path(ds.files[0]), 20)
    with pytest.raises(CorruptShardError, match="its schema, batch metadata or footer"):
        reader_of(tmp_path / "d").check_nonbody()


def test_a_damaged_table_is_told_when_a_row_of_it_is_read(tmp_path: Path, commit_samples: Callable[..., str]) -> None:
    samples = [{"__key__": f"k{i}", "image": {"bytes": b"x", "path": "p"}, "label": 0} for i in range(6)]
    with mock.patch("toolkit.format.commit.MOST_SHARDS", 1):
        commit_samples(tmp_path / "d", {"train": [samples[:2], samples[2:3], samples[3:]]})
    table = toolkit.open(tmp_path / "d").manifest.splits["train"].tables[1].sha256
    path = tmp_path / f"d/tables/{table}.arrow"
    flip(path, 100)
    for damage in ("has sha256 .*, not its name", "is missing: copy the whole"):
        ds = toolkit.open(tmp_path / "d")
        assert len(ds) == 6
        assert [ds[row]["__key__"] for row in (0, 1, 3, 4, 5)] == ["k0", "k1", "k3", "k4", "k5"]
        with pytest.raises(CorruptTableError, match=damage) as caught:
            ds[2]
        assert table in str(caught.value)
        for read in (lambda ds=ds: ds.keys(), lambda ds=ds: ds.files, lambda: verify(tmp_path / "d")):
            with pytest.raises(CorruptTableError):
                read()
        path.unlink(missing_ok=True)
