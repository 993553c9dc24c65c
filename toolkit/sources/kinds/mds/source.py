"""MDS datasets as a source: the shards that an index lists are tables, in its order.

Of an index.json in the folder itself the shards are one split; else each folder in it that has one is a split.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from toolkit.errors import NotFoundError, SourceError, UsageError, did_you_mean
from toolkit.format.kinds import Kind
from toolkit.sources.files import InputFile, expand, refuse, walk
from toolkit.sources.kinds.mds.encodings import Encoding, find_encoding
from toolkit.sources.kinds.mds.index import INDEX_NAME, MDSShard, ShardFile, find_indexes, read_index
from toolkit.sources.kinds.mds.shards import COMPRESSIONS, ShardReader, is_hash_known
from toolkit.sources.kinds.mds.table import MDSTable
from toolkit.sources.names import printable
from toolkit.sources.options import SourceOptions
from toolkit.sources.patterns import Patterns
from toolkit.sources.regular import check_regular
from toolkit.sources.skips import FILE_REASONS, Skips
from toolkit.sources.splits import DEFAULT_SPLIT, check_name
from toolkit.sources.state import FileState
from toolkit.sources.tables.listing import refuse_outside
from toolkit.sources.tables.source import TableSource
from toolkit.sources.tables.table import Table
from toolkit.storage.files import storage_errors

__all__ = ["MDSSource"]


class MDSSource(TableSource):
    """A dataset of MosaicML Streaming."""

    kind = "mds"
    reasons = ("unlisted_shards", *FILE_REASONS)
    _every: Sequence[Table] = ()
    _unknown_hashes: Sequence[str] = ()

    def tables(self, skips: Skips) -> Mapping[str, Sequence[Table]]:
        """Read the indexes, and look for the files of each shard."""
        options = self.options
        paths = [path for given in options.paths for path in expand(given)]
        if len(paths) > 1 or not os.path.isdir(paths[0]):
            raise SourceError(
                f"an MDS dataset is one folder with {INDEX_NAME} in it, or in the folders of its splits: give that "
                f"folder, not {', '.join(repr(printable(path)) for path in paths[:3])}"
            )
        (root,) = paths
        with storage_errors("read", root):
            indexes = find_indexes(root)
        if not indexes:
            raise SourceError(
                f"no {INDEX_NAME} of an MDS dataset in {printable(root)!r}, nor in a folder in it: give the folder "
                "that has it"
            )
        for path in indexes.values():
            refuse_outside(path, root, follow_links=options.follow_links)
        wanted = _splits(indexes, options.split)
        folder = _Folder(root, options, skips)
        every = {
            name: list(folder.tables(f"{name}/" if name else "", read_index(path))) for name, path in indexes.items()
        }
        folder.note_others([os.path.relpath(path, root) for path in indexes.values()])
        self._every = [table for tables in every.values() for table in tables]
        self._unknown_hashes = sorted(folder.unknown_hashes)
        return {split: every[name] for split, name in wanted.items()}

    def all_tables(self, splits: Mapping[str, Sequence[Table]]) -> Sequence[Table]:
        """Return the tables of all splits of the dataset."""
        return self._every

    def doubts(self) -> tuple[str, ...]:
        """Tell of hashes that aren't checked."""
        if not self._unknown_hashes:
            return ()
        names = ", ".join(repr(printable(name)) for name in self._unknown_hashes)
        return (f"hashes in {INDEX_NAME} that aren't known here, and aren't checked: {names}",)


