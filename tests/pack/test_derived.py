"""What a pack writes into derived columns is true of what it stores, whatever it makes of images on the way."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pictures import encode, picture
from PIL import Image, ImageOps

import toolkit
from toolkit.checks.verify import verify
from toolkit.errors import UsageError
from toolkit.format.encodings import ImageEncoding
from toolkit.format.kinds import Kind
from toolkit.format.media import IMAGE
from toolkit.pack.job import KeyConflict, OnExisting, PackJob
from toolkit.pack.run import pack
from toolkit.pipelines.image.medium import ImageMedium

DERIVED = ["__image.height__", "__image.width__", "__image.orientation__", "__image.format__"]
COUNT = 24


def job(folder: Path, dataset: str = "dataset", **options: Any) -> PackJob:
    options = {"shard_size": 64 * 1024, "key": "id", "kind": {"image": Kind.IMAGE}, **options}
    return PackJob(source=str(folder / "in.parquet"), dataset=str(folder / dataset), **options)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Images of many sizes, formats and orientations, some missing; every fourth key a repeat."""
    files: list[bytes | None] = []
    for i in range(COUNT):
        tags = Image.Exif()
        tags[0x0112] = 1 + i % 8
        image = picture(i, 90 + i, 60 + 2 * i)
        files.append(None if i % 7 == 6 else encode(image, ("JPEG", "PNG", "WEBP", "BMP")[i % 4], exif=tags))
    keys = [f"k{i - i % 4 if i % 4 == 3 else i}" for i in range(COUNT)]
    pq.write_table(pa.table({"id": keys, "image": files}), tmp_path / "in.parquet", row_group_size=9)
    return tmp_path


def check(dataset: Path) -> None:
    """Compare the derived columns of each sample with the picture that PIL makes of its image."""
    ds = toolkit.open(dataset)
    assert [one.name for one in ds.manifest.derived] == DERIVED
    named = toolkit.open(dataset, columns=["image", *DERIVED])
    for i in range(len(ds)):
        sample = named[i]
        height, width, orientation, name = (sample[column] for column in DERIVED)
        if isinstance(sample["image"], np.ndarray):
            assert (*sample["image"].shape[:2], 1, "raw") == (height, width, orientation, name)
        elif sample["image"] is None:
            assert (height, width, orientation, name) == (None,) * 4
        else:
            with Image.open(io.BytesIO(sample["image"])) as image:
                assert (image.getexif().get(0x0112, 1), image.format) == (orientation, name)
                assert ImageOps.exif_transpose(image).size == (width, height)
    assert verify(dataset, full=True, jobs=1).findings == ()


@pytest.mark.parametrize("passes", [{}, {"shuffle_seed": 3}], ids=["in order", "shuffled"])
@pytest.mark.parametrize(
    "made",
    [{}, {"image_encoding": "jpeg:80"}, {"image_encoding": "jpeg:80", "short_side": 40}, {"image_encoding": "raw"}],
)
def test_they_say_what_is_stored(folder: Path, passes: dict[str, Any], made: dict[str, Any]) -> None:
    if made:
        made = {**made, "image_encoding": ImageEncoding.parse(made["image_encoding"])}
    pack(job(folder, key_conflict=KeyConflict.SUFFIX, **passes, **made))
    check(folder / "dataset")
    pack(job(folder, key_conflict=KeyConflict.SUFFIX, on_existing=OnExisting.APPEND, **passes, **made))
    check(folder / "dataset")
    assert len(toolkit.open(folder / "dataset")) == 2 * COUNT


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ((), "no derived columns"),
        (IMAGE.facts[:2], r"the derived columns __image\.height__ \(int32, version 1\), __image\.width__ "),
        ((*IMAGE.facts[:3], replace(IMAGE.facts[3], version=2)), r"__image\.format__ \(string, version 2\)"),
    ],
)
def test_others_are_not_appended_to(folder: Path, facts: tuple[Any, ...], said: str) -> None:
    derive = ImageMedium.derive

    def fewer(medium: ImageMedium, column: pa.Array) -> list[pa.Array]:
        return derive(medium, column)[: len(facts)]

    other = replace(IMAGE, facts=facts)
    with (
        mock.patch.dict("toolkit.format.media._MEDIA", {Kind.IMAGE: other}),
        mock.patch.object(ImageMedium, "stored", other),
        mock.patch.object(ImageMedium, "derive", fewer),
    ):
        pack(job(folder, key_conflict=KeyConflict.SUFFIX))
    before = toolkit.open(folder / "dataset").pin
    with pytest.raises(UsageError, match=said + r".*this version of toolkit would write the derived columns"):
        pack(job(folder, key_conflict=KeyConflict.SUFFIX, on_existing=OnExisting.APPEND))
    assert toolkit.open(folder / "dataset").pin == before
    pack(job(folder, key_conflict=KeyConflict.SUFFIX, on_existing=OnExisting.OVERWRITE))
    check(folder / "dataset")


def test_no_column_of_an_input_takes_their_name(tmp_path: Path) -> None:
    table = pa.table({"id": ["a"], "image": [encode(picture(1))], "__image.width__": [7], "x": [1]})
    pq.write_table(table, tmp_path / "in.parquet")
    with pytest.raises(UsageError, match=r"'__image\.width__' can't name a column"):
        pack(job(tmp_path))
    with pytest.raises(UsageError, match=r"'__image\.width__' can't name a column"):
        pack(job(tmp_path, columns=["image", "x"], rename={"x": "__image.width__"}))
    pack(job(tmp_path, columns=["image"]))
    check(tmp_path / "dataset")
    pack(job(tmp_path, "renamed", rename={"__image.width__": "width"}))
    ds = toolkit.open(tmp_path / "renamed", columns=["width", "__image.width__"])
    assert [ds[0]["width"], ds[0]["__image.width__"]] == [7, 64]


def test_two_columns_of_images_have_their_own(tmp_path: Path) -> None:
    files = {"id": ["a", "b"], "a": [encode(picture(1)), None], "b": [encode(picture(2, 9, 7)), encode(picture(3))]}
    pq.write_table(pa.table(files), tmp_path / "in.parquet")
    pack(job(tmp_path, kind={"a": Kind.IMAGE, "b": Kind.IMAGE}))
    widths = ["__a.width__", "__b.width__"]
    ds = toolkit.open(tmp_path / "dataset", columns=widths)
    assert [[ds[i][name] for name in widths] for i in range(2)] == [[64, 9], [None, 64]]
