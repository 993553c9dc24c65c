"""aug_mix: what several chains of drawn operations make of a picture, mixed with the picture."""

from __future__ import annotations

from typing import Any

from toolkit._native.image.program import MAX_ALPHA, MAX_MIXED, MIN_ALPHA
from toolkit.escapes import short
from toolkit.pipelines import fields
from toolkit.pipelines.check import MAX_INT, BadArgumentError, an_int
from toolkit.pipelines.conditions import Maybe
from toolkit.pipelines.image.policies.operations import Sampling, Way, any_bin, one_of
from toolkit.pipelines.image.policies.policy import WarpingPolicy
from toolkit.pipelines.image.policies.tables import AUG_MIX, AUG_MIX_MORE
from toolkit.pipelines.image.warps import Fill, fill
from toolkit.pipelines.registry import register
from toolkit.pipelines.step import Step

__all__ = ["AugMix"]

_BINS = 10


def _depth(name: str, value: Any) -> int:
    depth = an_int(name, value, least=-1)
    if depth == 0:
        raise BadArgumentError(f"{name} must be 1 or more, or -1 for any of 1 to 3, got {short(value)}")
    return depth


@register
class AugMix(WarpingPolicy):
    """Mix a picture with what chains of operations make of it: torchvision's AugMix.

    Each chain runs `chain_depth` operations of rand_augment's list without identity, each with the magnitude of
    one of the first `severity` of ten bins; those with a sign take either, half the time. With (m, 1 - m) drawn
    from Beta(alpha, alpha) and w of the chains from Dirichlet(alpha), the result is m * picture + the sum of
    (1 - m) * w[i] * chain i in float32, cut off. Operations are those of PIL images, as in every policy here;
    torchvision's AugMix runs those of tensors, whose bilinear ones differ.

    Args:
        severity: How many magnitudes may be drawn, 1 to 10.
        mixture_width: How many chains there are.
        chain_depth: How many operations a chain has; -1: 1, 2 or 3, each as likely.
        alpha: Of the distributions that the shares are drawn from.
        all_ops: Whether brightness, color, contrast and sharpness are among the operations.
        filter: How pixels are taken: nearest, bilinear, bicubic, or random, which is one of the last two.
        fill: What lies outside of moved pixels: a number, or red, green and blue.
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "aug_mix"
    severity: int = fields.whole(3, most=_BINS)
    mixture_width: int = fields.whole(3, most=MAX_MIXED)
    chain_depth: int = fields.argument(_depth, "int", -1, least=-1, most=MAX_INT)
    alpha: float = fields.number(1.0, least=MIN_ALPHA, most=MAX_ALPHA)
    all_ops: bool = fields.flag(True)
    filter: Sampling = fields.choice(Sampling, Sampling.BILINEAR, keyword=True)
    fill: Fill = fill()
    name: str | None = fields.draw_name()

    native_word = "mix"

    @property
    def native_fields(self) -> dict[str, object]:
        """What its shares are drawn by."""
        return {"alpha": self.alpha}

    def passes(self, of_ways: list[int]) -> int:
        """Return how many steps that counts for: all chains run, and each is mixed."""
        return 1 + sum(1 + passes for passes in of_ways)

    def path(self, way: int) -> str:
        """Return the chain's number."""
        return f"{way}/"

    def plan(self) -> tuple[tuple[Step, ...], ...]:
        """Return the chains."""
        space = AUG_MIX_MORE if self.all_ops else AUG_MIX
        drawn = one_of(any_bin(word, scale, self.severity, _BINS, self.warping) for word, scale in space.items())
        return (_chain(drawn, self.chain_depth),) * self.mixture_width


def _chain(drawn: Way, depth: int) -> Way:
    """Return so many operations, or any of 1 to 3: a second one with 2/3, and then a third one with 1/2."""
    if depth > 0:
        return drawn * depth
    return (*drawn, Maybe(steps=(*drawn, Maybe(steps=drawn, p=1 / 2)), p=2 / 3))
