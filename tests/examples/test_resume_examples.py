"""The examples of resuming, as people run them: stopped in the middle, they train on every sample once an epoch."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pictures import make_folder
from ports import torch_rendezvous
from waiting import PATIENCE

from toolkit.pack.job import PackJob
from toolkit.pack.run import pack

ROOT = Path(__file__).parents[2]
SAMPLES, EPOCHS = 40, 2
EVERY_SAMPLE = [(epoch, position) for epoch in range(EPOCHS) for position in range(SAMPLES)]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    work = tmp_path_factory.mktemp("resume")
    make_folder(work / "photos", {"train/cat": 24, "train/dog": 16})
    pack(PackJob(source=str(work / "photos"), dataset=str(work / "packed")))
    return str(work / "packed")


def start(name: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    fixed = {"PYTHONPATH": paths, "JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        [sys.executable, str(ROOT / "examples" / f"resume_{name}.py"), *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | fixed | environment,
    )  # fmt: skip


def output(process: subprocess.Popen[str], returncode: int = 0) -> list[str]:
    out, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == returncode, errors
    return out.splitlines()


def trained(lines: list[str]) -> list[tuple[int, int]]:
    words = [line.split() for line in lines if line.startswith("trained ")]
    return [(int(epoch), int(position)) for _, epoch, position in words]


def run_ranks(world_size: int, *arguments: str, returncode: int = 0) -> list[list[str]]:
    with torch_rendezvous(world_size) as world:
        processes = [start("torch", *arguments, RANK=str(rank), **world) for rank in range(world_size)]
        return [output(process, returncode) for process in processes]


def test_torch_with_other_numbers_of_ranks(dataset: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    whole = output(start("torch", dataset, str(tmp_path / "whole.pt")))
    assert sorted(trained(whole)) == EVERY_SAMPLE
    checkpoint = str(tmp_path / "run.pt")
    killed = run_ranks(2, dataset, checkpoint, "--stop-after", "5", returncode=9)
    saved = next(line.split() for line in reversed(killed[0]) if line.startswith("saved "))
    assert saved == ["saved", "0", "36"]
    kept = [place for lines in killed for place in trained(lines) if place < (0, 36)]
    resumed = [output(start("torch", dataset, checkpoint))]
    assert sorted(kept + [place for lines in resumed for place in trained(lines)]) == EVERY_SAMPLE
    # The same network, but for the rounding of sums over other numbers of ranks.
    weights = [float(lines[-1].removeprefix("done ")) for lines in (whole, *resumed)]
    assert weights == pytest.approx([weights[0]] * 2, rel=1e-5)


@pytest.mark.skipif(importlib.util.find_spec("pytorch_lightning") is None, reason="Lightning is not installed")
@pytest.mark.parametrize("stop", [2, 4])
def test_lightning(dataset: str, tmp_path: Path, stop: int) -> None:
    first = output(start("lightning", dataset, str(tmp_path), "--max-steps", str(stop)))
    second = output(start("lightning", dataset, str(tmp_path)))
    assert sorted(trained(first) + trained(second)) == EVERY_SAMPLE
    assert second[-1] == "done 8"


@pytest.mark.skipif(importlib.util.find_spec("orbax") is None, reason="Orbax is not installed")
def test_orbax(dataset: str, tmp_path: Path) -> None:
    first = output(start("orbax", dataset, str(tmp_path / "run"), "--stop-after", "4"), returncode=9)
    second = output(start("orbax", dataset, str(tmp_path / "run")))
    expected = [place for place in EVERY_SAMPLE if place[1] < 36]  # 40 samples in whole batches of 12
    assert sorted(trained(first) + trained(second)) == expected
    assert second[-1] == "done 6"


@pytest.mark.skipif(importlib.util.find_spec("torchdata") is None, reason="torchdata is not installed")
@pytest.mark.parametrize("stop", [3, 4])  # in an epoch, and at the end of one
def test_torchdata(dataset: str, tmp_path: Path, stop: int) -> None:
    checkpoint = str(tmp_path / "run.pt")
    first = output(start("torchdata", dataset, checkpoint, "--stop-after", str(stop)), returncode=9)
    second = output(start("torchdata", dataset, checkpoint))
    assert trained(first) + trained(second) == EVERY_SAMPLE
    assert second[-1] == "done 8"
