"""The images of a folder as columns: ten million of them take some seventy bytes each, not half a kilobyte."""

from __future__ import annotations

import itertools
import os
from array import array
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Any, overload

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from toolkit.sources.kinds.imagefolder.found import Entry, Found, FoundFiles
from toolkit.sources.path_arrays import strings

__all__ = ["NO_LABEL", "Entries", "Listed"]

NO_LABEL = -1
_KEYS_AT_A_TIME = 65536


class Entries(Sequence[Entry]):
    """Images to pack, in order. Cutting one gives a view.

    Attributes:
        root: The source's folder, which keys are below.
        sizes, mtimes_ns, ctimes_ns: int64 (n,). inodes: uint64 (n,). labels: int32 (n,), NO_LABEL for none.
    """

    def __init__(
        self,
        root: str,
        text: NDArray[np.uint8],
        ends: NDArray[np.int64],
        sizes: NDArray[np.int64],
        mtimes_ns: NDArray[np.int64],
        ctimes_ns: NDArray[np.int64],
        inodes: NDArray[np.uint64],
        labels: NDArray[np.int32],
    ) -> None:
        """Take columns over. `text` has the keys in UTF-8; key i ends where ends[i + 1] - ends[0] says."""
        self.root = root
        self.sizes = sizes
        self.mtimes_ns = mtimes_ns
        self.ctimes_ns = ctimes_ns
        self.inodes = inodes
        self.labels = labels
        self._text = text
        self._ends = ends

    def __len__(self) -> int:
        return len(self.sizes)

    @overload
    def __getitem__(self, index: int) -> Entry: ...
    @overload
    def __getitem__(self, index: slice) -> Entries: ...
    def __getitem__(self, index: int | slice) -> Entry | Entries:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                raise ValueError("entries can only be cut; take() picks some")
            return self._cut(start, max(start, stop))
        i = range(len(self))[index]
        label = int(self.labels[i])
        return Entry(
            key := self._key(i),
            os.path.join(self.root, key),
            None if label == NO_LABEL else label,
            int(self.sizes[i]),
            int(self.mtimes_ns[i]),
            int(self.inodes[i]),
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Tell all there is, in short: what a slice is known by."""
        digest = sha256(os.fsencode(self.root))
        lengths = np.diff(self._ends)
        for column in (self._text, lengths, *self._columns(slice(None))):
            digest.update(np.ascontiguousarray(column).data)
        return f"Entries({len(self)}, {digest.hexdigest()})"

    @property
    def keys(self) -> list[str]:
        """Their keys."""
        text, ends = self._text.tobytes(), (self._ends - self._ends[0]).tolist()
        return [text[start:end].decode() for start, end in itertools.pairwise(ends)]

    @property
    def key_array(self) -> pa.Array:
        """Their keys as a string array."""
        return strings(self._text, self._ends - self._ends[0])

    @property
    def letters(self) -> NDArray[np.int64]:
        """How many characters each key has: int64 (n,)."""
        ends: NDArray[np.int64] = self._ends - self._ends[0]
        if not len(self._text) or self._text.max() < 0x80:
            return ends[1:] - ends[:-1]
        counts = [np.empty(0, np.int64)]
        for start in range(0, len(self), _KEYS_AT_A_TIME):
            bounds = ends[start : start + _KEYS_AT_A_TIME + 1]
            # Every byte of UTF-8 begins a character, but those of the form 10xxxxxx.
            begins = (self._text[bounds[0] : bounds[-1]] & 0xC0) != 0x80
            counts.append(np.diff(np.concatenate((np.zeros(1, np.int64), np.cumsum(begins)))[bounds - bounds[0]]))
        return np.concatenate(counts)

    def without(self, rows: NDArray[np.bool_]) -> Entries:
        """Return the others."""
        return self.take(np.flatnonzero(~rows))

    def take(self, rows: NDArray[np.int64]) -> Entries:
        """Return the entries at these places, in their order: copies."""
        if not len(rows):
            return self[:0]
        bounds = pa.py_buffer(self._ends - self._ends[0])
        texts = pa.Array.from_buffers(pa.large_binary(), len(self), [None, bounds, pa.py_buffer(self._text)])
        _, ends, text = texts.take(pa.array(rows)).buffers()
        ends = np.frombuffer(ends, np.int64)[: len(rows) + 1]
        return Entries(self.root, np.frombuffer(text, np.uint8), ends, *self._columns(rows))

    def _key(self, i: int) -> str:
        start, end = (self._ends[i : i + 2] - self._ends[0]).tolist()
        return self._text[start:end].tobytes().decode()

    def _cut(self, start: int, stop: int) -> Entries:
        ends = self._ends[start : stop + 1]
        text = self._text[ends[0] - self._ends[0] : ends[-1] - self._ends[0]]
        return Entries(self.root, text, ends, *self._columns(slice(start, stop)))

    def _columns(self, rows: slice | NDArray[np.int64]) -> tuple[NDArray[Any], ...]:
        """Return what there is beside the keys."""
        return tuple(one[rows] for one in (self.sizes, self.mtimes_ns, self.ctimes_ns, self.inodes, self.labels))


class Listed:
    """What a walk found: images that can be packed as columns, the others one by one."""

    def __init__(self, root: str, found: Iterable[Found | FoundFiles]) -> None:
        """Take what is found below `root`, whose keys are paths below it."""
        self.lost: list[tuple[int, Found]] = []  # with the number of good ones before it
        self.root = root
        self.folders: dict[str | None, int] = {}
        self._text = bytearray()
        self._ends = array("q", [0])
        self._sizes, self._mtimes, self._ctimes, self._inodes = array("q"), array("q"), array("q"), array("Q")
        self._folders = array("i")
        for one in found:
            if isinstance(one, FoundFiles):
                self._add(one)
                continue
            if one.reason is not None:
                self.lost.append((len(self._sizes), one))
                continue
            self._text += one.key.encode()
            self._ends.append(len(self._text))
            self._sizes.append(one.bytes)
            self._mtimes.append(one.mtime_ns)
            self._ctimes.append(one.ctime_ns)
            self._inodes.append(one.inode)
            self._folders.append(self.folders.setdefault(one.folder, len(self.folders)))

    def _add(self, files: FoundFiles) -> None:
        number = self.folders.setdefault(files.folder, len(self.folders))
        lengths = np.fromiter(map(len, files.names), np.int64, len(files.names)) + len(files.prefix)
        ends = len(self._text) + np.cumsum(lengths)
        self._text += files.prefix + files.prefix.join(files.names)
        columns = (
            (self._ends, ends),
            (self._sizes, files.sizes),
            (self._mtimes, files.mtimes_ns),
            (self._ctimes, files.ctimes_ns),
            (self._inodes, files.inodes),
            (self._folders, np.full(len(lengths), number, np.int32)),
        )
        for column, values in columns:
            column.frombytes(values.tobytes())

    def __len__(self) -> int:
        """Count all, those that can't be packed too."""
        return len(self._sizes) + len(self.lost)

    def count(self, folder: str) -> int:
        """Count what lies in the class folder."""
        number = self.folders.get(folder)
        good = 0 if number is None else int((self._of(self._folders) == number).sum())
        return good + sum(one.folder == folder for _, one in self.lost)

    @property
    def in_folders(self) -> bool:
        """Whether anything lies in a class folder."""
        return any(name is not None for name in self.folders) or any(one.folder is not None for _, one in self.lost)

    def entries(self, ids: dict[str, int] | None) -> Entries:
        """Return the good ones, labelled by their folders."""
        label = {name: NO_LABEL if ids is None or name is None else ids[name] for name in self.folders}
        by_number = np.array([label[name] for name in self.folders], np.int32)
        folders = self._of(self._folders)
        return Entries(
            self.root,
            np.frombuffer(self._text, np.uint8),
            self._of(self._ends),
            self._of(self._sizes),
            self._of(self._mtimes),
            self._of(self._ctimes),
            self._of(self._inodes),
            by_number[folders] if len(folders) else np.empty(0, np.int32),
        )

    def bare(self, *, everything: bool) -> Iterator[str]:
        """Yield the keys of good ones that lie in no class folder, or of all."""
        number = self.folders.get(None, -1)
        entries = self.entries(None)
        for i in np.flatnonzero((self._of(self._folders) == number) | everything):
            yield entries[int(i)].key

    @staticmethod
    def _of(column: array[Any]) -> NDArray[Any]:
        return np.frombuffer(column, column.typecode) if len(column) else np.empty(0, column.typecode)
