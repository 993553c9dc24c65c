"""An iteration that stays broken once it broke: a generator would end quietly, and the epoch would be short."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from toolkit.errors import LoaderError

__all__ = ["Iteration"]

_Batch = TypeVar("_Batch")


class Iteration(Iterator[_Batch]):
    """Gives the batches of a generator; after an error of it, an error that names the first one."""

    def __init__(self, batches: Iterator[_Batch]) -> None:
        self._batches = batches
        self._broken: str | None = None

    def __next__(self) -> _Batch:
        if self._broken is not None:
            raise LoaderError(f"this iteration ended with an error, its epoch is not complete: {self._broken}")
        try:
            return next(self._batches)
        except StopIteration:
            raise
        except BaseException as error:
            self._broken = str(error) or type(error).__name__
            raise
