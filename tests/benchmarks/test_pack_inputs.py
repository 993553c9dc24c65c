"""The comparisons of inputs and of memory on next to nothing: what they print and refuse. Nothing about figures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pictures import make_folder

ROOT = Path(__file__).parents[2]


def run(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "benchmarks" / script), *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )


def test_every_kind_of_input_holds_the_same_photographs(tmp_path: Path) -> None:
    pytest.importorskip("google.protobuf")
    folder = make_folder(tmp_path / "photographs", {"train/ant": 3, "train/bee": 2})
    done = run("pack_inputs.py", folder, "--repeats", 1, "--copies", 2, "--files", 2, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["photographs"] == 10
    assert [kind["name"] for kind in found["kinds"]] == ["imagefolder", "parquet", "tfrecord", "webdataset"]
    assert set(found["ratios"]) == {"parquet_ratio", "tfrecord_ratio", "webdataset_ratio"}
    assert list(tmp_path.iterdir()) == [folder]


def test_a_folder_without_photographs_is_an_error(tmp_path: Path) -> None:
    done = run("pack_inputs.py", tmp_path, "--repeats", 1)
    assert done.returncode == 1
    assert "benchmarks/photos.py" in done.stderr


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="reads /proc")
def test_memory_of_a_few_records(tmp_path: Path) -> None:
    done = run("pack_memory.py", "--kinds", "parquet", "imagefolder", "--records", 200, "--work", tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    runs = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(one["kind"], one["records"]) for one in runs] == [("parquet", 200), ("imagefolder", 200)]
    assert all(0 < one["start"] <= one["peak"] for one in runs)
    assert list(tmp_path.iterdir()) == []
