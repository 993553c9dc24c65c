"""What the parts of a version must be, and must be to each other: checked once, when it is opened.

Every hash may agree and the dataset still be made to hurt. What passes here needs no second look by those who read: no
number leaves its range, no sum overflows, every type has a layout, every record batch lies inside its file. Each check
returns what is wrong in words, or None.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import pyarrow as pa

from toolkit.errors import UsageError
from toolkit.format.arrays import value_offsets
from toolkit.format.layout import column_layouts
from toolkit.format.media import stored_medium
from toolkit.format.references import REFERENCES, UNHASHED, is_reference
from toolkit.format.schema import (
    DIGEST,
    DIGEST_BYTES,
    KEY,
    Column,
    Derived,
    Kind,
    derived_type,
    is_list_of_ids,
    is_own_name,
    is_scalar,
    reference_columns,
    stored_order,
    token_type,
)
from toolkit.format.tables import ShardTable

__all__ = ["MOST_BYTES", "MOST_ROWS", "columns_fault", "schema_fault", "table_fault"]

MOST_ROWS = 1 << 48  # of a version; sums of them, and their products with small numbers, stay in an int64
MOST_BYTES = 1 << 60
_ROW_BYTES = DIGEST_BYTES  # a row has its digest at least
_TOKEN_BYTES = 2
_MAGIC_BYTES = 8
_ALIGNMENT = 8
_TEXT = (pa.string(), pa.large_string())
_BYTES = (pa.binary(), pa.large_binary())


def columns_fault(columns: Sequence[Column], derived: Sequence[Derived], requires: Collection[str] = ()) -> str | None:
    """Check the columns of a manifest by themselves, and with the features that it requires."""
    if UNHASHED in requires and REFERENCES not in requires:
        return f"it requires {UNHASHED!r} without {REFERENCES!r}"
    may_refer = [c for c in columns if stored_medium(c.kind) is not None and c.encoding == "keep"]
    if REFERENCES in requires and not may_refer:
        return f"it requires {REFERENCES!r}, and no column can hold any"
    seen: set[str] = set()
    for column in columns:
        fault = _column_fault(column)
        if fault is not None:
            return f"column {column.name!r}: {fault}"
        if not column.name or is_own_name(column.name) or "\0" in column.name or column.name in seen:
            return f"no column can be called {column.name!r} here"
        seen.add(column.name)
    tokens = [column.name for column in columns if column.kind is Kind.TOKENS]
    if len(tokens) > 1:
        return f"the columns {tokens[0]!r} and {tokens[1]!r} are both of kind tokens, and a dataset has one at most"
    names = frozenset(seen)
    for one in derived:
        if one.of not in names:
            return f"the derived column {one.name!r} is of no column"
        if not one.what or "\0" in one.what or one.name in seen:
            return f"no derived column can be called {one.name!r} here"
        seen.add(one.name)
    return None


def _column_fault(column: Column) -> str | None:
    if column.kind is Kind.UNKNOWN:  # whatever else is said of it, it is read by its type
        return None
    may, must = column.kind in (Kind.LABEL, Kind.VALUE), column.kind is Kind.LABEL
    if must if column.label_table is None else not may:
        return f"a column of kind {column.kind.value} has {'a' if column.label_table else 'no'} label table"
    if column.tokens is not None and column.kind is not Kind.TOKENS:
        return f"a column of kind {column.kind.value} has no tokens"
    if column.tokens is not None and (column.tokens.eos or 0) >= column.tokens.vocabulary:
        return f"the token {column.tokens.eos} of a vocabulary of {column.tokens.vocabulary}"
    medium = stored_medium(column.kind)
    if medium is not None:
        try:
            medium.form_in(column.encoding or "")
        except UsageError as error:
            return f"{medium.plural} have an encoding: {error}"
    elif column.encoding not in (None, "npy"):
        return f"a column of kind {column.kind.value} has no encoding {column.encoding!r}"
    return None


def schema_fault(
    schema: pa.Schema, columns: Sequence[Column], derived: Sequence[Derived], requires: Collection[str] = ()
) -> str | None:
    """Check the schema of the shards against the columns of the manifest and the features that it requires."""
    names = [column.name for column in columns]
    made = [one.name for one in derived]
    if sorted(schema.names) != sorted([KEY, DIGEST, *names, *made]):
        return f"its columns {', '.join([*names, *made])} are not those of the schema table"
    *small, large = stored_order(columns, {name: schema.field(name).type for name in names})
    if schema.names != [KEY, DIGEST, *small[0], *small[1], *made, *large]:
        return f"the columns of the schema table have another order than shards: {', '.join(schema.names)}"
    references = reference_columns(columns, schema)
    if bool(references) is not (REFERENCES in requires):
        held = f"column {references[0]!r} holds references" if references else "no column holds references"
        return f"{held}, and the manifest {'does not require' if references else 'requires'} {REFERENCES!r}"
    fault = _own_fault(schema, UNHASHED in requires)
    if fault is not None:
        return fault
    try:
        column_layouts(schema)
    except TypeError as error:
        return str(error)
    for column in columns:
        field = schema.field(column.name)
        if not _fits(column, field):
            named = " with class names" if column.kind is Kind.VALUE else ""
            return f"column {column.name!r} is of kind {column.kind.value}{named}, and its type {field.type}"
    for one in derived:
        known = derived_type(one, columns)
        if known is not None and schema.field(one.name).type != known:
            return f"the derived column {one.name!r} is {schema.field(one.name).type}, not {known}"
    return None


def _own_fault(schema: pa.Schema, unhashed: bool) -> str | None:
    """Check the format's own columns."""
    key = pa.field(KEY, pa.string(), nullable=False)
    digest = pa.field(DIGEST, pa.binary(DIGEST_BYTES), nullable=unhashed)
    if schema.field(0).equals(key) and schema.field(1).equals(digest):
        return None
    never = f"{KEY} never null" if unhashed else "both never null"
    return f"{KEY} is not utf8 or {DIGEST} not fixed_size_binary({DIGEST_BYTES}), {never}"


