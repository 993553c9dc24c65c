"""docs/format.md is enough: the pure reader gets what was packed, and one row by the ranges that the page promises."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pytest
from crafted import Crafted
from format.pure_arrow import Damaged
from format.pure_reader import CHUNK, PureReader, crc32c
from PIL import Image

import toolkit
from toolkit.format.encodings import ImageEncoding
from toolkit.format.schema import Column, Kind
from toolkit.pack.job import PackJob
from toolkit.pack.run import pack

Range = tuple[str, int, int]

LAYERS = ["size", "nonbody", "sha256", "message", "crc", "digest"]
SIZES = ["__image.height__", "__image.width__"]
DERIVED = [*SIZES, "__image.orientation__", "__image.format__"]


def read(root: Path, *skip: str, split: str = "train") -> list[dict]:
    return list(PureReader(root).samples(split, frozenset(skip)))


def ranges_of_row(root: Path, row: int, columns: list[str] | None = None) -> tuple[dict, list[Range]]:
    """A row of a reader that has read nothing but what it opens a dataset with, and what was read for it."""
    reader = PureReader(root)
    reader.ranges.clear()
    return reader.row("train", row, columns), reader.ranges


def rounded(start: int, stop: int, size: int) -> tuple[int, int]:
    return start // CHUNK * CHUNK, min(-(-stop // CHUNK) * CHUNK, size)


def test_crc32c_of_the_known_text() -> None:
    assert crc32c(b"123456789") == 0xE3069283


# --- everything that was packed -----------------------------------------------------------------------------------


def test_it_reads_what_was_packed(image_folder: Path, dataset: Path) -> None:
    reader = PureReader(dataset)
    assert reader.classes == {"label": ["cat", "dog"]}
    assert list(reader.manifest["splits"]) == ["train", "val"]
    shards = list(reader.shards("train"))
    assert len(shards) > 1
    assert all(len(shard["batches"]) > 0 for shard in shards)
    assert max(len(shard["batches"]) for shard in shards) > 1
    for split in ("train", "val"):
        files = sorted(path for path in (image_folder / split).rglob("*") if path.is_file())
        expected = [
            {
                "__key__": str(path.relative_to(image_folder)),
                "image": {"bytes": path.read_bytes(), "path": path.name},
                "label": ["cat", "dog"].index(path.parent.name),
            }
            for path in files
        ]
        assert list(reader.samples(split)) == expected


def test_derived_columns_are_delivered_when_they_are_named(image_folder: Path, dataset: Path) -> None:
    reader = PureReader(dataset)
    assert reader.derived == DERIVED
    assert not set(DERIVED) & set(next(reader.samples("train")))
    for sample in reader.samples("train", derived=DERIVED):
        with Image.open(image_folder / sample["__key__"]) as image:
            expected = (image.height, image.width, 1, image.format)
        assert tuple(sample[name] for name in DERIVED) == expected


def test_it_reads_images_stored_as_pixels(image_folder: Path, tmp_path: Path) -> None:
    pack(PackJob(source=str(image_folder), dataset=str(tmp_path / "raw"), image_encoding=ImageEncoding.parse("raw")))
    reader = PureReader(tmp_path / "raw")
    assert len(list(reader.shards("train"))) == 1
    ours = toolkit.open(tmp_path / "raw", split="train")
    for mine, theirs in zip(reader.samples("train", derived=reader.derived), ours, strict=True):
        image = mine["image"]
        pixels = np.frombuffer(image["pixels"], np.uint8).reshape(image["height"], image["width"], image["channels"])
        assert np.array_equal(pixels, theirs["image"])
        assert [mine[name] for name in DERIVED] == [*pixels.shape[:2], 1, "raw"]


def test_it_reads_tokens(tmp_path: Path) -> None:
    documents = [np.arange(length, dtype=np.uint16) % 50 for length in (5, 0, 30_000, 17)]
    toolkit.pack_tokens(documents, tmp_path / "ds", vocabulary=50)
    reader = PureReader(tmp_path / "ds")
    assert [sample["tokens"] for sample in reader.samples("train")] == [one.tolist() for one in documents]
    (shard,) = reader.shards("train")
    assert shard["tokens"] == sum(batch["tokens"] for batch in shard["batches"]) == sum(map(len, documents))
    for row, document in enumerate(documents):
        sample, (_, *ranges) = ranges_of_row(tmp_path / "ds", row)
        assert sample["tokens"] == document.tolist()
        assert len(ranges) <= 2


def test_it_agrees_with_toolkit(dataset: Path) -> None:
    pure, ours = read(dataset), toolkit.open(dataset, split="train")
    assert PureReader(dataset).pin == ours.pin
    assert [{**sample, "image": sample["image"]["bytes"]} for sample in pure] == list(ours)


def test_nulls_and_odd_text(tmp_path: Path, commit_samples: Callable[..., str]) -> None:
    samples = [
        {"__key__": "null image", "image": None, "label": 1},
        {"__key__": "null label", "image": {"bytes": b"", "path": ""}, "label": None},
        {"__key__": "null children", "image": {"bytes": None, "path": None}, "label": 0},
        {"__key__": "🦆" * 3000, "image": {"bytes": b"x", "path": "naïve\u0301 \u202e.png"}, "label": 1},
    ]
    for derive in (False, True):
        root = tmp_path / f"{derive}"
        pin = commit_samples(root, {"train": [samples], "empty": []}, classes=("☃", "\u0000"), derive=derive)
        reader = PureReader(root, pin)
        assert list(reader.samples("train")) == samples
        assert [reader.row("train", row) for row in range(4)] == samples
        assert list(reader.samples("empty")) == []
        assert reader.classes == {"label": ["☃", "\u0000"]}
        for sample in reader.samples("train", derived=reader.derived):
            assert [sample[name] for name in reader.derived] == [None] * len(reader.derived)


def test_columns_stand_in_their_groups(tmp_path: Path, commit_rows: Callable[..., str]) -> None:
    """Small ones first, in shards; the manifest and the samples have the user's order."""
    columns = {
        "tensor": (Kind.TENSOR, pa.array([b"\x93NUMPY", None])),
        "json": (Kind.JSON, pa.array(["{}", "[]"])),
        "list": (Kind.VALUE, pa.array([[1], [2, 3]])),
        "words": (Kind.VALUE, pa.array(["a", None])),
        "day": (Kind.VALUE, pa.array([1, None], pa.date32())),
        "text": (Kind.TEXT, pa.array([None, "é"], pa.large_string())),
        "fixed": (Kind.BYTES, pa.array([b"ab", b"cd"], pa.binary(2))),
        "number": (Kind.SCALAR, pa.array([1.5, None])),
        "nothing": (Kind.VALUE, pa.nulls(2)),
        "flag": (Kind.SCALAR, pa.array([True, None])),
        "five": (Kind.VALUE, pa.array([b"abcde", None], pa.binary(5))),
        "vector": (Kind.VALUE, pa.array([[1, 2], None], pa.list_(pa.int8(), 2))),
    }
    arrays = {"__key__": pa.array(["a", "b"]), **{name: array for name, (_, array) in columns.items()}}
    described = [Column(name=name, kind=kind, arrow_type=str(array.type)) for name, (kind, array) in columns.items()]
    order = ["day", "number", "nothing", "flag", "five", "json", "text"]
    order += ["tensor", "list", "words", "fixed", "vector"]
    rows = pa.RecordBatch.from_pydict({name: arrays[name] for name in ["__key__", *order]})
    commit_rows(tmp_path / "ds", {"train": [[rows]]}, columns=tuple(described))
    reader = PureReader(tmp_path / "ds")
    assert [field.name for field in reader.schema.columns] == ["__key__", "__digest__", *order]
    samples = list(reader.samples("train"))
    assert [list(sample) for sample in samples] == [["__key__", *columns]] * 2
    for name in ("tensor", "json", "list", "words", "text", "fixed", "number", "nothing", "flag", "vector"):
        assert [sample[name] for sample in samples] == columns[name][1].to_pylist(), name
    assert [reader.row("train", row) for row in range(2)] == samples


