"""Run an image slot: JPEG in one native call for a part of a batch, every other format through PIL."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolkit._native.image import program as native
from toolkit._native.image.program import (
    CUT,
    NOT_JPEG,
    OK,
    TOO_LARGE,
    UNFIT,
    UNSUPPORTED,
    ImageError,
    ImageProgram,
    Scratch,
    probe,
)
from toolkit._native.shards.fetch import FetchBuffer
from toolkit.pipelines.draw_names import draw_names
from toolkit.pipelines.image.decode import check_colour_management, decode_with_pil
from toolkit.pipelines.image.decode_step import Accuracy, DecodeImage, Mode, Truncated
from toolkit.pipelines.image.finish import Patchify
from toolkit.pipelines.image.ops import first_too_large, split_steps
from toolkit.pipelines.step import Step

__all__ = ["CompiledImage", "Failure", "TruncatedImageWarning", "run_together"]


_ASKED = (NOT_JPEG, UNSUPPORTED, TOO_LARGE, UNFIT)


class TruncatedImageWarning(UserWarning):
    """An image ended too early and was taken, gray where it lacks pixels."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A sample of a part that could not be decoded or transformed; `step` is the one that failed, as it is written."""

    index: int
    step: str
    message: str


class CompiledImage:
    """An image slot, compiled. Immutable; used by every worker at once, each with its own Scratch.

    Args:
        column: The column's name, for messages.
        steps: decode_image first, then steps on pixels, then normalize, cast and layout.

    Attributes:
        decoding: The decode_image.
        shape: Shape of a sample, or None when it depends on the picture: then samples come one by one.
        dtype: Of the samples in memory.
        logical_dtype: The same by name, but "bfloat16" where the memory is uint16.
        random: Whether a step draws, so that every sample needs a key.

    Raises:
        ValueError: A step has an argument that the kernels do not take, or steps stand in an order that they do not.
    """

    def __init__(self, column: str, steps: Sequence[Step]) -> None:
        decode, *rest = steps
        if not isinstance(decode, DecodeImage):
            raise ValueError(f"the first step must be decode_image, not {type(decode).__name__}")
        if decode.icc:
            check_colour_management()
        self.decoding = decode
        self._steps = tuple(steps)
        ops, finish, tensor_ops = split_steps(rest, draw_names(rest))
        options: dict[str, Any] = {
            "mode": decode.mode.value,
            "max_pixels": decode.max_pixels,
            "max_bytes": decode.max_bytes,
            "exif": decode.exif,
            "icc": decode.icc,
            "fast": decode.accuracy is Accuracy.FAST,
            "tolerant": decode.truncated is Truncated.WARN,
            **finish,
        }
        if decode.mode is Mode.ID:
            options = {"dtype": "int32", "ignore": decode.ignore} | options
        self._ops = ops
        self._program = ImageProgram(ops, tensor_ops=tensor_ops, first_step=2, **options)  # the first is decode_image
        self.column = column
        self.shape: tuple[int, ...] | None = self._program.output_shape
        self.dtype: np.dtype[Any] = self._program.output_dtype
        self.logical_dtype: str = options.get("dtype", "uint8")
        self.random = self._program.random

    def kernels(self) -> list[tuple[int, str]]:
        """Return what runs each step, by the step's index."""
        return [(place, step.native) for place, step in enumerate(self._steps)]

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
            keys: uint64 (n,), what each sample's random steps draw from; None when no step is random.
        """
        missing = np.flatnonzero(lengths < 0)
        if len(missing):
            return [Failure(int(i), self._steps[0].text(), "the image is null") for i in missing]
        if isinstance(out, list):
            return self._one_by_one(addresses, lengths, buffer, out, scratch, keys)
        statuses = np.empty(len(lengths), np.int32)
        if not self._program.run(addresses, lengths, *_places(out), scratch, statuses, keys):
            return []
        return _settle([self], statuses[None], addresses, lengths, buffer, [out], scratch, [keys])[0]

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
            sizes: int64 (n, 3), height, width and channels (1, 3 or 4) of each.
            out: (n, *shape); the pipeline must have a fixed shape. See `apply` for one picture of any.
            scratch: This thread's own.
            keys: As in `run`.
        """
        statuses = np.empty(len(addresses), np.int32)
        places, sample_bytes = _places(out)
        if not self._program.run_raw(addresses, sizes, places, sample_bytes, scratch, statuses, keys):
            return []
        errors = {i: ImageError(int(statuses[i]), scratch.message(i)) for i in np.flatnonzero(statuses != OK).tolist()}
        return [self.failure(i, error, tuple(sizes[i].tolist()), keys) for i, error in errors.items()]

    def decode(self, encoded: bytes, scratch: Scratch, key: int | None = None) -> NDArray[Any]:
        """Decode and transform one image into an array of its own. Raises ImageError or ValueError."""
        made = self._decode_jpeg(encoded, scratch, key)
        return self.apply(decode_with_pil(encoded, self.decoding, scratch), scratch, key) if made is None else made

    def apply(self, pixels: NDArray[np.uint8], scratch: Scratch, key: int | None = None) -> NDArray[Any]:
        """Transform uint8 (height, width, channels) pixels into an array of its own. Raises as decode does."""
        return self._program.apply(pixels, scratch, key)

    def failure(
        self, index: int, error: Exception, picture: bytes | tuple[int, ...], keys: NDArray[np.uint64] | None
    ) -> Failure:
        """Return what to say of sample `index` of a part that failed.

        Args:
            index: Its number.
            error: Why it failed.
            picture: The JPEG; or of pixels their height, width and channels.
            keys: As in `run`.
        """
        failed = 0
        if isinstance(error, ImageError) and error.status in (TOO_LARGE, UNFIT):
            # Too large as it is stored, or a step makes it so, or can't be done: the first step behind which that is.
            mode, most = self.decoding.mode.value, self.decoding.max_pixels
            with contextlib.suppress(ImageError):
                height, width, *_ = self._size_of_jpeg(picture) if isinstance(picture, bytes) else picture
                key = None if keys is None else int(keys[index])
                failed = first_too_large(self._ops, mode, most, height, width, key)
                # Patches are cut when pixels are written.
                patchify = [place for place, step in enumerate(self._steps) if isinstance(step, Patchify)]
                if failed == 0 and patchify and error.status == UNFIT:
                    failed = patchify[0]
        return Failure(index, self._steps[failed].text(), str(error))

    def _decode_jpeg(self, encoded: bytes, scratch: Scratch, key: int | None) -> NDArray[Any] | None:
        """Return what becomes of a JPEG; None: PIL has to decode it. Raises ImageError."""
        try:
            return self._program.decode(encoded, scratch, key, self._warn)
        except ImageError as error:
            if error.status not in (NOT_JPEG, UNSUPPORTED):
                raise
            return None

    def _size_of_jpeg(self, encoded: bytes) -> tuple[int, int]:
        """Return the height and width, upright. Raises ImageError."""
        width, height, _, orientation, _ = probe(encoded)
        return (width, height) if self.decoding.exif and orientation >= 5 else (height, width)

    def _one_by_one(
        self,
        addresses: NDArray[np.uint64],
        lengths: NDArray[np.int64],
        buffer: FetchBuffer,
        out: list[NDArray[np.generic] | None],
        scratch: Scratch,
        keys: NDArray[np.uint64] | None,
    ) -> list[Failure]:
        failures = []
        for i in range(len(lengths)):
            encoded = buffer.take(int(addresses[i]), int(lengths[i]))
            key = None if keys is None else int(keys[i])
            picture: bytes | tuple[int, ...] = encoded
            try:
                made = self._decode_jpeg(encoded, scratch, key)
                if made is None:
                    pixels = decode_with_pil(encoded, self.decoding, scratch)
                    picture = pixels.shape
                    made = self.apply(pixels, scratch, key)
                out[i] = made
            except (ImageError, ValueError, MemoryError) as error:
                failures.append(self.failure(i, error, picture, keys))
        return failures

    def _run_anew(
        self, status: int, message: str, picture: _Picture, place: NDArray[np.generic], key: NDArray[np.uint64] | None
    ) -> None:
        """Run on a picture that the native call left to others, and said why. Raises as decode does."""
        if status == CUT:
            self._warn(message)
            return
        if status not in (NOT_JPEG, UNSUPPORTED):
            raise ImageError(status, message)
        pixels = picture.decode()
        address, size = np.array([pixels.ctypes.data], np.uint64), np.array([pixels.shape], np.int64)
        failed = np.empty(1, np.int32)
        if self._program.run_raw(address, size, *_places(place), picture.scratch, failed, key):
            raise ImageError(int(failed[0]), picture.scratch.message(0))

    def _warn(self, message: str) -> None:
        warnings.warn(f"column {self.column!r}: {message}", TruncatedImageWarning, stacklevel=2)


