"""Pictures of a batch's column, as boxes of them are cut out: which axes are height and width."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolkit.pipelines.batch.step import BatchColumn, BatchFaultError, FilledColumns
from toolkit.pipelines.state import Layout, MisfitError

__all__ = ["Pictures", "check_pictures", "find_pictures", "kept_beside"]


@dataclass(frozen=True, slots=True)
class Pictures:
    """A column of pictures of one size: (n, planes, height, width, pixel bytes) in C order, whatever its layout."""

    values: NDArray[Any]
    planes: int
    height: int
    width: int
    pixel: int

    @property
    def raw(self) -> NDArray[np.uint8]:
        """Its bytes, uint8 (all of them,)."""
        return self.values.reshape(-1).view(np.uint8)


def check_pictures(name: str, column: BatchColumn) -> None:
    """Raise MisfitError when boxes can't be cut out of a column."""
    state = column.state
    if state is None:
        return
    if state.fixed_shape is None:
        raise MisfitError(f"pictures of one size in column {name!r}", state, "resize or crop them before")
    if state.layout is None and len(state.fixed_shape) != 2:
        raise MisfitError(
            f"pictures in column {name!r}", state, "only slots that decode images say which axis is which"
        )


def _pictures_of(batch: FilledColumns, name: str) -> Pictures:
    """Return a column's pictures. Raises BatchFaultError: they are none."""
    values = batch.array(name)
    state = batch.known[name].state if name in batch.known else None
    sizes, item = values.shape[1:], values.itemsize
    if state is not None and state.layout is not None and len(sizes) == 3:
        if state.layout is Layout.CHW:
            return Pictures(values, *sizes, item)
        return Pictures(values, 1, sizes[0], sizes[1], sizes[2] * item)
    if len(sizes) == 2:
        return Pictures(values, 1, *sizes, item)
    raise BatchFaultError(
        f"column {name!r} is {values.dtype} {values.shape}, made by a function: which axis is the height isn't known. "
        "Put the function behind this step"
    )


def find_pictures(batch: FilledColumns, names: tuple[str, ...]) -> list[Pictures]:
    """Return columns of pictures, all of one size: boxes are the same in all. Raises BatchFaultError."""
    pictures = [_pictures_of(batch, name) for name in names]
    first = pictures[0]
    for name, each in zip(names, pictures, strict=True):
        if (each.height, each.width) != (first.height, first.width):
            raise BatchFaultError(
                f"column {names[0]!r} is {first.height} x {first.width} and {name!r} {each.height} x "
                f"{each.width}: boxes are the same in all columns, which must have one size"
            )
    return pictures


def kept_beside(boxes: NDArray[np.int64], height: int, width: int) -> NDArray[np.float32]:
    """Return float32 (k,): the share of a picture that boxes (k, 4), (top, bottom, left, right), leave of it."""
    area = (boxes[:, 1] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 2])
    kept: NDArray[np.float64] = 1 - area / max(1, height * width)
    return kept.astype(np.float32)
