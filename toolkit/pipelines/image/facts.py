"""What is known of pictures without decoding them: the size that they are decoded to, orientation and format.

The orientation is the one that decoders apply: EXIF's, or XMP's where EXIF has none. JPEG headers are read natively,
those of a whole column in one call; PNGs by their chunks, since PIL would decode one to look for EXIF behind its
pixels; WebPs by their first chunk where no other may tell an orientation; all others by PIL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from toolkit._native.image.program import NO_MEMORY, OK, UNSUPPORTED, ImageError, probe, probe_many
from toolkit.format.arrays import bits_buffer, numbers, to_array, valid_rows, value_offsets
from toolkit.pipelines.image.formats import find_format, open_picture, size_before_opening, webp_tells_more
from toolkit.pipelines.image.pil_messages import heard
from toolkit.pipelines.image.png_chunks import png_header

if TYPE_CHECKING:
    from PIL.ImageFile import ImageFile

__all__ = ["JPEG_MAGIC", "Facts", "are_jpegs", "column_facts", "decoded_facts", "facts_of"]

JPEG_MAGIC = b"\xff\xd8\xff"
_FIRST_SIDEWAYS = 5  # of EXIF's orientations: from here on, width and height change places
_ORIENTATIONS = range(1, 9)
_ORIENTATION, _WIDTH, _HEIGHT = 0x0112, 0x0100, 0x0101  # tags of EXIF and TIFF
_LARGEST_SIDE = (1 << 31) - 1


class Facts(NamedTuple):
    """A picture's size as it is decoded, EXIF's number of how it is turned for that, and the format of its file."""

    height: int
    width: int
    orientation: int
    format: str


def facts_of(payload: bytes | memoryview) -> Facts | None:
    """Return what the header of a picture says; None when it can't be read."""
    if payload[:3] == JPEG_MAGIC:
        try:
            width, height, _, orientation, _ = probe(payload)
            return _turned(height, width, orientation, "JPEG")
        except ImageError as error:
            if error.status != UNSUPPORTED:  # CMYK and the like: PIL decodes them
                return None
    return _other_facts(payload)


def are_jpegs(data: pa.Buffer, ends: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell of files that lie one behind another which have a JPEG header that is read natively.

    File i is data[ends[i]:ends[i + 1]].
    """
    found = np.zeros((len(ends) - 1, 4), np.int32)
    probe_many((ends[:-1] + data.address).astype(np.uint64), np.diff(ends), found)
    return np.asarray(found[:, 0] == OK)


def column_facts(payloads: pa.Array, there: NDArray[np.bool_]) -> list[pa.Array]:
    """Return heights, widths, orientations and formats of files in a binary array, null where there is none to tell.

    `there` says which rows have a file.
    """
    offsets, data = value_offsets(payloads).astype(np.int64), payloads.buffers()[2]
    there = there & valid_rows(payloads)
    found = np.zeros((len(payloads), 4), np.int32)  # status, height, width, orientation
    lengths = np.where(there, offsets[1:] - offsets[:-1], 0)
    probe_many((offsets[:-1] + (0 if data is None else data.address)).astype(np.uint64), lengths, found)
    if (found[:, 0] == NO_MEMORY).any():
        raise MemoryError("no memory to read the header of a JPEG")
    sideways = found[:, 3] >= _FIRST_SIDEWAYS
    found[sideways, 1:3] = found[sideways, 2:0:-1]
    formats: list[str | None] = ["JPEG"] * len(payloads)
    # A Buffer's own view has signed bytes: no file would begin as a JPEG does.
    files = memoryview(b"" if data is None else data).cast("B")
    for row in np.flatnonzero(found[:, 0] != OK).tolist():
        file = files[int(offsets[row]) : int(offsets[row + 1])] if there[row] else b""
        facts = facts_of(file)
        there[row] = facts is not None
        found[row, 1:], formats[row] = ((0, 0, 0), None) if facts is None else (facts[:3], facts.format)
    return _columns(found[:, 1], found[:, 2], found[:, 3], formats, there)


def decoded_facts(sizes: pa.StructArray, there: NDArray[np.bool_]) -> list[pa.Array]:
    """Return the same of raw pixels, a struct with height and width; nothing is left to turn."""
    rows = len(sizes)
    height, width = (np.where(there, numbers(sizes.field(name)), 0) for name in ("height", "width"))
    return _columns(height, width, np.ones(rows, np.int32), ["raw" if one else None for one in there.tolist()], there)


def _columns(
    height: NDArray[np.int32],
    width: NDArray[np.int32],
    orientation: NDArray[np.int32],
    formats: Sequence[str | None],
    there: NDArray[np.bool_],
) -> list[pa.Array]:
    validity = None if there.all() else bits_buffer(there)
    columns = [(pa.int32(), height), (pa.int32(), width), (pa.int8(), orientation)]
    arrays = []
    for dtype, values in columns:
        known = np.where(there, values, 0).astype(np.int8 if dtype == pa.int8() else np.int32)
        arrays.append(pa.Array.from_buffers(dtype, len(known), [validity, pa.py_buffer(known)]))
    return [*arrays, _texts(formats)]


def _texts(values: Sequence[str | None]) -> pa.Array:
    """Return a column of text; most often all are the same."""
    first = values[0].encode() if values and values[0] is not None else b""
    if not first or values.count(values[0]) < len(values):
        return to_array(values, pa.string())
    offsets = np.arange(len(values) + 1, dtype=np.int32) * len(first)
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(first * len(values))]
    return pa.Array.from_buffers(pa.string(), len(values), buffers)


def _other_facts(payload: bytes | memoryview) -> Facts | None:
    """Return the facts of what is no JPEG, or one that the native decoder doesn't take."""
    name = find_format(payload)
    try:
        if name is None:
            return None
        if name == "PNG":
            return _turned(*png_header(payload), name)
        if name == "WEBP" and not webp_tells_more(payload):
            size = size_before_opening(payload)
            return _turned(size[1], size[0], 1, name) if size is not None and all(size) else None
        with open_picture(payload) as image, heard():
            return _turned(*_size_as_stored(image, name), image.getexif().get(_ORIENTATION, 1), name)
    except Exception:  # PIL's plugins raise whatever damaged bytes lead them to
        return None


def _size_as_stored(image: ImageFile, name: str) -> tuple[int, int]:
    """Return height and width; PIL says of a TIFF those of the upright picture."""
    if name == "TIFF":
        return image.tag_v2[_HEIGHT], image.tag_v2[_WIDTH]
    return image.height, image.width


def _turned(height: int, width: int, orientation: Any, name: str) -> Facts | None:
    """Return the facts of a picture of that size as it is stored; an orientation that is none is 1."""
    number = int(orientation) if orientation in _ORIENTATIONS else 1
    if max(height, width) > _LARGEST_SIDE:
        return None
    return Facts(width, height, number, name) if number >= _FIRST_SIDEWAYS else Facts(height, width, number, name)
