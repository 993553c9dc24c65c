"""The stage of a slot whose images are stored as pixels: what an encoded image gives, without decoding."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolkit._native.image import ImageError
from toolkit.loader.fetch import Located, Variable
from toolkit.loader.raw_images import raw_images, raw_sizes
from toolkit.loader.slot_stage import ImageStage
from toolkit.loader.stage import Part, WorkerMemory
from toolkit.pipelines.image import Failure

__all__ = ["RawImageStage"]


class RawImageStage(ImageStage):
    """An image slot over pixels."""

    def _fetch(self, part: Part, memory: WorkerMemory) -> Variable:
        pixels = super()._fetch(part, memory)
        missing = raw_sizes(self._fetcher, self._compiled.slot.column, part.located).missing
        return Variable(pixels.addresses, np.where(missing, -1, pixels.lengths), pixels.buffer)

    def _decode(
        self, images: Variable, run: slice, out: Any, keys: NDArray[np.uint64] | None, part: Part, memory: WorkerMemory
    ) -> list[Failure]:
        whole = part.located
        located = Located(whole.rows[run], whole.inner[run], whole.bodies[run])
        pixels = Variable(images.addresses[run], images.lengths[run], images.buffer)
        found = raw_images(self._fetcher, self._compiled.slot.column, located, pixels)
        pictures = [picture for picture in found if picture is not None]
        if not isinstance(out, list):
            sizes = np.array([picture.shape for picture in pictures], np.int64)
            return self._image.run_raw(pixels.addresses, sizes, out, memory.scratch, keys)
        for i, picture in enumerate(pictures):
            try:
                out[i] = self._image.apply(picture, memory.scratch, None if keys is None else int(keys[i]))
            except (ImageError, ValueError, MemoryError) as error:
                return [Failure(i, "decode_image", str(error))]
        return []
