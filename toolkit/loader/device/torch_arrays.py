"""torch tensors over a batch's memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

__all__ = ["convert"]


def convert(values: Any) -> Any:
    """Return a tensor that shares the array's memory and keeps it alive."""
    if isinstance(values, list):
        return [convert(value) for value in values]
    return torch.from_numpy(values) if isinstance(values, np.ndarray) else values
