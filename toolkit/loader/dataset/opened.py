"""What all views of a split share: tables, class names, open shards. Both are read when a row of theirs first is."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Protocol, Self

import pyarrow as pa

from toolkit.format.contents import read_classes, read_index, read_schema
from toolkit.format.index import ShardIndex
from toolkit.format.layout import batch_shape
from toolkit.format.pin import Version, resolve
from toolkit.format.reader import Verify
from toolkit.loader.dataset.fetch import Fetcher

__all__ = ["Opened", "Place", "Stored"]


class Stored(Protocol):
    """Rows that views select from: one split, or several joined to one.

    Attributes:
        parts: The splits it is made of.
        split: Name of the split, or of all.
        rows: Number of rows.
        schema: Arrow schema of the shards.
        classes: Class names of every label column, in id order.
        fetcher: Checked reads by row.
    """

    parts: tuple[Opened, ...]
    split: str
    rows: int
    schema: pa.Schema
    classes: dict[str, tuple[str, ...]]
    fetcher: Fetcher

    def verified(self, verify: Verify) -> Self:
        """Return the same rows, read with other checks; itself where they are these."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a split is found again, in any process."""

    root: str
    pin: str
    split: str
    verify: Verify

    def open(self) -> Opened:
        """Open the split of that very version. Raises as toolkit.open does."""
        return Opened(resolve(f"{self.root}@sha256:{self.pin}"), self.split, self.verify)


class Opened:
    """One split of one version. Stored, made of itself alone."""

    def __init__(self, version: Version, split: str, verify: Verify = Verify.TOUCH) -> None:
        self.version = version
        self.split = split
        self.index: ShardIndex = read_index(version, split)
        self.classes: dict[str, tuple[str, ...]] = read_classes(version)
        self.schema: pa.Schema = read_schema(version)
        self.rows = self.index.rows
        self.shape = batch_shape(self.schema, version.manifest.columns)
        self._read_with(verify)

    @property
    def place(self) -> Place:
        """Where to find it again; the folder as an absolute path."""
        return Place(self.version.root, self.version.pin, self.split, self._verify)

    def verified(self, verify: Verify) -> Self:
        """Return the same split, read with other checks: tables are shared, shards are opened anew."""
        if verify is self._verify:
            return self
        other = copy.copy(self)
        other._read_with(verify)
        return other

    def _read_with(self, verify: Verify) -> None:
        self._verify = verify
        self.fetcher = Fetcher(self.version.store, self.index, self.schema, self.shape, verify)
        self.parts: tuple[Opened, ...] = (self,)
