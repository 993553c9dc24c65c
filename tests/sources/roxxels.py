"""Write ROXXEL02 files as their format is described: blocks, the end of each, and a footer."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np


def write(path: Path, ids: np.ndarray, block_bytes: int) -> None:
    data = ids.tobytes()
    data += bytes(-len(data) % block_bytes)
    ends = [end + block_bytes for end in range(0, len(data), block_bytes)]
    index = b"".join(struct.pack("<q", end) for end in ends)
    footer = struct.pack("<qq8s8s", len(ends), len(data), ids.dtype.name.encode(), b"ROXXEL02")
    path.write_bytes(data + index + footer)
