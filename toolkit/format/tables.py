"""Shard, label, schema and tokenizer tables: small immutable Arrow files, named by their own sha256."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from toolkit._native.shards.message import BatchMessage
from toolkit.errors import CorruptTableError
from toolkit.format.arrays import numbers, to_array
from toolkit.format.message import parse_footer
from toolkit.format.shard import ShardRecord

__all__ = [
    "ShardTable",
    "encode_label_table",
    "encode_schema_table",
    "encode_shard_table",
    "encode_tokenizer_table",
    "parse_label_table",
    "parse_schema_table",
    "parse_shard_table",
    "parse_tokenizer_table",
    "sha256",
]

_BATCH = pa.struct(
    [
        ("offset", pa.int64()),
        ("metadata_bytes", pa.int32()),
        ("head_bytes", pa.int64()),
        ("body_bytes", pa.int64()),
        ("rows", pa.int64()),
        ("tokens", pa.int64()),
        ("metadata_sha256", pa.binary(32)),
    ]
)
_SHARDS = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
        pa.field("sha256", pa.binary(32), nullable=False),
        pa.field("nonbody_sha256", pa.binary(32), nullable=False),
        pa.field("tokens", pa.int64(), nullable=False),
        pa.field("batches", pa.list_(pa.field("item", _BATCH, nullable=False)), nullable=False),
    ]
)
_LABELS = pa.schema([pa.field("name", pa.string(), nullable=False)])
_TOKENIZER = pa.schema([pa.field("file", pa.binary(), nullable=False)])


def sha256(data: bytes) -> str:
    """Return the lower-case hex sha256 of `data`."""
    return hashlib.sha256(data).hexdigest()


def encode_shard_table(records: Sequence[ShardRecord]) -> bytes:
    """Return the file of a shard table, one line a shard, in the order of the split's rows."""
    batches = [[{name: getattr(one, name) for name in _BATCH.names} for one in record.batches] for record in records]
    columns: list[Sequence[object]] = [
        [record.path for record in records],
        [record.rows for record in records],
        [record.file_bytes for record in records],
        [record.sha256 for record in records],
        [record.nonbody_sha256 for record in records],
        [record.tokens for record in records],
        batches,
    ]
    return _encode(_SHARDS, columns)


def encode_label_table(names: Sequence[str]) -> bytes:
    """Return the file of a label table: the name of id 0, 1, 2 …"""
    return _encode(_LABELS, [list(names)])


def encode_tokenizer_table(file: bytes) -> bytes:
    """Return the file of a tokenizer table: the tokenizer's own file as its one row."""
    return _encode(_TOKENIZER, [[file]])


def encode_schema_table(schema: pa.Schema) -> bytes:
    """Return the file of a schema table: the shards' schema and no rows."""
    sink = pa.BufferOutputStream()
    pa.ipc.new_file(sink, schema).close()
    return bytes(sink.getvalue())


def parse_schema_table(data: bytes, name: str) -> pa.Schema:
    """Return the schema of a schema table; `name` is for the error."""
    try:
        parse_footer(data, len(data))
        schema = pa.ipc.open_file(pa.py_buffer(data)).schema
        _check_texts(schema)
        return schema
    except (pa.ArrowException, ValueError, OSError) as error:
        raise CorruptTableError(f"table {name} can't be read: {error}") from error


def _check_texts(schema: pa.Schema) -> None:
    """Raise UnicodeDecodeError when a name or time zone isn't UTF-8: pyarrow looks only when it is asked."""
    fields = list(schema)
    while fields:
        field = fields.pop()
        _ = field.name
        if pa.types.is_timestamp(field.type):
            _ = field.type.tz
        fields += (field.type.field(i) for i in range(field.type.num_fields))


def parse_label_table(data: bytes, name: str) -> tuple[str, ...]:
    """Return the class names in id order; `name` is for the error."""
    return tuple(_decode(data, _LABELS, name).column("name").to_pylist())


def parse_tokenizer_table(data: bytes, name: str) -> bytes:
    """Return the tokenizer's file; `name` is for the error."""
    files = _decode(data, _TOKENIZER, name).column("file").to_pylist()
    if len(files) != 1:
        raise CorruptTableError(f"table {name} holds {len(files)} tokenizers, not one")
    return bytes(files[0])


