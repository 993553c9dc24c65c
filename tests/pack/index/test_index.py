"""An index holds what a pack of the same input holds, but for the values of its media, which stay where they are."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import indexed
import numpy as np
import pytest
import tfrecords
from pictures import encode, make_folder, picture
from sources import tars

import toolkit
from toolkit.errors import ExistsError, RejectsError, SourceError, UsageError
from toolkit.format.pin import resolve
from toolkit.pack.index.job import PACK_ONLY, IndexJob
from toolkit.sources.registry import every, named

IN_PLACE = [spec for spec in every() if spec.in_place]
JPEGS = [encode(picture(i, 20 + i, 30)) for i in range(6)]


def folder(root: Path) -> tuple[Path, dict[str, Any]]:
    return make_folder(root / "in", {"ant": 7, "bee": 5}), {}


def split_folders(root: Path) -> tuple[Path, dict[str, Any]]:
    return make_folder(root / "in", {"train/ant": 4, "train/bee": 3, "val/ant": 2, "val/bee": 2}), {}


def large(root: Path) -> tuple[Path, dict[str, Any]]:
    """Values of no whole number of chunks, and of one."""
    for number, size in enumerate((16_384, 16_385, 70_000, 1_000)):
        path = root / f"in/ant/{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(JPEGS[0] + np.random.default_rng(number).bytes(size - len(JPEGS[0])))
    return root / "in", {}


def tar(root: Path) -> tuple[Path, dict[str, Any]]:
    for name, first in (("a", 0), ("b", 3)):
        items = [(f"{i}.{part}", data) for i in range(first, first + 3) for part, data in parts(i)]
        tars.write(root / f"in/{name}.tar", tars.tar_bytes(items))
    return root / "in", {"missing": "null"}


def parts(number: int) -> list[tuple[str, bytes]]:
    image = [] if number == 4 else [("jpg", JPEGS[number])]
    return [*image, ("cls", str(number % 3).encode()), ("txt", f"text {number}".encode())]


def tfrecord(root: Path) -> tuple[Path, dict[str, Any]]:
    payloads = [tfrecords.example(image=[data], label=[i % 3]) for i, data in enumerate(JPEGS)]
    return tfrecords.write(root / "in/x.tfrecord", payloads).parent, {}


def csv(root: Path) -> tuple[Path, dict[str, Any]]:
    """A table of pictures, one of which isn't there, and one twice."""
    make_folder(root / "in", {"pics": 5})
    paths = [*(f"pics/{i:04d}.jpg" for i in range(5)), "", "pics/0001.jpg"]
    lines = ["n,path,label", *(f"{i},{path},{'ab'[i % 2]}" for i, path in enumerate(paths))]
    (root / "in/x.csv").write_text("\n".join(lines))
    return root / "in", {"source_kind": "csv", "image_column": ["path"], "missing": "null", "key": "n"}


def pairs(root: Path) -> tuple[Path, dict[str, Any]]:
    """Pictures, which stay where they are, and texts, which don't."""
    make_folder(root / "in", {"images": 4})
    (root / "in/texts").mkdir()
    for i in range(4):
        (root / f"in/texts/{i:04d}.txt").write_text(f"text {i}")
    return root / "in", {"pair": {"image": "images/{}.jpg", "text": "texts/{}.txt"}}


def yolo(root: Path) -> tuple[Path, dict[str, Any]]:
    make_folder(root / "in", {"images/train": 4, "images/val": 3})
    for path in (root / "in/images").rglob("*.jpg"):
        label = Path(str(path).replace("/images/", "/labels/")).with_suffix(".txt")
        label.parent.mkdir(parents=True, exist_ok=True)
        label.write_text("1 0.5 0.5 0.25 0.25\n")
    (root / "in/data.yaml").write_text("train: images/train\nval: images/val\nnames: [cat, dog]\n")
    return root / "in", {}


