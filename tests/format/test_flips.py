"""Any bit flipped in any file is refused, or harmless, as docs/format.md says: by the layer that it says.

Three ways to look: reading by toolkit, `verify` with and without `full`, and the pure reader, which can leave layers
out. No flip ever becomes a delivered value.
"""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from format.pure_arrow import Damaged
from format.pure_reader import PureReader
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from matrix import some_of
from PIL import Image

import toolkit
from toolkit.checks.verify import VerifyResult, verify
from toolkit.errors import CorruptShardError, CorruptTableError, IntegrityError, PinMismatchError

OUTSIDE = "schema, batch metadata or footer has changed"
ROWS = 9


def picture(rng: np.random.Generator, side: int) -> bytes:
    file = BytesIO()
    Image.fromarray(rng.integers(0, 256, (side, side, 3), np.uint8)).save(file, "png")
    return file.getvalue()


@pytest.fixture(scope="module")
def _small_once(tmp_path_factory: pytest.TempPathFactory, commit_samples: Callable[..., str]) -> Path:
    rng = np.random.default_rng(0)

    def sample(key: str, side: int, label: int | None) -> dict[str, object]:
        return {"__key__": key, "image": {"bytes": picture(rng, side), "path": key}, "label": label}

    first = [sample(f"a{i}", 4 + 8 * i, (0, 1, None)[i % 3]) for i in range(4)]
    first.append({"__key__": "none", "image": None, "label": 1})
    first.append({"__key__": "rubbish", "image": {"bytes": rng.bytes(40), "path": None}, "label": 1})
    shards = [first, [sample("b", 75, 0), sample("c", 1, 1)], [sample("d", 80, None)]]
    root = tmp_path_factory.mktemp("flips") / "data"
    with mock.patch("toolkit.format.commit.MOST_SHARDS", 2):
        commit_samples(root, {"train": shards}, batch_body_bytes=2200, derive=True)
    return root


@pytest.fixture
def small(_small_once: Path, tmp_path: Path) -> Path:
    """A dataset of three small shards in two tables, about 50 KB, with nulls and derived columns.

    The first shard has several record batches, the second and third have several chunks.
    """
    root = tmp_path / "data"
    for path in _small_once.rglob("*"):
        if path.is_file():
            (root / path.relative_to(_small_once)).parent.mkdir(parents=True, exist_ok=True)
            (root / path.relative_to(_small_once)).write_bytes(path.read_bytes())
    return root


def check(root: Path, *, full: bool = True) -> VerifyResult:
    return verify(root, full=full, jobs=1)


def values(root: Path) -> list[dict[str, Any] | None]:
    """Every sample as stored (paths, digests and derived columns too), None for one that was refused."""
    ds = toolkit.open(root)
    found: list[dict[str, Any] | None] = []
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
        except (CorruptShardError, CorruptTableError):
            found.append(None)
    return found


def shard_files(root: Path) -> list[Path]:
    return [root / shard["path"] for shard in PureReader(root).shards("train")]


def parts(shard: dict[str, Any]) -> list[tuple[str, range]]:
    """What each byte of a shard is, for the number of its record batch: ("message 0", ...), ("body 0", ...)."""
    found, at = [], 0
    for number, batch in enumerate(shard["batches"]):
        body = batch["offset"] + batch["metadata_bytes"]
        end = body + batch["body_bytes"]
        found += [("outside", range(at, batch["offset"])), (f"message {number}", range(batch["offset"], body))]
        found.append((f"body {number}", range(body, end)))
        at = end
    return [*found, ("outside", range(at, shard["bytes"]))]


def rows_of(shard: dict[str, Any], number: int) -> range:
    """The rows of a record batch, of the first shard."""
    first = sum(batch["rows"] for batch in shard["batches"][:number])
    return range(first, first + shard["batches"][number]["rows"])


