"""What stands around the record batches of a shard: does it say of them what the dataset's own tables say?

Our own readers need neither schema message nor footer of a shard; others read nothing else.
"""

from __future__ import annotations

import pyarrow as pa

from toolkit.format.index import ShardIndex
from toolkit.format.message import Block, parse_footer
from toolkit.storage.store import Store

__all__ = ["frame_fault"]

_MAGIC = b"ARROW1\0\0"


def frame_fault(store: Store, index: ShardIndex, shard: int, schema: pa.Schema) -> str | None:
    """Say in which way the schema message or the footer of a shard contradicts the tables, or None.

    Raises:
        NotFoundError, StorageError: It can't be read.
    """
    info = index.shard(shard)
    blocks = [Block(batch.offset, batch.metadata_bytes, batch.body_bytes) for batch in map(index.batch, info.batches)]
    size, name = info.file_bytes, info.path
    end = blocks[-1].offset + blocks[-1].metadata_bytes + blocks[-1].body_bytes if blocks else len(_MAGIC)
    front = store.read_range(name, 0, blocks[0].offset if blocks else size)
    back = store.read_range(name, end, size - end)
    try:
        if front[: len(_MAGIC)] != _MAGIC:
            return "it doesn't begin as an Arrow file does"
        if not pa.ipc.read_schema(pa.py_buffer(front[len(_MAGIC) :])).equals(schema):
            return "its schema message is not the schema table"
        if not pa.ipc.open_file(pa.py_buffer(_MAGIC + back)).schema.equals(schema):
            return "the schema in its footer is not the schema table"
        if parse_footer(back, size) != blocks:
            return "its footer has other record batches than its shard table"
    except (pa.ArrowException, ValueError, OSError) as error:
        return f"its schema or footer can't be read: {error}"
    return None
