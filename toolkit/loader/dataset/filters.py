"""Find the rows that an expression on stored columns selects: only those columns are read, checked like any value."""

from __future__ import annotations

import hashlib
import pickle
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from toolkit.errors import UsageError, did_you_mean
from toolkit.format.schema import DIGEST, KEY, is_own_name
from toolkit.loader.dataset.naming import Names
from toolkit.loader.dataset.opened import Opened, Stored
from toolkit.loader.dataset.selection import Bits
from toolkit.loader.dataset.tables import in_threads, missing_error, read_column

__all__ = ["column_numbers", "matching_rows"]

_KEPT = 32  # results in the process, a quarter of a byte a row each
_PIECE_ROWS = 1 << 16
_PIECE_BYTES = 64 << 20
_NOTHING = "\0"  # no column is called so

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
    taken = read_column(stored, column, rows).cast(pa.int64())
    if taken.null_count:
        raise missing_error(stored, column, rows, taken)
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
    pieces = in_threads(lambda batches: _answers(part, expression, columns, batches), _pieces(part))
    return Bits.of_bits(_bytes_of_bits(pieces))


def _pieces(part: Opened) -> list[range]:
    """Return numbers of record batches: those of a good many rows at a time, in their order."""
    pieces: list[range] = []
    first = rows = held = 0
    for number in range(part.index.batches):
        batch = part.index.batch(number)
        rows += batch.rows
        held += batch.body_bytes
        if rows >= _PIECE_ROWS or held >= _PIECE_BYTES or number == part.index.batches - 1:
            pieces.append(range(first, number + 1))
            first, rows, held = number + 1, 0, 0
    return pieces


def _answers(part: Opened, expression: pc.Expression, columns: Sequence[str], batches: range) -> list[pa.Array]:
    """Return for each row of some record batches whether the expression is true; not where it is null."""
    import pyarrow.acero as acero  # imports pandas, where it is installed: 0.2 s that opening a dataset can spare

    chunks = [[part.fetcher.array(column, number) for number in batches] for column in columns]
    # Of rows that a table only speaks of, there may be more than memory: what is read says how many there are.
    count = sum(map(len, chunks[0])) if chunks else sum(part.index.batch(number).rows for number in batches)
    arrays = [pa.chunked_array(each) for each in chunks] or [pa.nulls(count)]
    table = acero.Declaration(
        "table_source", acero.TableSourceNodeOptions(pa.table(arrays, names=list(columns) or [_NOTHING]))
    )
    asked = acero.Declaration("project", acero.ProjectNodeOptions([expression], ["kept"]))
    kept = acero.Declaration.from_sequence([table, asked]).to_table(use_threads=False)["kept"]
    return [chunk.fill_null(False) for chunk in kept.chunks]


def _bytes_of_bits(pieces: Iterable[list[pa.Array]]) -> NDArray[np.uint8]:
    """Return the bits of answers, one behind the other, as Arrow holds them."""
    joined = pa.concat_arrays([pa.array([], pa.bool_()), *(array for arrays in pieces for array in arrays)])
    held = joined.buffers()[1]
    if joined.offset or held is None:
        return np.packbits(joined.to_numpy(zero_copy_only=False), bitorder="little")
    bits = np.frombuffer(held, np.uint8)[: -(-len(joined) // 8)].copy()
    if len(bits):
        bits[-1] &= 0xFF >> (-len(joined) % 8)
    return bits


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
