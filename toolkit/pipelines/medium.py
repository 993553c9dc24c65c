"""What a medium can do: the protocol that sources, packs, checks and loaders ask, and that each medium implements.

A medium is a kind whose values are files of some formats: images, later audio and video. It has a folder here, with its
steps, and a class Medium in it; how it is stored stands in toolkit.format.media, and toolkit.pipelines.media lists all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from toolkit.format.media import StoredForm, StoredMedium
from toolkit.pipelines.state import State

__all__ = ["HEAD_BYTES", "Encoder", "Header", "Made", "Medium", "MissingReaderError", "Shaping", "UnfitMediumError"]

HEAD_BYTES = 512  # of a file, that tell whose it is


class UnfitMediumError(ValueError):
    """Why bytes are no value of a medium, or can't be decoded or encoded."""


class MissingReaderError(UnfitMediumError):
    """Why bytes can't be read here, though they may be a value of the medium: what reads their format is missing."""


@dataclass(frozen=True, slots=True)
class Header:
    """What is known of a value without decoding it.

    Attributes:
        format: Its file format, or "raw".
        text: What it is, in a few words: "640 x 480 JPEG".
        numbers: The medium's numbers, by name.
        marks: Those of the medium's marks that it has.
    """

    format: str
    text: str
    numbers: Mapping[str, int | float]
    marks: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shaping:
    """What a pack makes of a medium's values.

    Attributes:
        encoding: How they are stored; with "keep" they are decoded only to see that they can be.
        short_side: Pictures whose shorter side is longer are resized to it; None: they stay as large as they are.
        max_pixels: Pictures with more are refused.
    """

    encoding: str
    short_side: int | None
    max_pixels: int


class Made(Protocol):
    """What is stored of a value."""

    @property
    def nbytes(self) -> int:
        """The bytes that it takes beside the source's own."""


class Encoder(ABC):
    """Makes what is stored of a medium's values. Used by every packing thread at once."""

    @abstractmethod
    def make(self, payload: memoryview) -> Made:
        """Return what is stored of a value. Raises UnfitMediumError."""

    @abstractmethod
    def array(self, made: Sequence[Any], column: pa.Array) -> pa.Array:
        """Return a column's new values, of what make() returned or None; `column` has the source's, row for row."""


class Medium(ABC):
    """One medium. Stateless: used by every thread at once.

    Attributes:
        stored: How it is stored.
        extensions: The endings of file names that tell it, in lower case and without their dot.
        numbers: The numbers that each header has.
        marks: What some headers have, with the words for it.
    """

    stored: StoredMedium
    extensions: frozenset[str]
    numbers: tuple[str, ...]
    marks: Mapping[str, str]

    @abstractmethod
    def begins(self, head: bytes) -> bool:
        """Tell whether a file that begins with `head`, its first HEAD_BYTES, is of one of the medium's formats."""

    @abstractmethod
    def check_header(self, payload: bytes | memoryview) -> None:
        """Read no more than a file's header.

        Raises:
            UnfitMediumError: It hasn't one that can be read.
            MissingReaderError: What reads its format isn't installed.
        """

    @abstractmethod
    def header(self, payload: bytes | memoryview) -> Header | None:
        """Return what a file's header says; None when it can't be read."""

    @abstractmethod
    def header_of(self, sizes: Sequence[int]) -> Header:
        """Return what the sizes stored beside a decoded payload say."""

    @abstractmethod
    def header_of_facts(self, facts: Sequence[Any]) -> Header | None:
        """Return what derived columns say of a value, each of the stored medium's facts; None where that is nothing."""

    @abstractmethod
    def derive(self, column: pa.Array) -> list[pa.Array]:
        """Return, for each of the stored medium's facts, what the values of a stored column say, row for row.

        Null where a value is missing, or its header can't be read.
        """

    @abstractmethod
    def decode_check(self, max_pixels: int) -> Callable[[bytes], str | None]:
        """Return what decodes a file, for one thread: it says why it can't be decoded, or None.

        Pictures of more than `max_pixels` can't.
        """

    @abstractmethod
    def encoder(self, shaping: Shaping) -> Encoder:
        """Return what a pack stores values with that are shaped, or only decoded."""

    @abstractmethod
    def state(self, form: StoredForm, column: str) -> State:
        """Return what a pipeline's slot finds in a column stored in `form`; `column` is what messages call it."""

    @abstractmethod
    def sizes_fault(self, nbytes: int, sizes: Sequence[int]) -> str | None:
        """Say why a decoded payload of `nbytes` doesn't fit the sizes stored beside it, or None."""
