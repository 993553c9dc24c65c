"""A step that inverts colours."""

from toolkit.pipelines import fields
from toolkit.pipelines.image.image_step import PixelStep, colours
from toolkit.pipelines.registry import register


@register
class TurnRound(PixelStep):
    """Turn values above `above` round: 255 - value."""

    word = "turn_round"
    above: int = fields.whole(0, least=0, most=255)

    def after(self, state):
        colours(state)
        return state
