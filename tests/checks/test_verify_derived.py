"""Derived columns that lie are found by a full verification; those that nobody knows here are left alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from gray_medium import FACTS, GrayMedium, added, gray_file
from pictures import encode, picture
from PIL import Image

import toolkit
from toolkit.checks.verify import verify
from toolkit.format.encodings import ImageEncoding
from toolkit.format.kinds import Kind
from toolkit.format.media import Fact
from toolkit.pack.job import PackJob
from toolkit.pack.run import pack
from toolkit.pipelines.image.formats import NotBuiltError
from toolkit.pipelines.image.medium import ImageMedium
from toolkit.sources.options import VerifyImages

_DERIVE = ImageMedium.derive


def images(path: Path, files: list[bytes | None], **options: Any) -> Path:
    """Pack images, and return the dataset."""
    pq.write_table(pa.table({"image": pa.array(files, pa.binary())}), path / "images.parquet")
    options = {"kind": {"image": Kind.IMAGE}, "verify_images": VerifyImages.OFF, **options}
    pack(PackJob(source=str(path / "images.parquet"), dataset=str(path / "dataset"), **options))
    return path / "dataset"


def lying(place: int, fact: int, value: object) -> Callable[[ImageMedium, pa.Array], list[pa.Array]]:
    """Return a derive() that says something else of one value."""

    def derive(medium: ImageMedium, column: pa.Array) -> list[pa.Array]:
        arrays = _DERIVE(medium, column)
        values = arrays[fact].to_pylist()
        values[place] = value
        arrays[fact] = pa.array(values, arrays[fact].type)
        return arrays

    return derive


@pytest.mark.parametrize(
    ("row", "fact", "value", "what"),
    [
        (0, 0, 21, "column __image.height__ says 21, and column image 20"),
        (0, 1, None, "column __image.width__ says nothing, and column image 30"),
        (0, 2, 6, "column __image.orientation__ says 6, and column image 1"),
        (1, 3, "PNG", "column __image.format__ says 'PNG', and column image 'JPEG'"),
        (2, 0, 1, "column __image.height__ says 1, and column image nothing"),  # it is missing
        (3, 1, 7, "column __image.width__ says 7, and column image nothing"),  # it is no picture
    ],
)
@pytest.mark.parametrize("encoding", ["keep", "raw"])
def test_a_lie_is_named(tmp_path: Path, encoding: str, row: int, fact: int, value: object, what: str) -> None:
    files = [encode(picture(1, 30, 20)), encode(picture(2, 9, 9)), None, b"no picture"]
    if encoding == "raw":
        files.pop()
        what = what.replace("'JPEG'", "'raw'")
        if row == 3:
            return
    with mock.patch.object(ImageMedium, "derive", lying(row, fact, value)):
        dataset = images(tmp_path, files, image_encoding=ImageEncoding.parse(encoding))
    (finding,) = verify(dataset, full=True, jobs=1).findings
    key = toolkit.open(dataset).keys([row])[0]
    assert (finding.kind, finding.place, finding.row, finding.key) == ("integrity", "sample", row, key)
    assert finding.message == f"shard {finding.shard}, row {row}, key {key!r}: {what}"
    quick = verify(dataset)
    assert quick.findings == ()
    assert "whether derived columns say what the stored values do (--full)" in quick.not_checked


def test_what_is_true_is_no_finding(tmp_path: Path) -> None:
    tags = Image.Exif()
    tags[0x0112] = 6
    files = [encode(picture(1, 30, 20), name, exif=tags) for name in ("JPEG", "PNG", "WEBP")]
    files += [encode(picture(2, 9, 7), name) for name in ("GIF", "BMP", "PPM", "TIFF")]
    result = verify(images(tmp_path, [*files, None, b"", b"no picture"]), full=True, jobs=1)
    assert result.findings == ()
    assert not [text for text in result.not_checked if "derived" in text]


def test_what_only_others_can_read_is_no_lie(tmp_path: Path) -> None:
    dataset = images(tmp_path, [encode(picture(1, 30, 20), "GIF"), encode(picture(1, 30, 20))])

    def without(payload: bytes) -> None:
        raise NotBuiltError("PIL was built without GIF")

    with (
        mock.patch("toolkit.pipelines.image.facts.open_picture", without),
        mock.patch("toolkit.pipelines.image.medium.open_picture", without),
    ):
        result = verify(dataset, full=True, jobs=1)
    assert result.findings == ()
    assert "the derived columns of some values: PIL was built without GIF" in result.not_checked


def test_what_a_newer_toolkit_derives_is_left_alone(tmp_path: Path) -> None:
    file = gray_file(np.arange(6, dtype=np.uint8).reshape(2, 3))
    newer = replace(GrayMedium.stored, facts=(*FACTS[:-1], Fact("shape", 3, pa.string()), Fact("hue", 1, pa.int8())))
    derive = GrayMedium.derive

    def more(medium: GrayMedium, column: pa.Array) -> list[pa.Array]:
        return [*derive(medium, column)[:-1], pa.nulls(len(column), pa.string()), pa.nulls(len(column), pa.int8())]

    pq.write_table(pa.table({"x": pa.array([file, None])}), tmp_path / "x.parquet")
    with mock.patch.object(GrayMedium, "stored", newer), mock.patch.object(GrayMedium, "derive", more), added():
        pack(PackJob(source=str(tmp_path / "x.parquet"), dataset=str(tmp_path / "dataset")))
    with added():
        result = verify(tmp_path / "dataset", full=True, jobs=1)
        assert len(toolkit.open(tmp_path / "dataset")) == 2
    assert result.findings == ()
    assert (
        "the derived columns __x.shape__, __x.hue__, which this version of toolkit doesn't know" in result.not_checked
    )
