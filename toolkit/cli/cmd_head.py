"""`toolkit head`: the first samples of a dataset, one JSON object a line."""

from __future__ import annotations

from typing import Annotated

from toolkit.cli.flags import flag
from toolkit.cli.options import DatasetArgument, DebugOption
from toolkit.cli.output import print_json
from toolkit.options.values import Whole

__all__ = ["head"]


def head(
    dataset: DatasetArgument,
    split: Annotated[str | None, flag("--split", "The split; may be left out when there is only one.")] = None,
    samples: Annotated[int, flag("--samples", "How many.", Whole(0), short="-n")] = 5,
    debug: DebugOption = False,
) -> None:
    """Print the first samples of DATASET, one JSON object a line; bytes and pixels as their size, labels named."""
    from toolkit.checks.head import head as first_samples
    from toolkit.report.sample_view import sample_document

    for sample in first_samples(dataset, split=split, samples=samples):
        print_json(sample_document(sample.values, sample.class_names))
