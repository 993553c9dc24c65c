"""Images re-encoded or stored as pixels when they are packed: what comes out again, from every format and source."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tfrecords
from format.arrow_values import TYPES, arrays
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from pictures import NO_PICTURE, encode, make_folder, picture
from PIL import Image, ImageOps
from pillow_resample import resize
from sources import tars

import toolkit
from toolkit import slot
from toolkit.checks.verify import verify
from toolkit.errors import RejectsError, UsageError
from toolkit.format.encodings import ImageEncoding
from toolkit.format.kinds import Kind
from toolkit.format.media import IMAGE_TYPE
from toolkit.format.schema import Column, image_column
from toolkit.pack.job import OnExisting, PackJob, PackResult
from toolkit.pack.run import pack, plan
from toolkit.pack.shape import Shaper
from toolkit.sources.base import Rows, Slice, Source, Survey
from toolkit.sources.options import VerifyImages
from toolkit.sources.reject import Reject

Pixels = NDArray[np.uint8]


def packed(source: Path, dataset: Path, encoding: str = "keep", **options: Any) -> PackResult:
    options = {"on_existing": OnExisting.OVERWRITE, **options}
    return pack(
        PackJob(source=str(source), dataset=str(dataset), image_encoding=ImageEncoding.parse(encoding), **options)
    )


def images(dataset: Path) -> dict[str, Any]:
    ds = toolkit.open(dataset)
    return {ds[i]["__key__"]: ds[i]["image"] for i in range(len(ds))}


def decoded(dataset: Path, short_side: int | None = None) -> dict[str, Pixels]:
    """What a loader makes of each image."""
    steps = slot("image").decode_image()
    steps = steps if short_side is None else steps.resize_short(short_side)
    found = {}
    with toolkit.open(dataset).loader(toolkit.pipeline(steps), batch_size=5, threads=2) as loader:
        for batch in loader:
            found.update(zip(batch.sample_keys, batch["image"], strict=True))
    return found


def opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


def by_pillow(data: bytes) -> Pixels:
    return np.asarray(ImageOps.exif_transpose(opened(data)).convert("RGB"))


def psnr(one: Pixels, other: Pixels) -> float:
    assert one.shape == other.shape
    error = float(np.mean((one.astype(np.float64) - other) ** 2))
    return 99.0 if error == 0 else 10 * float(np.log10(255**2 / error))


def turned(image: Image.Image, orientation: int) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return encode(image, exif=exif.tobytes(), quality=95)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """JPEGs and PNGs, smaller and larger than 100 pixels, wide and high, in every orientation."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for orientation in range(1, 9):
        (folder / f"turned{orientation}.jpg").write_bytes(turned(picture(orientation, 201, 140), orientation))
    for i, (width, height) in enumerate([(64, 48), (100, 300), (301, 100), (101, 180), (333, 250), (1, 1), (7, 400)]):
        (folder / f"{i}.png").write_bytes(encode(picture(i, width, height), "PNG"))
        (folder / f"{i}.jpg").write_bytes(encode(picture(i, width, height), quality=95, subsampling="4:4:4"))
    return folder


# --- what comes out ----------------------------------------------------------------------------------------------


def test_raw_pixels_are_what_a_loader_would_decode(photos: Path, tmp_path: Path) -> None:
    packed(photos, tmp_path / "keep")
    packed(photos, tmp_path / "raw", "raw")
    expected, raw = decoded(tmp_path / "keep"), images(tmp_path / "raw")
    assert list(raw) == list(expected)
    for key, pixels in raw.items():
        assert pixels.dtype == np.uint8
        assert pixels.flags.writeable
        assert np.array_equal(pixels, expected[key]), key
        assert psnr(pixels, by_pillow((photos / key).read_bytes())) > 40


