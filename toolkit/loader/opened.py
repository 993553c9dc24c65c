"""What all views of a split share: tables, class names, open shards. Shards are opened when they are first read."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from toolkit.errors import CorruptTableError
from toolkit.format.manifest import Manifest
from toolkit.format.pin import Version, read_table, resolve
from toolkit.format.schema import DIGEST, KEY, Kind
from toolkit.format.tables import ShardIndex, parse_label_table, parse_schema_table, parse_shard_tables
from toolkit.loader.fetch import Fetcher

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


@dataclass(frozen=True, slots=True)
class Place:
    """Where a split is found again, in any process."""

    root: str
    pin: str
    split: str

    def open(self) -> Opened:
        """Open the split of that very version. Raises as toolkit.open does."""
        return Opened(resolve(f"{self.root}@sha256:{self.pin}"), self.split)


class Opened:
    """One split of one version. Stored, made of itself alone."""

    def __init__(self, version: Version, split: str) -> None:
        self.version = version
        self.split = split
        manifest = version.manifest
        tables = [(ref.sha256, read_table(version, ref.sha256)) for ref in manifest.splits[split].tables]
        self.index: ShardIndex = parse_shard_tables(tables)
        self.classes: dict[str, tuple[str, ...]] = {
            column.name: parse_label_table(read_table(version, column.label_table), column.label_table)
            for column in manifest.columns
            if column.label_table
        }
        self.schema: pa.Schema = parse_schema_table(read_table(version, manifest.schema), manifest.schema)
        self._check(manifest)
        self.fetcher = Fetcher(version.root, self.index, self.schema)
        self.parts: tuple[Opened, ...] = (self,)
        self.rows = self.index.rows

    @property
    def place(self) -> Place:
        """Where to find it again; the folder as an absolute path."""
        return Place(os.path.abspath(self.version.root), self.version.pin, self.split)

    def _check(self, manifest: Manifest) -> None:
        """Raise CorruptTableError when manifest and tables, each with its right hash, don't fit each other."""
        names = [column.name for column in manifest.columns]
        rows = manifest.splits[self.split].rows
        problem = None
        if self.schema.names != [KEY, DIGEST, *names]:
            problem = f"its columns {', '.join(names)} are not those of the schema table"
        elif self.index.rows != rows:
            problem = f"split {self.split} has {rows} rows, its shard tables {self.index.rows}"
        elif any(column.kind is Kind.LABEL and column.label_table is None for column in manifest.columns):
            problem = "a label column has no label table"
        if problem is not None:
            raise CorruptTableError(f"the manifest of {self.version.root} contradicts its tables: {problem}")
