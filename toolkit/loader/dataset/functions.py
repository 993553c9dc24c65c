"""Find the samples that a user's function keeps: it is given named columns, one sample or many at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from toolkit.errors import SampleError, UsageError
from toolkit.escapes import listed, short
from toolkit.format.schema import KEY
from toolkit.format.values import python_values
from toolkit.loader.dataset.opened import Stored
from toolkit.loader.dataset.samples import Samples
from toolkit.loader.dataset.tables import RUN_ROWS, Run, held_by, in_threads, read_table, wanted

__all__ = ["kept_by"]

_PIECE_BYTES = 64 << 20
_MEDIA_AT_ONCE = 64
_READ_AHEAD = 8  # runs
_SHOWN = 80  # characters of a value that an error shows


def kept_by(
    stored: Stored,
    rows: NDArray[np.int64] | None,
    function: Callable[[Any], Any],
    columns: Sequence[str],
    batched: bool,
) -> NDArray[np.bool_]:
    """Return for each of some rows whether a function keeps it, for all where `rows` is None. Each is asked for once.

    Raises:
        SampleError: The function raises; the message names the sample.
        UsageError: It returns something else than whether to keep a sample.
        CorruptShardError: A value isn't what was packed.
    """
    apart = None if rows is None else np.unique(rows)
    kept = np.zeros(stored.rows if apart is None else len(apart), np.bool_)
    done = 0
    if not batched and any(held_by(stored, name) is not None for name in columns):
        every = range(stored.rows) if apart is None else apart.tolist()
        for done, (row, sample) in enumerate(_media_samples(stored, columns, every)):
            kept[done] = _asked(stored, function, sample, row, columns)
    else:
        for piece in _pieces(stored, columns, apart):
            end = done + len(piece)
            here = kept[done:end]
            numbers = range(done, end) if apart is None else apart[done:end]
            if batched:
                here[:] = _asked_of_many(stored, function, piece, int(numbers[0]), columns)
            else:
                for place, sample in enumerate(_samples(piece)):
                    here[place] = _asked(stored, function, sample, int(numbers[place]), columns)
            done = end
    return kept if rows is None or apart is None else kept[np.searchsorted(apart, rows)]


def _samples(piece: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    names = piece.schema.names
    lists = [python_values(column) for column in piece.columns]
    return (dict(zip(names, values, strict=True)) for values in zip(*lists, strict=True))


def _media_samples(stored: Stored, columns: Sequence[str], rows: Sequence[int]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield rows with the columns as ds[i] has them: media as bytes or arrays."""
    kinds = {column.name: column for column in stored.columns}
    reader = Samples(stored.fetcher, stored.schema, [kinds[name] for name in columns if name in kinds])
    for row in rows:
        sample = reader.read(row)
        others = [name for name in columns if name not in kinds and name != KEY]
        located = stored.fetcher.locate(np.array([row], np.int64)) if others else None
        if located is not None:
            sample.update((name, stored.fetcher.values(name, located)[0]) for name in others)
        yield row, {name: sample[name] for name in columns}


def _pieces(stored: Stored, columns: Sequence[str], apart: NDArray[np.int64] | None) -> Iterator[pa.RecordBatch]:
    """Yield columns of rows in their order, a good many at a time."""
    if any(held_by(stored, name) is not None for name in columns):
        every = np.arange(stored.rows, dtype=np.int64) if apart is None else apart
        for start in range(0, len(every), _MEDIA_AT_ONCE):
            yield _joined([read_table(stored, columns, every[start : start + _MEDIA_AT_ONCE])])
        return
    tables: list[pa.Table] = []
    rows = held = 0
    for table in in_threads(lambda run: _of_run(run, columns, apart), wanted(stored, apart).runs(), _READ_AHEAD):
        tables.append(table)
        rows += len(table)
        held += table.nbytes
        if rows and (rows >= RUN_ROWS or held >= _PIECE_BYTES):
            yield _joined(tables)
            tables, rows, held = [], 0, 0
    if rows:
        yield _joined(tables)


