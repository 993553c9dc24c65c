"""Steps that put values in place of rectangles: of pixels, and of the tensor that they become."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, Self

from toolkit._native.image.program import MAX_SIDE
from toolkit.errors import did_you_mean
from toolkit.escapes import short
from toolkit.pipelines import fields
from toolkit.pipelines.check import BadArgumentError, a_number, a_size, an_int
from toolkit.pipelines.image.image_step import PixelStep, TensorStep, pixels_or_floats
from toolkit.pipelines.registry import register
from toolkit.pipelines.state import MisfitError, State, ValueKind
from toolkit.pipelines.step import call_text

__all__ = ["Cutout", "Erasing", "RandomErasing"]

_LARGEST = 1e6
_MOST_FLOAT16 = 65504.0
_MOST_RECTANGLES = 64


class Erasing(enum.Enum):
    """What comes in place of a rectangle."""

    CONSTANT = "constant"
    RANDOM = "random"
    RANDOM_COLOR = "random_color"


_WORDS = (Erasing.RANDOM.value, Erasing.RANDOM_COLOR.value)


def _values(name: str, value: Any) -> tuple[float, ...]:
    """Return the numbers of a number, or of one a channel."""
    many = value if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray) else (value,)
    if len(many) not in (1, 3, 4):
        raise BadArgumentError(f"{name} must be a number, or one a channel, got {short(value, 80, quoted=True)}")
    return tuple(a_number(name, each, least=-_LARGEST, most=_LARGEST) for each in many)


def _count(name: str, value: Any) -> tuple[int, int]:
    """Return (fewest, most) of a number or a pair."""
    ends = value if isinstance(value, (tuple, list)) else (value, value)
    if len(ends) != 2:
        raise BadArgumentError(f"{name} must be a number or (fewest, most), got {short(value, 80, quoted=True)}")
    fewest, most = (an_int(name, end, most=_MOST_RECTANGLES) for end in ends)
    if fewest > most:
        raise BadArgumentError(f"{name} must be (fewest, most), got {short(value, 80, quoted=True)}")
    return fewest, most


@register
class RandomErasing(PixelStep, TensorStep):
    """Erase a random rectangle with probability `p`: torchvision's RandomErasing, on pixels or behind normalize.

    When u0 < p: of count = fewest + floor(u1 * (most - fewest + 1)) rectangles, rectangle r is attempt a of 0..9,
    the first that fits. With k = 2 + 40r + 4a: area = H * W * (scale[0] + (scale[1] - scale[0]) * u[k]) / count,
    ratio = exp(log(ratio[0]) + (log(ratio[1]) - log(ratio[0])) * u[k + 1]), h = round(sqrt(area * ratio)),
    w = round(sqrt(area / ratio)), halves to even. It fits with h < H and w < W: top = floor(u[k + 2] * (H - h +
    1)), left = floor(u[k + 3] * (W - w + 1)). After ten failures it stays.

    All channels are erased, alpha too. "random" draws each value of the rectangle, "random_color" one for each
    channel of it: on pixels 0..255, all alike; on a tensor from the normal distribution of mean 0 and standard
    deviation 1, as torchvision and timm.

    Args:
        p: The probability.
        scale: Share of the picture's area that the rectangles have together, (low, high).
        ratio: Height by width of a rectangle, (low, high).
        value: What comes in its place: a number, one a channel, "random" or "random_color". On pixels a level of
            0..255, on a tensor any number.
        count: How many rectangles, as timm's: a number, or (fewest, most).
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "random_erasing"
    p: float = fields.number(0.5, least=0, most=1)
    scale: tuple[float, float] = fields.pair((0.02, 0.33), least=0.0, most=1.0, keyword=True)
    ratio: tuple[float, float] = fields.pair((0.3, 3.3), least=1e-3, most=1e3, keyword=True)
    value: tuple[float, ...] = fields.argument(
        _values, "float | Sequence[float] | str", (0.0,), keyword=True, least=-_LARGEST, most=_LARGEST
    )
    mode: Erasing = fields.choice(Erasing, Erasing.CONSTANT, keyword=True)
    count: tuple[int, int] = fields.argument(
        _count, "int | tuple[int, int]", (1, 1), keyword=True, least=1, most=_MOST_RECTANGLES
    )
    name: str | None = fields.draw_name()

    @classmethod
    def of(
        cls,
        p: float = 0.5,
        *,
        scale: tuple[float, float] = (0.02, 0.33),
        ratio: tuple[float, float] = (0.3, 3.3),
        value: float | Sequence[float] | str = 0.0,
        count: int | tuple[int, int] = 1,
        name: str | None = None,
    ) -> Self:
        """Take what comes in place of a rectangle as numbers or a word."""
        given: dict[str, Any] = {"value": value}
        if isinstance(value, str):
            if value not in _WORDS:
                known = " or ".join(_WORDS)
                raise BadArgumentError(
                    f"value must be a number, one a channel, or {known}, got {short(value, 80, quoted=True)}."
                    f"{did_you_mean(value, _WORDS)}"
                )
            given = {"mode": value}
        return cls.checked(p=p, scale=scale, ratio=ratio, count=count, name=name, **given)

    def after(self, state: State) -> State:
        """Leave what it is."""
        check_values(self.value, state)
        return state

    def kernel(self) -> dict[str, Any]:
        """Give each channel a value."""
        return PixelStep.kernel(self) | {"value": four(self.value)}

    def text(self) -> str:
        """Write what comes in place of a rectangle in one."""
        given = self.changed("p", "scale", "ratio", "value", "count", "name")
        if self.mode is not Erasing.CONSTANT:
            given["value"] = self.mode
        elif len(self.value) == 1 and "value" in given:
            given["value"] = self.value[0]
        order = [name for name in ("p", "scale", "ratio", "value", "count", "name") if name in given]
        return call_text(self.word, **{name: given[name] for name in order})

    @property
    def draws(self) -> bool:
        """Whether it erases, what, and with what."""
        return True

    @property
    def native(self) -> str:
        """What runs it there, for explain()."""
        return "native, in place"