INPUTS = [
    one
    for one, kind in {
        folder: "imagefolder",
        split_folders: "imagefolder",
        large: "imagefolder",
        tar: "webdataset",
        tfrecord: "tfrecord",
        csv: "csv",
        pairs: "pairs",
        yolo: "yolo",
    }.items()
    if named(kind).in_place
]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"shuffle_seed": 3},
    {"key_conflict": "suffix"},
    {"shard_size": "64KiB", "jobs": 3},
    {"verify_images": "decode"},
    {"verify_images": "off"},
]


def of_pack(dataset: Path, column: str) -> list[dict[str, Any]]:
    """The rows of a pack, or of its values an index's."""
    rows = indexed.rows(dataset)
    assert not any("stat" in row for row in rows)
    return rows


@pytest.mark.parametrize("options", OPTIONS, ids=lambda one: "-".join(map(str, one.values())) or "plain")
@pytest.mark.parametrize("make", INPUTS)
def test_an_index_holds_what_a_pack_holds(
    tmp_path: Path, make: Callable[[Path], tuple[Path, dict[str, Any]]], options: dict[str, Any]
) -> None:
    source, given = make(tmp_path)
    toolkit.pack(source, tmp_path / "packed", **given, **options)
    result = toolkit.index(source, tmp_path / "indexed", **given, **options)
    column = next(one.name for one in resolve(tmp_path / "packed").manifest.columns if one.kind.value == "image")
    assert indexed.packed(tmp_path / "indexed", column) == indexed.rows(tmp_path / "packed")
    mine, theirs = (resolve(tmp_path / name).manifest for name in ("indexed", "packed"))
    assert mine.requires == ("references",)
    assert mine.derived == theirs.derived
    assert [(one.name, one.kind, one.encoding, one.label_table) for one in mine.columns] == [
        (one.name, one.kind, one.encoding, one.label_table) for one in theirs.columns
    ]
    assert {name: (split.rows, split.labels) for name, split in mine.splits.items()} == {
        name: (split.rows, split.labels) for name, split in theirs.splits.items()
    }
    assert mine.options == {**theirs.options, "roots": ["source"]}
    assert result.roots == {"source": str(source)}


@pytest.mark.parametrize("options", OPTIONS[:4], ids=lambda one: "-".join(map(str, one.values())) or "plain")
@pytest.mark.parametrize("make", INPUTS)
def test_trust_stat_keeps_sizes_and_times_and_says_no_more(
    tmp_path: Path, make: Callable[[Path], tuple[Path, dict[str, Any]]], options: dict[str, Any]
) -> None:
    source, given = make(tmp_path)
    toolkit.index(source, tmp_path / "hash", **given, **options)
    result = toolkit.index(source, tmp_path / "stat", trust="stat", **given, **options)
    manifest = resolve(tmp_path / "stat").manifest
    assert manifest.requires == ("references", "unhashed")
    column = next(one.name for one in manifest.columns if one.kind.value == "image")
    unknown = {"__digest__", *(one.name for one in manifest.derived)}
    stored, hashed = indexed.rows(tmp_path / "stat"), indexed.rows(tmp_path / "hash")
    for row, other in zip(stored, hashed, strict=True):
        stat, place = row.pop("stat"), row[column]
        if place is None:
            assert stat == (-1, -1)
        else:
            info = os.stat(source / place["path"])
            assert stat == (info.st_size, info.st_mtime_ns)
            other[column]["crc32c"] = None
        assert row == {name: None if name in unknown else value for name, value in other.items()}
    assert "unhashed" in repr(result)
    assert result.trust == "stat"


def test_nothing_is_read_where_times_are_trusted(tmp_path: Path) -> None:
    """And so nothing is said of what files hold: one that is no image is a row like any other."""
    source = make_folder(tmp_path / "in", {"ant": 2})
    (source / "ant/x.jpg").write_bytes(b"no image")
    (source / "ant/y.jpg").write_bytes(b"")
    with pytest.raises(RejectsError):
        toolkit.index(source, tmp_path / "hash")
    assert toolkit.index(source, tmp_path / "stat", trust="stat").samples == 4
    with pytest.raises(UsageError, match="--verify-images decode reads every image, and --trust stat none"):
        toolkit.index(source, tmp_path / "ds", trust="stat", verify_images="decode")


