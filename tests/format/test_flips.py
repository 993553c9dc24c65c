"""A flipped bit at any byte of any file is found by verify --full, and never becomes a delivered value."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import toolkit
from toolkit.checks.verify import VerifyResult, verify
from toolkit.errors import CorruptShardError, CorruptTableError, IntegrityError, PinMismatchError
from toolkit.format.layout import batch_shape
from toolkit.format.reader import ShardReader
from toolkit.storage.local import LocalStore


@pytest.fixture
def small(tmp_path: Path, commit_samples: Callable[..., str]) -> Path:
    """A dataset of three small shards, about 50 KB, with nulls; the first has several batches and chunks."""
    rng = np.random.default_rng(0)

    def sample(key: str, size: int, label: int | None) -> dict[str, object]:
        return {"__key__": key, "image": {"bytes": rng.bytes(size), "path": key}, "label": label}

    first = [sample(f"a{i}", 900 * i, (0, 1, None)[i % 3]) for i in range(4)]
    first.append({"__key__": "none", "image": None, "label": 1})
    shards = [first, [sample("b", 17_000, 0), sample("c", 1, 1)], [sample("d", 20_000, None)]]
    commit_samples(tmp_path / "data", {"train": shards}, batch_body_bytes=2200)
    return tmp_path / "data"


def check(root: Path) -> VerifyResult:
    return verify(root, full=True, jobs=1)


def values(root: Path) -> list[dict | None]:
    """Every sample as stored (paths and digests too), None for one that was refused."""
    ds = toolkit.open(root)
    found: list[dict | None] = []
    for row in range(len(ds)):
        try:
            ds.check_row(row)
            located = ds.fetcher.locate(ds.rows(np.array([row])))
            stored = {name: ds.fetcher.values(name, located)[0] for name in ds.schema.names}
            sample = ds[row]
            image = sample.pop("image")
            assert sample.items() <= stored.items()
            assert image == (stored["image"] or {"bytes": None})["bytes"]
            found.append(stored)
        except CorruptShardError:
            found.append(None)
    return found


def shard_files(root: Path) -> list[Path]:
    return [Path(path) for path in toolkit.open(root).files]


class Flipper:
    """Flips one bit of a file in place, and the one that it flipped before back."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.good = path.read_bytes()
        self.flipped = 0

    def at(self, place: int) -> None:
        with self.path.open("r+b", buffering=0) as file:
            for where, byte in ((self.flipped, self.good[self.flipped]), (place, self.good[place] ^ 1 << place % 8)):
                file.seek(where)
                file.write(bytes([byte]))
        self.flipped = place

    def restore(self) -> None:
        self.path.write_bytes(self.good)


def test_the_dataset_is_good(small: Path) -> None:
    assert check(small).findings == ()
    assert None not in values(small)
    assert len(shard_files(small)) == 3
    assert toolkit.open(small).index.shard_first_batch[1] >= 3


def test_every_byte_of_a_shard(small: Path) -> None:
    """Of the shard with nulls, several batches and padding: samples at every third byte of a body, and a full verify at
    every ninth; outside of bodies every byte is refused when the shard is opened, so the rest is sampled there."""
    good, path = values(small), shard_files(small)[0]
    index = toolkit.open(small).index
    body = np.zeros(path.stat().st_size, bool)
    for batch in range(index.shard_first_batch[1]):
        start = index.batch_offset[batch] + index.batch_metadata_bytes[batch]
        body[start : start + index.batch_body_bytes[batch]] = True
    flipper, name, shape = Flipper(path), index.shard_path(0), batch_shape(toolkit.open(small).schema)
    rows = int(index.shard_rows[0])
    for place in range(len(body)):
        flipper.at(place)
        if not body[place]:
            with pytest.raises(CorruptShardError) as caught:
                ShardReader(LocalStore(str(small)), index, 0, shape)
            assert caught.value.shard == name
            if place % 90:
                continue
        elif place % 3:
            continue
        if place % 9 == 0:
            findings = check(small).findings
            assert findings, place
            assert {finding.shard for finding in findings} == {name}
            assert all(finding.kind == "integrity" for finding in findings)
        found = values(small)
        assert found[rows:] == good[rows:]
        assert all(value is None or value == expected for value, expected in zip(found, good, strict=True)), place
        assert body[place] or found[:rows] == [None] * rows


def test_verify_names_the_samples_in_a_bad_chunk(small: Path) -> None:
    path = shard_files(small)[1]
    data = path.read_bytes()
    image = toolkit.open(small)[5]["image"]
    Flipper(path).at(data.index(image) + len(image) - 10)
    findings = check(small).findings
    assert {finding.key for finding in findings if finding.row == 5} == {"b"}
    assert any(finding.place.startswith("record batch 0, chunk") for finding in findings)


@pytest.mark.parametrize("cut", [0, 1, 100, -1, "longer", "missing", "other"])
def test_a_shard_of_another_size(small: Path, cut: int | str) -> None:
    path = shard_files(small)[2]
    data = path.read_bytes()
    path.unlink()
    if cut == "longer":
        path.write_bytes(data + b"\0")
    elif cut == "other":
        path.write_bytes(shard_files(small)[1].read_bytes())
    elif cut != "missing":
        path.write_bytes(data[:cut])
    for full in (False, True):
        (finding,) = verify(small, full=full).findings
        assert finding.shard == f"shards/{path.name}"
    assert values(small)[-1] is None
    assert values(small)[:-1].count(None) == 0


def test_a_shard_that_changes_while_it_is_open(small: Path) -> None:
    ds = toolkit.open(small)
    assert ds[7]["image"] is not None
    path = Path(ds.files[2])
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(CorruptShardError, match="changed while it was open"):
        ds[7]


def test_every_byte_of_the_manifest(small: Path) -> None:
    pin = toolkit.open(small).pin
    flipper = Flipper(small / "manifest.json")
    for place in range(len(flipper.good)):
        flipper.at(place)
        with pytest.raises(PinMismatchError, match="no committed version"):
            toolkit.open(small)
    with pytest.raises(PinMismatchError):
        check(small)
    assert len(toolkit.open(f"{small}@sha256:{pin}")) == 8
    flipper = Flipper(small / "manifests" / f"{pin}.json")
    for place in range(len(flipper.good)):
        flipper.at(place)
        with pytest.raises(PinMismatchError, match="changed after it was packed"):
            toolkit.open(f"{small}@sha256:{pin[:12]}")


def test_every_byte_of_every_table(small: Path) -> None:
    for path in (small / "tables").iterdir():
        flipper = Flipper(path)
        for place in range(len(flipper.good)):
            flipper.at(place)
            with pytest.raises(CorruptTableError, match=path.name):
                toolkit.open(small)
        with pytest.raises(IntegrityError):
            check(small)
        path.unlink()
        with pytest.raises(CorruptTableError, match="is missing"):
            toolkit.open(small)
        flipper.restore()
    assert check(small).findings == ()


def test_every_byte_of_a_body_counts(small: Path) -> None:
    """Each touched chunk is checked, so no byte of a body can differ and its row still be delivered unchecked."""
    ds = toolkit.open(small)
    path = Path(ds.files[1])
    flipper, expected = Flipper(path), values(small)[5]
    index = ds.index
    batch = int(index.shard_first_batch[1])
    start = int(index.batch_offset[batch] + index.batch_metadata_bytes[batch])
    for place in range(start, start + int(index.batch_body_bytes[batch]), 97):
        flipper.at(place)
        assert values(small)[5] in (expected, None), place
