"""Read index.json of an MDS dataset: its shards, what they say of their files and columns, all of it checked.

Opens no shard. What is claimed of sizes and samples is weighed against each other here, before anything relies on it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import msgspec

from toolkit.errors import SourceError
from toolkit.sources.kinds.mds.encodings import fixed_size
from toolkit.sources.names import is_utf8, printable
from toolkit.sources.regular import open_file
from toolkit.sources.splits import SPLIT_NAMES
from toolkit.storage.files import storage_errors

__all__ = [
    "INDEX_NAME",
    "OFFSET_BYTES",
    "MDSShard",
    "ShardFile",
    "find_indexes",
    "looks_like_index",
    "looks_like_shard",
    "read_index",
]

INDEX_NAME = "index.json"
OFFSET_BYTES = 4  # of the sample count, and of each offset

_VERSION = 2
_LARGEST_SHARD = (1 << 32) - 1  # offsets are uint32
_LARGEST_INDEX = 256 * 1024 * 1024
_HEAD_BYTES = 8192
_CONFIG_BEGINS = b'{"column_encodings"'  # as MDSWriter writes what a shard says of its columns
_MOST_FOLDERS = 1000  # that are looked into for splits

_Count = Annotated[int, msgspec.Meta(ge=0)]


class _File(msgspec.Struct):
    basename: str
    bytes: _Count
    hashes: dict[str, str] = {}


class _Shard(msgspec.Struct):
    format: str
    version: int
    samples: _Count
    raw_data: _File
    zip_data: _File | None = None
    compression: str | None = None
    column_names: list[str] = []
    column_encodings: list[str] = []
    column_sizes: list[_Count | None] = []


class _Head(msgspec.Struct):
    version: int


class _Index(msgspec.Struct):
    version: int
    shards: list[_Shard]


_HEAD, _INDEX = msgspec.json.Decoder(_Head), msgspec.json.Decoder(_Index)


@dataclass(frozen=True, slots=True)
class ShardFile:
    """A file of a shard: its name below the index's folder, its size, and its hex digests by algorithm."""

    name: str
    bytes: int
    hashes: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class MDSShard:
    """A shard as the index describes it.

    Attributes:
        raw: Its file, decompressed.
        compressed: The file that it is kept in where it was compressed.
        compression: How that one is compressed: "zstd", without the level.
        samples: How many it has.
        columns: Name, encoding and size of each column, in the order of the file; the size is None where each value
            says its own.
    """

    raw: ShardFile
    compressed: ShardFile | None
    compression: str | None
    samples: int
    columns: tuple[tuple[str, str, int | None], ...]


def looks_like_index(path: str) -> bool:
    """Tell whether the file begins as an index of MDS shards does. Raises StorageError."""
    with storage_errors("read", path):
        if not os.path.isfile(path):
            return False
        with open_file(path) as file:
            head = file.read(_HEAD_BYTES)
    words = head.split(b'"', 2)
    begins = len(words) == 3 and words[0].strip() == b"{" and words[1] in (b"shards", b"version")
    return begins and b'"shards"' in head


def looks_like_shard(path: str) -> bool:
    """Tell whether the file is a shard as MDSWriter makes it, not compressed. Raises StorageError."""
    with storage_errors("read", path), open_file(path) as file:
        head = file.read(2 * OFFSET_BYTES)
        table_bytes = OFFSET_BYTES * (int.from_bytes(head[:OFFSET_BYTES], "little") + 2)
        begins = int.from_bytes(head[OFFSET_BYTES:], "little")
        if len(head) < 2 * OFFSET_BYTES or begins <= table_bytes or begins > os.fstat(file.fileno()).st_size:
            return False
        file.seek(table_bytes)
        return file.read(len(_CONFIG_BEGINS)) == _CONFIG_BEGINS


def find_indexes(folder: str) -> dict[str, str]:
    """Return the paths of indexes by the name of the folder in it that each lies in, or of the one in the folder by "".

    Splits are in the order of their usual names, then by name; hidden folders aren't looked into. Raises OSError, or
    StorageError.
    """
    own = os.path.join(folder, INDEX_NAME)
    if looks_like_index(own):
        return {"": own}
    names = sorted(entry.name for entry in os.scandir(folder) if not entry.name.startswith(".") and entry.is_dir())
    usual = {name: place for place, name in enumerate(SPLIT_NAMES)}
    names.sort(key=lambda name: usual.get(name, len(usual)))
    paths = {name: os.path.join(folder, name, INDEX_NAME) for name in names[:_MOST_FOLDERS]}
    return {name: path for name, path in paths.items() if looks_like_index(path)}


