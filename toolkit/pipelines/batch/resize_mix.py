"""The step that puts a small copy of a sample's partner into it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from toolkit._native.batch.mix import paste_boxes
from toolkit.pipelines import fields
from toolkit.pipelines.batch.mixing import Mixing, check_blended
from toolkit.pipelines.batch.pairs import Pairs, symmetric_beta
from toolkit.pipelines.batch.pictures import check_pictures, find_pictures, kept_beside
from toolkit.pipelines.batch.step import BatchColumn, BatchStep, FilledColumns, batch_step, made
from toolkit.pipelines.check import BadArgumentError, a_number, a_pair

__all__ = ["resizemix"]

_FIRST, _SECOND, _DOWN, _ACROSS = 2, 3, 4, 5


def _alpha(name: str, value: object) -> float:
    checked = a_number(name, value, least=0)
    if not checked:
        raise BadArgumentError(f"{name} must be above 0, got {value}")
    return checked


def _scale(name: str, value: object) -> tuple[float, float]:
    low, high = a_pair(name, value, least=0, most=1)
    if not high:
        raise BadArgumentError(f"{name} must reach above 0, got {value!r}: leave the step out to mix nothing")
    return low, high


@batch_step
class ResizeMix(Mixing):
    """Pastes partners, made smaller."""

    word = "resizemix"
    scale: tuple[float, float] = fields.argument(_scale, "tuple[float, float]", (0.1, 0.8), keyword=True)
    alpha: float = fields.argument(_alpha, "float", 1.0, keyword=True)

    def check(self, name: str, column: BatchColumn) -> None:
        """Take pictures that can be resized."""
        check_blended(name, column)
        check_pictures(name, column)

    def mix(self, batch: FilledColumns, pairs: Pairs) -> NDArray[np.float32]:
        """Paste into a box each."""
        pictures = find_pictures(batch, self.columns)
        height, width = pictures[0].height, pictures[0].width
        low, high = self.scale
        scales = low + (high - low) * symmetric_beta(self.alpha, pairs.draw(_FIRST), pairs.draw(_SECOND)).astype(float)
        sides = []
        for draw, size in ((pairs.draw(_DOWN), height), (pairs.draw(_ACROSS), width)):
            length = np.maximum(1, (scales * size).astype(np.int64))
            start = (draw * (size - length + 1)).astype(np.int64)
            sides += [start, start + length]
        boxes = np.stack(sides, axis=1)
        for name, each in zip(self.columns, pictures, strict=True):
            if len(pairs):
                channels = each.pixel // each.values.itemsize
                paste_boxes(each.raw, each.planes, height, width, channels, batch.dtype(name), pairs.places, boxes)
        return kept_beside(boxes, height, width)


def resizemix(
    *,
    scale: tuple[float, float] = (0.1, 0.8),
    alpha: float = 1.0,
    columns: str | Sequence[str] = "image",
    label: str | None = "label",
    labels: str = "soft",
    classes: int | None = None,
    smoothing: float = 0.0,
    mode: str = "pair",
    prob: float = 1.0,
    name: str | None = None,
) -> BatchStep:
    """Put a small copy of each picture's partner into it, and mix their labels by its area.

    Qin et al., ResizeMix (2020). The partner's side is floor(side * s), at least 1, with s = low + (high - low) * b
    and b of Beta(alpha, alpha) by draws 2 and 3: uniform at 1, as in the paper. It lies at floor(draw * (side - its
    side + 1)) from the top by draw 4 and from the left by draw 5. What labels keep is 1 - its area / the picture's.
    Pictures are resized with a triangle filter over the pixels that they cover, as Pillow's BILINEAR, in float32.

    Args:
        scale: The range (low, high) of s, within 0..1.
        alpha: Of the Beta distribution that s has in its range, above 0.
        columns: Names of the columns of pictures of one size. Masks of class ids can't be made smaller so.
        label, labels, classes, smoothing, mode, prob, name: As in mixup().

    Raises:
        PipelineError: An argument can't be.
    """
    return made(
        ResizeMix,
        scale=scale,
        alpha=alpha,
        columns=columns,
        label=label,
        labels=labels,
        classes=classes,
        smoothing=smoothing,
        mode=mode,
        prob=prob,
        name=name,
    )