# --- one row, and what is read for it -----------------------------------------------------------------------------


def test_rows_are_those_of_the_samples(dataset: Path) -> None:
    reader = PureReader(dataset)
    for split in ("train", "val"):
        expected = list(reader.samples(split, derived=DERIVED))
        wanted = [*reader.columns, *DERIVED]
        assert [reader.row(split, row, wanted) for row in range(len(expected))] == expected
        for row in (-1, len(expected)):
            with pytest.raises(IndexError):
                reader.row(split, row)


def test_small_columns_come_with_one_range(dataset: Path) -> None:
    """Of a shard: its message, and the head behind it to the end of a chunk."""
    reader, row = PureReader(dataset), 0
    for shard in reader.shards("train"):
        for batch in shard["batches"]:
            _, ranges = ranges_of_row(dataset, row, ["label", *DERIVED])
            table, read = ranges
            assert table[0].startswith("tables/")
            head = rounded(0, batch["head_bytes"], batch["body_bytes"])[1]
            assert read == (shard["path"], batch["offset"], batch["offset"] + batch["metadata_bytes"] + head)
            row += batch["rows"]


def test_a_large_value_is_a_second_range(tmp_path: Path, commit_rows: Callable[..., str]) -> None:
    """Values of 0 to 10 chunks: what the head's chunks didn't bring comes with one range of whole chunks."""
    rng = np.random.default_rng(5)
    values = [rng.bytes(size) for size in (0, 5, CHUNK, 10 * CHUNK, 1, 3 * CHUNK, 40, CHUNK - 1, 2 * CHUNK)]
    rows = pa.RecordBatch.from_pydict({"__key__": [f"{i}" for i in range(len(values))], "x": values})
    columns = (Column(name="x", kind=Kind.BYTES, arrow_type="binary"),)
    commit_rows(tmp_path / "ds", {"train": [[rows]]}, columns=columns, batch_body_bytes=1 << 20)
    (shard,) = PureReader(tmp_path / "ds").shards("train")
    (batch,) = shard["batches"]
    body, start = batch["offset"] + batch["metadata_bytes"], batch["head_bytes"]
    for row, value in enumerate(values):
        sample, (_, first, *others) = ranges_of_row(tmp_path / "ds", row)
        assert sample["x"] == value
        assert first == (shard["path"], batch["offset"], body + CHUNK)
        touched = rounded(start, start + len(value), batch["body_bytes"])
        lacking = (max(touched[0], CHUNK), touched[1])
        expected = [(shard["path"], body + lacking[0], body + lacking[1])] if value and lacking[0] < lacking[1] else []
        assert others == expected, row
        start += len(value)


