"""Names and weights of a mix's sources, checked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from numbers import Real
from typing import TypeVar

from toolkit.errors import UsageError, did_you_mean
from toolkit.escapes import short

__all__ = ["check_sources", "check_weights", "heated"]

_Source = TypeVar("_Source")


def check_sources(sources: Mapping[str, _Source]) -> Iterable[tuple[str, _Source]]:
    """Return names and sources. Raises UsageError: there is none, or a name is none."""
    if not isinstance(sources, Mapping) or not sources:
        raise UsageError("a mix needs at least one dataset, by its name: {'name': dataset}")
    for name in sources:
        if not isinstance(name, str) or not name or "/" in name or not name.isprintable():
            raise UsageError(f"{short(name, 80, quoted=True)} is no name of a source: a printable text without '/'")
    return sources.items()


def check_weights(sources: Mapping[str, object], weights: Mapping[str, float]) -> dict[str, float]:
    """Return a weight for each source. Raises UsageError: one is missing, is none, or names no source."""
    if not isinstance(weights, Mapping):
        raise UsageError(f"weights must be a number for each name, got {short(weights, 80, quoted=True)}")
    for name in weights:
        if name not in sources:
            hint = did_you_mean(name, sources) if isinstance(name, str) else ""
            raise UsageError(f"weights name {short(name, 80, quoted=True)}, which is no dataset.{hint}")
    return {name: _weight(name, weights) for name in sources}


def heated(weights: Mapping[str, float], temperature: float) -> dict[str, float]:
    """Return weights to the power of 1 / temperature, the largest as it was. Raises UsageError: it is none."""
    if isinstance(temperature, bool) or not isinstance(temperature, Real) or not 0 < temperature < math.inf:
        raise UsageError(f"temperature must be a positive number, got {short(temperature, 80, quoted=True)}")
    if temperature == 1:
        return dict(weights)
    most = max(weights.values())
    return {name: most * (weight / most) ** (1 / float(temperature)) for name, weight in weights.items()}


def _weight(name: str, weights: Mapping[str, float]) -> float:
    if name not in weights:
        raise UsageError(f"dataset {name!r} has no weight: give one to each")
    weight = weights[name]
    if isinstance(weight, bool) or not isinstance(weight, Real):
        raise UsageError(f"the weight of {name!r} must be a number, got {short(weight, 80, quoted=True)}")
    try:
        number = float(weight)
    except OverflowError:
        raise UsageError(f"the weight of {name!r} is beyond float64: weights are shares, give smaller ones") from None
    if not 0 < number < math.inf:
        raise UsageError(f"the weight of {name!r} must be a positive number, got {number!r}: leave out what has none")
    return number
