"""What image steps are: steps on pixels, and steps that say how finished pixels are written.

Pixels are uint8 (height, width, channels) until normalize, cast or a layout says otherwise. Every random step draws
from its sample's own stream: see toolkit.pipelines.randomness.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from typing import Any, ClassVar, Self

from toolkit._native.image.program import FLOATS
from toolkit.pipelines.state import Layout, MisfitError, State, ValueKind
from toolkit.pipelines.step import Step, plain

__all__ = [
    "ENCODED",
    "ColourStep",
    "FinishStep",
    "ImageStep",
    "KernelStep",
    "PixelStep",
    "TensorStep",
    "colours",
    "pixels",
    "pixels_or_floats",
    "places",
]

ENCODED = (ValueKind.STORED, ValueKind.IMAGE, ValueKind.RAW_IMAGE, ValueKind.BYTES)
_NEAREST = "nearest"
_PIXELS = "uint8 height x width x channels pixels"


class ImageStep(Step):
    """A step that runs in the native call of an image slot."""

    __slots__ = ()

    @property
    def is_native(self) -> bool:
        """It does."""
        return True

    def fitted(self, state: State) -> Self:
        """Return the step with what it takes from the state before it."""
        return self


class KernelStep(ImageStep):
    """A step that has a kernel of its own."""

    __slots__ = ()

    def kernel(self) -> dict[str, Any]:
        """Return what the kernel of the step's word takes: the fields by name, Enums as their values."""
        names = [field.name for field in dataclasses.fields(self) if field.name != "name"]
        return {name: plain(getattr(self, name)) for name in names}


class PixelStep(KernelStep):
    """A step on pixels."""

    __slots__ = ()

    @property
    def native(self) -> str:
        """What runs it there, for explain()."""
        return "native, by place"


class ColourStep(PixelStep):
    """A step that changes values pixel by pixel, or draws whether it does: its field `p`, where it has one.

    Attributes:
        ranges: Those of its fields that are a number, or (low, high) that it is drawn between.
    """

    __slots__ = ()
    ranges: ClassVar[tuple[str, ...]] = ()

    def after(self, state: State) -> State:
        """Leave the size."""
        pixels(state)
        return state

    def kernel(self) -> dict[str, Any]:
        """Return the fields by name, numbers that may be ranges as ranges."""
        made = PixelStep.kernel(self)
        for name in self.ranges:
            value = made[name]
            made[name] = value if isinstance(value, tuple) else (value, value)
        return made

    @property
    def draws(self) -> bool:
        """Whether, or how much, unless both are fixed."""
        return getattr(self, "p", 1.0) != 1 or any(isinstance(getattr(self, name), tuple) for name in self.ranges)

    @property
    def native(self) -> str:
        """What runs it there, for explain()."""
        return "native, on finished rows"


class TensorStep(KernelStep):
    """A step on the tensor of floats that pixels become: there it changes the batch, in place."""

    __slots__ = ()

    @property
    def native(self) -> str:
        """What runs it there, for explain()."""
        return "native, in the batch"


class FinishStep(ImageStep):
    """A step that says how finished pixels are written: no step on pixels comes behind it.

    Attributes:
        orders_axes: It says how axes are ordered, and nothing else.
    """

    __slots__ = ()
    orders_axes: ClassVar[bool] = False

    @abstractmethod
    def finish(self, options: dict[str, Any]) -> None:
        """Put what the native call should write into `options`. Raises ValueError: it can't, or not behind those."""

    @property
    def native(self) -> str:
        """What runs it there, for explain()."""
        return "native, on writing to the batch"


def pixels(state: State) -> tuple[int | None, int | None, int | None]:
    """Return height, width and channels, or raise MisfitError with the way out."""
    if state.kind is not ValueKind.PIXELS or state.shape is None:
        if state.kind in ENCODED:
            raise MisfitError(_PIXELS, "encoded image bytes", "put .decode_image() first")
        if state.kind is ValueKind.IDS or (state.kind is ValueKind.VIEWS and state.layout is Layout.HW):
            fix = 'their order means nothing, so they can only be moved; decode_image(mode="gray") gives pixels'
            raise MisfitError(_PIXELS, "ids", fix)
        if state.kind is ValueKind.VIEWS:
            fix = "put it in front of the step that makes several; normalize, cast and layouts come behind that"
            raise MisfitError("pixels of one picture", f"{state.sizes()}", fix)
        if state.layout is not None:
            fix = f"move {'normalize' if state.dtype == 'float32' else 'cast and layout'} to the end"
            raise MisfitError(_PIXELS, f"a {state.dtype} {state.sizes()} tensor", fix)
        raise MisfitError(_PIXELS, state, "pixels come of decode_image(), array(…).as_image() and python(fn, pixels())")
    height, width, channels = state.shape
    return height, width, channels


def places(step: PixelStep, state: State) -> tuple[int | None, int | None]:
    """Return height and width of pixels or ids for a step that only moves them, or raise MisfitError.

    Of ids only whole ones are taken, so a step with a `filter` needs the nearest; what it fills with is theirs to say.
    """
    if state.kind is not ValueKind.IDS or state.shape is None:
        return pixels(state)[:2]
    filter = plain(getattr(step, "filter", _NEAREST))
    if filter != _NEAREST:
        raise MisfitError("a step that mixes no ids", f"the filter {filter}", f'say filter="{_NEAREST}"')
    if getattr(step, "fill", 0):
        fix = "decode_image(ignore=) says what ids are filled with: leave fill out"
        raise MisfitError("no fill of its own", f"fill={step.fill}", fix)  # type: ignore[attr-defined]
    height, width = state.shape
    return height, width


def colours(state: State, *, alpha: bool = False) -> tuple[int | None, int | None, int | None]:
    """Return height, width and channels of pixels in red, green, blue and, with `alpha`, perhaps alpha.

    Raises:
        MisfitError: The pixels are others.
    """
    height, width, channels = pixels(state)
    if channels != 3 and not (alpha and channels == 4):
        raise MisfitError("3 channels", str(channels), 'decode_image(mode="rgb") gives red, green and blue')
    return height, width, channels


def pixels_or_floats(state: State) -> int | None:
    """Return the channels of pixels, or of the tensor of floats that they became, or raise MisfitError."""
    if state.layout is None or state.kind is not ValueKind.TENSOR:
        return pixels(state)[2]
    if state.leading or state.layout is Layout.TV:
        raise MisfitError("one picture", state, "put it in front of steps that make several, or patches, on pixels")
    if state.dtype not in FLOATS:
        fix = "put it in front of cast and layout, or cast to floats"
        raise MisfitError("uint8 pixels, or a tensor of floats", state, fix)
    return state.channels