def test_the_pin_knows_nothing_of_the_place(tmp_path: Path) -> None:
    source = folder(tmp_path / "one")[0]
    moved = shutil.copytree(source, tmp_path / "two/elsewhere/photos")
    link = tmp_path / "link"
    link.symlink_to(moved)
    pins = {toolkit.index(one, tmp_path / f"ds{i}").pin for i, one in enumerate((source, moved, link))}
    assert len(pins) == 1
    assert [indexed.roots_of(tmp_path / f"ds{i}") for i in range(3)] == [
        {"source": str(source)},
        {"source": str(moved)},
        {"source": str(moved)},
    ]
    for path in (tmp_path / "ds0").rglob("*"):
        if path.is_file() and path.name != "roots.json":
            assert str(tmp_path).encode() not in path.read_bytes(), path


def test_the_roots_of_several_inputs(tmp_path: Path) -> None:
    paths = [
        tars.write(tmp_path / f"{place}/{i}.tar", tars.tar_bytes([(f"{i}.jpg", JPEGS[i])]))
        for i, place in enumerate(("b", "a", "b", "b/c"))
    ]
    result = toolkit.index(paths, tmp_path / "ds")
    assert result.roots == {
        "source": str(tmp_path / "b"),
        "source-2": str(tmp_path / "a"),
        "source-3": str(tmp_path / "b/c"),
    }
    places = [(row["image"]["root"], row["image"]["path"]) for row in indexed.rows(tmp_path / "ds")]
    assert places == [("source", "0.tar"), ("source-2", "1.tar"), ("source", "2.tar"), ("source-3", "3.tar")]
    assert [row["image"]["bytes"] for row in indexed.packed(tmp_path / "ds")] == JPEGS[:4]
    pattern = toolkit.index(tmp_path / "b/{0,2}.tar", tmp_path / "two")
    assert pattern.roots == {"source": str(tmp_path / "b")}


@pytest.mark.parametrize("name", ["ein Bild.jpg", "ä/ö.jpg", "a\nb.jpg", '"\\.jpg', "%2e%2e.jpg", "-x.jpg", "#?*.jpg"])
def test_any_name_that_is_text(tmp_path: Path, name: str) -> None:
    path = tmp_path / "in" / name
    path.parent.mkdir(parents=True)
    path.write_bytes(JPEGS[0])
    toolkit.index(tmp_path / "in", tmp_path / "ds")
    (row,) = indexed.packed(tmp_path / "ds")
    assert row["image"] == {"bytes": JPEGS[0], "path": path.name}


def test_a_source_whose_path_is_no_text(tmp_path: Path) -> None:
    source = tmp_path / os.fsdecode(b"photos\xff")
    make_folder(source, {"ant": 1})
    with pytest.raises(SourceError, match=r"photos\\xff' is not valid UTF-8, so nothing can refer to what lies there"):
        toolkit.index(source, tmp_path / "ds")


def test_a_folder_that_paths_are_below_is_a_root(tmp_path: Path) -> None:
    source, given = csv(tmp_path)
    (tmp_path / "away").mkdir()
    (source / "pics").rename(tmp_path / "away/pics")
    result = toolkit.index(source / "x.csv", tmp_path / "ds", **given, root=str(tmp_path / "away"))
    assert result.roots == {"source": str(source), "source-2": str(tmp_path / "away")}
    rows = indexed.rows(tmp_path / "ds")
    assert rows[1]["image"]["root"] == "source-2"
    assert rows[1]["image"]["path"] == "pics/0001.jpg"


# --- links -------------------------------------------------------------------------------------------------------


