from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pictures import encode, make_folder, picture

import toolkit
from toolkit.errors import NotFoundError, SourceError, ToolkitError, UsageError
from toolkit.format.kinds import Kind
from toolkit.pack.job import PackJob, PackResult
from toolkit.pack.run import pack, plan
from toolkit.sources.kinds.pairs.samples import by_split
from toolkit.sources.make import make_source
from toolkit.sources.options import LabelMode, Missing

JPEG, PNG = encode(picture(1)), encode(picture(2), "PNG")
PAIR = {"image": ("images/{}.jpg",), "mask": ("masks/{}.png",)}


def write(root: Path, files: Mapping[str, bytes]) -> Path:
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return root


def pairs(root: Path, stems: str = "abc") -> Path:
    files = {f"images/{stem}.jpg": JPEG for stem in stems} | {f"masks/{stem}.png": PNG for stem in stems}
    return write(root / "in", files)


def run(source: Path, dataset: Path, pair: Mapping[str, tuple[str, ...]] = PAIR, **options: Any) -> PackResult:
    return pack(PackJob(source=str(source), dataset=str(dataset), pair=pair, **{"max_rejects": 100, **options}))


def rows(dataset: Path, split: str | None = None) -> dict[str, dict[str, Any]]:
    opened = toolkit.open(dataset, split=split)
    found = [opened[i] for i in range(len(opened))]
    return {sample.pop("__key__"): sample for sample in found}


def npy(array: np.ndarray) -> bytes:
    sink = io.BytesIO()
    np.save(sink, array)
    return sink.getvalue()


# --- what comes of pairs ---


def test_files_of_a_stem_are_a_sample(tmp_path: Path) -> None:
    source = pairs(tmp_path)
    write(source, {"images/x/d.e.jpg": JPEG, "masks/x/d.e.png": PNG, "README.md": b"", "raw/1.bin": b""})
    result = run(source, tmp_path / "ds")
    assert not result.rejects
    found = rows(tmp_path / "ds")
    assert list(found) == ["images/a.jpg", "images/b.jpg", "images/c.jpg", "images/x/d.e.jpg"]
    assert all(sample == {"image": JPEG, "mask": PNG} for sample in found.values())
    assert result.skipped["no_pattern"] == 2
    assert result.skipped_names["no_pattern"] == ("README.md", "raw/")
    manifest = json.loads((tmp_path / "ds/manifest.json").read_text())
    assert manifest["options"]["pair"] == {"image": ["images/{}.jpg"], "mask": ["masks/{}.png"]}
    assert str(tmp_path) not in json.dumps(manifest)


def test_fields_are_what_their_files_are_called(tmp_path: Path) -> None:
    array = npy(np.arange(6, dtype=np.float32).reshape(2, 3))
    source = write(
        tmp_path / "in",
        {
            "a/image.png": PNG,
            "a/caption.txt": "é\n".encode(),
            "a/facts.json": b' {"n": 1}',
            "a/depth.npy": array,
            "a/label.cls": b" 7\n",
            "a/other.bin": b"\0",
        },
    )
    names = {"image": "image.png", "caption": "caption.txt", "facts": "facts.json", "depth": "depth.npy"}
    names |= {"label": "label.cls", "other": "other.bin"}
    run(source, tmp_path / "ds", {column: (f"{{}}/{name}",) for column, name in names.items()})
    assert rows(tmp_path / "ds") == {
        "a/image.png": {
            "image": PNG,
            "caption": "é\n",
            "facts": ' {"n": 1}',
            "depth": array,
            "label": 7,
            "other": b"\0",
        }
    }
    kinds = [column.kind for column in toolkit.open(tmp_path / "ds").columns]
    assert kinds == [Kind.IMAGE, Kind.TEXT, Kind.JSON, Kind.TENSOR, Kind.SCALAR, Kind.BYTES]


def test_numbers_and_names_of_classes(tmp_path: Path) -> None:
    source = write(tmp_path / "in", {"a.jpg": JPEG, "a.cls": b"1", "b.jpg": JPEG, "b.cls": b"cat\n", "c.jpg": JPEG})
    write(source, {"c.cls": b"2", "d.jpg": JPEG, "d.cls": b"bird", "e.jpg": JPEG, "e.cls": b""})
    pair = {"image": ("{}.jpg",), "label": ("{}.cls",)}
    result = run(source, tmp_path / "ds", pair, classes=("cat", "dog"))
    assert {key: sample["label"] for key, sample in rows(tmp_path / "ds").items()} == {"a.jpg": 1, "b.jpg": 0}
    assert toolkit.open(tmp_path / "ds").classes == ("cat", "dog")
    assert {reject.key: reject.reason for reject in result.rejects} == {
        "c.jpg": "column 'label': 2 is not among the ids 0 to 1 of --classes",
        "d.jpg": "column 'label': 'bird' is neither an id nor a name of --classes",
        "e.jpg": "column 'label': '' is neither an id nor a name of --classes",
    }
    result = run(source, tmp_path / "ds2", pair)
    assert {key: sample["label"] for key, sample in rows(tmp_path / "ds2").items()} == {"a.jpg": 1, "c.jpg": 2}
    assert {reject.key for reject in result.rejects} == {"b.jpg", "d.jpg", "e.jpg"}