def _fits(column: Column, field: pa.Field) -> bool:
    """Tell whether a column of that kind can have that type."""
    dtype = field.type
    medium = stored_medium(column.kind)
    if medium is not None:
        form = medium.form_in(column.encoding or "")
        refers = is_reference(dtype) and column.encoding == "keep" and not form.is_decoded
        return refers or bool(dtype == form.type)
    match column.kind:
        case Kind.LABEL:
            return bool(dtype == pa.int64())
        case Kind.VALUE:
            return column.label_table is None or is_list_of_ids(dtype)
        case Kind.TEXT:
            return dtype in _TEXT
        case Kind.SCALAR:
            return is_scalar(dtype)
        case Kind.JSON:
            return bool(dtype == pa.string())
        case Kind.BYTES:
            return dtype in _BYTES or bool(pa.types.is_fixed_size_binary(dtype))
        case Kind.TENSOR:
            return bool(dtype == pa.binary())
        case Kind.TOKENS:
            sizes = (1 << 16, 1 << 32) if column.tokens is None else (column.tokens.vocabulary,)
            return not field.nullable and dtype in [token_type(size) for size in sizes]
    return True


def table_fault(table: ShardTable) -> str | None:
    """Check the paths and numbers of a shard table; all its shards at once, since there may be thousands."""
    fault = _paths_fault(table.paths)
    if fault is not None:
        return fault
    size, owner = table.shard_bytes, table.batch_shard
    offset, metadata, body = table.batch_offset, table.batch_metadata_bytes, table.batch_body_bytes
    file_bytes = size[owner]
    outside = (offset < _MAGIC_BYTES) | (offset > file_bytes) | (metadata < _ALIGNMENT) | (body < 0)
    outside |= (metadata > file_bytes - offset) | (body > file_bytes - offset - metadata)
    alike = owner[1:] == owner[:-1]
    for wrong, shard_of, what in (
        ((size < _MAGIC_BYTES) | (size > MOST_BYTES), None, "its bytes can't be"),
        ((table.shard_tokens < 0) | (table.shard_tokens > size // _TOKEN_BYTES), None, "its tokens can't be"),
        (outside, owner, "a record batch lies outside of it"),
        ((offset | metadata) % _ALIGNMENT != 0, owner, f"a record batch lies at no multiple of {_ALIGNMENT} bytes"),
        (
            (table.batch_rows < 0) | (table.batch_rows > body // _ROW_BYTES),
            owner,
            "a record batch can't have so many rows",
        ),
        (
            (table.batch_tokens < 0) | (table.batch_tokens > body // _TOKEN_BYTES),
            owner,
            "a record batch can't have so many tokens",
        ),
        ((table.batch_rows == 0) & (table.batch_tokens > 0), owner, "a record batch without rows has tokens"),
        (
            (table.batch_head_bytes < 0) | (table.batch_head_bytes > body),
            owner,
            "the head of a record batch is no part of its body",
        ),
        (alike & ((offset + metadata + body)[:-1] > offset[1:]), owner, "two record batches lie over each other"),
    ):
        if wrong.any():
            place = int(np.argmax(wrong))
            return f"shard {table.shard_path(place if shard_of is None else int(shard_of[place]))}: {what}"
    if float(size.sum(dtype=np.float64)) > MOST_BYTES:
        return f"its shards have more than {MOST_BYTES} bytes"
    for what, said, starts in (
        ("rows", table.shard_rows, table.batch_start),
        ("tokens", table.shard_tokens, table.batch_token_start),
    ):
        held = np.diff(starts[table.shard_first_batch])
        if (held != said).any():
            shard = int(np.argmax(held != said))
            return f"shard {table.shard_path(shard)}: {said[shard]} {what}, its record batches {held[shard]}"
    return None


def _paths_fault(paths: pa.Array) -> str | None:
    """Check that the paths stay inside of the dataset."""
    starts, data = value_offsets(paths), paths.buffers()[2]
    text = b"" if data is None else memoryview(data)[int(starts[0]) : int(starts[-1])].tobytes()
    # A look at all of them at once: only where there is something odd, at one after the other.
    firsts = np.frombuffer(text, np.uint8)[(starts[:-1] - starts[0])[starts[:-1] < starts[1:]]]
    if len(firsts) == len(paths) and not (firsts == ord("/")).any() and b".." not in text and b"\0" not in text:
        return None
    for path in paths.to_pylist():
        if not path or path.startswith("/") or "\0" in path or ".." in path.split("/"):
            return f"shard path {path!r} leaves the dataset folder"
    return None
