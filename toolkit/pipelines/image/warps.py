"""Steps that shear, move and turn pixels by a number that is drawn, as torchvision does with PIL images.

All take filter= (nearest, bilinear or bicubic: those of Pillow's Image.transform, not antialiased) and fill=, which is
what lies outside the picture: one number for every channel, alpha too, or red, green and blue, which are opaque.
"""

from __future__ import annotations

import enum
from dataclasses import MISSING
from typing import Any, ClassVar

from toolkit._native.image.program import MAX_SIDE
from toolkit.escapes import short
from toolkit.pipelines import fields
from toolkit.pipelines.check import BadArgumentError, a_number, a_pair, an_int
from toolkit.pipelines.image.image_step import PixelStep, pixels, places
from toolkit.pipelines.registry import register
from toolkit.pipelines.state import MisfitError, State, ValueKind

__all__ = ["MAX_DEGREES", "Fill", "Rotate", "ShearX", "ShearY", "Take", "TranslateX", "TranslateY", "Unit", "WarpStep"]

Fill = int | tuple[int, int, int]
MAX_DEGREES = 3600
_MAX_SHEAR = 100


class Take(enum.Enum):
    """Which pixels around a position are mixed."""

    NEAREST = "nearest"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"


class Unit(enum.Enum):
    """What a distance is counted in."""

    PIXELS = "pixels"
    FRACTION = "fraction"


def fill(default: Fill | None = 0) -> Any:
    """Declare what lies outside the picture; with a default of None it may be that."""

    def check(name: str, value: Any) -> Fill | None:
        return None if default is None and value is None else _fill(name, value)

    annotation = "int | tuple[int, int, int]" + (" | None" if default is None else "")
    return fields.argument(check, annotation, default, keyword=True, least=0, most=255)


def _fill(name: str, value: Any) -> Fill:
    if not isinstance(value, (tuple, list)):
        return an_int(name, value, least=0, most=255)
    if len(value) != 3:
        shown = short(value, 80, quoted=True)
        raise BadArgumentError(f"{name} must be one number, or three for red, green and blue, got {shown}")
    red, green, blue = (an_int(f"a number of {name}", each, least=0, most=255) for each in value)
    return red, green, blue


def fill_of(fill: Fill) -> tuple[int, int, int, int]:
    """Return it for each channel."""
    return (fill,) * 4 if isinstance(fill, int) else (*fill, 255)


def number_or_range(default: Any = MISSING, *, most: float, symmetric: bool = False) -> Any:
    """Declare (low, high) within -most..most; one number is both, or with `symmetric` (-number, number)."""

    def check(name: str, value: Any) -> tuple[float, float]:
        if isinstance(value, (tuple, list)):
            return a_pair(name, value, least=-most, most=most)
        number = a_number(name, value, least=0 if symmetric else -most, most=most)
        return (-number if symmetric and number else number), number

    given = default if default is MISSING else check("default", default)
    least = None if symmetric else -most
    return fields.argument(check, "float | tuple[float, float]", given, least=least, most=most)


def center() -> Any:
    """Declare a place in the picture, or None for its middle."""

    def check(name: str, value: Any) -> tuple[float, float] | None:
        if value is None:
            return None
        if not isinstance(value, (tuple, list)) or len(value) != 2:
            raise BadArgumentError(f"{name} must be (x, y) or None, got {short(value, 80, quoted=True)}")
        x, y = (a_number(f"a number of {name}", each, least=-1e6, most=1e6) for each in value)
        return x, y

    return fields.argument(check, "tuple[float, float] | None", None, keyword=True)


class WarpStep(PixelStep):
    """A step that takes each pixel from a position in the picture that it works out.

    Attributes:
        ranges: Those of its fields that are (low, high) of what is drawn; or None, and then nothing is.
    """

    __slots__ = ()
    ranges: ClassVar[tuple[str, ...]] = ("magnitude",)
    filter: Take
    fill: Fill

    def after(self, state: State) -> State:
        """Leave the size."""
        check_fill(self, state)
        return state

    @property
    def draws(self) -> bool:
        """How far, which way, unless both are fixed."""
        given = [getattr(self, name) for name in self.ranges]
        return getattr(self, "random_sign", False) or any(ends is not None and ends[0] != ends[1] for ends in given)

    def kernel(self) -> dict[str, Any]:
        """Return the fields, fill as four numbers."""
        return {**PixelStep.kernel(self), "fill": fill_of(self.fill)}

    @property
    def native(self) -> str:
        """What runs it there, for explain()."""
        return f"native {self.filter.value}, on the whole picture"


def check_fill(step: Any, state: State) -> None:
    """Raise MisfitError where a step's fill isn't one for the picture's channels, or it would mix ids."""
    places(step, state)
    if state.kind is ValueKind.PIXELS and pixels(state)[2] == 1 and not isinstance(step.fill, int):
        raise MisfitError("red, green and blue pixels", "gray ones", f"say fill={step.fill[0]}, one number")


