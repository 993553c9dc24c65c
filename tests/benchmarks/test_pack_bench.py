"""The comparison of packers on a few photographs: what it prints and what it refuses. Nothing about speed."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "benchmarks" / "pack.py"
PHOTOGRAPHS = 10


def gnu_tar() -> bool:
    try:
        return b"GNU tar" in subprocess.run(["tar", "--version"], capture_output=True, check=False).stdout
    except OSError:
        return False


pytestmark = pytest.mark.skipif(not gnu_tar(), reason="needs GNU tar")


@pytest.fixture(scope="module")
def script() -> Any:
    spec = importlib.util.spec_from_file_location("pack_bench", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["pack_bench"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def photographs(tmp_path: Path) -> Path:
    """Ten photographs in two classes, and one in val, which is not packed."""
    folder = tmp_path / "photographs"
    rng = np.random.default_rng(0)
    for split, name, count in (("train", "a", 6), ("train", "b", 4), ("val", "a", 1)):
        (folder / split / name).mkdir(parents=True)
        for number in range(count):
            Image.fromarray(rng.integers(0, 256, (24, 32, 3), np.uint8)).save(folder / split / name / f"{number}.jpg")
    return folder


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in (folder / "train").rglob("*.jpg"))


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *map(str, arguments)],
        capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def test_prints_each_side_and_the_ratios(photographs: Path) -> None:
    done = run(photographs, "--repeats", 1)
    assert done.returncode == 0, done.stderr
    first, heads, ours, tar, tee, last = done.stdout.splitlines()
    assert first.startswith(f"{PHOTOGRAPHS} photographs")
    assert heads.split() == ["seconds", "[min", "..", "max]", "MB/s", "ratio", "whole", "process"]
    assert ours.startswith("toolkit ")
    assert tar.startswith("tar, sync -f")
    assert tee.startswith("tar | tee | sha256sum")
    ratios = dict(item.split("=") for item in last.split())
    assert list(ratios) == ["tar_ratio", "tee_sha256_ratio"]
    assert all(float(ratio) >= 0 for ratio in ratios.values())
    assert list(photographs.parent.iterdir()) == [photographs]


def test_copies_are_counted_and_every_repeat_is_kept(photographs: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    done = run(photographs, "--repeats", 2, "--copies", 3, "--jobs", 1, "--work", work, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["photographs"] == 3 * PHOTOGRAPHS
    assert found["bytes"] == 3 * size(photographs)
    assert found["jobs"] == 1
    assert [side["key"] for side in found["sides"]] == ["toolkit", "tar", "tee_sha256"]
    for side in found["sides"]:
        assert side["samples"] == 3 * PHOTOGRAPHS
        assert len(side["seconds"]) == len(side["process_seconds"]) == 2
        assert all(0 < call < whole for call, whole in zip(side["seconds"], side["process_seconds"], strict=True))
    assert set(found["ratios"]) == {"tar_ratio", "tee_sha256_ratio"}
    assert list(work.iterdir()) == []


def test_peers_that_cannot_be_imported_are_left_out_and_named(photographs: Path, tmp_path: Path) -> None:
    for package in ("streaming", "webdataset", "litdata"):  # hides one that is installed
        (tmp_path / "peers" / package).mkdir(parents=True)
        (tmp_path / "peers" / package / "__init__.py").write_text("raise ImportError('not here')\n")
    done = run(photographs, "--repeats", 1, "--peer-path", tmp_path / "peers")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 6
    for package in ("mosaicml-streaming", "webdataset", "litdata"):
        assert f"pack: {package} is left out: ImportError: not here" in done.stderr


def test_an_incomplete_output_is_refused(script: Any, photographs: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "photos.tar", "w") as archive:
        archive.add(photographs / "train" / "a", "train/a")
    script._check("tar", tmp_path, 6)
    with pytest.raises(script.BenchmarkError, match="tar: the output holds 6 of 10 photographs"):
        script._check("tar", tmp_path, PHOTOGRAPHS)


def test_a_folder_without_photographs_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = run(tmp_path / "empty")
    assert done.returncode == 1
    assert "has no train/<class>/*.jpg" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("option", ["--repeats", "--jobs", "--copies"])
def test_numbers_below_one_are_refused(photographs: Path, option: str) -> None:
    done = run(photographs, option, 0)
    assert done.returncode == 1
    assert "must be positive" in done.stderr
