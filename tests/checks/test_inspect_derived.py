"""inspect tells sizes from derived columns and reads no image; where a dataset has none it reads headers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pictures import encode, picture
from PIL import Image

import toolkit
from toolkit.checks.inspect import inspect
from toolkit.checks.verify import verify
from toolkit.errors import CorruptShardError
from toolkit.format.encodings import ImageEncoding
from toolkit.format.kinds import Kind
from toolkit.format.media import IMAGE_TYPE
from toolkit.format.schema import image_column
from toolkit.pack.job import PackJob
from toolkit.pack.run import pack
from toolkit.report.inspect_view import inspect_views

_CHUNK = 16384


def photographs() -> list[bytes | None]:
    tags = Image.Exif()
    tags[0x0112] = 6
    files: list[bytes | None] = [encode(picture(seed, 200 + seed, 150), "PNG") for seed in range(8)]
    return [*files, encode(picture(9, 200, 150), exif=tags), None]


def packed(folder: Path, encoding: str = "keep") -> Path:
    pq.write_table(pa.table({"image": pa.array(photographs(), pa.binary())}), folder / "images.parquet")
    options = {"kind": {"image": Kind.IMAGE}, "image_encoding": ImageEncoding.parse(encoding)}
    pack(PackJob(source=str(folder / "images.parquet"), dataset=str(folder / "dataset"), **options))
    return folder / "dataset"


@pytest.mark.parametrize("encoding", ["keep", "raw", "jpeg:90"])
def test_no_byte_of_an_image_is_read(tmp_path: Path, encoding: str) -> None:
    dataset = packed(tmp_path, encoding)
    whole = inspect(dataset, samples=10)
    index = toolkit.open(dataset).index
    damaged = 0
    for number in range(index.batches):
        batch = index.batch(number)
        path = dataset / index.shard(batch.shard).path
        data = np.fromfile(path, np.uint8)
        start = batch.offset + batch.metadata_bytes
        data[start + -(-batch.head_bytes // _CHUNK) * _CHUNK : start + batch.body_bytes] ^= 0xFF
        path.chmod(0o644)
        data.tofile(path)
        damaged += batch.body_bytes - batch.head_bytes > _CHUNK
    assert damaged == index.batches > 0
    assert verify(dataset, full=True, jobs=1).findings
    with pytest.raises(CorruptShardError):
        _ = [sample["image"] for sample in map(toolkit.open(dataset).__getitem__, range(10))]
    found = inspect(dataset, samples=10)
    assert (found.media, found.first) == (whole.media, whole.first)


@pytest.mark.parametrize("encoding", ["keep", "raw"])
def test_sizes_are_those_of_the_pictures_as_they_are_decoded(tmp_path: Path, encoding: str) -> None:
    result = inspect(packed(tmp_path, encoding), samples=10)
    facts = result.media["image"]
    assert (facts.rows, facts.scanned, facts.missing, facts.unreadable) == (10, 10, 1, 0)
    turned, others = (150, 200), [(200 + seed, 150) for seed in range(8)]
    sizes = [one.media["image"].header for one in result.first if one.media["image"].header is not None]
    assert [(one.numbers["width"], one.numbers["height"]) for one in sizes] == [*others, turned]
    assert facts.numbers["height"] is not None
    assert facts.numbers["height"].max == 200
    assert facts.formats == ({"PNG": 8, "JPEG": 1} if encoding == "keep" else {"raw": 9})
    assert facts.marks == {"rotated": 1 if encoding == "keep" else 0}
    assert facts.bytes is not None
    if encoding == "keep":
        assert facts.bytes.max == max(len(file) for file in photographs() if file)
    else:
        assert facts.bytes.max == 207 * 150 * 3
    assert result.first[9].media["image"].bytes is None
    assert "images of image: all 10 looked at, 1 missing" in "\n".join(str(view) for view in inspect_views(result))


def test_without_derived_columns_headers_tell_the_same(commit_rows: Callable[..., str], tmp_path: Path) -> None:
    files = [*photographs(), b"no picture"]
    made = inspect(packed(tmp_path))
    values = pa.array([None if file is None else {"bytes": file, "path": None} for file in files], IMAGE_TYPE)
    fields = [pa.field("__key__", pa.string(), nullable=False), pa.field("image", IMAGE_TYPE)]
    keys = pa.array([f"{row:02}" for row in range(len(files))])
    rows = pa.RecordBatch.from_arrays([keys, values], schema=pa.schema(fields))
    commit_rows(tmp_path / "bare", {"train": [[rows]]}, columns=(image_column("image"),))
    assert toolkit.open(tmp_path / "bare").manifest.derived == ()
    found = inspect(tmp_path / "bare").media["image"]
    assert (found.unreadable, found.rows) == (1, 11)
    for name in ("numbers", "formats", "marks", "missing"):
        assert getattr(found, name) == getattr(made.media["image"], name)


def test_a_value_whose_header_says_nothing_is_told(tmp_path: Path) -> None:
    def nothing(medium: object, column: pa.Array) -> list[pa.Array]:
        return [pa.nulls(len(column), kind) for kind in (pa.int32(), pa.int32(), pa.int8(), pa.string())]

    with mock.patch("toolkit.pipelines.image.medium.ImageMedium.derive", nothing):
        dataset = packed(tmp_path)
    facts = inspect(dataset).media["image"]
    assert (facts.missing, facts.unreadable, facts.numbers) == (1, 9, {"width": None, "height": None})
