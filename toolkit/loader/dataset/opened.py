"""What all views of a split share: tables, class names, open shards. Both are read when a row of theirs first is."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, Self

import pyarrow as pa

from toolkit.errors import PinMismatchError
from toolkit.format.contents import read_classes, read_index, read_schema
from toolkit.format.index import ShardIndex
from toolkit.format.layout import batch_shape
from toolkit.format.pin import MANIFESTS, Version, resolve
from toolkit.format.reader import Verify
from toolkit.format.references import UNHASHED, UNSEEN
from toolkit.format.schema import Column, Derived, reference_columns
from toolkit.loader.dataset.fetch import Fetcher
from toolkit.loader.dataset.naming import Names
from toolkit.loader.dataset.referenced import References
from toolkit.loader.dataset.split_files import OneSplitFiles
from toolkit.storage.memory import MemoryStore
from toolkit.storage.roots import GivenRoots, Roots

__all__ = ["Opened", "Place", "Stored"]


class Stored(Protocol):
    """Rows that views select from: one split, or several joined to one.

    Attributes:
        split: Name of the split, or of all.
        rows: Number of rows.
        schema: Arrow schema of the shards, by the names that columns have here.
        classes: Class names of every label column, in id order.
        columns: All its columns, but for derived ones, by these names.
        derived: Derived columns.
        fetcher: Checked reads by row.
    """

    split: str
    rows: int
    schema: pa.Schema
    classes: dict[str, tuple[str, ...]]
    columns: tuple[Column, ...]
    derived: tuple[Derived, ...]
    fetcher: Fetcher

    @property
    def parts(self) -> tuple[Opened, ...]:
        """The splits it is made of."""

    @property
    def key(self) -> str | None:
        """The name of the column that gives the key, or None."""

    def renamed(self, renames: Mapping[str, str]) -> Self:
        """Return the same rows, with columns called otherwise: from the name they have here to the new one."""

    def with_key(self, name: str) -> Self:
        """Return the same rows, with a column that gives their keys."""

    def verified(self, verify: Verify) -> Self:
        """Return the same rows, read with other checks; itself where they are these."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a split is found again, in any process."""

    root: str
    pin: str
    split: str
    verify: Verify
    names: Names
    store: MemoryStore | None = None
    """Of a dataset in memory: the store, or what makes it again."""
    roots: GivenRoots | None = None
    """The folders that were named for its references."""

    def open(self) -> Opened:
        """Open the split of that very version. Raises as toolkit.open does."""
        root = self.root if self.store is None else self.store.location
        if self.store is not None and self.store.info(f"{MANIFESTS}/{self.pin}.json") is None:
            raise PinMismatchError(
                f"{self.store.origin} isn't what it was when the dataset was opened: files were added, removed or "
                "changed since. Open it anew, or pack it where it is to stay as it is"
            )
        opened = Opened(resolve(f"{root}@sha256:{self.pin}"), self.split, self.verify, self.roots)
        return opened if self.names == opened.names else opened.named(self.names)


class Opened:
    """One split of one version. Stored, made of itself alone."""

    def __init__(
        self, version: Version, split: str, verify: Verify = Verify.TOUCH, roots: GivenRoots | None = None
    ) -> None:
        """`roots`: the folders that the caller named for its references, checked."""
        self.version = version
        self.roots = Roots(version.store, roots, version.pin)
        self.split = split
        self.names = Names()
        self.index: ShardIndex = read_index(version, split)
        self.classes: dict[str, tuple[str, ...]] = read_classes(version)
        self.schema: pa.Schema = read_schema(version)
        self.columns: tuple[Column, ...] = version.manifest.columns
        self.derived: tuple[Derived, ...] = version.manifest.derived
        self._stored = (self.schema, self.classes)  # by their stored names
        self.rows = self.index.rows
        self.shape = batch_shape(self.schema, version.manifest.columns)
        self._read_with(verify)

    @property
    def place(self) -> Place:
        """Where to find it again; the folder as an absolute path."""
        store = self.version.store
        kept = store if isinstance(store, MemoryStore) else None
        return Place(self.version.root, self.version.pin, self.split, self._verify, self.names, kept, self.roots.given)

    def verified(self, verify: Verify) -> Self:
        """Return the same split, read with other checks: tables are shared, shards are opened anew."""
        if verify is self._verify:
            return self
        other = copy.copy(self)
        other._read_with(verify)
        return other

    @property
    def key(self) -> str | None:
        """The name of the column that gives the key, or None."""
        return self.names.key

    def renamed(self, renames: Mapping[str, str]) -> Self:
        """Return the same split, with columns called otherwise: from the name they have here to the new one."""
        return self.named(self.names.renamed(renames))

    @property
    def parts(self) -> tuple[Opened, ...]:
        """Itself. Made each time: what holds itself isn't gone with its last user."""
        return (self,)

    def with_key(self, name: str) -> Self:
        """Return the same split, with a column that gives the keys."""
        return self.named(self.names.with_key(name))

    def named(self, names: Names) -> Self:
        """Return the same split by other names: tables are shared, shards are opened anew."""
        schema, classes = self._stored
        other = copy.copy(self)
        other.names = names
        other.schema = names.schema(schema, self.version.manifest.derived)
        other.classes = names.classes(classes)
        other.columns = names.columns(self.version.manifest.columns)
        other.derived = names.derived(self.version.manifest.derived)
        other._read_with(self._verify)
        return other

    def _read_with(self, verify: Verify) -> None:
        self._verify = verify
        store, manifest = self.version.store, self.version.manifest
        referred = reference_columns(self.columns, self.schema)
        files = OneSplitFiles(
            store,
            self.index,
            self.roots,
            columns=len(referred),
            unhashed=UNHASHED in manifest.requires,
            looks=manifest.options.get(UNSEEN) != "off",
        )
        self.references = References(referred, self.columns, files) if referred else None
        self.fetcher = Fetcher(store, self.index, self.schema, self.shape, verify, self.key, self.references)
