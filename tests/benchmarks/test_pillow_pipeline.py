"""The comparison with Pillow on a few photographs: what it prints and what it refuses. Nothing about speed."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("torch")

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "benchmarks" / "pillow_pipeline.py"
SIZES = ((500, 375), (375, 500), (333, 500), (301, 300), (256, 256), (230, 640))


@pytest.fixture(scope="module")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thirty photographs in two splits and two classes; names repeat between splits."""
    folder = tmp_path_factory.mktemp("photographs")
    rng = np.random.default_rng(0)
    for split, photos in (("train", 10), ("val", 5)):
        for name in ("a", "b"):
            (folder / split / name).mkdir(parents=True)
            for number in range(photos):
                coarse = Image.fromarray(rng.integers(0, 256, (9, 9, 3), np.uint8))
                photo = coarse.resize(SIZES[number % len(SIZES)], Image.Resampling.BICUBIC)
                subsampling = "4:4:4" if number % 3 == 0 else "4:2:0"
                photo.save(folder / split / name / f"{number}.jpg", quality=85, subsampling=subsampling)
    return folder


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *map(str, arguments)],
        capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def test_prints_both_sides_and_their_ratio(photographs: Path) -> None:
    done = run(photographs, "--count", 24, "--repeats", 1)
    assert done.returncode == 0, done.stderr
    first, _, pillow, ours, ratio, last = done.stdout.splitlines()
    assert first.startswith("24 photographs")
    assert pillow.startswith("Pillow")
    assert "libjpeg" in pillow
    assert ours.startswith("toolkit ")
    assert ratio.startswith("toolkit / Pillow")
    assert float(last.removeprefix("ratio=")) > 0


def test_outputs_agree_and_two_pillows_are_two_sides(photographs: Path) -> None:
    import PIL

    site = Path(PIL.__file__).parents[1]
    done = run(photographs, "--count", 24, "--repeats", 1, "--json", "--pillow-path", site)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["photographs"] == 24
    assert found["pillows"][0]["name"] == found["pillows"][1]["name"]
    for pillow in found["pillows"]:
        assert pillow["max_difference"] <= (2.01 if pillow["name"].startswith("Pillow-SIMD") else 1.01)
        assert pillow["mean_difference"] <= 0.1
        assert PIL.__version__ in pillow["name"]
    for side in (*found["pillows"], found["toolkit"]):
        assert len(side["rates"]) == 1
        assert side["peak_bytes"] > 0
    assert found["ratio"] > 0


def test_turned_photographs_are_reported_as_a_difference(tmp_path: Path) -> None:
    folder = tmp_path / "photographs" / "a"
    folder.mkdir(parents=True)
    ramp = np.linspace(0, 255, 300 * 300 * 3).reshape(300, 300, 3).astype(np.uint8)
    exif = Image.Exif()
    exif[0x0112] = 3
    Image.fromarray(ramp).save(folder / "turned.jpg", exif=exif)
    done = run(folder.parent, "--count", 1, "--repeats", 1)
    assert done.returncode == 1
    assert "turned.jpg comes out" in done.stderr
    assert done.stdout == ""


def test_too_few_photographs(photographs: Path) -> None:
    done = run(photographs, "--count", 31)
    assert done.returncode == 1
    assert "has 30 photographs: give --count 30 or less" in done.stderr


def test_ratio_is_to_the_fastest_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    module: Any = importlib.import_module("pillow_pipeline")

    def side(name: str, *rates: float) -> Any:
        return module.Side(name=name, rates=rates, peak_bytes=1, max_difference=0.0, mean_difference=0.0)

    pillows = (side("slow", 100.0, 110.0, 90.0), side("fast", 200.0, 150.0, 250.0))
    result = module.Result(
        photographs=1, mean_bytes=1.0, cpu=0, toolkit=side("toolkit", 600.0, 500.0, 900.0), pillows=pillows
    )
    assert result.ratio == 3
    assert list(result.lines())[-1] == "ratio=3.00"
    assert list(result.lines())[-2].endswith("fast: 3.00 [3.00 .. 3.60]")
