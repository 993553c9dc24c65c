"""A medium that toolkit doesn't have, to show what a new one costs: gray pictures, in files that begin "GRAY 3 2\\n".

Everything it takes is here; what is missing is a word for it in toolkit.format.kinds, which `added` lends it.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa

from toolkit.errors import UsageError
from toolkit.format.arrays import to_array
from toolkit.format.kinds import Kind
from toolkit.format.media import Fact, StoredForm, StoredMedium
from toolkit.pipelines.media import add_medium, forget_medium
from toolkit.pipelines.medium import Encoder, Header, Medium, Shaping, UnfitMediumError
from toolkit.pipelines.registry import forget, register
from toolkit.pipelines.state import State, ValueKind
from toolkit.pipelines.value_step import EachValue, check_stored

_HEAD = re.compile(rb"GRAY (\d+) (\d+)\n")


def _new_kind(name: str) -> Kind:
    kind = object.__new__(Kind)
    kind._name_, kind._value_ = name.upper(), name
    return kind


GRAY = _new_kind("gray")
FILE = StoredForm(pa.struct([("data", pa.binary()), ("name", pa.string())]), "data", path="name")
ROWS = StoredForm(
    pa.struct([("rows", pa.large_binary()), ("height", pa.int32()), ("width", pa.int32())]),
    "rows",
    sizes=("height", "width"),
    dtype="uint8",
)


FACTS = (Fact("height", 1, pa.int32()), Fact("width", 1, pa.int32()), Fact("shape", 2, pa.string()))


def _form(encoding: str) -> StoredForm:
    if encoding not in ("keep", "rows"):
        raise UsageError(f"{encoding!r} is neither keep nor rows")
    return FILE if encoding == "keep" else ROWS


def gray_file(rows: np.ndarray) -> bytes:
    """Return the file of a picture."""
    return b"GRAY %d %d\n" % rows.shape[::-1] + rows.tobytes()


def decode_gray(value: bytes | np.ndarray) -> np.ndarray:
    """Decode a file, or take what was stored decoded."""
    if isinstance(value, np.ndarray):
        return value
    head = _HEAD.match(value)
    if head is None:
        raise ValueError("it doesn't begin as a gray picture")
    width, height = map(int, head.groups())
    if len(value) - head.end() != width * height:
        raise ValueError(f"{len(value) - head.end()} bytes of {height} rows of {width}")
    return np.frombuffer(value, np.uint8, offset=head.end()).reshape(height, width).copy()


@dataclass(frozen=True, slots=True)
class DecodeGray(EachValue):
    """Decode to uint8 (height, width)."""

    word = "decode_gray"
    takes_bytes = True

    def after(self, state: State) -> State:
        check_stored(state, "a gray column", "only gray pictures are", ValueKind.BYTES, ValueKind.OBJECT)
        return State(ValueKind.TENSOR, "uint8", (None, None))

    def convert(self, value: bytes | np.ndarray) -> np.ndarray:
        return decode_gray(value)


@dataclass(frozen=True)
class _Made:
    rows: np.ndarray | None

    @property
    def nbytes(self) -> int:
        return 0 if self.rows is None else self.rows.nbytes


class _GrayEncoder(Encoder):
    def __init__(self, encoding: str) -> None:
        self._form = _form(encoding)

    def make(self, payload: memoryview) -> _Made:
        try:
            rows = decode_gray(bytes(payload))
        except ValueError as error:
            raise UnfitMediumError(str(error)) from error
        return _Made(rows if self._form is ROWS else None)

    def array(self, made: Sequence[_Made | None], column: pa.Array) -> pa.Array:
        if self._form is FILE:
            return column
        values = []
        for one in made:
            rows = None if one is None else one.rows
            size = {} if rows is None else dict(zip(ROWS.sizes, rows.shape, strict=True))
            values.append(None if rows is None else {"rows": rows.tobytes(), **size})
        return pa.array(values, ROWS.type)


class GrayMedium(Medium):
    stored = StoredMedium(GRAY, "gray pictures", (FILE, ROWS), _form, FACTS)
    extensions = frozenset({"gray"})
    numbers = ("width", "height")
    marks = MappingProxyType({"tall": "taller than wide"})

    def begins(self, head: bytes) -> bool:
        return _HEAD.match(head) is not None

    def check_header(self, payload: bytes | memoryview) -> None:
        if self.header(payload) is None:
            raise UnfitMediumError("it doesn't begin as a gray picture")

    def header(self, payload: bytes | memoryview) -> Header | None:
        head = _HEAD.match(payload)
        return None if head is None else self.header_of([int(size) for size in head.groups()[::-1]])

    def header_of(self, sizes: Sequence[int]) -> Header:
        height, width = sizes
        marks = frozenset({"tall"} if height > width else ())
        return Header("GRAY", f"{width} x {height} gray", {"width": width, "height": height}, marks)

    def header_of_facts(self, facts: Sequence[Any]) -> Header | None:
        height, width, _ = facts
        return None if height is None or width is None else self.header_of([height, width])

    def derive(self, column: pa.Array) -> list[pa.Array]:
        found: list[tuple[int | None, int | None, str | None]] = []
        for value in column.to_pylist():
            header = None
            if value is not None and "rows" in value:
                header = self.header_of([value["height"], value["width"]])
            elif value is not None and value["data"] is not None:
                header = self.header(value["data"])
            sizes = {} if header is None else header.numbers
            found.append((sizes.get("height"), sizes.get("width"), None if header is None else header.text))
        return [to_array([row[i] for row in found], fact.type) for i, fact in enumerate(FACTS)]

    def decode_check(self, max_pixels: int) -> Callable[[bytes], str | None]:
        def check(payload: bytes) -> str | None:
            try:
                decode_gray(payload)
            except ValueError as error:
                return str(error)
            return None

        return check

    def encoder(self, shaping: Shaping) -> Encoder:
        return _GrayEncoder(shaping.encoding)

    def state(self, form: StoredForm, column: str) -> State:
        return State(ValueKind.OBJECT if form.is_decoded else ValueKind.BYTES, column=column)

    def sizes_fault(self, nbytes: int, sizes: Sequence[int]) -> str | None:
        height, width = sizes
        fits = min(sizes) > 0 and nbytes == height * width
        return None if fits else f"{nbytes} bytes of {height} rows of {width}"


@contextlib.contextmanager
def added() -> Iterator[Medium]:
    """Add the medium, and its word to the kinds; forget both in the end."""
    medium = GrayMedium()
    lent = mock.patch.object(Kind, "_missing_", classmethod(lambda cls, value: GRAY if value == "gray" else None))
    with lent:
        add_medium(medium)
        register(DecodeGray)
        try:
            yield medium
        finally:
            forget(DecodeGray.word)
            forget_medium(GRAY)