def test_links_are_resolved_once(tmp_path: Path) -> None:
    source = make_folder(tmp_path / "in", {"ant": 2})
    (source / "ant/link.jpg").symlink_to(source / "ant/0000.jpg")
    (source / "bee").symlink_to("ant")
    toolkit.index(source, tmp_path / "ds", follow_links=True)
    places = {row["__key__"]: row["image"]["path"] for row in indexed.rows(tmp_path / "ds")}
    assert places["ant/link.jpg"] == places["bee/link.jpg"] == places["bee/0000.jpg"] == "ant/0000.jpg"
    assert all(row["image"]["bytes"] for row in indexed.packed(tmp_path / "ds"))


def test_a_link_out_of_all_roots_is_a_reject_that_says_what_to_do(tmp_path: Path) -> None:
    source, away = make_folder(tmp_path / "in", {"ant": 2}), make_folder(tmp_path / "away", {"x": 2})
    (source / "ant/link.jpg").symlink_to(away / "x/0000.jpg")
    (source / "bee").symlink_to(away / "x")
    for trust in ("hash", "stat"):
        result = toolkit.index(source, tmp_path / trust, trust=trust, follow_links=True, max_rejects=3)
        assert result.samples == 2
        assert {one.key for one in result.rejects} == {"ant/link.jpg", "bee/0000.jpg", "bee/0001.jpg"}
        reasons = {one.key: one.reason for one in result.rejects}
        assert f"no SOURCE holds '{away}/x/0000.jpg': give the folder that it lies in" in reasons["ant/link.jpg"]


def test_the_real_folder_as_another_source(tmp_path: Path) -> None:
    a = tars.write(tmp_path / "in/0.tar", tars.tar_bytes([("0.jpg", JPEGS[0])]))
    b = tars.write(tmp_path / "away/1.tar", tars.tar_bytes([("1.jpg", JPEGS[1])]))
    (tmp_path / "in/1.tar").symlink_to(b)
    result = toolkit.index(tmp_path / "in", tmp_path / "one", follow_links=True, max_rejects=1)
    assert [one.key for one in result.rejects] == ["1"]
    result = toolkit.index([a, tmp_path / "in/1.tar"], tmp_path / "two", follow_links=True)
    assert result.roots == {"source": str(a.parent), "source-2": str(b.parent)}


# --- options -----------------------------------------------------------------------------------------------------


def test_the_options_of_packs_alone_are_those_that_nothing_here_takes() -> None:
    taken = frozenset(itertools.chain.from_iterable(spec.accepts for spec in IN_PLACE))
    of_kinds = frozenset(itertools.chain.from_iterable(spec.accepts for spec in every()))
    assert of_kinds - taken <= PACK_ONLY
    assert PACK_ONLY & taken <= {"tokenizer", "text_column", "eos", "eos_token", "fetch_urls", "fetch_hosts"}
    assert not PACK_ONLY & IndexJob.declared().keys()


@pytest.mark.parametrize("kind", sorted(spec.name for spec in every() if not spec.in_place))
def test_kinds_whose_values_lie_nowhere(tmp_path: Path, kind: str) -> None:
    with pytest.raises(UsageError, match=r"can't stay where they are, as those of .*imagefolder.* can: pack it"):
        toolkit.index(folder(tmp_path)[0], tmp_path / "ds", source_kind=kind)


def test_what_has_no_images_is_refused(tmp_path: Path) -> None:
    path = tars.write(tmp_path / "0.tar", tars.tar_bytes([("0.txt", b"text")]))
    with pytest.raises(UsageError, match=r"no column holds images, .*there are txt \(text\)\. Pack it"):
        toolkit.index(path, tmp_path / "ds")


def test_standard_input_lies_nowhere(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"SOURCE is -: .*: pack it"):
        toolkit.index("-", tmp_path / "ds")


def test_the_dataset_may_lie_beside_its_source_and_not_in_it(tmp_path: Path) -> None:
    source = folder(tmp_path)[0]
    with pytest.raises(UsageError, match="lies inside its source"):
        toolkit.index(source, source / "ds")
    assert toolkit.index(source, tmp_path / "ds").samples == 12
    with pytest.raises(ExistsError):
        toolkit.index(source, tmp_path / "ds")
