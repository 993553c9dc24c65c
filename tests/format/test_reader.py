"""An open shard: what is refused when it is opened, and what holds while it is open."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from format.shard_indexes import index_of

import toolkit
from toolkit._native.shards.body import READ_CRC, READ_FAULT, READ_OK, READ_RANGE
from toolkit._native.shards.locate import FileIdentity
from toolkit.checks.verify import verify
from toolkit.errors import CorruptShardError, StorageError
from toolkit.format.index import ShardIndex
from toolkit.format.layout import BatchShape
from toolkit.format.reader import ShardReader, read_failure
from toolkit.format.shard import BatchPlace, ShardRecord
from toolkit.loader.dataset.fetch import Fetcher
from toolkit.storage.local import LocalStore

SHAPE = BatchShape(0, np.empty(0, np.int32), None, ())


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