def test_an_image_s_bytes_are_one_range_and_its_name_another(
    tmp_path: Path, commit_samples: Callable[..., str]
) -> None:
    rng = np.random.default_rng(6)
    images = [{"bytes": rng.bytes(50_000), "path": f"{i}.jpg"} for i in range(8)]
    samples = [{"__key__": f"{i}", "image": image, "label": i % 2} for i, image in enumerate(images)]
    commit_samples(tmp_path / "ds", {"train": [samples]}, batch_body_bytes=1 << 20)
    reader = PureReader(tmp_path / "ds")
    _, values, at, _ = reader.find("train", 5)
    reader.ranges.clear()
    image = reader.schema["image"]
    assert values.value(image.children[0], at) == images[5]["bytes"]
    assert len(reader.ranges) == 1
    assert values.value(image, at) == (images[5]["bytes"], b"5.jpg")
    assert len(reader.ranges) == 2


def test_a_table_is_read_when_a_row_of_it_is(tmp_path: Path, commit_samples: Callable[..., str]) -> None:
    shards = [[{"__key__": f"{i}", "image": None, "label": i % 2}] for i in range(5)]
    with mock.patch("toolkit.format.commit.MOST_SHARDS", 2):
        commit_samples(tmp_path / "ds", {"train": shards})
    reader = PureReader(tmp_path / "ds")
    refs = reader.manifest["splits"]["train"]["tables"]
    assert [ref["rows"] for ref in refs] == [2, 2, 1]
    names = [f"tables/{ref['sha256']}.arrow" for ref in refs]
    assert not set(names) & {name for name, _, _ in reader.ranges}
    for row in range(5):
        _, ranges = ranges_of_row(tmp_path / "ds", row)
        assert [name for name, _, _ in ranges if name.startswith("tables/")] == [names[row // 2]]


# --- layers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layer", LAYERS)
def test_no_layer_is_needed_for_good_data(dataset: Path, layer: str) -> None:
    assert read(dataset, layer) == read(dataset)


def test_a_shard_cut_short(dataset: Path) -> None:
    path = dataset / next(PureReader(dataset).shards("train"))["path"]
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(Damaged, match=rf"^size: shards/{path.name} has \d+ bytes"):
        read(dataset)
    with pytest.raises(Damaged, match=rf"^size: shards/{path.name} has \d+ bytes"):
        PureReader(dataset).row("train", 0)
    path.unlink()
    with pytest.raises(Damaged, match=rf"^file: shards/{path.name} is missing"):
        PureReader(dataset).row("train", 0)


def test_a_manifest_that_was_edited(dataset: Path) -> None:
    pin = PureReader(dataset).pin
    path = dataset / "manifest.json"
    path.write_text(path.read_text().replace('"rows": 12', '"rows": 13'))
    with pytest.raises(Damaged, match=r"^pin: manifest\.json"):
        PureReader(dataset)
    assert len(list(PureReader(dataset, pin).samples("train"))) == 12


def test_another_format_and_the_one_before(dataset: Path, tmp_path: Path) -> None:
    crafted = Crafted.of(dataset)
    crafted.say("format", value=2)
    crafted.write(tmp_path / "newer")
    with pytest.raises(Damaged, match=r"^format: 2, this reader knows 1"):
        PureReader(tmp_path / "newer")
    crafted = Crafted.of(dataset)
    del crafted.manifest["derived"]
    crafted.write(tmp_path / "older")
    with pytest.raises(Damaged, match=r"^format: .*pack the dataset again"):
        PureReader(tmp_path / "older")


# --- and what the page says of the files is so --------------------------------------------------------------------


def test_the_manifest_is_written_as_described(dataset: Path) -> None:
    data = (dataset / "manifest.json").read_bytes()
    text = json.dumps(json.loads(data), ensure_ascii=False, sort_keys=True, indent=1) + "\n"
    assert data == text.encode()


def test_no_file_holds_an_absolute_path(dataset: Path, tmp_path: Path) -> None:
    for path in dataset.rglob("*"):
        if path.is_file() and path.parent.name != "reports":
            assert str(tmp_path).encode() not in path.read_bytes()


def test_shards_are_arrow_files_as_described(dataset: Path) -> None:
    for shard in PureReader(dataset).shards("train"):
        file = pa.ipc.open_file(dataset / shard["path"])
        rows = [batch["rows"] for batch in shard["batches"]]
        assert [file.get_batch(i).num_rows for i in range(file.num_record_batches)] == rows
        assert file.schema.field("__key__").type == pa.string()
        assert not file.schema.field("__key__").nullable
        assert file.schema.field("__digest__").type == pa.binary(16)
        said = json.loads(file.schema.metadata[b"toolkit"])
        manifest = json.loads((dataset / "manifest.json").read_bytes())
        assert {key: manifest[key] for key in ("format", "columns", "derived")} == said
