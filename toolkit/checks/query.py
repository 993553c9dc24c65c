"""Ask a dataset in SQL: polars answers, over shards that are read and checked as any reader of them does."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from toolkit.checks.arguments import argument
from toolkit.checks.query_columns import ROWS, QueryColumn, columns_of, split_column
from toolkit.checks.query_scan import Scan
from toolkit.checks.query_values import rows_of
from toolkit.checks.sql.statement import Statement
from toolkit.errors import UsageError, did_you_mean
from toolkit.escapes import listed, short
from toolkit.format.contents import read_classes, read_schema
from toolkit.format.pin import Version, resolve
from toolkit.loader.dataset.opened import Opened
from toolkit.once.looks import names_dataset
from toolkit.options.values import Text

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

__all__ = ["QueryResult", "query"]

_ALL = ("samples", "__samples__")  # the table of all splits; the second name where a split has the first
_SHOWN = 300
_PLACE = re.compile(r" at Line: (\d+), Column: (\d+)")
_NO_COLUMN = re.compile(r'unable to find column "(.*?)"; valid columns', re.DOTALL)

Value = TypeVar("Value")


class QueryResult:
    """The answer to a query, found out each time that it is asked for.

    Attributes:
        root, pin: The dataset and its version.
        columns: The columns of the answer, each with the name of its type in polars.
        schema: The same, with the types themselves.
        left_out: Columns that * would stand for, and that are large or that polars can't hold: they are only read when
            a query names them.
    """

    def __init__(
        self, version: Version, statement: Statement, tables: Mapping[str, _Table], left_out: tuple[str, ...]
    ) -> None:
        import polars as pl

        self.root = version.root
        self.pin = version.pin
        self.left_out = left_out
        self._statement = statement
        self._tables = tables
        self._scans = {name: Scan(tables[name].opened(), tables[name].columns) for name in sorted(statement.tables)}
        frames = {name: scan.frame() for name, scan in self._scans.items()}
        self._lazy: pl.LazyFrame = self._answered(
            lambda: pl.SQLContext(frames, register_globals=False).execute(statement.sql, eager=False)
        )
        self.schema: Mapping[str, pl.DataType] = self._answered(self._lazy.collect_schema)
        self.columns: dict[str, str] = {name: str(dtype) for name, dtype in self.schema.items()}

    def __repr__(self) -> str:
        return f"<toolkit.QueryResult {listed(f'{name}: {dtype}' for name, dtype in self.columns.items())}>"

    def to_polars(self, most: int | None = None) -> pl.DataFrame:
        """Return the answer, or its first `most` rows, as a polars DataFrame.

        Raises:
            UsageError: polars can't carry the query out.
            CorruptShardError, CorruptTableError: A value isn't what was packed.
        """
        lazy = self._lazy if most is None else self._lazy.head(most)
        return self._answered(lambda: lazy.collect(engine="streaming"))

    def to_arrow(self, most: int | None = None) -> pa.Table:
        """Return the answer, or its first `most` rows, as an Arrow table. Raises as to_polars()."""
        frame = self.to_polars(most)
        return self._answered(frame.to_arrow)

    def rows(self, most: int | None = None) -> list[dict[str, Any]]:
        """Return the answer, or its first `most` rows, as dicts: column -> value. Raises as to_polars()."""
        return rows_of(self.to_arrow(most))

    def batches(self) -> Iterator[pl.DataFrame]:
        """Yield the answer in pieces, in its order: all of it is never in memory. Raises as to_polars()."""
        pieces = self._answered(lambda: iter(self._lazy.collect_batches(maintain_order=True, engine="streaming")))
        while (frame := self._answered(lambda: next(pieces, None))) is not None:
            yield frame

    def sink(self, write: Callable[[pl.LazyFrame], object]) -> None:
        """Have a function write the answer, as a LazyFrame that isn't collected yet. Raises as to_polars()."""
        self._answered(lambda: write(self._lazy))

    def write(self, path: str | os.PathLike[str], *, format: str | None = None) -> int:
        """Write the answer into a file; toolkit.checks.query_output.write_answer says how."""
        from toolkit.checks.query_output import write_answer

        return write_answer(self, path, format=format)

    def _answered(self, ask: Callable[[], Value]) -> Value:
        """Return what polars answers; its errors become ours, and ours stay what they are."""
        import polars as pl

        try:
            return ask()
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            for scan in self._scans.values():
                if scan.failed is not None:
                    raise scan.failed from error
            raise self._usage_error(str(error)) from error

    def _usage_error(self, said: str) -> UsageError:
        missing = _NO_COLUMN.match(said)
        if missing is not None:
            return self._no_column(missing[1])
        text = said.partition("\n")[0].removeprefix("sql parser error: ")
        place = _PLACE.search(text)
        if place is not None:
            text = text.replace(place[0], self._statement.place(int(place[2])))
        return UsageError(f"query: {short(text, _SHOWN)}")

    def _no_column(self, name: str) -> UsageError:
        known = dict.fromkeys(column.name for table in self._used() for column in table.known)
        alike = next((one for one in known if one.lower() == name.lower()), None)
        hint = f" Did you mean {alike!r}?" if alike else did_you_mean(name, known)
        if name in known:
            return UsageError(
                f"query: the column {name!r} isn't one of what this part of the query takes its rows from"
            )
        tables = listed(sorted(self._statement.tables)) or "a query without FROM"
        shown = [column.name for table in self._used() for column in table.known if column.in_star or column.large]
        return UsageError(
            f"query: {tables} has no column {short(name, 60, quoted=True)}; "
            f"the columns are {listed(dict.fromkeys(shown), 64)}.{hint}"
        )

    def _used(self) -> list[_Table]:
        return [self._tables[name] for name in sorted(self._statement.tables or self._tables)]


