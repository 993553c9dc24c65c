"""The digest of a sample: 128-bit xxh3 over its columns in the canonical encoding of docs/format.md."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import cast

import pyarrow as pa
import xxhash

from toolkit.format.schema import DIGEST

__all__ = ["DigestEncoder"]

_NULL = b"\0"
_U32 = struct.Struct("<I").pack
_U64 = struct.Struct("<Q").pack


class DigestEncoder:
    """Digests samples of one schema. Holds no state between samples; safe from any thread."""

    def __init__(self, schema: pa.Schema) -> None:
        self._fields = [
            (field.name, _U32(len(field.name.encode())) + field.name.encode(), field.type)
            for field in schema
            if field.name != DIGEST
        ]

    def digest(self, sample: Mapping[str, object]) -> bytes:
        """Return the 16 digest bytes of `sample`, which maps every column but the digest to its Python value."""
        hasher = xxhash.xxh3_128()
        for name, header, dtype in self._fields:
            hasher.update(header)
            _update(hasher, dtype, sample[name])
        return hasher.digest()


def _update(hasher: xxhash.xxh3_128, dtype: pa.DataType, value: object) -> None:
    if value is None:
        hasher.update(_NULL)
    elif pa.types.is_struct(dtype):
        hasher.update(b"\1")
        children = cast(Mapping[str, object], value)
        for child in dtype:
            _update(hasher, child.type, children[child.name])
    elif isinstance(value, int):
        hasher.update(b"\1" + value.to_bytes(dtype.bit_width // 8, "little", signed=True))
    elif isinstance(value, str):
        data = value.encode()
        hasher.update(b"\1" + _U64(len(data)))
        hasher.update(data)
    elif isinstance(value, (bytes, memoryview)):
        hasher.update(b"\1" + _U64(len(value)))
        hasher.update(value)
    else:
        raise TypeError(f"format 1 has no canonical encoding for {dtype}")
