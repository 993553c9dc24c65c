"""Names of classes become ids: those that are known, or in the order in which records bring them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from toolkit.errors import did_you_mean
from toolkit.sources.contents import UnfitError
from toolkit.sources.names import is_utf8

__all__ = ["Labels"]


class Labels:
    """The ids of one label column. For one thread.

    Attributes:
        plain: Types whose values are kept as they are.
        names: The names so far, in id order.
        is_open: Names that come get the next ids; else one that isn't there is refused.
    """

    plain = frozenset({str, int})

    def __init__(self, names: Sequence[str], *, is_open: bool) -> None:
        """`names` have the first ids."""
        self.names = list(names)
        self.is_open = is_open
        self._ids: dict[str | int | None, int | None] = {None: None}
        self._ids |= {name: number for number, name in enumerate(self.names)}
        if not is_open:
            self._ids |= {number: number for number in range(len(self.names))}

    def keep(self, value: Any) -> str | int:
        """Return a value as a name or an id. Raises UnfitError."""
        if isinstance(value, str):
            return str(value)
        is_time = isinstance(value, np.timedelta64)  # which NumPy calls an integer
        if (isinstance(value, np.integer) and not is_time) or (
            getattr(value, "shape", None) == () and "int" in str(value.dtype)
        ):
            return int(value)
        raise UnfitError(f"a value of type {type(value).__name__} is neither the name of a class nor its id")

    def ids(self, values: Sequence[str | int | None]) -> tuple[list[int | None], dict[int, str]]:
        """Return the ids of names and ids, and why those of some rows are refused; these are None."""
        try:
            return [self._ids[value] for value in values], {}
        except KeyError:
            pass
        found: list[int | None] = []
        faults: dict[int, str] = {}
        for row, value in enumerate(values):
            if value not in self._ids:
                fault = self._fault(value)
                if fault is not None:
                    faults[row] = fault
                    found.append(None)
                    continue
                self._ids[value] = len(self.names)
                self.names.append(str(value))
            found.append(self._ids[value])
        return found, faults

    def _fault(self, value: str | int | None) -> str | None:
        """Say why a value has no id, or None where it gets one."""
        if isinstance(value, int):
            if self.is_open:
                return f"{value} is the id of a class, and no class has a name: give classes="
            return f"{value} is no id of {len(self.names)} classes"
        if not self.is_open:
            return f"{value!r} is none of the {len(self.names)} classes.{did_you_mean(str(value), self.names)}"
        if not str(value).strip():
            return "the name of a class is blank"
        return None if is_utf8(str(value)) else f"{value!r} is not valid UTF-8, which names of classes are"
