"""A packed dataset of several shards and record batches, made once; tests that damage it copy it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pictures import make_folder

from toolkit.pack.job import PackJob
from toolkit.pack.run import pack


@pytest.fixture(scope="session")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of 150 JPEGs in train (three classes, several shards) and 20 in val."""
    base = tmp_path_factory.mktemp("packed")
    make_folder(base / "src", {"train/ant": 70, "train/bee": 50, "train/cat": 30, "val/ant": 10, "val/cat": 10})
    pack(PackJob(source=str(base / "src"), dataset=str(base / "ds"), shard_size=70_000))
    return base / "ds"


@pytest.fixture
def damaged(packed: Path, tmp_path: Path) -> Path:
    """A copy of the dataset that may be broken."""
    return Path(shutil.copytree(packed, tmp_path / "damaged"))
