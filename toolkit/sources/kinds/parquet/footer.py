"""Read from a Parquet footer what pyarrow can't be asked about: its getters of a column chunk may end the process.

They do so for encrypted columns and for statistics that contradict each other. This walks the footer's Thrift (compact
protocol) for a few fields of each chunk, and makes nothing of the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Chunks", "FooterError", "read_chunks"]

_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
_INTEGERS = (4, 5, 6)
_DEEPEST = 64  # as Thrift's own reader
_MOST_BYTES = 1 << 50  # of a chunk: more is no size

# Field numbers of parquet.thrift.
_ROW_GROUPS = 4  # of FileMetaData
_COLUMNS = 1  # of RowGroup
_METADATA, _CRYPTO_METADATA, _ENCRYPTED_METADATA = 3, 8, 9  # of ColumnChunk
_TYPE, _PATH_IN_SCHEMA, _UNCOMPRESSED, _DICTIONARY_OFFSET = 1, 3, 6, 11  # of ColumnMetaData
_WITH_COLUMN_KEY = 2  # of ColumnCryptoMetaData
_PATH = 1  # of EncryptionWithColumnKey
_BYTE_ARRAYS = (6, 7)  # physical types of values of any length, and of a fixed one


@dataclass(frozen=True, slots=True)
class Chunks:
    """The column chunks of a file.

    Attributes:
        leaves: The path of each leaf column, "column.child" for nested ones.
        nbytes: int64 (row groups, leaves): bytes, decompressed.
        expands: bool (row groups, leaves): values are bytes in a dictionary, so that there may be far more of them.
        encrypted: Names of encrypted columns, "" for one without; then there is nothing else.
    """

    leaves: tuple[str, ...]
    nbytes: NDArray[np.int64]
    expands: NDArray[np.bool_]
    encrypted: tuple[str, ...]

    def of(self, columns: set[str]) -> NDArray[np.int64]:
        """Return the places of the leaves that belong to the columns."""
        parts = [leaf.split(".") for leaf in self.leaves]
        chosen = [any(".".join(one[: n + 1]) in columns for n in range(len(one))) for one in parts]
        return np.flatnonzero(chosen)


class FooterError(ValueError):
    """A footer that isn't what Thrift writes."""


def read_chunks(footer: bytes) -> Chunks:
    """Return the chunks that a footer lists.

    Args:
        footer: The serialized FileMetaData; a signature may follow.

    Raises:
        FooterError: It can't be walked, its row groups have different numbers of columns, or a name isn't UTF-8.
    """
    try:
        return _Walk(footer).chunks()
    except IndexError as error:
        raise FooterError("the footer is damaged") from error


