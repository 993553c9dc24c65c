"""An index holds what a pack of the same input holds, but for the values of its media, which stay where they are."""

from __future__ import annotations

import itertools
import json
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
from toolkit import slot
from toolkit.errors import ChangedFileError, ExistsError, RejectsError, SourceError, UsageError
from toolkit.format.pin import resolve
from toolkit.pack.index.job import PACK_ONLY, IndexJob
from toolkit.sources.base import Survey
from toolkit.sources.kinds.imagefolder.source import ImageFolderSource
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
    {"shard_size": "64KiB", "jobs": 3},
    {"shuffle_seed": 3},
    {"key_conflict": "suffix", "verify_images": "decode"},
    {"shuffle_seed": 4, "key_conflict": "suffix", "verify_images": "off"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda one: "-".join(map(str, one.values())))
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


@pytest.mark.parametrize("options", [{}, {"shuffle_seed": 3, "key_conflict": "suffix"}], ids=["plain", "two-passes"])
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


# --- a source that changes ---------------------------------------------------------------------------------------


def test_a_file_that_changes_before_it_is_read_is_a_reject(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = folder(tmp_path)[0]
    survey = ImageFolderSource.survey

    def surveyed(self: ImageFolderSource) -> Survey:
        found = survey(self)
        (source / "ant/0001.jpg").write_bytes(JPEGS[0])
        (source / "bee/0002.jpg").unlink()
        return found

    monkeypatch.setattr(ImageFolderSource, "survey", surveyed)
    result = toolkit.index(source, tmp_path / "ds", max_rejects=2)
    assert {one.key for one in result.rejects} == {"ant/0001.jpg", "bee/0002.jpg"}
    assert len(indexed.packed(tmp_path / "ds")) == result.samples == 10


@pytest.mark.parametrize("trust", ["hash", "stat"])
@pytest.mark.parametrize("change", ["other", "longer", "shorter", "gone", "folder", "link", "pipe"])
def test_a_file_that_changes_behind_its_index_is_an_error_that_names_it(
    tmp_path: Path, change: str, trust: str
) -> None:
    source = folder(tmp_path)[0]
    toolkit.index(source, tmp_path / "ds", trust=trust)
    path = source / "ant/0003.jpg"
    data = path.read_bytes()
    path.unlink()
    match change:
        case "other":
            path.write_bytes(bytes([data[0] ^ 1]) + data[1:])
        case "longer":
            path.write_bytes(data + b"x")
        case "shorter":
            path.write_bytes(data[:-1])
        case "folder":
            path.mkdir()
        case "link":
            path.symlink_to("/etc/hostname")
        case "pipe":
            os.mkfifo(path)
    ds = toolkit.open(tmp_path / "ds")
    if (change, trust) == ("longer", "hash"):  # the value is where it was
        assert ds[3]["image"] == data
        return
    with pytest.raises(ChangedFileError, match=r"ant/0003\.jpg"):
        ds[3]
    assert ds[2]["image"] == (source / "ant/0002.jpg").read_bytes()


# --- appends -----------------------------------------------------------------------------------------------------


def test_an_append_keeps_the_roots_that_are_there(tmp_path: Path) -> None:
    one, two = (make_folder(tmp_path / name, {f"{name}": 3}) for name in ("one", "two"))
    more = make_folder(tmp_path / "more/one", {"one": 1}).parent
    options: dict[str, Any] = {"on_existing": "append", "extend_classes": True}
    toolkit.index(one, tmp_path / "ds")
    first = toolkit.index(two, tmp_path / "ds", **options)
    assert first.roots == {"source": str(one), "source-2": str(two)}
    make_folder(one / "late", {"one": 1})
    again = toolkit.index(one, tmp_path / "ds", include=("late/*",), **options)
    assert again.roots == first.roots, "a folder that is there already keeps its name"
    shutil.rmtree(more)
    roots = [row["image"]["root"] for row in indexed.rows(tmp_path / "ds")]
    assert roots == ["source"] * 3 + ["source-2"] * 3 + ["source"]
    assert all(row["image"] for row in indexed.packed(tmp_path / "ds"))
    assert resolve(tmp_path / "ds").manifest.options["roots"] == ["source", "source-2"]


@pytest.mark.parametrize(
    ("first", "then", "said"),
    [
        ("pack", "hash", "holds its values itself, and what would be appended refers to its values, with their sums"),
        ("hash", "pack", "refers to its values, with their sums, .* holds its values itself: .* toolkit index"),
        ("hash", "stat", "with their sums, .* has no sums of them: append with toolkit index --trust hash"),
        ("stat", "hash", "has no sums of them, .* with their sums: append with toolkit index --trust stat"),
    ],
)
def test_an_append_of_another_kind_is_refused(tmp_path: Path, first: str, then: str, said: str) -> None:
    def run(how: str, source: Path, **options: Any) -> None:
        if how == "pack":
            toolkit.pack(source, tmp_path / "ds", **options)
        else:
            toolkit.index(source, tmp_path / "ds", trust=how, **options)

    one, two = (make_folder(tmp_path / name, {f"{name}": 2}) for name in ("one", "two"))
    run(first, one)
    with pytest.raises(UsageError, match=said):
        run(then, two, on_existing="append", extend_classes=True)


def test_no_root_of_a_stranger_becomes_ones_own_by_an_append(tmp_path: Path) -> None:
    one, two = (make_folder(tmp_path / name, {f"{name}": 2}) for name in ("one", "two"))
    toolkit.index(one, tmp_path / "ds")
    said = json.loads((tmp_path / "ds/roots.json").read_text())
    said["roots"]["source"] = "/etc"
    (tmp_path / "ds/roots.json").write_text(json.dumps(said))
    options: dict[str, Any] = {"on_existing": "append", "extend_classes": True}
    with pytest.raises(UsageError, match=r"wasn't written by you, .* To append, remove that file"):
        toolkit.index(two, tmp_path / "ds", **options)
    (tmp_path / "ds/roots.json").unlink()
    result = toolkit.index(two, tmp_path / "ds", **options)
    assert result.roots == {"source-2": str(two)}
    ds = toolkit.open(tmp_path / "ds", roots={"source": one, "source-2": two})
    assert [ds[i]["image"] for i in range(4)] == [path.read_bytes() for path in sorted(tmp_path.glob("*/*/*.jpg"))]


def test_older_versions_keep_their_roots(tmp_path: Path) -> None:
    one, two = make_folder(tmp_path / "one", {"a": 2}), make_folder(tmp_path / "two", {"b": 3})
    first = toolkit.index(one, tmp_path / "ds")
    toolkit.index(two, tmp_path / "ds", on_existing="overwrite")
    for pin, source in ((first.pin, one), (None, two)):
        ds = toolkit.open(tmp_path / "ds" if pin is None else f"{tmp_path}/ds@sha256:{pin}")
        assert [ds[i]["image"] for i in range(len(ds))] == [path.read_bytes() for path in sorted(source.rglob("*.jpg"))]


# --- the loader --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", INPUTS)
def test_an_epoch_is_that_of_the_packed_dataset(
    tmp_path: Path, make: Callable[[Path], tuple[Path, dict[str, Any]]]
) -> None:
    source, given = make(tmp_path)
    given = {**given, "missing": "skip"} if given else {}
    toolkit.pack(source, tmp_path / "packed", **given)
    toolkit.index(source, tmp_path / "indexed", **given)
    toolkit.index(source, tmp_path / "stat", trust="stat", **given)
    column = next(one.name for one in resolve(tmp_path / "packed").manifest.columns if one.kind.value == "image")
    steps = slot(column).decode_image().resize_short(16).center_crop(16)
    epochs = []
    for name in ("packed", "indexed", "stat"):
        ds = toolkit.open(tmp_path / name, split="train")
        loader = ds.loader(toolkit.pipeline(steps), batch_size=3, shuffle="full", seed=5)
        epochs.append([(list(batch.sample_keys), batch[column].tolist()) for batch in loader])
    assert epochs[0] == epochs[1] == epochs[2]