class _Table:
    """A table that a query may name: `known` are its columns, `columns` those that this query can see."""

    def __init__(self, name: str, version: Version, splits: Sequence[str], known: Sequence[QueryColumn]) -> None:
        self.name = name
        self.known = known
        self.columns: list[QueryColumn] = []
        self._version = version
        self._splits = splits

    def show(self, statement: Statement) -> None:
        """Keep the columns that the query names; with a * in it, also what that stands for."""
        self.columns = [
            one
            for one in self.known
            if one.name in statement.names or (statement.is_wild and one.in_star and one.refusal is None)
        ] or [ROWS]

    def star(self) -> dict[str, list[str]]:
        """Return what * stands for, where polars would take it for more: the query names what it doesn't stand for."""
        listed = [one.name for one in self.columns if one.in_star]
        return {self.name: listed} if listed and len(listed) < len(self.columns) else {}

    def left_out(self, statement: Statement) -> list[str]:
        """Return the names of the dataset's columns that are neither in * nor named."""
        seen = {column.name for column in self.columns}
        return [one.name for one in self.known if (one.in_star or one.large) and one.name not in seen]

    def opened(self) -> list[Opened]:
        return [Opened(self._version, split) for split in self._splits]


def query(dataset: Any, sql: str) -> QueryResult:
    """Ask a dataset in SQL: `select label, count(*) as n from train group by label order by n desc`.

    Tables are the splits, by their names, and `samples`: all splits one after the other, with the column `split`.
    Where there is one split, FROM may be left out. Columns are the dataset's, `__key__`, `__digest__` and derived ones.
    A label column holds the names of classes, and LABEL_id their numbers. * leaves large columns out (images, lists,
    tokens, bytes): they are read when the query names them. Only what is needed is read, when the answer is asked for.

    Args:
        dataset: As toolkit.open takes it: a dataset, or what isn't packed yet.
        sql: One SELECT, in the SQL of polars.

    Raises:
        UsageError: It isn't one SELECT over these tables, or polars can't carry it out.
        NotFoundError, PinMismatchError, CorruptTableError, FormatError: As toolkit.open.
        CorruptShardError: A value isn't what was packed, when the answer is asked for.
    """
    text = argument("sql", sql, Text())
    version = _version(dataset)
    tables = _tables(version)
    splits = list(version.manifest.splits)
    default = splits[0] if len(splits) == 1 else None
    statement = Statement(text, {name: [one.name for one in table.known] for name, table in tables.items()}, default)
    _check_ids_are_named(statement, tables)
    left_out: dict[str, None] = {}
    stars: dict[str, list[str]] = {}
    for name in sorted(statement.tables):
        tables[name].show(statement)
        stars |= tables[name].star()
        left_out |= dict.fromkeys(tables[name].left_out(statement) if statement.is_wild else [])
    statement.expand_stars(stars)
    return QueryResult(version, statement, tables, tuple(left_out))


def _version(dataset: Any) -> Version:
    if isinstance(dataset, str | os.PathLike) and names_dataset(os.fsdecode(dataset)):
        return resolve(dataset)
    # Late: whoever asks a dataset needs nothing of what makes one.
    from toolkit.once.versions import made_version

    return made_version(dataset, None, None, None, {})


def _check_ids_are_named(statement: Statement, tables: Mapping[str, _Table]) -> None:
    """Raise UsageError where names of classes are compared with a number: polars would find them all unequal."""
    labels = {one.stored for name in statement.tables for one in tables[name].known if one.names}
    wrong = statement.compared_with_number(labels)
    if wrong is not None:
        ids = next(
            one.name for table in tables.values() for one in table.known if one.stored == wrong and not one.names
        )
        raise UsageError(
            f"query: {wrong!r} holds the names of classes, and is compared with a number. Their ids are in {ids!r}"
        )


def _tables(version: Version) -> dict[str, _Table]:
    manifest = version.manifest
    known = columns_of(manifest, read_schema(version), read_classes(version))
    tables = {split: _Table(split, version, [split], known) for split in manifest.splits}
    name = next(name for name in _ALL if name not in tables)
    tables[name] = _Table(name, version, list(manifest.splits), [*known, split_column(manifest)])
    return tables
