"""What stands around the record batches of a shard: does it say of them what the dataset's own tables say?

Our own readers need neither schema message nor footer of a shard; others read nothing else.
"""

from __future__ import annotations

import struct

import pyarrow as pa

from toolkit.format.index import ShardIndex
from toolkit.format.message import Block, parse_footer
from toolkit.storage.store import Store

__all__ = ["frame_fault"]

_MAGIC = b"ARROW1\0\0"
_FRONT = struct.Struct("<8sIi")  # magic, marker and length of the schema message
_BACK = struct.Struct("<i6s")  # length of the footer, magic
_MOST_BYTES = 1 << 28  # of a schema or footer: the names of ten million classes


def frame_fault(store: Store, index: ShardIndex, shard: int, schema: pa.Schema) -> str | None:
    """Say in which way the schema message or the footer of a shard contradicts the tables, or None.

    Raises:
        NotFoundError, StorageError: It can't be read.
    """
    info = index.shard(shard)
    blocks = [Block(batch.offset, batch.metadata_bytes, batch.body_bytes) for batch in map(index.batch, info.batches)]
    size, name = info.file_bytes, info.path
    front = store.read_range(name, 0, _FRONT.size)
    back = store.read_range(name, size - _BACK.size, _BACK.size)
    try:
        magic, marker, schema_bytes = _FRONT.unpack(front)
        footer_bytes, last = _BACK.unpack(back)
        if (magic, marker) != (_MAGIC, 0xFFFFFFFF):
            return "it doesn't begin as an Arrow file does"
        # Only what they say they are: in front of the first body and behind the last one there may be anything, of any
        # length.
        if not 0 < schema_bytes <= min(_MOST_BYTES, size) or not 0 < footer_bytes <= min(_MOST_BYTES, size):
            return f"a schema message of {schema_bytes} bytes and a footer of {footer_bytes}, in a file of {size}"
        if last != _MAGIC[:6]:
            return "it doesn't end as an Arrow file does"
        front += store.read_range(name, len(front), schema_bytes)
        back = store.read_range(name, max(0, size - len(back) - footer_bytes), footer_bytes) + back
        if not pa.ipc.read_schema(pa.py_buffer(front[len(_MAGIC) :])).equals(schema):
            return "its schema message is not the schema table"
        if not pa.ipc.open_file(pa.py_buffer(_MAGIC + back)).schema.equals(schema):
            return "the schema in its footer is not the schema table"
        if parse_footer(back, size) != blocks:
            return "its footer has other record batches than its shard table"
    except (pa.ArrowException, ValueError, OSError, struct.error) as error:
        return f"its schema or footer can't be read: {error}"
    return None
