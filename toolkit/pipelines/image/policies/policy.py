"""What every policy is: one step, which runs operations that it draws."""

from __future__ import annotations

import functools
from abc import abstractmethod
from typing import Any, Self

from toolkit.pipelines.conditions import Branch
from toolkit.pipelines.image.image_step import pixels
from toolkit.pipelines.image.policies.operations import Sampling, Warping
from toolkit.pipelines.image.warps import Fill
from toolkit.pipelines.state import MisfitError, State
from toolkit.pipelines.step import Step

__all__ = ["Policy", "WarpingPolicy"]


class Policy(Branch):
    """A step that stands for a tree of branches and steps on pixels, which change neither sizes nor channels."""

    __slots__ = ()
    native_word = "one_of"
    keeps_sizes = True

    @classmethod
    def checked(cls, **values: Any) -> Self:
        """Check what the fields must be together, too."""
        made = super().checked(**values)
        made.check_together()
        return made

    @abstractmethod
    def plan(self) -> tuple[tuple[Step, ...], ...]:
        """Return its ways, which are made once."""

    def check_together(self) -> None:
        """Raise BadArgumentError where fields contradict each other."""

    @property
    def ways(self) -> tuple[tuple[Step, ...], ...]:
        """The one way, with all that may be drawn."""
        return _ways_of(self)

    @property
    def limits_of_ways(self) -> list[float]:
        """It is always taken."""
        return [1.0]

    @property
    def is_native(self) -> bool:
        """All of its operations are."""
        return True

    def path(self, way: int) -> str:
        """Return nothing: there is one way."""
        return ""

    def after(self, state: State) -> State:
        """Take gray pixels, or red, green and blue."""
        *_, channels = pixels(state)
        if channels == 4:
            fix = 'decode_image(mode="rgb") leaves alpha out'
            raise MisfitError("red, green and blue, or gray", "pixels with alpha", fix)
        return state

    @property
    def native(self) -> str:
        """What runs it there, for explain()."""
        return "native, the operations that are drawn"

    def text(self) -> str:
        """Write the fields, not the steps."""
        return Step.text(self)

    def identity(self) -> list[object]:
        """Return what counts in describe(): the fields."""
        return Step.identity(self)


class WarpingPolicy(Policy):
    """A policy some of whose operations move pixels.

    Attributes:
        filter: How they take them.
        fill: What lies outside the picture.
    """

    __slots__ = ()
    filter: Sampling | None
    fill: Fill | None

    def after(self, state: State) -> State:
        """Take pixels that the fill is one for."""
        fill = self.warping.fill
        if pixels(state)[2] == 1 and not isinstance(fill, int):
            raise MisfitError("red, green and blue pixels", "gray ones", f"say fill={fill[0]}, one number")
        return super().after(state)

    @property
    def warping(self) -> Warping:
        """How its operations move pixels."""
        return Warping(self.filter or Sampling.NEAREST, self.fill or 0)


@functools.lru_cache(maxsize=32)
def _ways_of(policy: Policy) -> tuple[tuple[Step, ...], ...]:
    return policy.plan()
