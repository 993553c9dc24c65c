"""Write the answer to a query: as pieces of text, or into a file that is there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, BinaryIO, Protocol

from toolkit.checks.arguments import argument
from toolkit.checks.query_values import json_rows, rows_of
from toolkit.errors import UsageError, did_you_mean
from toolkit.escapes import json_text, listed, short
from toolkit.options.values import Choice
from toolkit.storage.files import durable_file
from toolkit.storage.places import local_path

if TYPE_CHECKING:
    import polars as pl

__all__ = ["FORMATS", "Answer", "text_of", "write_answer"]

FORMATS = ("csv", "jsonl", "arrow", "parquet")
_DAYS = 95_000_000  # on both sides of 1970: what polars has dates for
_TICKS = {"ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
_ENDINGS = {"csv": "csv", "jsonl": "jsonl", "ndjson": "jsonl", "arrow": "arrow", "ipc": "arrow", "parquet": "parquet"}


class Answer(Protocol):
    """What is written: a QueryResult, whose own methods say what these are."""

    @property
    def schema(self) -> Mapping[str, pl.DataType]:
        """Its columns."""

    def batches(self) -> Iterator[pl.DataFrame]:
        """Yield its rows."""

    def sink(self, write: Callable[[pl.LazyFrame], object]) -> None:
        """Have them written."""


def write_answer(answer: Answer, path: str | os.PathLike[str], *, format: str | None = None) -> int:
    """Write an answer into a file, in the place of one that is there; return the file's bytes.

    Rows go from polars into the file as they come: all of them are never in memory, unless the query sorts or groups.

    Args:
        answer: What toolkit.query returned.
        path: The file.
        format: csv, jsonl (a JSON object a row), arrow (an Arrow IPC file) or parquet; None: what the name ends in.

    Raises:
        UsageError: The format isn't known, or can't hold a column.
        StorageError: The file can't be written.
        CorruptShardError, CorruptTableError: A value isn't what was packed; no file is written then.
    """
    place = local_path(os.fspath(path), "write the answer into a file here, and copy that")
    chosen = _format_of(place) if format is None else argument("format", format, Choice(FORMATS))
    if chosen in ("csv", "jsonl"):
        pieces = text_of(answer, chosen)
        first = next(pieces)  # what can't be written is said before there is a file
        with durable_file(place) as file:
            file.write(first.encode())
            for piece in pieces:
                file.write(piece.encode())
            return file.tell()
    with durable_file(place) as file:
        answer.sink(lambda lazy: _sink(lazy, file, chosen))
        return file.tell()


def text_of(answer: Answer, format: str) -> Iterator[str]:
    """Yield an answer as text, CSV or JSON lines, in pieces of whole rows; the first of CSV is the header.

    Raises as write_answer().
    """
    if format == "jsonl":
        yield ""
        for frame in answer.batches():
            yield "".join(f"{json_text(row)}\n" for row in json_rows(rows_of(frame.to_arrow())))
        return
    import polars as pl

    nested = [name for name, dtype in answer.schema.items() if dtype.is_nested()]
    if nested:
        raise UsageError(
            f"CSV can't hold the lists and structs of {listed(nested)}: leave these columns out, or write jsonl, arrow "
            "or parquet"
        )
    binary = [name for name, dtype in answer.schema.items() if dtype == pl.Binary]
    yield pl.DataFrame(schema=dict.fromkeys(answer.schema, pl.String)).write_csv()
    for frame in answer.batches():
        texts = [_text(column) for column in frame if _is_text(column)]
        frame = frame.with_columns(*(pl.col(name).bin.encode("hex") for name in binary), *texts)
        yield frame.write_csv(include_header=False)


def _is_text(column: pl.Series) -> bool:
    """Return whether polars' CSV has no form for values: durations, and days beyond its calendar."""
    import polars as pl

    if not isinstance(column.dtype, pl.Date | pl.Datetime):
        return column.dtype == pl.Duration
    day = _TICKS[column.dtype.time_unit] if isinstance(column.dtype, pl.Datetime) else 1
    least, most = column.to_physical().min(), column.to_physical().max()
    return isinstance(least, int) and isinstance(most, int) and not -_DAYS * day < least <= most < _DAYS * day


def _text(column: pl.Series) -> pl.Series:
    import polars as pl

    rows = json_rows(rows_of(column.to_frame().to_arrow()))
    return pl.Series(column.name, [row[column.name] for row in rows], pl.String)


def _sink(lazy: pl.LazyFrame, file: BinaryIO, format: str) -> None:
    import polars as pl

    if format == "parquet":
        lazy.sink_parquet(file)
    else:  # as older readers know it: views of texts are young
        lazy.sink_ipc(file, compat_level=pl.CompatLevel.oldest(), compression="uncompressed")


def _format_of(path: str) -> str:
    ending = path.rpartition(".")[2].lower()
    if ending not in _ENDINGS:
        hint = did_you_mean(ending, _ENDINGS)
        raise UsageError(
            f"the name {short(path, 80, quoted=True)} doesn't say a format: it ends in none of {listed(_ENDINGS)}. End "
            f"it so, or say --format.{hint}"
        )
    return _ENDINGS[ending]
