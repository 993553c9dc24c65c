"""`toolkit inspect`: what a dataset holds."""

from __future__ import annotations

from typing import Annotated

from toolkit.cli.flags import flag
from toolkit.cli.options import DatasetArgument, DebugOption, JsonOption, RootsOption, given_roots
from toolkit.cli.output import print_document, print_views
from toolkit.options.values import Whole

__all__ = ["inspect"]


def inspect(
    dataset: DatasetArgument,
    split: Annotated[str | None, flag("--split", "Only this split's classes, images and samples.")] = None,
    samples: Annotated[int, flag("--samples", "First samples of each split.", Whole(0))] = 5,
    scan: Annotated[
        int,
        flag(
            "--scan",
            "Images to look at: all, or N evenly spaced ones where there are more; 0 looks at none. Widths and heights "
            "are those that they are decoded to.",
            Whole(0),
        ),
    ] = 10_000,
    labels: Annotated[
        bool, flag("--labels", "Only the classes, all of them: ids, samples in each split, shares. Opens no shard.")
    ] = False,
    roots: RootsOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show columns, splits, classes, image sizes, tokens and the first samples of DATASET."""
    if labels:
        _labels(dataset, split, json=json)
        return
    from toolkit.checks.inspect import inspect as run_inspect
    from toolkit.report.inspect_view import inspect_views

    result = run_inspect(dataset, split=split, samples=samples, scan=scan, roots=given_roots(roots))
    if json:
        print_document("toolkit.inspect/1", result.document())
    else:
        print_views(inspect_views(result))


def _labels(dataset: str, split: str | None, *, json: bool) -> None:
    from toolkit.checks.labels import inspect_labels
    from toolkit.report.labels_view import labels_views

    report = inspect_labels(dataset, split=split)
    if json:
        print_document("toolkit.inspect-labels/1", report)
    else:
        print_views(labels_views(report))
