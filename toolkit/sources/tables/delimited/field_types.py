"""What the values of a field of delimited text are: booleans, integers, floats or text, by every one of them.

A type is taken only if no character of a text is lost by it, but for how a float is written: "007" is text, and so is
a number of more digits than its type holds. An empty field is null.
"""

from __future__ import annotations

import math
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from toolkit.format.arrays import to_array

__all__ = ["FieldType", "convert"]

_SPELLINGS = (("true", "false"), ("True", "False"), ("TRUE", "FALSE"))
_FINITE = r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_FLOAT = rf"^(?:{_FINITE}|nan|NaN|-?inf)$"
_LONG = r"^-?[0-9]{16,}$"
_LONG_FRACTION = r"^-?[0-9]{16,}[.eE]"
_NOT_ZERO = r"^-?[0.]*[1-9]"
_MOST_EXACT = 1 << 53  # whole numbers that a float64 tells apart
_LONGEST_EXACT = len(str(-_MOST_EXACT))
_LOOKED_AT_FIRST = 64


class FieldType:
    """The type that fits all values that were added."""

    def __init__(self) -> None:
        """Begin with none."""
        self._spelling: tuple[str, str] | None = None
        self._is_boolean = self._is_integer = self._is_float = True
        self._has_long = self._has_finite = False
        self._has_any = False

    @property
    def is_text(self) -> bool:
        """Whether nothing but text is left."""
        return not (self._is_boolean or self._is_integer or self._is_float)

    @property
    def type(self) -> pa.DataType:
        """The type, of a field without values text."""
        if not self._has_any:
            return pa.string()
        if self._is_boolean:
            return pa.bool_()
        if self._is_integer:
            return pa.int64()
        return pa.float64() if self._is_float and self._has_finite else pa.string()

    def add(self, texts: pa.Array) -> None:
        """Add values; nulls and empty texts are none."""
        if self.is_text:
            return
        texts = texts.drop_null()
        texts = texts.filter(pc.not_equal(texts, ""))
        if not len(texts):
            return
        self._has_any = True
        # What is text at all mostly shows soon.
        for part in (texts.slice(0, _LOOKED_AT_FIRST), texts.slice(_LOOKED_AT_FIRST)):
            if len(part) and not self.is_text:
                self._narrow(part)

    def _narrow(self, texts: pa.Array) -> None:
        if self._is_boolean:
            self._spelling = self._spelling or next((one for one in _SPELLINGS if texts[0].as_py() in one), None)
            self._is_boolean = self._spelling is not None and _all(
                pc.is_in(texts, to_array(self._spelling, texts.type))
            )
        if self._is_integer:
            numbers = _integers(texts)
            self._is_integer = numbers is not None
            if numbers is not None:
                bounds = pc.min_max(numbers)
                self._has_finite = True
                self._has_long |= max(-bounds["min"].as_py(), bounds["max"].as_py()) > _MOST_EXACT
                return
        if self._is_float:
            self._is_float = not self._has_long and self._are_floats(texts)

    def _are_floats(self, texts: pa.Array) -> bool:
        if not _all(pc.match_substring_regex(texts, _FLOAT)):
            return False
        long = texts.filter(pc.match_substring_regex(texts, _LONG)).to_pylist()
        # Not int() of any text: Python refuses more than 4300 digits.
        if any(len(text) > _LONGEST_EXACT or abs(int(text)) > _MOST_EXACT for text in long):
            return False
        fractions = texts.filter(pc.match_substring_regex(texts, _LONG_FRACTION)).to_pylist()
        if any(Decimal(text) != Decimal(float(text)) for text in fractions if math.isfinite(float(text))):
            return False
        values = texts.cast(pa.float64())
        if pc.any(pc.and_(pc.equal(values, 0.0), pc.match_substring_regex(texts, _NOT_ZERO))).as_py():
            return False
        is_finite = pc.is_finite(values)
        named = pc.match_substring_regex(texts, "[nN]")
        # One that is too large for a float64 would become infinity.
        if not _all(pc.xor(is_finite, named)):
            return False
        self._has_finite |= bool(pc.any(is_finite).as_py())
        return True


def convert(texts: pa.Array, dtype: pa.DataType) -> pa.Array:
    """Return the values of a field as `dtype`, which FieldType found."""
    if dtype == pa.string():
        return texts
    texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, texts.type), texts)
    if dtype == pa.bool_():
        true = pc.is_in(texts, to_array([one for one, _ in _SPELLINGS], texts.type))
        return pc.if_else(pc.is_valid(texts), true, pa.scalar(None, pa.bool_()))
    return texts.cast(dtype)


def _integers(texts: pa.Array) -> pa.Array | None:
    """Return the integers that are written as these texts exactly, or None."""
    try:
        numbers = texts.cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    return numbers if numbers.cast(texts.type).equals(texts) else None


def _all(truths: pa.Array) -> bool:
    return bool(pc.all(truths, min_count=0).as_py())
