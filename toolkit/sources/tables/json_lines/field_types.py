"""What the values of a field of JSON lines are, by every one of them; no digit is lost, and nothing is made of another.

A field is of one type. Integers beside fractions are floats where all of them are exact as such.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from toolkit.errors import SourceError
from toolkit.format.arrays import to_array
from toolkit.sources.names import printable
from toolkit.sources.tables.json_lines.line import Nested

__all__ = ["FieldType", "convert"]

_WORDS = {bool: "a truth value", int: "an integer", float: "a number", str: "text", Nested: "an array or object"}
_INT64 = range(-(1 << 63), 1 << 63)
_UINT64 = range(1 << 64)
_EXACT = range(-(1 << 53), (1 << 53) + 1)  # whole numbers that a float64 tells apart


class FieldType:
    """The type that fits all values that were added."""

    def __init__(self) -> None:
        """Begin with none."""
        self._first: dict[type, str] = {}  # where each type came first
        self._least = self._most = (0, "")  # integers, and where they came first

    def add(self, values: Sequence[Any], place: Callable[[int], str]) -> None:
        """Add values, None for none; `place(i)` says where the i-th stands."""
        types = set(map(type, values)) - {type(None)}
        for one in types - self._first.keys():
            self._first[one] = place(next(i for i, value in enumerate(values) if type(value) is one))
        if int in types:
            whole = [value for value in values if type(value) is int]
            least, most = min(whole), max(whole)
            if least < self._least[0]:
                self._least = least, place(values.index(least))
            if most > self._most[0]:
                self._most = most, place(values.index(most))

    def type_of(self, name: str) -> pa.DataType:
        """Return the type; of a field without values text.

        Raises:
            SourceError: There is none that has all values; names two lines.
        """
        types = set(self._first)
        if types == {int, float}:
            if not self._within(_EXACT):
                raise self._refused(name, f"is {self._large(_EXACT)}, and fractions beside it ({self._first[float]})")
            return pa.float64()
        if len(types) > 1:
            (one, first), (other, second) = sorted(self._first.items(), key=lambda item: _WORDS[item[0]])[:2]
            raise self._refused(name, f"is {_WORDS[one]} in {first} and {_WORDS[other]} in {second}")
        if not types:
            return pa.string()
        only = types.pop()
        if only is int:
            fits = pa.int64() if self._within(_INT64) else pa.uint64() if self._within(_UINT64) else None
            if fits is None:
                raise self._refused(name, f"is {self._large(_INT64)}, which 64 bits don't hold")
            return fits
        return pa.bool_() if only is bool else pa.float64() if only is float else pa.string()

    @property
    def is_nested(self) -> bool:
        """Whether its values are JSON themselves."""
        return Nested in self._first

    def _within(self, bounds: range) -> bool:
        return self._least[0] in bounds and self._most[0] in bounds

    def _large(self, bounds: range) -> str:
        value, place = self._most if self._most[0] not in bounds else self._least
        return f"{value} in {place}"

    def _refused(self, name: str, why: str) -> SourceError:
        shown = repr(printable(name))
        return SourceError(
            f"field {shown} {why}: a column has one type. Give --kind {printable(name)}=json to keep each value as it "
            "is written, or leave the field out with --columns"
        )


def convert(values: Sequence[Any], dtype: pa.DataType) -> pa.Array:
    """Return the values of a field as `dtype`, which FieldType found."""
    if dtype == pa.float64():
        values = [None if value is None else float(value) for value in values]
    return to_array(values, dtype)
