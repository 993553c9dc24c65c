"""The values of records, column by column: kept safe from later changes at once, made into Arrow arrays piece by piece.

What is added may be changed by its owner behind add(): a buffer is filled again, a file written anew. So everything
that can change is read or copied when it is added, and the rest, which is most, is looked at in bulk.
"""

from __future__ import annotations

import io
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from toolkit.format.arrays import to_array
from toolkit.format.kinds import Kind
from toolkit.format.media import stored_medium
from toolkit.pack.writer.declared import Declared
from toolkit.pack.writer.nested import fitting, type_name
from toolkit.pack.writer.payloads import payload_of
from toolkit.pipelines.media import medium_of
from toolkit.pipelines.medium import UnfitMediumError
from toolkit.sources.base import LARGEST_VALUE, too_large
from toolkit.sources.contents import UnfitError
from toolkit.sources.names import is_utf8
from toolkit.sources.options import VerifyImages
from toolkit.sources.payloads import check_payload, payload_column

__all__ = ["Values", "values_of"]

Faults = dict[int, str]
"""Why the values of some rows are refused."""

_WHOLE_FLOATS = {pa.float16(): 1 << 11, pa.float32(): 1 << 24, pa.float64(): 1 << 53}
_FLOATS: dict[pa.DataType, Any] = {pa.float16(): np.float16, pa.float32(): np.float32, pa.float64(): np.float64}


class Values(ABC):
    """How values of one column become an Arrow array.

    Attributes:
        plain: Types, exactly these, whose values are kept as they are until a piece is made.
    """

    plain: frozenset[type]

    @abstractmethod
    def keep(self, value: Any) -> Any:
        """Return a value of another type as it is kept: nothing can change it. Raises UnfitError."""

    @abstractmethod
    def array(self, values: Sequence[Any]) -> tuple[pa.Array, Faults]:
        """Return the array of values as they are kept, None being null; what is refused is null in it."""


def values_of(declared: Declared, max_value_bytes: int, verify: VerifyImages) -> Values:
    """Return how values of a column become arrays; label columns are for whoever knows the names."""
    if stored_medium(declared.kind) is not None:
        return _Payloads(declared, max_value_bytes, verify)
    match declared.kind:
        case Kind.TEXT:
            return _Texts(declared.type, max_value_bytes)
        case Kind.JSON:
            return _Json(declared.type, max_value_bytes)
        case Kind.TENSOR:
            return _Tensors(declared.type, max_value_bytes)
        case Kind.BYTES:
            return _Bytes(declared.type, max_value_bytes)
        case Kind.SCALAR:
            return _Scalars(declared.type)
        case _:
            return _AnyValues(declared.type, max_value_bytes)


class _Lengths(Values):
    """Values whose length has a bound."""

    def __init__(self, dtype: pa.DataType, most: int) -> None:
        self._type = dtype
        self._most = min(most, LARGEST_VALUE)

    def _too_long(self, values: Sequence[Any]) -> Faults:
        return {
            row: too_large(len(value), self._most)
            for row, value in enumerate(values)
            if value is not None and len(value) > self._most
        }


class _Payloads(_Lengths):
    """Files of a medium: bytes, or (bytes, base name)."""

    plain = frozenset({bytes})

    def __init__(self, declared: Declared, most: int, verify: VerifyImages) -> None:
        super().__init__(declared.type, most)
        self._verify = verify
        medium = medium_of(declared.kind)
        assert medium is not None
        self._medium = medium

    def keep(self, value: Any) -> Any:
        return payload_of(value, self._most)

    def array(self, values: Sequence[Any]) -> tuple[pa.Array, Faults]:
        data = [value[0] if type(value) is tuple else value for value in values]
        names = [value[1] if type(value) is tuple else None for value in values]
        faults = self._too_long(data)
        for row, one in enumerate(data):
            if one is not None and row not in faults:
                try:
                    check_payload(self._medium, one, self._verify)
                except UnfitMediumError as fault:
                    faults[row] = str(fault)
        for row in faults:
            data[row] = None
        paths = to_array(names, pa.string()) if any(name is not None for name in names) else None
        form = self._medium.stored.source_form
        return payload_column(form, to_array(data, form.type.field(form.payload).type), paths), faults


class _Texts(_Lengths):
    """Text."""

    plain = frozenset({str})

    def keep(self, value: Any) -> Any:
        if isinstance(value, str):
            return str(value)
        raise UnfitError(f"{type_name(value)} is no text")

    def array(self, values: Sequence[Any]) -> tuple[pa.Array, Faults]:
        try:
            return _checked(values, self._type, self._too_long(values))
        except UnicodeError:
            faults = {
                row: "it has half of a surrogate pair, which is no text"
                for row, value in enumerate(values)
                if value is not None and not is_utf8(value)
            }
            return _checked(values, self._type, faults | self._too_long(values))


