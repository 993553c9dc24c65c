"""Run an image slot: JPEG in one native call for a part of a batch, every other format through PIL."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolkit._native.chunks import FetchBuffer
from toolkit._native.image import NOT_JPEG, OK, UNSUPPORTED, ImageError, ImageProgram, Scratch
from toolkit.pipelines.pillow import to_rgb
from toolkit.pipelines.slots import Slot
from toolkit.pipelines.spec import DecodeImage, Normalize

__all__ = ["CompiledImage", "Failure", "decode_with_pil"]


@dataclass(frozen=True, slots=True)
class Failure:
    """A sample of a part that could not be decoded or transformed."""

    index: int
    step: str
    message: str


class CompiledImage:
    """An image slot, checked and compiled. Immutable; used by every worker at once, each with its own Scratch.

    Attributes:
        shape: Shape of a sample, or None when it depends on the picture: then samples come one by one.
        dtype: uint8 HWC pixels, or float32 CHW after normalize.
    """

    def __init__(self, slot: Slot, stages: Sequence[tuple[int, int, int]], normalize: Normalize | None) -> None:
        decode = slot.steps[0]
        self._max_pixels = decode.max_pixels if isinstance(decode, DecodeImage) else 0
        scale = bias = None
        if normalize is not None:
            # One multiply and one add a value: pixel / 255 / std - mean / std, rounded once to float32.
            scale = [1 / (255 * std) for std in normalize.std]
            bias = [-mean / std for mean, std in zip(normalize.mean, normalize.std, strict=True)]
        self._program = ImageProgram(stages, scale=scale, bias=bias, max_pixels=self._max_pixels)
        self.column = slot.column
        self.shape: tuple[int, ...] | None = self._program.output_shape
        self.dtype: np.dtype[np.uint8] | np.dtype[np.float32] = self._program.output_dtype

    def run(
        self,
        addresses: NDArray[np.uint64],
        lengths: NDArray[np.int64],
        buffer: FetchBuffer,
        out: NDArray[np.generic] | list[NDArray[np.generic] | None],
        scratch: Scratch,
    ) -> list[Failure]:
        """Decode and transform the encoded images at `addresses` into `out`; return those that failed.

        Args:
            addresses: uint64 (n,), into `buffer`.
            lengths: int64 (n,), -1 where there is no image.
            buffer: What the addresses point into.
            out: (n, *shape) with a fixed shape, else a list of n places.
            scratch: This thread's own.
        """
        missing = np.flatnonzero(lengths < 0)
        if len(missing):
            return [Failure(int(i), "decode_image", "the image is null") for i in missing]
        if isinstance(out, list):
            return self._one_by_one(addresses, lengths, buffer, out, scratch)
        statuses = np.empty(len(lengths), np.int32)
        sample_bytes = out[0].nbytes if len(out) else 0
        places = np.uint64(out.ctypes.data) + np.arange(len(out), dtype=np.uint64) * np.uint64(sample_bytes)
        failures = []
        if self._program.run(addresses, lengths, places, sample_bytes, scratch, statuses):
            for i in np.flatnonzero(statuses != OK).tolist():
                if statuses[i] in (NOT_JPEG, UNSUPPORTED):
                    encoded = buffer.take(int(addresses[i]), int(lengths[i]))
                    try:
                        pixels = decode_with_pil(encoded, self._max_pixels)
                        self._program.run_pixels(pixels, int(places[i]), sample_bytes, scratch)
                    except (ImageError, ValueError, MemoryError) as error:
                        failures.append(Failure(i, "decode_image", str(error)))
                else:
                    failures.append(Failure(i, "decode_image", scratch.message(i)))
        return failures

    def _one_by_one(
        self,
        addresses: NDArray[np.uint64],
        lengths: NDArray[np.int64],
        buffer: FetchBuffer,
        out: list[NDArray[np.generic] | None],
        scratch: Scratch,
    ) -> list[Failure]:
        failures = []
        for i in range(len(lengths)):
            encoded = buffer.take(int(addresses[i]), int(lengths[i]))
            try:
                out[i] = self.decode(encoded, scratch)
            except (ImageError, ValueError, MemoryError) as error:
                failures.append(Failure(i, "decode_image", str(error)))
        return failures

    def decode(self, encoded: bytes, scratch: Scratch) -> NDArray[np.generic]:
        """Decode and transform one image into an array of its own. Raises ImageError or ValueError."""
        try:
            return self._program.decode(encoded, scratch)
        except ImageError as error:
            if error.status not in (NOT_JPEG, UNSUPPORTED):
                raise
        return self._program.apply(decode_with_pil(encoded, self._max_pixels), scratch)

    def transform(
        self, pixels: NDArray[np.uint8], out: NDArray[np.generic] | None, scratch: Scratch
    ) -> NDArray[np.generic]:
        """Transform an image that is decoded already, as run() does.

        Args:
            pixels: uint8 (height, width, 3), RGB.
            out: Where the result goes, of `shape`; a new array when None.
            scratch: This thread's own.

        Raises:
            ImageError, ValueError: It can't be transformed.
        """
        if out is None:
            return self._program.apply(pixels, scratch)
        self._program.run_pixels(pixels, out.ctypes.data, out.nbytes, scratch)
        return out


def decode_with_pil(encoded: bytes, max_pixels: int) -> NDArray[np.uint8]:
    """Decode any format PIL knows to uint8 (height, width, 3), EXIF orientation applied.

    Raises:
        ValueError: It is no image, is truncated, or has more than `max_pixels`.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(encoded)) as image:
            if image.width * image.height > max_pixels:
                raise ValueError(f"{image.width}x{image.height} is more than max_pixels={max_pixels}")
            return np.ascontiguousarray(to_rgb(ImageOps.exif_transpose(image), image.format), np.uint8)
    except UnidentifiedImageError as error:  # names an address in memory
        raise ValueError("not an image: no format that is known") from error
    except Exception as error:  # PIL's plugins raise whatever damaged bytes lead them to
        raise ValueError(str(error) or type(error).__name__) from error