def _of_run(run: Run, columns: Sequence[str], apart: NDArray[np.int64] | None) -> pa.Table:
    """Return columns of those of a run's rows that are asked for."""
    if apart is None:
        return pa.Table.from_arrays([run.array(column) for column in columns], names=list(columns))
    numbers = apart[np.searchsorted(apart, run.row) : np.searchsorted(apart, run.row + run.count)]
    if not len(numbers):
        return pa.table({column: pa.array([], run.part.schema.field(column).type) for column in columns})
    table = pa.Table.from_arrays([run.array(column) for column in columns], names=list(columns))
    return table if len(numbers) == run.count else table.take(pa.array(numbers - run.row))


def _joined(tables: Sequence[pa.Table]) -> pa.RecordBatch:
    joined = pa.concat_tables(tables)
    arrays = [
        column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks) for column in joined.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=joined.schema)


def _asked(
    stored: Stored, function: Callable[[Any], Any], sample: dict[str, Any], row: int, columns: Sequence[str]
) -> bool:
    try:
        answer = function(sample)
    except Exception as error:
        raise _raised(stored, function, error, row, columns) from error
    if isinstance(answer, (bool, np.bool_)):
        return bool(answer)
    raise UsageError(
        f"filter: {_named(function)} returned {short(answer, _SHOWN, quoted=True)} for {stored.fetcher.place(row)}: it "
        "must return True or False"
    )


def _asked_of_many(
    stored: Stored, function: Callable[[Any], Any], piece: pa.RecordBatch, first: int, columns: Sequence[str]
) -> NDArray[np.bool_]:
    rows = len(piece)
    try:
        answer = function(piece)
    except Exception as error:
        raise _raised(stored, function, error, first, columns, rows) from error
    if isinstance(answer, (pa.Array, pa.ChunkedArray)) and pa.types.is_boolean(answer.type):
        chunks = answer.chunks if isinstance(answer, pa.ChunkedArray) else [answer]
        answer = np.concatenate([np.empty(0, np.bool_), *map(_mask, chunks)]) if len(chunks) != 1 else _mask(chunks[0])
    try:
        mask = np.asarray(answer)
    except Exception as error:  # whatever its class raises
        raise _no_mask(function, answer, rows) from error
    if mask.dtype != np.bool_ or mask.shape != (rows,):
        raise _no_mask(function, answer, rows)
    return mask


def _mask(answer: pa.Array) -> NDArray[np.bool_]:
    """Return bools of Arrow as numpy has them; null isn't true, as in expressions."""
    if answer.null_count:
        answer = answer.fill_null(False)
    held = answer.buffers()[1]
    if held is None:
        return np.zeros(len(answer), np.bool_)
    first = answer.offset // 8
    bits = np.unpackbits(
        np.frombuffer(held, np.uint8)[first:], count=answer.offset - 8 * first + len(answer), bitorder="little"
    )
    return bits[answer.offset - 8 * first :].view(np.bool_)


def _no_mask(function: Callable[[Any], Any], answer: object, rows: int) -> UsageError:
    what = f"{answer.dtype} {answer.shape}" if isinstance(answer, np.ndarray) else short(answer, _SHOWN, quoted=True)
    return UsageError(
        f"filter: {_named(function)} returned {what} for {rows} samples: batched, it must return as many bools, as an "
        "array of numpy or Arrow or a list"
    )


def _raised(
    stored: Stored,
    function: Callable[[Any], Any],
    error: Exception,
    row: int,
    columns: Sequence[str],
    rows: int = 1,
) -> SampleError:
    place = stored.fetcher.place(row)
    among = "" if rows == 1 else f" for {rows} samples, the first is"
    hint = f". It is given the columns {listed(columns)}" if isinstance(error, KeyError) else ""
    return SampleError(
        f"filter: {_named(function)} raised {type(error).__name__}{among} ({place}): {short(error, 240)}{hint}",
        dataset=place.dataset,
        shard=place.shard,
        row=place.row,
        key=place.key,
        slot=listed(columns),
        step="filter",
    )


def _named(function: Callable[[Any], Any]) -> str:
    return str(getattr(function, "__qualname__", type(function).__name__))
