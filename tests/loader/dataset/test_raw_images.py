"""Images stored as pixels: samples, batches with and without a slot, inspect, head, verify, damage."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pictures import encode, make_folder, picture

import toolkit
from toolkit import slot
from toolkit.checks.inspect import inspect
from toolkit.checks.verify import verify
from toolkit.cli.main import run
from toolkit.errors import CorruptShardError, SampleError
from toolkit.format.encodings import ImageEncoding
from toolkit.format.media import RAW_IMAGE_TYPE
from toolkit.format.schema import image_column
from toolkit.pack.job import PackJob
from toolkit.pack.run import pack

RAW = ImageEncoding.parse("raw")
STEPS = {
    "decode": slot("image").decode_image(),
    "resized": slot("image").decode_image().resize_short(40),
    "cropped": slot("image").decode_image().resize_short(40).center_crop(32),
    "cut": slot("image").decode_image().center_crop((40, 41)).crop(3, 5, 20, 30),
    "cut and cast": slot("image").decode_image().center_crop(31).to_hwc().cast("uint8"),
    "corner": slot("image").decode_image().crop(0, 0, 1, 1),
    "some padded": slot("image").decode_image().crop(20, 10, 30, 35),
    "cut of padded": slot("image").decode_image().center_crop((75, 44)).crop(3, 20, 60, 70).center_crop(61),
    "beside": slot("image").decode_image().crop(90, 0, 8, 9),
    "padded": slot("image").decode_image().center_crop(90),
    "cut and normalized": slot("image").decode_image().center_crop(31).normalize("imagenet"),
    "cut, normalized and cast": slot("image").decode_image().center_crop(31).normalize("half").cast("float16").to_hwc(),
    "cut to planes": slot("image").decode_image().center_crop(31).to_chw(),
    "cut to floats": slot("image").decode_image().crop(1, 2, 20, 30).cast("float32"),
    "normalized": slot("image").decode_image().resize_short(40).center_crop(32).normalize("imagenet"),
}


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The same images kept and as pixels, of many sizes."""
    root = tmp_path_factory.mktemp("raw")
    make_folder(root / "src", {"a": 9, "b": 6}, width=80, height=60)
    for i in range(8):
        (root / f"src/b/x{i}.png").write_bytes(encode(picture(i, 41 + 5 * i, 70 - 4 * i), "PNG"))
    pack(PackJob(source=str(root / "src"), dataset=str(root / "keep")))
    pack(PackJob(source=str(root / "src"), dataset=str(root / "raw"), image_encoding=RAW, shard_size=200_000))
    return root / "keep", root / "raw"


def batches(dataset: Path, step: str | None, **options: Any) -> list[Any]:
    pipeline = None if step is None else toolkit.pipeline(STEPS[step])
    options = {"batch_size": 5, "threads": 2, "shuffle": "full", "seed": 3, **options}
    with toolkit.open(dataset).loader(pipeline, **options) as loader:
        return [(batch.sample_keys, batch["image"]) for batch in loader]


@pytest.mark.parametrize("step", STEPS)
def test_a_slot_gives_what_it_gives_of_the_encoded_images(packed: tuple[Path, Path], step: str) -> None:
    keep, raw = packed
    for (keys, mine), (expected_keys, expected) in zip(batches(raw, step), batches(keep, step), strict=True):
        assert keys == expected_keys
        assert type(mine) is type(expected)
        for one, other in zip(mine, expected, strict=True):
            assert one.dtype == other.dtype
            assert np.array_equal(one, other)


def test_without_a_slot_images_are_arrays_of_ones_own(packed: tuple[Path, Path]) -> None:
    ds = toolkit.open(packed[1])
    by_key = {ds[i]["__key__"]: ds[i]["image"] for i in range(len(ds))}
    for keys, images in batches(packed[1], None):
        assert isinstance(images, list)
        for key, image in zip(keys, images, strict=True):
            assert image.dtype == np.uint8
            assert np.array_equal(image, by_key[key])
            image[:] = 0  # nobody else's memory
    assert all(image.any() for image in by_key.values())
    assert all(ds[i]["image"].any() for i in range(len(ds)))


@pytest.mark.parametrize("output", ["torch", "jax"])
def test_frameworks(packed: tuple[Path, Path], output: str) -> None:
    pytest.importorskip(output)
    for (_, mine), (_, expected) in zip(
        batches(packed[1], "normalized", output=output), batches(packed[1], "normalized"), strict=True
    ):
        assert np.array_equal(np.asarray(mine), expected)


