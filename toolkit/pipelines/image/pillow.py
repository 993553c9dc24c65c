"""Bring a picture of any mode that PIL knows to RGB, as every decoded image is. Never clips, never guesses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["gray_bits", "to_eight_bits", "to_rgb"]

_TIFF_BITS, _SIXTEEN = 258, (16,)  # a tag, and what it says most often

_SIXTEEN_BITS = frozenset({"PNG", "PPM"})  # formats whose mode I, in older versions of PIL, holds 0 to 65535


def to_rgb(image: Image, format: str | None) -> Image:
    """Return an RGB picture: gray three times over, palettes looked up, alpha left out, CMYK by PIL's own rule.

    Args:
        image: A decoded picture; its own.
        format: The format of the file it comes from, as PIL calls it.

    Raises:
        ValueError: As to_eight_bits().
    """
    image = to_eight_bits(image, format, gray_bits(image))
    # A transparent colour says nothing about RGB, but PIL would warn about it.
    image.info.pop("transparency", None)
    return image.convert("RGB")


def gray_bits(image: Image) -> int:
    """Return how many bits a gray value has of a picture that PIL holds in sixteen: 16, but of some TIFFs 12."""
    bits = getattr(image, "tag_v2", {}).get(_TIFF_BITS, _SIXTEEN)
    return 12 if bits in (12, (12,)) else 16


def to_eight_bits(image: Image, format: str | None, bits: int = 16) -> Image:
    """Return a picture of 16-bit gray with eight bits, any other as it is.

    Sixteen bits become eight by their upper byte, as PIL itself reads a colour PNG of sixteen bits; its own conversion
    of gray ones would clip everything above 255 to white.

    Args:
        image: A decoded picture, or a band of one.
        format: The format of the file it comes from, as PIL calls it.
        bits: What gray_bits() said of the picture.

    Raises:
        ValueError: Its pixels are 32-bit integers or floats, which say nothing about what black and white are.
    """
    from PIL import Image

    if image.mode.startswith("I;16") or (image.mode == "I" and format in _SIXTEEN_BITS):
        return Image.fromarray((np.asarray(image) >> bits - 8).astype(np.uint8))
    if image.mode in ("I", "F"):
        raise ValueError(
            f"pixels of 32 bits (PIL's mode {image.mode}) have no known range: convert them to 8 or 16 bits"
        )
    return image
