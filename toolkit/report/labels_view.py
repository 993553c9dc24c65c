"""The balance of a dataset's classes as tables for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit.report.tables import Table, View, table

if TYPE_CHECKING:
    from toolkit.checks.labels import LabelBalance, LabelReport

__all__ = ["labels_views"]


def labels_views(report: LabelReport) -> list[View]:
    """Return a table of each label column: every class, then the samples without a label, then all."""
    views: list[View] = [f"{report.root}@sha256:{report.pin}"]
    for name, balance in report.columns.items():
        views += ["", f"{name}: {_text(balance)}", _table(balance, report.splits)]
    return views if report.columns else [*views, "no label column"]


def _text(balance: LabelBalance) -> str:
    counts = [one.count for one in balance.classes if one.count]
    text = "1 class" if len(balance.classes) == 1 else f"{len(balance.classes):,} classes"
    empty = len(balance.classes) - len(counts)
    if empty:
        text += f", {empty:,} without a sample"
    return f"{text}, the largest {max(counts) / min(counts):.3g} times the smallest" if counts else text


def _table(balance: LabelBalance, splits: tuple[str, ...]) -> Table:
    rows = [
        [
            str(one.id),
            one.name,
            *(f"{one.splits[split]:,}" for split in splits),
            f"{one.count:,}",
            f"{one.share:.2%}",
        ]
        for one in balance.classes
    ]
    missing = sum(balance.missing.values())
    sums = {split: sum(one.splits[split] for one in balance.classes) + balance.missing[split] for split in splits}
    rows.append(["", "(no label)", *(f"{balance.missing[split]:,}" for split in splits), f"{missing:,}", ""])
    rows.append(["", "(all)", *(f"{sums[split]:,}" for split in splits), f"{balance.labelled + missing:,}", ""])
    headers = ["id", "class", *splits, "samples", "share"]
    return table(headers, rows, right={0, *range(2, len(headers))})
