"""A version of a dataset, opened: its samples by row, its classes and files, and loaders over it."""

from __future__ import annotations

import importlib
import operator
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from toolkit._native.chunks import FetchBuffer
from toolkit.errors import CorruptTableError, NotFoundError, UsageError, did_you_mean
from toolkit.format.layout import leaf_name
from toolkit.format.manifest import Manifest
from toolkit.format.pin import Version, read_table, resolve
from toolkit.format.schema import DIGEST, IMAGE_TYPE, KEY, Column, Kind
from toolkit.format.tables import ShardIndex, parse_label_table, parse_schema_table, parse_shard_tables
from toolkit.loader.fetch import Fetcher

if TYPE_CHECKING:
    from toolkit.loader.loader import Loader
    from toolkit.pipelines.slots import Pipeline
    from toolkit.tokens.stream import TokenStream

__all__ = ["Dataset", "open"]


def open(
    reference: str | os.PathLike[str], *, split: str | None = None, columns: Sequence[str] | None = None
) -> Dataset:
    """Open a version of a dataset: a folder or manifest file, with or without a pin (PATH@sha256:<hex>).

    Args:
        reference: The dataset. A plain path is the current version; a pin, or 12 or more of its digits, is that one.
        split: Which split. May be left out when there is only one.
        columns: The columns to read; all when left out.

    Raises:
        NotFoundError: There is no such dataset, split or column; the message names those that are there.
        PinMismatchError: No version has the pin, or the manifest was changed after it was packed.
        CorruptTableError, FormatError: A table is damaged, or the dataset is of a newer format.
    """
    if isinstance(columns, str):
        raise UsageError(f"columns takes a list of names, got the text {columns!r}: columns=[{columns!r}]")
    version = resolve(reference)
    splits = version.manifest.splits
    if not splits:
        raise CorruptTableError(f"the manifest of {reference} has no splits")
    if split is None and len(splits) > 1:
        raise UsageError(f"{reference} has the splits {', '.join(splits)}: say split=")
    name = next(iter(splits)) if split is None else split
    if name not in splits:
        raise NotFoundError(
            f"{reference} has no split {name!r}; it has {', '.join(splits)}.{did_you_mean(name, splits)}"
        )
    known = [column.name for column in version.manifest.columns]
    for column in columns or ():
        if column not in known:
            raise NotFoundError(
                f"{reference} has no column {column!r}; it has {', '.join(known)}.{did_you_mean(column, known)}"
            )
    selected = tuple(c for c in version.manifest.columns if columns is None or c.name in columns)
    return Dataset(_Opened(version, name), selected, None)


class _Opened:
    """What all views of a split share: tables, label names, open shards. Opens shards when they are first read."""

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


@dataclass(frozen=True, slots=True)
class _Pickled:
    """What a dataset pickles as: it is opened again, by its pin, where it arrives."""

    root: str
    pin: str
    split: str
    columns: tuple[str, ...]
    rows: NDArray[np.int64] | None

    def open(self) -> Dataset:
        dataset = open(f"{self.root}@sha256:{self.pin}", split=self.split, columns=self.columns)
        return dataset if self.rows is None else dataset.take(self.rows)


