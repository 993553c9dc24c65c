"""The step that moves pixels by a random field."""

from __future__ import annotations

import enum
from typing import Any

from toolkit.escapes import short
from toolkit.pipelines import fields
from toolkit.pipelines.check import BadArgumentError, a_number
from toolkit.pipelines.image.image_step import PixelStep
from toolkit.pipelines.image.warps import Fill, check_fill, fill, fill_of
from toolkit.pipelines.registry import register
from toolkit.pipelines.state import State

__all__ = ["Elastic", "Mixing"]


class Mixing(enum.Enum):
    """Which pixels around a displaced position are mixed."""

    NEAREST = "nearest"
    BILINEAR = "bilinear"


def _alpha(name: str, value: Any) -> tuple[float, float]:
    if not isinstance(value, (tuple, list)):
        number = a_number(name, value, least=0, most=1e6)
        return number, number
    if len(value) != 2:
        raise BadArgumentError(f"{name} must be one number or (x, y), got {short(value, 80, quoted=True)}")
    x, y = (a_number(f"a number of {name}", each, least=0, most=1e6) for each in value)
    return x, y


@register
class Elastic(PixelStep):
    """Move every pixel by a smooth random field: torchvision's ElasticTransform.

    Pixel i, counted along the rows, draws 64 bits: its noise along x is the highest 24 of them over 2**23, less
    1, and along y the next 24. Each noise is blurred by a Gaussian of int(8 * sigma + 1) taps, or one more where
    that is even, mirrored at the edges, and multiplied by alpha / 2. So many pixels away, to the right and down,
    lies what the pixel is taken from. (torchvision says alpha / width on a grid from -1 to 1, which is the same.)
    It is sampled as by torch's grid_sample with align_corners=False: pixels outside are 0, and where the shares
    of those inside sum to m, the mix is weighed by m and `fill` by 1 - m. Halves are rounded to even. Alpha is a
    channel like the others.

    Args:
        alpha: How far pixels move: one number, or (x, y).
        sigma: How smooth the field is; 0: not at all.
        filter: nearest or bilinear.
        fill: What lies outside: a number, or red, green and blue.
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "elastic"
    alpha: tuple[float, float] = fields.argument(_alpha, "float | tuple[float, float]", (50.0, 50.0), least=0, most=1e6)
    sigma: float = fields.number(5.0, least=0, most=100)
    filter: Mixing = fields.choice(Mixing, Mixing.BILINEAR, keyword=True)
    fill: Fill = fill()
    name: str | None = fields.draw_name()

    def after(self, state: State) -> State:
        """Leave the size."""
        check_fill(self, state)
        return state

    @property
    def draws(self) -> bool:
        """The field."""
        return True

    def kernel(self) -> dict[str, Any]:
        """Return the fields, fill as four numbers."""
        return {**PixelStep.kernel(self), "fill": fill_of(self.fill)}

    @property
    def native(self) -> str:
        """What runs it there, for explain()."""
        return f"native {self.filter.value}, on the whole picture"