@register
class Cutout(PixelStep, TensorStep):
    """Erase squares whose middles may lie anywhere: DeVries and Taylor's Cutout, on pixels or behind normalize.

    It happens when u0 < p. Hole i has its middle at y = floor(u[1 + 2i] * H), x = floor(u[2 + 2i] * W); its first
    row is y - height // 2, its first column x - width // 2, and what of it lies outside of the picture is left out.
    All channels are erased, alpha too.

    Args:
        size: Of a hole: one number or (height, width).
        holes: How many.
        value: What comes in their place: a number, or one a channel. On pixels a level of 0..255, on a tensor any.
        p: The probability.
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "cutout"
    height: int = fields.whole(most=MAX_SIDE)
    width: int = fields.whole(most=MAX_SIDE)
    holes: int = fields.whole(1, most=_MOST_RECTANGLES, keyword=True)
    value: tuple[float, ...] = fields.argument(
        _values, "float | Sequence[float]", (0.0,), keyword=True, least=-_LARGEST, most=_LARGEST
    )
    p: float = fields.number(1.0, least=0, most=1, keyword=True)
    name: str | None = fields.draw_name()

    @classmethod
    def of(
        cls,
        size: int | tuple[int, int],
        *,
        holes: int = 1,
        value: float | Sequence[float] = 0.0,
        p: float = 1.0,
        name: str | None = None,
    ) -> Self:
        """Take both sides in one."""
        height, width = a_size(size, most=MAX_SIDE)
        return cls.checked(height=height, width=width, holes=holes, value=value, p=p, name=name)

    def after(self, state: State) -> State:
        """Leave what it is."""
        check_values(self.value, state)
        return state

    def kernel(self) -> dict[str, Any]:
        """Give each channel a value."""
        return PixelStep.kernel(self) | {"value": four(self.value)}

    def text(self) -> str:
        """Write both sides, and one value, in one."""
        given = self.changed("holes", "value", "p", "name")
        if "value" in given:
            given["value"] = _told(self.value)
        side = self.height if self.height == self.width else (self.height, self.width)
        return call_text(self.word, side, **given)

    @property
    def draws(self) -> bool:
        """Whether it erases, and where."""
        return True

    @property
    def native(self) -> str:
        """What runs it there, for explain()."""
        return "native, in place"


def check_values(values: Sequence[float], state: State) -> None:
    """Raise MisfitError unless the values, one or one a channel, can stand in the state's pixels or tensor."""
    channels = pixels_or_floats(state)
    if len(values) not in (1, channels):
        raise MisfitError(f"{len(values)} channels, one for each value", channels, "give one value, or one a channel")
    if state.kind is ValueKind.PIXELS and not all(each.is_integer() and 0 <= each <= 255 for each in values):
        fix = "put it behind normalize, where any number may be, or give levels"
        raise MisfitError("levels of 0 to 255", short(_told(values), 80, quoted=True), fix)
    if state.dtype == "float16" and max(map(abs, values)) > _MOST_FLOAT16:
        raise MisfitError("values that float16 has", _told(values), "cast to float32 or bfloat16")


def four(values: Sequence[float]) -> tuple[float, ...]:
    """Return a value for each of four channels."""
    return (*values, *[0.0] * (4 - len(values))) if len(values) > 1 else tuple(values) * 4


def _told(values: Sequence[float]) -> object:
    return values[0] if len(values) == 1 else values
