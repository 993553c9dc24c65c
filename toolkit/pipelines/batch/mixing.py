"""What all steps share that mix two samples of a batch into each other: their options, pairs and labels."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from toolkit._native.batch.mix import BLENDED, blend
from toolkit.pipelines import fields
from toolkit.pipelines.batch.column_names import column_names
from toolkit.pipelines.batch.label_smoothing import smoothing_below_one
from toolkit.pipelines.batch.labels import Labels, check_ids, check_labels, soften, softened
from toolkit.pipelines.batch.pairs import Mode, Pairs, find_pairs
from toolkit.pipelines.batch.step import (
    BatchColumn,
    BatchFaultError,
    BatchStep,
    Columns,
    FilledColumns,
    Reach,
    batch_step,
    find_column,
)
from toolkit.pipelines.check import BadArgumentError, a_text, an_int
from toolkit.pipelines.state import MisfitError, State, ValueKind

__all__ = ["Mixing", "blend_column", "check_blended"]

_SHARE = "lam"


@batch_step
class Mixing(BatchStep):
    """A subclass says by mix() what becomes of the columns, and how much of itself each sample keeps."""

    columns: tuple[str, ...] = fields.argument(column_names, "str | Sequence[str]", ("image",), keyword=True)
    label: str | None = fields.argument(
        lambda name, value: None if value is None else a_text(name, value), "str | None", "label", keyword=True
    )
    labels: Labels = fields.choice(Labels, Labels.SOFT, keyword=True)
    classes: int | None = fields.argument(
        lambda name, value: None if value is None else an_int(name, value), "int | None", None, keyword=True
    )
    smoothing: float = fields.argument(smoothing_below_one, "float", 0.0, keyword=True)
    mode: Mode = fields.choice(Mode, Mode.PAIR, keyword=True)
    prob: float = fields.number(1.0, least=0, most=1, keyword=True)
    name: str | None = fields.draw_name()

    def check_together(self) -> None:
        """Refuse a column that is its own label, and smoothing without soft labels."""
        if self.label in self.columns:
            raise BadArgumentError(f"columns has {self.label!r}, which label= says is a label: leave it out")
        if self.smoothing and (self.labels is Labels.PAIR or self.label is None):
            raise BadArgumentError("smoothing is for soft labels: smooth in the loss, or leave it out")

    @abstractmethod
    def check(self, name: str, column: BatchColumn) -> None:
        """Raise MisfitError when the step can't mix a column."""

    @abstractmethod
    def mix(self, batch: FilledColumns, pairs: Pairs) -> NDArray[np.float32]:
        """Mix the columns in pairs, and return (k,): how much of itself each sample of a pair keeps."""

    @property
    def reach(self) -> Reach:
        """Pairs, or the whole batch."""
        return Reach.PAIR if self.mode is Mode.PAIR else Reach.BATCH

    def after(self, columns: Columns) -> Columns:
        """Change the labels; the columns stay what they are."""
        for name in self.columns:
            self.check(name, find_column(columns, name, "columns"))
        if self.label is None:
            return columns
        column = find_column(columns, self.label, "label")
        form = check_labels(self.label, column, self.classes, self.smoothing)
        if self.labels is Labels.SOFT:
            return {**columns, self.label: softened(column, form, self.classes)}
        taken = [name for name in self._pair_columns() if name in columns]
        if taken:
            raise MisfitError("free names", f"a column {taken[0]!r}", 'rename it: labels="pair" adds one of that name')
        own, partners, share = self._pair_columns()
        kept = {name: known for name, known in columns.items() if name != self.label}
        return {**kept, own: column, partners: column, share: BatchColumn(State(ValueKind.SCALAR, "float32", ()))}

    def run(self, batch: FilledColumns) -> None:
        """Find the pairs, mix them, and do the same to their labels."""
        mixed = self.columns
        if self.label is not None:
            mixed = (*mixed, self.label)
            if self.labels is Labels.SOFT:
                soften(batch, self.label, self.classes, self.smoothing)
            else:
                check_ids(batch, self.label, self.classes)
        pairs = find_pairs(batch, self.mode, batch.has(*mixed))
        if self.prob < 1:
            pairs = pairs.those(pairs.draw(0) < self.prob)
        shares = self.mix(batch, pairs)
        if self.label is None:
            return
        if self.labels is Labels.SOFT:
            blend_column(batch, self.label, pairs, shares)
        else:
            self._add_pairs(batch, self.label, pairs, shares)

    def _add_pairs(self, batch: FilledColumns, label: str, pairs: Pairs, shares: NDArray[np.float32]) -> None:
        values = batch.array(label)
        own, partners, share = self._pair_columns()
        if label in batch.present:  # who lacks a label has no partner
            batch.present[own] = batch.present.pop(label)
            batch.present[partners] = batch.present[own].copy()
        others, kept = values.copy(), np.ones(len(values), np.float32)
        others[pairs.places] = values[pairs.places[:, ::-1]]
        kept[pairs.places] = shares[:, None]
        # In the label's place among the columns.
        batch.columns = {
            new: made
            for name, old in batch.columns.items()
            for new, made in ({own: values, partners: others, share: kept} if name == label else {name: old}).items()
        }

    def _pair_columns(self) -> tuple[str, str, str]:
        return f"{self.label}_a", f"{self.label}_b", _SHARE


def check_blended(name: str, column: BatchColumn) -> None:
    """Raise MisfitError when samples of a column can't be blended."""
    state = column.state
    if state is None:
        return
    if state.fixed_shape is None:
        raise MisfitError(f"arrays of one shape in column {name!r}", state, "resize or crop images to one size before")
    if state.dtype not in BLENDED:
        raise MisfitError(f"{', '.join(BLENDED)} in column {name!r}", state, "cast it")


def blend_column(batch: FilledColumns, name: str, pairs: Pairs, shares: NDArray[np.float32]) -> None:
    """Let each sample of a pair keep its share, and take the rest of its partner. Raises BatchFaultError."""
    values = batch.array(name)
    dtype = batch.dtype(name)
    if dtype not in BLENDED:
        raise BatchFaultError(f"column {name!r} is {dtype}, and {', '.join(BLENDED)} can be mixed")
    if len(pairs) and values.size:
        blend(values.reshape(-1).view(np.uint8), values[0].nbytes, dtype, pairs.places, shares)
