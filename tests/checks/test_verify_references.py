"""verify, inspect, head, gc and bench of datasets that refer to files: what changed, and what strangers may name."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from referenced import refer, sums_of

import toolkit
from toolkit.checks import verify_references
from toolkit.checks.bench.bench import BenchOptions, bench
from toolkit.checks.verify import verify
from toolkit.errors import NotFoundError, UsageError
from toolkit.report.inspect_view import inspect_views
from toolkit.report.sample_view import sample_document

Change = Callable[[int, dict[str, Any]], dict[str, Any]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "files"


@pytest.fixture(params=["files", "tar"])
def referred(request: pytest.FixtureRequest, dataset: Path, tmp_path: Path, root: Path) -> Path:
    return refer(dataset, tmp_path / "ref", root, tar=request.param == "tar")


@pytest.fixture
def unhashed(dataset: Path, tmp_path: Path, root: Path) -> Path:
    return refer(dataset, tmp_path / "ref", root, hashed=False)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def some_file(root: Path) -> Path:
    return sorted(path for path in root.rglob("*") if path.is_file())[0]


# --- what is as it was ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [{}, {"full": True}, {"decode": True}, {"full": True, "decode": True}])
def test_nothing_is_found_in_what_is_as_it_was(referred: Path, level: dict[str, bool]) -> None:
    result = verify(referred, **level)
    assert (result.findings, result.samples) == ((), 14)
    said = "the bytes that references lead to: only that each file is there and ends behind them (--full)"
    assert (said in result.not_checked) is not level.get("full", False)


@pytest.mark.parametrize("level", [{}, {"full": True}, {"decode": True}])
def test_what_is_unhashed_says_so(unhashed: Path, level: dict[str, bool]) -> None:
    result = verify(unhashed, **level)
    assert result.findings == ()
    assert result.not_checked[0] == (
        "any byte of the files that it refers to: it is unhashed, and their sizes and times alone were compared"
    )


# --- what changed ---------------------------------------------------------------------------------------------------


def test_every_changed_file_is_named(referred: Path, root: Path, dataset: Path) -> None:
    """Some flipped, one gone, one cut: quick sees the last two, full all of them, each with its row and key."""
    if (root / "train.tar").exists():
        data = bytearray((root / "train.tar").read_bytes())
        first = data.index(b"\xff\xd8\xff")
        data[first + 400] ^= 1
        (root / "train.tar").write_bytes(data)
        (root / "val.tar").write_bytes((root / "val.tar").read_bytes()[:600])
        flipped, lost = {("train", 0)}, {("val", 0), ("val", 1)}
    else:
        keys = toolkit.open(dataset, split="train").keys()
        for row in (1, 3):
            data = bytearray((root / keys[row]).read_bytes())
            data[500] ^= 1
            (root / keys[row]).write_bytes(data)
        (root / keys[5]).unlink()
        (root / keys[6]).write_bytes(b"short")
        flipped, lost = {("train", 1), ("train", 3)}, {("train", 5), ("train", 6)}
    quick, full = verify(referred), verify(referred, full=True)
    assert {(one.split, one.row) for one in quick.findings} == lost
    assert {(one.split, one.row) for one in full.findings} == flipped | lost
    assert {(one.kind, one.place) for one in full.findings} == {("integrity", "reference")}
    for one in full.findings:
        assert one.key == toolkit.open(dataset, split=one.split).keys()[one.row or 0]
        assert str(root) in one.message


def test_a_file_that_grew_behind_its_value_is_the_same_value(referred: Path, root: Path) -> None:
    path = some_file(root)
    path.write_bytes(path.read_bytes() + b"more")
    assert verify(referred, full=True).findings == ()


def test_unhashed_sees_sizes_and_times(unhashed: Path, root: Path) -> None:
    """A file of the same size and time is the one blind spot, and the report says that it is."""
    files = sorted(path for path in root.rglob("*") if path.is_file())
    stat = files[0].stat()
    files[0].write_bytes(bytes(stat.st_size))
    os.utime(files[0], ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert verify(unhashed, full=True).findings == ()
    os.utime(files[1], ns=(1, 1))
    files[2].write_bytes(files[2].read_bytes() + b"!")
    found = verify(unhashed, full=True).findings
    assert len(found) == 2
    assert all("another size or modification time" in one.message for one in found)


def test_so_many_changed_files_that_not_all_are_named(
    referred: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify_references, "_MOST_NAMED", 3)
    for path in root.rglob("*"):
        if path.is_file():
            path.write_bytes(b"")
    found = verify(referred).findings
    assert len([one for one in found if one.split == "train" and one.row is not None]) == 3
    assert "9 more values of split train lie in files that aren't what was indexed" in {one.message for one in found}


def test_a_digest_that_is_no_longer_that_of_the_sample(dataset: Path, tmp_path: Path, root: Path) -> None:
    """Sums and file agree, and the sample is another one: only the digest knows."""
    made = refer(dataset, tmp_path / "first", root)
    assert verify(made, full=True).findings == ()
    other = some_file(root)
    data = other.read_bytes() + b"!"

    def change(row: int, value: dict[str, Any]) -> dict[str, Any]:
        if root / value["path"] == other:
            value |= {"length": len(data), "crc32c": sums_of(data)}
        return value

    lies = refer(dataset, tmp_path / "second", root, change=change)
    other.write_bytes(data)
    [found] = [one for one in verify(lies, full=True).findings if "digest" in one.message]
    assert "its digest isn't the one that it was packed with" in found.message


def test_references_that_are_no_pictures_any_more(dataset: Path, tmp_path: Path, root: Path) -> None:
    made = refer(dataset, tmp_path / "ref", root, hashed=False)
    path = some_file(root)
    stat = path.stat()
    path.write_bytes(path.read_bytes()[:20].ljust(stat.st_size, b"\0"))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert {one.kind for one in verify(made, decode=True).findings} == {"sample"}


# --- strangers ------------------------------------------------------------------------------------------------------

HOSTILE: dict[str, dict[str, Any]] = {
    "another folder": {"path": "../../etc/passwd"},
    "absolute": {"path": "/etc/passwd"},
    "a NUL": {"path": "a\0b"},
    "nothing": {"path": ""},
    "dots": {"path": "./a"},
    "a folder": {"path": "folder"},
    "a pipe": {"path": "pipe"},
    "a link out": {"path": "out"},
    "a link to a device": {"path": "zero"},
    "a folder that is a link": {"path": "up/secret"},
    "the process's memory": {"path": "mem"},
    "gone": {"path": "nowhere/at/all"},
    "before the file": {"offset": -1},
    "far behind the file": {"offset": 1 << 62},
    "negative": {"length": -1},
    "too long": {"length": 1 << 40},
    "beyond all numbers": {"offset": (1 << 63) - 1, "length": (1 << 63) - 1},
    "sums of another length": {"crc32c": b"1234" * 9},
    "no sums": {"crc32c": None},
    "odd sums": {"crc32c": b"123"},
}


def hostile(dataset: Path, tmp_path: Path, root: Path, fields: dict[str, Any]) -> Path:
    """A dataset whose first row of train says something else, below a root with traps in it."""
    refer(dataset, tmp_path / "good", root)
    (root / "folder").mkdir()
    os.mkfifo(root / "pipe")
    (tmp_path / "secret").write_text("not for you")
    (root / "out").symlink_to(tmp_path / "secret")
    (root / "zero").symlink_to("/dev/zero")
    (root / "mem").symlink_to("/proc/self/mem")
    (root / "up").symlink_to("..")
    return refer(dataset, tmp_path / "bad", root, change=lambda row, value: value | (fields if row == 0 else {}))


@pytest.mark.parametrize("name", HOSTILE)
def test_a_reference_that_leads_elsewhere_is_refused(name: str, dataset: Path, tmp_path: Path, root: Path) -> None:
    bad = hostile(dataset, tmp_path, root, HOSTILE[name])
    for level in ({}, {"full": True}, {"decode": True}):
        found = verify(bad, **level).findings
        places = {(one.split, one.row) for one in found}
        assert places == {("train", 0), ("val", 0)}, (level, found)
        assert not any("not for you" in one.message for one in found)
    first = next(iter(toolkit.head(bad, split="train", samples=1)))
    assert json.dumps(sample_document(first.values, first.class_names))
    assert toolkit.inspect(bad).references is not None


@pytest.mark.parametrize(
    "place", ["/etc", "~/.ssh", "//server/share", "s3://bucket/x", "http://10.0.0.1/x", "../up", "a\0"]
)
def test_a_root_that_a_stranger_names_is_not_followed(place: str, dataset: Path, tmp_path: Path, root: Path) -> None:
    referred = refer(dataset, tmp_path / "ref", root, own=False)
    (referred / "roots.json").write_text(json.dumps({"roots": {"source": place}, "mac": "0" * 64}))
    with pytest.raises(UsageError, match="--roots source="):
        verify(referred)
    facts = toolkit.inspect(referred).references
    assert facts is not None
    assert [one.followed for one in facts.roots] == [False]
    assert "--roots source=" in facts.roots[0].why
    text = "\n".join(str(view) for view in inspect_views(toolkit.inspect(referred)))
    assert "NOT FOLLOWED" in text
    assert next(iter(toolkit.head(referred, split="train"))).values["image"]["root"] == "source"
    assert verify(referred, full=True, roots={"source": root}).findings == ()
    assert verify(referred, full=True, roots=root).findings == ()
    told = toolkit.inspect(referred, roots=root).references
    assert told is not None
    assert [(one.path, one.followed) for one in told.roots] == [(str(root), True)]


def test_a_root_that_moved(referred: Path, root: Path, tmp_path: Path) -> None:
    root.rename(tmp_path / "moved")
    with pytest.raises(NotFoundError, match="isn't there"):
        verify(referred)
    facts = toolkit.inspect(referred).references
    assert facts is not None
    assert [(one.path, one.followed) for one in facts.roots] == [(str(root), False)]
    assert verify(referred, roots={"source": tmp_path / "moved"}).findings == ()
    with pytest.raises(UsageError, match="no root 'sauce'"):
        verify(referred, roots={"sauce": tmp_path / "moved"})
    with pytest.raises(NotFoundError):
        verify(referred, roots=tmp_path / "nowhere")


def test_roots_of_a_dataset_that_holds_its_values(dataset: Path, tmp_path: Path) -> None:
    for call in (verify, toolkit.inspect):
        with pytest.raises(UsageError, match="holds all its values"):
            call(dataset, roots=tmp_path)


# --- what else is asked of such a dataset ---------------------------------------------------------------------------


def test_inspect_says_what_is_referred_to(referred: Path, dataset: Path, root: Path) -> None:
    facts = toolkit.inspect(referred)
    packed = toolkit.inspect(dataset)
    assert facts.references is not None
    assert packed.references is None
    assert facts.references.columns == ("image",)
    assert facts.references.hashed
    assert facts.references.values == 14
    spread = packed.media["image"].bytes
    assert spread is not None
    assert facts.references.bytes == round(spread.mean * 14)
    assert facts.media["image"] == packed.media["image"]
    assert [(one.name, one.path, one.followed) for one in facts.references.roots] == [("source", str(root), True)]
    text = "\n".join(str(view) for view in inspect_views(facts))
    assert "that are not stored here" in text
    assert "UNHASHED" not in text
    assert facts.document()["references"] == facts.references
    assert toolkit.inspect(referred, scan=0).references.bytes is None  # type: ignore[union-attr]
    assert toolkit.inspect_labels(referred).columns == toolkit.inspect_labels(dataset).columns


def test_inspect_says_what_is_unhashed(unhashed: Path, root: Path) -> None:
    facts = toolkit.inspect(unhashed)
    assert facts.references is not None
    assert not facts.references.hashed
    text = "\n".join(str(view) for view in inspect_views(facts))
    assert "UNHASHED: sizes and times only, nothing was hashed" in text
    assert "nothing was read of them but their sizes" in text
    assert "no readable header" not in str(inspect_views(facts)[-1])
    image = facts.media["image"]
    assert (image.read, image.unreadable, image.formats) == (False, 0, {})
    shutil.rmtree(root)
    assert toolkit.inspect(unhashed).media["image"] == image  # no file is opened for it


def test_head_says_where_values_lie_and_opens_nothing(referred: Path, root: Path) -> None:
    shutil.rmtree(root)
    for row, sample in enumerate(toolkit.head(referred, split="train", samples=3)):
        value = sample.values["image"]
        assert value.keys() == {"root", "path", "offset", "length"}
        assert sample.row == row
        assert list(sample.values) == ["__key__", "image", "label"]


def test_bench_reads_references(referred: Path, root: Path, tmp_path: Path) -> None:
    options = BenchOptions(threads=(1,), repeats=1, batch_size=4, decode=False)
    root.rename(tmp_path / "moved")
    result = bench(referred, options, roots={"source": tmp_path / "moved"})
    assert (result.samples, result.cache) == (12, "warm")


def test_gc_keeps_sizes_and_times(unhashed: Path) -> None:
    (unhashed / "shards" / "old-000000-0123456789abcdef.stat").write_bytes(b"")
    found = toolkit.gc(unhashed, delete=True)
    assert [name for name in found.files if "shards/" in name] == ["shards/old-000000-0123456789abcdef.stat"]
    assert verify(unhashed, full=True).findings == ()
    assert (unhashed / "roots.json").exists()


def test_rows_without_a_value(commit_samples: Any, tmp_path: Path, dataset: Path, root: Path) -> None:
    image = toolkit.open(dataset, split="train")[0]["image"]
    packed, rows = (
        tmp_path / "packed",
        [
            {"__key__": "a", "image": {"bytes": image, "path": "a.jpg"}, "label": 0},
            {"__key__": "b", "image": None, "label": 1},
        ],
    )
    commit_samples(packed, {"train": [rows]}, derive=True)
    referred = refer(packed, tmp_path / "ref", root)
    for level in ({}, {"full": True}, {"full": True, "decode": True}):
        assert verify(referred, **level).findings == ()
    facts = toolkit.inspect(referred)
    assert facts.media["image"].missing == 1
    assert facts.references is not None
    assert (facts.references.values, facts.references.bytes) == (1, len(image))
    assert [one.values["image"] is None for one in toolkit.head(referred)] == [False, True]


def test_pieces_hold_few_bytes(dataset: Path, tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify_references, "_PIECE_BYTES", 5000)
    referred = refer(dataset, tmp_path / "ref", root)
    assert verify(referred, full=True).findings == ()
    opened = toolkit.open(referred, split="train")
    references = opened.stored.parts[0].references
    assert references is not None
    checks = verify_references.ReferenceChecks(opened, references)
    info = opened.index.batch(0)
    records = pa.RecordBatch.from_arrays(
        [opened.fetcher.array(name, 0) for name in opened.schema.names], schema=opened.schema
    )
    pieces = list(checks.packed(records, info.start))
    assert sum(piece.records.num_rows for piece in pieces) == records.num_rows
    for piece in pieces:
        sizes = [len(value["bytes"]) for value in piece.records.column("image").to_pylist()]
        assert len(sizes) == 1 or np.sum(sizes) <= 5000


def test_other_tools_see_structs(
    referred: Path, dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hugging Face's own loader opens the shards as they are, and takes nothing in them for a picture."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    datasets = pytest.importorskip("datasets")
    files = [str(path) for path in toolkit.open(referred, split="train").files if str(path).endswith(".arrow")]
    found = datasets.load_dataset("arrow", data_files=files, split="train", cache_dir=str(tmp_path / "cache"))
    assert found.num_rows == 12
    value = found[0]["image"]
    assert value.keys() == {"root", "path", "offset", "length", "name", "crc32c"}
    assert (value["root"], value["length"]) == ("source", len(toolkit.open(dataset, split="train")[0]["image"]))
    assert found.features["label"].names == ["cat", "dog"]


def test_a_reference_without_a_length_is_a_finding(dataset: Path, tmp_path: Path, root: Path) -> None:
    refer(dataset, tmp_path / "ref", root, change=lambda row, v: {**v, "length": None} if row == 1 else v)
    for full in (False, True):
        found = verify(tmp_path / "ref", full=full).findings
        assert [one.row for one in found] == [1] * len(found)
        assert "contradict each other" in found[0].message
