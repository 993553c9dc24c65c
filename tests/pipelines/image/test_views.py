"""five_crop, ten_crop, tile and patchify against numpy, in every layout; and pictures that they can't be had of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import image_steps as steps
import numpy as np
import pyarrow as pa
import pytest
from image_slots import MODES, compiled, run_batch
from keyed_rows import keyed
from pictures import encode, picture

import toolkit
from toolkit import chain, slot
from toolkit._native.image.program import ImageProgram, Scratch
from toolkit.errors import PipelineError, SampleError
from toolkit.pipelines.image.compiled import CompiledImage
from toolkit.pipelines.image.decode_step import DecodeImage

NORMALIZE = steps.Normalize((0.5, 0.25, 0.75), (0.5, 0.5, 1.0))


def pixels_of(mode: str, width: int, height: int) -> np.ndarray:
    image = picture(width, width, height)
    if mode == "RGBA":
        image.putalpha(picture(7, width, height).convert("L"))
    made = np.asarray(image.convert(mode))
    return np.ascontiguousarray(made.reshape(height, width, -1))


def five(pixels: np.ndarray, height: int, width: int) -> np.ndarray:
    """torchvision's five_crop on (h, w, ...)."""
    down, right = pixels.shape[0] - height, pixels.shape[1] - width
    places = [(0, 0), (0, right), (down, 0), (down, right), (round(down / 2), round(right / 2))]
    return np.stack([pixels[top : top + height, left : left + width] for top, left in places])


def ten(pixels: np.ndarray, height: int, width: int, vertical: bool) -> np.ndarray:
    flipped = pixels[::-1] if vertical else pixels[:, ::-1]
    return np.concatenate([five(pixels, height, width), five(flipped, height, width)])


def tiles(pixels: np.ndarray, height: int, width: int) -> np.ndarray:
    rows, columns, rest = pixels.shape[0] // height, pixels.shape[1] // width, pixels.shape[2:]
    cut = pixels.reshape(rows, height, columns, width, *rest).swapaxes(1, 2)
    return cut.reshape(rows * columns, height, width, *rest)


