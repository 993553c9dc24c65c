"""torch tensors over a batch's memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

__all__ = ["convert"]


def convert(values: Any, dtype: str | None = None) -> Any:
    """Return a tensor that shares the array's memory and keeps it alive."""
    if isinstance(values, list):
        return [convert(value, dtype) for value in values]
    if not isinstance(values, np.ndarray):
        return values
    if dtype == "bfloat16" and values.dtype == np.uint16:
        return torch.from_numpy(values.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(values)
