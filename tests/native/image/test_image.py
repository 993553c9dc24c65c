"""Programs: resize, crop and layout against the oracle, batches, threads and the checks of arguments."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from native.image.test_image_oracle import DECODE_TOLERANCE, decode, difference, jpeg, levels, ours, photo, run_stages
from native.image.test_image_oracle import program as build
from PIL import Image
from pillow_resample import STOCK_PILLOW
from waiting import PATIENCE

from toolkit._native.image import program as image

SCALE, BIAS = (0.0171, 0.0175, 0.0174), (-2.118, -2.036, -1.804)
USUAL = [(256, 224, 224)]


@pytest.fixture(params=levels())
def level(request: pytest.FixtureRequest) -> Iterator[str]:
    best = image.simd_level()
    image._set_simd_level(request.param)
    yield request.param
    image._set_simd_level(best)


def pixels_of(width: int, height: int, seed: int = 0) -> np.ndarray:
    return np.asarray(photo(width, height, seed, noise=40.0))


STAGES = [
    USUAL,
    [(256, 0, 0)],
    [(0, 50, 70)],
    [],
    [(0, 0, 0)],
    [(33, 0, 0)],
    [(33, 33, 33)],
    [(64, 100, 20)],
    [(64, 20, 100)],
    [(96, 64, 64), (32, 0, 0)],
    [(96, 64, 80), (0, 90, 30), (48, 48, 47)],
    [(1, 0, 0)],
    [(1, 1, 1)],
]


@pytest.mark.parametrize("stages", STAGES)
def test_pixels_are_those_of_pil(stages: list[tuple[int, int, int]], level: str) -> None:
    scratch, program = image.Scratch(), build(stages)
    for seed, (width, height) in enumerate([(450, 380), (300, 451), (256, 256), (33, 64), (64, 33), (5, 3), (1, 1)]):
        pixels = pixels_of(width, height, seed)
        result = program.apply(pixels, scratch)
        assert np.array_equal(result, run_stages(Image.fromarray(pixels), stages))


@pytest.mark.parametrize("size", [(450, 380), (380, 450), (100, 330), (330, 100), (31, 30), (3, 2000)])
def test_resize_in_one_call_of_pil(size: tuple[int, int], level: str) -> None:
    pixels = pixels_of(*size)
    for short in (1, 24, 64, 256):
        result = build([(short, 0, 0)]).apply(pixels, image.Scratch())
        expected = Image.fromarray(pixels).resize(result.shape[1::-1], Image.Resampling.BILINEAR)
        # Newer Pillows start with the rows where a picture is more than twice as high as wide; Pillow-SIMD rounds its
        # own way: either moves single pixels.
        assert difference(result, np.asarray(expected)) <= (0 if size[1] <= 2 * size[0] else 1) + 2 * (not STOCK_PILLOW)


@pytest.mark.parametrize("size", [(1, 3000), (3000, 1), (1, 1), (2, 5000), (30000, 3), (3, 30000)])
def test_extreme_ratios(size: tuple[int, int], level: str) -> None:
    pixels = pixels_of(*size)
    for stages in ([(1, 0, 0)], [(2, 40, 40)], [(1, 3, 3)], [(0, 9, 9)]):
        result = build(stages).apply(pixels, image.Scratch())
        assert np.array_equal(result, run_stages(Image.fromarray(pixels), stages))


def test_huge_reduction(level: str) -> None:
    for value in (0, 1, 127, 254, 255):
        pixels = np.full((4000, 3000, 3), value, np.uint8)
        assert (build([(1, 0, 0)]).apply(pixels, image.Scratch()) == value).all()
    pixels = pixels_of(3000, 4000)
    result = build([(2, 0, 0)]).apply(pixels, image.Scratch())
    assert np.array_equal(result, run_stages(Image.fromarray(pixels), [(2, 0, 0)]))


def test_too_large_resize_is_refused() -> None:
    with pytest.raises(image.ImageError, match="after its resize") as caught:
        build([(256, 224, 224)]).apply(np.zeros((30000, 1, 3), np.uint8), image.Scratch())
    assert caught.value.status == image.TOO_LARGE


@pytest.mark.parametrize("stages", STAGES)
def test_float_planes_are_the_same_pixels_scaled(stages: list[tuple[int, int, int]], level: str) -> None:
    scratch = image.Scratch()
    for size in [(310, 270), (40, 31), (7, 9)]:
        pixels = pixels_of(*size)
        as_bytes = build(stages).apply(pixels, scratch)
        as_floats = build(stages, scale=SCALE, bias=BIAS).apply(pixels, scratch)
        assert as_floats.dtype == np.float32
        scale, bias = (np.array(values, np.float32).reshape(3, 1, 1) for values in (SCALE, BIAS))
        assert np.array_equal(as_floats, as_bytes.transpose(2, 0, 1).astype(np.float32) * scale + bias)


def test_all_levels_agree() -> None:
    best = image.simd_level()
    pixels, scratch = pixels_of(500, 333), image.Scratch()
    results = []
    for name in levels():
        image._set_simd_level(name)
        results.append([build(stages).apply(pixels, scratch) for stages in STAGES])
    image._set_simd_level(best)
    for one in results[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(one, results[0], strict=True))


@settings(max_examples=150, deadline=None)
@given(
    width=st.integers(1, 90),
    height=st.integers(1, 90),
    stages=st.lists(
        st.tuples(st.integers(0, 70), st.one_of(st.just((0, 0)), st.tuples(st.integers(1, 80), st.integers(1, 80)))),
        max_size=2,
    ),
    options=st.fixed_dictionaries(
        {
            "subsampling": st.integers(0, 2),
            "progressive": st.booleans(),
            "quality": st.integers(60, 96),
            "restart_marker_blocks": st.sampled_from([0, 2]),
        }
    ),
    grey=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_jpeg_against_oracle(
    width: int,
    height: int,
    stages: list[tuple[int, tuple[int, int]]],
    options: dict[str, object],
    grey: bool,
    seed: int,
) -> None:
    flat = [(resize, *crop) for resize, crop in stages]
    picture = photo(width, height, seed)
    data = jpeg(picture.convert("L") if grey else picture, **options)
    result = ours(data, flat)
    whole = ours(data)
    assert np.array_equal(result, run_stages(Image.fromarray(whole), flat))  # from our own full decode
    assert difference(result, run_stages(decode(data), flat)) <= DECODE_TOLERANCE
    assert np.array_equal(result, build(flat).apply(whole, image.Scratch()))


def batch(data: list[bytes]) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    keep = [np.frombuffer(one, np.uint8) for one in data]
    addresses = np.array([one.ctypes.data if one.size else 0 for one in keep], np.uint64)
    return addresses, np.array([one.size for one in keep], np.int64), keep


def places(out: np.ndarray) -> np.ndarray:
    return np.array([one.ctypes.data for one in out], np.uint64)


def test_batch_with_failures_between() -> None:
    good = [jpeg(photo(300, 220, seed), subsampling=seed % 3) for seed in range(4)]
    data = [good[0], b"", good[1], good[1][:5000], b"GIF89a", good[2], jpeg(photo(9, 9).convert("CMYK")), good[3]]
    addresses, lengths, _keep = batch(data)
    program, scratch = build(USUAL, scale=SCALE, bias=BIAS), image.Scratch()
    assert program.output_shape == (3, 224, 224)
    out = np.full((len(data), *program.output_shape), 77, np.float32)
    statuses = np.full(len(data), 99, np.int32)
    failed = program.run(addresses, lengths, places(out), out[0].nbytes, scratch, statuses)
    ok, bad = image.OK, [image.NOT_JPEG, image.TRUNCATED, image.NOT_JPEG, image.UNSUPPORTED]
    assert statuses.tolist() == [ok, bad[0], ok, bad[1], bad[2], ok, bad[3], ok]
    assert failed == 4
    for i, one in enumerate(data):
        assert (scratch.message(i) == "") == (statuses[i] == ok)
        if statuses[i] == ok:
            assert np.array_equal(out[i], program.decode(one, image.Scratch()))
    with pytest.raises(IndexError):
        scratch.message(len(data))


def test_nothing_is_written_outside_the_place(level: str) -> None:
    for crop in (1, 2, 3, 5, 8, 11, 12, 31, 32, 33, 224):
        for options in ({}, {"scale": SCALE, "bias": BIAS}):
            program, scratch = build([(40, crop, crop)], **options), image.Scratch()
            size = int(np.prod(program.output_shape)) * program.output_dtype.itemsize
            guarded = np.full(size + 128, 201, np.uint8)
            pixels, statuses = pixels_of(70, 50), np.ones(1, np.int32)
            address, place = np.array([pixels.ctypes.data], np.uint64), np.array([guarded[64:].ctypes.data], np.uint64)
            assert program.run_raw(address, np.array([pixels.shape]), place, size, scratch, statuses) == 0
            assert (guarded[:64] == 201).all()
            assert (guarded[64 + size :] == 201).all()


BEHIND_IS_NOTHING = """
import ctypes, mmap, sys
import numpy as np
from toolkit._native.image import program as image

