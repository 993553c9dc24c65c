"""Pools, leases and loaders hold while Python switches threads after every few instructions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SWITCHING = Path(__file__).resolve().parents[2] / "sanitize" / "switching.py"


def test_threads_that_switch_all_the_time_share_what_they_should() -> None:
    # scripts/sanitize.sh does the same for longer, under ASan; the seed is printed.
    done = subprocess.run([sys.executable, SWITCHING, "4"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
