"""Record batch messages, under ASan: what is read is what Python's struct reads, which checks each range itself."""

from __future__ import annotations

import base64
import binascii
import struct

import numpy as np
import pyarrow as pa

from toolkit._native.shards.message import BatchMessage, decode_base64

SANITIZED = True

_MOST_PAIRS = 64


def _at(form: str, data: bytes, at: int) -> tuple[int, ...]:
    if at < 0:  # struct would count from the end
        raise ValueError
    return struct.unpack_from(form, data, at)


def _field(data: bytes, table: int, slot: int) -> int | None:
    vtable = table - _at("<i", data, table)[0]
    if 4 + 2 * slot >= _at("<H", data, vtable)[0]:
        return None
    offset = _at("<H", data, vtable + 4 + 2 * slot)[0]
    return table + offset if offset else None


def _follow(data: bytes, at: int) -> int:
    return at + int(_at("<I", data, at)[0])


def _vector(data: bytes, at: int | None, item_bytes: int) -> tuple[int, int]:
    if at is None:
        return 0, 0
    start = _follow(data, at) + 4
    count = int(_at("<I", data, start - 4)[0])
    if count > (len(data) - start) // item_bytes:
        raise ValueError
    return start, count


def _string(data: bytes, at: int) -> bytes:
    start, size = _vector(data, at, 1)
    return data[start : start + size]


def _number(data: bytes, at: int | None) -> int:
    return 0 if at is None else int(_at("<q", data, at)[0])


def _expected(message: bytes) -> tuple[int, int, list[list[int]], dict[str, bytes]]:
    marker, length = _at("<Ii", message, 0)
    if marker != 0xFFFFFFFF or not 8 <= length == len(message) - 8:
        raise ValueError
    data = message[8 : 8 + length]
    table = _at("<I", data, 0)[0]
    version_at = _field(data, table, 0)
    if version_at is None or _at("<H", data, version_at)[0] != 4:
        raise ValueError
    type_at, header_at = _field(data, table, 1), _field(data, table, 2)
    if header_at is None or type_at is None or _at("<B", data, type_at)[0] != 3:
        raise ValueError
    batch = _follow(data, header_at)
    if _field(data, batch, 3) is not None:
        raise ValueError
    start, count = _vector(data, _field(data, batch, 2), 16)
    buffers = np.frombuffer(data, "<i8", 2 * count, start).reshape(count, 2).tolist()
    pairs = {}
    start, count = _vector(data, _field(data, table, 4), 4)
    if count > _MOST_PAIRS:
        raise ValueError
    for i in range(count):
        pair = _follow(data, start + 4 * i)
        key, value = _field(data, pair, 0), _field(data, pair, 1)
        if key is not None:
            pairs[_string(data, key).decode()] = b"" if value is None else _string(data, value)
    return _number(data, _field(data, batch, 0)), _number(data, _field(data, table, 3)), buffers, pairs


def _refused(expected: object) -> str:
    assert expected is None, expected
    return "refused"


def _look(data: bytes) -> str:
    try:
        expected = _expected(data)
    except (ValueError, IndexError, struct.error):
        expected = None
    try:
        message = BatchMessage(data)
    except ValueError:
        return _refused(expected)
    found = message.rows, message.body_bytes, message.buffers.tolist(), message.metadata
    assert found == expected, (found, expected)
    head = len(message.buffers) // 2
    fault = message.places_fault(np.arange(head, dtype=np.int32), head, message.body_bytes)
    return f"a message: {fault}"


def fuzz(data: bytes) -> object:
    """Use one input."""
    try:
        expected = base64.b64decode(data, validate=True)
    except binascii.Error:
        expected = None
    try:
        found = decode_base64(data)
    except ValueError:
        found = None
    if found is None:  # Python takes padding where none may be
        assert expected is None or base64.b64encode(expected) != data, expected
    else:
        assert found == expected, (found, expected)
    return _look(data)


def seeds() -> list[bytes]:
    """Return the messages of some batches, with and without metadata."""
    batch = pa.record_batch({"a": ["x", None, "yz"], "b": [1, 2, 3], "c": [[1.5], [], None]})
    made = [b"", b"QUJD", b"QQ==", b"QUI="]
    for metadata in (None, {"toolkit.crc32c": "AAECAw=="}, {"a": "", "toolkit.crc32c": "x" * 100}):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch, custom_metadata=metadata)
        data = sink.getvalue().to_pybytes()
        start = 8 + int.from_bytes(data[4:8], "little")
        made += [data[: start + 8], data[start : start + 8 + int.from_bytes(data[start + 4 : start + 8], "little")]]
    return made
