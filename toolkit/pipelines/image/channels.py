"""Steps that mix or choose channels."""

from __future__ import annotations

from typing import Any, Self

from toolkit.escapes import short
from toolkit.pipelines import fields
from toolkit.pipelines.check import BadArgumentError
from toolkit.pipelines.image.image_step import ColourStep, colours
from toolkit.pipelines.registry import register
from toolkit.pipelines.state import State

__all__ = ["Grayscale"]


def _channels(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value not in (1, 3):
        raise BadArgumentError(f"{name} must be 1 or 3, got {short(value, 80, quoted=True)}")
    return value


@register
class Grayscale(ColourStep):
    """Make it gray, in 1 or 3 equal channels: PIL's L of an RGB image, torchvision's RandomGrayscale.

    It happens when u0 < p.

    Args:
        channels: 1, or 3 equal ones.
        p: The probability; below 1 only with 3 channels, which colour pictures have, too.
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "grayscale"
    channels: int = fields.argument(_channels, "int", 1, keyword=True, least=1, most=3)
    p: float = fields.number(1.0, least=0, most=1, keyword=True)
    name: str | None = fields.draw_name()

    @classmethod
    def of(cls, *, channels: int = 1, p: float = 1.0, name: str | None = None) -> Self:
        """Check that what is gray and what isn't have as many channels."""
        made = cls.checked(channels=channels, p=p, name=name)
        if made.p < 1 and made.channels != 3:
            raise BadArgumentError(
                f"channels must be 3 with p={made.p}, got {channels}: a picture that stays as it is has 3"
            )
        return made

    def after(self, state: State) -> State:
        """Make the channels."""
        height, width, _ = colours(state)
        return State(state.kind, state.dtype, (height, width, self.channels), state.layout)
