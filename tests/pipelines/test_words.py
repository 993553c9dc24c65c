"""Words: what each step is, how it reads, which types it takes."""

from __future__ import annotations

import functools
import math
import pickle
import re
from collections.abc import Callable
from typing import Any

import image_steps as image
import numpy as np
import pytest
from image_steps import Filter, Layout, Mode

import toolkit
from toolkit import chain, slot
from toolkit.errors import PipelineError
from toolkit.pipelines import stored
from toolkit.pipelines.array.numbers import OneHot, Scalar
from toolkit.pipelines.array.tensors import Array, Npy
from toolkit.pipelines.python import Python
from toolkit.pipelines.state import State, ValueKind
from toolkit.pipelines.step import Step
from toolkit.pipelines.text.strings import Json, Text

Start = Callable[[], toolkit.Slot]


def decoded(mode: str = "rgb") -> toolkit.Slot:
    return slot("image").decode_image(mode=mode)


def number() -> toolkit.Slot:
    return slot("x").scalar("int64")


def column() -> toolkit.Slot:
    return slot("x")


# A start, a word on it, the step it makes, and the dtype, shape and layout after it.
WORDS: list[tuple[Start, Callable[[Any], toolkit.Slot], Step, str | None, Any, Layout | None]] = [
    (column, lambda s: s.decode_image(), image.DecodeImage(), "uint8", (None, None, 3), Layout.HWC),
    (
        column,
        lambda s: s.decode_image(
            mode="rgba", exif=False, max_pixels=9, max_bytes=8, truncated="warn", accuracy="fast", icc=True
        ),
        image.DecodeImage(
            mode=Mode.RGBA,
            exif=False,
            max_pixels=9,
            max_bytes=8,
            truncated=image.Truncated.WARN,
            accuracy=image.Accuracy.FAST,
            icc=True,
        ),
        "uint8",
        (None, None, 4),
        Layout.HWC,
    ),
    (decoded, lambda s: s.resize((3, 5)), image.Resize(3, 5, Filter.BILINEAR), "uint8", (3, 5, 3), Layout.HWC),
    (
        decoded,
        lambda s: s.resize_short(4, filter="lanczos"),
        image.ResizeShort(4, Filter.LANCZOS),
        "uint8",
        (None, None, 3),
        Layout.HWC,
    ),
    (
        lambda: decoded().resize((30, 20)),
        lambda s: s.resize_short(10),
        image.ResizeShort(10, Filter.BILINEAR),
        "uint8",
        (15, 10, 3),
        Layout.HWC,
    ),
    (
        lambda: decoded().resize((30, 20)),
        lambda s: s.resize_long(10),
        image.ResizeLong(10, Filter.BILINEAR),
        "uint8",
        (10, 6, 3),
        Layout.HWC,
    ),
    (
        lambda: decoded().resize((1, 90)),
        lambda s: s.resize_long(10, filter="nearest"),
        image.ResizeLong(10, Filter.NEAREST),
        "uint8",
        (1, 10, 3),
        Layout.HWC,
    ),
    (decoded, lambda s: s.crop(0, 1, 2, 3), image.Crop(0, 1, 2, 3), "uint8", (2, 3, 3), Layout.HWC),
    (decoded, lambda s: s.center_crop(7), image.CenterCrop(7, 7), "uint8", (7, 7, 3), Layout.HWC),
    (decoded, lambda s: s.random_crop((7, 8)), image.RandomCrop(7, 8), "uint8", (7, 8, 3), Layout.HWC),
    (
        decoded,
        lambda s: s.random_resized_crop(9),
        image.RandomResizedCrop(9, 9, (0.08, 1.0), (3 / 4, 4 / 3), Filter.BILINEAR),
        "uint8",
        (9, 9, 3),
        Layout.HWC,
    ),
    (
        decoded,
        lambda s: s.random_resized_crop((9, 8), scale=(0.5, 0.5), ratio=(1, 2), filter="bicubic"),
        image.RandomResizedCrop(9, 8, (0.5, 0.5), (1.0, 2.0), Filter.BICUBIC),
        "uint8",
        (9, 8, 3),
        Layout.HWC,
    ),
    (
        lambda: decoded().center_crop(4),
        lambda s: s.pad(2, fill=9),
        image.Pad(2, 2, 2, 2, 9),
        "uint8",
        (8, 8, 3),
        Layout.HWC,
    ),
    (
        lambda: decoded().center_crop(4),
        lambda s: s.pad(top=1, right=2),
        image.Pad(1, 0, 0, 2, 0),
        "uint8",
        (5, 6, 3),
        Layout.HWC,
    ),
    (decoded, lambda s: s.hflip(), image.HFlip(0.5), "uint8", (None, None, 3), Layout.HWC),
    (decoded, lambda s: s.vflip(p=0.25), image.VFlip(0.25), "uint8", (None, None, 3), Layout.HWC),
    (
        decoded,
        lambda s: s.color_jitter(brightness=0.5, contrast=(0.2, 3), saturation=2, hue=0.25),
        image.ColorJitter((0.5, 1.5), (0.2, 3.0), (0.0, 3.0), (-0.25, 0.25)),
        "uint8",
        (None, None, 3),
        Layout.HWC,
    ),
    (decoded, lambda s: s.grayscale(), image.Grayscale(1), "uint8", (None, None, 1), Layout.HWC),
    (decoded, lambda s: s.grayscale(channels=3), image.Grayscale(3), "uint8", (None, None, 3), Layout.HWC),
    (
        lambda: decoded().center_crop(4),
        lambda s: s.normalize("imagenet"),
        image.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
        "float32",
        (3, 4, 4),
        Layout.CHW,
    ),
    (
        lambda: decoded("gray"),
        lambda s: s.normalize((0.5,), (0.25,)),
        image.Normalize((0.5,), (0.25,)),
        "float32",
        (1, None, None),
        Layout.CHW,
    ),
    (decoded, lambda s: s.cast("bfloat16"), image.Cast("bfloat16"), "bfloat16", (None, None, 3), Layout.HWC),
    (decoded, lambda s: s.to_chw(), image.ToChw(), "uint8", (3, None, None), Layout.CHW),
    (
        lambda: decoded().normalize("unit"),
        lambda s: s.to_hwc(),
        image.ToHwc(),
        "float32",
        (None, None, 3),
        Layout.HWC,
    ),
    (column, lambda s: s.passthrough(), stored.Passthrough(), None, None, None),
    (column, lambda s: s.bytes(), stored.Bytes(), None, None, None),
    (column, lambda s: s.text(), Text("utf-8"), None, None, None),
    (column, lambda s: s.text("latin-1"), Text("latin-1"), None, None, None),
    (column, lambda s: s.json(), Json(), None, None, None),
    (column, lambda s: s.npy(), Npy(None, None), None, None, None),
    (column, lambda s: s.npy("int8", (2, None)), Npy("int8", (2, None)), "int8", (2, None), None),
    (column, lambda s: s.scalar("int64"), Scalar("int64"), "int64", (), None),
    (column, lambda s: s.array("float32", (2, 3)), Array("float32", (2, 3)), "float32", (2, 3), None),
    (number, lambda s: s.one_hot(10), OneHot(10), "float32", (10,), None),
    (number, lambda s: s.cast("float16"), image.Cast("float16"), "float16", (), None),
    (
        column,
        lambda s: s.python(len, "object"),
        Python(len, None, None, False, 60.0, 1),
        None,
        None,
        None,
    ),
    (
        decoded,
        lambda s: s.python(len, ("float32", (2,)), random=True, timeout=None, version=3),
        Python(len, "float32", (2,), True, None, 3),
        "float32",
        (2,),
        None,
    ),
    (column, lambda s: s.python(len, "int64"), Python(len, "int64", (), False, 60.0, 1), "int64", (), None),
]