class _Folder:
    """The folder of a dataset, and what in it is listed.

    Attributes:
        unknown_hashes: Names of hashes of its shards that can't be checked.
    """

    def __init__(self, root: str, options: SourceOptions, skips: Skips) -> None:
        self._root = root
        self._options = options
        self._skips = skips
        self._patterns = Patterns(options.include, options.exclude)
        self._listed: set[str] = set()
        self.unknown_hashes: set[str] = set()

    def tables(self, base: str, shards: Sequence[MDSShard]) -> Iterator[Table]:
        """Yield the tables of the shards whose index lies in the folder `base`."""
        encodings: dict[object, dict[str, Encoding]] = {}
        for shard in shards:
            name = base + shard.raw.name
            self._listed |= {base + file.name for file in (shard.raw, shard.compressed) if file is not None}
            if not self._patterns.takes(name):
                self._skips.add("excluded", name)
                continue
            reader = self._reader(base, shard)
            told = {name for file in (shard.raw, shard.compressed) if file is not None for name in file.hashes}
            self.unknown_hashes |= {name for name in told if not is_hash_known(name)}
            if shard.columns not in encodings:
                encodings[shard.columns] = _encodings(shard, name, self._options)
            file = InputFile(os.path.join(self._root, name), name, shard.raw.bytes)
            yield MDSTable(file, reader, encodings[shard.columns], self._options.max_value_bytes)

    def note_others(self, indexes: Sequence[str]) -> None:
        """Note the files in the folder that no index lists."""

        def passed_over(reason: str, path: str) -> None:
            self._skips.add(reason, os.path.relpath(path, self._root))

        for folder, files in walk(self._root, refuse, passed_over=passed_over):
            for file in files:
                name = os.path.relpath(os.path.join(folder, file), self._root)
                if file.startswith("."):
                    self._skips.add("hidden", name)
                elif name not in self._listed and name not in indexes:
                    self._skips.add("unlisted_shards" if ".mds" in file else "other_kinds", name)

    def _reader(self, base: str, shard: MDSShard) -> ShardReader:
        """Return what reads a shard: from its own file, or else from the compressed one."""
        for file in (shard.raw, shard.compressed):
            path = None if file is None else os.path.join(self._root, base + file.name)
            if file is not None and path is not None and os.path.exists(path):
                is_compressed = file is not shard.raw
                if is_compressed and shard.compression not in COMPRESSIONS:
                    raise SourceError(
                        f"{printable(path)!r} is compressed as {shard.compression!a}, and {', '.join(COMPRESSIONS)} "
                        "are read: decompress the shards beside it, or write the dataset again"
                    )
                return ShardReader(shard, path, self._state(path, base + file.name, file), is_compressed)
        tried = " nor ".join(repr(printable(base + file.name)) for file in (shard.raw, shard.compressed) if file)
        raise SourceError(
            f"the index lists a shard of {shard.samples} samples that isn't there: no {tried} in "
            f"{printable(self._root)!r}. Get it, or leave it out with --exclude {printable(base + shard.raw.name)!r}"
        )

    def _state(self, path: str, name: str, told: ShardFile) -> FileState:
        """Return the state of a shard's file, which lies in the folder and has the size that the index says."""
        refuse_outside(path, self._root, follow_links=self._options.follow_links)
        with storage_errors("read", path):
            state = FileState.of(check_regular(path))
        if state.size != told.bytes:
            raise SourceError(
                f"{printable(path)!r} has {state.size} bytes, and the index says {told.bytes}: it is cut short or "
                f"another's; get it again, or leave it out with --exclude {printable(name)!r}"
            )
        return state


def _splits(indexes: Mapping[str, str], wanted: str | None) -> dict[str, str]:
    """Return the names of the indexes whose shards to pack, by split."""
    if "" in indexes:
        return {wanted or DEFAULT_SPLIT: ""}
    if wanted is None:
        for name in indexes:
            check_name(name)
        return {name: name for name in indexes}
    if wanted not in indexes:
        raise NotFoundError(
            f"the splits of the dataset are {', '.join(map(printable, indexes))}, not {wanted!r}."
            f"{did_you_mean(wanted, indexes)}"
        )
    return {wanted: wanted}


def _encodings(shard: MDSShard, name: str, options: SourceOptions) -> dict[str, Encoding]:
    """Return the encodings of the columns that can be read; those that can't may not be asked for.

    Raises:
        SourceError: One that would be packed can't be read.
        UsageError: One that is asked for by name can't be.
    """
    asked = options.map.values() if options.map is not None else options.columns
    found, refused = {}, {}
    for column, text, _ in shard.columns:
        called = {field: made for made, field in (options.map or {}).items()} | dict(options.rename)
        as_text = options.kind.get(called.get(column, column)) is Kind.TEXT
        encoding = find_encoding(text, as_text=as_text)
        if isinstance(encoding, Encoding):
            found[column] = encoding
        else:
            refused[column] = encoding
    for column, why in refused.items():
        told = f"column {column!r} of {printable(name)!r} can't be read: {why}"
        if column == options.key or column in (asked or ()):
            raise UsageError(f"{told}. Write it with another encoding, or leave it out")
        if asked is None:
            others = f"pack the others with --columns {','.join(found)}" if found else "and there is no other"
            raise SourceError(f"{told}. Write it with another encoding, or {others}")
    return found
