"""docs/format.md is enough: the pure reader gets what was packed, and finds damage with every layer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pytest
from format.pure_reader import Damaged, PureReader, crc32c

import toolkit
from toolkit.format.encodings import ImageEncoding
from toolkit.pack.job import PackJob
from toolkit.pack.run import pack

LAYERS = ["size", "nonbody", "sha256", "crc", "digest"]


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def read(root: Path, *skip: str, split: str = "train") -> list[dict]:
    return list(PureReader(root).samples(split, frozenset(skip)))


def test_crc32c_of_the_known_text() -> None:
    assert crc32c(b"123456789") == 0xE3069283


def test_it_reads_what_was_packed(image_folder: Path, dataset: Path) -> None:
    reader = PureReader(dataset)
    assert reader.classes == {"label": ["cat", "dog"]}
    assert list(reader.shards) == ["train", "val"]
    assert len(reader.shards["train"]) > 1
    assert all(len(shard["batches"]) > 0 for shard in reader.shards["train"])
    assert max(len(shard["batches"]) for shard in reader.shards["train"]) > 1
    for split in reader.shards:
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


def test_it_reads_images_stored_as_pixels(image_folder: Path, tmp_path: Path) -> None:
    pack(PackJob(source=str(image_folder), dataset=str(tmp_path / "raw"), image_encoding=ImageEncoding.parse("raw")))
    reader = PureReader(tmp_path / "raw")
    assert len(reader.shards["train"]) == 1
    ours = toolkit.open(tmp_path / "raw", split="train")
    for mine, theirs in zip(reader.samples("train"), ours, strict=True):
        image = mine["image"]
        pixels = np.frombuffer(image["pixels"], np.uint8).reshape(image["height"], image["width"], image["channels"])
        assert np.array_equal(pixels, theirs["image"])


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
    pin = commit_samples(tmp_path / "d", {"train": [samples], "empty": []}, classes=("☃", "\u0000"))
    reader = PureReader(tmp_path / "d", pin)
    assert list(reader.samples("train")) == samples
    assert list(reader.samples("empty")) == []
    assert reader.classes == {"label": ["☃", "\u0000"]}


# --- every layer finds damage, also when those before it are left out ------------------------------------------


@pytest.mark.parametrize("layer", LAYERS)
def test_no_layer_is_needed_for_good_data(dataset: Path, layer: str) -> None:
    assert read(dataset, layer) == read(dataset)


@pytest.mark.parametrize(
    ("skip", "found_by"),
    [
        ((), "sha256"),
        (("sha256",), "crc"),
        (("sha256", "crc"), "digest"),
    ],
)
def test_a_flip_of_an_image_byte(dataset: Path, skip: tuple[str, ...], found_by: str) -> None:
    shard = PureReader(dataset).shards["train"][0]
    image = read(dataset)[1]["image"]["bytes"]
    path = dataset / shard["path"]
    flip(path, path.read_bytes().index(image) + len(image) // 2)
    with pytest.raises(Damaged, match=f"^{found_by}: "):
        read(dataset, *skip)


def test_a_flip_outside_of_the_bodies(dataset: Path) -> None:
    path = dataset / PureReader(dataset).shards["train"][0]["path"]
    for at in (0, 20, path.stat().st_size - 1):
        flip(path, at)
        with pytest.raises(Damaged, match=r"^nonbody: "):
            read(dataset)
        with pytest.raises(Damaged, match=r"^sha256: "):
            read(dataset, "nonbody")
        flip(path, at)


def test_a_shard_cut_short(dataset: Path) -> None:
    path = dataset / PureReader(dataset).shards["train"][0]["path"]
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(Damaged, match=r"^size: "):
        read(dataset)


@pytest.mark.parametrize("which", ["schema", "label", "shard"])
def test_a_flip_in_a_table(dataset: Path, which: str) -> None:
    manifest = PureReader(dataset).manifest
    tables = {
        "schema": manifest["schema"],
        "label": manifest["columns"][1]["label_table"],
        "shard": manifest["splits"]["train"]["tables"][0]["sha256"],
    }
    flip(dataset / "tables" / f"{tables[which]}.arrow", 300)
    with pytest.raises(Damaged, match=r"^table: "):
        read(dataset)


def test_a_manifest_that_was_edited(dataset: Path) -> None:
    pin = PureReader(dataset).pin
    path = dataset / "manifest.json"
    path.write_text(path.read_text().replace('"rows": 12', '"rows": 13'))
    with pytest.raises(Damaged, match=r"^pin: "):
        PureReader(dataset)
    assert len(list(PureReader(dataset, pin).samples("train"))) == 12
    flip(dataset / "manifests" / f"{pin}.json", 5)
    with pytest.raises(Damaged, match=r"^pin: "):
        PureReader(dataset, pin)


@pytest.mark.parametrize(
    ("changes", "message"), [({"format": 2}, "format: 2"), ({"requires": ("warp",)}, r"requires: \['warp'\]")]
)
def test_what_it_does_not_know(tmp_path: Path, commit_samples: Callable[..., str], changes: dict, message: str) -> None:
    commit_samples(tmp_path / "d", {"train": []}, **changes)
    with pytest.raises(Damaged, match=message):
        PureReader(tmp_path / "d")


# --- and what the page says of the files is so -----------------------------------------------------------------


def test_the_manifest_is_written_as_described(dataset: Path) -> None:
    data = (dataset / "manifest.json").read_bytes()
    text = json.dumps(json.loads(data), ensure_ascii=False, sort_keys=True, indent=1) + "\n"
    assert data == text.encode()


def test_no_file_holds_an_absolute_path(dataset: Path, tmp_path: Path) -> None:
    for path in dataset.rglob("*"):
        if path.is_file() and path.parent.name != "reports":
            assert str(tmp_path).encode() not in path.read_bytes()


def test_shards_are_arrow_files_as_described(dataset: Path) -> None:
    for shard in PureReader(dataset).shards["train"]:
        file = pa.ipc.open_file(dataset / shard["path"])
        assert file.num_record_batches == len(shard["batches"])
        assert [file.get_batch(i).num_rows for i in range(len(shard["batches"]))] == [b[3] for b in shard["batches"]]
        assert file.schema.field("__key__").type == pa.string()
        assert not file.schema.field("__key__").nullable
        assert file.schema.field("__digest__").type == pa.binary(16)
        assert json.loads(file.schema.metadata[b"toolkit"])["format"] == 1
