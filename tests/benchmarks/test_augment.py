"""The comparison of augmented epochs on a few photographs: what it prints and what it refuses. Nothing about speed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pictures import make_folder

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("photographs"), {"a": 4, "b": 3}, width=300, height=260)


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "augment.py"), *map(str, arguments)],
        capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def test_measures_what_can_run_and_says_what_cannot(photographs: Path) -> None:
    done = run(photographs, "--case", "simclr", "--case", "crops", "--count", 7, "--repeats", 1, "--json")
    assert done.returncode == 0, done.stderr
    simclr, crops = json.loads(done.stdout)
    assert (simclr["name"], crops["name"], simclr["photographs"]) == ("simclr", "crops", 7)
    assert [side["key"] for side in simclr["sides"]] == ["toolkit", "torchvision"]
    assert [side["key"] for side in crops["sides"]] == ["toolkit"]
    assert all(len(side["rates"]) == 1 and side["rates"][0] > 0 for side in simclr["sides"])
    assert "No module named 'dataio'" in done.stderr


def test_too_few_photographs(photographs: Path) -> None:
    done = run(photographs, "--case", "crops", "--count", 8, "--repeats", 1)
    assert done.returncode == 1
    assert "--count 7" in done.stderr