def run_together(
    images: Sequence[CompiledImage],
    addresses: NDArray[np.uint64],
    lengths: NDArray[np.int64],
    buffer: FetchBuffer,
    outs: Sequence[NDArray[np.generic]],
    scratch: Scratch,
    keys: Sequence[NDArray[np.uint64] | None],
) -> list[list[Failure]]:
    """Do what `run` of each image does, and decode each picture once for all of them where that is less work.

    Args:
        images: Of slots that read one column, with the same `decode` and each with a fixed shape.
        addresses: As in `run`; no image is missing.
        lengths: As in `run`.
        buffer: As in `run`.
        outs: Of each image, as in `run`.
        scratch: As in `run`.
        keys: Of each image, as in `run`.
    """
    statuses = np.empty((len(images), len(lengths)), np.int32)
    places, sizes = zip(*map(_places, outs), strict=True)
    programs = [image._program for image in images]
    if not native.run_together(
        programs, addresses, lengths, np.stack(places), np.array(sizes, np.int64), scratch, statuses, keys
    ):
        return [[] for _ in images]
    return _settle(images, statuses, addresses, lengths, buffer, outs, scratch, keys)


class _Picture:
    """An encoded picture that the native call could not decode, or may not have: PIL decodes it, once for all."""

    def __init__(self, encoded: bytes, step: DecodeImage, scratch: Scratch) -> None:
        self.encoded, self.scratch = encoded, scratch
        self._step = step
        # Why not, in words: an error holds the frames that hold it, and with them memory that others wait for.
        self._made: NDArray[np.uint8] | str | None = None

    @property
    def known(self) -> bytes | tuple[int, ...]:
        """What tells its size: the JPEG, or that of the pixels."""
        return self._made.shape if isinstance(self._made, np.ndarray) else self.encoded

    def decode(self) -> NDArray[np.uint8]:
        """Return the pixels. Raises ValueError, MemoryError."""
        if self._made is None:
            try:
                self._made = decode_with_pil(self.encoded, self._step, self.scratch)
            except (ValueError, MemoryError) as error:
                self._made = str(error)
                raise
        if isinstance(self._made, str):
            raise ValueError(self._made)
        return self._made


