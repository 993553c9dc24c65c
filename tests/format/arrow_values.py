"""Random Arrow types and arrays: nested, with nulls everywhere, rubbish under nulls, and cut out of others."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
from format.pure_arrow import RECORD_BATCH, SCHEMA, Schema, Type, Values, message, places
from hypothesis import strategies as st

NUMBERS = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64()),
]
TEMPORAL = {  # type -> values that Python's own types can hold
    pa.timestamp("s"): 2**31,
    pa.timestamp("us", "Europe/Berlin"): 2**40,
    pa.date32(): 20_000,
    pa.time32("ms"): 86_400_000,
    pa.time64("us"): 86_400_000_000,
    pa.duration("ms"): 2**40,
}
BYTES = [pa.binary(), pa.string(), pa.large_binary(), pa.large_string()]
LEAVES = [
    *(*NUMBERS, *TEMPORAL, *BYTES, pa.bool_(), pa.null(), pa.binary(1), pa.binary(5)),
    *(
        pa.decimal32(5, 2),
        pa.decimal64(12, 3),
        pa.decimal128(20, 4),
        pa.decimal256(50, 1),
        pa.month_day_nano_interval(),
    ),
]


def _nest(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    return st.one_of(
        inner.map(pa.list_),
        inner.map(pa.large_list),
        st.builds(pa.list_, inner, st.integers(0, 4)),
        st.lists(inner, max_size=3).map(lambda types: pa.struct([(f"f{i}", t) for i, t in enumerate(types)])),
    )


TYPES = st.recursive(st.sampled_from(LEAVES), _nest, max_leaves=5)


@st.composite
def arrays(
    draw: st.DrawFn, types: st.SearchStrategy[pa.DataType] = TYPES, rows: int | None = None, nan: bool = True
) -> pa.Array:
    """An array of a random type; a slice of a longer one half the time."""
    dtype = draw(types)
    count = draw(st.integers(0, 40)) if rows is None else rows
    before, after = draw(st.sampled_from([(0, 0), (1, 0), (0, 3), (8, 1), (11, 9)]))
    rng = random.Random(draw(st.integers(0, 2**32)))
    nulls = draw(st.sampled_from([0.0, 0.3, 1.0]))
    return make_array(dtype, before + count + after, rng, nulls, nan).slice(before, count)


@st.composite
def batches(draw: st.DrawFn, max_columns: int = 3) -> pa.RecordBatch:
    """Rows for a ShardWriter: unique keys and some columns."""
    rows = draw(st.integers(0, 40))
    columns = draw(st.lists(arrays(rows=rows), min_size=1, max_size=max_columns))
    keys = pa.array([f"é{i}" for i in range(rows)], pa.string())
    fields = [pa.field("__key__", pa.string(), nullable=False)]
    fields += [pa.field(f"c{i}", array.type) for i, array in enumerate(columns)]
    return pa.RecordBatch.from_arrays([keys, *columns], schema=pa.schema(fields))


def make_array(dtype: pa.DataType, rows: int, rng: random.Random, nulls: float, nan: bool = True) -> pa.Array:
    """Fill an array's buffers: the value under a null is as random as any other, and so are bits behind the end."""
    if pa.types.is_null(dtype):
        return pa.nulls(rows)
    bits = np.array([rng.random() >= nulls for _ in range(rows)] + [True] * (-rows % 8), np.bool_)
    validity = pa.py_buffer(np.packbits(bits, bitorder="little")) if nulls or rng.random() < 0.3 else None
    if pa.types.is_struct(dtype):
        children = [make_array(child.type, rows, rng, nulls, nan) for child in dtype]
        return pa.Array.from_buffers(dtype, rows, [validity], children=children)
    if pa.types.is_fixed_size_list(dtype):
        items = make_array(dtype.value_type, rows * dtype.list_size, rng, nulls, nan)
        return pa.Array.from_buffers(dtype, rows, [validity], children=[items])
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        offsets = _offsets(rows, rng, np.int32 if pa.types.is_list(dtype) else np.int64)
        items = make_array(dtype.value_type, int(offsets[-1]) + 2, rng, nulls, nan)
        return pa.Array.from_buffers(dtype, rows, [validity, pa.py_buffer(offsets)], children=[items])
    if dtype in BYTES:
        offsets = _offsets(rows, rng, np.int32 if dtype in (pa.binary(), pa.string()) else np.int64)
        ascii_only = dtype in (pa.string(), pa.large_string())
        data = bytes(rng.randrange(128 if ascii_only else 256) for _ in range(int(offsets[-1]) + 3))
        return pa.Array.from_buffers(dtype, rows, [validity, pa.py_buffer(offsets), pa.py_buffer(data)])
    if pa.types.is_boolean(dtype):
        return pa.Array.from_buffers(dtype, rows, [validity, pa.py_buffer(rng.randbytes((rows + 7) // 8))])
    width = dtype.bit_width // 8
    if pa.types.is_floating(dtype):
        if nan:
            data = rng.randbytes(rows * width)
        else:
            data = np.array([rng.uniform(-9, 9) for _ in range(rows)], f"<f{width}").tobytes()
    elif pa.types.is_decimal(dtype):
        most = 10**dtype.precision - 1
        data = b"".join(rng.randint(-most, most).to_bytes(width, "little", signed=True) for _ in range(rows))
    elif dtype in TEMPORAL:
        data = b"".join(rng.randrange(TEMPORAL[dtype]).to_bytes(width, "little") for _ in range(rows))
    elif pa.types.is_interval(dtype):
        parts = [np.array([rng.randrange(99), rng.randrange(99)], "<i4").tobytes() + bytes(8) for _ in range(rows)]
        data = b"".join(parts)
    else:
        data = rng.randbytes(rows * width)
    return pa.Array.from_buffers(dtype, rows, [validity, pa.py_buffer(data)])


def _offsets(rows: int, rng: random.Random, dtype: type) -> np.ndarray:
    return np.cumsum([rng.randrange(3)] + [rng.randrange(4) for _ in range(rows)], dtype=dtype)


def ipc(batch: pa.RecordBatch) -> tuple[bytes, bytes]:
    """What pyarrow writes for `batch`: the message and the body."""
    data = batch.serialize().to_pybytes()
    start = 8 + int.from_bytes(data[4:8], "little")
    return data[:start], data[start:]


def pure_schema(schema: pa.Schema) -> Schema:
    return Schema(message(schema.serialize().to_pybytes(), SCHEMA)[1])


def pure_columns(batch: pa.RecordBatch) -> list[tuple[Type, list]]:
    """The columns by way of pyarrow's IPC and the pure reader: no toolkit."""
    head, body = ipc(batch)
    schema = pure_schema(batch.schema)
    buffers = places(message(head, RECORD_BATCH)[1], len(body), schema.buffers)
    values = Values(batch.num_rows, buffers, lambda start, stop: body[start:stop])
    return [(field, [values.value(field, row) for row in range(batch.num_rows)]) for field in schema.columns]


def pure_values(array: pa.Array) -> list:
    """The values of an array, every bit of them: floats and times are bytes."""
    return pure_columns(pa.RecordBatch.from_arrays([array], names=["x"]))[0][1]
