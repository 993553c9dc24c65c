"""Read what the footer of an Arrow IPC file says of its record batches, without touching them.

As toolkit._native.shards.message does for messages, straight from the flatbuffer (File.fbs of the Arrow format). Every
read is range-checked by struct itself.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

__all__ = ["Block", "parse_footer"]

_MAGIC = b"ARROW1"


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