image._set_simd_level(sys.argv[1])
two = mmap.mmap(-1, 2 * mmap.PAGESIZE)
pages = np.frombuffer(two, np.uint8)
protect = ctypes.CDLL(None).mprotect
assert protect(ctypes.c_void_p(pages.ctypes.data + mmap.PAGESIZE), ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
scratch = image.Scratch()
floats = {"scale": [1.0] * 3, "bias": [0.0] * 3, "dtype": "float32", "layout": "chw"}
for channels in (1, 3, 4):
    for height, width in ((1, 1), (5, 7), (31, 33), (2, 511)):
        pixels = pages[mmap.PAGESIZE - height * width * channels : mmap.PAGESIZE].reshape(height, width, channels)
        for ops in STEPS:
            for options in ({"mode": "rgba"}, floats):
                image.ImageProgram(ops, **options).apply(pixels, scratch)
"""


def test_nothing_is_read_behind_pixels_that_were_given(level: str) -> None:
    sizes = ((9, 5, "bilinear"), (40, 70, "lanczos"), (3, 3, "nearest"))
    steps = [[], *([("resize", {"height": high, "width": wide, "filter": kind})] for high, wide, kind in sizes)]
    script = BEHIND_IS_NOTHING.replace("STEPS", repr(steps))
    done = subprocess.run([sys.executable, "-c", script, level], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_empty_batch() -> None:
    none = np.empty(0, np.uint64)
    program = build(USUAL)
    assert program.run(none, np.empty(0, np.int64), none, 224 * 224 * 3, image.Scratch(), np.empty(0, np.int32)) == 0


def test_threads_share_a_program() -> None:
    data = [jpeg(photo(320, 240, seed), progressive=seed % 4 == 0) for seed in range(12)]
    addresses, lengths, _keep = batch(data)
    program = build(USUAL)
    outs = [np.zeros((len(data), 224, 224, 3), np.uint8) for _ in range(3)]

    def work(out: np.ndarray) -> None:
        scratch, statuses = image.Scratch(), np.zeros(len(data), np.int32)
        for _ in range(5):
            program.run(addresses, lengths, places(out), out[0].nbytes, scratch, statuses)

    work(outs[0])
    threads = [threading.Thread(target=work, args=(out,)) for out in outs[1:]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert np.array_equal(outs[1], outs[0])
    assert np.array_equal(outs[2], outs[0])


def test_scratch_is_for_one_call_at_a_time() -> None:
    program, scratch = build([]), image.Scratch()
    data = jpeg(photo(2500, 2000))
    refused = threading.Event()
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            try:
                program.decode(data, scratch)
            except RuntimeError:
                refused.set()

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert refused.wait(PATIENCE)
    stop.set()
    for thread in threads:
        thread.join()
    program.decode(data, scratch)


def test_scratch_memory_is_reused() -> None:
    scratch, program = image.Scratch(), build(USUAL)
    data = jpeg(photo(400, 300))
    program.decode(data, scratch)
    held = scratch.nbytes
    assert held > 0
    for _ in range(5):
        program.decode(data, scratch)
    assert scratch.nbytes == held


def test_results_own_their_memory() -> None:
    scratch, program = image.Scratch(), build([])
    first = program.decode(jpeg(photo(50, 40, 1)), scratch)
    copy = first.copy()
    program.decode(jpeg(photo(50, 40, 2)), scratch)
    assert first.flags.owndata
    assert np.array_equal(first, copy)


def test_properties() -> None:
    program = build([(256, 0, 0), (0, 10, 20)])
    assert program.output_shape == (10, 20, 3)
    assert program.output_dtype == np.uint8
    assert program.ops == (
        ("resize_short", {"size": 256, "filter": "bilinear"}),
        ("center_crop", {"height": 10, "width": 20, "halves": "even"}),
    )
    assert not program.random
    assert build([(0, 10, 20), (5, 0, 0)]).output_shape == (5, 10, 3)
    assert build([(5, 0, 0)]).output_shape is None
    assert build([]).output_shape is None
    assert build(USUAL, scale=SCALE, bias=BIAS).output_dtype == np.float32


RANGE = (0.5, 1.5)
NO_JITTER = {"brightness": None, "contrast": None, "saturation": None, "hue": None, "id": 0}
RESIZED_CROP = {"height": 5, "width": 5, "scale": RANGE, "ratio": RANGE, "filter": "bilinear", "id": 0}


@pytest.mark.parametrize(
    ("name", "fields", "words"),
    [
        ("resize_short", {"size": -1, "filter": "bilinear"}, "size must be 1 to 65535, not -1"),
        ("resize_short", {"size": 0, "filter": "bilinear"}, "size must be"),
        ("resize_short", {"size": 70000, "filter": "bilinear"}, "size must be"),
        ("resize_short", {"size": 7.5, "filter": "bilinear"}, "size 'float' object"),
        ("resize_short", {"size": 7, "filter": "box"}, "filter must be one of nearest, bilinear, bicubic, lanczos"),
        ("resize_short", {"size": 7}, "filter is missing"),
        ("resize_short", {"size": 7, "filter": "bilinear", "id": 1}, "no field is called 'id': there are filter, size"),
        ("resize", {"height": 7, "width": 0, "filter": "bilinear"}, "width must be"),
        ("center_crop", {"height": 5, "width": 0, "halves": "even"}, "width must be"),
        ("center_crop", {"height": 60000, "width": 60000, "halves": "even"}, "height and width make more than"),
        ("crop", {"top": 0, "left": 70000, "height": 5, "width": 5}, "left must be -65535 to 65535, not 70000"),
        ("random_crop", {"height": 5, "width": 5}, "id is missing"),
        ("random_crop", {"height": 5, "width": 5, "id": -1}, "id must be"),
        ("random_crop", {"height": 5, "width": 5, "id": 2**64}, "id must be"),
        ("random_resized_crop", RESIZED_CROP | {"scale": (0.5, 0.1)}, "scale must be a range that goes up"),
        ("random_resized_crop", RESIZED_CROP | {"scale": None}, "scale 'NoneType' object"),
        (
            "random_resized_crop",
            RESIZED_CROP | {"ratio": (0.0, 1.0)},
            "ratio must be a range that goes up, within 1e-06",
        ),
        ("pad", {"top": 1, "left": 1, "bottom": -1, "right": 1, "fill": 0}, "bottom must be"),
        ("pad", {"top": 1, "left": 1, "bottom": 1, "right": 1, "fill": 256}, "fill must be 0 to 255, not 256"),
        ("hflip", {"p": 1.5, "id": 0}, "p must be 0 to 1, not 1.5"),
        ("vflip", {"p": float("nan"), "id": 0}, "p must be"),
        ("color_jitter", NO_JITTER | {"hue": RANGE}, "hue must be a range that goes up, within -0.5 to 0.5"),
        ("color_jitter", NO_JITTER | {"brightness": (-1.0, 1.0)}, "brightness must be"),
        ("color_jitter", {"brightness": None, "contrast": None, "saturation": None, "id": 0}, "hue is missing"),
        ("grayscale", {"channels": 2, "p": 1.0}, "channels must be 1 or 3, not 2"),
        ("grayscale", {"channels": 4, "p": 1.0}, "channels must be 1 to 3"),
    ],
)
def test_a_bad_step_is_named(name: str, fields: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"step 2 ({name}): {words}")):
        image.ImageProgram([("grayscale", {"channels": 3, "p": 1.0}), (name, fields)])


def test_the_first_step_has_the_number_that_is_given() -> None:
    with pytest.raises(ValueError, match=r"^step 3 \(grayscale\): "):
        image.ImageProgram([("hflip", {"p": 1.0, "id": 0}), ("grayscale", {"channels": 2, "p": 1.0})], first_step=2)


def test_the_size_of_a_result_is_known_without_its_picture() -> None:
    crop = ("random_crop", {"height": 40, "width": 50, "id": 3})
    program = image.ImageProgram([("resize_short", {"size": 30, "filter": "nearest"}), crop], max_pixels=10_000)
    assert program.result_size(60, 80, 7) == (40, 50)
    assert image.ImageProgram([]).result_size(60, 80) == (60, 80)
    with pytest.raises(image.ImageError, match="more than max_pixels=10000") as caught:
        program.result_size(1, 400, 7)
    assert caught.value.status == image.TOO_LARGE
    for size, key, says in (((0, 80), 7, "a picture has pixels"), ((60, -1), 7, "pixels"), ((60, 80), None, "random")):
        with pytest.raises(ValueError, match=says):
            program.result_size(*size, key)


def test_unknown_steps_are_named() -> None:
    with pytest.raises(ValueError, match=r"step 1: no step is called 'turn': there are .*, resize, "):
        image.ImageProgram([("turn", {"angle": 2})])
    for bad in (("grayscale", 3), ("grayscale",), (3, {})):
        with pytest.raises(ValueError, match=r"step 1 must be \(name, fields\)"):
            image.ImageProgram([bad])
    with pytest.raises(ValueError, match=r"step 2 \(center_crop\): results of 50x50 have more than max_pixels=2499"):
        image.ImageProgram(
            [("grayscale", {"channels": 3, "p": 1.0}), ("center_crop", {"height": 50, "width": 50, "halves": "even"})],
            max_pixels=2499,
        )


def test_the_table_lists_what_a_program_takes() -> None:
    table = image.op_table()
    side, filters = (1, image.MAX_SIDE), ("nearest", "bilinear", "bicubic", "lanczos")
    form, fields = table["resize"]
    assert (form, fields["height"], fields["width"], set(fields["filter"])) == ("axis", side, side, set(filters))
    form, fields = table["color_jitter"]
    assert (form, list(fields)) == ("statistic", ["brightness", "contrast", "saturation", "hue", "id"])
    assert (fields["brightness"], fields["hue"]) == ((0.0, 1e6), (-0.5, 0.5))
    for name, (_, fields) in table.items():
        with pytest.raises(ValueError, match=rf"step 1 \({name}\): {next(iter(fields))} is missing"):
            image.ImageProgram([(name, {})])


@pytest.mark.parametrize(
    ("ops", "options"),
    [
        ([("grayscale", {"channels": 1, "p": 1.0})] * 65, {}),
        ([], {"scale": SCALE}),
        ([], {"bias": BIAS}),
        ([], {"scale": (1, 2), "bias": BIAS}),
        ([], {"scale": (1, 2, float("nan")), "bias": BIAS}),
        ([], {"scale": SCALE, "bias": BIAS, "mode": "rgba"}),
        ([], {"max_pixels": 0}),
        ([], {"max_pixels": 2**31}),
        ([], {"max_bytes": 0}),
        ([], {"mode": "cmyk"}),
        ([], {"dtype": "complex64"}),
        ([], {"layout": "whc"}),
    ],
)
def test_bad_programs(ops: list[tuple[object, ...]], options: dict[str, object]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the texts differ
        image.ImageProgram(ops, **options)


def test_bad_arguments() -> None:
    program, scratch = build([(0, 4, 4)]), image.Scratch()
    one, lengths, statuses = np.ones(1, np.uint64), np.ones(1, np.int64), np.zeros(1, np.int32)
    with pytest.raises(ValueError, match="48 bytes"):
        program.run(one, lengths, one, 47, scratch, statuses)
    with pytest.raises(ValueError, match="of one length"):
        program.run(one, lengths, one, 48, scratch, np.zeros(2, np.int32))
    with pytest.raises(ValueError, match="sample 0"):
        program.run(one, -lengths, one, 48, scratch, statuses)
    with pytest.raises(ValueError, match="sample 0"):
        program.run(one, lengths, one * 0, 48, scratch, statuses)
    with pytest.raises(ValueError, match="no fixed size"):
        build([]).run(one, lengths, one, 48, scratch, statuses)
    for shape in ((0, 4, 3), (4, 0, 3), (4, 4, 2)):
        with pytest.raises(ValueError, match="shape"):
            program.apply(np.zeros(shape, np.uint8), scratch)
    for sizes in ([[4, 4]], [[0, 4, 3]], [[4, 4, 2]], [[4, 4, 3], [4, 4, 3]]):
        with pytest.raises(ValueError, match=r"sizes|picture 0|length"):
            program.run_raw(one, np.array(sizes, np.int64), one, 48, scratch, statuses)
    drawing = image.ImageProgram([("random_crop", {"height": 4, "width": 4, "id": 1})])
    with pytest.raises(ValueError, match="random"):
        drawing.run(one, lengths, one, 48, scratch, statuses)
    with pytest.raises(ValueError, match="random"):
        drawing.apply(np.zeros((5, 5, 3), np.uint8), scratch)
    with pytest.raises(ValueError, match="of one length"):
        drawing.run(one, lengths, one, 48, scratch, statuses, np.zeros(2, np.uint64))
    with pytest.raises(ValueError, match="no loops"):
        image._set_simd_level("sse9")