def patches(image: np.ndarray, side: int, layout: str) -> np.ndarray:
    """einops' "c (h p1) (w p2) -> (h w) (c p1 p2)", or "(h p1) (w p2) c -> (h w) (p1 p2 c)"; more axes in front."""
    if image.ndim > 3:
        return np.stack([patches(each, side, layout) for each in image])
    if layout == "chw":
        c, h, w = image.shape
        cut = image.reshape(c, h // side, side, w // side, side).transpose(1, 3, 0, 2, 4)
    else:
        h, w, c = image.shape
        cut = image.reshape(h // side, side, w // side, side, c).transpose(0, 2, 1, 3, 4)
    return cut.reshape(h // side * (w // side), -1)


CASES: list[tuple[Any, Callable[[np.ndarray], np.ndarray]]] = [
    (steps.FiveCrop(20, 31), lambda p: five(p, 20, 31)),
    (steps.FiveCrop(35, 11), lambda p: five(p, 35, 11)),
    (steps.FiveCrop(48, 64), lambda p: five(p, 48, 64)),
    (steps.TenCrop(21, 30, False), lambda p: ten(p, 21, 30, False)),
    (steps.TenCrop(21, 30, True), lambda p: ten(p, 21, 30, True)),
    (steps.Tile(16, 32), lambda p: tiles(p, 16, 32)),
    (steps.Tile(48, 64), lambda p: tiles(p, 48, 64)),
    (steps.Tile(1, 1), lambda p: tiles(p, 1, 1)),
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("step", "cut"), CASES)
def test_several_pictures(step: Any, cut: Callable[[np.ndarray], np.ndarray], mode: str) -> None:
    pixels = pixels_of(mode, 64, 48)
    expected = cut(pixels)
    chw = expected.transpose(0, 3, 1, 2)
    for end, wanted in (
        ([], expected),
        ([steps.ToChw()], chw),
        ([steps.ToChw(), steps.ToHwc()], expected),
        ([steps.Cast("int16")], expected.astype(np.int16)),
        ([steps.Cast("float64"), steps.ToChw()], chw.astype(np.float64)),
    ):
        assert np.array_equal(compiled(step, *end, mode=mode).apply(pixels, Scratch()), wanted)
    flipped = compiled(steps.HFlip(1.0), step, mode=mode).apply(pixels, Scratch(), 3)
    assert np.array_equal(flipped, cut(pixels[:, ::-1]))


@pytest.mark.parametrize(("step", "cut"), CASES)
def test_normalized_as_one_picture_is(step: Any, cut: Callable[[np.ndarray], np.ndarray]) -> None:
    pixels = pixels_of("RGB", 64, 48)
    whole = compiled(NORMALIZE).apply(pixels, Scratch()).transpose(1, 2, 0)
    expected = cut(whole).transpose(0, 3, 1, 2)
    made = compiled(step, NORMALIZE).apply(pixels, Scratch())
    assert (made.dtype, made.shape) == (np.float32, expected.shape)
    assert np.array_equal(made, expected)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("side", [1, 4, 16])
def test_patches(side: int, mode: str) -> None:
    pixels = pixels_of(mode, 64, 48)
    chw = pixels.transpose(2, 0, 1)
    ends: list[tuple[list[Any], np.ndarray, str]] = [
        ([], pixels, "hwc"),
        ([steps.ToChw()], chw, "chw"),
        ([steps.Cast("float32"), steps.ToChw()], chw.astype(np.float32), "chw"),
        ([steps.Cast("int64")], pixels.astype(np.int64), "hwc"),
    ]
    if mode == "RGB":
        normal = compiled(NORMALIZE).apply(pixels, Scratch())
        ends += [([NORMALIZE], normal, "chw"), ([NORMALIZE, steps.ToHwc()], normal.transpose(1, 2, 0), "hwc")]
    for end, image, layout in ends:
        made = compiled(*end, steps.Patchify(side), mode=mode).apply(pixels, Scratch())
        expected = patches(image, side, layout)
        assert (made.dtype, made.shape) == (expected.dtype, expected.shape)
        assert np.array_equal(made, expected)


def test_patches_of_several_pictures_and_casts_behind_them() -> None:
    pixels = pixels_of("RGB", 64, 48)
    normal = compiled(steps.FiveCrop(32, 16), NORMALIZE).apply(pixels, Scratch())
    expected = patches(normal, 8, "chw")
    assert expected.shape == (5, 8, 192)
    made = compiled(steps.FiveCrop(32, 16), NORMALIZE, steps.Patchify(8)).apply(pixels, Scratch())
    assert np.array_equal(made, expected)
    half = compiled(steps.FiveCrop(32, 16), NORMALIZE, steps.Patchify(8), steps.Cast("float16")).apply(
        pixels, Scratch()
    )
    assert np.array_equal(half, expected.astype(np.float16))


def test_the_order_of_a_patch_is_that_of_torchs_unfold() -> None:
    """torch.nn.functional.unfold(image[None], 4, stride=4)[0].T: a kernel's channels, rows, columns, windows by row."""
    torch = pytest.importorskip("torch")
    pixels = pixels_of("RGB", 64, 48)
    image = torch.from_numpy(np.ascontiguousarray(compiled(NORMALIZE).apply(pixels, Scratch())))
    expected = torch.nn.functional.unfold(image[None], 4, stride=4)[0].T.numpy()
    assert np.array_equal(compiled(NORMALIZE, steps.Patchify(4)).apply(pixels, Scratch()), expected)


def test_ids_too() -> None:
    import io

    from PIL import Image

    ids = np.random.default_rng(1).integers(0, 65536, (48, 64)).astype(np.uint16)
    file = io.BytesIO()
    Image.fromarray(ids).save(file, "PNG")
    for step, cut in CASES:
        made = CompiledImage("x", [DecodeImage.checked(mode="id"), step]).decode(file.getvalue(), Scratch())
        assert np.array_equal(made, cut(ids))
        cast = CompiledImage("x", [DecodeImage.checked(mode="id"), step, steps.Cast("uint16")])
        assert np.array_equal(cast.decode(file.getvalue(), Scratch()), cut(ids))


def test_a_batch_of_them(tmp_path: Path, commit_rows: Callable[..., str]) -> None:
    files = [encode(picture(seed, 64, 48)) for seed in range(6)]
    commit_rows(tmp_path / "ds", {"train": [[keyed({"x": pa.array(files)})]]})
    ds = toolkit.open(tmp_path / "ds")
    made = {}
    for name, word in {
        "five": slot("x").decode_image().five_crop(16).normalize("half"),
        "tiles": slot("x").decode_image().resize((32, 48)).tile(16).to_chw(),
        "tokens": slot("x").decode_image().resize((32, 48)).normalize("half").patchify(16).cast("bfloat16"),
        "any": slot("x").decode_image().tile(16),
    }.items():
        with ds.loader(toolkit.pipeline(word), batch_size=6, shuffle="none", output="numpy") as loader:
            (batch,) = loader
        made[name] = batch["x"]
        assert toolkit.pipeline(word).explain(ds)
    assert made["five"].shape == (6, 5, 3, 16, 16)
    assert made["tiles"].shape == (6, 6, 3, 16, 16)
    assert made["tokens"].shape == (6, 6, 768)
    assert isinstance(made["any"], list)
    assert made["any"][0].shape == (12, 16, 16, 3)


# --- refusals --------------------------------------------------------------------------------------------------------

REFUSED: list[tuple[Callable[[Any], Any], str]] = [
    (lambda s: s.five_crop(0), r"size must be an int in 1\.\.65535"),
    (lambda s: s.ten_crop(4, vertical=1), "vertical must be True or False, got 1"),
    (lambda s: s.patchify(0), r"patch_size must be an int in 1\.\.65535, got 0"),
    (lambda s: s.resize((30, 40)).five_crop(32), "expected a height of 32 pixels or more, got 30: resize"),
    (lambda s: s.resize((40, 30)).ten_crop(32), "expected a width of 32 pixels or more, got 30"),
    (lambda s: s.resize((40, 32)).tile(16), "a height that tiles of 16 pixels divide, got 40: resize, crop or pad"),
    (lambda s: s.resize((32, 40)).tile(16), "a width that tiles of 16 pixels divide, got 40"),
    (
        lambda s: s.resize((225, 224)).normalize("half").patchify(16),
        "a height that patches of 16 pixels divide, got 225",
    ),
    (lambda s: s.resize((224, 225)).patchify(16), "a width that patches of 16 pixels divide, got 225"),
    (lambda s: s.five_crop(17).patchify(16), "a height that patches of 16 pixels divide, got 17"),
    (lambda s: s.five_crop(16).hflip(), "pixels of one picture, got 5 x 16 x 16 x 3: put it in front"),
    (lambda s: s.five_crop(16).five_crop(8), "pixels of one picture"),
    (lambda s: s.five_crop(16).color_jitter(hue=0.1), "pixels of one picture"),
    (lambda s: s.five_crop(16).maybe(chain().hflip()), "pixels of one picture"),
    (lambda s: s.maybe(chain().five_crop(16)), "expected a step on pixels, got five_crop"),
    (lambda s: s.one_of(chain().five_crop(16), chain().five_crop(16)), "expected a step on pixels, got five_crop"),
    (lambda s: s.five_crop(16).normalize("half").five_crop(8), "a float32 5 x 3 x 16 x 16 tensor: move normalize"),
    (lambda s: s.patchify(4).patchify(2), "expected an image, got patches: patchify once"),
    (lambda s: s.patchify(4).normalize("half"), "a uint8 tokens x 48 tensor"),
    (lambda s: s.patchify(4).to_chw(), "a uint8 tokens x 48 tensor"),
    (lambda s: s.patchify(4).hflip(), "a uint8 tokens x 48 tensor: move"),
    (lambda s: s.five_crop(16).normalize("half").random_erasing(), "expected one picture, got .* in front of steps"),
    (lambda s: s.normalize("half").patchify(4).random_erasing(), "expected one picture, got .* or patches, on pixels"),
    (lambda s: s.normalize("half").random_erasing().patchify(4), "on pixels, in front of normalize"),
    (lambda s: s.five_crop(16).random_erasing(), "pixels of one picture"),
    (lambda s: s.ten_crop(20_000), "at most 134217728 pixels, got 10 x 20000 x 20000"),
    (lambda s: s.crop(0, 0, 4, 4).five_crop(4).cast("int8"), "a dtype that images have"),
]


@pytest.mark.parametrize(("say", "why"), REFUSED)
def test_refused_where_it_is_written(say: Callable[[Any], Any], why: str) -> None:
    with pytest.raises(PipelineError, match=why):
        say(slot("x").decode_image())
    with pytest.raises(PipelineError, match="got ids"):
        slot("x").decode_image(mode="id").five_crop(4).normalize("half")


SMALL: list[tuple[list[Any], str, str]] = [
    ([steps.FiveCrop(49, 20)], "five_crop((49, 20))", "has 64 x 48 pixels, too few to cut out 20 x 49"),
    ([steps.HFlip(1.0), steps.TenCrop(20, 65, False), NORMALIZE], "ten_crop((20, 65))", "too few to cut out 65 x 20"),
    ([steps.Tile(16, 24)], "tile((16, 24))", "has 64 x 48 pixels, no whole number of tiles of 24 x 16"),
    ([NORMALIZE, steps.Patchify(10)], "patchify(10)", "has 64 x 48 pixels, no whole number of patches of 10 x 10"),
    ([steps.Tile(16, 16), steps.Patchify(3)], "patchify(3)", "has 16 x 16 pixels, no whole number of patches of 3 x 3"),
]


@pytest.mark.parametrize("format", ["JPEG", "PNG"])
@pytest.mark.parametrize(("chain", "step", "why"), SMALL)
def test_a_picture_that_they_cant_be_had_of(chain: list[Any], step: str, why: str, format: str) -> None:
    _, [failure] = run_batch(compiled(*chain), [encode(picture(1, 64, 48), format)], np.array([1], np.uint64))
    assert (failure.step, why in failure.message) == (step, True), failure


def test_that_is_an_error_with_its_sample(tmp_path: Path, commit_rows: Callable[..., str]) -> None:
    files = [encode(picture(1, 64, 48)), encode(picture(2, 20, 48))]
    commit_rows(tmp_path / "ds", {"train": [[keyed({"x": pa.array(files)})]]})
    with pytest.raises(SampleError, match=r"key .*five_crop\(32\).*has 20 x 48 pixels, too few"):
        list(
            toolkit.open(tmp_path / "ds").loader(toolkit.pipeline(slot("x").decode_image().five_crop(32)), batch_size=2)
        )


def test_the_kernels_refuse_what_the_slots_would_have() -> None:
    crop: Any = ("five_crop", {"height": 4, "width": 4})
    flip: Any = ("hflip", {"p": 0.5, "id": 1})
    for ops in ([crop, flip], [crop, ("maybe", {"limits": [0.5], "id": 1}, [[flip]])]):
        with pytest.raises(ValueError, match="stands behind a step that makes several pictures"):
            ImageProgram(ops)
    with pytest.raises(ValueError, match="several pictures of one, which a branch can't"):
        ImageProgram([("maybe", {"limits": [0.5], "id": 1}, [[crop]])])
    with pytest.raises(ValueError, match="patch must be 0 to"):
        ImageProgram([], patch=-1)


def test_slots_that_share_a_picture_fail_each_by_its_step(tmp_path: Path, commit_rows: Callable[..., str]) -> None:
    files = [encode(picture(seed, 64, 48)) for seed in range(3)]
    commit_rows(tmp_path / "ds", {"train": [[keyed({"x": pa.array(files)})]]})
    ds = toolkit.open(tmp_path / "ds")
    crops = slot("x", name="crops").decode_image().five_crop(40).normalize("half")
    tokens = slot("x", name="tokens").decode_image().center_crop(32).normalize("half").patchify(16)
    (batch,) = ds.loader(toolkit.pipeline(crops, tokens), batch_size=3)
    assert (batch["crops"].shape, batch["tokens"].shape) == ((3, 5, 3, 40, 40), (3, 4, 768))
    for one in (crops, tokens):
        (alone,) = ds.loader(toolkit.pipeline(one), batch_size=3)
        assert np.array_equal(alone[one.name], batch[one.name])
    large = slot("x", name="crops").decode_image().five_crop(50).normalize("half")
    with pytest.raises(SampleError, match=r"five_crop\(50\).*too few to cut out"):
        list(ds.loader(toolkit.pipeline(tokens, large), batch_size=3))