def test_what_is_told_of_them(packed: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    keep, raw = (inspect(str(path)).media["image"] for path in packed)
    assert (raw.formats, raw.unreadable, raw.missing, raw.marks) == ({"raw": 23}, 0, 0, {"rotated": 0})
    assert raw.numbers == keep.numbers
    assert raw.numbers["width"] is not None
    sizes = [toolkit.open(packed[1])[i]["image"].nbytes for i in range(23)]
    assert raw.bytes is not None
    assert (raw.bytes.min, raw.bytes.max) == (min(sizes), max(sizes))
    first = inspect(str(packed[1]), samples=1).first[0].media["image"]
    assert first.document() == {
        "read": True,
        "width": 80,
        "height": 60,
        "format": "raw",
        "bytes": 80 * 60 * 3,
    }
    capsys.readouterr()
    assert run(["inspect", str(packed[1])]) == 0
    assert "80 x 60 raw, 14,400 bytes" in capsys.readouterr().out
    assert run(["head", str(packed[1]), "-n", "1"]) == 0
    assert json.loads(capsys.readouterr().out)["image"] == {"shape": [60, 80, 3], "dtype": "uint8"}
    assert run(["verify", str(packed[1]), "--full", "--decode"]) == 0


# --- what is wrong -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("child", ["pixels", "height", "width", "channels"])
def test_a_flip_in_any_part_is_found(packed: tuple[Path, Path], tmp_path: Path, child: str) -> None:
    root = Path(shutil.copytree(packed[1], tmp_path / "ds"))
    shard = Path(toolkit.open(root).files[0])
    whole = pa.py_buffer(shard.read_bytes())
    values = pa.ipc.open_file(whole).get_batch(0).column("image").field(child).buffers()[-1]
    data = bytearray(whole)
    data[values.address - whole.address + values.size // 2] ^= 1
    shard.write_bytes(data)
    for step in (None, "cropped", "cut"):
        with pytest.raises(CorruptShardError, match=shard.name):
            batches(root, step, shuffle="none")
    with pytest.raises(CorruptShardError):
        [toolkit.open(root)[i] for i in range(23)]
    assert verify(root, full=True, decode=True, jobs=1).findings


Commit = Callable[..., str]


def commit(commit_rows: Commit, root: Path, images: list[dict[str, Any] | None]) -> Path:
    fields = [pa.field("__key__", pa.string(), nullable=False), pa.field("image", RAW_IMAGE_TYPE)]
    rows = [pa.array([f"k{i}" for i in range(len(images))]), pa.array(images, RAW_IMAGE_TYPE)]
    batch = pa.RecordBatch.from_arrays(rows, schema=pa.schema(fields))
    commit_rows(root, {"train": [[batch]]}, columns=(image_column("image", RAW),))
    return root


def raw(pixels: int, height: int | None, width: int | None, channels: int | None = 3) -> dict[str, Any]:
    return {"pixels": bytes(range(pixels)), "height": height, "width": width, "channels": channels}


def test_missing_images(commit_rows: Commit, tmp_path: Path) -> None:
    root = commit(commit_rows, tmp_path / "ds", [raw(18, 2, 3), None, raw(6, 1, None), raw(12, 4, 1)])
    ds = toolkit.open(root)
    shapes = [None if ds[i]["image"] is None else ds[i]["image"].shape for i in range(4)]
    assert shapes == [(2, 3, 3), None, None, (4, 1, 3)]
    assert np.array_equal(ds[0]["image"], np.arange(18).reshape(2, 3, 3))
    [(_, images)] = batches(root, None, shuffle="none")
    assert [image is None for image in images] == [False, True, True, False]
    with pytest.raises(SampleError, match=r"row 1, key 'k1'.*the value is missing"):
        batches(root, "cropped", shuffle="none", threads=1)
    facts = inspect(str(root)).media["image"]
    assert (facts.missing, facts.formats) == (2, {"raw": 2})
    assert inspect(str(root)).first[1].media["image"].document() is None
    assert verify(root, full=True, decode=True, jobs=1).findings == ()


@pytest.mark.parametrize("image", [raw(17, 2, 3), raw(18, 2, -3), raw(6, 2, 3, 1), raw(0, 0, 3), raw(24, 2, 3, 4)])
def test_pixels_that_do_not_fit_their_size(commit_rows: Commit, tmp_path: Path, image: dict[str, Any]) -> None:
    root = commit(commit_rows, tmp_path / "ds", [raw(18, 2, 3), image])
    for step in (None, "decode", "cropped", "corner"):
        with pytest.raises(SampleError, match=r"row 1, key 'k1', column image: .*raw image") as caught:
            batches(root, step)
        assert (caught.value.row, caught.value.key, caught.value.slot) == (1, "k1", "image")
    with pytest.raises(SampleError):
        toolkit.open(root)[1]
    [finding] = verify(root, full=True, decode=True, jobs=1).findings
    assert (finding.kind, finding.row, finding.key) == ("sample", 1, "k1")
    assert verify(root, full=True, jobs=1).findings == ()


@pytest.mark.parametrize("crop", [toolkit.chain(), toolkit.chain().center_crop(8)], ids=["any size", "one size"])
def test_a_step_that_makes_pixels_too_many_is_named(packed: tuple[Path, Path], crop: toolkit.Chain) -> None:
    steps = toolkit.pipeline(slot("image").decode_image(max_pixels=1_000_000).hflip().resize_short(3000).then(crop))
    for root in packed:
        with toolkit.open(root).loader(steps, batch_size=4) as loader, pytest.raises(SampleError) as caught:
            list(loader)
        assert caught.value.step == "resize_short(3000)"


def test_a_slot_refuses_too_many_pixels(packed: tuple[Path, Path]) -> None:
    steps = toolkit.pipeline(slot("image").decode_image(max_pixels=4000).resize_short(8).center_crop(8))
    with (
        toolkit.open(packed[1]).loader(steps, batch_size=4) as loader,
        pytest.raises(SampleError, match="more than max_pixels=4000"),
    ):
        list(loader)
