"""Functions of the user's own over whole batches. They run on a worker, before delivery, as batch steps do."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from toolkit.errors import PipelineError
from toolkit.escapes import short
from toolkit.pipelines.arrays import owned_array
from toolkit.pipelines.batch.step import BatchStep
from toolkit.pipelines.check import BadArgumentError, a_number, an_int
from toolkit.pipelines.functions import function_name
from toolkit.pipelines.randomness import batch_key, generator

__all__ = ["BatchMap", "as_batch_map", "batch_map", "run_batch_map"]


@dataclass(frozen=True, slots=True, repr=False)
class BatchMap:
    """A function from a batch's columns to a batch's columns.

    Attributes:
        fn: fn(columns, rng): a dict of name -> array (n, …) or list of n, which are its own to change, and a numpy
            Generator that follows from seed, epoch and the batch's first position alone. Returns a dict alike.
        adds, drops: Names that it returns besides those it got, and that it leaves out. Any other change is an error.
        timeout: Seconds that a call may take; None: any time.
        version: Counts in describe(): the user's way to say that the function changed.
    """

    fn: Callable[..., Any]
    adds: tuple[str, ...] = ()
    drops: tuple[str, ...] = ()
    timeout: float | None = 60.0
    version: int = 1

    def __repr__(self) -> str:
        return function_name(self.fn)


def batch_map(
    fn: Callable[..., Any],
    *,
    adds: tuple[str, ...] = (),
    drops: tuple[str, ...] = (),
    timeout: float | None = 60.0,
    version: int = 1,
) -> BatchMap:
    """Say more of a batch map than the function alone; see BatchMap. Raises PipelineError."""
    if not callable(fn):
        raise PipelineError(f"batch_maps takes functions, got {short(fn, 80, quoted=True)}")
    try:
        adds, drops = _names("adds", adds), _names("drops", drops)
        timeout = None if timeout is None else a_number("timeout", timeout, least=0.001)
        an_int("version", version, least=0)
    except BadArgumentError as error:
        raise PipelineError(f"batch map {function_name(fn)}: {error}") from None
    return BatchMap(fn, adds, drops, timeout, version)


def as_batch_map(value: BatchStep | BatchMap | Callable[..., Any]) -> BatchStep | BatchMap:
    """Return a function as a batch map, and a batch map or a batch step as it is."""
    return value if isinstance(value, BatchStep | BatchMap) else batch_map(value)


def run_batch_map(
    made: BatchMap, place: int, columns: dict[str, Any], samples: int, *, seed: int, epoch: int, first_position: int
) -> dict[str, Any]:
    """Return what batch map number `place` makes of the columns.

    Raises:
        ValueError: It returned other names, or columns of another length.
    """
    expected = [name for name in (*columns, *made.adds) if name not in made.drops]
    result = made.fn(columns, generator(batch_key(seed, epoch, place, first_position)))
    if not isinstance(result, Mapping):
        raise ValueError(f"it must return a dict of columns, got {type(result).__name__}")
    lost, strange = set(expected) - set(result), set(result) - set(expected)
    if lost or strange:
        problem = f"lost {', '.join(sorted(lost))}" if lost else f"added {', '.join(sorted(map(str, strange)))}"
        raise ValueError(f"it {problem}: say so with toolkit.batch_map(fn, adds=…, drops=…)")
    for name in expected:
        values = result[name]
        if isinstance(values, str | bytes | Mapping | Set):
            raise ValueError(f"it returned {type(values).__name__} for {name!r}, which takes an array or a list")
        length = len(values) if getattr(values, "shape", True) and hasattr(values, "__len__") else None
        if length != samples:
            raise ValueError(f"it returned {length} values of {name!r} for {samples} samples")
    return {name: _owned(name, result[name]) for name in expected}


def _names(option: str, names: object) -> tuple[str, ...]:
    if not isinstance(names, Collection) or isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise BadArgumentError(f"{option} must be a tuple of names, got {short(names, 80, quoted=True)}")
    return tuple(names)


def _owned(name: str, values: Any) -> Any:
    """Return arrays as frameworks take them, a whole column in C order; anything else as it is, tuples as lists."""
    if isinstance(values, np.ndarray):
        try:
            return np.ascontiguousarray(owned_array(values))
        except ValueError as error:
            raise ValueError(f"column {name!r}: {error}") from error
    if not isinstance(values, list | tuple):
        return values
    made = list(values)
    for i, value in enumerate(made):
        if isinstance(value, np.ndarray):
            try:
                made[i] = owned_array(value)
            except ValueError as error:
                raise ValueError(f"value {i} of column {name!r}: {error}") from error
    return made