def test_one_pattern_packs_what_an_image_folder_does(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "in", {"train/cat": 3, "train/a b": 2, "val/cat": 2})
    run(folder, tmp_path / "pairs", {"image": ("{}.jpg",)})
    pack(PackJob(source=str(folder), dataset=str(tmp_path / "folder"), label_mode=LabelMode.NONE))
    for split in ("train", "val"):
        one, other = (toolkit.open(tmp_path / name, split=split) for name in ("pairs", "folder"))
        columns = ("__key__", "__digest__", "image")
        assert [[one[i][name] for name in columns[::2]] for i in range(len(one))] == [
            [other[i][name] for name in columns[::2]] for i in range(len(other))
        ]
        assert digests(tmp_path / "pairs", split) == digests(tmp_path / "folder", split)


def digests(dataset: Path, split: str) -> list[bytes]:
    tables = [pa.ipc.open_file(path).read_all() for path in sorted((dataset / "shards").glob(f"{split}-*"))]
    return [digest for table in tables for digest in table.column("__digest__").to_pylist()]


def test_choices_of_names(tmp_path: Path) -> None:
    source = write(tmp_path / "in", {"images/a.jpg": JPEG, "images/b.JPEG": JPEG, "images/c.png": PNG})
    write(source, {f"masks/{stem}_mask.png": PNG for stem in "abc"})
    run(source, tmp_path / "ds", {"image": ("images/{}.{jpg,jpeg,png}",), "mask": ("masks/{}_mask.png",)})
    assert list(rows(tmp_path / "ds")) == ["images/a.jpg", "images/b.JPEG", "images/c.png"]


# --- what lacks something ---


@pytest.mark.parametrize("missing", Missing)
def test_a_stem_without_its_file(tmp_path: Path, missing: Missing) -> None:
    source = pairs(tmp_path)
    (source / "masks/b.png").unlink()
    (source / "images/c.jpg").unlink()
    result = run(source, tmp_path / "ds", missing=missing)
    found = rows(tmp_path / "ds")
    if missing is Missing.ERROR:
        assert list(found) == ["images/a.jpg"]
        assert {reject.key: reject.reason for reject in result.rejects} == {
            "images/b.jpg": "column 'mask': there is no file 'masks/b.png'",
            "images/c.jpg": "column 'image': there is no file 'images/c.jpg'",
        }
        assert {os.path.relpath(reject.source, source) for reject in result.rejects} == {"images/b.jpg", "images/c.jpg"}
    else:
        assert not result.rejects
    if missing is Missing.SKIP:
        assert list(found) == ["images/a.jpg"]
        assert result.skipped["missing_files"] == 2
    if missing is Missing.NULL:
        assert found == {
            "images/a.jpg": {"image": JPEG, "mask": PNG},
            "images/b.jpg": {"image": JPEG, "mask": None},
            "images/c.jpg": {"image": None, "mask": PNG},
        }


def test_a_file_of_another_column_is_not_taken_for_one_that_lacks(tmp_path: Path) -> None:
    """The image of the stem "b_mask" would be called as the mask of "b" is."""
    source = write(tmp_path / "in", {"a.png": PNG, "a_mask.png": PNG, "b_mask.png": PNG, "b_mask_mask.png": PNG})
    result = run(source, tmp_path / "ds", {"image": ("{}.png",), "mask": ("{}_mask.png",)}, missing=Missing.NULL)
    images = [sample["image"] for sample in rows(tmp_path / "ds").values()]
    assert images == [PNG, None, None]
    assert not result.rejects


def test_two_files_for_one_column_are_a_reject(tmp_path: Path) -> None:
    source = write(pairs(tmp_path), {"images/b.jpeg": JPEG, "images/b.JPG": JPEG})
    result = run(source, tmp_path / "ds", {**PAIR, "image": ("images/{}.{jpg,jpeg}",)})
    assert list(rows(tmp_path / "ds")) == ["images/a.jpg", "images/c.jpg"]
    (reject,) = result.rejects
    assert (
        reject.reason
        == "its image may be any of 'images/b.JPG', 'images/b.jpeg', 'images/b.jpg': leave all but one out"
    )
    assert reject.source.endswith("in/images/b.JPG")


