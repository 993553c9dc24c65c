"""Read values that lie in other files: checked like those of shards, and delivered as they would be packed."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from toolkit._native.shards.body import CHUNK_BYTES, READ_NULL, READ_OK
from toolkit._native.shards.fetch import FetchBuffer
from toolkit._native.shards.ranges import (
    RANGE_ERRNO,
    RANGE_GONE,
    RANGE_KIND,
    RANGE_LINK,
    RANGE_PLACE,
    RANGE_ROOT,
    RANGE_SHORT,
    RANGE_STAT,
    RANGE_SUM,
    Ranges,
    read_range,
)
from toolkit.errors import ChangedFileError, CorruptShardError, SampleError, StorageError
from toolkit.format.layout import leaf_name
from toolkit.format.schema import Column
from toolkit.loader.dataset.located import Found, Located, Place, Variable
from toolkit.loader.dataset.split_files import SplitFiles
from toolkit.pipelines.media import medium_of
from toolkit.pipelines.medium import UnfitMediumError
from toolkit.storage.files import reason_of

__all__ = ["References", "ShardValues", "is_of_file"]

Payloads = list[bytes | None]
"""Values of bytes or text as they are stored, None where null."""

# Where `bytes` is a method.
_Text = bytes
_Bytes = bytes | memoryview

_LARGE = 1 << 20  # bytes: whoever says that a value has more has its file looked at before memory is taken for it

_FAILURES = {
    RANGE_GONE: "it isn't there any more",
    RANGE_KIND: "it is no regular file",
    RANGE_LINK: "a link on its way leads out of the root, or can't be followed safely on this system",
    RANGE_SHORT: "it ends before the value does",
    RANGE_SUM: "its bytes aren't those that were indexed",
    RANGE_STAT: "it has another size or modification time than when it was listed",
}
_CONTRADICTIONS = {
    RANGE_PLACE: "its path leads out of the root, or its place, length and sums contradict each other",
    RANGE_ROOT: "it names no root",
}
# Not the file's fault, and so nothing to skip.
_MACHINE = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def is_of_file(status: int) -> bool:
    """Tell whether a status says something about a file that is referred to, and not about a shard."""
    return status >= RANGE_GONE


class ShardValues(Protocol):
    """What is asked of a fetcher: the values that are stored, and errors with the place of a row."""

    def take_fixed(
        self, leaf: str, located: Located, out: NDArray[np.uint8]
    ) -> tuple[int, NDArray[np.int32], NDArray[np.int64]]:
        """Copy a fixed-width leaf; return how many rows can't be read, READ_ statuses and bad chunks."""

    def take_bytes(self, leaf: str, located: Located) -> tuple[Payloads, int, NDArray[np.int32], NDArray[np.int64]]:
        """Return the values of a leaf of bytes or text, and the same."""

    def check(
        self, failed: int, leaf: str, located: Located, statuses: NDArray[np.int32], chunks: NDArray[np.int64]
    ) -> None:
        """Raise the error of the first row that can't be read, where there are any."""

    def place(self, row: int) -> Place:
        """Return where a row is stored."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """Ranges of a part. `statuses` say what is wrong before any file is opened, `bare` which have no sums."""

    ranges: Ranges
    statuses: NDArray[np.int32]
    chunks: NDArray[np.int64]
    bare: list[int]


class References:
    """The columns of references of a split, or of several joined ones. Stateless; used by every worker at once.

    Attributes:
        columns: Their names.
        leaves: What their payloads are called, as if they were stored.
    """

    def __init__(self, names: Sequence[str], columns: Sequence[Column], files: SplitFiles) -> None:
        """`names` are those of the `columns` that hold references, in the order of the manifest."""
        self.columns = tuple(names)
        self.files = files
        self._media = {column.name: medium_of(column.kind) for column in columns}
        self._names = {leaf_name(name, "bytes"): name for name in names}
        self._numbers = {leaf: number for number, leaf in enumerate(self._names)}
        self.leaves = frozenset(self._names)

    def variable(self, values: ShardValues, leaf: str, located: Located, buffer: FetchBuffer) -> Variable:
        """Read the values into `buffer`. Raises ChangedFileError, CorruptShardError."""
        asked, n = self._ask(values, leaf, located), len(located.rows)
        addresses, lengths = np.empty(n, np.uint64), np.empty(n, np.int64)
        failed = asked.ranges.read_into(buffer, addresses, lengths, asked.statuses, asked.chunks)
        values.check(failed, leaf, located, asked.statuses, asked.chunks)
        return Variable(addresses, lengths, buffer)

    def bytes(self, values: ShardValues, leaf: str, located: Located) -> Payloads:
        """Return the values, None where null. Raises ChangedFileError, CorruptShardError, SampleError."""
        asked = self._ask(values, leaf, located)
        taken, failed = asked.ranges.take(asked.statuses, asked.chunks)
        values.check(failed, leaf, located, asked.statuses, asked.chunks)
        for i in asked.bare:
            self._check_header(values, leaf, int(located.rows[i]), taken[i] or b"")
        return taken

    def look(self, values: ShardValues, leaf: str, located: Located) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Open the files, read nothing, and return of each value a status and no chunk: what can be told without."""
        asked = self._ask(values, leaf, located, look=False)
        statuses, chunks = np.empty(len(located.rows), np.int32), np.empty(len(located.rows), np.int64)
        asked.ranges.look(statuses, chunks)
        worse = asked.statuses > READ_NULL
        statuses[worse], chunks[worse] = asked.statuses[worse], asked.chunks[worse]
        return statuses, chunks

    def take(
        self, values: ShardValues, leaf: str, located: Located
    ) -> tuple[Payloads, NDArray[np.int32], NDArray[np.int64]]:
        """Read the values, None where that fails; return them with a status and a bad chunk for each."""
        asked = self._ask(values, leaf, located)
        taken, _ = asked.ranges.take(asked.statuses, asked.chunks)
        return taken, asked.statuses, asked.chunks

    def value(
        self,
        values: ShardValues,
        leaf: str,
        row: int,
        at: tuple[_Text | None, _Text | None, int, int, _Text | None],
    ) -> _Text | None:
        """Return one value of a row; None where there is none, or where bytes() has more to say.

        `at` is its reference: root, path, offset, length and sums.

        Raises:
            UsageError, NotFoundError: Its root may not be followed, or isn't there.
            CorruptTableError, SampleError: One without sums has nothing to check it by, or isn't what could be packed.
        """
        root, path, offset, length, sums = at
        if root is None or path is None or length > _LARGE:
            return None
        folder = self.files.folder(row, root)
        if sums is not None:
            return read_range(folder, path, offset, length, sums)
        known = self.files.stat(self._numbers[leaf], row)
        value = None if known is None else read_range(folder, path, offset, length, None, *known)
        if value is not None:
            self._check_header(values, leaf, row, value)
        return value

    def find(self, values: ShardValues, leaf: str, located: Located) -> Found:
        """Say how long the values are; no length is believed that could take much memory, and starts mean nothing."""
        lengths = np.empty(len(located.rows), np.int64)
        _, statuses, chunks = values.take_fixed(self._leaf(leaf, "length"), located, lengths.view(np.uint8))
        statuses[(statuses == READ_OK) & (lengths < 0)] = RANGE_PLACE
        starts = np.empty(len(lengths), np.int64)
        _, beside, _ = values.take_fixed(self._leaf(leaf, "offset"), located, starts.view(np.uint8))
        statuses[(statuses == READ_NULL) & (beside != READ_NULL)] = RANGE_PLACE
        large = np.flatnonzero((statuses == READ_OK) & (lengths > _LARGE))
        if len(large):
            some = Located(located.rows[large], located.inner[large], [located.bodies[i] for i in large.tolist()])
            asked = self._ask(values, leaf, some)
            statuses[large], chunks[large] = asked.statuses, asked.chunks
        lengths[statuses != READ_OK] = 0
        return Found(np.zeros(len(lengths), np.int64), lengths, statuses, chunks)

    def gather(
        self,
        values: ShardValues,
        leaf: str,
        located: Located,
        found: Found,
        run: slice,
        places: NDArray[np.int64],
        out: NDArray[np.uint8],
    ) -> None:
        """Read the values `run` of those found to their places in `out`.

        Raises:
            ChangedFileError, CorruptShardError: One is not what was indexed; its bytes are zeros then.
            SampleError: One that has no sums isn't what could be packed.
        """
        asked = self._ask(values, leaf, located, look=False)
        statuses, chunks, ends = found.statuses[run], found.chunks[run], places[run.start : run.stop + 1]
        worse = (statuses == READ_OK) & (asked.statuses > READ_NULL)
        statuses[worse], chunks[worse] = asked.statuses[worse], asked.chunks[worse]
        failed = asked.ranges.read(ends, out, statuses, chunks)
        values.check(failed, leaf, located, statuses, chunks)
        for i in asked.bare:
            self._check_header(values, leaf, int(located.rows[i]), out[ends[i] : ends[i + 1]].data)

    def packed(self, values: ShardValues, column: str, located: Located) -> list[dict[str, Any] | None]:
        """Return what a packed column would have. Raises as bytes()."""
        taken = self.bytes(values, leaf_name(column, "bytes"), located)
        leaf = leaf_name(column, "name")
        names, failed, statuses, chunks = values.take_bytes(leaf, located)
        values.check(failed, leaf, located, statuses, chunks)
        texts = [None if name is None else name.decode() for name in names]
        return [
            None if value is None else {"bytes": value, "path": name} for value, name in zip(taken, texts, strict=True)
        ]

    def files_of(self, values: ShardValues, located: Located) -> list[str]:
        """Say where the files of one row lie, for messages; nothing about what can't be read."""
        found = (self._file_of(values, column, located) for column in self.columns)
        return [file for file in found if file is not None]

    def error(
        self, values: ShardValues, located: Located, leaf: str, status: int, chunk: int
    ) -> CorruptShardError | StorageError:
        """Return the error that says why the value of a row, the only one located, can't be trusted."""
        column, place = self._names[leaf], values.place(int(located.rows[0]))
        file = self._file_of(values, column, located) or "?"
        where = f"row {place.row}, key {place.key!r}, column {column} of dataset {place.dataset}"
        if status in _CONTRADICTIONS:
            return CorruptShardError(
                f"shard {place.shard}, {where}: the reference to {file!r} can't be followed: "
                f"{_CONTRADICTIONS[status]}. No copy of it is right: index the source again",
                shard=place.shard,
                row=place.row,
                key=place.key,
                column=column,
            )
        if status >= RANGE_ERRNO:
            number = status - RANGE_ERRNO
            if number in _MACHINE:
                return StorageError(f"can't read {file!r} ({where}): {reason_of(number)}")
            what = f"it can't be read: {reason_of(number)}"
        else:
            what = _FAILURES[status]
        if chunk >= 0:
            what += f" (bytes {chunk * CHUNK_BYTES} to {(chunk + 1) * CHUNK_BYTES} of the value have another CRC32C)"
        again = "or open the source anew"
        if not place.dataset.startswith("memory://"):
            again = "say where its root is now (roots=), or index the source again"
        return ChangedFileError(
            f"{file!r} isn't the file that was indexed as {where}: {what}. Put it back as it was, {again}",
            file=file,
            shard=place.shard,
            row=place.row,
            key=place.key,
            column=column,
        )

    def _file_of(self, values: ShardValues, column: str, located: Located) -> str | None:
        root, path = (values.take_bytes(leaf_name(column, of), located)[0][0] for of in ("root", "path"))
        if root is None or path is None:
            return None
        return self.files.path(int(located.rows[0]), root.decode(errors="replace"), path.decode(errors="replace"))

    def _leaf(self, leaf: str, field: str) -> str:
        return leaf_name(self._names[leaf], field)

    def _ask(self, values: ShardValues, leaf: str, located: Located, *, look: bool = True) -> _Asked:
        """Return the ranges of the rows; `look` at the files of large ones, so that no length is only believed."""
        n = len(located.rows)
        numbers = np.empty((2, n), np.int64)
        outcomes = [
            values.take_fixed(self._leaf(leaf, name), located, numbers[i].view(np.uint8))
            for i, name in enumerate(("offset", "length"))
        ]
        taken: list[Payloads] = []
        for name in ("root", "path", "crc32c"):
            found, failed, of, at = values.take_bytes(self._leaf(leaf, name), located)
            taken.append(found)
            outcomes.append((failed, of, at))
        roots, paths, sums = taken
        statuses, chunks = np.full(n, READ_OK, np.int32), np.full(n, -1, np.int64)
        for failed, of, at in outcomes:
            if failed:
                worse = of > READ_NULL
                statuses[worse], chunks[worse] = of[worse], at[worse]
        (_, no_offset, _), (_, no_length, _), _, (_, no_path, _), _ = outcomes
        some = (no_offset == READ_NULL) | (no_length == READ_NULL) | (no_path == READ_NULL)
        all_of = (no_offset == READ_NULL) & (no_length == READ_NULL) & (no_path == READ_NULL)
        statuses[some & ~all_of & (statuses == READ_OK)] = RANGE_PLACE
        bare = [i for i in range(n) if sums[i] is None and paths[i] is not None] if None in sums else []
        sizes, mtimes_ns = self._stats(leaf, located.rows, bare) if bare else (None, None)
        folders = self.files.folders(located.rows, roots)
        ranges = Ranges(folders, paths, numbers[0], numbers[1], sums, sizes, mtimes_ns)
        if look and (numbers[1] > _LARGE).any():
            looked, nowhere = np.empty(n, np.int32), np.empty(n, np.int64)
            ranges.look(looked, nowhere)
            worse = (statuses == READ_OK) & (looked > READ_NULL)
            statuses[worse] = looked[worse]
        return _Asked(ranges, statuses, chunks, bare)

    def _stats(
        self, leaf: str, rows: NDArray[np.int64], bare: list[int]
    ) -> tuple[NDArray[np.int64] | None, NDArray[np.int64] | None]:
        """Return what the files of the rows `bare` must be; -1 for others."""
        found = self.files.stats(self._numbers[leaf], rows[bare])
        if found is None:
            return None, None
        both = np.full((2, len(rows)), -1, np.int64)
        both[:, bare] = found.T
        return both[0], both[1]

    def _check_header(self, values: ShardValues, leaf: str, row: int, value: _Bytes) -> None:
        """Raise SampleError for what a pack would have rejected: nobody has looked at it before."""
        from toolkit.sources.options import VerifyImages  # late: few need it
        from toolkit.sources.payloads import check_payload

        if not self.files.looks(row):
            return
        medium = self._media[self._names[leaf]]
        try:
            if medium is not None:
                check_payload(medium, value, VerifyImages.HEADER)
        except UnfitMediumError as error:
            place = values.place(row)
            raise SampleError(
                f"{place}, column {self._names[leaf]}: {error}. A pack would have rejected it",
                dataset=place.dataset,
                shard=place.shard,
                row=place.row,
                key=place.key,
                slot=self._names[leaf],
                step="read",
            ) from error
