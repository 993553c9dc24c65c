"""How images are stored. Apart from the schema, so that the command line can name encodings without pyarrow."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import Self

from toolkit.errors import UsageError, did_you_mean

__all__ = ["ENCODING_PATTERN", "KEEP", "Encoding", "ImageEncoding"]

ENCODING_PATTERN = r"^(keep|raw|jpeg:([1-9][0-9]?|100))$"


class Encoding(enum.Enum):
    """What the bytes of an image are: the source's own, a JPEG of our making, or pixels."""

    KEEP = "keep"
    JPEG = "jpeg"
    RAW = "raw"


@dataclass(frozen=True, slots=True)
class ImageEncoding:
    """An encoding with its options; str() is what a manifest says: keep, jpeg:90, raw."""

    encoding: Encoding = Encoding.KEEP
    quality: int | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the encoding that `text` says. Raises UsageError."""
        if re.match(ENCODING_PATTERN, text, re.ASCII):
            name, _, quality = text.partition(":")
            return cls(Encoding(name), int(quality) if quality else None)
        name = text.partition(":")[0]
        if name == Encoding.JPEG.value:
            raise UsageError(f"{text!r}: a quality from 1 to 100 belongs to it, as in jpeg:90")
        known = [one.value for one in Encoding]
        raise UsageError(f"{text!r} is not one of keep, jpeg:1 to jpeg:100, raw.{did_you_mean(name, known)}")

    def __str__(self) -> str:
        return self.encoding.value if self.quality is None else f"{self.encoding.value}:{self.quality}"


KEEP = ImageEncoding()
