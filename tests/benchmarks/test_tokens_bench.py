"""The comparison of token loaders on a little text: what it prints and what it leaves out. Nothing about speed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks/tokens.py"


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_sides_deliver_the_same_and_missing_peers_are_told(tmp_path: Path) -> None:
    (tmp_path / "text").mkdir()
    for number in range(4):
        (tmp_path / f"text/{number}.txt").write_text(f"line {number} of a text that is not long\n" * 400)
    command = [sys.executable, str(SCRIPT), "--work", str(tmp_path / "work"), "--tokens", "150K", "--rounds", "1"]
    command += ["--text", str(tmp_path / "text"), "--sides", "toolkit,memmap,C,roxxel", "--peer-path", str(tmp_path)]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert set(report["sides"]) == {"toolkit first", "toolkit later", "memmap", "C"}
    assert "roxxel" in report["left_out"]["roxxel"]
    assert report["tokens"] == 150_000
    assert report["repeated"] >= 1
    assert report["facts"]["sum"] > 0
    assert all(row["mtok_s"] > 0 and row["ratio_later"] > 0 for row in report["sides"].values())
