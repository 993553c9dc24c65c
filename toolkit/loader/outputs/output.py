"""The outputs of token streams, by name."""

from __future__ import annotations

import enum

__all__ = ["Output"]


class Output(enum.Enum):
    """What the arrays of a batch are."""

    NUMPY = "numpy"
    TORCH = "torch"
    JAX = "jax"
