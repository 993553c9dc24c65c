"""The stage of a slot whose images are stored as pixels: what an encoded image gives, without decoding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolkit._native.image import ImageError
from toolkit.loader.fetch import Variable
from toolkit.loader.raw_images import RawSizes, raw_images, raw_sizes
from toolkit.loader.slot_stage import ImageStage
from toolkit.loader.stage import Part, WorkerMemory
from toolkit.pipelines.image import Failure

__all__ = ["RawImageStage"]


@dataclass(frozen=True, slots=True)
class _Pixels(Variable):
    """Fetched pixels with their sizes."""

    sizes: RawSizes


class RawImageStage(ImageStage):
    """An image slot over pixels."""

    def _fetch(self, part: Part, memory: WorkerMemory) -> _Pixels:
        pixels = super()._fetch(part, memory)
        sizes = raw_sizes(self._fetcher, self._compiled.slot.column, part.located)
        return _Pixels(pixels.addresses, np.where(sizes.missing, -1, pixels.lengths), pixels.buffer, sizes)

    def _decode(
        self, images: Variable, run: slice, out: Any, keys: NDArray[np.uint64] | None, part: Part, memory: WorkerMemory
    ) -> list[Failure]:
        assert isinstance(images, _Pixels)
        if not isinstance(out, list):
            sizes = images.sizes.shapes(run)
            if (images.lengths[run] == sizes.prod(1)).all() and (sizes[:, 2] == 3).all() and (sizes > 0).all():
                return self._image.run_raw(images.addresses[run], sizes, out, memory.scratch, keys)
        # One by one: for images of any size, and for the error that names the one whose pixels don't fit.
        located = part.located.part(run)
        pixels = Variable(images.addresses[run], images.lengths[run], images.buffer)
        pictures = raw_images(self._fetcher, self._compiled.slot.column, located, pixels)
        for i, picture in enumerate(picture for picture in pictures if picture is not None):
            try:
                out[i] = self._image.apply(picture, memory.scratch, None if keys is None else int(keys[i]))
            except (ImageError, ValueError, MemoryError) as error:
                return [Failure(i, "decode_image", str(error))]
        return []