def read_index(path: str) -> tuple[MDSShard, ...]:
    """Return the shards of an index in their order.

    Raises:
        SourceError: It is damaged, of another version, describes shards that can't be, or whose files lie elsewhere.
        StorageError: It can't be read.
    """
    shown = repr(printable(path))
    with storage_errors("read", path), open_file(path) as file:
        content = file.read(_LARGEST_INDEX + 1)
        while len(content) <= _LARGEST_INDEX and (more := file.read(_LARGEST_INDEX + 1 - len(content))):
            content += more
    if len(content) > _LARGEST_INDEX:
        raise SourceError(f"{shown} is larger than an index is ({_LARGEST_INDEX >> 20} MiB): get or write it again")
    try:
        version = _HEAD.decode(content).version
        if version != _VERSION:
            raise SourceError(
                f"{shown} is of version {version} of MDS, and version {_VERSION} is read: write it again with "
                "streaming.MDSWriter"
            )
        index = _INDEX.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SourceError(
            f"{shown} can't be understood ({error}): it is cut short, damaged or no index. Get or write it again"
        ) from error
    seen: dict[str, int] = {}
    shards = []
    for number, shard in enumerate(index.shards):
        where = f"{shown}, shard {number}"
        made = _checked(shard, where)
        for name in (one.name for one in (made.raw, made.compressed) if one is not None):
            if seen.setdefault(name, number) != number:
                raise SourceError(
                    f"{where}: {printable(name)!r} is that of shard {seen[name]} too, so its samples would "
                    "come twice: take one of them out"
                )
        shards.append(made)
    return tuple(shards)


def _checked(shard: _Shard, where: str) -> MDSShard:
    if shard.version != _VERSION:
        raise SourceError(f"{where} is of version {shard.version} of MDS, and version {_VERSION} is read")
    if shard.format != "mds":
        raise SourceError(
            f"{where} is of the format {shard.format!r}, and of streaming datasets only MDS is read: its files are "
            "texts that --source-kind text or csv may read"
        )
    columns = _columns(shard, where)
    raw = _file(shard.raw_data, where)
    compressed = None if shard.zip_data is None else _file(shard.zip_data, where)
    compression = (shard.compression or "").partition(":")[0] or None
    if compressed is not None and compression is None:
        raise SourceError(f"{where} has a compressed file and doesn't say how it is compressed: write it again")
    if raw.bytes > _LARGEST_SHARD:
        raise SourceError(f"{where} is said to have {raw.bytes} bytes, and a shard can't have more than 4 GiB")
    least = OFFSET_BYTES * (shard.samples + 2) + shard.samples * _least_sample(shard)
    if raw.bytes < least:
        raise SourceError(
            f"{where} is said to hold {shard.samples} samples in {raw.bytes} bytes, and they take {least} at least: "
            "the index is damaged; get or write it again"
        )
    return MDSShard(raw, compressed, compression, shard.samples, columns)


def _columns(shard: _Shard, where: str) -> tuple[tuple[str, str, int | None], ...]:
    names, encodings = shard.column_names, shard.column_encodings
    sizes = [size or None for size in shard.column_sizes]
    if not names or not len(names) == len(encodings) == len(sizes):
        raise SourceError(
            f"{where} has {len(names)} column names, {len(encodings)} encodings and {len(sizes)} sizes: the index is "
            "damaged; get or write it again"
        )
    if len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise SourceError(f"{where} has two columns called {twice!r}: write it again with one of them renamed")
    for name, encoding, size in zip(names, encodings, sizes, strict=True):
        known = fixed_size(encoding)
        if known is not None and size != known:
            raise SourceError(
                f"{where}, column {name!r}: values of {encoding!r} have {known} bytes, and the index says {size}: it "
                "is damaged; get or write it again"
            )
    return tuple(zip(names, encodings, sizes, strict=True))


def _least_sample(shard: _Shard) -> int:
    """Return the bytes that a sample takes when all that can be empty is."""
    return sum(size or OFFSET_BYTES for size in shard.column_sizes)


def _file(file: _File, where: str) -> ShardFile:
    name, shown = file.basename, repr(printable(file.basename))
    if "\0" in name or not is_utf8(name):
        raise SourceError(f"{where}: {shown} can't be the name of a file: the index is damaged; get or write it again")
    if not name or name.startswith("/") or any(part in ("", ".", "..") for part in name.split("/")):
        raise SourceError(
            f"{where}: {shown} is no path below the index's folder, and nothing else is read: give the folder that "
            "holds the shards, with an index of its own"
        )
    return ShardFile(name, file.bytes, file.hashes)