@pytest.mark.parametrize(("start", "say", "step", "dtype", "shape", "layout"), WORDS, ids=lambda v: "")
def test_a_word_makes_its_step_and_reads_as_written(
    start: Start, say: Callable[[Any], toolkit.Slot], step: Step, dtype: str, shape: Any, layout: Layout
) -> None:
    made = say(start())
    assert made.steps[-1] == step
    state = made.states(State(ValueKind.STORED))[-1]
    assert (state.dtype, state.shape, state.layout) == (dtype, shape, layout)
    names = {"slot": slot, "chain": chain, "len": len}
    assert eval(repr(made), names) == made
    assert eval(repr(say(chain())), names).steps == made.steps[-1:]
    assert hash(made) == hash(say(start()))
    assert pickle.loads(pickle.dumps(made)) == made


MISFITS: list[tuple[Callable[[], Any], str]] = [
    (lambda: decoded().decode_image(), "step 2 decode_image.*expected encoded image bytes, got uint8.*decode once"),
    (lambda: slot("i").hflip(), "step 1 hflip.*got encoded image bytes: put .decode_image.. first"),
    (lambda: slot("i").text().hflip(), "step 2 hflip.*got text: pixels come of decode_image"),
    (lambda: decoded("gray").color_jitter(hue=0.1), "expected 3 channels, got 1"),
    (lambda: decoded().grayscale().grayscale(), "expected 3 channels, got 1"),
    (lambda: decoded("rgba").normalize("imagenet"), "expected 3 channels.*got 4.*decode to the mode"),
    (lambda: decoded().normalize("unit").normalize("unit"), "step 3 normalize.*normalize once"),
    (lambda: decoded().cast("float32").normalize("unit"), "leave cast out"),
    (lambda: decoded().to_chw().hflip(), "a uint8 3 x height x width tensor: move cast and layout to the end"),
    (lambda: decoded().normalize("unit").hflip(), "move normalize to the end"),
    (lambda: decoded().normalize("unit").cast("int8"), "int8 would cut off fractions"),
    (lambda: decoded().cast("int16").cast("float32"), "cast once"),
    (lambda: decoded().text(), "a column is decoded once, by the slot's first step"),
    (lambda: slot("i").text().json(), "expected text or bytes that hold JSON, got text: a column is decoded once"),
    (lambda: slot("i").one_hot(3), r"put \.scalar\('int64'\) first"),
    (lambda: slot("i").scalar("float32").one_hot(3), "expected a whole number, got a number, float32"),
    (lambda: slot("i").scalar("float32").cast("int8"), "would cut off fractions"),
    (lambda: slot("i").scalar("int8").cast("bool"), "expected booleans"),
    (lambda: slot("i").scalar("int8").cast("bfloat16"), "only images"),
    (lambda: slot("i").cast("int8"), r"say \.scalar\('int8'\), or decode first"),
    (lambda: slot("i").json().cast("int8"), "expected a number or tensor, got a Python object"),
    (
        lambda: slot("i").python(len, ("uint8", (4, 4, 3))).hflip(),
        r"got a uint8 tensor 4 x 4 x 3: pixels come of decode_image",
    ),
    (lambda: slot("i").then(chain().hflip()), "slot 'i', step 1 hflip"),
    (lambda: slot("i").to_chw(), r"put \.decode_image\(\) first"),
    (lambda: decoded().cast("int8"), "step 2 cast.*a dtype that images have, got int8: they come as uint8, int16"),
    (
        lambda: decoded().normalize("half").maybe(chain().to_chw()),
        r"step 3 maybe\(.*\): within it, step 1 to_chw\(\): expected a step on pixels.*: put it behind the branch",
    ),
    (
        lambda: decoded().to_hwc().one_of(chain().cast("float16").python(len, "object"), chain()),
        r"branch 1, step 1 cast\(.float16.\): expected a step on pixels",
    ),
    (
        lambda: decoded().to_chw().one_of(chain(), chain()),
        "expected pixels, got a uint8 3 x height x width tensor: put the branch in front of normalize, cast and layout",
    ),
]


