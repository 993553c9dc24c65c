"""Slots that share a decoding give, bit for bit, what each gives by itself; and say the same of what fails."""

from __future__ import annotations

import io
from typing import Any

import image_steps as steps
import numpy as np
import pytest
from image_slots import MODES, compiled, held, run_batch
from native.image.test_image_oracle import jpeg, levels, photo
from PIL import Image

import toolkit
from toolkit._native.image import program as native
from toolkit._native.image.program import Scratch
from toolkit.pipelines.image.compiled import CompiledImage, Failure, TruncatedImageWarning, run_together
from toolkit.pipelines.image.erasing import RandomErasing

FILTERS = list(steps.Filter)


def random_chain(rng: np.random.Generator, channels: int) -> list[Any]:
    """Steps of every form, to a size that doesn't depend on the picture."""
    side, filter = int(rng.integers(8, 120)), FILTERS[rng.integers(len(FILTERS))]
    low = float(rng.uniform(0.02, 0.5))
    first: list[list[Any]] = [
        [steps.RandomResizedCrop(side, side + 3, (low, low + 0.3), (3 / 4, 4 / 3), filter)],
        [steps.ResizeShort(side + 8, filter), steps.CenterCrop(side, side)],
        [steps.RandomCrop(side, side + 5)],
        [steps.Crop(-5, 7, side, 40), steps.Resize(33, side, filter)],
        [steps.Crop(500, 7, 20, 20)],  # beside the picture: nothing of it is left
        [steps.Pad(3, 4, 5, 6, 9), steps.VFlip(0.5), steps.Resize(side, side, filter)],
        [steps.VFlip(1.0), steps.HFlip(0.5), steps.Resize(2 * side, side, filter), steps.RandomCrop(side, side)],
    ]
    chain = [*first[rng.integers(len(first))], steps.HFlip(0.5)]
    if channels == 3 and rng.random() < 0.5:
        chain.append(steps.ColorJitter((0.5, 1.5), (0.5, 1.5), None, (-0.1, 0.1)))
    if rng.random() < 0.3:
        chain += [
            steps.Normalize((0.5,) * channels, (0.5,) * channels),
            RandomErasing.of(p=0.7),
        ]  # changes what is written
    return chain


