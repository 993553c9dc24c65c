"""A token dataset of several shards and record batches, made once, with the run of tokens that it must be."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from tokens import oracle

import toolkit


@dataclass(frozen=True)
class Packed:
    path: Path
    docs: list[oracle.Ids]

    @property
    def run(self) -> oracle.Ids:
        return np.concatenate(self.docs)

    @property
    def ends(self) -> oracle.Ids:
        """Ends of the documents that aren't empty."""
        return np.cumsum([len(doc) for doc in self.docs if len(doc)])

    @property
    def starts(self) -> oracle.Ids:
        return np.concatenate(([0], self.ends[:-1]))

    def open(self) -> toolkit.Dataset:
        return toolkit.open(self.path)


@pytest.fixture(scope="session")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Packed:
    """Some 90,000 tokens in 600 documents."""
    path = tmp_path_factory.mktemp("tokens") / "ds"
    found = Packed(path, oracle.write(path, oracle.documents(600, 340)))
    index = found.open().index
    assert index.shards > 2
    assert len(index.batch_start) > 4 * index.shards
    return found


@pytest.fixture
def damaged(packed: Packed, tmp_path: Path) -> Packed:
    """A copy that may be broken."""
    return Packed(Path(shutil.copytree(packed.path, tmp_path / "damaged")), packed.docs)
