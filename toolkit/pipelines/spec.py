"""Every step of a slot, and how it is written in code. Nothing here runs, nothing is checked."""

from __future__ import annotations

import enum
import json
from collections.abc import Callable
from typing import Any

from toolkit.pipelines.functions import function_name
from toolkit.pipelines.image.formats import DEFAULT_MAX_PIXELS
from toolkit.pipelines.image.steps import (
    Accuracy,
    Cast,
    CenterCrop,
    ColorJitter,
    Crop,
    DecodeImage,
    Filter,
    Grayscale,
    HFlip,
    ImageStep,
    Layout,
    Mode,
    Normalize,
    Pad,
    RandomCrop,
    RandomResizedCrop,
    Resize,
    ResizeLong,
    ResizeShort,
    ToLayout,
    Truncated,
    VFlip,
)
from toolkit.pipelines.value_steps import Array, Bytes, Json, Npy, OneHot, Passthrough, Python, Scalar, Text, ValueStep

__all__ = ["DEFAULT_DECODE", "STATISTICS", "Step", "is_random", "literal", "step_text"]

Step = ImageStep | ValueStep

DEFAULT_DECODE = DecodeImage(
    mode=Mode.RGB,
    exif=True,
    max_pixels=DEFAULT_MAX_PIXELS,
    max_bytes=256 * 1024 * 1024,  # of the file
    truncated=Truncated.ERROR,
    accuracy=Accuracy.EXACT,
    icc=False,
)
STATISTICS = {
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "half": ((0.5,), (0.5,)),
    "unit": ((0.0,), (1.0,)),
}


def is_random(step: Step) -> bool:
    """Say whether the step draws."""
    if isinstance(step, Python):
        return step.random
    return isinstance(step, (RandomCrop, RandomResizedCrop, HFlip, VFlip, ColorJitter))


def step_text(step: Step) -> str:
    """Return the step as it is written in code, without what is left at its default."""
    return _TEXTS[type(step)](step)


def literal(value: object) -> str:
    """Return a value as code: text in double quotes, an Enum as the text that stands for it."""
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return repr(value)


def _call(word: str, *positional: object, **named: tuple[object, object]) -> str:
    """Write a call; `named` has (value, default) of each keyword."""
    given = [literal(value) for value in positional]
    given += [f"{name}={literal(value)}" for name, (value, default) in named.items() if value != default]
    return f"{word}({', '.join(given)})"


def _decode(step: DecodeImage) -> str:
    fields = ("mode", "exif", "max_pixels", "max_bytes", "truncated", "accuracy", "icc")
    return _call("decode_image", **{name: (getattr(step, name), getattr(DEFAULT_DECODE, name)) for name in fields})


def _side(height: int, width: int) -> object:
    return height if height == width else (height, width)


def _random_resized_crop(step: RandomResizedCrop) -> str:
    return _call(
        "random_resized_crop",
        _side(step.height, step.width),
        scale=(step.scale, (0.08, 1.0)),
        ratio=(step.ratio, (3 / 4, 4 / 3)),
        filter=(step.filter, Filter.BILINEAR),
    )


def _pad(step: Pad) -> str:
    sides = {name: getattr(step, name) for name in ("top", "left", "bottom", "right")}
    if len(set(sides.values())) == 1:
        return _call("pad", step.top, fill=(step.fill, 0))
    return _call("pad", **{name: (size, 0) for name, size in sides.items()}, fill=(step.fill, 0))


def _jitter(step: ColorJitter) -> str:
    names = ("brightness", "contrast", "saturation", "hue")
    return _call("color_jitter", **{name: (getattr(step, name), None) for name in names})


def _normalize(step: Normalize) -> str:
    for name, statistics in STATISTICS.items():
        if statistics == (step.mean, step.std):
            return _call("normalize", name)
    return _call("normalize", step.mean, step.std)


def _python(step: Python) -> str:
    schema: object = "object"
    if step.dtype is not None:
        schema = step.dtype if step.shape == () else (step.dtype, step.shape)
    rest = _call(
        "", schema, random=(step.random, False), timeout=(step.timeout, 60.0), version=(step.version, 1)
    ).removeprefix("(")
    return f"python({function_name(step.fn)}, {rest}"


_TEXTS: dict[type, Callable[[Any], str]] = {
    DecodeImage: _decode,
    Resize: lambda s: _call("resize", (s.height, s.width), filter=(s.filter, Filter.BILINEAR)),
    ResizeShort: lambda s: _call("resize_short", s.size, filter=(s.filter, Filter.BILINEAR)),
    ResizeLong: lambda s: _call("resize_long", s.size, filter=(s.filter, Filter.BILINEAR)),
    Crop: lambda s: _call("crop", s.top, s.left, s.height, s.width),
    CenterCrop: lambda s: _call("center_crop", _side(s.height, s.width)),
    RandomCrop: lambda s: _call("random_crop", _side(s.height, s.width)),
    RandomResizedCrop: _random_resized_crop,
    Pad: _pad,
    HFlip: lambda s: _call("hflip", p=(s.p, 0.5)),
    VFlip: lambda s: _call("vflip", p=(s.p, 0.5)),
    ColorJitter: _jitter,
    Grayscale: lambda s: _call("grayscale", channels=(s.channels, 1)),
    Normalize: _normalize,
    Cast: lambda s: _call("cast", s.dtype),
    ToLayout: lambda s: "to_chw()" if s.layout is Layout.CHW else "to_hwc()",
    Passthrough: lambda s: "passthrough()",
    Bytes: lambda s: "bytes()",
    Text: lambda s: _call("text", encoding=(s.encoding, "utf-8")),
    Json: lambda s: "json()",
    Npy: lambda s: _call("npy", dtype=(s.dtype, None), shape=(s.shape, None)),
    Scalar: lambda s: _call("scalar", s.dtype),
    Array: lambda s: _call("array", s.dtype, s.shape),
    OneHot: lambda s: _call("one_hot", s.classes),
    Python: _python,
}