class Flipper:
    """Flips one bit of a file in place, and the one that it flipped before back."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.good = path.read_bytes()
        self.flipped = 0

    def at(self, place: int, bit: int | None = None) -> None:
        with self.path.open("r+b", buffering=0) as file:
            changed = self.good[place] ^ 1 << (place % 8 if bit is None else bit)
            for where, byte in ((self.flipped, self.good[self.flipped]), (place, changed)):
                file.seek(where)
                file.write(bytes([byte]))
        self.flipped = place

    def restore(self) -> None:
        self.path.write_bytes(self.good)


def test_the_dataset_is_good(small: Path) -> None:
    assert check(small).findings == ()
    stored = values(small)
    assert len(stored) == ROWS
    assert None not in stored
    assert len(shard_files(small)) == 3
    reader = PureReader(small)
    assert [ref["shards"] for ref in reader.manifest["splits"]["train"]["tables"]] == [2, 1]
    assert len(next(reader.shards("train"))["batches"]) >= 3
    assert stored == [{**sample, "__digest__": mock.ANY} for sample in reader.samples("train", derived=reader.derived)]
    heights = [sample["__image.height__"] for sample in stored if sample is not None]
    assert heights == [4, 12, 20, 28, None, None, 75, 1, 80]


# --- shards ---------------------------------------------------------------------------------------------------------


def test_bytes_of_a_shard(small: Path) -> None:
    """Of the shard with nulls, several batches and padding, every seventh byte; bits take turns."""
    good, shard, path = values(small), next(PureReader(small).shards("train")), shard_files(small)[0]
    flipper, name = Flipper(path), f"shards/{path.name}"
    for part, places in parts(shard):
        what, _, number = part.partition(" ")
        for place in places[::7]:
            flipper.at(place)
            found = values(small)
            assert all(value is None or value == expected for value, expected in zip(found, good, strict=True)), place
            refused = [row for row, value in enumerate(found) if value is None]
            if what == "outside":
                assert refused == []
            elif what == "message":
                assert refused == list(rows_of(shard, int(number)))
            else:
                assert set(refused) <= set(rows_of(shard, int(number)))
            if place % 9 == 0:
                findings = check(small, full=False).findings
                assert [OUTSIDE in finding.message for finding in findings] == [True] * (what != "body"), place
                findings += check(small).findings
                assert findings, place
                assert {finding.shard for finding in findings} == {name}
                assert all(finding.kind == "integrity" for finding in findings)


def test_errors_name_the_record_batch_whose_message_was_flipped(small: Path) -> None:
    shard, path = next(PureReader(small).shards("train")), shard_files(small)[0]
    batch = shard["batches"][1]
    Flipper(path).at(batch["offset"] + 100)
    row = rows_of(shard, 1)[0]
    text = f"shard shards/{path.name}: the metadata of record batch 1 has changed since it was packed"
    with pytest.raises(CorruptShardError, match=text):
        toolkit.open(small)[row]
    with pytest.raises(Damaged, match=f"^message: record batch 1 of shards/{path.name} has another sha256"):
        PureReader(small).row("train", row)


def test_verify_names_the_samples_in_a_bad_chunk(small: Path) -> None:
    path = shard_files(small)[1]
    data = path.read_bytes()
    image = toolkit.open(small)[6]["image"]
    Flipper(path).at(data.index(image) + len(image) - 10)
    findings = check(small).findings
    assert {finding.key for finding in findings if finding.row == 6} == {"b"}
    assert any(finding.place.startswith("record batch 0, chunk") for finding in findings)


@pytest.mark.parametrize("cut", [0, 1, 100, -1, "longer", "missing", "other"])
def test_a_shard_of_another_size(small: Path, cut: int | str) -> None:
    path = shard_files(small)[2]
    data = path.read_bytes()
    other = shard_files(small)[1].read_bytes()
    path.unlink()
    if cut == "longer":
        path.write_bytes(data + b"\0")
    elif cut == "other":
        path.write_bytes(other)
    elif cut != "missing":
        path.write_bytes(data[:cut])
    for full in (False, True):
        (finding,) = check(small, full=full).findings
        assert finding.shard == f"shards/{path.name}"
    assert values(small)[-1] is None
    assert values(small)[:-1].count(None) == 0


def test_a_shard_that_changes_while_it_is_open(small: Path) -> None:
    ds = toolkit.open(small)
    assert ds[8]["image"] is not None
    path = Path(ds.files[2])
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(CorruptShardError, match="changed while it was open"):
        ds[8]


def test_every_byte_of_a_body_counts(small: Path) -> None:
    """Each touched chunk is checked, so no byte of a body can differ and its row still be delivered unchecked."""
    path, shard = shard_files(small)[1], list(PureReader(small).shards("train"))[1]
    flipper, expected = Flipper(path), values(small)[6]
    (_, body) = parts(shard)[2]
    for place in body[::97]:
        flipper.at(place)
        assert values(small)[6] in (expected, None), place


# --- manifests and tables -------------------------------------------------------------------------------------------


def test_every_byte_of_the_manifest(small: Path) -> None:
    pin = toolkit.open(small).pin
    flipper = Flipper(small / "manifest.json")
    for place in range(len(flipper.good)):
        flipper.at(place)
        with pytest.raises(PinMismatchError, match="no committed version"):
            toolkit.open(small)
        with pytest.raises(Damaged, match=r"^pin: manifest\.json"):
            PureReader(small)
    with pytest.raises(PinMismatchError):
        check(small)
    assert len(toolkit.open(f"{small}@sha256:{pin}")) == ROWS
    flipper = Flipper(small / "manifests" / f"{pin}.json")
    for place in range(len(flipper.good)):
        flipper.at(place)
        with pytest.raises(PinMismatchError, match="changed after it was packed"):
            toolkit.open(f"{small}@sha256:{pin[:12]}")
        with pytest.raises(Damaged, match=rf"^pin: manifests/{pin}\.json"):
            PureReader(small, pin)


def tables_of(root: Path) -> tuple[list[str], list[str]]:
    """The tables that are read when a dataset is opened, and those that are read when a row of theirs is."""
    manifest = PureReader(root).manifest
    labels = [column["label_table"] for column in manifest["columns"] if column["kind"] == "label"]
    shards = [ref["sha256"] for ref in manifest["splits"]["train"]["tables"]]
    return [manifest["schema"], *labels], shards


def test_every_byte_of_tables_of_the_whole_dataset(small: Path) -> None:
    for name in tables_of(small)[0]:
        flipper = Flipper(small / "tables" / f"{name}.arrow")
        for place in range(len(flipper.good)):
            flipper.at(place)
            with pytest.raises(CorruptTableError, match=f"{name}.arrow has sha256 .* not its name"):
                toolkit.open(small)
            with pytest.raises(Damaged, match=rf"^table: tables/{name}\.arrow has another sha256"):
                PureReader(small)
        for full in (False, True):
            with pytest.raises(IntegrityError):
                check(small, full=full)
        flipper.path.unlink()
        with pytest.raises(CorruptTableError, match=f"{name}.arrow is missing"):
            toolkit.open(small)
        flipper.restore()
    assert check(small).findings == ()


def test_every_byte_of_shard_tables(small: Path) -> None:
    """Found when a row of the table is read, and no row of another one suffers."""
    good = values(small)
    for name, rows in zip(tables_of(small)[1], (range(8), range(8, 9)), strict=True):
        flipper = Flipper(small / "tables" / f"{name}.arrow")
        for place in some_of(range(len(flipper.good))):
            flipper.at(place)
            ds = toolkit.open(small)
            with pytest.raises(CorruptTableError, match=f"{name}.arrow has sha256 .* not its name"):
                ds[rows[0]]
            with pytest.raises(Damaged, match=rf"^table: tables/{name}\.arrow has another sha256"):
                PureReader(small).row("train", rows[0])
            if place % 150 == 0:
                assert values(small) == [None if row in rows else value for row, value in enumerate(good)]
        for full in (False, True):
            with pytest.raises(IntegrityError, match=name):
                check(small, full=full)
        flipper.path.unlink()
        with pytest.raises(CorruptTableError, match=f"{name}.arrow is missing"):
            toolkit.open(small)[rows[0]]
        flipper.restore()
    assert check(small).findings == ()


def test_files_that_nothing_is_read_from(dataset: Path) -> None:
    """Reports, the lock and what a commit leaves are hashed nowhere, and no reader looks at them."""
    folders = ("shards", "tables", "manifests")
    others = [path for path in dataset.rglob("*") if path.is_file() and path.parent.name not in folders]
    others.remove(dataset / "manifest.json")
    assert {path.parent.name for path in others} >= {"reports"}
    for path in others:
        path.write_bytes(bytes(byte ^ 16 for byte in path.read_bytes()))
    assert check(dataset).findings == ()
    assert len(list(PureReader(dataset).samples("train"))) == len(toolkit.open(dataset, split="train"))


# --- layer by layer -------------------------------------------------------------------------------------------------


class Layers:
    """The pure reader over one damaged shard: which layer finds it, when those before are left out."""

    def __init__(self, root: Path) -> None:
        self.reader = PureReader(root)
        self.good = self._samples()
        self.plain = [self._without_derived(sample) for sample in self.good]

    def _samples(self, *skip: str) -> list[dict[str, Any]]:
        return list(self.reader.samples("train", frozenset(skip), self.reader.derived))

    def _without_derived(self, sample: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in sample.items() if name not in self.reader.derived}

    def finds(self, *skip: str) -> str:
        """The layer; "derived" for another value of a derived column, "" for no other value at all."""
        try:
            found = self._samples(*skip)
        except Damaged as error:
            return str(error).partition(":")[0]
        assert [self._without_derived(sample) for sample in found] == self.plain
        return "" if found == self.good else "derived"

    def row(self, row: int) -> str:
        """The layer that a read of one row by ranges ends in; "" for the good value."""
        try:
            found = self.reader.row("train", row, [*self.reader.columns, *self.reader.derived])
        except Damaged as error:
            return str(error).partition(":")[0]
        assert found == self.good[row]
        return ""


def look(layers: Layers, shard: dict[str, Any], part: str) -> None:
    """What docs/format.md says of a flip of a bit of that part of the first shard."""
    what, _, number = part.partition(" ")
    rows = rows_of(shard, int(number)) if number else range(0)
    found = {row: layers.row(row) for row in range(sum(batch["rows"] for batch in shard["batches"]))}
    if what == "body":
        assert layers.finds() == "sha256"
        assert layers.finds("sha256") == "crc"
        # Padding, bits of no row and derived columns are in no digest.
        assert layers.finds("sha256", "crc") in ("digest", "value", "derived", "")
        assert {found.pop(row) for row in rows} <= {"crc", ""}
    else:
        assert layers.finds() == "nonbody"
        assert layers.finds("nonbody") == "sha256"
        assert layers.finds("nonbody", "sha256") == ("message" if what == "message" else "")
        assert {found.pop(row) for row in rows} <= {"message"}
    assert set(found.values()) == {""}


def test_every_layer_finds_what_is_its_own(small: Path) -> None:
    layers, shard = Layers(small), next(PureReader(small).shards("train"))
    flipper = Flipper(shard_files(small)[0])
    for part, places in parts(shard):
        for place in places[:: 11 if part == "outside" else 23]:
            flipper.at(place)
            look(layers, shard, part)


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(st.data())
def test_any_bit_of_a_shard(small: Path, data: st.DataObject) -> None:
    layers, shard = Layers(small), next(PureReader(small).shards("train"))
    flipper = Flipper(shard_files(small)[0])
    part, places = data.draw(st.sampled_from([one for one in parts(shard) if one[1]]))
    place, bit = data.draw(st.sampled_from(places)), data.draw(st.integers(0, 7))
    flipper.at(place, bit)
    try:
        look(layers, shard, part)
    finally:
        flipper.restore()
