"""Record batch bodies for tests of native code: bytes in a file of their own, mapped, with their chunk sums."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from toolkit._native.shards.body import CHUNK_BYTES, Body, ShardMap
from toolkit._native.shards.sums import crc32c


def sums_of(data: bytes) -> bytes:
    chunks = [data[at : at + CHUNK_BYTES] for at in range(0, len(data), CHUNK_BYTES)]
    return b"".join(struct.pack("<I", crc32c(chunk)) for chunk in chunks)


def body_over(
    path: Path, data: bytes, buffers: list[tuple[int, int]], rows: int = 1, lead: int = 0, remember: bool = True
) -> Body:
    path.write_bytes(b"#" * lead + data + b"#")
    with path.open("rb") as file:
        shard = ShardMap(file.fileno(), lead + len(data) + 1)
    return Body(shard, lead, len(data), rows, sums_of(data), np.array(buffers, np.int64).reshape(-1, 2), remember)


def laid_out(*buffers: bytes) -> tuple[bytes, list[tuple[int, int]]]:
    data, places = b"", []
    for buffer in buffers:
        places.append((len(data), len(buffer)))
        data += buffer + bytes(-len(buffer) % 8)
    return data, places
