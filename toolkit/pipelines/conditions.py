"""Steps that run other steps with a probability: maybe and one_of. They may lie within each other.

Steps on pixels in them run in the native call; any others in Python, on the samples that drew them.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

from toolkit.escapes import short
from toolkit.pipelines import fields
from toolkit.pipelines.check import BadArgumentError, a_number
from toolkit.pipelines.registry import register
from toolkit.pipelines.state import MisfitError, State
from toolkit.pipelines.step import Step, Steps, chain_text, literal
from toolkit.pipelines.value_step import ValueStep

__all__ = ["Branch", "Maybe", "OneOf"]


class _WayMisfitError(MisfitError):
    """A step of a way that doesn't fit; says which."""

    def __init__(self, where: str, error: MisfitError) -> None:
        Exception.__init__(self, f"{where}: {error}")


class Branch(Step):
    """A step that runs one of several lists of steps, or none, as draw 0 says.

    Attributes:
        native_word: What the native call names it, where it runs there.
        keeps_sizes: Whether none of its steps can change the size of a picture.
    """

    __slots__ = ()
    native_word: ClassVar[str]
    keeps_sizes: ClassVar[bool] = False

    @property
    @abstractmethod
    def ways(self) -> tuple[tuple[Step, ...], ...]:
        """The lists of steps."""

    @property
    @abstractmethod
    def limits_of_ways(self) -> list[float]:
        """The limit below which the draw must be for each way: the first such is taken."""

    @property
    def native_fields(self) -> dict[str, object]:
        """What the native call takes for it, but its id."""
        return {"limits": self.limits_of_ways}

    def passes(self, of_ways: list[int]) -> int:
        """Return how many steps on pixels a picture passes through in it at most; `of_ways`: in each of its ways."""
        return max(of_ways, default=0)

    @abstractmethod
    def path(self, way: int) -> str:
        """Return what stands between the branch's draw name and those of a way's steps."""

    @property
    def inner(self) -> tuple[Step, ...]:
        """The steps within it."""
        return tuple(itertools.chain.from_iterable(self.ways))

    @property
    def is_native(self) -> bool:
        """Whether all of its steps run in an image slot's native call."""
        return all(step.is_native for step in self.inner)

    @property
    def draws(self) -> bool:
        """Which way it goes."""
        return True

    @property
    def native(self) -> str:
        """What runs it there, for explain()."""
        return "native, the steps that are drawn"

    @property
    def runs(self) -> str:
        """What runs it, for explain()."""
        return "Python, the steps that are drawn"

    def text(self) -> str:
        """Write the ways as chains."""
        options = [field.name for field in dataclasses.fields(self) if field.default is not dataclasses.MISSING]
        named = [f"{name}={literal(value)}" for name, value in self.changed(*options).items()]
        return f"{self.word}({', '.join([*map(chain_text, self.ways), *named])})"

    def _after_way(self, way: int, state: State) -> State:
        """Return what the value is after a way; raise MisfitError that names the step."""
        steps = self.ways[way]
        for place, step in enumerate(steps, start=1):
            where = f"{self._where(way)}, step {place} {step.text()}"
            if step.takes_bytes:
                fix = "a column is decoded once, by the slot's first step: put it in front"
                raise _WayMisfitError(where, MisfitError("a step behind the decoding", step.text(), fix))
            try:
                after = step.after(state)
            except MisfitError as error:
                raise _WayMisfitError(where, error) from None
            if state.layout is not None and step.is_native and not after.is_picture:
                fix = "pixels are written in one way: put it behind the branch"
                raise _WayMisfitError(where, MisfitError("a step on pixels", step.text(), fix))
            state = after
        return state

    def _check_runs(self, state: State) -> None:
        """Raise MisfitError when the steps don't all run on pixels, or all in Python, or the pixels are finished."""
        if self.is_native and state.layout is not None and not state.is_picture:
            fix = "put the branch in front of normalize, cast and layout"
            raise MisfitError("pixels", f"a {state.dtype} {state.sizes()} tensor", fix)
        on_pixels = [step for step in _flat(self.inner) if not isinstance(step, ValueStep)]
        if on_pixels and not self.is_native:
            other = next(step for step in self.inner if not step.is_native)
            raise MisfitError(
                "steps on pixels alone, or none",
                f"{on_pixels[0].text()} and {other.text()}",
                "put each in a branch of its own; with the same name= they draw alike",
            )

    def _where(self, way: int) -> str:
        return f"branch {way + 1}"


