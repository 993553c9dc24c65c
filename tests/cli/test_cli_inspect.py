"""`toolkit inspect` against figures computed from the source files with PIL and numpy."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import Cli, encoded, put
from PIL import Image

from toolkit.checks.inspect import inspect
from toolkit.checks.media import _evenly_spaced
from toolkit.errors import UsageError


def spread(values: list[int]) -> dict[str, float]:
    array = np.array(values, np.float64)
    return {"min": array.min(), "median": np.median(array), "mean": pytest.approx(array.mean()), "max": array.max()}


def image_files(root: Path) -> list[Path]:
    return [path for path in sorted(root.rglob("*")) if path.suffix in (".jpg", ".png")]


def oracle(files: list[Path]) -> dict[str, Any]:
    sizes = []
    for path in files:
        with Image.open(path) as image:
            sizes.append((image.width, image.height, image.format))
    formats = [kind for _, _, kind in sizes]
    return {
        "width": spread([width for width, _, _ in sizes]),
        "height": spread([height for _, height, _ in sizes]),
        "bytes": spread([path.stat().st_size for path in files]),
        "formats": {kind: formats.count(kind) for kind in dict.fromkeys(formats)},
    }


def test_figures(cli: Cli, flowers: Path, packed: Path) -> None:
    ended = cli("inspect", packed, "--json")
    assert (ended.code, ended.err) == (0, "")
    document = json.loads(ended.out)
    assert document["schema"] == "toolkit.inspect/1"
    assert (document["samples"], document["shards"]) == (14, 2)
    assert document["bytes"] == sum(path.stat().st_size for path in (packed / "shards").iterdir())
    assert {name: split["rows"] for name, split in document["splits"].items()} == {"train": 10, "val": 4}
    assert [(c["name"], c["kind"], c["classes"]) for c in document["columns"]] == [
        ("image", "image", None),
        ("label", "label", 3),
    ]
    assert document["labels"]["label"] == {
        "classes": 3,
        "top": [{"id": 0, "name": "daisy", "count": 10}, {"id": 1, "name": "rose", "count": 4}],
        "more": 0,
        "empty": ["tulip"],
        "missing": 0,
    }
    files = image_files(flowers)
    images = document["images"]["image"]
    assert {name: images[name] for name in ("width", "height", "bytes", "formats")} == oracle(files)
    assert (images["rows"], images["scanned"], images["missing"], images["unreadable"], images["rotated"]) == (
        *(14, 14),
        *(0, 0, 0),
    )
    first = document["first"][0]
    assert (first["split"], first["row"], first["key"]) == ("train", 0, "train/daisy/0.jpg")
    assert first["labels"] == {"label": "daisy"}
    assert first["images"]["image"] == {
        "bytes": files[0].stat().st_size,
        "width": 40,
        "height": 30,
        "format": "JPEG",
        "read": True,
    }
    assert [(s["split"], s["row"]) for s in document["first"]] == [
        *(("train", row) for row in range(5)),
        *(("val", row) for row in range(4)),
    ]


def test_one_split(cli: Cli, flowers: Path, packed: Path) -> None:
    document = json.loads(cli("inspect", packed, "--json", "--split", "val", "--samples", "1").out)
    assert document["chosen"] == ["val"]
    assert document["labels"]["label"]["top"] == [
        {"id": 0, "name": "daisy", "count": 3},
        {"id": 1, "name": "rose", "count": 1},
    ]
    images = document["images"]["image"]
    assert {name: images[name] for name in ("width", "height", "bytes", "formats")} == oracle(
        image_files(flowers / "val")
    )
    assert [s["key"] for s in document["first"]] == ["val/daisy/0.jpg"]
    ended = cli("inspect", packed, "--split", "vall")
    assert ended.code == 2
    assert "Did you mean 'val'?" in ended.err


def test_for_people(cli: Cli, packed: Path) -> None:
    ended = cli("inspect", packed)
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert re.fullmatch(rf"{re.escape(str(packed))}@sha256:[0-9a-f]{{64}}", lines[0])
    assert cli("inspect", lines[0]).out == ended.out
    assert lines[1].startswith("14 samples in 2 shards, ")
    assert "classes of label: 3, 0 samples without a label, 1 empty (tulip)" in lines
    assert "images of image: all 14 looked at" in lines
    assert "formats: JPEG 92.9 %, PNG 7.14 %" in lines
    assert any(re.match(r"train +0 +train/daisy/0\.jpg +daisy +40 x 30 JPEG, [\d,]+ bytes", line) for line in lines)


def test_scan_of_some(cli: Cli, packed: Path) -> None:
    document = json.loads(cli("inspect", packed, "--scan", "4", "--json").out)
    assert (document["images"]["image"]["scanned"], document["images"]["image"]["rows"]) == (4, 14)
    assert "4 of 14 looked at, evenly spaced" in cli("inspect", packed, "--scan", "4").out
    ended = cli("inspect", packed, "--scan", "0", "--samples", "0", "--json")
    assert (json.loads(ended.out)["images"], json.loads(ended.out)["first"]) == ({}, [])
    for shard in (packed / "shards").iterdir():
        shard.unlink()  # nothing of them is needed for that
    assert cli("inspect", packed, "--scan", "0", "--samples", "0", "--json").out == ended.out
    assert cli("inspect", packed).code == 4


@pytest.mark.parametrize("lengths", [[10], [3, 0, 7], [1, 1], [0], [1000, 1]])
@pytest.mark.parametrize("most", [1, 2, 9, 10, 11])
def test_evenly_spaced(lengths: list[int], most: int) -> None:
    chosen = _evenly_spaced(lengths, most)
    assert len(chosen) == len(lengths)
    assert sum(map(len, chosen)) == min(most, sum(lengths))
    for rows, length in zip(chosen, lengths, strict=True):
        assert len(set(rows.tolist())) == len(rows)
        assert all(0 <= row < length for row in rows.tolist())


def test_many_classes_and_odd_images(cli: Cli, tmp_path: Path) -> None:
    for number in range(25):
        for copy in range(1 + number % 3):
            put(tmp_path, f"source/c{number:02d}/{copy}.jpg", encoded(8, 9))
    put(tmp_path, "source/bare.gif", encoded(5, 6, "GIF"))
    turned = Image.new("RGB", (20, 10))
    exif = turned.getexif()
    exif[0x0112] = 6
    turned.save(tmp_path / "source/c00/turned.jpg", exif=exif)
    turned.save(tmp_path / "source/c00/turned.png", exif=exif)
    assert cli("pack", tmp_path / "source", tmp_path / "ds").code == 0
    document = json.loads(cli("inspect", tmp_path / "ds", "--json").out)
    labels = document["labels"]["label"]
    assert (labels["classes"], len(labels["top"]), labels["more"], labels["missing"]) == (25, 20, 5, 1)
    counts = [(one["count"], -one["id"]) for one in labels["top"]]
    assert counts == sorted(counts, reverse=True)
    images = document["images"]["image"]
    assert images["rotated"] == 2
    assert list(images["formats"]) == ["JPEG", "GIF", "PNG"]
    assert (images["width"]["max"], images["height"]["max"]) == (10, 20)  # as it is decoded
    bare = document["first"][0]
    assert (bare["key"], bare["labels"]) == ("bare.gif", {"label": None})
    out = cli("inspect", tmp_path / "ds").out
    assert "… and 5 more" in out
    assert "1 sample without a label" in out
    assert "2 turned by EXIF" in out


def test_without_labels(cli: Cli, tmp_path: Path) -> None:
    put(tmp_path, "source/1.jpg", encoded(8, 9))
    assert cli("pack", tmp_path / "source", tmp_path / "ds").code == 0
    document = json.loads(cli("inspect", tmp_path / "ds", "--json").out)
    assert document["labels"] == {}
    assert document["first"][0]["labels"] == {}
    assert cli("inspect", tmp_path / "ds").code == 0


def test_flipped_bit(cli: Cli, packed: Path) -> None:
    shard = next((packed / "shards").glob("val-*"))
    data = bytearray(shard.read_bytes())
    data[data.index(b"\x89PNG") + 20] ^= 1
    shard.write_bytes(data)
    ended = cli("inspect", packed, "--json")
    assert ended.code == 4
    error = json.loads(ended.out)["error"]
    assert (error["type"], error["shard"], error["key"]) == (
        "CorruptShardError",
        f"shards/{shard.name}",
        json.loads(ended.out)["error"]["key"],
    )
    assert error["row"] in range(4)


def test_negative_numbers(packed: Path) -> None:
    with pytest.raises(UsageError, match=r"^scan: expected"):
        inspect(str(packed), scan=-1)


def test_columns_of_any_kind(cli: Cli, tmp_path: Path) -> None:
    far = pa.array([2**62], pa.timestamp("us"))
    pq.write_table(pa.table({"photo": [encoded(20, 10)], "n": [1], "t": far, "l": [[1, None]]}), tmp_path / "x.parquet")
    assert cli("pack", tmp_path / "x.parquet", tmp_path / "ds").code == 0
    shown = json.loads(cli("inspect", tmp_path / "ds", "--json").out)
    assert [column["name"] for column in shown["columns"]] == ["photo", "n", "t", "l"]
    assert shown["first"][0]["labels"] == {}
    assert shown["first"][0]["images"]["photo"]["width"] == 20
    assert cli("inspect", tmp_path / "ds").code == 0
    assert json.loads(cli("head", tmp_path / "ds").out)["l"] == [1, None]
