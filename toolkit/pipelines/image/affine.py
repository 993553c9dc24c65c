"""Steps that draw all parts of an affine or perspective map: torchvision's."""

from __future__ import annotations

from typing import Any

from toolkit.escapes import short
from toolkit.pipelines import fields
from toolkit.pipelines.check import BadArgumentError, a_number, a_pair
from toolkit.pipelines.image.warps import MAX_DEGREES, Fill, Take, WarpStep, center, fill, number_or_range
from toolkit.pipelines.registry import register

__all__ = ["Affine", "Perspective", "Shear"]

_NONE = (0.0, 0.0)
Shears = tuple[float, ...]


def _translate(name: str, value: Any) -> tuple[float, float] | None:
    if value is None:
        return None
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise BadArgumentError(f"{name} must be shares of (width, height), got {short(value, 80, quoted=True)}")
    x, y = (a_number(f"a number of {name}", each, least=0, most=1) for each in value)
    return x, y


def _scale(name: str, value: Any) -> tuple[float, float] | None:
    return None if value is None else a_pair(name, value, least=1e-3, most=1e3)


def _shears(name: str, value: Any) -> Shears | None:
    """Return (low, high) of the shear along x, and where there are four numbers, of that along y."""
    if value is None:
        return None
    if not isinstance(value, (tuple, list)):
        number = a_number(name, value, least=0, most=MAX_DEGREES)
        return 0.0 - number, number
    if len(value) not in (2, 4):
        shown = short(value, 80, quoted=True)
        raise BadArgumentError(f"{name} must be one number, (low, high) or (x low, x high, y low, y high), got {shown}")
    pairs = [a_pair(name, value[at : at + 2], least=-MAX_DEGREES, most=MAX_DEGREES) for at in range(0, len(value), 2)]
    return tuple(end for pair in pairs for end in pair)


class _Centered(WarpStep):
    __slots__ = ()
    center: tuple[float, float] | None

    def kernel(self) -> dict[str, Any]:
        """Return the fields, with the center's two numbers whether or not it is given."""
        made = WarpStep.kernel(self)
        return {**made, "centered": self.center is None, "center": self.center or _NONE}


@register
class Affine(_Centered):
    """Turn, move, scale and shear about the center by what is drawn: torchvision's RandomAffine of PIL images.

    Each is low + (high - low) * u: the angle, clockwise, by u0; the shift of x by u1 and of y by u2, from
    -share * side to share * side, rounded, halves to even; the scale by u3; the shears, in degrees, along x by
    u4 and along y by u5. What is None isn't done. The inverse of the map is torchvision's, and goes to Pillow's
    Image.transform.

    Args:
        degrees: (low, high) of the angle; d is (-d, d).
        translate: The largest shifts, as shares of (width, height).
        scale: (low, high) of the scale.
        shear: (low, high) along x, with two more numbers along y; s is (-s, s) along x.
        filter: How pixels are taken: nearest, bilinear or bicubic.
        fill: What lies outside: a number, or red, green and blue.
        center: (x, y) of the place that stays, from the upper left corner; None: the picture's middle.
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "affine"
    degrees: tuple[float, float] = number_or_range(0.0, most=MAX_DEGREES, symmetric=True)
    translate: tuple[float, float] | None = fields.argument(_translate, "tuple[float, float] | None", None)
    scale: tuple[float, float] | None = fields.argument(_scale, "tuple[float, float] | None", None)
    shear: Shears | None = fields.argument(_shears, "float | tuple[float, ...] | None", None)
    filter: Take = fields.choice(Take, Take.NEAREST, keyword=True)
    fill: Fill = fill()
    center: tuple[float, float] | None = center()
    name: str | None = fields.draw_name()

    @property
    def draws(self) -> bool:
        """Whatever isn't fixed."""
        shear, far = self.shear or _NONE, max(self.translate or _NONE)
        ends = (self.degrees, self.scale or _NONE, shear[:2], shear[2:] or _NONE, (0.0, far))
        return any(each[0] != each[1] for each in ends)

    def kernel(self) -> dict[str, Any]:
        """Return the fields, with what isn't done as ranges of nothing."""
        made = _Centered.kernel(self)
        shears = made.pop("shear") or _NONE
        return {
            **made,
            "translate": self.translate or _NONE,
            "scale": self.scale or (1.0, 1.0),
            "shear_x": shears[:2],
            "shear_y": shears[2:] or _NONE,
        }


@register
class Shear(_Centered):
    """Shear about the center by angles: torchvision's affine with a shear alone.

    Along x by low + (high - low) * u0 degrees, along y by low + (high - low) * u1.

    Args:
        x: (low, high) of the angle along x; s is (-s, s).
        y: (low, high) of the angle along y; s is (-s, s).
        filter: How pixels are taken: nearest, bilinear or bicubic.
        fill: What lies outside: a number, or red, green and blue.
        center: (x, y) of the place that stays, from the upper left corner; None: the picture's middle.
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "shear"
    ranges = ("x", "y")
    x: tuple[float, float] = number_or_range(most=MAX_DEGREES, symmetric=True)
    y: tuple[float, float] = number_or_range(0.0, most=MAX_DEGREES, symmetric=True)
    filter: Take = fields.choice(Take, Take.NEAREST, keyword=True)
    fill: Fill = fill()
    center: tuple[float, float] | None = center()
    name: str | None = fields.draw_name()


@register
class Perspective(WarpStep):
    """Move the four corners inwards, with probability `p`: torchvision's RandomPerspective of PIL images.

    It happens when u0 < p. Let X = int(distortion_scale * (width // 2)), and Y the same of the height. The x of
    the top left, top right, bottom right and bottom left corner draw floor(u * (X + 1)) by u1, u3, u5 and u7,
    their y floor(u * (Y + 1)) by u2, u4, u6 and u8. That is added to 0, on the right to width - X - 1 and at the
    bottom to height - Y - 1. The map takes the corners of the picture, (0, 0) to (width - 1, height - 1), there.
    Its eight numbers are rounded to float32, and go to Pillow's Image.transform. A picture whose corners come to
    lie on a line stays as it is.

    Args:
        distortion_scale: How far the corners move at most, 0 to 1: 1 is to the middle.
        p: The probability.
        filter: How pixels are taken: nearest, bilinear or bicubic.
        fill: What lies outside: a number, or red, green and blue.
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "perspective"
    distortion_scale: float = fields.number(0.5, least=0, most=1)
    p: float = fields.number(0.5, least=0, most=1, keyword=True)
    filter: Take = fields.choice(Take, Take.BILINEAR, keyword=True)
    fill: Fill = fill()
    name: str | None = fields.draw_name()

    @property
    def draws(self) -> bool:
        """Whether it happens, and where the corners go."""
        return True
