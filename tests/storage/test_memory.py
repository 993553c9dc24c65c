"""The store in memory: the contract, its bound, and its life: forks, pickles, kills, the last user."""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from contracts.store import SAMPLES, StoreContract
from forks import forked

import toolkit
from toolkit.errors import NotFoundError
from toolkit.storage.mapped import ShardFile
from toolkit.storage.memory import MemoryFullError, MemoryStore
from toolkit.storage.stores import open_store


class TestMemoryStore(StoreContract):
    def make(self, tmp_path: Path) -> MemoryStore:
        return MemoryStore()


def descriptors() -> list[str]:
    """What the descriptors of this process lead to, of those that are ours."""
    found = []
    for one in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{one}"))
        except OSError:
            continue
    return [one for one in found if one.startswith("/memfd:toolkit")]


def test_what_is_published_is_sealed_and_keeps_its_identity() -> None:
    store = MemoryStore()
    stream = store.stream(".tmp-a")
    stream.write(memoryview(b"12345"))
    stream.close()
    stream.publish("a")
    path = store.local_path("a")
    assert path is not None
    with ShardFile(path) as file:
        assert (file.bytes, file.read_range(1, 3)) == (5, b"234")
        assert not file.identity.changed()
        with open(path, "rb+", buffering=0) as again:
            for change in (lambda: again.write(b"x"), lambda: again.truncate(2), lambda: again.truncate(9)):
                with pytest.raises(PermissionError):
                    change()
    assert store.read("a") == b"12345"


def test_no_byte_beyond_the_bound_is_kept() -> None:
    store = MemoryStore(limit=10)
    store.write("a", b"12345")
    with pytest.raises(MemoryFullError, match="may hold 10 bytes"):
        store.write("b", b"123456")
    stream = store.stream(".tmp-1")
    stream.write(memoryview(b"12345"))
    with pytest.raises(MemoryFullError):
        stream.write(memoryview(b"1"))
    assert store.used_bytes == 10
    stream.abort()
    store.write("a", b"1")
    assert store.used_bytes == 1
    store.write("b", b"123456789")
    store.move("b", "a")
    assert store.used_bytes == 9
    store.delete(["a", "b"])
    assert store.used_bytes == 0


def test_it_is_gone_with_its_last_user(commit_samples: Callable[..., str]) -> None:
    gc.collect()
    before = len(descriptors())
    store = MemoryStore()
    commit_samples(store, {"train": [SAMPLES]})
    location = store.location
    ds = toolkit.open(location)
    del store
    gc.collect()
    assert ds[3]["image"] == SAMPLES[3]["image"]["bytes"]  # type: ignore[index]
    with ds[:8].loader(batch_size=8) as loader:
        assert len(next(iter(loader))["image"]) == 8
    assert len(descriptors()) > before
    del ds, loader
    gc.collect()
    assert len(descriptors()) == before
    with pytest.raises(NotFoundError, match="while it is in use"):
        open_store(location)


def test_a_forked_child_reads_it(commit_samples: Callable[..., str]) -> None:
    store = MemoryStore()
    commit_samples(store, {"train": [SAMPLES]})
    ds = toolkit.open(store.location)

    def read() -> None:
        assert pickle.loads(pickle.dumps(ds))[5]["image"] == SAMPLES[5]["image"]["bytes"]  # type: ignore[index]

    child = forked(read)
    child.join()
    assert child.exitcode == 0
    assert ds[5]["image"] == SAMPLES[5]["image"]["bytes"]  # type: ignore[index]


def test_a_pickle_brings_the_bytes_along(commit_samples: Callable[..., str], tmp_path: Path) -> None:
    store = MemoryStore()
    commit_samples(store, {"train": [SAMPLES]})
    ds = toolkit.open(store.location)
    assert pickle.loads(pickle.dumps(store)) is store
    (tmp_path / "ds").write_bytes(pickle.dumps(ds[4:]))
    program = (
        "import pickle, sys\n"
        "ds = pickle.load(open(sys.argv[1], 'rb'))\n"
        "assert ds.pin == sys.argv[2]\n"
        "assert pickle.loads(pickle.dumps(ds))[0] == ds[0]\n"
        "print(len(ds), ds[1]['__key__'], len(ds[1]['image']))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "ds", ds.pin], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "16 5 5000\n", "")
