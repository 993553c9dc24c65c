"""`toolkit head`: the first samples of a dataset, one JSON object a line."""

from __future__ import annotations

from typing import Annotated

import typer

from toolkit.cli.options import DatasetArgument, DebugOption, at_least, envvar
from toolkit.cli.output import print_json

__all__ = ["head"]


def head(
    dataset: DatasetArgument,
    split: Annotated[
        str | None,
        typer.Option("--split", envvar=envvar("--split"), help="The split; may be left out when there is only one."),
    ] = None,
    samples: Annotated[
        int,
        typer.Option("--samples", "-n", envvar=envvar("--samples"), parser=at_least(0), metavar="N", help="How many."),
    ] = 5,
    debug: DebugOption = False,
) -> None:
    """Print the first samples of DATASET, one JSON object a line; bytes and pixels as their size, labels named."""
    from toolkit.checks.head import head as first_samples
    from toolkit.report.sample_view import sample_document

    for sample in first_samples(dataset, split=split, samples=samples):
        print_json(sample_document(sample.values, sample.class_names))
