"""What a store costs: a class in one file, and its scheme in the table. This one keeps its objects in memory."""

from __future__ import annotations

import hashlib
import itertools
import types
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from contracts.store import StoreContract

import toolkit
from toolkit.errors import ExistsError, NotFoundError, StorageError
from toolkit.storage.local import LocalStore
from toolkit.storage.store import Entry, NoObjectError, ObjectInfo
from toolkit.storage.stores import STORES

_places: dict[str, MemoryStore] = {}


class MemoryStore:
    """Objects in a dict: no folders, no links, no local files."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._objects: dict[str, tuple[bytes, int]] = {}
        self._writes = itertools.count()
        self.locked = False

    @property
    def location(self) -> str:
        return f"memory://{self._name}"

    def place(self, name: str) -> str:
        return f"{self.location}/{name}" if name else self.location

    def local_path(self, name: str) -> str | None:
        return None

    def info(self, name: str) -> ObjectInfo | None:
        found = self._objects.get(name)
        return None if found is None else ObjectInfo(len(found[0]), found[1])

    def read(self, name: str, most: int | None = None) -> bytes:
        if name not in self._objects:
            raise NotFoundError(f"{self.place(name)!r} isn't there")
        data = self._objects[name][0]
        if most is not None and len(data) > most:
            raise NoObjectError(self.place(name), f"it has more than {most} bytes")
        return data

    def read_range(self, name: str, offset: int, length: int) -> bytes:
        return self.read(name)[offset : offset + length]

    def entries(self, folder: str = "", *, follow: bool = False) -> list[Entry]:
        found = {}
        start = f"{folder}/" if folder else ""
        for name, (data, _) in self._objects.items():
            if name.startswith(start):
                first, below, _ = name.removeprefix(start).partition("/")
                found[first] = Entry(first, None if below else len(data), is_folder=bool(below))
        return [found[name] for name in sorted(found)]

    def lock(self, name: str, *, make: bool = False) -> MemoryLock:
        if self.locked:
            raise ExistsError(f"another pack is writing {self.location!r}: wait for it, or stop it")
        self.locked = True
        return MemoryLock(self)

    def write(self, name: str, data: bytes | memoryview) -> None:
        self._objects[name] = bytes(data), next(self._writes)

    def create(self, name: str, data: bytes) -> bool:
        if name in self._objects:
            return False
        self.write(name, data)
        return True

    def swap(self, name: str, data: bytes, expected: ObjectInfo | None) -> None:
        if self.info(name) != expected:
            raise ExistsError(f"{self.place(name)!r} was changed by somebody else")
        self.write(name, data)

    def stream(self, temporary: str) -> MemoryStream:
        if not self.create(temporary, b""):
            raise StorageError(f"can't create {self.place(temporary)!r}: it is there")
        return MemoryStream(self, temporary)

    def move(self, name: str, new_name: str) -> None:
        self._objects[new_name] = self._objects.pop(name)

    def delete(self, names: Iterable[str], *, durable: bool = False) -> None:
        for name in names:
            self._objects.pop(name, None)

    def sync(self, folder: str = "") -> None:
        """Nothing here outlives the process."""

    def make_folder(self, folder: str) -> bool:
        return not self.entries(folder)

    def remove_folder(self, folder: str = "") -> None:
        """There are no folders."""

    def delete_folder(self, folder: str, by_way_of: str | None = None) -> None:
        self.delete([name for name in self._objects if name.startswith(f"{folder}/")])


class MemoryLock:
    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def sync_root(self) -> None:
        """Nothing here outlives the process."""

    def release(self, *, undo: bool = False) -> None:
        self._store.locked = False


class MemoryStream:
    def __init__(self, store: MemoryStore, temporary: str) -> None:
        self._store = store
        self._temporary = temporary
        self._data = bytearray()
        self._closed = False

    def write(self, piece: memoryview) -> None:
        self._data += piece

    def close(self) -> bytes:
        self._closed = True
        self._store.write(self._temporary, bytes(self._data))
        return hashlib.sha256(self._data).digest()

    def publish(self, name: str) -> None:
        self._store.move(self._temporary, name)

    def abort(self) -> None:
        if not self._closed:
            self._store.delete([self._temporary])


def opened(url: str) -> tuple[MemoryStore, str]:
    place, _, name = url.partition("://")[2].partition("/")
    if place not in _places:
        raise NotFoundError(f"no dataset at {url!r}")
    return _places[place], name


READS = ("entries", "info", "local_path", "location", "place", "read", "read_range")


def test_reading_needs_no_more_than_a_store_has(dataset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A place that can only be read, as HTTP, has these and nothing else."""
    local = LocalStore(str(dataset))
    only_read = types.SimpleNamespace(**{name: getattr(local, name) for name in READS})
    monkeypatch.setitem(STORES, "web", lambda url: (only_read, ""))
    ds = toolkit.open("web://flowers", split="train")
    assert list(ds) == list(toolkit.open(dataset, split="train"))


class TestMemoryStore(StoreContract):
    @pytest.fixture(autouse=True)
    def registered(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        monkeypatch.setitem(STORES, "memory", opened)
        yield
        _places.clear()

    def make(self, tmp_path: Path) -> MemoryStore:
        _places["flowers"] = MemoryStore("flowers")
        return _places["flowers"]
