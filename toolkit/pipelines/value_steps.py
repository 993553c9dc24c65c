"""The steps of slots that are no images, as frozen data: printable, comparable, hashable. Nothing here runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["Array", "Bytes", "Json", "Npy", "OneHot", "Passthrough", "Python", "Scalar", "Text", "ValueStep"]


@dataclass(frozen=True, slots=True)
class Passthrough:
    """The value as it is stored."""


@dataclass(frozen=True, slots=True)
class Bytes:
    """The stored bytes as `bytes`: an image's file, a text's UTF-8."""


@dataclass(frozen=True, slots=True)
class Text:
    """Bytes or text as `str`."""

    encoding: str


@dataclass(frozen=True, slots=True)
class Json:
    """UTF-8 JSON as Python objects."""


@dataclass(frozen=True, slots=True)
class Npy:
    """A NumPy file (.npy) as an array. None: as the file says, a size None: any."""

    dtype: str | None
    shape: tuple[int | None, ...] | None


@dataclass(frozen=True, slots=True)
class Scalar:
    """A stored number as a number of `dtype`; one that doesn't fit is an error."""

    dtype: str


@dataclass(frozen=True, slots=True)
class Array:
    """Raw bytes (little-endian, C order) or a list of numbers as an array; a size None: as many as there are."""

    dtype: str
    shape: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class OneHot:
    """A class id as float32 (classes,): 1 at the id, 0 elsewhere."""

    classes: int


@dataclass(frozen=True, slots=True)
class Python:
    """What a function makes of the value. `dtype` None: any object.

    Attributes:
        fn: fn(value), or with `random` fn(value, numpy Generator).
        shape: Of what it returns; a size None: any.
        timeout: Seconds that a call may take; None: any time.
        version: Counts in describe(): the user's way to say that the function changed.
    """

    fn: Callable[..., Any]
    dtype: str | None
    shape: tuple[int | None, ...] | None
    random: bool
    timeout: float | None
    version: int


ValueStep = Passthrough | Bytes | Text | Json | Npy | Scalar | Array | OneHot | Python
