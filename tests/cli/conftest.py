"""The command line in this process, an image folder, and a dataset packed from it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from command import Cli, Ended, encoded, program, put

from toolkit.cli.main import run


@pytest.fixture(autouse=True)
def no_twins(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("TOOLKIT_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    """Run the command line in this process: cli("pack", source, dataset)."""

    def call(*args: object) -> Ended:
        capsys.readouterr()
        code = run([str(arg) for arg in args])
        out, err = capsys.readouterr()
        return Ended(code, out, err)

    return call


@pytest.fixture(scope="session")
def flowers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of 10 train and 4 val images in the classes daisy, rose and the empty tulip; one is a PNG."""
    root = tmp_path_factory.mktemp("source") / "flowers"
    for i in range(10):
        put(root, f"train/{'daisy' if i < 7 else 'rose'}/{i}.jpg", encoded(40 + i, 30 + 2 * i, seed=i))
    for i in range(3):
        put(root, f"val/daisy/{i}.jpg", encoded(50, 60 + i, seed=50 + i))
    put(root, "val/rose/p.png", encoded(33, 44, "PNG"))
    (root / "train" / "tulip").mkdir()
    return root


@pytest.fixture(scope="session")
def packed_once(flowers: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    dataset = tmp_path_factory.mktemp("packed") / "ds"
    assert program("pack", flowers, dataset).code == 0
    return dataset


@pytest.fixture
def packed(packed_once: Path, tmp_path: Path) -> Path:
    """A packed dataset of this test's own."""
    shutil.copytree(packed_once, tmp_path / "ds")
    return tmp_path / "ds"