class Dataset:
    """Samples of one split, by row; or a view of some of them. Safe from any thread; pickles as path and pin.

    `len(ds)`, `ds[i]` (a dict of column -> value, with "__key__"), `ds[a:b]` (a view). Image values are the stored
    bytes, labels are ints or None.
    """

    def __init__(self, opened: _Opened, columns: tuple[Column, ...], rows: NDArray[np.int64] | None) -> None:
        self._opened = opened
        self._columns = columns
        self._rows = rows

    def __len__(self) -> int:
        return self._opened.index.rows if self._rows is None else len(self._rows)

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> dict[str, Any] | Self:
        """Return a sample, or a view of a range. Raises IndexError, CorruptShardError."""
        if isinstance(index, slice):
            return self.take(np.arange(*index.indices(len(self)), dtype=np.int64))
        index = operator.index(index)
        if not -len(self) <= index < len(self):
            raise IndexError(f"sample {index} of {len(self)}")
        return self._sample(int(self.rows(np.array([index % len(self)], np.int64))[0]))

    def __repr__(self) -> str:
        names = ", ".join(column.name for column in self._columns)
        return f"<toolkit.Dataset {self.split}: {len(self)} samples, columns {names}, pin {self.pin[:12]}>"

    def __reduce__(self) -> tuple[Any, ...]:
        version = self._opened.version
        root = os.path.abspath(version.root)
        names = tuple(column.name for column in self._columns)
        return _Pickled.open, (_Pickled(root, version.pin, self.split, names, self._rows),)

    @property
    def pin(self) -> str:
        """The sha256 of the manifest: 64 hex digits that name these samples for ever."""
        return self._opened.version.pin

    @property
    def manifest(self) -> Manifest:
        """The manifest."""
        return self._opened.version.manifest

    @property
    def split(self) -> str:
        """Name of the split."""
        return self._opened.split

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema of the shards."""
        return self._opened.schema

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that are read."""
        return self._columns

    @property
    def classes(self) -> tuple[str, ...] | None:
        """Names of the label column's ids, or None without one.

        Raises:
            UsageError: There are several label columns.
        """
        labels = [column.name for column in self._columns if column.kind is Kind.LABEL]
        if len(labels) > 1:
            raise UsageError(f"several label columns ({', '.join(labels)}): read the classes of each from the manifest")
        return self._opened.classes[labels[0]] if labels else None

    @property
    def is_view(self) -> bool:
        """Whether this is some of the split's rows, or all in another order."""
        return self._rows is not None

    @property
    def files(self) -> list[str]:
        """Paths of this version's shards of the split, for other tools. A glob would see older versions as well."""
        root = self._opened.version.root
        return [os.path.join(root, path) for path in self._opened.index.paths.to_pylist()]

    @property
    def root(self) -> str:
        """The dataset's folder."""
        return self._opened.version.root

    @property
    def index(self) -> ShardIndex:
        """Shards and record batches of the whole split, whatever this view takes of it."""
        return self._opened.index

    @property
    def class_names(self) -> Mapping[str, tuple[str, ...]]:
        """Class names of every label column, in id order."""
        return self._opened.classes

    def read_table(self, digest: str) -> bytes:
        """Return a table that the manifest names, checked against its sha256."""
        return read_table(self._opened.version, digest)

    @property
    def fetcher(self) -> Fetcher:
        """Checked reads of the split's values."""
        return self._opened.fetcher

    def take(self, rows: Sequence[int] | NDArray[np.int64]) -> Self:
        """Return a view of these rows of this dataset, in this order; a row may come more than once."""
        return type(self)(self._opened, self._columns, self.rows(self._numbers("take", rows)))

    def rows(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the row of the split behind each row of this view."""
        return positions if self._rows is None else self._rows[positions]

    def _numbers(self, call: str, rows: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
        """Return a copy of row numbers, checked: numpy would cast masks, floats and text without a word."""
        given = np.asarray(rows).reshape(-1)
        if given.dtype.kind not in "iu" and given.size:
            hint = ": for a mask, give np.flatnonzero(mask)" if given.dtype.kind == "b" else ""
            raise UsageError(f"{call}: rows must be whole numbers, got {given.dtype}{hint}")
        if given.size and not (int(given.min()) >= 0 and int(given.max()) < len(self)):
            raise IndexError(f"{call}: rows must be within 0..{len(self) - 1}")
        return given.astype(np.int64)  # a copy: the caller may shuffle his array in place

    def keys(self, rows: Sequence[int] | NDArray[np.int64] | None = None) -> list[str]:
        """Return the keys of rows of this view; of all when left out."""
        chosen = np.arange(len(self), dtype=np.int64) if rows is None else self._numbers("keys", rows)
        return self.fetcher.keys(self.fetcher.locate(self.rows(chosen)))

    def open_split(self, split: str) -> Dataset:
        """Return another split of the very same version, whatever was committed since this one was opened."""
        names = [column.name for column in self._columns]
        return open(f"{self.root}@sha256:{self.pin}", split=split, columns=names)

    def loader(
        self,
        pipeline: Pipeline | None = None,
        *,
        batch_size: int,
        shuffle: str = "none",
        seed: int = 0,
        epochs: int = 1,
        prefetch: int = 4,
        threads: int | str = "auto",
        rank: int = 0,
        world_size: int = 1,
        remainder: str = "keep",
        output: str = "numpy",
    ) -> Loader:
        """Return a loader over these samples; toolkit.loader.loader.LoaderOptions describes the options.

        Raises:
            UsageError, PipelineError: An option, or a slot of the pipeline, can't be; no sample is read yet.
        """
        from toolkit.loader.loader import Loader

        return Loader(
            self,
            pipeline,
            batch_size=batch_size,
            shuffle=shuffle,
            seed=seed,
            epochs=epochs,
            prefetch=prefetch,
            threads=threads,
            rank=rank,
            world_size=world_size,
            remainder=remainder,
            output=output,
        )

    def tokens(self, **options: Any) -> TokenStream:
        """Return a stream of windows over this split's tokens; toolkit.tokens.stream.TokenStream has the options.

        Raises:
            UsageError: An option can't be, or the dataset has no tokens; nothing is read yet.
        """
        # Tokens build on the loader, so they are met by name here.
        stream: TokenStream = importlib.import_module("toolkit.tokens.stream").TokenStream(self, **options)
        return stream

    def _sample(self, row: int) -> dict[str, Any]:
        located = self.fetcher.locate(np.array([row], np.int64))
        sample: dict[str, Any] = {KEY: self.fetcher.keys(located)[0]}
        for column in self._columns:
            if column.kind is Kind.IMAGE and self.schema.field(column.name).type == IMAGE_TYPE:
                sample[column.name] = self.fetcher.variable(
                    leaf_name(column.name, "bytes"), located, FetchBuffer()
                ).bytes(0)
            else:
                sample[column.name] = self.fetcher.values(column.name, located)[0]
        return sample

    def check_row(self, row: int) -> None:
        """Read every stored byte of row `row` of the view, its key and digest too. Raises CorruptShardError."""
        located = self.fetcher.locate(self.rows(np.array([row], np.int64)))
        for name in self.schema.names:
            self.fetcher.values(name, located)
