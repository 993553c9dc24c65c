"""Processes that take too much memory get an error from the loop before it is much more, and may go on."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")

_LOOP = """
    import sys, time
    import numpy as np
    import toolkit
    from toolkit import slot
    from toolkit.errors import LoaderError
    from toolkit.memory.system import SystemMemory, proc_bytes

    dataset, who = sys.argv[1:]
    ds = toolkit.open(dataset, split="train")
    steps = toolkit.pipeline(slot("image").decode_image().resize_short(256).center_crop(224).normalize("imagenet"))
    for batch in ds[:8].loader(steps, batch_size=2, threads=2):
        del batch
    limit = SystemMemory().own_bytes() + (300 << 20)
    toolkit.set_memory_guard(limit)
    # 2.4 MB a batch: kept by the consumer, grown by the program itself, or prefetched while the consumer is slow.
    options = {"batch_size": 4, "threads": 2, "epochs": 500, "prefetch": 1000 if who == "prefetch" else 2}
    loader, kept, batch = ds.loader(steps, **options), [], None
    try:
        for batch in loader:
            if who == "consumer":
                kept.append(batch)
            elif who == "program":
                kept.append(np.ones(4 << 20, np.uint8))
            else:
                time.sleep(0.5)
        print("no error")
    except LoaderError as error:
        print(error)
    status = proc_bytes("/proc/self/status", "VmHWM", "RssFile")
    print(status["VmHWM"] - status["RssFile"] - limit)
    del kept, batch
    print(sum(len(batch.rows) for batch in ds.loader(steps, batch_size=16)))
"""


@pytest.mark.parametrize("who", ["consumer", "program", "prefetch"])
def test_a_process_over_its_limit_gets_an_error_and_may_go_on(packed: Path, who: str) -> None:
    command = [sys.executable, "-c", textwrap.dedent(_LOOP), str(packed), who]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    said, over, went_on = done.stdout.splitlines()
    assert "memory runs out:" in said
    assert "the limit of toolkit.set_memory_guard()" in said
    culprit = {"consumer": "program holds", "program": "rest of the program", "prefetch": "filled or not,"}[who]
    (taken,) = re.findall(rf"{culprit} (\d+) bytes", said)
    assert int(taken) > 250 << 20
    assert int(over) < 64 << 20
    assert went_on == "150"
