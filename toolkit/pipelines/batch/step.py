"""What every step on whole batches is: a frozen class with its word, fields, rule and run; and what it runs on."""

from __future__ import annotations

import enum
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar, cast, dataclass_transform

import numpy as np
from numpy.typing import NDArray

from toolkit.errors import PipelineError, did_you_mean
from toolkit.escapes import listed, short
from toolkit.pipelines.check import BadArgumentError
from toolkit.pipelines.state import MisfitError, State
from toolkit.pipelines.step import Declared

__all__ = [
    "BatchColumn",
    "BatchFaultError",
    "BatchStep",
    "Columns",
    "FilledColumns",
    "Reach",
    "batch_step",
    "find_column",
    "made",
]

_StepClass = TypeVar("_StepClass", bound=type["BatchStep"])


class Reach(enum.Enum):
    """Which other samples a sample's result depends on.

    NONE: on none. PAIR: positions 2k and 2k+1 are partners. BATCH: on whatever is in its batch.
    """

    NONE = "none"
    PAIR = "pair"
    BATCH = "batch"


@dataclass(frozen=True, slots=True)
class BatchColumn:
    """What is known of a batch's column before one is read.

    Attributes:
        state: A sample's value; None where a function of the user's own made it.
        optional: Whether samples may lack it.
        classes: How many classes its label table has; None where it has none.
    """

    state: State | None
    optional: bool = False
    classes: int | None = None


Columns = Mapping[str, BatchColumn]


class BatchFaultError(Exception):
    """A batch that a step can't take; `index` is the sample whose fault it is. Whoever knows the batch says where."""

    def __init__(self, message: str, index: int | None = None, column: str = "") -> None:
        super().__init__(message)
        self.index = index
        self.column = column


@dataclass(slots=True)
class FilledColumns:
    """A batch that steps change in place.

    Attributes:
        columns: Arrays (n, …) and lists by name.
        known: What is known of each.
        positions: int64 (n,): places in the epoch's order; -1 of padding.
        there: bool (n,): neither padding nor skipped.
        present: bool (n,) by name of an optional slot.
        seed, epoch: What draws follow from.
        name: What the step draws by.
        kept: Names of arrays that a function of the user's made, and may keep, or gave two columns.
    """

    columns: dict[str, Any]
    known: Columns
    positions: NDArray[np.int64]
    there: NDArray[np.bool_]
    present: dict[str, NDArray[np.bool_]]
    seed: int
    epoch: int
    name: str = ""
    kept: set[str] = field(default_factory=set)

    def has(self, *names: str) -> NDArray[np.bool_]:
        """Return bool (n,): which samples are there, with a value in each of the columns."""
        there = self.there.copy()
        for name in names:
            if name in self.present:
                there &= self.present[name]
        return there

    def array(self, name: str) -> NDArray[Any]:
        """Return a column as an array in C order, which is its own to change. Raises BatchFaultError: it is a list."""
        values = self.columns[name]
        if not isinstance(values, np.ndarray):
            raise BatchFaultError(f"column {name!r} is {type(values).__name__}, and an array (n, …) is needed")
        own: NDArray[Any] = values
        if name in self.kept or not (own.flags.c_contiguous and own.flags.writeable):
            own = self.columns[name] = np.array(own, order="C")
            self.kept.discard(name)
        return own

    def dtype(self, name: str) -> str:
        """Return a column's dtype: "bfloat16" where its uint16 mean that."""
        state = self.known[name].state if name in self.known else None
        return "bfloat16" if state is not None and state.dtype == "bfloat16" else str(self.columns[name].dtype.name)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BatchStep(Declared):
    """Base of every step on batches. A frozen dataclass that batch_step makes of it.

    Attributes:
        version: Of what it computes.
    """

    version: ClassVar[int] = 1

    @property
    def name(self) -> str | None:
        """What it draws by in place of its ordinal: a field of steps that draw."""
        return None

    @property
    def reach(self) -> Reach:
        """Which other samples a sample's result depends on."""
        return Reach.NONE

    @property
    def draws(self) -> bool:
        """Whether it draws."""
        return self.reach is not Reach.NONE

    @property
    def runs(self) -> str:
        """What runs it, for explain()."""
        return "native"

    def check_together(self) -> None:
        """Raise BadArgumentError when fields that are good alone can't be together."""
        return

    @abstractmethod
    def after(self, columns: Columns) -> Columns:
        """Return the columns after the step. Raises MisfitError when the step isn't for them."""

    @abstractmethod
    def run(self, batch: FilledColumns) -> None:
        """Change the columns. Raises BatchFaultError."""


@dataclass_transform(frozen_default=True, kw_only_default=True)
def batch_step(step: _StepClass) -> _StepClass:
    """Make a step a frozen dataclass whose fields are given by name, so that those of its bases may have defaults."""
    return cast("_StepClass", dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)(step))


_Made = TypeVar("_Made", bound=BatchStep)


def made(step: type[_Made], *arguments: Any, **named: Any) -> _Made:
    """Return a step of checked arguments. Raises PipelineError, with the step's word."""
    try:
        checked = step.of(*arguments, **named)
        checked.check_together()
    except BadArgumentError as error:
        raise PipelineError(f"batch step {step.word}: {error}") from None
    return checked


def find_column(columns: Columns, name: str, option: str) -> BatchColumn:
    """Return a column by name. Raises MisfitError: there is none; `option` is what names one."""
    if name in columns:
        return columns[name]
    known = f"{listed(columns, 64)}.{did_you_mean(name, columns)}" if columns else "none"
    raise MisfitError(f"a column {short(name, 80, quoted=True)}", f"batches of {known}", f"say {option}=")