class _Json(_Texts):
    """Any JSON value, as its text."""

    plain = frozenset()

    def keep(self, value: Any) -> Any:
        try:
            return json.dumps(value, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise UnfitError(f"no JSON value: {error}") from error


class _Bytes(_Lengths):
    """Bytes, or as many as the type says."""

    plain = frozenset({bytes})

    def keep(self, value: Any) -> Any:
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        raise UnfitError(f"{type_name(value)} is no bytes")

    def array(self, values: Sequence[Any]) -> tuple[pa.Array, Faults]:
        faults = self._too_long(values)
        if pa.types.is_fixed_size_binary(self._type):
            width = self._type.byte_width
            faults |= {
                row: f"{len(value)} bytes, and the column has {width}"
                for row, value in enumerate(values)
                if value is not None and len(value) != width
            }
        return _checked(values, self._type, faults)


class _Tensors(_Lengths):
    """Arrays, as NumPy files (.npy) of C order."""

    plain = frozenset()

    def keep(self, value: Any) -> Any:
        if not isinstance(value, np.ndarray | np.generic) and type(value).__module__.partition(".")[0] != "torch":
            raise UnfitError(f"{type_name(value)} is no array: give one of NumPy or a tensor of torch")
        try:
            if not isinstance(value, np.ndarray | np.generic):
                value = value.detach().cpu().numpy()
            if isinstance(value, np.ma.MaskedArray):
                raise UnfitError("a masked array can't be stored: .filled() says what stands for what is masked")
            array = np.asarray(value, order="C")
            if array.nbytes > self._most:
                raise UnfitError(too_large(array.nbytes, self._most))
            if array.dtype.hasobject:
                raise UnfitError("an array of Python objects can't be stored")
            file = io.BytesIO()
            np.lib.format.write_array(file, array, allow_pickle=False)
        except (TypeError, ValueError, RuntimeError) as error:  # such as bfloat16, which NumPy hasn't
            if isinstance(error, UnfitError):
                raise
            raise UnfitError(f"no array that NumPy has: {error}") from error
        return file.getvalue()

    def array(self, values: Sequence[Any]) -> tuple[pa.Array, Faults]:
        return _checked(values, self._type, self._too_long(values))


class _Scalars(Values):
    """Numbers of one type, and truth values: kept exactly, but for the rounding that a float type means."""

    def __init__(self, dtype: pa.DataType) -> None:
        self._type = dtype
        if dtype == pa.bool_():
            self.plain = frozenset({bool})
        elif dtype in _FLOATS:
            self.plain = frozenset({int, float})
        else:
            self.plain = frozenset({int})
            self._least, self._most = _range(dtype)

    def keep(self, value: Any) -> Any:
        is_time = isinstance(value, np.datetime64 | np.timedelta64)  # whose item() may be a bare number
        if not is_time and (isinstance(value, np.generic) or getattr(value, "shape", None) == ()):
            value = value.item()
        if type(value) in self.plain:
            return value
        raise UnfitError(f"{type_name(value)} is no {self._type}")

    def array(self, values: Sequence[Any]) -> tuple[pa.Array, Faults]:
        if self._type in _FLOATS:
            faults = self._unfit_floats(values)
        elif self._type == pa.bool_():
            faults = {}
        else:
            known = [value for value in values if value is not None]
            faults = {}
            if known and (min(known) < self._least or max(known) > self._most):
                faults = {
                    row: f"{value} is no {self._type}"
                    for row, value in enumerate(values)
                    if value is not None and not self._least <= value <= self._most
                }
        return _checked(values, self._type, faults)

    def _unfit_floats(self, values: Sequence[Any]) -> Faults:
        most = _WHOLE_FLOATS[self._type]
        whole = {
            row: f"{value} is a whole number that {self._type} doesn't hold exactly"
            for row, value in enumerate(values)
            if type(value) is int and not -most <= value <= most
        }
        numbers = [0.0 if value is None or row in whole else value for row, value in enumerate(values)]
        with np.errstate(over="ignore"):
            rounded = np.array(numbers, np.float64).astype(_FLOATS[self._type])
        infinite = np.flatnonzero(np.isinf(rounded) & ~np.isinf(np.array(numbers, np.float64)))
        return whole | {row: f"{values[row]} is too large for {self._type}" for row in infinite.tolist()}


class _AnyValues(_Lengths):
    """Values of any Arrow type."""

    plain = frozenset()

    def keep(self, value: Any) -> Any:
        value = fitting(value, self._type)
        try:
            array = pa.array([value], self._type)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            said = " ".join(str(error).split())
            raise UnfitError(f"{type_name(value)} is no {self._type}: {said}") from error
        if array.nbytes > self._most:
            raise UnfitError(too_large(array.nbytes, self._most))
        return array

    def array(self, values: Sequence[Any]) -> tuple[pa.Array, Faults]:
        nothing = pa.nulls(1, self._type)
        arrays = [nothing if value is None else value for value in values]
        return pa.concat_arrays(arrays) if arrays else pa.array([], self._type), {}


def _checked(values: Sequence[Any], dtype: pa.DataType, faults: Faults) -> tuple[pa.Array, Faults]:
    if faults:
        values = [None if row in faults else value for row, value in enumerate(values)]
    if pa.types.is_fixed_size_binary(dtype) and any(value is None for value in values):
        return pa.array(values, dtype), faults
    return to_array(values, dtype), faults


def _range(dtype: pa.DataType) -> tuple[int, int]:
    limits = np.iinfo(dtype.to_pandas_dtype())
    return int(limits.min), int(limits.max)
