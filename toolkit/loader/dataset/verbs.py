"""A dataset with verbs: samples chosen, sorted, split, and columns chosen and named; each gives a view."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from toolkit.errors import UsageError
from toolkit.format.schema import KEY, derived_columns
from toolkit.loader.dataset import dataset
from toolkit.loader.dataset.conversions import with_class_names, with_features, with_pandas, with_polars
from toolkit.loader.dataset.filters import matching_rows
from toolkit.loader.dataset.functions import kept_by
from toolkit.loader.dataset.kept import KeptResult
from toolkit.loader.dataset.naming import checked_names, checked_renames, new_name
from toolkit.loader.dataset.opened import Stored
from toolkit.loader.dataset.selection import Bits, Listed
from toolkit.loader.dataset.sorting import sorted_places
from toolkit.loader.dataset.splitting import checked_shares, dealt, group_column, shares_of_test
from toolkit.loader.dataset.tables import read_table
from toolkit.loader.dataset.views import array_hash, view_hash

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Dataset"]


class Dataset(dataset.Dataset):
    """A split of a dataset, or a view of it, and what makes other views of it."""

    def filter(
        self,
        condition: pc.Expression | Callable[[Any], Any],
        columns: Sequence[str] | None = None,
        *,
        version: int | str | None = None,
        batched: bool = False,
    ) -> Self:
        """Return a view of the samples for which an expression on stored columns, or a function, is true.

        They keep their order. An expression reads only the columns it names, read by this view or not, once for each
        pin and expression in the process; labels are their ids. A function is asked once for each sample, in the order
        in which they are stored, and given the columns that `columns` names and no others.

            ds.filter((pc.field("label") == 3) & pc.field("text").is_valid())
            ds.filter(lambda sample: len(sample["text"]) > 20, columns=["text"])

        Args:
            condition: A pyarrow.compute.Expression, or a function that returns True or False for a dict of values.
            columns: What the function is given; "__key__" and derived columns may be among them, media as in ds[i].
            version: Store the function's result in the user's cache folder by pin, split, view, the function's name,
                columns and this version: the next time, in any process, nothing is read. Say another version when what
                it does changes. That its code or a plain constant changed is noticed and refused; that a file, a model
                or another module changed is not.
            batched: Give the function a pyarrow.RecordBatch of many samples; it returns as many bools. Its columns are
                Arrow's: np.asarray(batch["score"]) > 0.5.

        Raises:
            UsageError: It is no expression or function, names no column, isn't true or false, or has changed.
            SampleError: The function raised; the message names the sample.
            CorruptShardError: A value it reads isn't what was packed.
        """
        if callable(condition):
            return self._filter_by(condition, columns, version, batched)
        if columns is not None or version is not None or batched:
            raise UsageError("filter: columns=, version= and batched= go with a function; an expression needs none")
        return self._kept(matching_rows(self.stored, condition), self._rows())

    def _filter_by(
        self, function: Callable[[Any], Any], columns: object, version: int | str | None, batched: bool
    ) -> Self:
        if columns is None:
            raise UsageError(
                'filter: say which columns the function is given, columns=["label", "score"]: only these are read'
            )
        names = checked_names("filter", columns, self.schema, own=(KEY,))
        if not names:
            raise UsageError("filter: columns= names none, and a function that is given nothing can't choose")
        rows = self._rows()
        if version is None:
            return self._kept(kept_by(self.stored, rows, function, names, batched), rows)
        result = KeptResult(function, version, self.view, self.pins, self.split, names, batched)
        kept = result.read(len(self))
        if kept is None:
            kept = kept_by(self.stored, rows, function, names, batched)
            result.write(kept)
        return self._kept(kept, rows)

    def sort(self, by: str | Sequence[str], *, descending: bool | Sequence[bool] = False) -> Self:
        """Return a view in the order of a column, or of several, the first one first.

        It is stable: samples that are equal keep their order, descending or not. What is missing comes last either way,
        and NaN right before it. Texts are in the order of their code points, labels in that of their ids.

        Raises:
            NotFoundError: There is no such column.
            UsageError: A column has no order.
            CorruptShardError: A value isn't what was packed.
        """
        rows = self._rows()
        places = sorted_places(self.stored, rows, by, descending)
        listed = places if rows is None else rows[places]
        return self._view(Listed(len(places), listed), "take", array_hash(places))

    def train_test_split(self, test_size: float = 0.2, *, by: str = "key", seed: int = 0) -> dict[str, Self]:
        """Return {"train": a view, "test": a view}; split_by() with two parts. `test_size` is a share, from 0 to 1."""
        return self._split("train_test_split", shares_of_test(test_size), by, seed)

    def split_by(self, shares: Mapping[str, float], *, by: str = "key", seed: int = 0) -> dict[str, Self]:
        """Return a view for each part: ds.split_by({"train": 0.8, "val": 0.1, "test": 0.1}).

        Samples are dealt out by a hash, keyed by the seed, of their keys, or of the values of a column: what has one
        value is all in one part. Nothing else counts. So a sample stays in its part when others are added, taken out or
        sorted, and a part that grows keeps what it had from its neighbour. Shares are met as far as chance has it.

        Args:
            shares: The share of each part; they add up to 1.
            by: "key", or a column of groups: text, numbers, classes (by name), times. A sample without a value, or with
                NaN, has no group: it is dealt out by its key.
            seed: Another one deals anew.

        Raises:
            NotFoundError: There is no such column.
            UsageError: The shares don't add up, or no samples can be kept together by that column.
            CorruptShardError: A value isn't what was packed.
        """
        return self._split("split_by", checked_shares("split_by", shares), by, seed)

    def select(self, columns: Sequence[str]) -> Self:
        """Return the same samples with these columns alone, in this order; derived ones may be among them.

        As with open(columns=...), the others are still there for filters. It is the same view.

        Raises:
            NotFoundError: There is no such column; the message names those that are there.
        """
        names = checked_names("select", columns, self.schema)
        derived = derived_columns(self.stored.derived, self.schema)
        known = {column.name: column for column in (*self.stored.columns, *derived)}
        return type(self)(self.stored, tuple(known[name] for name in names), self.selection, self.view)

    def rename(self, names: Mapping[str, str]) -> Self:
        """Return the same samples with columns called otherwise: ds.rename({"image": "picture"}).

        All that takes or gives names has the new ones: samples, batches, slots, filters, classes, the schema, and
        derived columns, which are called after theirs. Two columns may swap names.

        Raises:
            NotFoundError: There is no such column.
            UsageError: Two columns would have one name, or a name can't be that of a column.
        """
        renames = checked_renames(names, self.schema)
        if not renames:
            return self
        view = view_hash("rename", self.view, *(name for pair in sorted(renames.items()) for name in pair))
        return self._of(self.stored.renamed(renames), view)

    def with_key(self, name: str) -> Self:
        """Return the same samples with their keys as one more column, of text: for batches, filters and tables.

        Raises:
            UsageError: There is a column of that name, or the key is a column already.
        """
        now = self.stored.key
        named = self
        if now is None or now != name:
            new_name("with_key", name, self.schema)
            if now is not None:
                raise UsageError(f"with_key: the key is the column {now!r} already: rename({{{now!r}: {name!r}}})")
            named = self._of(self.stored.with_key(name), self.view)
        if any(column.name == name for column in named._columns):
            return named
        columns = (*named._columns, named.stored.columns[-1])
        return type(self)(named.stored, columns, self.selection, self.view)

    def to_arrow(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Return a pyarrow.Table with a row for each sample, in order; all of it is in memory.

        Labels are dictionaries: indices are their ids, values all class names. Media are structs as stored: files'
        bytes with their names. The key is a column only after with_key().

        Args:
            columns: Which columns; when left out, those that this view reads.

        Raises:
            NotFoundError: There is no such column.
            CorruptShardError: A value isn't what was packed.
        """
        return with_class_names(self.stored, self._table("to_arrow", columns))

    def to_polars(self, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """Return a polars.DataFrame; as to_arrow(), but labels are an Enum of class names: to_physical() gives ids."""
        return with_polars(self.stored, self._table("to_polars", columns))

    def to_pandas(self, columns: Sequence[str] | None = None) -> Any:
        """Return a pandas.DataFrame; as to_arrow(), but labels are categories: .cat.codes gives ids, -1 is none.

        Whole numbers and bools of which some are missing have pandas' nullable types.
        """
        return with_pandas(self.stored, self._table("to_pandas", columns))

    def to_hf(self, columns: Sequence[str] | None = None) -> Any:
        """Return a datasets.Dataset (Hugging Face) in memory; as to_arrow(), but with ClassLabel and Image features."""
        return with_features(self.stored, self._table("to_hf", columns))

    def _table(self, call: str, columns: Sequence[str] | None) -> pa.Table:
        if columns is None:
            names = [column.name for column in self._columns]
        else:
            names = checked_names(call, columns, self.schema, own=(KEY,))
        return read_table(self.stored, names, self._rows())

    def _of(self, stored: Stored, view: str) -> Self:
        """Return the same samples and columns, of the same splits by other names."""
        called = dict(zip(self.schema.names, stored.schema.names, strict=False))  # a key's column is the last one
        columns = (msgspec.structs.replace(column, name=called[column.name]) for column in self._columns)
        return type(self)(stored, tuple(columns), self.selection, view)

    def _kept(self, kept: Bits | NDArray[np.bool_], rows: NDArray[np.int64] | None) -> Self:
        """Return a view of the samples that are kept, in their order; `rows` are those of _rows()."""
        if rows is None:
            bits = kept if isinstance(kept, Bits) else Bits.of(kept)
            return self._view(bits, "filter", array_hash(bits.blocks))
        places = np.flatnonzero(kept.has(rows) if isinstance(kept, Bits) else kept)
        return self._view(Listed(len(places), rows[places]), "filter", array_hash(places))

    def _split(self, call: str, shares: Mapping[str, float], by: str, seed: int) -> dict[str, Self]:
        column = group_column(call, by, self.schema)
        rows = self._rows()
        parts = dealt(self.stored, rows, column, list(shares.values()), seed)
        return {name: self._kept(parts == number, rows) for number, name in enumerate(shares)}
