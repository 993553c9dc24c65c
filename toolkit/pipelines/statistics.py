"""Means and standard deviations of pixels, as normalisation takes them: given, or by their name."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.errors import did_you_mean
from toolkit.escapes import short
from toolkit.pipelines.check import BadArgumentError, a_number

__all__ = ["LEAST_STD", "check_statistics", "name_of_statistics"]

LEAST_STD = 1e-30  # below, a pixel over it leaves the range of float32
_STATISTICS = {
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "half": ((0.5,), (0.5,)),
    "unit": ((0.0,), (1.0,)),
}


def check_statistics(
    word: str, mean: str | Sequence[float], std: Sequence[float] | None
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return means and standard deviations, one a channel or one for all. Raises BadArgumentError."""
    if isinstance(mean, str):
        if mean not in _STATISTICS:
            known = f"{', '.join(_STATISTICS)}.{did_you_mean(mean, _STATISTICS)}"
            raise BadArgumentError(f"no statistics are called {short(mean, 80, quoted=True)}; known: {known}")
        if std is not None:
            raise BadArgumentError(f"{short(mean, 80, quoted=True)} brings its own std: leave std out")
        return _STATISTICS[mean]
    if std is None:
        raise BadArgumentError(f"means need a std: {word}(mean, std)")
    means, stds = _numbers("mean", mean), _numbers("std", std)
    if len(means) != len(stds):
        raise BadArgumentError(f"mean has {len(means)} values and std {len(stds)}: one of each a channel")
    if not all(value >= LEAST_STD for value in stds):
        raise BadArgumentError(f"std {stds} must be positive, and no smaller than {LEAST_STD}")
    return means, stds


def name_of_statistics(mean: tuple[float, ...], std: tuple[float, ...]) -> str | None:
    """Return what known statistics are called."""
    return next((name for name, statistics in _STATISTICS.items() if statistics == (mean, std)), None)


def _numbers(name: str, values: Sequence[float]) -> tuple[float, ...]:
    if not isinstance(values, Sequence) or isinstance(values, str | bytes) or len(values) not in (1, 3, 4):
        raise BadArgumentError(
            f"{name} must have three values in a tuple or list, one a channel (1 for gray, 4 for rgba), got "
            f"{short(values, 80, quoted=True)}"
        )
    return tuple(a_number(name, value) for value in values)
