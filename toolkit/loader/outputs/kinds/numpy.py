"""numpy arrays: the memory that a batch was filled in, as it is."""

from __future__ import annotations

from typing import Any

from toolkit.loader.outputs.spec import OutputSpec, RowPlacement
from toolkit.loader.outputs.values import Converter

__all__ = ["SPEC"]


class NumpyOutput(OutputSpec):
    """Arrays of numpy, which has no bfloat16: such columns stay uint16."""

    name = "numpy"

    def _converter(self) -> Converter:
        return _same

    def rows(self, sharding: Any = None) -> RowPlacement:
        """Return the rows as they are."""
        return RowPlacement(_as_they_are)


def _same(values: Any, dtype: str | None = None) -> Any:
    return values


def _as_they_are(rows: Any, shape: tuple[int, int]) -> Any:
    return rows


SPEC = NumpyOutput()