def test_short_side_makes_larger_images_smaller_and_leaves_the_others(photos: Path, tmp_path: Path) -> None:
    packed(photos, tmp_path / "keep")
    packed(photos, tmp_path / "raw", "raw", short_side=100)
    whole, resized = decoded(tmp_path / "keep"), decoded(tmp_path / "keep", short_side=100)
    raw = images(tmp_path / "raw")
    larger = {key for key, pixels in whole.items() if min(pixels.shape[:2]) > 100}
    assert 0 < len(larger) < len(raw)
    for key, pixels in raw.items():
        assert np.array_equal(pixels, resized[key] if key in larger else whole[key]), key


def test_resized_pixels_are_those_of_pillow(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    picture(3, 480, 301).save(tmp_path / "src/a.png")
    packed(tmp_path / "src", tmp_path / "raw", "raw", short_side=64)
    expected = resize(np.asarray(picture(3, 480, 301)), int(64 * 480 / 301), 64)
    assert np.array_equal(images(tmp_path / "raw")["a.png"], expected)


@pytest.mark.parametrize("quality", [40, 90])
def test_jpegs_are_those_that_pillow_would_write(photos: Path, tmp_path: Path, quality: int) -> None:
    packed(photos, tmp_path / "raw", "raw")
    result = packed(photos, tmp_path / "jpeg", f"jpeg:{quality}")
    raw, jpegs = images(tmp_path / "raw"), images(tmp_path / "jpeg")
    assert result.samples == len(raw) == 22
    for key, data in jpegs.items():
        theirs = encode(Image.fromarray(raw[key]), quality=quality, subsampling="4:2:0", optimize=True)
        assert opened(data).quantization == opened(theirs).quantization
        assert not opened(data).getexif()
        assert np.array_equal(np.asarray(opened(data)), np.asarray(opened(theirs))), key
        assert len(data) == pytest.approx(len(theirs), rel=0.01)
    large = by_pillow((photos / "4.png").read_bytes())
    assert psnr(np.asarray(opened(jpegs["4.png"])), large) > (30 if quality == 90 else 26)


def test_what_the_manifest_says(photos: Path, tmp_path: Path) -> None:
    packed(photos, tmp_path / "jpeg", "jpeg:77", short_side=50)
    manifest = toolkit.open(tmp_path / "jpeg").manifest
    assert (manifest.columns[0].encoding, manifest.columns[0].arrow_type) == (
        "jpeg:77",
        "struct<bytes: binary, path: string>",
    )
    assert (manifest.options["image_encoding"], manifest.options["short_side"]) == ("jpeg:77", 50)
    packed(photos, tmp_path / "raw", "raw")
    manifest = toolkit.open(tmp_path / "raw").manifest
    assert (manifest.columns[0].encoding, manifest.columns[0].arrow_type) == (
        "raw",
        "struct<pixels: large_binary, height: int32, width: int32, channels: int8>",
    )


# --- every kind of pixel -----------------------------------------------------------------------------------------


def gray16(kind: str) -> bytes:
    values = (np.arange(48 * 64, dtype=np.uint32) * 21 % 65536).astype(np.uint16).reshape(48, 64)
    return encode(Image.fromarray(values), kind)


def transparent_palette() -> bytes:
    image = picture(1).quantize(16)
    return encode(image, "PNG", transparency=bytes(range(0, 160, 10)))


MODES: dict[str, tuple[bytes, Callable[[Image.Image], Image.Image]]] = {
    "gray.jpg": (encode(picture(1).convert("L")), lambda image: image.convert("RGB")),
    "gray.png": (encode(picture(1).convert("L"), "PNG"), lambda image: image.convert("RGB")),
    "black-and-white.png": (encode(picture(1).convert("1"), "PNG"), lambda image: image.convert("RGB")),
    "alpha.png": (
        encode(Image.merge("RGBA", [*picture(1).split(), picture(2).convert("L")]), "PNG"),
        lambda image: Image.merge("RGB", image.split()[:3]),
    ),
    "gray-alpha.png": (
        encode(Image.merge("LA", [picture(1).convert("L"), picture(2).convert("L")]), "PNG"),
        lambda image: Image.merge("RGB", [image.split()[0]] * 3),
    ),
    "palette.png": (encode(picture(1).quantize(16), "PNG"), lambda image: image.convert("RGB")),
    "transparent.png": (transparent_palette(), lambda image: image.convert("RGBA").convert("RGB")),
    "palette.gif": (encode(picture(1).quantize(32), "GIF"), lambda image: image.convert("RGB")),
    "cmyk.jpg": (encode(picture(1).convert("CMYK"), quality=95), lambda image: image.convert("RGB")),
    "sixteen.png": (
        gray16("PNG"),
        lambda image: Image.fromarray((np.asarray(image) >> 8).astype(np.uint8)).convert("RGB"),
    ),
    "sixteen.tif": (
        gray16("TIFF"),
        lambda image: Image.fromarray((np.asarray(image) >> 8).astype(np.uint8)).convert("RGB"),
    ),
    "lossless.webp": (encode(picture(1), "WEBP", lossless=True), lambda image: image.convert("RGB")),
}


@pytest.mark.parametrize("encoding", ["raw", "jpeg:95"])
def test_every_kind_of_pixel_becomes_rgb(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "src").mkdir()
    for name, (data, _) in MODES.items():
        (tmp_path / "src" / name).write_bytes(data)
    packed(tmp_path / "src", tmp_path / "keep")
    packed(tmp_path / "src", tmp_path / "ds", encoding)
    stored, loaded = images(tmp_path / "ds"), decoded(tmp_path / "keep")
    assert set(stored) == set(MODES)
    for name, (data, to_rgb) in MODES.items():
        expected = np.asarray(to_rgb(opened(data)))
        if encoding == "raw":
            assert np.array_equal(stored[name], loaded[name]), name
            assert psnr(stored[name], expected) > (40 if name == "gray.jpg" else 98), name
        else:
            assert opened(stored[name]).mode == "RGB"
            assert psnr(np.asarray(opened(stored[name])), expected) > (15 if "white" in name else 26), name


def test_pixels_without_a_known_range_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/good.png").write_bytes(encode(picture(1), "PNG"))
    (tmp_path / "src/float.tif").write_bytes(encode(Image.fromarray(np.ones((4, 5), np.float32)), "TIFF"))
    result = packed(tmp_path / "src", tmp_path / "ds", "raw", max_rejects=1)
    assert [reject.key for reject in result.rejects] == ["float.tif"]
    assert "no known range" in result.rejects[0].reason


# --- what can't be decoded ---------------------------------------------------------------------------------------


def cut(data: bytes) -> bytes:
    return data[: len(data) * 2 // 3]


def bad_source(kind: str, root: Path) -> tuple[Path, dict[str, Any], list[str]]:
    """Twelve photographs, the fourth and the last cut short; options, and the keys of the bad ones."""
    data = [encode(picture(i, 120, 90)) for i in range(12)]
    data[3], data[11] = cut(data[3]), cut(data[11])
    if kind == "imagefolder":
        (root / "src").mkdir()
        for i, one in enumerate(data):
            (root / f"src/{i:02d}.jpg").write_bytes(one)
        return root / "src", {}, ["03.jpg", "11.jpg"]
    if kind == "parquet":
        pq.write_table(pa.table({"image": data, "n": list(range(12))}), root / "in.parquet", row_group_size=5)
        return root / "in.parquet", {}, ["in.parquet#3", "in.parquet#11"]
    if kind == "tfrecord":
        tfrecords.write(root / "in.tfrecord", [tfrecords.example(image=[one]) for one in data])
        return root / "in.tfrecord", {}, ["in.tfrecord#3", "in.tfrecord#11"]
    tars.write(root / "in.tar", tars.tar_bytes([(f"{i:02d}.jpg", one) for i, one in enumerate(data)]))
    return root / "in.tar", {"map": {"image": "jpg"}}, ["03", "11"]


SOURCES = ["imagefolder", "parquet", "tfrecord", "webdataset"]


@pytest.mark.parametrize("kind", SOURCES)
def test_images_that_end_early_are_rejected_with_their_keys(kind: str, tmp_path: Path) -> None:
    source, options, bad = bad_source(kind, tmp_path)
    with pytest.raises(RejectsError, match="2 samples rejected"):
        packed(source, tmp_path / "ds", "raw", **options)
    for encoding, verified in (
        ("raw", VerifyImages.HEADER),
        ("jpeg:90", VerifyImages.OFF),
        ("keep", VerifyImages.DECODE),
    ):
        dataset = tmp_path / encoding[:3]
        result = packed(source, dataset, encoding, verify_images=verified, max_rejects=2, **options)
        assert [reject.key for reject in result.rejects] == bad
        assert all("the JPEG data end too early" in reject.reason for reject in result.rejects)
        assert all(Path(reject.source).is_file() for reject in result.rejects)
        assert result.samples == len(images(dataset)) == 10
        assert verify(dataset, full=True, decode=True, jobs=1).findings == ()
    assert packed(source, tmp_path / "header", **options).samples == 12  # the default looks at headers


@pytest.mark.parametrize("kind", SOURCES)
def test_off_looks_at_nothing(kind: str, tmp_path: Path) -> None:
    source, options, _ = bad_source(kind, tmp_path)
    rubbish = b"no image at all"
    if kind == "imagefolder":
        (source / "03.jpg").write_bytes(rubbish)
    elif kind == "parquet":
        pq.write_table(pa.table({"image": [encode(picture(0)), rubbish]}), source)
        options = {"kind": {"image": Kind.IMAGE}}
    elif kind == "tfrecord":
        tfrecords.write(source, [tfrecords.example(image=[one]) for one in (encode(picture(0)), rubbish)])
        options = {"kind": {"image": Kind.IMAGE}}
    else:
        tars.write(source, tars.tar_bytes([("00.jpg", encode(picture(0))), ("01.jpg", rubbish)]))
    with pytest.raises(RejectsError, match="1 sample rejected"):
        packed(source, tmp_path / "ds", **options)
    packed(source, tmp_path / "ds", verify_images=VerifyImages.OFF, **options)
    assert rubbish in images(tmp_path / "ds").values()
    result = packed(source, tmp_path / "ds", "raw", verify_images=VerifyImages.OFF, max_rejects=3, **options)
    assert any(reject.reason.endswith(NO_PICTURE) for reject in result.rejects)


def test_a_check_changes_no_byte_of_good_images(photos: Path, tmp_path: Path) -> None:
    pins = {packed(photos, tmp_path / one.value, verify_images=one).pin for one in VerifyImages}
    assert len(pins) == 1


def test_what_a_jpeg_cannot_hold_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/good.png").write_bytes(encode(picture(1), "PNG"))
    (tmp_path / "src/long.png").write_bytes(encode(Image.new("L", (65501, 1)), "PNG"))
    result = packed(tmp_path / "src", tmp_path / "ds", "jpeg:90", max_rejects=1)
    assert [(reject.key, reject.reason) for reject in result.rejects] == [
        ("long.png", "column 'image': 65501 x 1 pixels: a JPEG has at most 65500 a side")
    ]
    assert images_shapes(tmp_path, packed(tmp_path / "src", tmp_path / "ds", "raw")) == [(48, 64, 3), (1, 65501, 3)]


def images_shapes(root: Path, result: PackResult) -> list[tuple[int, ...]]:
    assert result.rejects == []
    return [pixels.shape for pixels in images(root / "ds").values()]


# --- several columns, nulls, many pixels -------------------------------------------------------------------------


def test_several_image_columns_nulls_and_values_of_every_type(tmp_path: Path) -> None:
    good, bad = encode(picture(1)), cut(encode(picture(2, 300, 200)))
    table = {
        "one": [good, None, good, bad, good, good],
        "two": [good, good, bad, good, None, good],
        "nested": pa.array([[[1], None], None, [], [[2, 3]], [[]], [[4]]]),
        "n": [0, 1, None, 3, 4, 5],
        "text": ["a", None, "c", "d", "e", "f"],
        "pair": pa.array([{"x": [str(i)], "y": i % 2 == 0} for i in range(6)]),
        "fixed": pa.array([[i, i] for i in range(6)], pa.list_(pa.int8(), 2)),
        "nothing": pa.nulls(6),
    }
    pq.write_table(pa.table(table), tmp_path / "in.parquet")
    packed(tmp_path / "in.parquet", tmp_path / "keep", verify_images=VerifyImages.DECODE, max_rejects=2)
    result = packed(tmp_path / "in.parquet", tmp_path / "raw", "raw", max_rejects=2)
    assert [(reject.key, reject.reason[:13]) for reject in result.rejects] == [
        ("in.parquet#2", "column 'two':"),
        ("in.parquet#3", "column 'one':"),
    ]
    keep, raw = toolkit.open(tmp_path / "keep"), toolkit.open(tmp_path / "raw")
    assert keep.keys() == raw.keys() == [f"in.parquet#{i}" for i in (0, 1, 4, 5)]
    for i in range(4):
        mine, theirs = raw[i], keep[i]
        for name in table:
            if name not in ("one", "two"):
                assert mine[name] == theirs[name]
            elif theirs[name] is None:
                assert mine[name] is None
            else:
                assert np.array_equal(mine[name], by_pillow(theirs[name]))
    assert verify(tmp_path / "raw", full=True, decode=True, jobs=1).findings == ()


def test_few_bytes_of_very_many_pixels(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    for i in range(7):
        Image.new("RGB", (1500, 1000), (i, 2 * i, 3 * i)).save(tmp_path / f"src/{i}.png")
    (tmp_path / "src/3.png").write_bytes(cut((tmp_path / "src/3.png").read_bytes()))
    result = packed(tmp_path / "src", tmp_path / "raw", "raw", shard_size=10_000_000, max_rejects=1)
    assert [reject.key for reject in result.rejects] == ["3.png"]
    assert (result.samples, result.shards) == (6, 3)
    for key, pixels in images(tmp_path / "raw").items():
        assert pixels.shape == (1000, 1500, 3)
        assert (pixels == np.array([1, 2, 3]) * int(key[0])).all()


# --- pins, journals, appends, options ----------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["raw", "jpeg:90"])
def test_jobs_and_places_change_no_byte(photos: Path, tmp_path: Path, encoding: str) -> None:
    pins = {
        packed(photos, tmp_path / f"ds{jobs}", encoding, short_side=90, jobs=jobs, shard_size=65536).pin
        for jobs in (1, 2, 4)
    }
    assert len(pins) == 1
    assert verify(tmp_path / "ds4", full=True, decode=True, jobs=1).findings == ()


def test_an_append_has_the_encoding_of_the_dataset(photos: Path, tmp_path: Path) -> None:
    packed(photos, tmp_path / "ds", "jpeg:90")
    make_folder(tmp_path / "more", {".": 2})
    for other in ("keep", "jpeg:91", "raw"):
        with pytest.raises(UsageError, match=r"column 'image' is image \(.*, jpeg:90\) in the dataset"):
            packed(tmp_path / "more", tmp_path / "ds", other, on_existing=OnExisting.APPEND)
    assert packed(tmp_path / "more", tmp_path / "ds", "jpeg:90", on_existing=OnExisting.APPEND).samples == 24


def test_options_that_cannot_be(photos: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--short-side needs --image-encoding"):
        packed(photos, tmp_path / "ds", short_side=100)
    for side in (0, 65536):
        with pytest.raises(UsageError, match="short-side must be at"):
            packed(photos, tmp_path / "ds", "raw", short_side=side)
    for text in ("jpeg", "jpeg:0", "jpeg:101", "jpeg:x"):
        with pytest.raises(UsageError, match="a quality from 1 to 100 belongs to it, as in jpeg:90"):
            ImageEncoding.parse(text)
    with pytest.raises(UsageError, match="Did you mean 'raw'"):
        ImageEncoding.parse("rwa")
    pq.write_table(pa.table({"n": [1, 2]}), tmp_path / "in.parquet")
    with pytest.raises(UsageError, match=r"no column holds images; there are n \(scalar\)"):
        packed(tmp_path / "in.parquet", tmp_path / "ds", "raw")
    assert packed(tmp_path / "in.parquet", tmp_path / "ds", verify_images=VerifyImages.DECODE).samples == 2


def test_a_plan_says_how_images_are_stored(photos: Path, tmp_path: Path) -> None:
    job = PackJob(source=str(photos), dataset=str(tmp_path / "ds"), image_encoding=ImageEncoding.parse("jpeg:80"))
    assert plan(job).encodings == {"image": "jpeg:80"}
    assert plan(PackJob(source=str(photos), dataset=str(tmp_path / "ds"))).encodings == {"image": "keep"}


# --- any rows ----------------------------------------------------------------------------------------------------


class Given(Source):
    """A source of one slice: the pieces it is given."""

    def __init__(self, pieces: Sequence[pa.RecordBatch]) -> None:
        self.pieces = pieces

    def survey(self) -> Survey:
        fields = list(self.pieces[0].schema)[1:]
        images = [field.name for field in fields if field.type == IMAGE_TYPE]
        value = [
            Column(name=field.name, kind=Kind.VALUE, arrow_type=str(field.type))
            for field in fields
            if field.name not in images
        ]
        return Survey(
            columns=(*(image_column(name) for name in images), *value),
            types={field.name: field.type for field in fields},
            classes={},
            splits=("train",),
            slices=(Slice("train", 0, None, 0, None),),
        )

    def read(self, survey: Survey, part: Slice) -> Iterator[Rows]:
        for number, piece in enumerate(self.pieces):
            yield Rows(piece, (Reject("given", f"before {number}", "bad"),), 10)

    def place(self, part: Slice, key: str) -> str:
        return f"place of {key}"


GOOD, BAD = encode(picture(5, 9, 7), "PNG"), b"bad"


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from(["keep", "raw", "jpeg:90"]))
def test_whatever_is_rejected_the_other_rows_stay_as_they_are(data: st.DataObject, encoding: str) -> None:
    pieces, kept, bad = [], [], []
    dtype = data.draw(TYPES)
    for number in range(data.draw(st.integers(1, 3))):
        stored = data.draw(st.lists(st.sampled_from([GOOD, BAD, None]), max_size=9))
        values = data.draw(arrays(st.just(dtype), len(stored), nan=False))
        keys = [f"{number}/{i}" for i in range(len(stored))]
        image = pa.array([None if one is None else {"bytes": one, "path": "p"} for one in stored], IMAGE_TYPE)
        pieces.append(pa.RecordBatch.from_arrays([pa.array(keys, pa.string()), image, values], ["__key__", "x", "v"]))
        for key, one, value in zip(keys, stored, values.to_pylist(), strict=True):
            if one is BAD:
                bad.append(key)
            else:
                kept.append((key, one is None, value))
    source = Given(pieces)
    shaper = Shaper(source, source.survey(), VerifyImages.DECODE, ImageEncoding.parse(encoding), None, 1 << 27)
    made = list(shaper.rows(source.survey().slices[0]))
    rows = [row for one in made for row in one.batch.to_pylist()]
    assert [(row["__key__"], row["x"] is None, row["v"]) for row in rows] == kept
    rejects = [reject for one in made for reject in one.rejects]
    assert [reject.key for reject in rejects if reject.source.startswith("place of")] == bad
    assert len(rejects) == len(bad) + len(pieces)
    assert sum(one.read_bytes for one in made) == 10 * len(pieces)
    assert {one.batch.schema.field("x").type for one in made} == {shaper.survey.types["x"]}