@pytest.mark.parametrize(("build", "says"), MISFITS, ids=lambda v: "")
def test_steps_that_do_not_fit_say_what_they_expect(build: Callable[[], Any], says: str) -> None:
    with pytest.raises(PipelineError, match=says):
        build()


BAD: list[tuple[Callable[[Any], Any], str]] = [
    (lambda s: s.decode_image(mode="RGB"), "mode must be one of rgb, gray, rgba, id, got 'RGB'"),
    (lambda s: s.decode_image(exif=1), "exif must be True or False, got 1"),
    (lambda s: s.decode_image(truncated="warm"), "Did you mean 'warn'"),
    (lambda s: s.resize(224), r"say resize\(\(224, 224\)\), or resize_short\(224\)"),
    (lambda s: s.resize_short(8, filter="bilinaer"), "Did you mean 'bilinear'"),
    (lambda s: s.crop(-1, 0, 2, 2), r"top must be an int in 0\.\.65535, got -1"),
    (lambda s: s.random_resized_crop(8, scale=(0.9, 0.1)), "the first is the larger one"),
    (lambda s: s.random_resized_crop(8, scale=0.1), r"scale must be \(low, high\), got 0.1"),
    (lambda s: s.random_resized_crop(8, scale=(0.1, 1.5)), r"within 0\.\.1, got 1.5"),
    (lambda s: s.pad(3, left=2), "one size for all sides"),
    (lambda s: s.pad(3, fill=256), r"fill must be an int in 0\.\.255, got 256"),
    (lambda s: s.hflip(2), r"p must be within 0\.\.1, got 2"),
    (lambda s: s.hflip(math.nan), "p must be a finite number"),
    (lambda s: s.color_jitter(hue=0.6), r"within -0\.5\.\.0\.5"),
    (lambda s: s.color_jitter(contrast=-1), "0 or more, got -1"),
    (lambda s: s.grayscale(channels=2), "1 or 3, got 2"),
    (lambda s: s.normalize((0.5,), (0.5, 0.5, 0.5)), "mean has 1 values and std 3"),
    (lambda s: s.normalize(0.5, 0.5), "must have three values"),
    (lambda s: s.normalize((0.5,)), "means need a std"),
    (lambda s: s.cast("float33"), "Did you mean 'float32'"),
    (lambda s: s.text("utf-9"), "no encoding 'utf-9'"),
    (lambda s: s.text("hex"), "no encoding 'hex'"),
    (lambda s: s.array("int8", "3"), "a tuple of sizes"),
    (lambda s: s.array("int8", (None, None)), "only one size"),
    (lambda s: s.npy("int8", (-1,)), "0 or more, got -1"),
    (lambda s: s.one_hot(0), "classes must be a positive int"),
    (lambda s: s.scalar("text"), "dtype must be one of"),
    (lambda s: s.hflip(name=""), "name must be a text, got ''"),
    (lambda s: s.python(len, "object", name="x"), "say random=True, too"),
    (lambda s: s.maybe(chain()), "the chain has no steps"),
    (lambda s: s.maybe(slot("x").text()), "it takes chains, got Slot: begin with toolkit.chain"),
    (lambda s: s.maybe(chain().hflip(), p=1.5), r"p must be within 0\.\.1, got 1.5"),
    (lambda s: s.one_of(chain()), "two chains or more, got 1"),
    (lambda s: s.one_of(chain(), chain(), weights=(1,)), "one for each of 2 chains"),
    (lambda s: s.one_of(chain(), chain(), weights=(0, 0)), "must not all be 0"),
    (lambda s: s.one_of(chain(), chain(), weights=(1, -1)), "0 or more, got -1"),
    (lambda s: s.python("len", "object"), "expected a function, got 'len'"),
    (lambda s: s.python(len, ("float32", (3,), 1)), r"a schema is \(dtype, shape\)"),
    (lambda s: s.python(len, "objekt"), "Did you mean 'object'"),
    (lambda s: s.python(len, "object", timeout=0), "timeout must be"),
    (lambda s: s.then(slot("x")), "takes a chain, got Slot"),
    (lambda s: s.decode_image(mode=np.array(["rgb"])), "mode must be one of rgb, gray, rgba, id, got array"),
    (lambda s: s.decode_image(max_pixels=1 << 31), r"max_pixels must be an int in 1\.\.2147483647, got 2147483648"),
    (lambda s: s.resize((70_000, 5)), r"height must be an int in 1\.\.65535, got 70000"),
    (lambda s: s.resize(True), r"size must be an int in 1\.\.65535, got True"),
    (lambda s: s.resize_long(65_536), r"size must be an int in 1\.\.65535"),
    (lambda s: s.cover(0), r"size must be an int in 1\.\.65535, got 0"),
    (lambda s: s.cover((5, 6, 7)), r"one number or \(height, width\), got \(5, 6, 7\)"),
    (lambda s: s.contain(8, fill=256), r"fill must be an int in 0\.\.255, got 256"),
    (lambda s: s.contain(8, pad=1), "pad must be True or False, got 1"),
    (lambda s: s.contain(8, pad=False, fill=3), "leave it out with pad=False"),
    (lambda s: s.thumbnail(8, filter="bicubick"), "Did you mean 'bicubic'"),
    (lambda s: s.scale_jitter(8, scale_range=(0.0, 1.0)), r"scale_range must be within 0\.001\.\.1000, got 0"),
    (lambda s: s.scale_jitter(8, scale_range=(2.0, 1.0)), "the first is the larger one"),
    (lambda s: s.scale_jitter(8, scale_range=(0.5, float("nan"))), "scale_range must be a finite number, got nan"),
    (lambda s: s.center_crop(65_536), r"size must be an int in 1\.\.65535, got 65536"),
    (lambda s: s.random_crop((5, np.int64(4))), "width must be an int in .*got"),
    (lambda s: s.random_resized_crop(8, scale=np.array([0.1, 1.0])), r"scale must be \(low, high\), got array"),
    (lambda s: s.crop(0, 65_536, 2, 2), r"left must be an int in 0\.\.65535"),
    (lambda s: s.pad(-1), r"size must be an int in 0\.\.32767, got -1"),
    (lambda s: s.pad(True), "size must be an int in .*, got True"),
    (lambda s: s.pad(2, top=np.array([1, 2])), "top must be an int in .*, got array"),
    (lambda s: s.pad(bottom=65_536), r"bottom must be an int in 0\.\.65535"),
    (lambda s: s.hflip(True), "p must be a finite number, got True"),
    (lambda s: s.hflip(np.array([0.5])), "p must be a finite number, got array"),
    (lambda s: s.hflip(name=np.array(["a", "b"])), "name must be a text, got array"),
    (lambda s: s.color_jitter(saturation=True), r"saturation must be \(low, high\), got True"),
    (lambda s: s.color_jitter(contrast=1e6), r"contrast must be within 0\.\.1e\+06"),
    (lambda s: s.grayscale(channels=True), "channels must be 1 or 3, got True"),
    (lambda s: s.grayscale(channels=3.0), "channels must be 1 or 3, got 3.0"),
    (lambda s: s.grayscale(channels=np.array([1, 3])), "channels must be 1 or 3, got array"),
    (lambda s: s.normalize(np.zeros(3), np.ones(3)), "must have three values in a tuple or list, .*got array"),
    (lambda s: s.text("utf\0008"), "no encoding"),
    (lambda s: s.text("\ud800"), "no encoding"),
    (lambda s: s.array("int8", b"ab"), "a tuple of sizes"),
    (lambda s: s.one_hot(np.array([3, 4])), "classes must be a positive int, got array"),
    (lambda s: s.one_hot(1 << 31), r"classes must be an int in 1\.\.2147483647"),
    (lambda s: s.python(len, np.array(["object", "x"])), "dtype must be one of"),
    (lambda s: s.one_of(chain(), chain(), weights=np.ones(2)), "weights must be a list of numbers, got array"),
]


