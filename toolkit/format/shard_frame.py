"""What stands around the record batches of a shard: does it say of them what the dataset's own tables say?

Our own readers need neither schema message nor footer of a shard; others read nothing else.
"""

from __future__ import annotations

import os

import pyarrow as pa

from toolkit.errors import StorageError
from toolkit.format.message import Block, parse_footer
from toolkit.format.tables import ShardIndex
from toolkit.storage.local import open_regular, read_range

__all__ = ["frame_fault"]

_MAGIC = b"ARROW1\0\0"


def frame_fault(path: str, index: ShardIndex, shard: int, schema: pa.Schema) -> str | None:
    """Say in which way the schema message or the footer of a shard contradicts the tables, or None.

    Raises:
        StorageError: The file system refuses.
    """
    first, last = (int(index.shard_first_batch[shard + i]) for i in (0, 1))
    blocks = [
        Block(
            int(index.batch_offset[batch]), int(index.batch_metadata_bytes[batch]), int(index.batch_body_bytes[batch])
        )
        for batch in range(first, last)
    ]
    size = int(index.shard_bytes[shard])
    end = blocks[-1].offset + blocks[-1].metadata_bytes + blocks[-1].body_bytes if blocks else len(_MAGIC)
    try:
        fd = open_regular(path)
        try:
            front = read_range(fd, 0, blocks[0].offset if blocks else size)
            back = read_range(fd, end, size - end)
        finally:
            os.close(fd)
    except OSError as error:
        raise StorageError(f"can't read {path}: {error.strerror}") from error
    try:
        if front[: len(_MAGIC)] != _MAGIC:
            return "it doesn't begin as an Arrow file does"
        if not pa.ipc.read_schema(pa.py_buffer(front[len(_MAGIC) :])).equals(schema):
            return "its schema message is not the schema table"
        with pa.OSFile(path) as file:
            if not pa.ipc.open_file(file).schema.equals(schema):
                return "the schema in its footer is not the schema table"
        if parse_footer(back, size) != blocks:
            return "its footer has other record batches than its shard table"
    except (pa.ArrowException, ValueError, OSError) as error:
        return f"its schema or footer can't be read: {error}"
    return None
