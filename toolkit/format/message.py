"""Read what an Arrow IPC file says of its record batches, footer and messages, without touching their bodies.

pyarrow reads metadata and body together; we need to know where buffers lie before a single body byte is trusted. The
few fields are read straight from the flatbuffer (Message.fbs, Schema.fbs of the Arrow format; a table is an offset to a
vtable of 16-bit field offsets, https://flatbuffers.dev/internals/). Every read is range-checked by struct itself.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["BatchMessage", "Block", "parse_batch_message", "parse_footer"]

_RECORD_BATCH = 3  # MessageHeader.RecordBatch
_MAGIC = b"ARROW1"
_MOST_PAIRS = 64  # of custom metadata; each may name the same long text as all others


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


@dataclass(frozen=True, slots=True)
class Block:
    """A record batch as the footer has it: where its message begins, bytes of the message and of the body."""

    offset: int
    metadata_bytes: int
    body_bytes: int


def parse_footer(end: bytes, file_bytes: int) -> list[Block]:
    """Return the record batches of a file in the order of its footer.

    Args:
        end: The last bytes of the file, its footer at least.
        file_bytes: Bytes of the whole file.

    Raises:
        ValueError: It ends otherwise than an Arrow file does, holds dictionaries, or says of a batch what can't be.
    """
    try:
        if end[-len(_MAGIC) :] != _MAGIC:
            raise ValueError("it doesn't end as an Arrow file does")
        tail = len(_MAGIC) + 4
        length = struct.unpack_from("<i", end, len(end) - tail)[0] if len(end) >= tail else -1
        if not 8 <= length <= len(end) - tail:
            raise ValueError("it has no footer")
        data = end[len(end) - tail - length : len(end) - tail]
        table = struct.unpack_from("<I", data, 0)[0]
        if _vector(data, _field(data, table, 2), 24)[1]:
            raise ValueError("dictionaries, which format 1 doesn't have")
        start, count = _vector(data, _field(data, table, 3), 24)
        # Block of File.fbs: int64 offset, int32 metadata length, padding, int64 body length.
        blocks = [Block(*struct.unpack_from("<qi4xq", data, start + 24 * i)) for i in range(count)]
    except (struct.error, IndexError) as error:
        raise ValueError(f"a damaged footer: {error}") from error
    for block in blocks:
        if min(block.offset, block.metadata_bytes, block.body_bytes) < 0 or (
            block.offset + block.metadata_bytes + block.body_bytes > file_bytes
        ):
            raise ValueError("a record batch that lies outside of the file")
    return blocks


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
        raise ValueError("a compressed body, which format 1 doesn't have")
    start, count = _vector(data, buffers_at, 16)
    buffers = np.frombuffer(data, "<i8", 2 * count, start).reshape(count, 2)
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


def _vector(data: bytes, at: int | None, item_bytes: int) -> tuple[int, int]:
    """Return where the items of a vector begin, and how many there are; none of one that is not there."""
    if at is None:
        return 0, 0
    start = _follow(data, at) + 4
    count = int(struct.unpack_from("<I", data, start - 4)[0])
    if count > (len(data) - start) // item_bytes:
        raise ValueError("a vector that runs over the end")
    return start, count


def _int64(data: bytes, at: int | None) -> int:
    return 0 if at is None else int(struct.unpack_from("<q", data, at)[0])


def _metadata(data: bytes, at: int | None) -> dict[str, bytes]:
    start, count = _vector(data, at, 4)
    if count > _MOST_PAIRS:
        raise ValueError(f"{count} pairs of custom metadata")
    pairs = {}
    for i in range(count):
        pair = _follow(data, start + 4 * i)
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
