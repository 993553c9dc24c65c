"""Deal samples out to parts by a keyed hash of each one's key or group: no sample changes sides when others come.

The hash is version 1 and never changes: XXH64, seeded by that of "toolkit split 1:<seed>", of a key's, text's or class
name's UTF-8, of the bytes of bytes, or of eight bytes, lowest first, of a whole number, bool, time, or float64. Part k
has the hashes from floor(2**64 * shares before it) on.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from numpy.typing import NDArray

from toolkit._native.order.hashes import hash_numbers, hash_values
from toolkit.errors import UsageError
from toolkit.escapes import short
from toolkit.format.schema import DIGEST, KEY
from toolkit.loader.dataset.naming import check_known
from toolkit.loader.dataset.opened import Stored
from toolkit.loader.dataset.tables import Run, held_by, in_threads, wanted

__all__ = ["checked_shares", "dealt", "group_column", "shares_of_test"]

_SHOWN = 80  # characters of a value that an error shows
_CLOSE = 1e-9  # how near to 1 shares must add up
_TEXTS = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())


def checked_shares(call: str, given: object) -> dict[str, float]:
    """Return the share of each part. Raises UsageError."""
    if not isinstance(given, Mapping) or not given or not all(isinstance(name, str) and name for name in given):
        raise UsageError(
            f'{call} takes the share of each part, {{"train": 0.8, "test": 0.2}}; got '
            f"{short(given, _SHOWN, quoted=True)}"
        )
    for name, share in given.items():
        if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 <= share <= 1:
            raise UsageError(
                f"{call}: the share of {name!r} must be from 0 to 1, got {short(share, _SHOWN, quoted=True)}. A number "
                "of samples can't be kept when samples are added"
            )
    if abs(math.fsum(given.values()) - 1) > _CLOSE:
        raise UsageError(f"{call}: the shares must add up to 1, they add up to {math.fsum(given.values()):g}")
    return dict(given)


def shares_of_test(test_size: object) -> dict[str, float]:
    """Return the shares of train and test. Raises UsageError."""
    if isinstance(test_size, bool) or not isinstance(test_size, (int, float)) or not 0 <= test_size <= 1:
        raise UsageError(
            f"train_test_split: test_size is a share from 0 to 1, got {short(test_size, _SHOWN, quoted=True)}. A "
            "number of samples can't be kept when samples are added"
        )
    return {"train": 1 - test_size, "test": test_size}


def group_column(call: str, by: object, schema: pa.Schema) -> str:
    """Return the column whose values are kept together; "key" is the key's, where no column is called so."""
    if not isinstance(by, str):
        raise UsageError(f'{call}: by= takes "key" or the name of a column, got {short(by, _SHOWN, quoted=True)}')
    if by == "key" and by not in schema.names:
        return KEY
    check_known(call, [by], schema)
    return by


def dealt(
    stored: Stored, rows: NDArray[np.int64] | None, column: str, shares: Sequence[float], seed: int
) -> NDArray[np.integer[Any]]:
    """Return the number of each row's part; of all rows where `rows` is None.

    Raises:
        UsageError: The column has no values to group by, or the seed is none.
        CorruptShardError: A value isn't what was packed.
    """
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise UsageError(f"seed must be a whole number, got {short(seed, _SHOWN, quoted=True)}")
    key = xxhash.xxh64_intdigest(f"toolkit split 1:{seed}".encode())
    bounds = [int(before * 2.0**64) for before in itertools.accumulate(shares[:-1])]
    plan = wanted(stored, rows)
    found = in_threads(lambda run: _parts(_hashed(run, column, key), bounds), plan.runs())
    parts = np.concatenate([_parts(np.empty(0, np.uint64), bounds), *found])
    return parts if plan.places is None else parts[plan.places]


def _parts(hashes: NDArray[np.uint64], bounds: Sequence[int]) -> NDArray[np.integer[Any]]:
    """Return the number of each hash's part; each but the first begins at a bound."""
    parts: NDArray[Any] = np.zeros(len(hashes), np.int8 if len(bounds) < 128 else np.int32)
    for least in bounds:
        if least < 1 << 64:
            parts += hashes >= np.uint64(least)
    return parts


def _hashed(run: Run, column: str, seed: int) -> NDArray[np.uint64]:
    """Return the hash of each row of a run; of a row without a value, that of its key."""
    part = run.part
    dtype = part.schema.field(column).type
    if held_by(part, column) is not None or column == DIGEST:
        raise _no_groups(column, dtype)
    values = run.array(column)
    hashes = np.empty(len(values), np.uint64)
    missing = values.is_null(nan_is_null=True) if values.null_count or pa.types.is_floating(dtype) else None
    if dtype in _TEXTS:
        _hash_texts(values, seed, hashes)
    elif column in part.classes:
        _hash_classes(part.classes[column], column, values, seed, hashes)
    else:
        hash_numbers(_eight_bytes(column, values), seed, hashes)
    if missing is not None and pc.any(missing).as_py():
        alone = np.empty(len(values), np.uint64)
        _hash_texts(run.array(KEY), seed, alone)
        hashes = np.where(missing.to_numpy(zero_copy_only=False), alone, hashes)
    return hashes


def _hash_texts(values: pa.Array, seed: int, out: NDArray[np.uint64]) -> None:
    wide = values.type in (pa.large_string(), pa.large_binary())
    _, ends, data = values.buffers()
    offsets: NDArray[Any] = np.frombuffer(ends, np.int64 if wide else np.int32)
    hash_values(
        offsets[values.offset : values.offset + len(values) + 1], np.frombuffer(data or b"", np.uint8), seed, out
    )


def _hash_classes(names: Sequence[str], column: str, values: pa.Array, seed: int, out: NDArray[np.uint64]) -> None:
    if values.type != pa.int64():
        raise _no_groups(column, values.type)
    # By names, since ids move when classes are added.
    of_class = np.array([xxhash.xxh64_intdigest(name.encode(), seed) for name in names] or [0], np.uint64)
    ids = np.asarray(values.fill_null(0).to_numpy())
    if len(ids) and not (ids.min() >= 0 and ids.max() < max(1, len(names))):
        raise UsageError(f"column {column} has ids that none of its {len(names)} classes has: pack it again")
    out[:] = of_class[ids]


def _eight_bytes(column: str, values: pa.Array) -> NDArray[np.int64]:
    """Return numbers, bools and times as int64; what is missing as anything."""
    dtype = values.type
    if pa.types.is_floating(dtype):
        numbers = np.asarray(values.fill_null(0).to_numpy(), np.float64)
        return (numbers + 0.0).view(np.int64)  # -0.0 is 0.0
    if pa.types.is_unsigned_integer(dtype):
        return np.asarray(values.fill_null(0).to_numpy(), np.uint64).view(np.int64)
    if pa.types.is_boolean(dtype):
        return _eight_bytes(column, values.cast(pa.int8()))
    if pa.types.is_integer(dtype):
        return np.asarray(values.fill_null(0).to_numpy(), np.int64)
    if pa.types.is_temporal(dtype) and dtype != pa.month_day_nano_interval():
        plain = values.view(pa.int32() if dtype.bit_width == 32 else pa.int64())
        return np.asarray(plain.fill_null(0).to_numpy(), np.int64)
    raise _no_groups(column, dtype)


def _no_groups(column: str, dtype: pa.DataType) -> UsageError:
    return UsageError(f"column {column} holds {dtype}, which no samples can be kept together by: name another column")
