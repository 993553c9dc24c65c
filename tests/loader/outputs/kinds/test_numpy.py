"""numpy as an output."""

from __future__ import annotations

import numpy as np
from contracts.output import OutputContract


class TestNumpy(OutputContract):
    name = "numpy"

    def kind(self) -> type:
        return np.ndarray
