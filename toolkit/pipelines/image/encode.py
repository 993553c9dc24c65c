"""Make what a pack stores of an image: nothing but a check, a JPEG, or pixels.

Decoding is that of a loader, so that raw pixels are those that `decode_image()` gives. JPEGs are decoded, resized and
encoded without the GIL; other formats are decoded by PIL.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from toolkit._native.image.encode import JpegEncoder
from toolkit._native.image.program import NOT_JPEG, UNSUPPORTED, ImageError, ImageProgram, Scratch, probe
from toolkit.format.encodings import Encoding, ImageEncoding
from toolkit.format.media import IMAGE_TYPE, RAW_IMAGE_TYPE
from toolkit.pipelines.image.decode import decode_with_pil
from toolkit.pipelines.image.decode_step import DecodeImage
from toolkit.pipelines.medium import Encoder, Shaping, UnfitMediumError

__all__ = ["ImageEncoder", "StoredImage"]

_MOST_BYTES = 1 << 62  # what is packed may have any size
_CHANNELS = 3

_Pixels = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class StoredImage:
    """What is stored of an image; `data` is None where the source's own bytes are."""

    data: bytes | memoryview | None
    height: int
    width: int

    @property
    def nbytes(self) -> int:
        """Bytes of `data`."""
        return 0 if self.data is None else memoryview(self.data).nbytes


class _Tools(threading.local):
    """One thread's memory."""

    def __init__(self) -> None:
        self.scratch = Scratch()
        self.encoder = JpegEncoder()


class ImageEncoder(Encoder):
    """Decodes images, makes large ones smaller and encodes them. Used by every packing thread at once."""

    def __init__(self, shaping: Shaping) -> None:
        """Raises UsageError: no encoding of images."""
        max_pixels, short_side = shaping.max_pixels, shaping.short_side
        self._encoding = ImageEncoding.parse(shaping.encoding)
        self._short_side = short_side
        self._step = DecodeImage(max_bytes=_MOST_BYTES, max_pixels=max_pixels)  # else as a loader does
        self._as_it_is = ImageProgram([], max_pixels=max_pixels)
        self._smaller = ImageProgram(
            [("resize_short", {"size": short_side or 1, "filter": "bilinear"})], max_pixels=max_pixels
        )
        self._tools = _Tools()

    def make(self, payload: memoryview) -> StoredImage:
        """Return what is stored of an image. Raises UnfitMediumError."""
        try:
            pixels = self._decode(payload)
            height, width = pixels.shape[:2]
            match self._encoding.encoding:
                case Encoding.KEEP:
                    return StoredImage(None, height, width)
                case Encoding.JPEG:
                    quality = self._encoding.quality or 0
                    return StoredImage(self._tools.encoder.encode(pixels, quality), height, width)
                case Encoding.RAW:
                    return StoredImage(pixels.data, height, width)
        except (ValueError, MemoryError) as error:  # ImageError and EncodeError are ValueErrors
            raise UnfitMediumError(str(error) or "no memory to decode it") from error

    def array(self, made: Sequence[StoredImage | None], column: pa.Array) -> pa.Array:
        """Return the column's new values; `column` has the source's, row for row."""
        missing = pa.array([image is None for image in made], pa.bool_())
        there = [image or StoredImage(b"", 0, 0) for image in made]
        match self._encoding.encoding:
            case Encoding.KEEP:
                return column
            case Encoding.JPEG:
                import pyarrow.compute as pc  # late, as in toolkit.pack.shape

                parts = [_binary(there, pa.binary()), pc.struct_field(column, "path")]
                return pa.StructArray.from_arrays(parts, fields=list(IMAGE_TYPE), mask=missing)
            case Encoding.RAW:
                parts = [
                    _binary(there, pa.large_binary()),
                    pa.array([image.height for image in there], pa.int32()),
                    pa.array([image.width for image in there], pa.int32()),
                    pa.array([_CHANNELS] * len(there), pa.int8()),
                ]
                return pa.StructArray.from_arrays(parts, fields=list(RAW_IMAGE_TYPE), mask=missing)

    def _decode(self, encoded: memoryview) -> _Pixels:
        """Return uint8 (height, width, 3), RGB, EXIF applied, resized."""
        scratch = self._tools.scratch
        try:
            program = self._as_it_is
            if self._short_side is not None:
                height, width, *_ = probe(encoded)
                program = self._program(height, width)
            return program.decode(encoded, scratch)
        except ImageError as error:
            if error.status not in (NOT_JPEG, UNSUPPORTED):
                raise
        pixels = decode_with_pil(bytes(encoded), self._step)
        program = self._program(*pixels.shape[:2])
        return pixels if program is self._as_it_is else program.apply(pixels, scratch)

    def _program(self, height: int, width: int) -> ImageProgram:
        small = self._short_side is None or min(height, width) <= self._short_side
        return self._as_it_is if small else self._smaller


def _binary(images: Sequence[StoredImage], dtype: pa.DataType) -> pa.Array:
    """Return the images' data as one array, copied once."""
    offsets = np.zeros(len(images) + 1, np.int32 if dtype == pa.binary() else np.int64)
    np.cumsum([image.nbytes for image in images], out=offsets[1:])
    data = pa.py_buffer(b"".join(image.data for image in images if image.data is not None))
    return pa.Array.from_buffers(dtype, len(images), [None, pa.py_buffer(offsets), data])
