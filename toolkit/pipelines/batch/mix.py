"""Steps that mix each two samples of a batch: mixup, cutmix, and one or the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from toolkit._native.batch.mix import swap_boxes
from toolkit.pipelines import fields
from toolkit.pipelines.batch.mixing import Mixing, blend_column, check_blended
from toolkit.pipelines.batch.pairs import Pairs, symmetric_beta
from toolkit.pipelines.batch.pictures import check_pictures, find_pictures, kept_beside
from toolkit.pipelines.batch.step import BatchColumn, BatchStep, FilledColumns, batch_step, made
from toolkit.pipelines.check import BadArgumentError, a_number

__all__ = ["cutmix", "make_boxes", "mixup", "mixup_or_cutmix"]

# Numbers of a pair's draws; 0 is for prob.
_WHICH, _FIRST, _SECOND, _DOWN, _ACROSS = 1, 2, 3, 4, 5


def _alpha(name: str, value: object) -> float:
    checked = a_number(name, value, least=0)
    if not checked:
        raise BadArgumentError(f"{name} must be above 0, got {value}: leave the step out to mix nothing")
    return checked


@batch_step
class Mixup(Mixing):
    """Blends samples."""

    word = "mixup"
    alpha: float = fields.argument(_alpha, "float")

    def check(self, name: str, column: BatchColumn) -> None:
        """Take numbers that can be blended."""
        check_blended(name, column)

    def mix(self, batch: FilledColumns, pairs: Pairs) -> NDArray[np.float32]:
        """Blend by a share each."""
        return _blend(self.columns, batch, pairs, self.alpha)


@batch_step
class Cutmix(Mixing):
    """Swaps boxes."""

    word = "cutmix"
    alpha: float = fields.argument(_alpha, "float")

    def check(self, name: str, column: BatchColumn) -> None:
        """Take pictures."""
        check_pictures(name, column)

    def mix(self, batch: FilledColumns, pairs: Pairs) -> NDArray[np.float32]:
        """Swap a box each."""
        return _swap(self.columns, batch, pairs, self.alpha)


@batch_step
class MixupOrCutmix(Mixing):
    """Does the one or the other to each pair."""

    word = "mixup_or_cutmix"
    mixup_alpha: float = fields.argument(_alpha, "float")
    cutmix_alpha: float = fields.argument(_alpha, "float")
    switch_prob: float = fields.number(0.5, least=0, most=1, keyword=True)

    def check(self, name: str, column: BatchColumn) -> None:
        """Take pictures that can be blended."""
        check_blended(name, column)
        check_pictures(name, column)

    def mix(self, batch: FilledColumns, pairs: Pairs) -> NDArray[np.float32]:
        """Cut where draw 1 is below `switch_prob`, and blend elsewhere."""
        cut = pairs.draw(_WHICH) < self.switch_prob
        shares = np.empty(len(pairs), np.float32)
        shares[cut] = _swap(self.columns, batch, pairs.those(cut), self.cutmix_alpha)
        shares[~cut] = _blend(self.columns, batch, pairs.those(~cut), self.mixup_alpha)
        return shares


def _blend(columns: tuple[str, ...], batch: FilledColumns, pairs: Pairs, alpha: float) -> NDArray[np.float32]:
    shares = symmetric_beta(alpha, pairs.draw(_FIRST), pairs.draw(_SECOND))
    for name in columns:
        blend_column(batch, name, pairs, shares)
    return shares


def _swap(columns: tuple[str, ...], batch: FilledColumns, pairs: Pairs, alpha: float) -> NDArray[np.float32]:
    shares = symmetric_beta(alpha, pairs.draw(_FIRST), pairs.draw(_SECOND))
    pictures = find_pictures(batch, columns)
    height, width = pictures[0].height, pictures[0].width
    boxes = make_boxes(shares, pairs.draw(_DOWN), pairs.draw(_ACROSS), height, width)
    for each in pictures:
        if len(pairs) and each.values.size:
            swap_boxes(each.raw, each.planes, height, width, each.pixel, pairs.places, boxes)
    return kept_beside(boxes, height, width)


def make_boxes(
    shares: NDArray[np.float32], down: NDArray[np.float64], across: NDArray[np.float64], height: int, width: int
) -> NDArray[np.int64]:
    """Return int64 (k, 4), (top, bottom, left, right), of boxes as large as what a sample gives away, cut at edges."""
    half = 0.5 * np.sqrt(1 - shares.astype(np.float64))
    sides = []
    for centre, size in ((down, height), (across, width)):
        middle, reach = (centre * size).astype(np.int64), (half * size).astype(np.int64)
        sides += [np.maximum(middle - reach, 0), np.minimum(middle + reach, size)]
    return np.stack(sides, axis=1)


def mixup(
    alpha: float,
    *,
    columns: str | Sequence[str] = "image",
    label: str | None = "label",
    labels: str = "soft",
    classes: int | None = None,
    smoothing: float = 0.0,
    mode: str = "pair",
    prob: float = 1.0,
    name: str | None = None,
) -> BatchStep:
    """Blend each two samples of a batch, and their labels: own = share * own + (1 - share) * partner's.

    Zhang et al., mixup: Beyond Empirical Risk Minimization (2018); with mode="batch" as timm does. The share is
    Beta(alpha, alpha) of draws 2 and 3, rounded to float32, and partners keep the same share. Values are computed in
    float32 (float64 in itself); uint8 is rounded to nearest, halves to even.

    Class ids become float32 shares (n, classes), 1 at the id, mixed as the samples are. Shares of classes, and numbers,
    are mixed as they are. labels="pair" gives `label`_a, `label`_b (the partner's) and the share, `lam`, instead.

    Args:
        alpha: Of the Beta distribution, above 0: at 1 all shares are as likely, below, most samples stay nearly whole.
        columns: Names of the columns that are blended, all alike.
        label: Name of the labels' column; None: there are none.
        labels: "soft" or "pair", see above.
        classes: How many classes there are; None: as many as the label table has.
        smoothing: Label smoothing before samples are mixed: (1 - smoothing) * share + smoothing / classes.
        mode: "pair": positions 2k and 2k+1 are partners and draw by the even one, so batch size, threads and ranks
            change nothing. Batch sizes must be even. A sample without a partner (the last of an odd number, beside
            padding, a skipped sample or a missing value) stays as it is. "batch": the batch and the batch turned round,
            with one share for all, as timm does; a state then holds batch size and ranks, which must stay the same.
        prob: Of a pair, or a batch, being mixed at all: draw 0 is below.
        name: What it draws by in place of its number among the batch steps of its class.

    Raises:
        PipelineError: An argument can't be.
    """
    return made(
        Mixup,
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


def cutmix(
    alpha: float,
    *,
    columns: str | Sequence[str] = "image",
    label: str | None = "label",
    labels: str = "soft",
    classes: int | None = None,
    smoothing: float = 0.0,
    mode: str = "pair",
    prob: float = 1.0,
    name: str | None = None,
) -> BatchStep:
    """Swap a box between each two pictures of a batch, and mix their labels by its area.

    Yun et al., CutMix (2019); boxes as torchvision and timm cut them. The share is Beta(alpha, alpha) of draws 2 and 3.
    The box has the middle (floor(height * draw 4), floor(width * draw 5)) and reaches floor(side * sqrt(1 - share) / 2)
    to both sides, and is cut at the edges. What labels keep is 1 - box / picture by the box's area after that.

    Args:
        alpha: Of the Beta distribution, above 0.
        columns: Names of the columns that boxes are swapped in: pictures of one size, masks too. The box is the same.
        label, labels, classes, smoothing, mode, prob, name: As in mixup().

    Raises:
        PipelineError: An argument can't be.
    """
    return made(
        Cutmix,
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


def mixup_or_cutmix(
    mixup_alpha: float,
    cutmix_alpha: float,
    *,
    switch_prob: float = 0.5,
    columns: str | Sequence[str] = "image",
    label: str | None = "label",
    labels: str = "soft",
    classes: int | None = None,
    smoothing: float = 0.0,
    mode: str = "pair",
    prob: float = 1.0,
    name: str | None = None,
) -> BatchStep:
    """Do to each two samples what cutmix() does, or what mixup() does, as timm's Mixup switches between them.

    Args:
        mixup_alpha, cutmix_alpha: Of the Beta distribution of either.
        switch_prob: Of cutmix: draw 1 is below.
        columns, label, labels, classes, smoothing, mode, prob, name: As in mixup().

    Raises:
        PipelineError: An argument can't be.
    """
    return made(
        MixupOrCutmix,
        mixup_alpha=mixup_alpha,
        cutmix_alpha=cutmix_alpha,
        switch_prob=switch_prob,
        columns=columns,
        label=label,
        labels=labels,
        classes=classes,
        smoothing=smoothing,
        mode=mode,
        prob=prob,
        name=name,
    )