@pytest.mark.parametrize(("say", "says"), BAD, ids=lambda v: "")
@pytest.mark.parametrize("start", [lambda: slot("image"), chain], ids=["slot", "chain"])
def test_bad_arguments_name_place_and_step(start: Callable[[], Any], say: Callable[[Any], Any], says: str) -> None:
    with pytest.raises(PipelineError, match=f"^(slot 'image'|chain)(, step [a-z_]+)?: .*{says}"):
        say(start())


def test_chains_are_reusable_and_joined() -> None:
    crop = chain().resize_short(32).center_crop(24)
    whole = chain().decode_image().then(crop)
    assert slot("a").then(whole) == slot("a").decode_image().resize_short(32).center_crop(24)
    assert slot("b").decode_image(mode="gray").then(crop).steps[1:] == crop.steps
    assert repr(crop) == "chain().resize_short(32).center_crop(24)"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"optional": 1}, "optional must be True or False, got 1"),
        ({"fill": 0}, "fill=0 is only for optional=True"),
        ({"optional": True, "fill": [1]}, r"fill must be a number or a text, got \[1\]"),
        ({"name": 3}, "name must be a text, got 3"),
        ({"sync": 3}, "sync must be a text, got 3"),
    ],
)
def test_slots_check_their_options(options: dict[str, Any], says: str) -> None:
    with pytest.raises(PipelineError, match=says):
        slot("mask", **options)


