"""A token dataset of several shards and record batches, made once, with the run of tokens that it must be."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import token_oracle as oracle
from token_oracle import Packed


@pytest.fixture(scope="session")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Packed:
    """Some 90,000 tokens in 600 documents."""
    path = tmp_path_factory.mktemp("tokens") / "ds"
    found = Packed(path, oracle.write(path, oracle.documents(600, 340)))
    index = found.open().index
    assert index.shards > 2
    assert index.batches >= 4 * index.shards
    return found


@pytest.fixture
def damaged(packed: Packed, tmp_path: Path) -> Packed:
    """A copy that may be broken."""
    return Packed(Path(shutil.copytree(packed.path, tmp_path / "damaged")), packed.docs)
