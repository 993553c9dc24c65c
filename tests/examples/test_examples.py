"""The examples, as people run them: each learns four textures within a few seconds, and fails when it can't."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from waiting import PATIENCE

from toolkit.pack.job import PackJob
from toolkit.pack.run import pack

ROOT = Path(__file__).parents[2]
COLOURS = {"brick": (190, 60, 50), "grass": (50, 180, 60), "sea": (40, 70, 200), "snow": (225, 225, 235)}
PHOTOS = {"train": 16, "val": 4}  # of each class


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Four colours with a texture of their own."""
    work = tmp_path_factory.mktemp("examples")
    rng = np.random.default_rng(0)
    for split, photos in PHOTOS.items():
        for stripe, (name, colour) in enumerate(COLOURS.items(), start=1):
            folder = work / "photos" / split / name
            folder.mkdir(parents=True)
            for number in range(photos):
                pixels = np.array(colour) + rng.normal(0, 12, (72, 96, 3))
                pixels[:: 2 * stripe] -= 30
                photo = Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
                photo.save(folder / f"{number}.jpg", quality=90)
    pack(PackJob(source=str(work / "photos"), dataset=str(work / "packed")))
    return str(work / "packed")


def run(framework: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    pytest.importorskip(framework)
    script = ROOT / "examples" / f"train_{framework}.py"
    environment = os.environ | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    return subprocess.run(
        [sys.executable, str(script), *arguments, "--image-size", "32"],
        capture_output=True, text=True, check=False, env=environment, timeout=PATIENCE,
    )  # fmt: skip


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_learns(framework: str, dataset: str) -> None:
    done = run(framework, dataset, "--epochs", "4", "--threads", "2")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert sum(line.startswith("epoch ") and " loss=" in line for line in lines) == 4
    last = dict(word.split("=") for word in lines[-1].split())
    assert list(last) == ["accuracy", "chance", "seconds", "pin"]
    assert float(last["accuracy"]) >= 0.75
    assert float(last["chance"]) == 0.25
    assert lines[0] == f"pin {last['pin']}"
    assert len(last["pin"]) == 64


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_failing_to_learn_is_an_error(framework: str, dataset: str) -> None:
    done = run(framework, dataset, "--epochs", "0")
    assert done.returncode == 1
    assert "learnt too little" in done.stderr
    assert done.stdout.splitlines()[-1].startswith("accuracy=")


def test_the_same_seed_gives_the_same_loss(dataset: str) -> None:
    runs = [run("torch", dataset, "--epochs", "1", "--seed", "1").stdout.splitlines() for _ in range(2)]
    first, again = ([line for line in lines if line.startswith("epoch ")] for lines in runs)
    assert len(first) == 1
    assert first == again


@pytest.mark.parametrize(
    ("recipe", "shapes"),
    [
        ("timm", "image (32, 3, 64, 64), label (32, 4)"),
        ("torchvision", "image (32, 3, 64, 64), label (32, 4)"),
        ("simclr", "view1 (32, 3, 64, 64), view2 (32, 3, 64, 64), label (32,)"),
        ("dino", "global1 (32, 3, 64, 64), global2 (32, 3, 64, 64), local1 (32, 3, 96, 96), "),
    ],
)
def test_recipes_run(recipe: str, shapes: str, dataset: str) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples/recipes.py"), dataset, "--recipe", recipe, "--size", "64"],
        capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": str(ROOT)}, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    *_, delivered, last = done.stdout.splitlines()
    assert delivered.startswith(shapes)
    assert last.startswith(f"recipe={recipe} samples=64 ")
