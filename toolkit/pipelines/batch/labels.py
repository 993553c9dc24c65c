"""Labels of a batch that is mixed: what class ids become, and which labels there can be."""

from __future__ import annotations

import enum
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolkit._native.batch.mix import BLENDED
from toolkit.pipelines.batch.step import BatchColumn, BatchFaultError, FilledColumns
from toolkit.pipelines.state import MisfitError, State, ValueKind

__all__ = ["LabelForm", "Labels", "check_ids", "check_labels", "soften", "softened"]


class Labels(enum.Enum):
    """What labels become where samples are mixed.

    SOFT: shares of classes, mixed as the samples are. PAIR: the sample's own, its partner's, and its own share.
    """

    SOFT = "soft"
    PAIR = "pair"


class LabelForm(enum.Enum):
    """What labels are: IDS of classes, SHARES of them (n, classes), or NUMBERS (n,) that aren't of classes."""

    IDS = "class ids"
    SHARES = "shares of classes"
    NUMBERS = "numbers"


def check_labels(name: str, column: BatchColumn, classes: int | None, smoothing: float) -> LabelForm | None:
    """Return what a column's labels are, None where that shows later.

    Raises:
        MisfitError: They can't be mixed, or it isn't known how many classes there are.
    """
    state = column.state
    if state is None:
        return None
    if state.dtype is None or state.shape is None or state.fixed_shape is None:
        raise MisfitError(
            f"labels in column {name!r}", state, "give it a slot that makes numbers, or one array of each"
        )
    form = _form(state.dtype, len(state.shape))
    if form is None:
        raise MisfitError(
            f"class ids, or float32 shares of classes, in column {name!r}", state, "cast it, or name another by label="
        )
    if form is LabelForm.IDS and classes is None and column.classes is None:
        raise MisfitError(f"a label table of column {name!r}", "none", "say how many classes there are: classes=")
    if form is LabelForm.SHARES and classes is not None and state.fixed_shape[0] != classes:
        raise MisfitError(
            f"shares of classes={classes} in column {name!r}", state, "leave classes= out, or say as many"
        )
    if form is LabelForm.NUMBERS and smoothing:
        raise MisfitError("classes to smooth", state, "smoothing= is for class ids and shares of classes")
    return form


def softened(column: BatchColumn, form: LabelForm | None, classes: int | None) -> BatchColumn:
    """Return what is known of a column after soften()."""
    if form is LabelForm.IDS:
        count = classes or column.classes or 0
        return BatchColumn(State(ValueKind.TENSOR, "float32", (count,)), column.optional)
    return replace(column, classes=None)


def soften(batch: FilledColumns, name: str, classes: int | None, smoothing: float) -> None:
    """Make float32 shares (n, classes) of class ids, and smooth them: (1 - smoothing) * share + smoothing / classes.

    That is what torch's CrossEntropyLoss and timm do. Labels that are shares or numbers already stay so. Where there is
    no sample, or no label, all shares are 0.

    Raises:
        BatchFaultError: A label is no class id, or none of these can be.
    """
    values, there = batch.array(name), batch.has(name)
    form = _form_of(batch, name, values)
    if form is LabelForm.IDS:
        count = _classes(batch, name, classes)
        if count is None:
            raise BatchFaultError(f"column {name!r} has no label table: say how many classes there are: classes=")
        soft = np.zeros((len(values), count), np.float32)
        soft[there] = smoothing / count
        soft[np.flatnonzero(there), _ids(name, values, there, count)] = 1 - smoothing + smoothing / count
        batch.columns[name] = soft
    elif smoothing:
        if form is LabelForm.NUMBERS or batch.dtype(name) == "bfloat16":
            raise BatchFaultError(f"column {name!r} is {batch.dtype(name)} {values.shape}, which can't be smoothed")
        values *= values.dtype.type(1 - smoothing)
        values[there] += values.dtype.type(smoothing / max(1, values.shape[1]))


def check_ids(batch: FilledColumns, name: str, classes: int | None) -> None:
    """Check labels that stay what they are. Raises BatchFaultError: one is no class id, or they aren't labels."""
    values = batch.array(name)
    count = _classes(batch, name, classes)
    if _form_of(batch, name, values) is LabelForm.IDS and count is not None:
        _ids(name, values, batch.has(name), count)


def _ids(name: str, values: NDArray[Any], there: NDArray[np.bool_], classes: int) -> NDArray[np.int64]:
    """Return the ids of the samples that are there."""
    ids = values[there]
    bad = np.flatnonzero((ids < 0) | (ids >= classes))
    if len(bad):
        raise BatchFaultError(
            f"the label {ids[bad[0]]} is none of {classes} classes (0..{classes - 1})",
            int(np.flatnonzero(there)[bad[0]]),
            name,
        )
    return ids.astype(np.int64)


def _classes(batch: FilledColumns, name: str, classes: int | None) -> int | None:
    return batch.known[name].classes if classes is None else classes


def _form_of(batch: FilledColumns, name: str, values: NDArray[Any]) -> LabelForm:
    form = _form(batch.dtype(name), values.ndim - 1)
    if form is None:
        raise BatchFaultError(f"column {name!r} is {values.dtype} {values.shape}, and these aren't labels")
    return form


def _form(dtype: str, axes: int) -> LabelForm | None:
    if dtype in BLENDED and dtype != "uint8":
        return {0: LabelForm.NUMBERS, 1: LabelForm.SHARES}.get(axes)
    return LabelForm.IDS if axes == 0 and dtype.lstrip("u").startswith("int") else None
