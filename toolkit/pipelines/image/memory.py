"""How many bytes PIL takes to decode a picture, from its header alone: what its readers were measured to allocate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from PIL.ImageFile import ImageFile

__all__ = ["BAND_PIXELS", "block_pixels", "bytes_to_decode", "bytes_to_open"]

BAND_PIXELS = 1 << 18  # that are brought to another mode at once
_BAND_BYTES = 16  # for a pixel of a band: cut out, converted, and as bytes, twice

# Bytes of a pixel in PIL's own memory, by its mode; of the others, an int or float or up to four bands of a byte, 4.
_PIXEL_BYTES = {"1": 1, "L": 1, "P": 1, "I;16": 2, "I;16B": 2, "I;16L": 2, "I;16N": 2}
_ROW_PLACE_BYTES = 8  # more than the pixels of a picture that is one wide
_WEBP_CANVASES = 8  # bytes a pixel: two canvases of RGBA, from the opening on
_COEFFICIENT_BYTES = 2
# Of a TIFF: what turns it, the rows of a strip, the sides of a tile, the bits of a pixel's values.
_ORIENTATION, _STRIP_ROWS, _TILE_WIDTH, _TILE_HEIGHT, _BITS = 274, 278, 322, 323, 258


def bytes_to_open(size: tuple[int, int]) -> int:
    """Return what opening a picture takes whose reader begins with the pixels; see size_before_opening()."""
    return _WEBP_CANVASES * size[0] * size[1]


def bytes_to_decode(image: ImageFile, channels: int, scans: int = 1) -> int:
    """Return what an opened picture takes at the most until it is a uint8 (height, width, channels) array.

    Args:
        image: PIL's, not decoded.
        channels: Of the array.
        scans: Of a JPEG: where there are several, all of its coefficients are held.
    """
    pixels: int = image.width * image.height
    stored: int = image.height * _row_bytes(image)
    extra, kept = _reader_bytes(image, stored, scans)
    result: int = channels * pixels + _BAND_BYTES * min(pixels, max(BAND_PIXELS, image.width))
    return stored + max(extra, kept + result)


def _row_bytes(image: ImageFile) -> int:
    """Return what PIL keeps of a row: pixels, to a multiple of four bytes, and where they lie."""
    pixels: int = _PIXEL_BYTES.get(image.mode, 4) * image.width
    return -(-pixels // 4) * 4 + _ROW_PLACE_BYTES


def block_pixels(image: ImageFile) -> int:
    """Return how many pixels a TIFF's reader decodes at once: a tile may be larger than the picture. 0: no TIFF."""
    if image.format != "TIFF":
        return 0
    tags: Any = getattr(image, "tag_v2", {})
    if _TILE_WIDTH in tags:
        return _first(tags.get(_TILE_WIDTH), image.width) * _first(tags.get(_TILE_HEIGHT), image.height)
    rows = min(image.height, _first(tags.get(_STRIP_ROWS), image.height))
    return int(image.width * rows)


def _reader_bytes(image: ImageFile, stored: int, scans: int) -> tuple[int, int]:
    """Return what the reader takes beside the stored pixels: while it decodes, and until the image is closed."""
    pixels = image.width * image.height
    match image.format:
        case "JPEG" | "MPO":
            padded = (image.width + 31) * (image.height + 31)  # whole MCUs
            layers = _first(getattr(image, "layers", 4), 4)
            return (_COEFFICIENT_BYTES * layers * padded if scans > 1 else 0), 0
        case "WEBP":  # canvases, what the frame is decoded to, the frame as bytes
            return 13 * pixels, (_WEBP_CANVASES + 5) * pixels
        case "AVIF":  # planes of up to 16 bits and alpha, RGBA, its bytes
            return 16 * pixels, 12 * pixels
        case "JPEG2000":  # samples of 32 bits and of their own size
            return (6 * len(image.getbands()) + 3) * pixels, 0
        case "PPM":  # unless it can be copied as it is, values are gathered in Python
            plain = all(tile[0] == "raw" for tile in image.tile)
            return (0 if plain else 3 * stored), 0
        case "TIFF":
            tags: Any = getattr(image, "tag_v2", {})
            bits = tags.get(_BITS, (8,))
            depth = sum(bits) if isinstance(bits, tuple) else _first(bits, 8) * len(image.getbands())
            turned = stored if _first(tags.get(_ORIENTATION), 1) != 1 else 0
            return max(4, -(-depth // 8)) * block_pixels(image) + turned, 0
    return 0, 0


def _first(value: object, default: int) -> int:
    """Return a tag's number, or the first of its numbers; the default where it has none that can be."""
    if isinstance(value, tuple) and value:
        value = value[0]
    return value if isinstance(value, int) and value > 0 else default
