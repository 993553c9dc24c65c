"""Read the metadata of one Arrow IPC record batch message without touching its body.

pyarrow reads metadata and body together; we need to know where buffers lie before a single body byte is trusted. The
few fields are read straight from the flatbuffer (Message.fbs, Schema.fbs of the Arrow format; a table is an offset to a
vtable of 16-bit field offsets, https://flatbuffers.dev/internals/). Every read is range-checked by struct itself.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["BatchMessage", "parse_batch_message"]

_RECORD_BATCH = 3  # MessageHeader.RecordBatch


@dataclass(frozen=True, slots=True)
class BatchMessage:
    """What a record batch message says of its body.

    Attributes:
        rows: Rows of the batch.
        body_bytes: Length of the body.
        buffers: int64 (n, 2): start in the body and length of each buffer.
        metadata: Custom metadata of the message.
    """

    rows: int
    body_bytes: int
    buffers: NDArray[np.int64]
    metadata: dict[str, bytes]


def parse_batch_message(message: bytes) -> BatchMessage:
    """Parse an encapsulated message: 0xFFFFFFFF, int32 length, flatbuffer. Raises ValueError when it isn't one."""
    try:
        marker, length = struct.unpack_from("<Ii", message, 0)
        if marker != 0xFFFFFFFF or length < 8 or length > len(message) - 8:
            raise ValueError("no encapsulated message")
        return _parse(message[8 : 8 + length])
    except (struct.error, IndexError) as error:
        raise ValueError(f"a damaged message: {error}") from error


def _parse(data: bytes) -> BatchMessage:
    table = struct.unpack_from("<I", data, 0)[0]
    header_at = _field(data, table, 2)
    type_at, body_at, metadata_at = (_field(data, table, slot) for slot in (1, 3, 4))
    if header_at is None or type_at is None or data[type_at] != _RECORD_BATCH:
        raise ValueError("not a record batch message")
    batch = _follow(data, header_at)
    rows_at, buffers_at = _field(data, batch, 0), _field(data, batch, 2)
    if _field(data, batch, 3) is not None:
        raise ValueError("a compressed body, which format 1 has not")
    buffers = np.empty((0, 2), np.int64)
    if buffers_at is not None:
        vector = _follow(data, buffers_at)
        count = struct.unpack_from("<I", data, vector)[0]
        buffers = np.frombuffer(data, "<i8", 2 * count, vector + 4).reshape(count, 2)
    return BatchMessage(
        rows=_int64(data, rows_at),
        body_bytes=_int64(data, body_at),
        buffers=buffers,
        metadata=_metadata(data, metadata_at),
    )


def _field(data: bytes, table: int, slot: int) -> int | None:
    """Return where field `slot` of the table lies, or None when it has its default."""
    vtable = table - struct.unpack_from("<i", data, table)[0]
    if vtable < 0 or 4 + 2 * slot >= struct.unpack_from("<H", data, vtable)[0]:
        return None
    offset = struct.unpack_from("<H", data, vtable + 4 + 2 * slot)[0]
    return table + offset if offset else None


def _follow(data: bytes, at: int) -> int:
    return at + int(struct.unpack_from("<I", data, at)[0])


def _int64(data: bytes, at: int | None) -> int:
    return 0 if at is None else int(struct.unpack_from("<q", data, at)[0])


def _metadata(data: bytes, at: int | None) -> dict[str, bytes]:
    if at is None:
        return {}
    vector = _follow(data, at)
    pairs = {}
    for i in range(struct.unpack_from("<I", data, vector)[0]):
        pair = _follow(data, vector + 4 + 4 * i)
        key, value = _field(data, pair, 0), _field(data, pair, 1)
        if key is not None:
            pairs[_string(data, key).decode()] = b"" if value is None else _string(data, value)
    return pairs


def _string(data: bytes, at: int) -> bytes:
    start = _follow(data, at)
    length = struct.unpack_from("<I", data, start)[0]
    if start + 4 + length > len(data):
        raise ValueError("a string that runs over the end")
    return data[start + 4 : start + 4 + length]
