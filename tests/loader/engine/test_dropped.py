"""Loaders and streams that are dropped at any point: nothing hangs, and no thread, descriptor, map or byte is left."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import dropped_loaders
import pytest
import token_oracle
from waiting import PATIENCE

import toolkit
from toolkit import slot
from toolkit.memory.budget import process_budget

COUNT = os.environ.get("TOOLKIT_DROPPED_LOADERS", "300")  # 10,000 of them take two minutes


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_loaders_dropped_at_random_points_leave_nothing(packed: Path, tmp_path: Path) -> None:
    token_oracle.write(tmp_path / "tokens", token_oracle.documents(200, 300))
    datasets = [str(packed), "--tokens", str(tmp_path / "tokens")]
    command = [sys.executable, "-W", "ignore", dropped_loaders.__file__, *datasets, "--count", COUNT]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{COUNT} loaders in" in done.stdout


@pytest.mark.parametrize("held", ["budget", "counters", "shards"])
def test_dropping_an_iteration_waits_for_no_lock(packed: Path, held: str) -> None:
    """The collector may drop one at any instruction, also where its thread has a lock that workers wait for."""
    ds = toolkit.open(packed, split="train")
    steps = toolkit.pipeline(slot("image").decode_image().resize_short(64).center_crop(64))
    loader = ds.loader(steps, batch_size=4, threads=2, prefetch=500, epochs=50)
    iterator: list[Any] = [iter(loader)]
    next(iterator[0])
    lock = {"budget": process_budget()._lock, "counters": loader._stats._lock, "shards": ds.fetcher._lock}[held]
    dropped = threading.Event()

    def drop() -> None:
        with lock:
            time.sleep(0.1)  # workers come to it
            iterator.clear()
        dropped.set()

    threading.Thread(target=drop, daemon=True).start()
    assert dropped.wait(PATIENCE)
    for thread in threading.enumerate():
        if thread.name.startswith("toolkit-loader"):
            thread.join(PATIENCE)
            assert not thread.is_alive()