def test_names_that_differ_in_capitals_or_composition_are_told(tmp_path: Path) -> None:
    source = pairs(tmp_path, "a")
    write(source, {"images/B.jpg": JPEG, "masks/b.png": PNG, "images/\u00e9.jpg": JPEG, "masks/e\u0301.png": PNG})
    result = run(source, tmp_path / "ds")
    assert len(result.rejects) == 4
    (warning,) = result.warnings
    assert warning.startswith("files that differ only in capitals, or in how their letters are composed, are no pair: ")
    assert "image 'B' and mask 'b'" in warning
    assert "image '\u00e9' and mask 'e\u0301'" in warning


def test_bad_values_are_rejects(tmp_path: Path) -> None:
    names = {"image": "image.jpg", "caption": "caption.txt", "facts": "facts.json", "depth": "depth.npy"}
    good = {"image.jpg": JPEG, "caption.txt": b"a", "facts.json": b"{}", "depth.npy": npy(np.zeros(2))}
    bad = {"image.jpg": b"no", "caption.txt": b"\xff", "facts.json": b"{", "depth.npy": b"\x93NUMPY"}
    source = write(tmp_path / "in", {f"good/{name}": data for name, data in good.items()})
    for number, name in enumerate(good):
        write(source, {f"{number}/{one}": bad[one] if one == name else data for one, data in good.items()})
    write(source, {f"empty/{name}": b"" for name in good} | {f"large/{name}": data for name, data in good.items()})
    write(source, {"large/caption.txt": b"x" * 20_000})
    result = run(source, tmp_path / "ds", {c: (f"{{}}/{n}",) for c, n in names.items()}, max_value_bytes=10_000)
    assert list(rows(tmp_path / "ds")) == ["good/image.jpg"]
    reasons = {reject.key.partition("/")[0]: reject.reason for reject in result.rejects}
    assert reasons["0"].startswith("column 'image': ")
    assert reasons["1"] == "column 'caption': text is not valid UTF-8"
    assert reasons["2"].startswith("column 'facts': no valid JSON")
    assert reasons["3"].startswith("column 'depth': ")
    assert reasons["empty"] == "column 'image': empty file"
    assert reasons["large"] == (
        "column 'caption': 20000 bytes are more than a value may have (10000); --max-value-bytes says how many"
    )


def test_links_and_names_that_cannot_be(tmp_path: Path) -> None:
    source = pairs(tmp_path, "abcde")
    outside = write(tmp_path / "out", {"x.png": PNG})
    for stem, target in {"b": outside / "x.png", "c": "nowhere.png", "d": "a.png"}.items():
        (source / f"masks/{stem}.png").unlink()
        (source / f"masks/{stem}.png").symlink_to(target)
    (source / "masks/e.png").unlink()
    os.mkfifo(source / "masks/e.png")
    with open(os.fsencode(source) + b"/images/\xff.jpg", "wb") as file:
        file.write(JPEG)
    result = run(source, tmp_path / "ds")
    assert list(rows(tmp_path / "ds")) == ["images/a.jpg", "images/d.jpg"]
    assert {reject.key: reject.reason for reject in result.rejects} == {
        "images/b.jpg": "column 'mask': 'masks/b.png' is a link that leads out of the folder; --follow-links allows it",
        "images/c.jpg": "column 'mask': there is no file 'masks/c.png'",
        "images/e.jpg": "column 'mask': 'masks/e.png' is no regular file",
        "images/\\xff.jpg": "name is not valid UTF-8",
    }
    run(source, tmp_path / "ds2", follow_links=True)
    assert list(rows(tmp_path / "ds2")) == ["images/a.jpg", "images/b.jpg", "images/d.jpg"]


def test_a_file_that_changes_during_the_pack_is_a_reject(tmp_path: Path) -> None:
    source = pairs(tmp_path)
    job = PackJob(source=str(source), dataset="x", pair=PAIR)
    _, made = make_source(None, job.source_options)
    survey = made.survey()
    write(source, {"masks/b.png": PNG + b"more"})
    found = [rows for part in survey.slices for rows in made.read(survey, part)]
    assert sum(rows.batch.num_rows for rows in found) == 2
    ((reject,),) = [rows.rejects for rows in found]
    assert reject.reason == "column 'mask': 'masks/b.png' changed during the pack"


# --- splits ---


def test_folders_tell_splits(tmp_path: Path) -> None:
    source = pairs(tmp_path / "s", "")
    for name in ("train/a", "train/x/b", "val/c", "test/d"):
        write(source, {f"images/{name}.jpg": JPEG, f"masks/{name}.png": PNG})
    result = run(source, tmp_path / "ds")
    assert result.splits == {"train": 2, "val": 1, "test": 1}
    run(source, tmp_path / "val", split="val")
    assert list(rows(tmp_path / "val")) == ["images/val/c.jpg"]
    with pytest.raises(NotFoundError, match="the folders tell the splits train, val, test, not 'dev'"):
        run(source, tmp_path / "no", split="dev")
    write(source, {"images/e.jpg": JPEG, "masks/e.png": PNG})
    with pytest.raises(SourceError, match="tells none: leave files out with --exclude, or call everything one split"):
        run(source, tmp_path / "no")
    run(source, tmp_path / "all", split="all")
    assert len(rows(tmp_path / "all")) == 5


