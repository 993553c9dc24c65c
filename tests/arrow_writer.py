"""Arrow IPC messages and footers with any numbers in them, also such as pyarrow would never write."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import pyarrow as pa
from format.pure_arrow import RECORD_BATCH, Flat


def batch_message(
    rows: int,
    nodes: list[list[int]],
    buffers: list[list[int]],
    body_bytes: int,
    metadata: dict[str, bytes],
) -> bytes:
    """Return an encapsulated record batch message; what its numbers are is nobody's business here."""
    flat = _Writer()
    root = flat.table([("h", 4), ("B", RECORD_BATCH), ("I", 0), ("q", body_bytes), ("I", 0)])
    flat.refer(0, root.at)
    header = flat.table([("q", rows), ("I", 0), ("I", 0)])
    flat.point(root, 2, header)
    for slot, pairs in ((1, nodes), (2, buffers)):
        vector = flat.vector(len(pairs), b"".join(struct.pack("<qq", *pair) for pair in pairs), align=8)
        flat.point(header, slot, vector)
    pairs_at = flat.vector(len(metadata), bytes(4 * len(metadata)), align=4)
    flat.point(root, 4, pairs_at)
    for i, (key, value) in enumerate(metadata.items()):
        pair = flat.table([("I", 0), ("I", 0)])
        flat.refer(pairs_at + 4 + 4 * i, pair.at)
        flat.point(pair, 0, flat.vector(len(key), key.encode() + b"\0", align=4))
        flat.point(pair, 1, flat.vector(len(value), value + b"\0", align=4))
    data = bytes(flat.data) + bytes(-len(flat.data) % 8)
    return struct.pack("<Ii", 0xFFFFFFFF, len(data)) + data


def footer_of(schema_message: bytes, places: list[dict[str, int]]) -> bytes:
    """Return a footer, its length and the magic: pyarrow's own for as many batches, with these places written in."""
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(schema_message))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, schema) as writer:
            for _ in places:
                writer.write_batch(pa.RecordBatch.from_arrays([pa.nulls(0, t) for t in schema.types], schema=schema))
    except (pa.ArrowException, OSError):
        return b"ARROW1"
    data = sink.getvalue().to_pybytes()
    length = struct.unpack_from("<i", data, len(data) - 10)[0]
    footer = bytearray(data[-10 - length :])
    at, _ = Flat(bytes(footer))._vector(3)
    for number, place in enumerate(places):
        block = (place["offset"], place["metadata_bytes"], place["body_bytes"])
        wrapped = (_signed(block[0], 64), _signed(block[1], 32), _signed(block[2], 64))
        struct.pack_into("<qi4xq", footer, at + 24 * number, *wrapped)
    return bytes(footer)


def _signed(value: int, bits: int) -> int:
    return (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


@dataclass
class _Table:
    at: int
    fields: list[int]


class _Writer:
    """The few things of a flatbuffer that a message needs, each written behind what it is pointed to from."""

    def __init__(self) -> None:
        self.data = bytearray(8)  # where the root table begins; the rest is padding

    def table(self, fields: list[tuple[str, int]]) -> _Table:
        """Write a table with all of these fields (struct code, value)."""
        offsets, size = [], 4
        for code, _ in fields:
            size += -size % struct.calcsize(code)
            offsets.append(size)
            size += struct.calcsize(code)
        vtable = struct.pack(f"<HH{len(fields)}H", 4 + 2 * len(fields), size, *offsets)
        self.data += bytes(-(len(self.data) + len(vtable)) % 8) + vtable
        at = len(self.data)
        self.data += struct.pack("<i", len(vtable)) + bytes(size - 4)
        for offset, (code, value) in zip(offsets, fields, strict=True):
            struct.pack_into("<" + code, self.data, at + offset, value)
        return _Table(at, [at + offset for offset in offsets])

    def vector(self, count: int, items: bytes, *, align: int) -> int:
        """Write a vector (or a string) whose items begin at a multiple of `align`; return where it begins."""
        self.data += bytes(-(len(self.data) + 4) % align)
        at = len(self.data)
        self.data += struct.pack("<I", count) + items
        return at

    def point(self, table: _Table, field: int, target: _Table | int) -> None:
        """Let a field of a table refer to another table or vector."""
        self.refer(table.fields[field], target.at if isinstance(target, _Table) else target)

    def refer(self, at: int, target: int) -> None:
        """Write the offset at `at` that leads to `target`."""
        struct.pack_into("<I", self.data, at, target - at)
