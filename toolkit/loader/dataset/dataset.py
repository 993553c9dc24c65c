"""A version of a dataset, opened: its samples by row, its classes and files, and views of it."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, overload

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from toolkit.errors import UsageError
from toolkit.escapes import listed, plain
from toolkit.format.index import ShardIndex
from toolkit.format.manifest import Manifest
from toolkit.format.pin import read_table
from toolkit.format.reader import Verify
from toolkit.format.schema import KEY, Column, Kind
from toolkit.loader.dataset.fetch import Fetcher
from toolkit.loader.dataset.joined import JoinedSplits
from toolkit.loader.dataset.naming import checked_names
from toolkit.loader.dataset.opened import Opened, Place, Stored
from toolkit.loader.dataset.picked import picked_rows
from toolkit.loader.dataset.samples import Samples
from toolkit.loader.dataset.selection import Listed, Repeated, Selection, Span
from toolkit.loader.dataset.values import UNSET, column_values
from toolkit.loader.dataset.views import array_hash, short_pins, view_hash
from toolkit.storage.memory import MemoryStore

__all__ = ["Dataset"]

_KEYS_AT_A_TIME = 1 << 16


@dataclass(frozen=True, slots=True)
class _Pickled:
    """What a dataset pickles as: its splits are opened again, by their pins, where it arrives."""

    places: tuple[Place, ...]
    columns: tuple[Column, ...]
    selection: Selection
    view: str

    def open(self, kind: type[Dataset]) -> Dataset:
        opened = [place.open() for place in self.places]
        stored: Stored = opened[0] if len(opened) == 1 else JoinedSplits(opened)
        return kind(stored, self.columns, self.selection, self.view)


class Dataset:
    """Samples of one split, by row; or a view of some of them. Safe from any thread; pickles as path and pin.

    `len(ds)`, `ds[i]` (a dict of column -> value, with "__key__"), `ds[a:b]` and `ds[[i, j]]` (views). Image values are
    the stored bytes, or uint8 (height, width, 3) where the encoding is raw; labels are ints or None. Views (slices,
    take, filter, repeat, select, rename, toolkit.concat) copy no sample.

    Attributes:
        stored: The split, or the joined splits, whose rows are selected.
        selection: Which of its rows, and in which order.
        view: A hash, 64 hex digits, of the pins and of what made this view: equal ones hold equal samples.
    """

    def __init__(self, stored: Stored, columns: tuple[Column, ...], selection: Selection, view: str) -> None:
        self.stored = stored
        self.selection = selection
        self.view = view
        self._columns = columns
        self._samples: Samples | None = None

    def __len__(self) -> int:
        return self.selection.samples

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: str) -> Any: ...
    @overload
    def __getitem__(self, index: slice | Sequence[int] | Sequence[bool] | NDArray[Any]) -> Self: ...
    def __getitem__(self, index: Any) -> Any:
        """Return a sample; a view of a range, of a list of rows, or of those where a mask is True; or a column.

        Rows below 0 count from the end. ds["label"] is ds.column("label").

        Raises:
            IndexError: There is no such row, or a mask has another length than the dataset.
            CorruptShardError: The sample isn't what was packed.
        """
        if isinstance(index, slice):
            return self._span(index)
        if isinstance(index, str):
            return self.column(index)
        try:
            row = operator.index(index)
        except TypeError:
            chosen = picked_rows(index, len(self))
            return self._view(Listed(len(chosen), self.rows(chosen)), "take", array_hash(chosen))
        samples = self.selection.samples
        if row < 0:
            row += samples
        if not 0 <= row < samples:
            raise IndexError(f"sample {index} of {samples}")
        if self._samples is None:
            self._samples = Samples(self.fetcher, self.schema, self._columns)
        return self._samples.read(self.selection.row(row))

    def __repr__(self) -> str:
        names = listed(column.name for column in self._columns)
        view = f", view {self.view[:12]}" if self.is_view else ""
        stores = [part.version.store for part in self.stored.parts]
        origins = [plain(str(store.origin)) for store in stores if isinstance(store, MemoryStore)]
        memory = f", in memory, of {' and '.join(origins)}" if origins else ""
        return (
            f"<toolkit.Dataset {plain(self.split)}: {len(self)} samples, columns {names}, "
            f"pin {short_pins(self.pins)}{view}{memory}>"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        places = tuple(part.place for part in self.stored.parts)
        return _Pickled.open, (_Pickled(places, self._columns, self.selection, self.view), type(self))

    @property
    def pins(self) -> tuple[str, ...]:
        """The pin of each dataset that was joined; of one that wasn't, its pin alone."""
        return tuple(part.version.pin for part in self.stored.parts)

    @property
    def pin(self) -> str:
        """The sha256 of the manifest: 64 hex digits that name these samples for ever."""
        return self._only("pin").version.pin

    @property
    def manifest(self) -> Manifest:
        """The manifest."""
        return self._only("manifest").version.manifest

    @property
    def split(self) -> str:
        """Name of the split."""
        return self.stored.split

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema of the shards, by the names that columns have here."""
        return self.stored.schema

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that are read."""
        return self._columns

    @property
    def classes(self) -> tuple[str, ...] | None:
        """Names of the label column's ids; without one, of those in the column of lists that names them; else None.

        Raises:
            UsageError: There are several such columns.
        """
        named = [column for column in self._columns if column.name in self.stored.classes]
        labels = [column.name for column in named if column.kind is Kind.LABEL] or [column.name for column in named]
        if len(labels) > 1:
            raise UsageError(f"several columns of classes ({', '.join(labels)}): class_names has those of each")
        return self.stored.classes[labels[0]] if labels else None

    @property
    def is_view(self) -> bool:
        """Whether this is some of the split's rows, or all in another order, or some more than once."""
        return self.selection != Span(self.stored.rows, 0, 1)

    @property
    def files(self) -> list[str]:
        """Paths of this version's shards of the split, for other tools. A glob would see older versions as well."""
        return [part.version.store.place(path) for part in self.stored.parts for path in part.index.paths()]

    @property
    def root(self) -> str:
        """The dataset's folder."""
        return self._only("root").version.root

    @property
    def roots(self) -> dict[str, str]:
        """The folders that the files of its references lie in, by the names of roots; none where it holds its values.

        Raises:
            UsageError: The dataset's own roots.json can't be trusted: open it with roots=.
        """
        part = self._only("roots")
        return {} if part.references is None else part.roots.places()

    @property
    def index(self) -> ShardIndex:
        """Shards and record batches of the whole split, whatever this view takes of it."""
        return self._only("index").index

    @property
    def class_names(self) -> Mapping[str, tuple[str, ...]]:
        """Class names of every column that has a label table, in id order."""
        return self.stored.classes

    def read_table(self, digest: str) -> bytes:
        """Return a table that the manifest names, checked against its sha256."""
        return read_table(self._only("tables").version, digest)

    @property
    def fetcher(self) -> Fetcher:
        """Checked reads of the split's values."""
        return self.stored.fetcher

    def take(self, rows: Sequence[int] | NDArray[np.int64]) -> Self:
        """Return a view of these rows of this dataset, in this order; a row may come more than once."""
        chosen = self._numbers("take", rows)
        return self._view(Listed(len(chosen), self.rows(chosen)), "take", array_hash(chosen))

    def column(self, name: str, *, missing: Any = UNSET, media: bool = False) -> NDArray[Any] | list[Any]:
        """Return the values of a column, one for each sample: a numpy array of numbers, bools or labels, else a list.

        Any stored column may be named, read by this view or not; "__key__" is the keys'. Labels are their ids.

        Args:
            name: The column.
            missing: What stands for a value that isn't there. When left out, a number that is missing is an error,
                since no number says so; of other types it is None.
            media: Whether images and the like are read as well: all of them are in memory at once then.

        Raises:
            NotFoundError: There is no such column.
            UsageError: It holds media, or `missing` is no value of its type.
            SampleError: A number is missing.
            CorruptShardError: A value isn't what was packed.
        """
        checked_names("column", [name], self.schema, own=(KEY,))
        return column_values(self.stored, name, self._rows(), missing, media)

    def verified(self, verify: str) -> Self:
        """Return the same samples, read with other checks; toolkit.open() describes `verify`. Raises UsageError."""
        return type(self)(self.stored.verified(Verify.named(verify)), self._columns, self.selection, self.view)

    def repeat(self, times: int) -> Self:
        """Return a view of these samples `times` times in a row: an epoch of a loader then has each so often."""
        if not isinstance(times, int) or isinstance(times, bool) or times < 1:
            raise UsageError(f"repeat takes a whole number of at least 1, got {times!r}")
        if len(self) * times > 1 << 62:
            raise UsageError(f"repeat: {times} times {len(self)} samples are more than an order can have, 2**62")
        repeated = Repeated(len(self) * times, len(self))
        return self._view(self.selection.then(repeated), "repeat", times)

    def rows(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the row of the split behind each row of this view."""
        return self.selection.rows(positions)

    def _rows(self) -> NDArray[np.int64] | None:
        """Return the row of the split behind each row of this view; None where it is the split as it is."""
        return self.rows(np.arange(len(self), dtype=np.int64)) if self.is_view else None

    def _span(self, index: slice) -> Self:
        start, stop, step = index.indices(len(self))
        span = Span(len(range(start, stop, step)), start, step)
        if (start, step, span.samples) == (0, 1, len(self)):
            return self
        return self._view(self.selection.then(span), "slice", start, step, span.samples)

    def _view(self, selection: Selection, operation: str, *arguments: str | int) -> Self:
        view = view_hash(operation, self.view, *arguments)
        return type(self)(self.stored, self._columns, selection, view)

    def _only(self, what: str) -> Opened:
        """Return the one split this is a view of; joined datasets have no `what` of their own."""
        if len(self.stored.parts) > 1:
            raise UsageError(f"{len(self.stored.parts)} joined datasets have no {what} in common: ask each of them")
        return self.stored.parts[0]

    def _numbers(self, call: str, rows: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
        """Return a copy of row numbers, checked: numpy would cast masks, floats and text without a word."""
        given = np.asarray(rows).reshape(-1)
        if given.dtype.kind not in "iu" and given.size:
            hint = ": a mask goes into brackets, ds[mask]" if given.dtype.kind == "b" else ""
            raise UsageError(f"{call}: rows must be whole numbers, got {given.dtype}{hint}")
        if given.size and not (int(given.min()) >= 0 and int(given.max()) < len(self)):
            raise IndexError(f"{call}: rows must be within 0..{len(self) - 1}")
        return given.astype(np.int64)  # a copy: the caller may shuffle his array in place

    def keys(self, rows: Sequence[int] | NDArray[np.int64] | None = None) -> list[str]:
        """Return the keys of rows of this view; of all when left out."""
        if rows is not None:
            return self.fetcher.keys(self.fetcher.locate(self.rows(self._numbers("keys", rows))))
        keys: list[str] = []
        for start in range(0, len(self), _KEYS_AT_A_TIME):
            positions = np.arange(start, min(start + _KEYS_AT_A_TIME, len(self)), dtype=np.int64)
            keys += self.fetcher.keys(self.fetcher.locate(self.rows(positions)))
        return keys

    def check_row(self, row: int) -> None:
        """Read every stored byte of row `row` of the view, its key and digest too. Raises CorruptShardError."""
        located = self.fetcher.locate(self.rows(np.array([row], np.int64)))
        for name in self.schema.names:
            self.fetcher.values(name, located)
