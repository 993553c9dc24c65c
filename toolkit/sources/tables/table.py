"""What a kind of source gives to be packed as rows and fields: a table, read in pieces, that may name files.

Which field becomes which column, what its values must be, the files behind paths, labels, keys and rejects are the
business of toolkit.sources.tables alone, so that they mean the same whatever a table was read from.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from toolkit.format.kinds import Kind
from toolkit.sources.files import InputFile
from toolkit.sources.names import printable
from toolkit.sources.reject import Reject

__all__ = ["FAULT", "Table", "TableFacts"]

FAULT = "__fault__"
"""A field of text that a table's batches may have behind those asked for: why a row can't be used, null where it can.

A reader that makes values one by one says so what is wrong with one. The row becomes a reject.
"""


@dataclass(frozen=True, kw_only=True)
class TableFacts:
    """What is known of a table's fields besides their types.

    Attributes:
        kinds: What fields are said to be; of others the type, the name or a first value tells.
        classes: Names of the ids in a field of integers, or of lists of integers, in id order.
        files: Fields whose text is the path of a file, with the folder that it is relative to and must stay below. A
            row has the file's bytes in such a field's place.
        optional: Fields of `files` in which a row need not have a path: a null then, whatever --missing says.
        key: The field that keys are made of, unless --key names another: of a field of files, the path. Without one,
            keys are the input's name and the row, as in "part-0.csv#12".
        counts_unlisted: The folders of `files` are there for this input: media in them that no row names are told.
        options: What shaped the values, by name, as JSON has it; it becomes part of the pin.
    """

    kinds: Mapping[str, Kind] = field(default_factory=dict)
    classes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    optional: frozenset[str] = frozenset()
    key: str | None = None
    counts_unlisted: bool = False
    options: Mapping[str, object] = field(default_factory=dict)


class Table(ABC):
    """Rows of one input, all with the same fields. It can be pickled, and holds no open file.

    Attributes:
        file: What it is read from, for keys and messages.
        schema: The fields in order; types as they would be stored (toolkit.format.schema.stored_type).
        pieces: Rows and bytes, about, of each piece that it can be read in, in order; a slice is some neighbours.
        facts: What is known of the fields. The same for every table of a source, or a SourceError tells the difference.
        rejects: What can't be a row, known already.
    """

    file: InputFile
    schema: pa.Schema
    pieces: Sequence[tuple[int, int]]
    facts: TableFacts
    rejects: Sequence[Reject] = ()

    def __eq__(self, other: object) -> bool:
        """Tell whether the other table gives the same rows of the same input."""
        if not isinstance(other, Table):
            return NotImplemented
        return self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self.file)

    @abstractmethod
    def read(self, fields: Sequence[str], first: int, count: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of pieces `first` to `first + count`, in order, in batches of some MiB, with these fields.

        A batch may have the field FAULT as well, as its last.

        Raises:
            SourceError: The input is damaged, or isn't what it was when the table was made; names the file.
            StorageError: It can't be read.
        """

    @abstractmethod
    def fingerprint(self, first: int, count: int) -> str:
        """Return a text that differs when the rows of these pieces do: by the file's state, or by a hash of them."""

    def check_unchanged(self) -> None:  # noqa: B027 - most inputs are read whole when the table is made
        """Raise SourceError when the input isn't what it was when the table was made. Asked when rows were read."""

    def different(self, field: str) -> Iterator[pa.Array]:
        """Yield the values of a field, or each different one at least: what class names are found from."""
        if self.rows:
            for batch in self.read([field], 0, len(self.pieces)):
                yield batch.column(field)

    def narrowed(self, fields: Sequence[str]) -> Table:
        """Return the table for reading these fields only: its pieces may take fewer bytes then."""
        return self

    def place(self, row: int) -> str:
        """Return where a row stands, for people: "FILE, row 12"; a kind that knows lines says the line."""
        return f"{self.file.path}, row {row}"

    @property
    def _identity(self) -> tuple[object, ...]:
        return self.file, self.schema, self.facts, self.fingerprint(0, len(self.pieces)), tuple(self.rejects)

    @property
    def rows(self) -> int:
        """Rows of all pieces."""
        return sum(rows for rows, _ in self.pieces)

    @property
    def shown(self) -> str:
        """The path, for messages."""
        return repr(printable(self.file.path))
