"""The loop of `make fuzz` keeps the input that did it: an exception, a crash; and says how often it ran."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

LOOP = Path(__file__).parent / "fuzz" / "loop.py"


def fuzzed(folder: Path, code: str, seconds: str = "30") -> tuple[int, str, list[Path]]:
    target, found, learnt = folder / "target.py", folder / "found", folder / "learnt"
    learnt.mkdir()
    target.write_text(f"import os, signal, time\ndef seeds(): return [b'ab', b'abc']\ndef fuzz(data):\n    {code}\n")
    command = [sys.executable, LOOP, target, found, "--seconds", seconds, "--seed", "3", "--learnt", learnt]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr, sorted(found.iterdir()) if found.exists() else []


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("raise KeyError('x')", "exit 1"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "signal SIGSEGV"),
    ],
)
def test_what_does_it_is_kept(tmp_path: Path, fault: str, said: str) -> None:
    status, output, found = fuzzed(tmp_path, f"if len(data) > 3: {fault}")
    assert status == 1
    assert said in output
    assert len(found) == 1
    assert len(found[0].read_bytes()) > 3
    assert re.search(r"^executions: \d+$", output, re.MULTILINE)
    command = [sys.executable, LOOP, tmp_path / "target.py", tmp_path, "--replay", found[0]]
    assert subprocess.run(command, capture_output=True).returncode != 0


def test_nothing_is_found_where_nothing_is(tmp_path: Path) -> None:
    code = "fuzz.count = getattr(fuzz, 'count', 0) + 1; return len(data) % 5 if fuzz.count < 100 else os._exit(0)"
    status, output, found = fuzzed(tmp_path, code)
    assert (status, found) == (0, [])
    assert int(output.split()[-1]) == 100
    assert 1 < len(list((tmp_path / "learnt").iterdir())) <= 5


def test_it_ends_when_its_time_is_over(tmp_path: Path) -> None:
    status, output, found = fuzzed(tmp_path, "return len(data) % 5", "0.2")
    assert (status, found) == (0, [])
    assert output.startswith("executions: ")
