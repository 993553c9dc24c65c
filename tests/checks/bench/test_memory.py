"""What is measured of a process's memory; in one of its own, since the heap of an old one has holes for any block."""

from __future__ import annotations

import subprocess
import sys
import textwrap

from toolkit.checks.bench.memory import available_bytes

MIB = 1 << 20

_PEAK = """
    import time
    import numpy as np
    from toolkit.checks.bench.memory import AnonymousPeak, peak_resident_bytes

    with AnonymousPeak() as peak:
        block = np.ones(64 << 20, np.uint8)
        until = time.monotonic() + 60
        while peak.growth_bytes < 60 << 20 and time.monotonic() < until:  # its thread looks when it gets a turn
            time.sleep(0.01)
        del block
    print(peak.growth_bytes, peak_resident_bytes())
"""


def test_peak_is_seen() -> None:
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(_PEAK)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    growth, resident = map(int, done.stdout.split())
    assert 60 * MIB < growth < 128 * MIB
    assert resident > growth


def test_what_is_available_is_told() -> None:
    available = available_bytes()
    assert available is not None
    assert available > 0
