from __future__ import annotations

import time

import numpy as np

from toolkit.checks.bench.memory import AnonymousPeak, available_bytes, peak_resident_bytes

MIB = 1 << 20


def test_peak_is_seen() -> None:
    with AnonymousPeak() as peak:
        block = np.ones(64 * MIB, np.uint8)
        time.sleep(0.1)
        del block
    growth = peak.growth_bytes
    assert growth is not None
    assert 60 * MIB < growth < 128 * MIB
    resident = peak_resident_bytes()
    assert resident is not None
    assert resident > growth
    available = available_bytes()
    assert available is not None
    assert available > 0
