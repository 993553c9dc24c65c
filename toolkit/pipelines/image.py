"""Run an image slot: JPEG in one native call for a part of a batch, every other format through PIL."""

from __future__ import annotations

import ctypes
import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolkit._native.chunks import FetchBuffer
from toolkit._native.image import NOT_JPEG, OK, UNSUPPORTED, ImageError, ImageProgram, Scratch
from toolkit.errors import PipelineError
from toolkit.pipelines.image_steps import CenterCrop, DecodeImage, ImageStep, Normalize, ResizeShort
from toolkit.pipelines.pillow import to_rgb

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

    def __init__(self, column: str, steps: Sequence[ImageStep]) -> None:
        decode = steps[0]
        self._max_pixels = decode.max_pixels if isinstance(decode, DecodeImage) else 0
        stages: list[tuple[int, int, int]] = []
        scale = bias = None
        for step in steps[1:]:
            match step:
                case ResizeShort(size):
                    stages.append((size, 0, 0))
                case CenterCrop(height, width) if stages and stages[-1][1] == 0:
                    stages[-1] = (stages[-1][0], height, width)
                case CenterCrop(height, width):
                    stages.append((0, height, width))
                case Normalize(mean, std):
                    # One multiply and one add a value: pixel / 255 / std - mean / std, rounded once to float32.
                    scale = [1 / (255 * value) for value in std]
                    bias = [-of / value for of, value in zip(mean, std, strict=True)]
                case _:
                    raise PipelineError(f"column {column!r}: {type(step).__name__} is not built yet")
        self._program = ImageProgram(stages, scale=scale, bias=bias, max_pixels=self._max_pixels)
        self._steps = len(steps)
        self.column = column
        self.shape: tuple[int, ...] | None = self._program.output_shape
        self.dtype: np.dtype[np.uint8] | np.dtype[np.float32] = self._program.output_dtype
        self.logical_dtype = self.dtype.name
        self.random = False

    def kernels(self) -> list[tuple[int, str]]:
        """Return what runs each step, by its index."""
        return [(index, "libjpeg-turbo, or PIL" if index == 0 else "native, fused") for index in range(self._steps)]

    def run(
        self,
        addresses: NDArray[np.uint64],
        lengths: NDArray[np.int64],
        buffer: FetchBuffer,
        out: NDArray[np.generic] | list[NDArray[np.generic] | None],
        scratch: Scratch,
        keys: NDArray[np.uint64] | None = None,
    ) -> list[Failure]:
        """Decode and transform the encoded images at `addresses` into `out`; return those that failed.

        Args:
            addresses: uint64 (n,), into `buffer`.
            lengths: int64 (n,), -1 where there is no image.
            buffer: What the addresses point into.
            out: (n, *shape) with a fixed shape, else a list of n places.
            scratch: This thread's own.
            keys: uint64 (n,): the samples' keys, where a step draws.
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

    def decode(self, encoded: bytes, scratch: Scratch, key: int | None = None) -> NDArray[np.generic]:
        """Decode and transform one image into an array of its own. Raises ImageError or ValueError."""
        try:
            return self._program.decode(encoded, scratch)
        except ImageError as error:
            if error.status not in (NOT_JPEG, UNSUPPORTED):
                raise
        return self._program.apply(decode_with_pil(encoded, self._max_pixels), scratch)

    def run_raw(
        self,
        addresses: NDArray[np.uint64],
        sizes: NDArray[np.int64],
        out: NDArray[np.generic],
        scratch: Scratch,
        keys: NDArray[np.uint64] | None = None,
    ) -> list[Failure]:
        """Transform pictures that are stored as pixels into `out`, without decoding; return those that failed.

        Args:
            addresses: uint64 (n,), first byte of each: uint8 (height, width, channels), upright.
            sizes: int64 (n, 3), height, width and channels of each.
            out: (n, *shape); the pipeline must have a fixed shape. See `apply` for one picture of any.
            scratch: This thread's own.
            keys: As in `run`.
        """
        failures = []
        for i, (address, size) in enumerate(zip(addresses.tolist(), sizes.tolist(), strict=True)):
            held = (ctypes.c_uint8 * (size[0] * size[1] * size[2])).from_address(address)
            try:
                self._program.run_pixels(
                    np.frombuffer(held, np.uint8).reshape(size), out[i].ctypes.data, out[i].nbytes, scratch
                )
            except (ImageError, ValueError, MemoryError) as error:
                failures.append(Failure(i, "decode_image", str(error)))
        return failures

    def apply(self, pixels: NDArray[np.uint8], scratch: Scratch, key: int | None = None) -> NDArray[np.generic]:
        """Transform uint8 (height, width, channels) pixels into an array of its own. Raises as decode does."""
        return self._program.apply(pixels, scratch)


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
