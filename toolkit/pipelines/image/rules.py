"""The rules of image steps: uint8 (height, width, channels) pixels until normalize, cast and layout, the last ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolkit.pipelines.image.steps import (
    Cast,
    CenterCrop,
    ColorJitter,
    Crop,
    DecodeImage,
    Grayscale,
    HFlip,
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
    VFlip,
)
from toolkit.pipelines.state import MisfitError, State, ValueKind
from toolkit.pipelines.value_rules import cast_value

__all__ = ["RULES"]

_CHANNELS = {Mode.RGB: 3, Mode.GRAY: 1, Mode.RGBA: 4}
_ENCODED = (ValueKind.STORED, ValueKind.IMAGE, ValueKind.RAW_IMAGE, ValueKind.BYTES)
_PIXELS = "uint8 height x width x channels pixels"


def _decode(step: DecodeImage, state: State) -> State:
    if state.kind is ValueKind.PIXELS:
        raise MisfitError("encoded image bytes", state, "decode once")
    if state.kind not in _ENCODED:
        raise MisfitError("an image column", state, "only image files and bytes can be decoded")
    return State(ValueKind.PIXELS, "uint8", (None, None, _CHANNELS[step.mode]), Layout.HWC)


def _pixels(state: State) -> tuple[int | None, int | None, int | None]:
    """Return height, width and channels, or raise MisfitError with the way out."""
    if state.kind is not ValueKind.PIXELS or state.shape is None:
        if state.kind in _ENCODED:
            raise MisfitError(_PIXELS, "encoded image bytes", "put .decode_image() first")
        if state.layout is not None:
            fix = f"move {'normalize' if state.dtype == 'float32' else 'cast and layout'} to the end"
            raise MisfitError(_PIXELS, f"a {state.dtype} {state.sizes()} tensor", fix)
        raise MisfitError(_PIXELS, state, "only decode_image() gives pixels")
    height, width, channels = state.shape
    return height, width, channels


def _same(step: object, state: State) -> State:
    _pixels(state)
    return state


def _cut(step: Resize | Crop | CenterCrop | RandomCrop | RandomResizedCrop, state: State) -> State:
    _pixels(state)
    return state.with_size(step.height, step.width)


def _resize_short(step: ResizeShort, state: State) -> State:
    height, width, _ = _pixels(state)
    if height is None or width is None:
        return state.with_size(None, None)
    if height <= width:
        return state.with_size(step.size, step.size * width // height)
    return state.with_size(step.size * height // width, step.size)


def _resize_long(step: ResizeLong, state: State) -> State:
    height, width, _ = _pixels(state)
    if height is None or width is None:
        return state.with_size(None, None)
    if height >= width:
        return state.with_size(step.size, max(1, step.size * width // height))
    return state.with_size(max(1, step.size * height // width), step.size)


def _pad(step: Pad, state: State) -> State:
    height, width, _ = _pixels(state)
    return state.with_size(
        None if height is None else height + step.top + step.bottom,
        None if width is None else width + step.left + step.right,
    )


def _jitter(step: ColorJitter, state: State) -> State:
    _of_colors(state)
    return state


def _grayscale(step: Grayscale, state: State) -> State:
    height, width, _ = _of_colors(state)
    return State(state.kind, state.dtype, (height, width, step.channels), state.layout)


def _of_colors(state: State) -> tuple[int | None, int | None, int | None]:
    height, width, channels = _pixels(state)
    if channels != 3:
        raise MisfitError("3 channels", str(channels), 'decode_image(mode="rgb") gives red, green and blue')
    return height, width, channels


def _normalize(step: Normalize, state: State) -> State:
    if state.dtype == "float32" and state.layout is not None:
        fix = "normalize once" if state.layout is Layout.CHW else "normalize makes float32 itself: leave cast out"
        raise MisfitError(_PIXELS, f"a float32 {state.sizes()} tensor", fix)
    height, width, channels = _pixels(state)
    if len(step.mean) not in (1, channels):
        fix = "give one value a channel, or decode to the mode that they are for"
        raise MisfitError(f"{len(step.mean)} channels, one for each mean and std", str(channels), fix)
    return State(ValueKind.TENSOR, "float32", (channels, height, width), Layout.CHW)


def _cast(step: Cast, state: State) -> State:
    if state.layout is None:
        return cast_value(step, state)
    if state.dtype not in ("uint8", "float32"):
        raise MisfitError("an image that was not cast before", state, "cast once")
    if state.dtype == "float32" and step.dtype not in ("float16", "float32", "float64", "bfloat16"):
        raise MisfitError("whole numbers", state, f"{step.dtype} would cut off fractions: cast instead of normalize")
    return State(ValueKind.TENSOR, step.dtype, state.shape, state.layout)


def _to_layout(step: ToLayout, state: State) -> State:
    if state.layout is None or state.shape is None:
        _pixels(state)
    first, second, third = state.shape or ()
    if state.layout is step.layout:
        shape = (first, second, third)
    else:
        shape = (third, first, second) if step.layout is Layout.CHW else (second, third, first)
    return State(ValueKind.TENSOR, state.dtype, shape, step.layout)


RULES: dict[type, Callable[[Any, State], State]] = {
    DecodeImage: _decode,
    Resize: _cut,
    ResizeShort: _resize_short,
    ResizeLong: _resize_long,
    Crop: _cut,
    CenterCrop: _cut,
    RandomCrop: _cut,
    RandomResizedCrop: _cut,
    Pad: _pad,
    HFlip: _same,
    VFlip: _same,
    ColorJitter: _jitter,
    Grayscale: _grayscale,
    Normalize: _normalize,
    Cast: _cast,
    ToLayout: _to_layout,
}
