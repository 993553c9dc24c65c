"""torch as an output, on the CPU; tests/loader/outputs/test_outputs.py has devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from contracts.output import OutputContract

torch = pytest.importorskip("torch")


class TestTorch(OutputContract):
    name = "torch"

    def kind(self) -> type:
        return torch.Tensor

    def numbers(self, made: Any, dtype: str) -> np.ndarray:
        if dtype == "bfloat16":
            assert made.dtype is torch.bfloat16
            return made.view(torch.int16).numpy().view(np.uint16)
        return made.numpy()