@register
class ShearX(WarpStep):
    """Shift every row by `magnitude` times its distance from the top edge: ShearX of torchvision's policies.

    m = low + (high - low) * u0, and -m where random_sign and u1 < 0.5. As torchvision's
    affine(shear=(degrees(atan(m)), 0), center=(0, 0)): the pixel (x, y) is what was at (x + m * y, y).

    Args:
        magnitude: m, or (low, high) of it.
        random_sign: Whether half of all pictures are sheared the other way.
        filter: How pixels are taken: nearest, bilinear or bicubic.
        fill: What lies outside: a number, or red, green and blue.
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "shear_x"
    magnitude: tuple[float, float] = number_or_range(most=_MAX_SHEAR)
    random_sign: bool = fields.flag(False, keyword=True)
    filter: Take = fields.choice(Take, Take.NEAREST, keyword=True)
    fill: Fill = fill()
    name: str | None = fields.draw_name()


@register
class ShearY(WarpStep):
    """Shift every column by `magnitude` times its distance from the left edge: ShearY of torchvision's policies.

    m = low + (high - low) * u0, and -m where random_sign and u1 < 0.5. As torchvision's
    affine(shear=(0, degrees(atan(m))), center=(0, 0)): the pixel (x, y) is what was at (x, y + m * x).

    Args:
        magnitude: m, or (low, high) of it.
        random_sign: Whether half of all pictures are sheared the other way.
        filter: How pixels are taken: nearest, bilinear or bicubic.
        fill: What lies outside: a number, or red, green and blue.
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "shear_y"
    magnitude: tuple[float, float] = number_or_range(most=_MAX_SHEAR)
    random_sign: bool = fields.flag(False, keyword=True)
    filter: Take = fields.choice(Take, Take.NEAREST, keyword=True)
    fill: Fill = fill()
    name: str | None = fields.draw_name()


@register
class TranslateX(WarpStep):
    """Move the picture right, by pixels or a share of its width: the TranslateX of torchvision's policies.

    m = low + (high - low) * u0, and -m where random_sign and u1 < 0.5; times the width with unit="fraction". Where
    `whole`, what lies behind the point is cut off, as torchvision does; timm doesn't.

    Args:
        magnitude: m, or (low, high) of it.
        unit: "pixels", or "fraction" of the width.
        whole: Whether to move by a whole number of pixels.
        random_sign: Whether half of all pictures are moved the other way.
        filter: How pixels are taken: nearest, bilinear or bicubic.
        fill: What lies outside: a number, or red, green and blue.
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "translate_x"
    magnitude: tuple[float, float] = number_or_range(most=MAX_SIDE)
    unit: Unit = fields.choice(Unit, Unit.PIXELS, keyword=True)
    whole: bool = fields.flag(True, keyword=True)
    random_sign: bool = fields.flag(False, keyword=True)
    filter: Take = fields.choice(Take, Take.NEAREST, keyword=True)
    fill: Fill = fill()
    name: str | None = fields.draw_name()


@register
class TranslateY(WarpStep):
    """Move the picture down, by pixels or a share of its height: the TranslateY of torchvision's policies.

    m = low + (high - low) * u0, and -m where random_sign and u1 < 0.5; times the height with unit="fraction". Where
    `whole`, what lies behind the point is cut off, as torchvision does; timm doesn't.

    Args:
        magnitude: m, or (low, high) of it.
        unit: "pixels", or "fraction" of the height.
        whole: Whether to move by a whole number of pixels.
        random_sign: Whether half of all pictures are moved the other way.
        filter: How pixels are taken: nearest, bilinear or bicubic.
        fill: What lies outside: a number, or red, green and blue.
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "translate_y"
    magnitude: tuple[float, float] = number_or_range(most=MAX_SIDE)
    unit: Unit = fields.choice(Unit, Unit.PIXELS, keyword=True)
    whole: bool = fields.flag(True, keyword=True)
    random_sign: bool = fields.flag(False, keyword=True)
    filter: Take = fields.choice(Take, Take.NEAREST, keyword=True)
    fill: Fill = fill()
    name: str | None = fields.draw_name()


@register
class Rotate(WarpStep):
    """Turn counterclockwise by an angle between two: torchvision's RandomRotation of PIL images.

    angle = low + (high - low) * u0, and -angle where random_sign and u1 < 0.5. The picture is then Pillow's
    Image.rotate(angle).

    Args:
        degrees: (low, high) of the angle; d is (-d, d).
        random_sign: Whether half of all pictures are turned the other way: policies turn by (d, d) either way.
        filter: How pixels are taken: nearest, bilinear or bicubic.
        expand: Whether the result is as large as the turned picture; else it keeps its size.
        center: (x, y) of the place that stays, from the upper left corner; None: the picture's middle.
        fill: What lies outside: a number, or red, green and blue.
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "rotate"
    ranges = ("degrees",)
    degrees: tuple[float, float] = number_or_range(most=MAX_DEGREES, symmetric=True)
    random_sign: bool = fields.flag(False, keyword=True)
    filter: Take = fields.choice(Take, Take.NEAREST, keyword=True)
    expand: bool = fields.flag(False, keyword=True)
    center: tuple[float, float] | None = center()
    fill: Fill = fill()
    name: str | None = fields.draw_name()

    def after(self, state: State) -> State:
        """Leave the size, or with `expand` leave it open."""
        check_fill(self, state)
        return state.with_size(None, None) if self.expand else state

    def kernel(self) -> dict[str, Any]:
        """Return the fields, with the center's two numbers whether or not it is given."""
        made = WarpStep.kernel(self)
        return {**made, "centered": self.center is None, "center": self.center or (0.0, 0.0)}