def _settle(
    images: Sequence[CompiledImage],
    statuses: NDArray[np.int32],
    addresses: NDArray[np.uint64],
    lengths: NDArray[np.int64],
    buffer: FetchBuffer,
    outs: Sequence[NDArray[np.generic]],
    scratch: Scratch,
    keys: Sequence[NDArray[np.uint64] | None],
) -> list[list[Failure]]:
    """Let PIL decode what it may, and return what failed of each image. `statuses`: int32 (images, samples)."""
    failures: list[list[Failure]] = [[] for _ in images]
    said = {at: scratch.message(at) for at in np.flatnonzero(statuses != OK).tolist()}  # before another call
    for i in np.flatnonzero((statuses != OK).any(0)).tolist():
        # A file is copied only where PIL may help, or its header says which step is too much.
        is_asked = np.isin(statuses[:, i], _ASKED).any()
        step = images[0].decoding
        is_asked = is_asked and lengths[i] <= step.max_bytes
        picture = _Picture(buffer.take(int(addresses[i]), int(lengths[i])) if is_asked else b"", step, scratch)
        for number, image in enumerate(images):
            status = int(statuses[number, i])
            if status == OK:
                continue
            one, own = slice(i, i + 1), keys[number]
            try:
                message = said[number * len(lengths) + i]
                image._run_anew(status, message, picture, outs[number][one], None if own is None else own[one])
            except (ImageError, ValueError, MemoryError) as error:
                failures[number].append(image.failure(i, error, picture.known, own))
    return failures


def _places(out: NDArray[np.generic]) -> tuple[NDArray[np.uint64], int]:
    """Return the address of each sample in a batch, and a sample's bytes."""
    sample_bytes = out[0].nbytes if len(out) else 0
    return np.uint64(out.ctypes.data) + np.arange(len(out), dtype=np.uint64) * np.uint64(sample_bytes), sample_bytes
