"""What a medium can do: the protocol that sources, packs, checks and loaders ask, and that each medium implements.

A medium is a kind whose values are files of some formats: images, later audio and video. It has a folder here, with its
steps, and a class Medium in it; how it is stored stands in toolkit.format.media, and toolkit.pipelines.media lists all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from toolkit.format.media import StoredForm, StoredMedium
from toolkit.pipelines.state import State

__all__ = ["Medium"]


class Medium(ABC):
    """One medium. Stateless: used by every thread at once.

    Attributes:
        stored: How it is stored.
    """

    stored: StoredMedium

    @abstractmethod
    def state(self, form: StoredForm, column: str) -> State:
        """Return what a pipeline's slot finds in a column stored in `form`; `column` is what messages call it."""

    @abstractmethod
    def sizes_fault(self, nbytes: int, sizes: Sequence[int]) -> str | None:
        """Say why a decoded payload of `nbytes` doesn't fit the sizes stored beside it, or None."""