def test_a_rejected_stem_belongs_to_its_split(tmp_path: Path) -> None:
    source = write(
        tmp_path / "in", {f"{split}/{name}": JPEG for split in ("train", "val") for name in ("a.jpg", "b.jpg")}
    )
    write(source, {"val/b.JPG": JPEG})
    assert not run(source, tmp_path / "ds", {"image": ("{}.jpg",)}, split="train").rejects
    (reject,) = run(source, tmp_path / "ds2", {"image": ("{}.jpg",)}, split="val").rejects
    assert reject.key == "val/b.JPG"


def test_words_in_file_names_are_no_splits(tmp_path: Path) -> None:
    source = write(tmp_path / "in", {"images/train station.jpg": JPEG, "images/my-test.jpg": JPEG})
    result = run(source, tmp_path / "ds", {"image": ("images/{}.jpg",)})
    assert list(result.splits) == ["train"]


def test_folders_that_look_like_splits_are_not_packed_as_one(tmp_path: Path) -> None:
    source = write(tmp_path / "in", {"train2017/a.jpg": JPEG, "val2017/b.jpg": JPEG})
    with pytest.raises(SourceError, match=r"look like splits \('train2017', 'val2017'\)"):
        run(source, tmp_path / "ds", {"image": ("{}.jpg",)})
    run(source, tmp_path / "ds", {"image": ("{}.jpg",)}, split="train", include=("train2017/*",))
    assert list(rows(tmp_path / "ds")) == ["train2017/a.jpg"]


# --- what is refused ---


def test_a_column_without_files_is_an_error(tmp_path: Path) -> None:
    source = pairs(tmp_path)
    with pytest.raises(
        SourceError, match=r"no file in .* is called mask/\{\}.png or mask/\{\}.gif, for the column 'mask'"
    ):
        run(source, tmp_path / "ds", {**PAIR, "mask": ("mask/{}.{png,gif}",)}, missing=Missing.NULL)
    with pytest.raises(NotFoundError):
        run(tmp_path / "nothing", tmp_path / "ds")
    with pytest.raises(UsageError, match="is a file"):
        run(source / "images/a.jpg", tmp_path / "ds")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"pair": {"image": ("images/*.jpg",)}}, "a pattern has {} once"),
        ({"pair": {"image": ("images/{}.txt",)}}, "names no pictures by their extension"),
        ({"pair": {"x": ("images/{}.{jpg,txt}",)}}, "are of several kinds"),
        ({"pair": {"__x__": ("images/{}.jpg",)}}, "can't name a column"),
        ({"pair": None, "source_kind": "pairs"}, "a source of kind pairs needs patterns"),
        ({"source_kind": "imagefolder"}, "--pair means nothing for a source of kind imagefolder"),
        ({"columns": ("image",)}, "--columns means nothing for a source of kind pairs"),
        ({"more_sources": ("more",)}, "--pair takes one SOURCE"),
        ({"kind": {"masc": Kind.BYTES}}, "--kind names 'masc'"),
    ],
)
def test_options_that_mean_nothing(tmp_path: Path, options: dict[str, Any], said: str) -> None:
    source = pairs(tmp_path)
    with pytest.raises(ToolkitError) as raised:
        run(source, tmp_path / "ds", **{"pair": PAIR, **options})
    assert said in str(raised.value)


def test_a_kind_can_be_given(tmp_path: Path) -> None:
    source = pairs(tmp_path)
    run(source, tmp_path / "ds", kind={"mask": Kind.BYTES})
    assert [column.kind for column in toolkit.open(tmp_path / "ds").columns] == [Kind.IMAGE, Kind.BYTES]
    write(source, {"odd/a.img": JPEG})
    run(source, tmp_path / "odd", {"image": ("odd/{}.img",)}, kind={"image": Kind.IMAGE})
    assert rows(tmp_path / "odd") == {"odd/a.img": {"image": JPEG}}


def test_a_plan_reads_no_file(tmp_path: Path) -> None:
    source = pairs(tmp_path)
    (source / "images/a.jpg").write_bytes(b"no picture")
    planned = plan(PackJob(source=str(source), dataset=str(tmp_path / "ds"), pair=PAIR))
    assert planned.splits["train"].samples == 3
    assert not planned.rejects


def test_splits_of_no_rows() -> None:
    assert [
        list(found) for found in by_split(pa.chunked_array([["a.jpg"]], pa.large_string()), None, "x").values()
    ] == [[0]]
