"""The step that smooths labels, and mixes nothing."""

from __future__ import annotations

from toolkit.pipelines import fields
from toolkit.pipelines.batch.labels import check_labels, soften, softened
from toolkit.pipelines.batch.step import BatchStep, Columns, FilledColumns, batch_step, find_column, made
from toolkit.pipelines.check import BadArgumentError, a_number, a_text, an_int

__all__ = ["label_smoothing", "smoothing_below_one"]


def smoothing_below_one(name: str, value: object) -> float:
    """Return a smoothing that leaves something of labels."""
    checked = a_number(name, value, least=0, most=1)
    if checked == 1:
        raise BadArgumentError(f"{name} must be below 1, got {value}: nothing would be left of the labels")
    return checked


@batch_step
class LabelSmoothing(BatchStep):
    """Smooths labels."""

    word = "label_smoothing"
    smoothing: float = fields.argument(smoothing_below_one, "float")
    label: str = fields.argument(a_text, "str", "label", keyword=True)
    classes: int | None = fields.argument(
        lambda name, value: None if value is None else an_int(name, value), "int | None", None, keyword=True
    )

    @property
    def runs(self) -> str:
        """A few numbers a sample."""
        return "numpy"

    def after(self, columns: Columns) -> Columns:
        """Make shares of class ids."""
        column = find_column(columns, self.label, "label")
        form = check_labels(self.label, column, self.classes, self.smoothing)
        return {**columns, self.label: softened(column, form, self.classes)}

    def run(self, batch: FilledColumns) -> None:
        """Smooth them."""
        soften(batch, self.label, self.classes, self.smoothing)


def label_smoothing(smoothing: float, *, label: str = "label", classes: int | None = None) -> BatchStep:
    """Make float32 shares (n, classes) of class ids: (1 - smoothing) * (1 at the id) + smoothing / classes.

    That is what torch's CrossEntropyLoss(label_smoothing=) and timm do. Shares of classes are smoothed alike. mixup()
    and its like have smoothing= for the same before they mix.

    Args:
        smoothing: How much is dealt out over all classes, from 0 to below 1.
        label: Name of the labels' column.
        classes: How many classes there are; None: as many as the label table has.

    Raises:
        PipelineError: An argument can't be.
    """
    return made(LabelSmoothing, smoothing=smoothing, label=label, classes=classes)
