"""What every store must do: a class of tests that each store's tests inherit."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

import toolkit
from toolkit.checks.verify import verify
from toolkit.errors import (
    CorruptTableError,
    ExistsError,
    NotFoundError,
    PinMismatchError,
    StorageError,
    UsageError,
)
from toolkit.format.commit import Transaction
from toolkit.format.names import LOCK
from toolkit.format.pin import resolve
from toolkit.storage.store import NoObjectError, ObjectInfo, WritableStore, local_path_of, pieces
from toolkit.storage.stores import open_store

SAMPLES = [
    {"__key__": f"{i}", "image": {"bytes": bytes([i]) * 5000, "path": f"{i}.jpg"}, "label": i % 2} for i in range(20)
]


class StoreContract:
    """A subclass makes a store; the fixture `commit_samples` is needed."""

    def make(self, tmp_path: Path) -> WritableStore:
        """An empty store, whose root is there, and which its location opens."""
        raise NotImplementedError

    def make_at(self, tmp_path: Path, name: str) -> WritableStore | None:
        """A store of that name, whose root lock() is to make; None where roots aren't made."""
        return None

    @pytest.fixture
    def store(self, tmp_path: Path) -> WritableStore:
        return self.make(tmp_path)

    @pytest.fixture
    def pin(self, store: WritableStore, commit_samples: Callable[..., str]) -> str:
        """Of a version that was committed to the store."""
        return commit_samples(store, {"train": [SAMPLES[:12], SAMPLES[12:]]})

    # --- objects --------------------------------------------------------------------------------------------------

    def test_an_object_is_what_was_written(self, store: WritableStore) -> None:
        for data in (b"", b"x", os.urandom(3_000_000), b"shorter"):
            store.write("a", data)
            assert store.read("a") == data
            assert store.read("a", len(data)) == data
            assert self.known(store, "a").bytes == len(data)
            assert b"".join(pieces(store, "a", 1_000_000)) == data

    def test_ranges_end_with_the_object(self, store: WritableStore) -> None:
        data = bytes(range(200))
        store.write("a", memoryview(data))
        for offset, length in ((0, 200), (0, 0), (50, 10), (190, 100), (200, 1), (300, 5)):
            assert store.read_range("a", offset, length) == data[offset : offset + length]

    def test_what_is_not_there(self, store: WritableStore) -> None:
        assert store.info("tables/a") is None
        assert store.entries("tables") == store.entries("tables", follow=True) == store.entries() == []
        for read in (lambda: store.read("tables/a"), lambda: store.read_range("tables/a", 0, 1)):
            with pytest.raises(NotFoundError, match="tables/a"):
                read()
        store.delete(["tables/a", "a"], durable=True)
        store.delete_folder("tables")

    def test_nothing_is_below_an_object(self, store: WritableStore) -> None:
        store.write("a", b"x")
        assert store.info("a/b") is None
        with pytest.raises(NotFoundError, match="a/b"):
            store.read("a/b")

    def test_more_bytes_than_asked_for(self, store: WritableStore) -> None:
        store.write("a", b"12345")
        with pytest.raises(NoObjectError, match=r"a.*more than 4 bytes") as caught:
            store.read("a", 4)
        assert isinstance(caught.value, StorageError)
        assert caught.value.reason == "it has more than 4 bytes"

    def test_a_folder_is_no_object(self, store: WritableStore) -> None:
        store.make_folder("tables")
        store.write("tables/a", b"x")
        with pytest.raises((NotFoundError, NoObjectError), match="tables"):
            store.read("tables")
        info = store.info("tables")
        assert info is None or info.bytes is None

    def test_entries_are_in_order(self, store: WritableStore) -> None:
        store.make_folder("tables")
        for name in ("tables/b", "tables/a", "c"):
            store.write(name, name.encode())
        assert [(one.name, one.bytes, one.is_folder) for one in store.entries()] == [
            ("c", 1, False),
            ("tables", None, True),
        ]
        for follow in (False, True):
            listed = store.entries("tables", follow=follow)
            assert [(one.name, one.bytes, one.is_folder) for one in listed] == [("a", 8, False), ("b", 8, False)]

    # --- writing --------------------------------------------------------------------------------------------------

    def test_an_object_is_created_once(self, store: WritableStore) -> None:
        assert store.create("a", b"first")
        assert not store.create("a", b"other")
        assert store.read("a") == b"first"

    def test_a_swap_needs_the_object_that_was_seen(self, store: WritableStore) -> None:
        store.swap("a", b"first", None)
        seen = self.known(store, "a")
        store.write("a", b"other")
        for expected in (seen, None):
            with pytest.raises(ExistsError, match="a"):
                store.swap("a", b"third", expected)
        assert store.read("a") == b"other"
        store.swap("a", b"third", self.known(store, "a"))
        assert store.read("a") == b"third"
        seen = self.known(store, "a")
        store.delete(["a"])
        with pytest.raises(ExistsError):
            store.swap("a", b"fourth", seen)
        assert store.info("a") is None

    def test_a_stream_appears_when_it_is_published(self, store: WritableStore) -> None:
        store.make_folder("shards")
        store.write("shards/a", b"old")
        parts = [os.urandom(size) for size in (1, 0, 2_000_000, 17)]
        whole = b"".join(parts)
        stream = store.stream("shards/.tmp-1")
        for part in parts:
            stream.write(memoryview(part))
        assert stream.close() == hashlib.sha256(whole).digest()
        assert store.read("shards/a") == b"old"
        stream.publish("shards/a")
        store.sync("shards")
        assert store.read("shards/a") == whole
        assert [one.name for one in store.entries("shards")] == ["a"]
        stream.abort()
        assert store.read("shards/a") == whole

    def test_an_aborted_stream_is_gone(self, store: WritableStore) -> None:
        stream = store.stream(".tmp-1")
        stream.write(memoryview(b"x"))
        stream.abort()
        stream.abort()
        assert store.entries() == []

    def test_a_stream_takes_nobodys_name(self, store: WritableStore) -> None:
        store.write(".tmp-1", b"there")
        with pytest.raises(StorageError, match=r"\.tmp-1"):
            store.stream(".tmp-1")
        assert store.read(".tmp-1") == b"there"

    def test_an_object_moves(self, store: WritableStore) -> None:
        store.make_folder("shards")
        store.write("a", b"new")
        store.write("shards/b", b"old")
        store.move("a", "shards/b")
        store.sync("shards")
        assert (store.info("a"), store.read("shards/b")) == (None, b"new")
        store.move("shards/b", "shards/b")
        assert store.read("shards/b") == b"new"

    def test_what_is_deleted_is_gone_and_nothing_else(self, store: WritableStore) -> None:
        for folder in ("tables", "shards"):
            store.make_folder(folder)
            for name in "abc":
                store.write(f"{folder}/{name}", b"x")
        store.delete(["tables/a", "shards/b", "tables/c", "tables/none"], durable=True)
        assert [one.name for one in store.entries("tables")] == ["b"]
        assert [one.name for one in store.entries("shards")] == ["a", "c"]

    @pytest.mark.parametrize("by_way_of", [None, ".tmp-journal"])
    def test_a_folder_goes_with_all_that_is_in_it(self, store: WritableStore, by_way_of: str | None) -> None:
        store.make_folder(".journal")
        store.make_folder(".journal/stage")
        for name in (".journal/a", ".journal/stage/b", ".journal2"):
            store.write(name, b"x")
        store.delete_folder(".journal", by_way_of)
        assert [one.name for one in store.entries()] == [".journal2"]

    def test_only_an_empty_folder_is_removed_as_such(self, store: WritableStore) -> None:
        store.make_folder("tables")
        store.write("tables/a", b"x")
        store.remove_folder("tables")
        assert store.read("tables/a") == b"x"
        store.delete(["tables/a"])
        store.remove_folder("tables")
        assert store.entries() == []

    # --- who writes -----------------------------------------------------------------------------------------------

    def test_one_writer_at_a_time(self, store: WritableStore) -> None:
        first = store.lock(LOCK)
        for make in (False, True):
            with pytest.raises(ExistsError, match="another pack is writing"):
                store.lock(LOCK, make=make)
        first.sync_root()
        first.release()
        store.lock(LOCK, make=True).release(undo=True)

    @pytest.mark.parametrize("name", ["new", "new/", "new/.", "new//", "a/../new/", "a/new/", "a/./new"])
    def test_a_root_is_made_however_it_is_written(self, tmp_path: Path, name: str) -> None:
        store = self.make_at(tmp_path, name)
        if store is None:
            return
        before = sorted(tmp_path.rglob("*"))
        store.lock(LOCK, make=True).release(undo=True)
        assert sorted(tmp_path.rglob("*")) == before
        lock = store.lock(LOCK, make=True)
        store.write("a", b"x")
        lock.sync_root()
        lock.release(undo=True)
        assert store.read("a") == b"x"

    # --- files ----------------------------------------------------------------------------------------------------

    def test_places_are_named(self, store: WritableStore) -> None:
        assert store.place("tables/a").startswith(store.place(""))
        assert store.place("tables/a").endswith("tables/a")

    def test_an_object_has_a_local_file_or_the_error_says_so(self, store: WritableStore) -> None:
        store.write("a", b"x")
        path = store.local_path("a")
        if path is None:
            with pytest.raises(UsageError, match=r"a' is no local file.*copy the dataset to a local folder"):
                local_path_of(store, "a")
        else:
            assert local_path_of(store, "a") == path
            assert Path(path).read_bytes() == b"x"

    # --- datasets -------------------------------------------------------------------------------------------------

    def test_its_location_opens_it(self, store: WritableStore) -> None:
        store.write("a", b"x")
        again, name = open_store(store.location)
        assert (again.read("a"), name) == (b"x", "")
        again, name = open_store(store.place("a"))
        assert again.read(name) == b"x"

    def test_a_dataset_is_opened_from_it(self, store: WritableStore, pin: str) -> None:
        for reference in (
            store.location,
            f"{store.location}@sha256:{pin[:12]}",
            store.place("manifest.json"),
            store.place(f"manifests/{pin}.json"),
        ):
            ds = toolkit.open(reference)
            assert (ds.pin, len(ds), ds.classes, ds.root) == (pin, 20, ("cat", "dog"), store.location)
        assert ds.files == [store.place(path) for path in ds.index.paths()]

    def test_samples_are_read_or_the_error_says_why_not(self, store: WritableStore, pin: str) -> None:
        ds = toolkit.open(store.location)
        if store.local_path("a") is None:
            for read in (lambda: ds[0], lambda: list(ds.loader(batch_size=4)), lambda: verify(store.location)):
                with pytest.raises(UsageError, match="is no local file, and shards are only read from local files"):
                    read()
        else:
            assert [sample["image"] for sample in ds] == [sample["image"]["bytes"] for sample in SAMPLES]
            assert verify(store.location, full=True).findings == ()

    def test_a_manifest_that_was_changed_is_refused(self, store: WritableStore, pin: str) -> None:
        data = store.read("manifest.json")
        store.write("manifest.json", data + b"\n")
        with pytest.raises(PinMismatchError, match=r"manifest\.json.*is no committed version"):
            resolve(store.location)
        assert resolve(f"{store.location}@sha256:{pin}").pin == pin
        store.write(f"manifests/{pin}.json", data + b" ")
        with pytest.raises(PinMismatchError, match=f"not the pin {pin}"):
            resolve(f"{store.location}@sha256:{pin}")

    def test_a_table_that_is_damaged_or_gone_is_refused(self, store: WritableStore, pin: str) -> None:
        name = f"tables/{resolve(store.location).manifest.schema}.arrow"
        store.write(name, store.read(name)[:-1])
        with pytest.raises(CorruptTableError, match="not its name"):
            toolkit.open(store.location)
        store.delete([name])
        with pytest.raises(CorruptTableError, match="is missing"):
            toolkit.open(store.location)

    def test_a_version_that_is_not_committed_leaves_nothing(self, store: WritableStore) -> None:
        with Transaction(store) as transaction:
            transaction.add_table(b"x")
            shard = transaction.new_shard("train-000000-0")
            shard.write(memoryview(b"y"))
            shard.close()
            assert transaction.publish_shard(shard, "train-0.arrow") == "shards/train-0.arrow"
        found = [(one.name, one.is_folder) for one in store.entries() if one.name != LOCK]
        assert found == [("shards", True)]
        assert [one.name for one in store.entries("shards")] == ["train-0.arrow"]

    def test_a_commit_over_somebody_elses_is_refused(
        self, store: WritableStore, pin: str, commit_samples: Callable[..., str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Somebody who holds no lock, as another machine: the version that is there stays."""
        real = Transaction.sync_shards
        data = store.read("manifest.json")

        def sync_shards(transaction: Transaction) -> None:
            real(transaction)
            store.write("manifest.json", data)

        monkeypatch.setattr(Transaction, "sync_shards", sync_shards)
        with pytest.raises(ExistsError, match=r"manifest\.json.*was changed"):
            commit_samples(store, {"train": [SAMPLES[:5]]})
        assert [one.name for one in store.entries("manifests")] == [f"{pin}.json"]
        assert len(toolkit.open(store.location)) == 20

    def known(self, store: WritableStore, name: str) -> ObjectInfo:
        info = store.info(name)
        assert info is not None
        return info
