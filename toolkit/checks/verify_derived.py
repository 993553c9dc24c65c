"""Compare derived columns with what the stored values say, made anew: a part of `verify --full`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from toolkit.format.arrays import valid_rows
from toolkit.format.schema import Column, Derived, derived_type
from toolkit.pipelines.media import held_medium, medium_of
from toolkit.pipelines.medium import Medium, MissingReaderError

__all__ = ["DerivedChecks"]


class DerivedChecks:
    """The derived columns of a dataset that are known here. Used by every thread of a verification at once.

    Attributes:
        known: Those.
        unknown: Names of the others, which are left alone.
        unread: Why values can't be read here that could be where they were packed.
    """

    def __init__(self, columns: Sequence[Column], derived: Sequence[Derived]) -> None:
        self.unknown = tuple(one.name for one in derived if derived_type(one, columns) is None)
        self.unread: set[str] = set()
        media = {column.name: medium_of(column.kind) for column in columns}
        self._media: dict[str, Medium] = {name: medium for name, medium in media.items() if medium is not None}
        self._kinds = {column.name: column.kind for column in columns}
        self.known = [one for one in derived if one.name not in self.unknown]

    def look(self, records: pa.RecordBatch) -> Iterator[tuple[int, str]]:
        """Yield each row where a derived column says something else than the value it is made of, and what."""
        for name in dict.fromkeys(one.of for one in self.known):
            medium, column = self._media[name], records.column(name)
            made = dict(zip((fact.what for fact in medium.stored.facts), medium.derive(column), strict=True))
            for one in self.known:
                stored = records.column(one.name)
                if one.of != name or stored.equals(made[one.what]):
                    continue
                for row, (said, found) in enumerate(zip(stored.to_pylist(), made[one.what].to_pylist(), strict=True)):
                    if said != found and (found is not None or self._can_be_read(name, column, row)):
                        yield row, f"column {one.name} says {_text(said)}, and column {name} {_text(found)}"

    def _can_be_read(self, name: str, column: pa.Array, row: int) -> bool:
        """Tell whether it isn't only here that nothing can be said of a value."""
        held = held_medium(self._kinds[name], column.type)
        if held is None or held.form.is_decoded or not column[row].is_valid:
            return True
        payload = column.field(held.form.payload)
        if not valid_rows(payload)[row]:
            return True
        try:
            held.medium.check_header(memoryview(payload[row].as_buffer()).cast("B"))
        except MissingReaderError as error:
            self.unread.add(str(error))
            return False
        except ValueError:
            pass
        return True


def _text(value: object) -> str:
    return "nothing" if value is None else ascii(value)
