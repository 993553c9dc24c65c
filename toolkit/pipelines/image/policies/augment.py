"""Policies whose operations follow each other: rand_augment, auto_augment, trivial_augment_wide and three_augment."""

from __future__ import annotations

import enum
from typing import Any

from toolkit.escapes import short
from toolkit.pipelines import fields
from toolkit.pipelines.check import BadArgumentError, a_number
from toolkit.pipelines.conditions import Maybe
from toolkit.pipelines.image.channels import Grayscale
from toolkit.pipelines.image.filters import GaussianBlur
from toolkit.pipelines.image.image_step import colours
from toolkit.pipelines.image.policies.operations import Sampling, Warping, any_bin, at_bin, at_level, one_of
from toolkit.pipelines.image.policies.policy import Policy, WarpingPolicy
from toolkit.pipelines.image.policies.tables import (
    AUTO_AUGMENT,
    LEARNED,
    LEARNED_BINS,
    RAND_AUGMENT,
    TIMM_DECREASING,
    TIMM_INCREASING,
    TRIVIAL_AUGMENT_WIDE,
    Learned,
)
from toolkit.pipelines.image.tone import Solarize
from toolkit.pipelines.image.warps import Fill, fill
from toolkit.pipelines.registry import register
from toolkit.pipelines.state import State
from toolkit.pipelines.step import Step

__all__ = ["AutoAugment", "Operations", "RandAugment", "ThreeAugment", "TrivialAugmentWide"]

_MOST_BINS = 256
_MOST_LEVEL = 10
_TIMM_FILL = 128


class Operations(enum.Enum):
    """Whose operations rand_augment draws. TIMM: those that all do more at a higher level, timm's "inc1"."""

    TORCHVISION = "torchvision"
    TIMM = "timm"
    TIMM_DECREASING = "timm-decreasing"


def _magnitude(name: str, value: Any) -> float:
    number = a_number(name, value, least=0)
    return int(number) if number.is_integer() else number


