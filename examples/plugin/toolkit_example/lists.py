"""An output: ds.loader(output="lists") gives numbers as nested lists, ready for JSON."""

from __future__ import annotations

from typing import Any

import numpy as np

from toolkit.loader.outputs.spec import OutputSpec
from toolkit.loader.outputs.values import Converter, each_inside

__all__ = ["SPEC", "ListsOutput"]


class ListsOutput(OutputSpec):
    """Lists of lists of Python's own numbers, which share no memory."""

    name = "lists"

    def _converter(self) -> Converter:
        return _convert


def _convert(values: Any, dtype: str | None = None) -> Any:
    """Return an array as nested lists; what is in lists, tuples and dicts, too."""
    return values.tolist() if isinstance(values, np.ndarray) else each_inside(values, lambda one: _convert(one, dtype))


SPEC = ListsOutput()
