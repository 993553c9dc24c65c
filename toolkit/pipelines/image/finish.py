"""Steps that say how finished pixels are written: normalize, to_chw, to_hwc and patchify."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

from toolkit._native.image.program import MAX_SIDE
from toolkit.pipelines import fields
from toolkit.pipelines.image.image_step import FinishStep, pixels
from toolkit.pipelines.registry import register
from toolkit.pipelines.state import Layout, MisfitError, Shape, State, ValueKind
from toolkit.pipelines.statistics import LEAST_STD, check_statistics, name_of_statistics
from toolkit.pipelines.step import call_text

__all__ = ["Normalize", "Patchify", "ToChw", "ToHwc"]


@register
class Normalize(FinishStep):
    """Make float32 (channels, height, width): (pixel / 255 - mean) / std.

    Args:
        mean: A mean for each channel, or one for all, or the name of known statistics: imagenet, half, unit.
        std: Standard deviations alike; none with a name.
    """

    word = "normalize"
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @classmethod
    def of(cls, mean: str | Sequence[float], std: Sequence[float] | None = None) -> Self:
        """Take statistics, or their name."""
        return cls(*check_statistics(cls.word, mean, std))

    def after(self, state: State) -> State:
        """Make a float32 tensor of pixels."""
        if state.dtype == "float32" and state.layout is not None:
            fix = "normalize once" if state.layout is Layout.CHW else "normalize makes float32 itself: leave cast out"
            raise MisfitError("uint8 height x width x channels pixels", f"a float32 {state.sizes()} tensor", fix)
        *leading, height, width, channels = _unfinished(state)
        if len(self.mean) not in (1, channels):
            fix = "give one value a channel, or decode to the mode that they are for"
            raise MisfitError(f"{len(self.mean)} channels, one for each mean and std", str(channels), fix)
        return State(ValueKind.TENSOR, "float32", (*leading, channels, height, width), Layout.CHW)

    def text(self) -> str:
        """Write known statistics by their name."""
        name = name_of_statistics(self.mean, self.std)
        if name is not None:
            return call_text(self.word, name)
        return call_text(self.word, self.mean, self.std)

    def fitted(self, state: State) -> Self:
        """Return it with a value for each channel where it has one for all."""
        channels = state.channels or 1
        return self if len(self.mean) != 1 else type(self)(self.mean * channels, self.std * channels)

    def finish(self, options: dict[str, Any]) -> None:
        """Say what pixels are multiplied with, and what is added."""
        if options:
            raise ValueError("normalize takes uint8 pixels: put cast, layout or another normalize behind it")
        if len(self.mean) != len(self.std) or not all(value >= LEAST_STD for value in self.std):
            raise ValueError(f"normalize needs a std of {LEAST_STD} or more a mean, not {self.std} for {self.mean}")
        # One multiply and one add a value: pixel / 255 / std - mean / std, rounded once to float32.
        options["scale"] = [1 / (255 * value) for value in self.std]
        options["bias"] = [-of / value for of, value in zip(self.mean, self.std, strict=True)]
        options["dtype"], options["layout"] = "float32", Layout.CHW.value


class _ToLayout(FinishStep):
    __slots__ = ()
    orders_axes = True
    layout: ClassVar[Layout]

    def after(self, state: State) -> State:
        """Order the axes of an image."""
        *leading, height, width, channels = _sizes(state)
        axes = (height, width, channels) if self.layout is Layout.HWC else (channels, height, width)
        return State(ValueKind.TENSOR, state.dtype, (*leading, *axes), self.layout)

    def finish(self, options: dict[str, Any]) -> None:
        """Say how the axes are written."""
        options["layout"] = self.layout.value


@register
class ToChw(_ToLayout):
    """Put channels first: (channels, height, width)."""

    word = "to_chw"
    layout = Layout.CHW


@register
class ToHwc(_ToLayout):
    """Put channels last: (height, width, channels)."""

    word = "to_hwc"
    layout = Layout.HWC


@register
class Patchify(FinishStep):
    """Cut an image into squares of `patch_size` x `patch_size` pixels: (tokens, values), row by row of squares.

    Sides must be multiples of the square's. The values of a token are in the order that the image's axes have
    before it: channels first after normalize or to_chw, einops' "c (h p1) (w p2) -> (h w) (c p1 p2)", which is that
    of the weights of a ViT's convolution and of torch's unfold; else channels last, "(p1 p2 c)".
    """

    word = "patchify"
    patch_size: int = fields.whole(most=MAX_SIDE)

    def after(self, state: State) -> State:
        """Make tokens."""
        if state.layout is Layout.TV:
            raise MisfitError("an image", "patches", "patchify once")
        *leading, height, width, channels = _sizes(state)
        for name, side in (("height", height), ("width", width)):
            if side is not None and side % self.patch_size:
                fix = f"resize or crop to a multiple of {self.patch_size} in front of it"
                raise MisfitError(f"a {name} that patches of {self.patch_size} pixels divide", side, fix)
        tokens = None
        if height is not None and width is not None:
            tokens = (height // self.patch_size) * (width // self.patch_size)
        values = None if channels is None else channels * self.patch_size**2
        return State(ValueKind.TENSOR, state.dtype, (*leading, tokens, values), Layout.TV)

    def finish(self, options: dict[str, Any]) -> None:
        """Say how large patches are."""
        if "patch" in options:
            raise ValueError("patches can't be cut again: patchify once")
        options["patch"] = self.patch_size


def _unfinished(state: State) -> Shape:
    """Return the sizes of pixels, of several pictures with their number in front, or raise MisfitError."""
    if state.kind is ValueKind.VIEWS and state.layout is Layout.HWC and state.shape is not None:
        return state.shape
    return pixels(state)


def _sizes(state: State) -> Shape:
    """Return height, width and channels of an image, finished or not, as _unfinished() does."""
    if state.kind is not ValueKind.TENSOR or state.layout not in (Layout.HWC, Layout.CHW) or state.shape is None:
        return _unfinished(state)
    *leading, first, second, third = state.shape
    if state.layout is Layout.HWC:
        return (*leading, first, second, third)
    return (*leading, second, third, first)