@register
class Maybe(Branch):
    """Run the steps of a chain with probability `p`: when u0 < p.

    They must leave what they are given, but for an image's height and width.

    Args:
        chain: The steps: toolkit.chain().hflip().pad(2).
        p: The probability.
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "maybe"
    native_word = "maybe"
    steps: tuple[Step, ...]
    p: float = fields.number(0.5, least=0, most=1)
    name: str | None = fields.draw_name()

    @classmethod
    def of(cls, chain: Steps, p: float = 0.5, *, name: str | None = None) -> Self:
        """Take a chain's steps."""
        steps = _steps(chain)
        if not steps:
            raise BadArgumentError("the chain has no steps")
        return cls.checked(steps=steps, p=p, name=name)

    @property
    def ways(self) -> tuple[tuple[Step, ...], ...]:
        """The one list of steps."""
        return (self.steps,)

    @property
    def limits_of_ways(self) -> list[float]:
        """The probability."""
        return [self.p]

    def path(self, way: int) -> str:
        """Return nothing: there is one way."""
        return ""

    def after(self, state: State) -> State:
        """Leave what was there, or its size open."""
        after = self._after_way(0, state)
        self._check_runs(state)
        return _joined(state, after, "a sample that isn't drawn keeps what it has, and the others must agree")

    def identity(self) -> list[object]:
        """Return what counts in describe(): that of its steps."""
        return [type(self).__name__, {"steps": _identities(self.steps), "p": self.p, "name": self.name}]

    def _where(self, way: int) -> str:
        return "within it"


@register
class OneOf(Branch):
    """Run the steps of one of several chains, by weights: the first whose share, with all before it, is above u0.

    All must leave the same, but for an image's height and width. A chain without steps leaves the sample alone.

    Args:
        chains: Two or more.
        weights: One for each; None: all alike.
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "one_of"
    native_word = "one_of"
    branches: tuple[tuple[Step, ...], ...]
    weights: tuple[float, ...] | None = fields.argument(
        lambda name, value: _weights(name, value), "Sequence[float] | None", None, keyword=True
    )
    name: str | None = fields.draw_name()

    @classmethod
    def of(cls, *chains: Steps, weights: Sequence[float] | None = None, name: str | None = None) -> Self:
        """Take the chains' steps."""
        branches = tuple(_steps(each) for each in chains)
        if len(branches) < 2:
            raise BadArgumentError(f"it takes two chains or more, got {len(branches)}")
        made = cls.checked(branches=branches, weights=weights, name=name)
        if made.weights is not None and len(made.weights) != len(branches):
            raise BadArgumentError(
                f"weights must be one for each of {len(branches)} chains, got {short(weights, 80, quoted=True)}"
            )
        return made

    @property
    def ways(self) -> tuple[tuple[Step, ...], ...]:
        """The branches."""
        return self.branches

    @property
    def limits_of_ways(self) -> list[float]:
        """The sums of the shares."""
        weights = (1.0,) * len(self.branches) if self._is_even else self.weights or ()
        sums = list(itertools.accumulate(weights))
        return [below / sums[-1] for below in sums]

    def path(self, way: int) -> str:
        """Return the way's number."""
        return f"{way}/"

    def after(self, state: State) -> State:
        """Leave what all leave, sizes open where they differ."""
        joined = self._after_way(0, state)
        for way in range(1, len(self.branches)):
            fix = f"branch {way + 1} must leave what the branches before it leave"
            joined = _joined(joined, self._after_way(way, state), fix)
        self._check_runs(state)
        return joined

    def identity(self) -> list[object]:
        """Return what counts in describe(): that of its steps, and the shares."""
        branches = [_identities(steps) for steps in self.branches]
        weights = None if self._is_even else self.limits_of_ways
        return [type(self).__name__, {"branches": branches, "weights": weights, "name": self.name}]

    @property
    def _is_even(self) -> bool:
        return len(set(self.weights or ())) < 2


def _steps(chain: object) -> tuple[Step, ...]:
    if not isinstance(chain, Steps):
        raise BadArgumentError(f"it takes chains, got {type(chain).__name__}: begin with toolkit.chain()")
    return chain.steps


def _weights(name: str, value: Any) -> tuple[float, ...] | None:
    if value is None:
        return None
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise BadArgumentError(f"{name} must be a list of numbers, got {short(value, 80, quoted=True)}")
    weights = tuple(a_number(f"a weight of {name}", each, least=0) for each in value)
    if not 0 < sum(weights) < math.inf:
        what = "not all be 0" if not any(weights) else "have a finite sum"
        raise BadArgumentError(f"{name} must {what}, got {short(value, 80, quoted=True)}")
    return weights


def _identities(steps: Sequence[Step]) -> list[object]:
    return [step.identity() for step in steps]


def _flat(steps: Sequence[Step]) -> Iterator[Step]:
    """Yield the steps that are no branches, of branches too."""
    for step in steps:
        if isinstance(step, Branch):
            yield from _flat(step.inner)
        else:
            yield step


def _joined(one: State, other: State, fix: str) -> State:
    """Return what both are, with heights and widths open where they differ. Raises MisfitError."""
    if one == other:
        return one
    same = replace(one, shape=None) == replace(other, shape=None) and one.layout is not None
    if not same or one.channels != other.channels or not one.is_picture:
        raise MisfitError(str(one), other, fix)
    assert one.shape is not None
    assert other.shape is not None
    height, width = (a if a == b else None for a, b in zip(one.shape[:2], other.shape[:2], strict=True))
    return one.with_size(height, width)