def turned(orientation: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


def other_format(picture: Image.Image, format: str) -> bytes:
    file = io.BytesIO()
    picture.save(file, format)
    return file.getvalue()


def files(seed: int) -> list[bytes]:
    """JPEGs of every orientation and sampling, progressive, gray and CMYK ones, other formats, and damaged data."""
    rng = np.random.default_rng(seed)
    made = []
    for orientation in range(1, 9):
        size = rng.integers(40, 260, 2).tolist()
        options = {"subsampling": int(rng.integers(3)), "progressive": bool(rng.random() < 0.3), "quality": 80}
        made.append(jpeg(photo(*size, seed + orientation), exif=turned(orientation), **options))
    picture = photo(181, 133, seed)
    made.append(jpeg(picture.convert("L")))
    made.append(jpeg(picture.convert("CMYK")))
    made.append(jpeg(picture, restart_marker_blocks=3))
    made.append(other_format(picture, "PNG"))
    made.append(other_format(picture.convert("RGBA"), "WEBP"))
    whole = jpeg(photo(200, 170, seed))
    middle = bytearray(whole)
    at = int(rng.integers(len(whole) // 2, len(whole) - 50))
    middle[at : at + 6] = rng.bytes(6)  # some windows lie above it
    made += [bytes(middle), whole[:at], whole[:-2], whole[:300], b"", b"\xff\xd8\xff nothing", b"no picture"]
    progressive = jpeg(photo(200, 170, seed), progressive=True)
    made += [progressive[: len(progressive) * 2 // 3], other_format(picture, "PNG")[:900]]
    return made


def run_all(
    slots: list[CompiledImage], encoded: list[bytes], keys: list[np.ndarray], scratch: Scratch
) -> tuple[list[np.ndarray], list[list[Failure]]]:
    """Batches and failures of slots that are run together."""
    addresses, lengths, buffer = held(encoded)
    outs = [np.zeros((len(encoded), *(slot.shape or ())), slot.dtype) for slot in slots]
    return outs, run_together(slots, addresses, lengths, buffer, outs, scratch, keys)


def check(slots: list[CompiledImage], encoded: list[bytes], seed: int = 0) -> None:
    keys = [np.arange(len(encoded), dtype=np.uint64) * 7919 + seed + 31 * number for number in range(len(slots))]
    outs, failures = run_all(slots, encoded, keys, Scratch())
    for slot, out, failed, own in zip(slots, outs, failures, keys, strict=True):
        expected, alone = run_batch(slot, encoded, own)
        assert failed == alone
        there = np.ones(len(encoded), bool)
        there[[each.index for each in failed]] = False
        assert np.array_equal(out[there], expected[there])


@pytest.mark.filterwarnings("ignore::toolkit.pipelines.image.compiled.TruncatedImageWarning")
@pytest.mark.parametrize("seed", range(12))
def test_random_programs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mode = list(MODES)[seed % len(MODES)]
    options: dict[str, Any] = {"mode": mode, "exif": rng.random() < 0.8}
    if seed % 3 == 2:
        options["truncated"] = steps.Truncated.WARN
    chains = [random_chain(rng, len(mode)) for _ in range(rng.integers(2, 8))]
    check([compiled(*chain, **options) for chain in chains], files(seed), seed)


DECODE = toolkit.slot("image").decode_image(max_bytes=1 << 30)
IDS = toolkit.slot("image").decode_image(mode="id", max_bytes=1 << 30)


@pytest.mark.parametrize(
    "slots",
    [
        (
            DECODE.resize((64, 64)).patchify(16),
            DECODE.resize((60, 60)).five_crop(20),
            DECODE.random_resized_crop(40).rand_augment(2, 9),
            DECODE.random_resized_crop(40).aug_mix(),
        ),
        (IDS.resize((30, 30), filter="nearest"), IDS.center_crop(20)),
    ],
)
def test_other_forms_of_results(slots: tuple[toolkit.Slot, ...]) -> None:
    check([CompiledImage("image", slot.steps) for slot in slots], files(3))


@pytest.mark.parametrize("level", levels())
def test_every_set_of_loops(level: str) -> None:
    best = native.simd_level()
    native._set_simd_level(level)
    try:
        rng = np.random.default_rng(5)
        check([compiled(*random_chain(rng, 3)) for _ in range(4)], files(5))
    finally:
        native._set_simd_level(best)


CROPS = [
    compiled(steps.RandomResizedCrop(96, 96, (0.05, 0.3), (3 / 4, 4 / 3), steps.Filter.BILINEAR)) for _ in range(6)
]


def test_a_jpeg_is_decoded_once() -> None:
    encoded = [jpeg(photo(500, 375, seed)) for seed in range(4)]
    scratch = Scratch()
    run_all(CROPS, encoded, [np.arange(4, dtype=np.uint64) + 9 * number for number in range(6)], scratch)
    if native.simd_level() != "generic":
        assert scratch.own_decodes == 4


def test_far_windows_are_decoded_apart() -> None:
    # Two columns at the edges of a wide picture: all between them is more work than reading the codes twice.
    encoded = [jpeg(photo(3000, 60, 1))]
    edges = [compiled(steps.Crop(0, 0, 60, 16)), compiled(steps.Crop(0, 2984, 60, 16))]
    check(edges, encoded)
    scratch = Scratch()
    run_all(edges, encoded, [np.zeros(1, np.uint64)] * 2, scratch)
    if native.simd_level() != "generic":
        assert scratch.own_decodes == 2


def test_one_step_makes_it_too_large() -> None:
    slots = [
        compiled(steps.ResizeShort(size, steps.Filter.BILINEAR), steps.CenterCrop(20, 20), max_pixels=9000)
        for size in (30, 90)
    ]
    encoded = [jpeg(photo(60, 50, 1)), b"nothing", jpeg(photo(20, 100, 2)), jpeg(photo(100, 100, 3))]
    check(slots, encoded)
    _, (small, large) = run_all(slots, encoded, [np.zeros(4, np.uint64)] * 2, Scratch())
    assert [failure.index for failure in small] == [1, 3]
    assert [failure.index for failure in large] == [0, 1, 2, 3]
    assert large[2].step == "resize_short(90)"


def test_each_slot_warns_of_what_is_cut() -> None:
    data = jpeg(photo(100, 80, 1))
    slots = [
        compiled(*chain, truncated=steps.Truncated.WARN)
        for chain in ([steps.CenterCrop(80, 80)], [steps.Crop(0, 0, 70, 70)])
    ]
    with pytest.warns(TruncatedImageWarning) as told:
        check(slots, [data[: len(data) // 2]])
    assert len(told) == 4


def test_fast_takes_the_finest_scale() -> None:
    """A thumbnail beside a large slot is what fast allows, 40 dB; slots that need one scale have the very pixels."""
    fast = {"accuracy": steps.Accuracy.FAST}
    small, large = [steps.Resize(40, 40, steps.Filter.BILINEAR)], [steps.Resize(300, 300, steps.Filter.BILINEAR)]
    encoded = [
        jpeg(photo(640, 481, seed, noise=6.0), exif=turned(orientation)) for seed, orientation in enumerate((1, 3, 6))
    ]
    keys = [np.zeros(3, np.uint64)] * 2
    outs, failures = run_all([compiled(*small, **fast), compiled(*large, **fast)], encoded, keys, Scratch())
    assert failures == [[], []]
    for chain, out in zip((small, large), outs, strict=True):
        exact, _ = run_batch(compiled(*chain), encoded)
        error = ((out.astype(float) - exact) ** 2).mean()
        assert 10 * np.log10(255**2 / max(error, 1e-9)) >= 40
    check([compiled(*small, **fast), compiled(*small, steps.HFlip(1.0), **fast)], encoded)


def test_memory_is_asked_for_and_refused() -> None:
    encoded = [jpeg(photo(400, 300, 1)), jpeg(photo(50, 40, 2))]
    keys = [np.arange(2, dtype=np.uint64) + 9 * number for number in range(6)]
    expected = [run_batch(slot, encoded, own)[0] for slot, own in zip(CROPS, keys, strict=True)]
    for most in (0, 500_000, 1 << 30):
        # Without room for the picture each slot runs by itself, and asks for what it takes.
        scratch, asked = Scratch(), []

        def room(nbytes: int, most: int = most, asked: list[int] = asked) -> str | None:
            asked.append(nbytes)
            return None if nbytes <= most else "no room"

        scratch.room, scratch.limit = room, scratch.nbytes
        if most == 0:
            with pytest.raises(MemoryError, match="no room"):
                run_all(CROPS, encoded, keys, scratch)
            continue
        outs, failures = run_all(CROPS, encoded, keys, scratch)
        assert failures == [[]] * 6
        assert all(np.array_equal(out, other) for out, other in zip(outs, expected, strict=True))
        assert scratch.nbytes <= most
        assert max(asked) > 500_000
    # Not even for one slot by itself: the picture is refused, and the next one isn't.
    scratch = Scratch()
    scratch.room = lambda nbytes: None if nbytes <= 300_000 else "no room"
    run_all(CROPS, encoded[1:], [own[1:] for own in keys], scratch)
    scratch.limit = scratch.nbytes
    wide = [jpeg(photo(9000, 100, 3)), encoded[1]]
    outs, failures = run_all(CROPS, wide, keys, scratch)
    assert [[(failure.index, failure.message) for failure in failed] for failed in failures] == [[(0, "no room")]] * 6
    assert all(np.array_equal(out[1], other[1]) for out, other in zip(outs, expected, strict=True))


def test_bad_calls() -> None:
    addresses, lengths, _ = held([b"x"])
    scratch, statuses = Scratch(), np.zeros((2, 1), np.int32)
    places, sizes = np.full((2, 1), 64, np.uint64), np.array([48, 48], np.int64)
    four = native.ImageProgram([("resize", {"height": 4, "width": 4, "filter": "bilinear"})])
    gray = native.ImageProgram([("resize", {"height": 4, "width": 4, "filter": "bilinear"})], mode="gray")
    with pytest.raises(ValueError, match="same mode, limits"):
        native.run_together([four, gray], addresses, lengths, places, sizes, scratch, statuses, [None, None])
    with pytest.raises(ValueError, match="for each of 1 programs"):
        native.run_together([four], addresses, lengths, places, sizes, scratch, statuses, [None])
    with pytest.raises(ValueError, match="48 bytes, not 47"):
        native.run_together([four] * 2, addresses, lengths, places, sizes - 1, scratch, statuses, [None, None])
    with pytest.raises(ValueError, match="negative length"):
        native.run_together([four] * 2, addresses, -lengths, places, sizes, scratch, statuses, [None, None])
