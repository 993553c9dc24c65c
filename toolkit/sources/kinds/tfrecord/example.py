"""Find which features the examples of TFRecord files have and of what types, and take their values."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from toolkit.errors import SourceError
from toolkit.format.schema import Kind
from toolkit.sources.fields import Field
from toolkit.sources.payloads import holds
from toolkit.sources.tfrecords.example import text_of_bytes, values_of

__all__ = ["Features", "Shape", "Wanted", "value_of"]

_MOST_CLASSES = 1_000_000
_TYPES = {"bytes_list": pa.binary(), "float_list": pa.float32(), "int64_list": pa.int64(), None: pa.null()}


class Shape(enum.Enum):
    """How the values of a feature become a column: the one value, a list, or a list for each step of a sequence."""

    SINGLE = "single"
    LIST = "list"
    SEQUENCE = "sequence"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the survey is to find out: the fields by name (all but the key if None), and which hold class names."""

    names: Collection[str] | None
    key: str | None
    labels: Collection[str]


@dataclass(slots=True)
class _Seen:
    """What is known of a feature. `type` is the oneof's name; None while only empty feature lists were met."""

    sequence: bool
    type: str | None
    where: tuple[str, int]
    conflict: str = ""
    least: int = 1
    most: int = 1
    looked: bool = False
    medium: Kind | None = None
    text: bool | None = None
    values: set[str] | None = None


class Features:
    """Finds out, record by record, which features there are and what they hold.

    Attributes:
        media: Names of those whose first value is a medium's: of no other value more is asked than that it is there.
    """

    def __init__(self, wanted: Wanted) -> None:
        self.media: set[bytes] = set()
        self._wanted = wanted
        self._seen: dict[str, _Seen] = {}

    def add(self, example: Any, where: tuple[str, int]) -> int:
        """Take note of a record; return how many of the wanted fields it has. `where`: file and record number."""
        present = 0
        for name, feature in example.context.feature.items():
            kind = feature.WhichOneof("kind")
            if kind is None:
                continue
            present += self._counts(name)
            seen = self._meet(name, kind, False, where)
            values = getattr(feature, kind).value
            count = len(values)
            if count != 1:
                seen.least, seen.most = min(seen.least, count), max(seen.most, count)
            if kind == "bytes_list" and count:
                self._look(name, seen, values)
        for name, features in example.feature_lists.feature_list.items():
            present += self._counts(name)
            seen = self._meet(name, None, True, where)
            for feature in features.feature:
                kind = feature.WhichOneof("kind")
                if kind is not None:
                    seen = self._meet(name, kind, True, where)
                    if kind == "bytes_list":
                        self._look(name, seen, feature.bytes_list.value)
        return present

    def fields(self) -> dict[str, Field]:
        """Return the fields by name, sorted: a message has no order of its own."""
        return {name: _field(seen) for name, seen in sorted(self._seen.items())}

    def check(self, names: Iterable[str]) -> None:
        """Raise SourceError when one of these fields isn't of one type."""
        for name in names:
            if self._seen[name].conflict:
                raise SourceError(
                    f"feature {name!r} {self._seen[name].conflict}. A column has one type: leave files out with "
                    "--exclude, or the feature out with --columns"
                )

    def class_names(self, name: str) -> tuple[str, ...]:
        """Return the values of a field of `labels`, sorted."""
        seen = self._seen.get(name)
        return tuple(sorted(seen.values or ())) if seen else ()

    def lacking(self, present: int) -> bool:
        """Tell whether a record with so many of the wanted fields lacks one."""
        if self._wanted.names is not None:
            return present < len(set(self._wanted.names))
        return present < sum(
            1 for name, seen in self._seen.items() if seen.type is not None and name != self._wanted.key
        )

    def _counts(self, name: str) -> bool:
        wanted = self._wanted
        return name != wanted.key if wanted.names is None else name in wanted.names

    def _meet(self, name: str, kind: str | None, sequence: bool, where: tuple[str, int]) -> _Seen:
        seen = self._seen.get(name)
        if seen is None:
            seen = self._seen[name] = _Seen(sequence, kind, where)
            if name in self._wanted.labels:
                seen.values = set()
        elif seen.type is None and seen.sequence is sequence:
            seen.type = kind
        elif ((kind is not None and seen.type != kind) or seen.sequence is not sequence) and not seen.conflict:
            seen.conflict = (
                f"is {_described(seen.type, seen.sequence)} in {seen.where[0]}#{seen.where[1]} and "
                f"{_described(kind, sequence)} in {where[0]}#{where[1]}"
            )
        return seen

    def _look(self, name: str, seen: _Seen, values: Iterable[bytes]) -> None:
        """Find out whether bytes are a medium's or text."""
        if seen.medium or (seen.text is False and seen.values is None):
            return
        for value in values:
            if not seen.looked and not seen.sequence and value:
                seen.looked, seen.medium = True, holds(value)
                if seen.medium is not None:
                    self.media.add(name.encode())
            text = text_of_bytes(value)
            seen.text = text is not None and seen.text is not False
            if seen.values is not None and text is not None and text.strip():
                seen.values.add(text)
                if len(seen.values) > _MOST_CLASSES:
                    raise SourceError(f"feature {name!r} has more than {_MOST_CLASSES} values: it can't be a label")


def value_of(example: Any, name: str, shape: Shape) -> Any:
    """Return a feature's value, or None when the example lacks it."""
    if shape is Shape.SEQUENCE:
        features = example.feature_lists.feature_list.get(name)
        return None if features is None else [list(values_of(feature) or ()) for feature in features.feature]
    feature = example.context.feature.get(name)
    values = None if feature is None else values_of(feature)
    if values is None:
        return None
    return values[0] if shape is Shape.SINGLE else list(values)


def _field(seen: _Seen) -> Field:
    dtype = _TYPES[seen.type]
    if seen.type == "bytes_list" and seen.text and seen.medium is None:
        dtype = pa.string()
    if seen.sequence:
        return Field(pa.list_(pa.list_(dtype)), Kind.VALUE)
    if (seen.least, seen.most) != (1, 1):
        return Field(pa.list_(dtype), Kind.VALUE)
    if seen.type != "bytes_list":
        return Field(dtype, Kind.SCALAR)
    return Field(dtype, seen.medium or (Kind.TEXT if seen.text else Kind.BYTES))


def _described(kind: str | None, sequence: bool) -> str:
    values = "empty" if kind is None else kind.removesuffix("_list")
    return f"a feature list of {values}" if sequence else values
