"""Read images that are stored as pixels (encoding raw): their sizes, or the pixels where they were fetched to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolkit._native.shards.chunks import FetchBuffer
from toolkit.errors import SampleError
from toolkit.format.layout import leaf_name
from toolkit.loader.dataset.fetch import Fetcher, Located, Variable

__all__ = ["RawSizes", "raw_images", "raw_pixels", "raw_sizes", "size_fault"]

_CHANNELS = 3


@dataclass(frozen=True, slots=True)
class RawSizes:
    """Sizes of n raw images: int32 (n,) height and width, int8 (n,) channels, bool (n,) where there is none."""

    height: NDArray[np.int32]
    width: NDArray[np.int32]
    channels: NDArray[np.int8]
    missing: NDArray[np.bool_]

    def shape(self, i: int) -> tuple[int, int, int]:
        """Return (height, width, channels) of image `i`."""
        return int(self.height[i]), int(self.width[i]), int(self.channels[i])

    def shapes(self, run: slice) -> NDArray[np.int64]:
        """Return int64 (m, 3): height, width and channels of the images of `run`."""
        return np.stack((self.height[run], self.width[run], self.channels[run]), axis=1, dtype=np.int64)


def raw_sizes(fetcher: Fetcher, column: str, located: Located) -> RawSizes:
    """Read the sizes and not one pixel. Raises CorruptShardError."""
    rows = len(located.rows)
    height, width, channels = np.empty(rows, np.int32), np.empty(rows, np.int32), np.empty(rows, np.int8)
    missing = np.zeros(rows, np.bool_)
    for name, out in (("height", height), ("width", width), ("channels", channels)):
        missing |= fetcher.fixed(leaf_name(column, name), located, out.view(np.uint8))
    return RawSizes(height, width, channels, missing)


def raw_pixels(fetcher: Fetcher, column: str, located: Located, buffer: FetchBuffer) -> Variable:
    """Fetch the pixels of images, row after row, into `buffer`. Raises CorruptShardError."""
    return fetcher.variable(leaf_name(column, "pixels"), located, buffer)


def raw_images(fetcher: Fetcher, column: str, located: Located, pixels: Variable) -> Iterator[NDArray[np.uint8] | None]:
    """Yield each image as uint8 (height, width, 3), RGB, or None where it is missing.

    They are read-only and lie in the memory that `pixels` were fetched to, until its next use: copy what is to stay.

    Raises:
        CorruptShardError: A size isn't what was packed.
        SampleError: The pixels don't fit their size; they were packed so.
    """
    sizes = raw_sizes(fetcher, column, located)
    for i in range(len(located.rows)):
        nbytes = int(pixels.lengths[i])
        if nbytes < 0 or sizes.missing[i]:
            yield None
            continue
        fault = size_fault(nbytes, *sizes.shape(i))
        if fault is not None:
            place = fetcher.place(int(located.rows[i]))
            raise SampleError(
                f"{place}, column {column}: {fault}. It was packed so: pack it again",
                dataset=place.dataset,
                shard=place.shard,
                row=place.row,
                key=place.key,
                slot=column,
                step="read",
            )
        yield np.asarray(_Fetched(pixels, i, sizes.shape(i)))


def size_fault(nbytes: int, height: int, width: int, channels: int) -> str | None:
    """Say why pixels don't fit the size that is stored beside them, or None."""
    if channels != _CHANNELS or height < 1 or width < 1:
        return f"no size of a raw image: {height} x {width} pixels, {channels} channels"
    if nbytes != height * width * channels:
        return f"{nbytes} bytes of pixels for a raw image of {height} x {width} x {channels}"
    return None


class _Fetched:
    """A fetched value, for numpy to see as an array. Keeps the buffer alive."""

    def __init__(self, pixels: Variable, i: int, shape: tuple[int, int, int]) -> None:
        self._pixels = pixels
        address = int(pixels.addresses[i])
        self.__array_interface__ = {"data": (address, True), "shape": shape, "typestr": "|u1", "version": 3}
