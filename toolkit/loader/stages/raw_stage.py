"""The stage of a slot whose images are stored as pixels: what an encoded image gives, without decoding."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolkit._native.image.program import ImageError
from toolkit._native.shards.body import READ_OK
from toolkit.loader.dataset.decoded import DecodedColumn, Sizes
from toolkit.loader.dataset.located import Variable
from toolkit.loader.engine.stats import LoaderStats
from toolkit.loader.stages.memory import SampleMemory
from toolkit.loader.stages.readers import ColumnReader
from toolkit.loader.stages.slot_stage import ImageStage
from toolkit.loader.stages.stage import ColumnStage, Part
from toolkit.pipelines.build import CompiledSlot
from toolkit.pipelines.image.compiled import CompiledImage, Failure
from toolkit.pipelines.image.windows import Windows, plain_windows

__all__ = ["RawImageStage"]


@dataclass(frozen=True, slots=True)
class _Pixels(Variable):
    """Fetched pixels with their sizes."""

    sizes: Sizes


class RawImageStage(ImageStage):
    """An image slot over pixels. One that only crops copies the rows it keeps out of the map into the batch."""

    def __init__(
        self,
        compiled: CompiledSlot,
        image: CompiledImage,
        pixels: DecodedColumn,
        reader: ColumnReader,
        seed: int,
        stats: LoaderStats,
    ) -> None:
        super().__init__(compiled, image, pixels.leaf, reader, seed, stats)
        self._pixels = pixels
        self._windows = plain_windows(compiled.slot.steps)
        if self._windows is not None:
            self.largest_part = ColumnStage.largest_part
            self.shares = None  # it fetches less than the others

    def fill(self, place: Any, part: Part, memory: SampleMemory) -> None:
        """Copy the crops; what isn't sound goes the way of other slots, which say why."""
        begun = time.perf_counter()
        if self._windows is None or not self._cut(self._windows, place[part.places], part):
            super().fill(place, part, memory)
            return
        self._note(part, np.ones(len(part.positions), np.bool_))
        self._stats.add(fetch_seconds=time.perf_counter() - begun, fetched_bytes=place[part.places].nbytes)

    def _cut(self, windows: Windows, out: NDArray[np.uint8], part: Part) -> bool:
        """Copy the windows of the part's images to `out`; False, and nothing done, when an image is not sound."""
        sizes = self._pixels.sizes(part.located)
        found = self._fetcher.find(self._leaf, part.located)
        height, width, channels = sizes.shapes.T
        pixels = height * width
        sound = (found.lengths == 3 * pixels) & (channels == 3) & ~sizes.missing & (np.minimum(height, width) > 0)
        if not (sound & (found.statuses == READ_OK) & (pixels <= windows.max_pixels)).all():
            return False
        first_row, rows, top = windows.side(height, vertical=True)
        first_column, columns, left = windows.side(width, vertical=False)
        starts = found.starts + 3 * (first_row * width + first_column)
        inside = np.stack((top, 3 * left, rows, 3 * columns), axis=1)
        self._fetcher.windows(self._leaf, part.located, starts, 3 * width, inside, out.reshape(*out.shape[:2], -1))
        return True

    def _fetch(self, part: Part, memory: SampleMemory) -> _Pixels:
        pixels = super()._fetch(part, memory)
        sizes = self._pixels.sizes(part.located)
        return _Pixels(pixels.addresses, np.where(sizes.missing, -1, pixels.lengths), pixels.buffer, sizes)

    def _decode_all(
        self,
        slots: Sequence[ImageStage],
        images: Variable,
        run: slice,
        outs: Sequence[Any],
        keys: Sequence[NDArray[np.uint64] | None],
        part: Part,
        memory: SampleMemory,
    ) -> list[list[Failure]]:
        """Nothing is decoded: they share what is fetched."""
        each = zip(slots, outs, keys, strict=True)
        return [slot._decode(images, run, out, own, part, memory) for slot, out, own in each]

    def _decode(
        self, images: Variable, run: slice, out: Any, keys: NDArray[np.uint64] | None, part: Part, memory: SampleMemory
    ) -> list[Failure]:
        assert isinstance(images, _Pixels)
        if not isinstance(out, list):
            sizes = images.sizes.shapes[run]
            if (images.lengths[run] == sizes.prod(1)).all() and (sizes[:, 2] == 3).all() and (sizes > 0).all():
                return self._image.run_raw(images.addresses[run], sizes, out, memory.scratch, keys)
        # One by one: for images of any size, and for the error that names the one whose pixels don't fit.
        located = part.located.part(run)
        pixels = Variable(images.addresses[run], images.lengths[run], images.buffer)
        pictures = self._pixels.arrays(located, pixels)
        for i, picture in enumerate(picture for picture in pictures if picture is not None):
            try:
                out[i] = self._image.apply(picture, memory.scratch, None if keys is None else int(keys[i]))
            except (ImageError, ValueError, MemoryError) as error:
                return [self._image.failure(i, error, picture.shape, keys)]
        return []
