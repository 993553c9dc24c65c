"""Find the rows that an expression on stored columns selects: only those columns are read, checked like any value."""

from __future__ import annotations

import hashlib
import pickle
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from toolkit.errors import SampleError, UsageError, did_you_mean
from toolkit.format.schema import DIGEST, KEY, is_own_name
from toolkit.loader.dataset.naming import Names
from toolkit.loader.dataset.opened import Opened, Stored
from toolkit.loader.dataset.selection import Bits

__all__ = ["column_numbers", "matching_rows"]

_KEPT = 32  # results in the process, a quarter of a byte a row each
_PIECE_ROWS = 1 << 16
_PIECE_BYTES = 64 << 20
_ROW = "\0row"  # no column is called so

_cache: OrderedDict[tuple[str, str, Names, bytes], Bits] = OrderedDict()
_lock = threading.Lock()


def matching_rows(stored: Stored, expression: pc.Expression) -> Bits:
    """Return the rows for which `expression` is true; where it is null the row is left out.

    Raises:
        UsageError: It is no expression, names no stored column, or isn't true or false.
        CorruptShardError: A value it reads isn't what was packed.
    """
    if not isinstance(expression, pc.Expression):
        raise UsageError(
            "filter takes an expression of pyarrow.compute, as pc.field('label') == 3, or a function; got "
            f"{type(expression).__name__}"
        )
    found = [_matching(part, expression) for part in stored.parts]
    if len(found) == 1:
        return found[0]
    masks = [bits.mask(part.rows) for bits, part in zip(found, stored.parts, strict=True)]
    return Bits.of(np.concatenate(masks))


def column_numbers(stored: Stored, column: str, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the values of a column of whole numbers at `rows`, as int64.

    Raises:
        SampleError: A value is missing there.
        CorruptShardError: A value isn't what was packed.
    """
    pieces = [table[column] for part in stored.parts for table in _tables(part, [column])]
    chunks = [chunk for piece in pieces for chunk in piece.chunks]
    taken = pa.chunked_array(chunks, pa.int64()).take(pa.array(rows))
    if taken.null_count:
        missing = np.flatnonzero(taken.is_null().to_numpy())
        place = stored.fetcher.place(int(rows[missing[0]]))
        raise SampleError(
            f"{len(missing)} of {len(rows)} samples have no {column}, the first is {place}: "
            f"leave them out with .filter(pc.field({column!r}).is_valid())",
            dataset=place.dataset,
            shard=place.shard,
            row=place.row,
            key=place.key,
            slot=column,
            step="read",
        )
    return np.asarray(taken.to_numpy(), np.int64)


def _matching(part: Opened, expression: pc.Expression) -> Bits:
    try:
        # By its serialised form: as text, long sets of values are cut short and different expressions look the same.
        serialised = pickle.dumps(expression, protocol=5)
        key = (part.version.pin, part.split, part.names, hashlib.sha256(serialised).digest())
    except pa.ArrowNotImplementedError as error:
        raise UsageError(f"filter {expression}: name columns, not their places ({error})") from error
    with _lock:
        known = _cache.get(key)
        if known is not None:
            _cache.move_to_end(key)
            return known
    bits = _evaluate(part, expression)
    with _lock:
        _cache[key] = bits
        while len(_cache) > _KEPT:
            _cache.popitem(last=False)
    return bits


def _evaluate(part: Opened, expression: pc.Expression) -> Bits:
    columns = _needed(expression, part.schema)
    # Row by row as they are read: of rows that a table only speaks of, there may be more than memory.
    masks = [np.empty(0, np.bool_)]
    for table in _tables(part, columns):
        mask = np.zeros(len(table), np.bool_)
        first = table[_ROW][0].as_py() if len(table) else 0
        mask[table.filter(expression)[_ROW].to_numpy() - first] = True
        masks.append(mask)
    return Bits.of(np.concatenate(masks))


def _needed(expression: pc.Expression, schema: pa.Schema) -> list[str]:
    """Return the columns without which the expression can't be bound; nothing is read for it."""
    empty = schema.empty_table()
    try:
        empty.filter(expression)
    except pa.ArrowException as error:
        names = [name for name in schema.names if not is_own_name(name)]
        derived = [name for name in schema.names if is_own_name(name) and name not in (KEY, DIGEST)]
        made = f", and derived of them {', '.join(derived)}" if derived else ""
        wrong = str(error).partition("FieldRef.Name(")[2].partition(")")[0]
        said = str(error).splitlines()[0].partition(" in ")[0] if wrong else str(error).splitlines()[0]
        raise UsageError(
            f"filter {expression}: {said}. The columns are {', '.join(names)}{made}."
            f"{did_you_mean(wrong, [*names, *derived])}"
        ) from error
    return [name for name in schema.names if not _binds(expression, empty.drop_columns([name]))]


def _binds(expression: pc.Expression, table: pa.Table) -> bool:
    try:
        table.filter(expression)
    except pa.ArrowInvalid:
        return False
    return True


def _tables(part: Opened, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Yield stored columns and the row numbers, piece by piece, in the order of rows."""
    pieces: list[list[pa.Array]] = []
    first = stop = held = 0
    for batch in range(part.index.batches):
        arrays = [part.fetcher.array(column, batch) for column in columns]
        pieces.append(arrays)
        held += sum(array.nbytes for array in arrays)
        stop += part.index.batch(batch).rows
        if stop - first >= _PIECE_ROWS or held >= _PIECE_BYTES or batch == part.index.batches - 1:
            joined = [pa.chunked_array(list(arrays)) for arrays in zip(*pieces, strict=True)]
            rows = pa.chunked_array([np.arange(first, stop, dtype=np.int64)])
            yield pa.table([*joined, rows], names=[*columns, _ROW])
            pieces, first, held = [], stop, 0
