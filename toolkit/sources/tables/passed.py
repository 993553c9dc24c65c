"""What is passed over where tables name pictures: all but the pictures, since those that no row names are told so."""

from __future__ import annotations

from toolkit.sources.images import IMAGE_EXTENSIONS
from toolkit.sources.skips import Skips

__all__ = ["BesidePictures"]


class BesidePictures(Skips):
    """What was passed over, but for pictures: those that no row names are told as such."""

    def __init__(self, skips: Skips) -> None:
        super().__init__()
        self._skips = skips

    def add(self, reason: str, name: str) -> None:
        """Count one that is no picture."""
        if reason != "other_kinds" or not name.lower().endswith(IMAGE_EXTENSIONS):
            self._skips.add(reason, name)