def test_a_partial_is_known_by_its_arguments() -> None:
    def describe(function: Callable[..., Any], version: int = 1) -> str:
        return toolkit.pipeline(slot("x").python(function, "object", version=version)).describe()

    two, three = functools.partial(pow, exp=2), functools.partial(pow, exp=3)
    assert describe(two) == describe(functools.partial(pow, exp=2)) != describe(three)
    assert describe(len) != describe(len, version=2)
    assert Python(two, None, None, False, 60.0, 1).text() == 'python(partial(pow), "object")'


@pytest.mark.parametrize(
    ("say", "says"),
    [
        (lambda s: s.maybe(), "maybe(): missing a required argument: 'chain'; it is maybe(chain, p=0.5, *, name=None)"),
        (lambda s: s.crop(1, 2, 3), "crop(): missing a required argument: 'width'; it is crop(top, left, "),
        (lambda s: s.hflip(0.5, "x"), "hflip(): too many positional arguments; it is hflip(p=0.5, *, name=None)"),
        (lambda s: s.hflip(0.5, p=0.5), "hflip(): multiple values for argument 'p'; it is hflip("),
        (lambda s: s.passthrough(3), "passthrough(): too many positional arguments; it is passthrough()"),
        (lambda s: s.one_hot(clases=3), "one_hot() got an unexpected keyword argument 'clases': it is one_hot("),
        (lambda s: s.one_hot(clases=3), "Did you mean 'classes'?"),
        (lambda s: s.resize((2, 2), filtr="nearest"), "resize(size, *, filter='bilinear'). Did you mean 'filter'?"),
        (lambda s: s.one_of(chain(), wieghts=(1,)), "one_of() got an unexpected keyword argument 'wieghts': it is"),
    ],
)
@pytest.mark.parametrize("start", [lambda: slot("image"), chain], ids=["slot", "chain"])
def test_arguments_that_a_word_does_not_take_are_told_by_the_word(
    start: Callable[[], Any], say: Callable[[Any], Any], says: str
) -> None:
    with pytest.raises(TypeError, match=re.escape(says)):
        say(start())