@register
class RandAugment(WarpingPolicy):
    """Run `num_ops` operations, each drawn from a list: torchvision's RandAugment, or timm's.

    torchvision's operations are identity, shear, translate and rotate, brightness, color, contrast, sharpness,
    posterize, solarize, autocontrast and equalize, with the magnitude of one bin of `num_magnitude_bins`.
    timm's lack identity and have invert and solarize_add, and the magnitude is a level of 0 to 10. Those with a
    sign take either, half the time. timm's rand-m9-mstd0.5-inc1 is rand_augment(2, 9, ops="timm",
    magnitude_std=0.5, fill=(124, 116, 104)).

    It stands for so many one_of's, whose draws choose operations; what an operation draws goes by its own name.

    Args:
        num_ops: How many operations a picture passes through.
        magnitude: The number of the bin, or with timm's operations a level of 0 to 10.
        ops: "torchvision"; "timm", whose operations do more at a higher level; "timm-decreasing", not all of
            which do.
        num_magnitude_bins: Of torchvision's operations.
        magnitude_std: Of timm's: the level is normal, and cut off at 0 and 10; 0: it is fixed.
        p: The probability of each operation that is drawn; None: 1, or with timm's operations 0.5.
        filter: nearest, bilinear, bicubic or random, one of the last two; None: nearest, or with timm's
            operations random.
        fill: What lies outside of moved pixels: a number, or red, green and blue; None: 0, or with timm's
            operations 128.
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "rand_augment"
    num_ops: int = fields.whole(2, most=32)
    magnitude: float = fields.argument(_magnitude, "float", 9, least=0)
    ops: Operations = fields.choice(Operations, Operations.TORCHVISION, keyword=True)
    num_magnitude_bins: int = fields.whole(31, least=2, most=_MOST_BINS, keyword=True)
    magnitude_std: float = fields.number(0.0, least=0, keyword=True)
    p: float | None = fields.number(None, least=0, most=1, keyword=True, optional=True)
    filter: Sampling | None = fields.choice(Sampling, None, keyword=True, optional=True)
    fill: Fill | None = fill(None)
    name: str | None = fields.draw_name()

    def check_together(self) -> None:
        """Check the magnitude, and that there are no arguments of the other operations."""
        if self.ops is Operations.TORCHVISION:
            bins = self.num_magnitude_bins
            if not isinstance(self.magnitude, int) or self.magnitude >= bins:
                shown = short(self.magnitude, 80, quoted=True)
                raise BadArgumentError(f"magnitude must be a bin, an int in 0..{bins - 1}, got {shown}")
            if self.magnitude_std:
                raise BadArgumentError('magnitude_std goes with ops="timm": torchvision\'s magnitudes are fixed')
            return
        if self.magnitude > _MOST_LEVEL:
            shown = short(self.magnitude, 80, quoted=True)
            raise BadArgumentError(f"magnitude must be within 0..{_MOST_LEVEL} with timm's operations, got {shown}")
        if self.changed("num_magnitude_bins"):
            raise BadArgumentError(
                "num_magnitude_bins goes with torchvision's operations: timm's have levels of 0 to 10"
            )

    @property
    def warping(self) -> Warping:
        """How its operations move pixels."""
        is_timm = self.ops is not Operations.TORCHVISION
        usual = (Sampling.RANDOM, _TIMM_FILL) if is_timm else (Sampling.NEAREST, 0)
        return Warping(self.filter or usual[0], usual[1] if self.fill is None else self.fill)

    def plan(self) -> tuple[tuple[Step, ...], ...]:
        """Return so many branches of all operations."""
        if self.ops is Operations.TORCHVISION:
            bins, number = self.num_magnitude_bins, int(self.magnitude)
            ways = [at_bin(word, scale, number, bins, self.warping) for word, scale in RAND_AUGMENT.items()]
        else:
            table = TIMM_INCREASING if self.ops is Operations.TIMM else TIMM_DECREASING
            level, std = self.magnitude, self.magnitude_std
            ways = [at_level(word, scale, level, std, self.warping) for word, scale in table.items()]
        p = self.p if self.p is not None else 1.0 if self.ops is Operations.TORCHVISION else 0.5
        if p < 1:
            ways = [(Maybe(steps=way, p=p),) if way else way for way in ways]
        return (one_of(ways) * self.num_ops,)


@register
class AutoAugment(WarpingPolicy):
    """Run one of 25 pairs of operations that were learned on a dataset: torchvision's AutoAugment.

    Each operation of the pair is run with its probability, at its magnitude; those with a sign take either,
    half the time.

    Args:
        policy: What it was learned on: "imagenet", "cifar10" or "svhn".
        filter: How pixels are taken: nearest, bilinear, bicubic, or random, which is one of the last two.
        fill: What lies outside of moved pixels: a number, or red, green and blue.
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "auto_augment"
    policy: Learned = fields.choice(Learned, Learned.IMAGENET)
    filter: Sampling = fields.choice(Sampling, Sampling.NEAREST, keyword=True)
    fill: Fill = fill()
    name: str | None = fields.draw_name()

    def plan(self) -> tuple[tuple[Step, ...], ...]:
        """Return a branch of all pairs."""
        return (one_of((self._maybe(*first), self._maybe(*second)) for first, second in LEARNED[self.policy]),)

    def _maybe(self, word: str, p: float, number: int) -> Maybe:
        return Maybe(steps=at_bin(word, AUTO_AUGMENT[word], number, LEARNED_BINS, self.warping), p=p)


@register
class TrivialAugmentWide(WarpingPolicy):
    """Run one operation with any magnitude: torchvision's TrivialAugmentWide.

    The operations are rand_augment's, with wider magnitudes; each, and each of the bins, is as likely as the
    others, and those with a sign take either, half the time.

    Args:
        num_magnitude_bins: How many magnitudes an operation has.
        filter: How pixels are taken: nearest, bilinear, bicubic, or random, which is one of the last two.
        fill: What lies outside of moved pixels: a number, or red, green and blue.
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "trivial_augment_wide"
    num_magnitude_bins: int = fields.whole(31, least=2, most=_MOST_BINS)
    filter: Sampling = fields.choice(Sampling, Sampling.NEAREST, keyword=True)
    fill: Fill = fill()
    name: str | None = fields.draw_name()

    def plan(self) -> tuple[tuple[Step, ...], ...]:
        """Return a branch of all operations, with a branch of all magnitudes in each."""
        bins = self.num_magnitude_bins
        return (one_of(any_bin(word, scale, bins, bins, self.warping) for word, scale in TRIVIAL_AUGMENT_WIDE.items()),)


@register
class ThreeAugment(Policy):
    """Make it gray, solarize or blur it, each as likely: 3-Augment of DeiT III, "3a" in timm.

    Values of 128 or more are inverted; the blur has a sigma of 0.1 to 2, and is gaussian where theirs is the
    box blurs of PIL.ImageFilter.GaussianBlur, which come near.

    Args:
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "three_augment"
    name: str | None = fields.draw_name()

    def after(self, state: State) -> State:
        """Take red, green and blue."""
        colours(state)
        return state

    def plan(self) -> tuple[tuple[Step, ...], ...]:
        """Return a branch of all three."""
        return (one_of([(Grayscale(channels=3),), (Solarize(threshold=128.0),), (GaussianBlur(None, (0.1, 2.0)),)]),)
