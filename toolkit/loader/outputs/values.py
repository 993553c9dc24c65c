"""Convert the values of columns, and those in lists, tuples and dicts: each array, or an error that says which."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from toolkit.errors import LoaderError

__all__ = ["Converter", "UnfitValueError", "convert_columns", "each_inside", "unfit"]


class UnfitValueError(LoaderError):
    """A framework has nothing that an array could become.

    Attributes:
        column: Of the batch; "" where only the caller knows.
        index: Which of a list's values it is; None for a whole column.
    """

    def __init__(self, message: str, *, column: str = "", index: int | None = None) -> None:
        super().__init__(message)
        self.column = column
        self.index = index


class Converter(Protocol):
    """Turns a column into the output's arrays; lists stay lists, of arrays where they were, as do tuples and dicts.

    `dtype` "bfloat16" says that the uint16 of a column mean that; numpy, which has no such type, keeps them.
    """

    def __call__(self, values: Any, dtype: str | None = None) -> Any:
        """Return the arrays. Raises UnfitValueError."""


def convert_columns(
    columns: Mapping[str, Any], dtypes: Mapping[str, str | None], convert: Callable[[str, Any, str | None], Any]
) -> dict[str, Any]:
    """Return convert(name, values, dtype) of each column. Raises UnfitValueError, with the column."""
    made = {}
    for name, values in columns.items():
        try:
            made[name] = convert(name, values, dtypes.get(name))
        except UnfitValueError as error:
            raise UnfitValueError(str(error), column=name, index=error.index) from error.__cause__
    return made


def each_inside(values: Any, function: Callable[[Any], Any]) -> Any:
    """Return a list, tuple or dict with what function() makes of its values; anything else as it is.

    Raises:
        UnfitValueError: function() did, with the place in a list.
    """
    if isinstance(values, list):
        made: list[Any] = []
        try:
            for value in values:
                made.append(function(value))
        except UnfitValueError as error:  # the length says which value it was
            raise UnfitValueError(str(error), index=len(made)) from error.__cause__
        return made
    if isinstance(values, tuple):
        inside = [function(value) for value in values]
        return type(values)(*inside) if hasattr(values, "_fields") else tuple(inside)
    if type(values) is dict:
        return {name: function(value) for name, value in values.items()}
    return values


def unfit(framework: str, dtype: Any) -> UnfitValueError:
    """Return the error of an array whose dtype a framework doesn't have, with what to do."""
    advice = {
        "O": "give numbers of one dtype, or a list of the objects",
        "U": "give a list of str",
        "S": "give a list of bytes",
        "M": "give .astype('int64'), and keep the unit",
        "m": "give .astype('int64'), and keep the unit",
        "f": "give .astype('float64')",
        "c": "give .astype('complex128')",
    }.get(dtype.kind, "give one array for each field")
    return UnfitValueError(f"{framework} has no {dtype}: {advice}, or take output='numpy'")