class _Walk:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._leaves: list[str] = []
        self._encrypted: set[str] = set()

    def chunks(self) -> Chunks:
        groups: list[list[tuple[int, bool]]] = []
        for field, kind in self._fields():
            if field == _ROW_GROUPS and kind == _LIST:
                groups = [self._row_group(first=number == 0) for number, _ in enumerate(self._items())]
            else:
                self._skip(kind)
        if any(len(group) != len(self._leaves) for group in groups):
            raise FooterError("its row groups have different numbers of columns")
        facts = np.array(groups, np.int64).reshape(len(groups), len(self._leaves), 2)
        return Chunks(
            tuple(self._leaves), facts[:, :, 0], facts[:, :, 1].astype(np.bool_), tuple(sorted(self._encrypted))
        )

    def _row_group(self, *, first: bool) -> list[tuple[int, bool]]:
        found: list[tuple[int, bool]] = []
        for field, kind in self._fields():
            if field == _COLUMNS and kind == _LIST:
                found = [self._chunk(first=first) for _ in self._items()]
            else:
                self._skip(kind)
        return found

    def _chunk(self, *, first: bool) -> tuple[int, bool]:
        """Return bytes of a chunk, and whether it expands."""
        fact = 0, False
        encrypted: str | None = None
        leaves = len(self._leaves)
        for field, kind in self._fields():
            if field == _METADATA and kind == _STRUCT:
                fact = self._metadata(first=first)
            elif field == _CRYPTO_METADATA and kind == _STRUCT:
                encrypted = self._crypto_metadata()
            else:
                if field == _ENCRYPTED_METADATA:
                    encrypted = encrypted or ""
                self._skip(kind)
        if encrypted is not None:
            self._encrypted.add(encrypted)
        if first and len(self._leaves) == leaves:
            self._leaves.append("")
        return fact

    def _metadata(self, *, first: bool) -> tuple[int, bool]:
        physical, nbytes, dictionary = -1, 0, False
        for field, kind in self._fields():
            if field == _PATH_IN_SCHEMA and kind == _LIST and first:
                self._leaves.append(".".join([self._text() for _ in self._items()]))
            elif kind not in _INTEGERS:
                self._skip(kind)
            else:
                value = self._signed()
                if field == _TYPE:
                    physical = value
                elif field == _UNCOMPRESSED:
                    nbytes = min(max(0, value), _MOST_BYTES)
                elif field == _DICTIONARY_OFFSET:
                    dictionary = True
        return nbytes, dictionary and physical in _BYTE_ARRAYS

    def _crypto_metadata(self) -> str:
        name = ""
        for field, kind in self._fields():
            if field != _WITH_COLUMN_KEY or kind != _STRUCT:
                self._skip(kind)
                continue
            for inner, inner_kind in self._fields():
                if inner == _PATH and inner_kind == _LIST:
                    name = ".".join(self._text() for _ in self._items())
                else:
                    self._skip(inner_kind)
        return name

    def _fields(self) -> Iterator[tuple[int, int]]:
        """Yield number and type of each field of a struct; whoever takes one goes on behind its value."""
        number = 0
        while header := self._byte():
            number = number + (header >> 4) if header >> 4 else self._signed()
            number = (number + 0x8000) % 0x10000 - 0x8000  # Thrift's are of 16 bits
            yield number, header & 15

    def _items(self) -> Iterator[int]:
        """Yield the type of a list, once for each item."""
        header = self._byte()
        count = header >> 4 if header >> 4 < 15 else self._varint()
        for _ in range(count):
            if self._at >= len(self._data):
                raise FooterError("the footer is damaged")
            yield header & 15

    def _skip(self, kind: int, depth: int = 0, *, item: bool = False) -> None:
        """Go on behind a value of that type. A truth value has no byte as a field, and one as an item."""
        if depth > _DEEPEST:
            raise FooterError("the footer is nested too deeply")
        if kind in _INTEGERS:
            self._varint()
        elif kind == _BINARY:
            length = self._varint()
            self._at += length
        elif kind == _STRUCT:
            for _, inner in self._fields():
                self._skip(inner, depth + 1)
        elif kind in (_LIST, _SET):
            for inner in self._items():
                self._skip(inner, depth + 1, item=True)
        elif kind == _BYTE or (item and kind in (_TRUE, _FALSE)):
            self._at += 1
        elif kind == _DOUBLE:
            self._at += 8
        elif kind == _MAP:
            count = self._varint()
            kinds = self._byte() if count else 0
            for _ in range(count):
                self._skip(kinds >> 4, depth + 1, item=True)
                self._skip(kinds & 15, depth + 1, item=True)
        elif kind not in (_TRUE, _FALSE):
            raise FooterError("the footer is damaged")
        if self._at > len(self._data):
            raise FooterError("the footer is damaged")

    def _text(self) -> str:
        length = self._varint()
        self._at += length
        try:
            return self._data[self._at - length : self._at].decode()
        except UnicodeDecodeError as error:
            raise FooterError(f"the name {error.object!r} in it is not valid UTF-8") from error

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise FooterError("the footer is damaged")

    def _signed(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)
