"""JAX as an output, on one device; tests/loader/outputs/test_mesh.py has meshes."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
from contracts.output import OutputContract

jax = pytest.importorskip("jax")


class TestJax(OutputContract):
    name = "jax"
    narrows: ClassVar = {"i8": "i4", "u8": "u4", "f8": "f4", "c16": "c8"}

    def kind(self) -> type:
        return jax.Array

    def numbers(self, made: Any, dtype: str) -> np.ndarray:
        if dtype == "bfloat16":
            assert made.dtype == jax.numpy.bfloat16
            return np.asarray(made).view(np.uint16)
        return np.asarray(made)

    def part(self, made: Any) -> Any:
        """The array: JAX has no views, slices are copies."""
        return made
