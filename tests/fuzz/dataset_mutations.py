"""Edits of good datasets such as a stranger could make who mends every hash: chosen by a generator, said in words."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from crafted import Batch, Crafted, Shard, edited_table

__all__ = ["mutate", "seeds"]

Generator = np.random.Generator

BITS = (0, 3, 7, 8, 15, 16, 31, 32, 35, 62, 63)
NUMBERS = [
    *(sign * (1 << bits) + step for bits in BITS for sign in (1, -1) for step in (-1, 0, 1)),
    200, 1000, 16384, 16385, 1 << 64, 1 << 70,
]  # fmt: skip
TEXTS = [
    "", ".", "..", "../../outside", "/etc/passwd", "shards/../../x", "shards", "a\0b", "\x1b[31mred\x1b[0m", "\x9b2J",
    "\u202egnp.exe", "\ud800", "x" * 70_000, "__key__", "__digest__", "train", "nan", "-1", "0" * 64, "g" * 64, "null",
]  # fmt: skip
VALUES: list[Any] = [None, True, False, [], {}, [[]], 0.5, 1e308, -1e308, [1, 2], {"a": {"b": []}}]
TYPES = [
    pa.int8(), pa.int64(), pa.uint64(), pa.float16(), pa.float64(), pa.bool_(), pa.string(), pa.large_string(),
    pa.binary(), pa.large_binary(), pa.binary(16), pa.list_(pa.int32()), pa.large_list(pa.null()), pa.null(),
    pa.list_(pa.string()), pa.struct([("bytes", pa.binary()), ("path", pa.string())]), pa.struct([]),
    pa.list_(pa.float32(), 3), pa.list_(pa.null(), 2**31 - 1), pa.large_list(pa.uint16()), pa.decimal128(38, 2),
    pa.timestamp("ns", "Europe/Berlin"), pa.timestamp("s", "Nowhere/Here"), pa.dictionary(pa.int8(), pa.string()),
    pa.map_(pa.string(), pa.int8()), pa.string_view(), pa.run_end_encoded(pa.int32(), pa.int8()),
    pa.dense_union([pa.field("a", pa.int8())]), pa.duration("ns"), pa.month_day_nano_interval(), pa.date64(),
    pa.list_(pa.list_(pa.list_(pa.list_(pa.int8())))),
]  # fmt: skip


def seeds(root: Path) -> list[Crafted]:
    """Pack the datasets that are mutated: pictures kept and raw, values of many types, tokens."""
    from conftest import _commit_rows, _pack_small, make_image_folder

    import toolkit
    from toolkit.format.encodings import ImageEncoding

    folder = make_image_folder(root / "folder")
    _pack_small(folder, root / "pictures")
    _pack_small(folder, root / "raw", image_encoding=ImageEncoding.parse("raw"), short_side=24)
    _commit_rows(root / "values", {"train": [[values(11, 0)], [values(5, 11)]]}, batch_body_bytes=2048)
    documents = [np.arange(length, dtype=np.uint16) % 50 for length in (5, 0, 300, 17, 2, 90)]
    toolkit.pack_tokens(documents, root / "tokens", vocabulary=50)
    return [Crafted.of(root / name) for name in ("pictures", "raw", "values", "tokens")]


def values(rows: int, first: int) -> pa.RecordBatch:
    """Return rows of most types that can be stored, nulls among them."""
    numbers = range(first, first + rows)
    columns: dict[str, pa.Array] = {
        "__key__": pa.array([f"key{i}" for i in numbers]),
        "int8": pa.array([i % 100 for i in numbers], pa.int8()),
        "uint64": pa.array([i * 2**55 for i in numbers], pa.uint64()),
        "float": pa.array([i / 3 for i in numbers], pa.float32()),
        "flag": pa.array([None if i % 5 == 4 else i % 2 == 0 for i in numbers], pa.bool_()),
        "text": pa.array([None if i % 4 == 3 else "word " * i for i in numbers], pa.string()),
        "large_text": pa.array(["é" * i for i in numbers], pa.large_string()),
        "data": pa.array([bytes(i) for i in numbers], pa.binary()),
        "large": pa.array([b"x" * (3 * i) for i in numbers], pa.large_binary()),
        "ints": pa.array([None if i % 6 == 5 else list(range(i)) for i in numbers], pa.list_(pa.int32())),
        "words": pa.array([["a" * j for j in range(i % 4)] for i in numbers], pa.list_(pa.string())),
        "blobs": pa.array([[b"b" * j for j in range(i % 3)] for i in numbers], pa.large_list(pa.binary())),
        "bytes": pa.array([[j % 256 for j in range(i)] for i in numbers], pa.list_(pa.uint8())),
        "nested": pa.array(
            [{"a": ["x"] * (i % 3), "b": None if i % 2 else {"c": i}} for i in numbers],
            pa.struct([("a", pa.list_(pa.string())), ("b", pa.struct([("c", pa.int16())]))]),
        ),
        "vector": pa.array([[i, i, i] for i in numbers], pa.list_(pa.float32(), 3)),
        "nothing": pa.nulls(rows),
        "nothings": pa.array([[None] * (i % 3) for i in numbers], pa.large_list(pa.null())),
        "time": pa.array([i * 10**12 for i in numbers], pa.timestamp("us", "UTC")),
        "money": pa.array(list(numbers), pa.decimal128(20, 2)),
        "fixed": pa.array([bytes([i] * 7) for i in numbers], pa.binary(7)),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def mutate(crafted: Crafted, rng: Generator) -> list[str]:
    """Edit a dataset in one to three places; return what was done."""
    done = []
    for _ in range(int(rng.choice([1, 1, 1, 2, 3]))):
        kind = MUTATIONS[int(rng.integers(len(MUTATIONS)))]
        done.append(f"{kind.__name__[1:]}: {kind(crafted, rng)}"[:300])
    return done


def _pick(rng: Generator, items: Any) -> Any:
    return items[int(rng.integers(len(items)))]


def _number(rng: Generator, old: int) -> int:
    near = [old - 1, old + 1, old * 2, -old, old // 2, old + (1 << 31), old + (1 << 32)]
    return int(_pick(rng, near if rng.random() < 0.4 else NUMBERS))


def _within(value: int, bits: int) -> int:
    """Return the number as a signed one of so many bits has it."""
    return (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


def _value(rng: Generator, old: Any) -> Any:
    if rng.random() < 0.3:
        return _pick(rng, VALUES)
    if isinstance(old, int) and not isinstance(old, bool) and rng.random() < 0.9:
        return _number(rng, old)
    return _pick(rng, TEXTS) if rng.random() < 0.7 else int(_pick(rng, NUMBERS))


def _shards(crafted: Crafted) -> list[Shard]:
    return [shard for tables in crafted.splits.values() for table in tables for shard in table.shards]


def _shard(crafted: Crafted, rng: Generator) -> Shard:
    return _pick(rng, _shards(crafted))


def _batch(crafted: Crafted, rng: Generator) -> Batch:
    return _pick(rng, [batch for shard in _shards(crafted) for batch in shard.batches])


def _places(value: Any, at: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    if at:
        yield at, value
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in items:
        yield from _places(one, (*at, key))


# --- what is edited --------------------------------------------------------------------------------------------------


def _manifest(crafted: Crafted, rng: Generator) -> str:
    place, old = _pick(rng, list(_places(crafted.manifest)))
    value = _value(rng, old)
    crafted.say(*place, value=value)
    return f"{place} says {value!r}"


def _split_sums(crafted: Crafted, rng: Generator) -> str:
    split = _pick(rng, list(crafted.splits))
    key = _pick(rng, ["rows", "bytes"])
    value = _number(rng, 10)
    crafted.say("splits", split, key, value=value)
    return f"{split} {key} = {value}"


def _reference(crafted: Crafted, rng: Generator) -> str:
    table = _pick(rng, _pick(rng, list(crafted.splits.values())))
    key = _pick(rng, ["sha256", "shards", "batches", "rows", "bytes", "tokens"])
    table.ref[key] = _pick(rng, TEXTS) if key == "sha256" else _number(rng, 3)
    return f"{key} = {table.ref[key]!r}"


def _shard_line(crafted: Crafted, rng: Generator) -> str:
    shard = _shard(crafted, rng)
    key = _pick(rng, ["path", "rows", "bytes", "sha256", "nonbody_sha256", "tokens"])
    if key == "path":
        others = [other.path for other in _shards(crafted)]
        shard.line[key] = str(_pick(rng, [*TEXTS, *others])).replace("\ud800", "?")
    elif key.endswith("sha256"):
        shard.line[key] = bytes(32)
    else:
        shard.line[key] = _within(_number(rng, 10), 64)
    return f"{key} = {shard.line[key]!r}"


def _batch_line(crafted: Crafted, rng: Generator) -> str:
    batch = _batch(crafted, rng)
    key = _pick(rng, ["offset", "metadata_bytes", "head_bytes", "body_bytes", "rows", "tokens", "metadata_sha256"])
    old = {"rows": batch.rows, "tokens": batch.rows, "body_bytes": len(batch.body)}.get(key, 500)
    number = _within(_number(rng, old), 32 if key == "metadata_bytes" else 64)
    batch.line[key] = rng.bytes(32) if key == "metadata_sha256" else number
    return f"{key} = {batch.line[key]}"


def _batch_rows(crafted: Crafted, rng: Generator) -> str:
    batch = _batch(crafted, rng)
    batch.rows = _within(_number(rng, batch.rows), 64)
    if rng.random() < 0.5:
        batch.line["rows"] = batch.rows
    if rng.random() < 0.5:
        batch.nodes[0][0] = batch.rows
    return f"{batch.rows} rows"


def _node(crafted: Crafted, rng: Generator) -> str:
    batch = _batch(crafted, rng)
    node, part = int(rng.integers(len(batch.nodes))), int(rng.integers(2))
    batch.nodes[node][part] = _within(_number(rng, batch.nodes[node][part]), 64)
    return f"node {node} part {part} = {batch.nodes[node][part]}"


def _buffer_place(crafted: Crafted, rng: Generator) -> str:
    batch = _batch(crafted, rng)
    buffer, part = int(rng.integers(len(batch.buffers))), int(rng.integers(2))
    batch.buffers[buffer][part] = _within(_number(rng, batch.buffers[buffer][part]), 64)
    return f"buffer {buffer} part {part} = {batch.buffers[buffer][part]}"


def _offsets(crafted: Crafted, rng: Generator) -> str:
    batch = _batch(crafted, rng)
    number = _pick(rng, [i for i, (_, length) in enumerate(batch.buffers) if length] or [0])
    bits = int(_pick(rng, [32, 64]))
    found = batch.numbers(number, f"<i{bits // 8}")
    for _ in range(int(rng.integers(1, 4)) if len(found) else 0):
        at = int(rng.integers(len(found)))
        found[at] = _within(_number(rng, int(found[at])), bits)
    if rng.random() < 0.3 and len(found) > 4:
        found[-4:] = [_within(value, bits) for value in ((1 << (bits - 1)) - 1, -(1 << (bits - 1)), -200, 5)]
    batch.put(number, found)
    return f"buffer {number} as int{bits}"


def _buffer_bytes(crafted: Crafted, rng: Generator) -> str:
    batch = _batch(crafted, rng)
    for _ in range(int(rng.integers(1, 9)) if batch.body else 0):
        batch.body[int(rng.integers(len(batch.body)))] = int(rng.integers(256))
    return "some bytes of a body"


def _buffer_swap(crafted: Crafted, rng: Generator) -> str:
    batch = _batch(crafted, rng)
    one, other = (int(rng.integers(len(batch.buffers))) for _ in range(2))
    batch.buffers[one] = list(batch.buffers[other])
    return f"buffer {one} is buffer {other}"


def _buffer_count(crafted: Crafted, rng: Generator) -> str:
    batch = _batch(crafted, rng)
    which = _pick(rng, [batch.buffers, batch.nodes])
    if rng.random() < 0.5:
        del which[int(rng.integers(len(which))) :]
    else:
        which += [[0, 0]] * int(rng.integers(1, 3))
    return f"{len(batch.buffers)} buffers, {len(batch.nodes)} nodes"


def _sums(crafted: Crafted, rng: Generator) -> str:
    batch = _batch(crafted, rng)
    batch.sums = rng.bytes(4 * int(rng.integers(0, 5)) + int(rng.integers(2)))
    return f"{len(batch.sums)} bytes of sums"


def _message(crafted: Crafted, rng: Generator) -> str:
    batch = _batch(crafted, rng)
    data = bytearray(batch.encoded())
    for _ in range(int(rng.integers(1, 6))):
        at = int(rng.integers(len(data)))
        data[at] = int(_pick(rng, [0, 1, 255, 127, 128, int(rng.integers(256))]))
    batch.message = bytes(data) if rng.random() < 0.9 else bytes(data)[: int(rng.integers(len(data)))]
    return "bytes of a message"


def _schema(crafted: Crafted, rng: Generator) -> str:
    at = int(rng.integers(len(crafted.schema.names)))
    field = crafted.schema.field(at)
    dtype = _pick(rng, TYPES)
    crafted.set_schema(crafted.schema.set(at, pa.field(field.name, dtype, metadata=field.metadata)))
    return f"{field.name} is {dtype}"


def _schema_deep(crafted: Crafted, rng: Generator) -> str:
    at, depth = int(rng.integers(len(crafted.schema.names))), int(_pick(rng, [20, 63, 64, 65, 200, 900]))
    dtype = pa.int8()
    for _ in range(depth):
        dtype = pa.list_(dtype)
    crafted.set_schema(crafted.schema.set(at, pa.field(crafted.schema.names[at], dtype)))
    return f"{depth} lists in each other"


def _schema_fields(crafted: Crafted, rng: Generator) -> str:
    at = int(rng.integers(len(crafted.schema.names)))
    name = str(_pick(rng, [*TEXTS, *crafted.schema.names])).replace("\ud800", "?")
    field = crafted.schema.field(at)
    match int(rng.integers(3)):
        case 0:
            crafted.set_schema(crafted.schema.remove(at))
            return f"without {field.name}"
        case 1:
            crafted.set_schema(crafted.schema.append(field))
            return f"{field.name} twice"
    crafted.set_schema(crafted.schema.set(at, field.with_name(name)))
    if rng.random() < 0.5:
        for column in crafted.manifest["columns"]:
            column["name"] = name if column["name"] == field.name else column["name"]
    return f"{field.name} is called {name[:40]!r}"


def _schema_order(crafted: Crafted, rng: Generator) -> str:
    names = rng.permutation(crafted.schema.names).tolist()
    crafted.set_schema(pa.schema([crafted.schema.field(name) for name in names], crafted.schema.metadata))
    return f"columns in the order {names}"


def _schema_metadata(crafted: Crafted, rng: Generator) -> str:
    data = _pick(rng, [b"", b"{", b"[" * 5000, b"\xff\xfe", json.dumps({"info": None}).encode()])
    crafted.set_schema(crafted.schema.with_metadata({"huggingface": data, "toolkit": data}))
    return f"metadata {data[:20]!r}"


def _kind(crafted: Crafted, rng: Generator) -> str:
    column = _pick(rng, crafted.manifest["columns"])
    column["kind"] = _pick(rng, ["image", "label", "scalar", "tensor", "tokens", "json", "bytes", "text", "value", "x"])
    if column["kind"] == "tokens":
        column["tokens"] = {"vocabulary": _number(rng, 50)}
    return f"{column['name'][:40]} is of kind {column['kind']}"


def _table(crafted: Crafted, rng: Generator) -> str:
    name = _pick(rng, list(crafted.tables))

    def names(table: pa.Table) -> pa.Table:
        if "name" not in table.column_names:
            return table.slice(0, 0) if rng.random() < 0.5 else pa.concat_tables([table, table])
        rows = [str(_pick(rng, TEXTS)).replace("\ud800", "?") for _ in range(int(rng.integers(4)))]
        return pa.table({"name": pa.array(rows, pa.string())}, schema=table.schema)

    crafted.edits[name] = edited_table(names)
    return "rows of a table"


def _table_bytes(crafted: Crafted, rng: Generator) -> str:
    numbers = [(float(rng.random()), int(rng.integers(256))) for _ in range(int(rng.integers(1, 6)))]
    cut = float(rng.random()) if rng.random() < 0.2 else 1.0

    def flip(data: bytes) -> bytes:
        changed = bytearray(data)
        for at, value in numbers:
            changed[int(at * len(changed))] = value
        return bytes(changed[: int(cut * len(changed))])

    if rng.random() < 0.5:
        crafted.edits[_pick(rng, list(crafted.tables))] = flip
        return "bytes of a small table"
    _pick(rng, _pick(rng, list(crafted.splits.values()))).edit = flip
    return "bytes of a shard table"


def _rearrange(crafted: Crafted, rng: Generator) -> str:
    tables = _pick(rng, list(crafted.splits.values()))
    shards = _pick(rng, tables).shards
    items: list[Any] = _pick(rng, [tables, shards, _pick(rng, shards).batches])
    match int(rng.integers(4)):
        case 0:
            items.reverse()
            return "in reverse"
        case 1:
            items.append(_pick(rng, items))
            return "one of them twice"
        case 2 if len(items) > 1:
            del items[int(rng.integers(len(items)))]
            return "one of them left out"
    for batch in _shard(crafted, rng).batches:
        batch.line["offset"] = 0
    return "record batches over each other"


def _footer(crafted: Crafted, rng: Generator) -> str:
    shard = _shard(crafted, rng)
    shard.footer = rng.bytes(int(rng.integers(0, 200)))
    return "another footer"


def _keys(crafted: Crafted, rng: Generator) -> str:
    batch = _batch(crafted, rng)
    data = batch.buffer(2)
    batch.put(2, bytes(len(data)) if rng.random() < 0.5 else b"\xff" * len(data))
    return "all keys alike, or not UTF-8"


MUTATIONS: list[Callable[[Crafted, Generator], str]] = [
    _manifest, _manifest, _manifest, _split_sums, _reference, _shard_line, _shard_line, _batch_line, _batch_line,
    _batch_rows, _batch_rows, _node, _buffer_place, _buffer_place, _offsets, _offsets, _offsets, _offsets,
    _buffer_bytes, _buffer_bytes, _buffer_swap, _buffer_count, _sums, _message, _message, _schema, _schema, _schema,
    _schema_deep, _schema_fields, _schema_order, _schema_metadata, _kind, _kind, _table, _table_bytes, _table_bytes,
    _rearrange, _footer, _keys,
]  # fmt: skip
