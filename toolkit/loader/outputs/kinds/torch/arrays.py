"""torch tensors over a batch's memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from toolkit.loader.outputs.values import UnfitValueError, each_inside, unfit
from toolkit.pipelines.arrays import owned_array

__all__ = ["convert"]


def convert(values: Any, dtype: str | None = None) -> Any:
    """Return a tensor that shares the array's memory and keeps it alive; of a user's array, a copy where it must.

    Raises:
        UnfitValueError: torch has no such dtype, or the array is masked.
    """
    if not isinstance(values, np.ndarray):
        return each_inside(values, lambda value: convert(value, dtype))
    try:
        values = owned_array(values)
    except ValueError as error:
        raise UnfitValueError(str(error)) from error
    if (dtype == "bfloat16" and values.dtype == np.uint16) or values.dtype.name == "bfloat16":
        return torch.from_numpy(values.view(np.int16)).view(torch.bfloat16)
    try:
        return torch.from_numpy(values)
    except TypeError as error:
        raise unfit("torch", values.dtype) from error
