"""Which samples a loader's batches hold: the order that its options ask for, cut into this rank's batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from toolkit.errors import CorruptShardError, UsageError
from toolkit.format.schema import Kind
from toolkit.loader.dataset.dataset import Dataset
from toolkit.loader.dataset.filters import column_numbers
from toolkit.loader.options.loader import LoaderOptions
from toolkit.loader.order.course import Course
from toolkit.loader.order.cut import Cut, Remainder
from toolkit.loader.order.draws import WeightedOrder, balanced_weights
from toolkit.loader.order.mixed import Ordered
from toolkit.loader.order.order import Order
from toolkit.loader.stages.planned import PlannedBatch
from toolkit.pipelines.batch.step import BatchStep, Reach
from toolkit.pipelines.batch_maps import BatchMap

__all__ = ["check_pairs", "make_order", "plan_batches"]


def make_order(dataset: Dataset, options: LoaderOptions) -> Order | WeightedOrder:
    """Return which sample is at which position, as the options say. Raises UsageError, CorruptShardError."""
    given = options.given
    weights = given["weights"]
    if weights is None:
        return Order(len(dataset), options.shuffle, given["seed"])
    if isinstance(weights, str):
        weights = _balanced(dataset)
    elif np.shape(weights) != (len(dataset),):
        raise UsageError(f"weights of shape {np.shape(weights)} for {len(dataset)} samples: one number a sample")
    return WeightedOrder(weights, given["epoch_samples"] or len(dataset), given["seed"])


def _balanced(dataset: Dataset) -> Any:
    labels = [column.name for column in dataset.columns if column.kind is Kind.LABEL]
    if len(labels) != 1:
        raise UsageError(
            f"weights='balanced' needs one label column, read are {len(labels)}: open with columns=, or give an array"
        )
    rows = dataset.rows(np.arange(len(dataset), dtype=np.int64))
    ids, names = column_numbers(dataset.stored, labels[0], rows), dataset.class_names[labels[0]]
    strange = np.flatnonzero((ids < 0) | (ids >= len(names)))
    if len(strange):
        place = dataset.fetcher.place(int(rows[strange[0]]))
        raise CorruptShardError(
            f"{place}: the label {ids[strange[0]]} of {labels[0]} is none of {len(names)} classes: pack it again",
            shard=place.shard,
            row=place.row,
            key=place.key,
            column=labels[0],
        )
    return balanced_weights(ids, names)


def check_pairs(maps: Sequence[BatchStep | BatchMap], cut: Cut) -> None:
    """Check that batches can be cut as they are for steps that mix samples. Raises UsageError, with the step."""
    for step in maps:
        if not isinstance(step, BatchStep) or step.reach is Reach.NONE or not cut.samples:
            continue
        if cut.samples == 1:
            raise UsageError(f"batch step {step!r}: one sample can't be mixed with itself: leave the step out")
        spans = cut.spans
        if step.reach is Reach.PAIR and any(low % 2 or high % 2 for low, high in spans):
            size = cut.local_batch
            said = f"{size} samples of each rank" if cut.ranges is None else f"samples {spans} of each global batch"
            raise UsageError(
                f"batch step {step!r}: positions 2k and 2k+1 are partners, and {said} are an odd number: "
                f'take an even batch size, or mode="batch", which pairs whatever is in a batch'
            )
        if step.reach is Reach.BATCH and 1 in _sizes(cut):
            raise UsageError(
                f"batch step {step!r}: a batch would have one sample, which can't be mixed with itself: take another "
                "batch size, remainder='drop', or mode=\"pair\", which leaves such a sample as it is"
            )


def _sizes(cut: Cut) -> tuple[int, int]:
    """Return how many samples a rank's whole batch has, and the last one of an epoch."""
    whole = cut.local_batch
    rest = cut.samples % cut.global_batch
    if not rest or cut.remainder is Remainder.DROP:
        return whole, whole
    return whole, sum(min(max(rest - low, 0), high - low) for low, high in cut.spans)


def plan_batches(dataset: Dataset, order: Ordered, course: Course) -> Iterator[PlannedBatch]:
    """Yield this rank's slice of each global batch. Not a method: the engine must not keep its loader alive."""
    cut = course.cut
    for stretch in course.stretches():
        epoch, position = stretch.start.epoch, stretch.start.position
        for batch in range(cut.batches(position, stretch.steps)):
            positions = cut.positions(position, batch)
            real = positions if positions[-1] >= 0 else positions[positions >= 0]
            rows = dataset.rows(order.rows(epoch, real))
            samples = len(rows)
            if samples < len(positions):
                rows = np.append(rows, np.full(len(positions) - samples, -1, np.int64))
            yield PlannedBatch(epoch, positions, rows, samples)