class ShardTable:
    """The shards and record batches of one shard table as arrays, numbered from 0: finds a row without any footer.

    Attributes:
        paths: Arrow array of the shards' paths.
        shard_bytes, shard_rows, shard_tokens: int64 (shards,).
        sha256, nonbody_sha256: Arrow arrays of 32 bytes a shard.
        shard_first_batch: int64 (shards + 1,).
        batch_shard: int64 (batches,): the shard that holds it.
        batch_start, batch_token_start: int64 (batches + 1,): first row and first token of each record batch, and how
            many there are.
        batch_rows, batch_tokens: int64 (batches,).
        batch_offset, batch_metadata_bytes, batch_head_bytes, batch_body_bytes: int64 (batches,): its place in that
            shard's file.
        metadata_sha256: Arrow array of 32 bytes a record batch.
    """

    def __init__(self, table: pa.Table) -> None:
        self.paths = _array(table, "path")
        self.shard_rows = _numpy(_array(table, "rows"))
        self.shard_bytes = _numpy(_array(table, "bytes"))
        self.shard_tokens = _numpy(_array(table, "tokens"))
        self.sha256 = _array(table, "sha256")
        self.nonbody_sha256 = _array(table, "nonbody_sha256")
        lists = _array(table, "batches")
        counts = _numpy(lists.value_lengths()) if len(lists) else np.empty(0, np.int64)
        flat = lists.flatten()
        self.batch_shard = np.repeat(np.arange(len(lists), dtype=np.int64), counts)
        self.batch_offset = _numpy(flat.field("offset"))
        self.batch_metadata_bytes = _numpy(flat.field("metadata_bytes"))
        self.batch_head_bytes = _numpy(flat.field("head_bytes"))
        self.batch_body_bytes = _numpy(flat.field("body_bytes"))
        self.batch_rows = _numpy(flat.field("rows"))
        self.batch_tokens = _numpy(flat.field("tokens"))
        self.metadata_sha256 = flat.field("metadata_sha256")
        self.batch_start = np.concatenate(([0], np.cumsum(self.batch_rows)))
        self.batch_token_start = np.concatenate(([0], np.cumsum(self.batch_tokens)))
        self.shard_first_batch = np.concatenate(([0], np.cumsum(counts)))

    @property
    def shards(self) -> int:
        """Shards of the table."""
        return len(self.paths)

    @property
    def batches(self) -> int:
        """Record batches of the table."""
        return len(self.batch_rows)

    def shard_path(self, shard: int) -> str:
        """Return the path, inside the dataset, of shard number `shard`."""
        return str(self.paths[shard].as_py())


def parse_shard_table(data: bytes, name: str) -> ShardTable:
    """Return the shards of a shard table; `name` is for the error."""
    return ShardTable(_decode(data, _SHARDS, name))


def _array(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    return column.chunk(0) if column.num_chunks else pa.nulls(0, column.type)


def _numpy(array: pa.Array) -> NDArray[np.int64]:
    return numbers(array).astype(np.int64, copy=False)


def _encode(schema: pa.Schema, columns: Sequence[Sequence[object]]) -> bytes:
    arrays = [to_array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return bytes(sink.getvalue())


def _decode(data: bytes, schema: pa.Schema, name: str) -> pa.Table:
    try:
        _check_batches(data)
        table = pa.ipc.open_file(pa.py_buffer(data)).read_all()
        table.validate(full=True)
        _check_texts(table.schema)
    except (pa.ArrowException, ValueError, OSError) as error:
        raise CorruptTableError(f"table {name} can't be read: {error}") from error
    if not _holds(list(table.schema), list(schema)):
        raise CorruptTableError(f"table {name} has not the columns of format 1: {table.schema.names}")
    table = table.select(schema.names)
    if any(_has_nulls(chunk, field.type) for field in schema for chunk in table.column(field.name).chunks):
        raise CorruptTableError(f"table {name} has values that are missing")
    return table


def _check_batches(data: bytes) -> None:
    """Raise ValueError unless there is one record batch, uncompressed: a compressed one could be of any size."""
    blocks = parse_footer(data, len(data))
    if len(blocks) != 1:
        raise ValueError(f"it has {len(blocks)} record batches, not one")
    BatchMessage(data[blocks[0].offset : blocks[0].offset + blocks[0].metadata_bytes])


def _holds(fields: list[pa.Field], known: list[pa.Field]) -> bool:
    """Tell whether fields begin with those that are known here; what follows, in lists and structs too, may be new."""
    names = [one.name for one in fields]
    alike = len(fields) >= len(known) and len(set(names)) == len(names)
    return alike and all(
        one.name == other.name and _is_or_holds(one.type, other.type) for one, other in zip(fields, known, strict=False)
    )


def _is_or_holds(dtype: pa.DataType, known: pa.DataType) -> bool:
    if pa.types.is_list(dtype) and pa.types.is_list(known):
        return _is_or_holds(dtype.value_type, known.value_type)
    if pa.types.is_struct(dtype) and pa.types.is_struct(known):
        return _holds(list(dtype), list(known))
    return bool(dtype == known)


def _has_nulls(array: pa.Array, known: pa.DataType) -> bool:
    """Tell whether a value is missing of what is known here."""
    if array.null_count:
        return True
    if pa.types.is_list(known):
        return _has_nulls(array.values, known.value_type)
    if pa.types.is_struct(known):
        return any(_has_nulls(array.field(i), known.field(i).type) for i in range(known.num_fields))
    return False
