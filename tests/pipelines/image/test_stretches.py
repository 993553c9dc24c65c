"""Steps on pixels behind a step in Python: what they give without it, wherever it stands; and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from keyed_rows import keyed
from pictures import encode, picture
from PIL import Image

import toolkit
from toolkit import chain, pixels, slot
from toolkit.errors import PipelineError, SampleError
from toolkit.format.schema import Column, Kind

COUNT = 11


def same(image: np.ndarray) -> np.ndarray:
    return image


def turned(image: np.ndarray) -> np.ndarray:
    return image[:, ::-1]  # no memory of its own, and strides that go back


def cut(image: np.ndarray) -> np.ndarray:
    return image[:12, :10]


def ones(image: np.ndarray) -> np.ndarray:
    return np.ones((4, 4, 3), np.uint8)


def nothing(image: np.ndarray) -> np.ndarray:
    return image[:0]


def wide(image: np.ndarray) -> np.ndarray:
    return np.zeros((300, 200, 1), np.uint8)


@pytest.fixture
def table(tmp_path: Path, commit_rows: Callable[..., str]) -> Callable[..., toolkit.Dataset]:
    def make(**columns: pa.Array) -> toolkit.Dataset:
        commit_rows(tmp_path / "ds", {"train": [[keyed(columns)]]})
        return toolkit.open(tmp_path / "ds")

    return make


@pytest.fixture
def photos(table: Callable[..., toolkit.Dataset]) -> toolkit.Dataset:
    return table(image=pa.array([encode(picture(i, 30 + 5 * i, 50 - i)) for i in range(COUNT)], pa.large_binary()))


def values(ds: toolkit.Dataset, *slots: toolkit.Slot, **options: Any) -> list[list[Any]]:
    made: list[list[Any]] = [[] for _ in slots]
    with ds.loader(toolkit.pipeline(*slots), **{"batch_size": 4, "seed": 7, **options}) as loader:
        for batch in loader:
            for found, one in zip(made, slots, strict=True):
                found += list(batch[one.name])
    return made


CROP = chain().random_resized_crop(16, scale=(0.2, 0.9))
FLIPS = chain().hflip().vflip(p=0.3).maybe(chain().color_jitter(brightness=0.4), p=0.5)
END = chain().hflip().normalize("imagenet")
ANY, FIXED = chain().python(same, pixels()), chain().python(same, pixels(16))
FIRST = "first"
COLUMNS = [Column(name="x", kind=Kind.VALUE, arrow_type="binary")], pa.schema({"x": pa.binary()})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (ANY.then(CROP).then(FLIPS).then(END), CROP.then(FLIPS).then(END)),
        (CROP.then(FIXED).then(FLIPS).then(END), CROP.then(FLIPS).then(END)),
        (CROP.then(FIXED).then(END).random_erasing(p=1.0), CROP.then(END).random_erasing(p=1.0)),
        (FLIPS.then(ANY).then(CROP).then(FIXED).then(END), FLIPS.then(CROP).then(END)),
        (CROP.then(FLIPS).then(FIXED).then(END), CROP.then(FLIPS).then(END)),
        (CROP.then(ANY).resize((9, 12)).cast("bfloat16").to_chw(), CROP.resize((9, 12)).cast("bfloat16").to_chw()),
        (ANY.resize_short(20).hflip(), chain().resize_short(20).hflip()),  # a list
        (chain().python(turned, pixels()).resize((20, 20)), chain().hflip(p=1.0).resize((20, 20))),
        (chain().grayscale().python(same, pixels(channels=1)).then(CROP), chain().grayscale().then(CROP)),
        (CROP.python(same, ("uint8", (16, 16, 3))).as_image().hflip(), CROP.hflip()),
    ],
)
def test_python_in_between_changes_nothing(photos: toolkit.Dataset, one: toolkit.Chain, other: toolkit.Chain) -> None:
    first = slot("image", name=FIRST, sync="x").decode_image().then(one)
    second = slot("image", name="second", sync="x").decode_image().then(other)
    for options in ({}, {"batch_size": 3, "threads": 2, "shuffle": "full"}, {"max_bytes": "4MiB"}):
        mine, expected = values(photos, first, second, **options)
        assert len(mine) == COUNT
        for image, wanted in zip(mine, expected, strict=True):
            assert image.dtype == wanted.dtype
            assert np.array_equal(image, wanted)


def test_alpha_comes_along(photos: toolkit.Dataset) -> None:
    steps = chain().random_crop(12).hflip()
    first = slot("image", name=FIRST, sync="x").decode_image(mode="rgba").python(same, pixels(channels=4)).then(steps)
    mine, expected = values(photos, first, slot("image", sync="x").decode_image(mode="rgba").then(steps))
    assert np.array_equal(mine, expected)


@pytest.mark.parametrize("shape", [(28, 28, 1), (28, 28)])
def test_arrays_of_digits(table: Callable[..., toolkit.Dataset], shape: tuple[int, ...]) -> None:
    digits = np.random.default_rng(1).integers(0, 256, (COUNT, 28, 28), np.uint8)
    ds = table(x=pa.array([each.tobytes() for each in digits]), y=pa.array([each.ravel().tolist() for each in digits]))
    steps = chain().as_image().resize((32, 20)).pad(2).random_crop(24).normalize((0.5,), (0.25,))
    first, second, plain = values(
        ds,
        slot("x").array("uint8", shape).then(steps),
        slot("y").array("uint8", shape).then(steps),
        slot("x", name="plain").array("uint8", shape).as_image().resize((32, 20)),
    )
    assert np.array_equal(first, second)
    assert np.asarray(first).shape == (COUNT, 1, 24, 24)
    for image, digit in zip(plain, digits, strict=True):
        # Pillow resizes the columns first up to version 12, and this is less than twice as high as wide: both agree.
        wanted = np.asarray(Image.fromarray(digit).resize((20, 32), Image.Resampling.BILINEAR))
        assert np.abs(image[:, :, 0].astype(int) - wanted).max() <= 1


def test_arrays_of_any_size(table: Callable[..., toolkit.Dataset]) -> None:
    arrays = [np.random.default_rng(i).integers(0, 256, (5 + i, 7, 3), np.uint8) for i in range(COUNT)]
    ds = table(x=pa.array([each.tobytes() for each in arrays]))
    whole, flipped, resized = values(
        ds,
        slot("x").array("uint8", (None, 7, 3)).as_image(),
        slot("x", name="flipped").array("uint8", (None, 7, 3)).as_image().hflip(p=1.0),
        slot("x", name="resized").array("uint8", (None, 7, 3)).as_image().resize((6, 7)),
    )
    for i, array in enumerate(arrays):
        assert np.array_equal(whole[i], array)
        assert np.array_equal(flipped[i], array[:, ::-1])
    assert np.array_equal(resized[1], arrays[1])


def test_missing_values_are_left_out(table: Callable[..., toolkit.Dataset]) -> None:
    rows = [None if i in (0, 5) else bytes([i] * 48) for i in range(COUNT)]
    steps = slot("x", optional=True, fill=9).array("uint8", (4, 4, 3)).as_image().resize((8, 8))
    (made,) = values(table(x=pa.array(rows)), steps)
    assert [image[0, 0, 0] for image in made] == [9, 1, 2, 3, 4, 9, 6, 7, 8, 9, 10]


def test_what_it_says_of_itself(photos: toolkit.Dataset) -> None:
    steps = slot("image").decode_image().resize((20, 20)).python(same, pixels((20, 20), channels=3)).hflip().to_chw()
    assert "python(same, pixels(20))" in repr(steps)
    assert eval(repr(steps), {"slot": slot, "same": same, "pixels": pixels}) == steps
    made = toolkit.pipeline(steps)
    for text in (made.explain(), made.explain(photos)):
        lines = [line for line in text.splitlines() if "─" in line][1:]
        runs = [line.rsplit("  ", 1)[-1] for line in lines]
        assert runs[2] == "your function, under the GIL"
        assert all(each.startswith("native") for each in (runs[0], runs[1], runs[3], runs[4]))
        assert runs[3].endswith(", random")
    tensor = slot("image").decode_image().resize((20, 20)).python(same, ("uint8", (20, 20, 3)))
    gray = slot("image").decode_image().resize((20, 20)).python(same, pixels(20, channels=1))
    described = [toolkit.pipeline(one).describe() for one in (steps, tensor, gray)]
    assert len(set(described)) == 3
    assert repr(pixels((3, 4), channels=1)) == "pixels((3, 4), channels=1)"


@pytest.mark.parametrize(
    ("function", "schema", "steps", "message"),
    [
        (ones, pixels(channels=1), chain().hflip(), r"ones, pixels\(channels=1\)\): it returned uint8 \(4, 4, 3\)"),
        (np.float32, pixels(), chain().hflip(), r"it returned float32 .*, the schema says uint8 \(any, any, 3\)"),
        (nothing, pixels(), chain().hflip(), r"hflip\(\): it takes uint8 \(height, width, 3\), got .* \(0, 30, 3\)"),
        (wide, pixels(channels=1), chain().hflip(), r"step hflip\(\): .* more than max_pixels=40000"),
        (ones, pixels(), chain().hflip().resize_short(201), r"step resize_short\(201\): .* 201 x 201 pixels"),
    ],
)  # fmt: skip
def test_a_sample_that_is_none_is_named(
    photos: toolkit.Dataset, function: Any, schema: Any, steps: toolkit.Chain, message: str
) -> None:
    one = slot("image").decode_image(max_pixels=40_000).python(function, schema).then(steps)
    for each in (one, one.center_crop(4)):
        with pytest.raises(SampleError, match=message) as caught:
            values(photos, each, threads=1)
        assert caught.value.row == 0


def test_what_can_be_seen_is_refused_when_it_is_written() -> None:
    for wrong in ({"channels": 2}, {"channels": True}, {"size": 0}, {"size": (1, 2, 3)}, {"size": 70_000}):
        with pytest.raises(PipelineError, match=r"^pixels\(\): "):
            pixels(**wrong)  # type: ignore[arg-type]
    raw = slot("x").array("uint8", (8, 8, 3))
    for begun, message in (
        (slot("x"), r"expected a uint8 tensor, got a stored value: say \.array"),
        (slot("x").array("float32", (8, 8, 3)), "expected a uint8 tensor .* got a float32 tensor"),
        (slot("x").array("uint8", (8, 8, 2)), "of 1, 3 or 4 channels, got a uint8 tensor 8 x 8 x 2"),
        (slot("x").array("uint8", (8, 8, None)), "of 1, 3 or 4 channels"),
        (slot("x").array("uint8", (8,)), "of 1, 3 or 4 channels"),
        (slot("x").npy(), "of 1, 3 or 4 channels|expected a uint8 tensor"),
        (slot("x").decode_image(), "leave as_image out"),
        (slot("x").decode_image().to_chw(), "expected a uint8 tensor"),
    ):
        with pytest.raises(PipelineError, match=message):
            begun.as_image()
    with pytest.raises(PipelineError, match="as_image"):
        raw.hflip()
    with pytest.raises(PipelineError, match="at most 134217728 pixels, got 60000 x 60000"):
        raw.as_image().resize((60_000, 60_000))
    late = slot("x").array("uint8", (8, 8, 3)).as_image().normalize("half").random_erasing().cast("float16")
    with pytest.raises(PipelineError, match="cast would write what steps"):
        toolkit.pipeline(late).compile(*COLUMNS)
    with pytest.raises(PipelineError, match="3 channels"):
        slot("x").array("uint8", (8, 8, 1)).as_image().color_jitter(hue=0.1)
    with pytest.raises(PipelineError, match="expected 3 channels, one for each mean"):
        slot("x").array("uint8", (8, 8, 1)).as_image().normalize("imagenet")
