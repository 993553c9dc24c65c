"""The columns of records: what a program declares them to be, or what the first record shows."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from toolkit.errors import UsageError, did_you_mean
from toolkit.format.kinds import Kind
from toolkit.format.media import stored_medium
from toolkit.format.schema import Column, is_own_name, is_scalar, label_column, medium_column, stored_type
from toolkit.options.value_type import expected
from toolkit.sources.names import is_utf8, printable
from toolkit.sources.payloads import holds, named_as

__all__ = ["Declaration", "Declared", "check_names", "declare", "declare_by", "declared_as", "written_as"]

Declaration: TypeAlias = "str | Kind | pa.DataType"
"""What a column is declared by: the word of a kind, or an Arrow type, also as text."""

_KINDS = {kind.value: kind for kind in Kind if kind not in (Kind.UNKNOWN, Kind.TOKENS)}
_PLAIN_TYPES = {Kind.TEXT: pa.string(), Kind.JSON: pa.string(), Kind.BYTES: pa.binary()}
_SCALARS = {bool: pa.bool_(), int: pa.int64(), float: pa.float64()}
_CHANNELS = (1, 3, 4)
_FIXED_SIZE = re.compile(r"fixed_size_list\s*<(.*?)(?:,\s*([0-9]{1,9})\s*>|>\[([0-9]{1,9})\])", re.DOTALL)
_FIXED_WIDTH = re.compile(r"fixed_size_binary\[([0-9]{1,9})\]")
_DEEPEST = 32


@dataclass(frozen=True, slots=True)
class Declared:
    """A column of records, and the Arrow type that its values are given to a pack in."""

    column: Column
    type: pa.DataType

    @property
    def name(self) -> str:
        """Its name."""
        return self.column.name

    @property
    def kind(self) -> Kind:
        """What it means."""
        return self.column.kind


def check_names(columns: Mapping[str, Declaration]) -> None:
    """Raise UsageError where there is no column, or a name that none can have."""
    if not columns:
        raise UsageError('columns is empty: name the columns, as in {"image": "image", "label": "label"}')
    for name in columns:
        if not isinstance(name, str):
            raise UsageError(f"columns: {expected('a name as text', name).message}")
        if not name or is_own_name(name) or "\0" in name or not is_utf8(name):
            raise UsageError(f"{printable(name)!r} can't name a column: names that begin with __ are the format's own")


def declare(name: str, given: Declaration) -> Declared | None:
    """Return the column that is declared so; None for "scalar", whose type its first value tells.

    Raises:
        UsageError: There is no such kind or type, or values of that type can't be stored.
    """
    if isinstance(given, pa.DataType):
        return _of_type(name, given)
    word = given.value if isinstance(given, Kind) else given
    if not isinstance(word, str):
        raise UsageError(f"columns.{name}: {expected('a kind or an Arrow type', given).message}")
    if word == Kind.SCALAR.value:
        return None
    if word == Kind.VALUE.value:
        raise UsageError(f"columns.{name}: say which values, as an Arrow type: 'list<int64>', 'timestamp[us]', …")
    if word == Kind.TOKENS.value:
        raise UsageError(f"columns.{name}: tokens are packed by toolkit.pack_tokens()")
    kind = _KINDS.get(word)
    return _of_type(name, _parsed(name, word)) if kind is None else _of_kind(name, kind)


def declare_by(name: str, value: object, given: Declaration | None = None) -> Declared:
    """Return the column that a first value shows; `given` is "scalar" if that is declared.

    Raises:
        UsageError: The value doesn't tell.
    """
    if given is not None:
        return Declared(*_scalar(name, value))
    kind = _shown(value)
    if kind is None:
        raise UsageError(
            f"the first record doesn't tell what the column {name!r} is ({_type_name(value)}): say it, by columns= of "
            "a writer or kind= of toolkit.pack()"
        )
    return Declared(*_scalar(name, value)) if kind is Kind.SCALAR else _of_kind(name, kind)


def declared_as(name: str, kind: Kind, dtype: pa.DataType) -> Declared:
    """Return a column of that kind, whose values are given in that type."""
    if kind in (Kind.SCALAR, Kind.VALUE) or (kind in _PLAIN_TYPES and dtype != _PLAIN_TYPES[kind]):
        return _of_type(name, dtype)
    return _of_kind(name, kind)


def written_as(declared: Declared) -> str:
    """Return the declaration as text: declare() makes the same column of it."""
    if declared.kind in (Kind.SCALAR, Kind.VALUE):
        return str(declared.type)
    if declared.kind in _PLAIN_TYPES and declared.type != _PLAIN_TYPES[declared.kind]:
        return str(declared.type)
    return str(declared.kind.value)


def _of_kind(name: str, kind: Kind) -> Declared:
    medium = stored_medium(kind)
    if medium is not None:
        return Declared(medium_column(name, medium), medium.source_form.type)
    if kind is Kind.LABEL:
        return Declared(label_column(name, ""), pa.int64())
    if kind is Kind.TENSOR:
        return Declared(Column(name=name, kind=kind, arrow_type=str(pa.binary()), encoding="npy"), pa.binary())
    dtype = _PLAIN_TYPES[kind]
    return Declared(Column(name=name, kind=kind, arrow_type=str(dtype)), dtype)


def _of_type(name: str, dtype: pa.DataType) -> Declared:
    try:
        stored = stored_type(dtype)
    except (TypeError, ValueError) as error:
        raise UsageError(f"columns.{name}: {dtype} can't be stored: {error}") from error
    if stored in (pa.string(), pa.large_string()):
        kind = Kind.TEXT
    elif stored in (pa.binary(), pa.large_binary()) or pa.types.is_fixed_size_binary(stored):
        kind = Kind.BYTES
    else:
        kind = Kind.SCALAR if is_scalar(stored) else Kind.VALUE
    return Declared(Column(name=name, kind=kind, arrow_type=str(stored)), stored)


def _parsed(name: str, text: str, depth: int = 0) -> pa.DataType:
    """Return the Arrow type of a text: an alias of Arrow's, or list<…>, large_list<…>, fixed_size_list<…, n>.

    Arrow itself writes the last as fixed_size_list<…>[n].
    """
    if depth > _DEEPEST:
        raise UsageError(f"columns.{name}: a type that is nested more than {_DEEPEST} deep can't be stored")
    fixed = _FIXED_SIZE.fullmatch(text.strip())
    if fixed is not None:
        return pa.list_(_parsed(name, fixed[1].removeprefix("item:"), depth + 1), int(fixed[2] or fixed[3]))
    word, opened, inner = text.strip().partition("<")
    word = word.strip()
    if opened and inner.rstrip().endswith(">"):
        inner = inner.rstrip()[:-1]
        if word == "list":
            return pa.list_(_parsed(name, inner.removeprefix("item:"), depth + 1))
        if word == "large_list":
            return pa.large_list(_parsed(name, inner.removeprefix("item:"), depth + 1))
    elif not opened:
        width = _FIXED_WIDTH.fullmatch(word)
        if width is not None:
            return pa.binary(int(width[1]))
        try:
            return pa.type_for_alias({"date32[day]": "date32", "date64[ms]": "date64"}.get(word, word))
        except ValueError:
            pass
    hint = did_you_mean(text, [*_KINDS, "int64", "float32", "float64", "bool", "string", "binary"])
    raise UsageError(
        f"columns.{name}: {text!r} is neither a kind ({', '.join(_KINDS)}) nor an Arrow type such as int64, float32, "
        f"timestamp[us] or list<int64>.{hint}"
    )


def _shown(value: object) -> Kind | None:
    """Return the kind that a value shows."""
    if isinstance(value, str):
        return Kind.TEXT
    if isinstance(value, bytes | bytearray | memoryview):
        return holds(bytes(value)) or Kind.BYTES
    if isinstance(value, bool | int | float | np.generic):
        return Kind.SCALAR
    if isinstance(value, os.PathLike):
        return named_as(os.fsdecode(value).rpartition(".")[2].lower())
    if isinstance(value, dict | list | tuple):
        return Kind.JSON
    module = type(value).__module__.partition(".")[0]
    if module == "PIL":
        return Kind.IMAGE
    shape = getattr(value, "shape", None)
    if shape is None or (module != "torch" and not isinstance(value, np.ndarray)):
        return None
    if len(shape) == 0:
        return Kind.SCALAR
    channels = (shape[0], shape[2]) if module == "torch" and len(shape) == 3 else shape[2:]
    is_picture = str(value.dtype).endswith("uint8") and len(shape) == 3 and any(one in _CHANNELS for one in channels)  # type: ignore[attr-defined]
    return Kind.IMAGE if is_picture else Kind.TENSOR


def _scalar(name: str, value: Any) -> tuple[Column, pa.DataType]:
    dtype = _SCALARS.get(type(value))
    if dtype is None and isinstance(value, np.generic):
        dtype = pa.from_numpy_dtype(value.dtype)
    elif dtype is None and getattr(value, "shape", None) == ():
        dtype = pa.from_numpy_dtype(np.dtype(str(value.dtype).removeprefix("torch.")))
    if dtype is None or not is_scalar(dtype):
        raise UsageError(
            f"the first record doesn't tell the type of the scalar column {name!r} ({_type_name(value)}): declare it, "
            'as in columns={"score": "float32"}'
        )
    return Column(name=name, kind=Kind.SCALAR, arrow_type=str(dtype)), dtype


def _type_name(value: object) -> str:
    return "no value" if value is None else f"a value of type {type(value).__name__}"
