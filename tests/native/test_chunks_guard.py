"""The SIGBUS guard: a shard cut short while open is a status; any other SIGBUS does what it did before."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

PRELUDE = """
import faulthandler, mmap, os, signal, sys, threading
import numpy as np
from toolkit._native.chunks import *
from toolkit._native import chunks
path = sys.argv[1]
def body(size=200_000):
    open(path, "wb").write(bytes(size))
    sums = ChunkSums(); sums.update(bytes(size))
    with open(path, "rb") as file:
        return Body(ShardMap(file.fileno(), size), 0, size, 1, sums.digest(), np.empty((0, 2), np.int64))
def cut(): os.truncate(path, 0)
def read(b): return b.read(0, np.empty(200_000, np.uint8))
def real_fault():
    with open(path, "w+b") as file:
        file.truncate(8192); m = mmap.mmap(file.fileno(), 8192); file.truncate(0)
    return m[4096]
"""


def run(code: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PRELUDE + textwrap.dedent(code), str(tmp_path / "s")]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def lives(code: str, tmp_path: Path) -> None:
    done = run(code, tmp_path)
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr


def dies(code: str, tmp_path: Path) -> str:
    done = run(code, tmp_path)
    assert done.returncode == -signal.SIGBUS, (done.returncode, done.stderr[-2000:])
    return done.stderr


READS = """
assert read(b)[0] == chunks.READ_FAULT
assert read(b)[0] == chunks.READ_FAULT
print("alive")
"""


@pytest.mark.parametrize("touched", ["pass", "read(b)"], ids=["unchecked", "checked"])
def test_a_file_that_is_cut_short_while_open_is_a_status(tmp_path: Path, touched: str) -> None:
    lives(f"b = body(); {touched}; cut()" + READS, tmp_path)


def test_faulthandler_enabled_before(tmp_path: Path) -> None:
    lives("faulthandler.enable(); b = body(); cut()" + READS, tmp_path)


def test_faulthandler_enabled_after(tmp_path: Path) -> None:
    lives("b = body(); faulthandler.enable(); cut()" + READS, tmp_path)


def test_faulthandler_enabled_between_two_shards(tmp_path: Path) -> None:
    lives("body(); faulthandler.enable(); b = body(); cut()" + READS, tmp_path)


def test_threads_fault_at_the_same_time(tmp_path: Path) -> None:
    code = """
    b = body(); cut(); found = []
    threads = [threading.Thread(target=lambda: found.extend(read(b)[0] for _ in range(50))) for _ in range(4)]
    [t.start() for t in threads]; [t.join() for t in threads]
    assert found == [chunks.READ_FAULT] * 200
    print("alive")
    """
    lives(code, tmp_path)


def test_another_fault_still_kills(tmp_path: Path) -> None:
    dies("real_fault()", tmp_path)
    dies("b = body(); cut(); read(b); real_fault()", tmp_path)


@pytest.mark.parametrize(
    "order",
    [
        "faulthandler.enable(); body()",
        "body(); faulthandler.enable()",
        "body(); faulthandler.enable(); body()",
        "faulthandler.enable(); body(); faulthandler.disable(); faulthandler.enable(); body()",
    ],
)
def test_another_fault_still_kills_and_faulthandler_tells_where(tmp_path: Path, order: str) -> None:
    report = dies(order + "; real_fault()", tmp_path)
    assert report.count("Fatal Python error: Bus error") == 1
    assert "in real_fault" in report


def test_a_sent_signal_does_what_it_did_before(tmp_path: Path) -> None:
    dies("body(); os.kill(os.getpid(), signal.SIGBUS)", tmp_path)
    dies("faulthandler.enable(); body(); faulthandler.enable(); body(); os.kill(os.getpid(), signal.SIGBUS)", tmp_path)
    lives(
        "signal.signal(signal.SIGBUS, signal.SIG_IGN); b = body(); os.kill(os.getpid(), signal.SIGBUS); cut()" + READS,
        tmp_path,
    )
    lives(
        "seen = []; signal.signal(signal.SIGBUS, lambda *_: seen.append(1)); b = body();"
        "os.kill(os.getpid(), signal.SIGBUS); assert seen == [1]; cut()" + READS,
        tmp_path,
    )


def test_the_guard_holds_in_a_forked_child(tmp_path: Path) -> None:
    code = """
    b = body(); cut()
    child = os.fork()
    if not child:
        os._exit(0 if read(b)[0] == chunks.READ_FAULT else 1)
    assert os.waitpid(child, 0)[1] == 0
    """
    lives(code + READS.replace("\n", "\n    "), tmp_path)
