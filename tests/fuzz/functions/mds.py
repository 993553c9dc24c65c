"""MDS datasets through their source: an index, a shard, or a compressed shard that comes from anywhere.

The first byte of an input says which. Samples of a shard are compared with a reader that is written here; of an index
and of what is compressed, nothing is asked but that it is refused, or read to its end.
"""

from __future__ import annotations

import bz2
import gzip
import itertools
import json
import os
import struct
from pathlib import Path
from typing import Any

import mds_shards
import pyarrow as pa
from fuzz.inputs import File, pieces, refused, same

from toolkit.errors import ToolkitError
from toolkit.sources.kinds.mds.source import MDSSource
from toolkit.sources.options import SourceOptions

_FOLDER = Path(os.path.dirname(File("x").path)) / "mds"
_COLUMNS: tuple[dict[str, str], ...] = (
    {"b": "bytes", "n": "int16"},
    {"a": "ndarray", "i": "str_int", "t": "str"},
    {"a": "ndarray:int16", "f": "ndarray:uint8:2,2", "p": "pil"},
    {"j": "jpegarray", "l": "list[png]", "f": "str_float"},
)
_COMPRESSIONS = ("gz", "bz2", "br", "snappy", "zstd")
_INDEX, _SHARD = 0, 1  # further ones are compressions


def _samples(shard: bytes, columns: dict[str, str]) -> list[dict[str, bytes] | None]:
    """The values of each sample as they lie in the shard; None for one whose sizes don't fit. The shard is whole."""
    (count,) = struct.unpack_from("<I", shard)
    ends = struct.unpack_from(f"<{count + 1}I", shard, 4)
    found: list[dict[str, bytes] | None] = []
    for begin, end in itertools.pairwise(ends):
        data, sizes = shard[begin:end], []
        at = 0
        for encoding in columns.values():
            size = mds_shards.fixed_size(encoding)
            if size is None:
                size, at = int.from_bytes(data[at : at + 4], "little"), at + 4
            sizes.append(size)
        if at + sum(sizes) != len(data):
            found.append(None)
            continue
        values = {}
        for name, size in zip(columns, sizes, strict=True):
            values[name] = data[at : at + size]
            at += size
        found.append(values)
    return found


def _fits(name: str, encoding: str, value: Any, data: bytes) -> bool:
    """Tell whether a value is what its bytes say, as far as that is told here."""
    if encoding in ("bytes", "str"):
        return same(value.encode() if isinstance(value, str) else value, data)
    if encoding == "int16":
        return value == int.from_bytes(data, "little", signed=True)
    if encoding == "str_int":
        return value == int(data)
    if encoding == "str_float":
        return same(value, float(data))
    if encoding.startswith("ndarray"):
        return bool(value.endswith(data[-1:]))
    return isinstance(value, bytes | dict) or all(one in data for one in value)


def _write(kind: int, columns: dict[str, str], content: bytes) -> bytes:
    """Write a dataset; return the shard that may be in it."""
    _FOLDER.mkdir(parents=True, exist_ok=True)
    if kind == _INDEX:
        mds_shards.write(_FOLDER, [[{name: _GOOD[encoding] for name, encoding in columns.items()}] * 2], columns)
        (_FOLDER / "index.json").write_bytes(content)
        return b""
    count = int.from_bytes(content[:4], "little")
    told = mds_shards.entry("shard.00000.mds", content, count, columns)
    told["raw_data"]["hashes"] = {}
    path = _FOLDER / "shard.00000.mds"
    path.unlink(missing_ok=True)
    if kind == _SHARD:
        path.write_bytes(content)
    else:
        name = _COMPRESSIONS[(kind - 2) % len(_COMPRESSIONS)]
        size, content = int.from_bytes(content[:2], "little"), content[2:]
        (_FOLDER / "shard.zip").write_bytes(content)
        told |= {"compression": name, "samples": 2}
        told["raw_data"]["bytes"] = size
        told["zip_data"] = {"basename": "shard.zip", "bytes": len(content), "hashes": {}}
    mds_shards.write_index(_FOLDER, [told])
    return content


_GOOD = {
    "bytes": b"\xff",
    "int16": b"\1\0",
    "str": b"text",
    "str_int": b"12",
    "str_float": b"1.5",
    "ndarray": b"\x08\x04\x02\x01\x02",
    "ndarray:int16": b"\x04\x01\x01\0",
    "ndarray:uint8:2,2": bytes(4),
    "pil": struct.pack("<III", 2, 1, 1) + b"L\1\2",
    "jpegarray": b"\1\0\0\0\1\0\0\0x",
    "list[png]": bytes(4) + b"\1\0\0\0\1\0\0\0x",
}


def fuzz(data: bytes) -> object:
    """Use one input."""
    kind, columns = (data[0] % 7, _COLUMNS[data[0] // 7 % len(_COLUMNS)]) if data else (_INDEX, _COLUMNS[0])
    shard = _write(kind, columns, data[1:])
    rows: list[dict[str, Any]] = []
    rejected: dict[int, str] = {}
    try:
        for _, _, made in pieces(MDSSource(SourceOptions(paths=(str(_FOLDER),), slice_bytes=100))):
            rows += made.batch.to_pylist()
            rejected |= {int(reject.key.rpartition("#")[2]): reject.reason for reject in made.rejects}
    except ToolkitError as error:
        return "".join(c for c in refused(error).rpartition(str(_FOLDER))[2][:60] if not c.isdigit())
    if kind == _SHARD:
        wanted = _samples(shard, columns)
        assert len(rows) + len(rejected) == len(wanted), (rows, rejected, wanted)
        for row in rows:
            number = int(row.pop("__key__").rpartition("#")[2])
            values = wanted[number]
            assert number not in rejected
            assert values is not None, row
            for name, encoding in columns.items():
                assert _fits(name, encoding, row[name], values[name]), (name, row, values)
    return kind, len(rows) > 0, next(iter(rejected.values()), "")[:30]


def seeds() -> list[bytes]:
    """Return an index, a shard and compressed shards of every kind of columns."""
    found = []
    for number, columns in enumerate(_COLUMNS):
        sample = {name: _GOOD[encoding] for name, encoding in columns.items()}
        shard = mds_shards.shard([mds_shards.encoded(sample, columns)] * 2, columns)
        index = json.dumps({"shards": [mds_shards.entry("shard.00000.mds", shard, 2, columns)], "version": 2})
        packed = [gzip.compress(shard), bz2.compress(shard)]
        packed += [pa.compress(shard, codec=name, asbytes=True) for name in ("brotli", "snappy", "zstd")]
        packed = [len(shard).to_bytes(2, "little") + one for one in packed]
        found += [bytes([7 * number + kind]) + one for kind, one in enumerate([index.encode(), shard, *packed])]
    return found
