"""The stage of an image column that is stored as pixels: as they are, or through a slot whose decoding is done."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from toolkit._native.image import ImageError
from toolkit.loader.fetch import Fetcher, Located
from toolkit.loader.raw_images import raw_images, raw_pixels
from toolkit.loader.stages import ColumnStage, WorkerMemory
from toolkit.loader.stats import LoaderStats
from toolkit.memory.pool import BlockPool
from toolkit.pipelines.image import CompiledImage

__all__ = ["RawImageStage"]


class RawImageStage(ColumnStage):
    """Without a slot a list of uint8 (height, width, 3), None where missing; with one, what an encoded image gives."""

    def __init__(self, column: str, compiled: CompiledImage | None, fetcher: Fetcher, stats: LoaderStats) -> None:
        super().__init__(column, fetcher, stats)
        self._compiled = compiled

    def allocate(self, samples: int, pool: BlockPool) -> Any:
        """Return (samples, *shape) of the slot's dtype, or a list where each image has a size of its own."""
        compiled = self._compiled
        if compiled is None or compiled.shape is None:
            return [None] * samples
        full = (samples, *compiled.shape)
        nbytes = int(np.prod(full, dtype=np.int64)) * compiled.dtype.itemsize
        return pool.lend(nbytes).view(compiled.dtype).reshape(full)

    def fill(self, place: Any, start: int, located: Located, memory: WorkerMemory) -> None:
        """Fetch and transform straight into the batch."""
        begun = time.perf_counter()
        pixels = raw_pixels(self._fetcher, self.column, located, memory.fetched)
        fetched = time.perf_counter()
        for i, image in enumerate(raw_images(self._fetcher, self.column, located, pixels)):
            if self._compiled is None:
                place[start + i] = None if image is None else image.copy()
                continue
            if image is None:
                raise self._failed(int(located.rows[i]), "decode_image", "the image is null")
            out = None if isinstance(place, list) else place[start + i]
            try:
                made = self._compiled.transform(image, out, memory.scratch)
            except (ImageError, ValueError, MemoryError) as error:
                raise self._failed(int(located.rows[i]), "decode_image", str(error)) from error
            if out is None:
                place[start + i] = made
        self._stats.add(
            fetch_seconds=fetched - begun,
            decode_seconds=time.perf_counter() - fetched,
            fetched_bytes=int(pixels.lengths[pixels.lengths > 0].sum()),
        )
