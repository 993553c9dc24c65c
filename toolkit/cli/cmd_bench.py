"""`toolkit bench`: how fast a dataset loads here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from toolkit.cli.options import (
    DatasetArgument,
    DebugOption,
    JsonOption,
    ProgressOption,
    QuietOption,
    at_least,
    choice,
    envvar,
    parse_threads,
)
from toolkit.cli.output import print_document, print_views
from toolkit.cli.progress import shown_progress
from toolkit.cli.source_options import names_of
from toolkit.loader.outputs.registry import DEFAULT, known_names, names

__all__ = ["bench"]


def bench(
    dataset: DatasetArgument,
    split: Annotated[
        str | None,
        typer.Option("--split", envvar=envvar("--split"), help="The split; the only one, or train, if not given."),
    ] = None,
    columns: Annotated[
        Sequence[str] | None,
        typer.Option(
            "--columns",
            envvar=envvar("--columns"),
            parser=names_of,
            metavar="NAME,...",
            help="Load only these, for instance to leave out one with missing values.",
        ),
    ] = None,
    threads: Annotated[
        str,
        typer.Option(
            "--threads", envvar=envvar("--threads"), metavar="N,...", help="Thread counts, one case each; or auto."
        ),
    ] = "1,2",
    batch_size: Annotated[
        int, typer.Option("--batch-size", envvar=envvar("--batch-size"), parser=at_least(1), metavar="N")
    ] = 64,
    epochs: Annotated[
        int,
        typer.Option("--epochs", envvar=envvar("--epochs"), parser=at_least(1), metavar="N", help="Epochs of a run."),
    ] = 1,
    repeats: Annotated[
        int,
        typer.Option(
            "--repeats", envvar=envvar("--repeats"), parser=at_least(1), metavar="N", help="Runs of each case."
        ),
    ] = 3,
    short_side: Annotated[
        int,
        typer.Option(
            "--short-side", envvar=envvar("--short-side"), parser=at_least(1), metavar="PIXELS", help="Resize to this."
        ),
    ] = 256,
    crop: Annotated[
        int,
        typer.Option(
            "--crop", envvar=envvar("--crop"), parser=at_least(1), metavar="PIXELS", help="Cut this from the middle."
        ),
    ] = 224,
    seq_len: Annotated[
        int,
        typer.Option(
            "--seq-len",
            envvar=envvar("--seq-len"),
            parser=at_least(1),
            metavar="TOKENS",
            help="Tokens of a row, when DATASET has tokens.",
        ),
    ] = 1024,
    decode: Annotated[
        bool,
        typer.Option("--decode/--no-decode", envvar=envvar("--decode"), help="Decode images, or load their bytes."),
    ] = True,
    shuffle: Annotated[
        str,
        typer.Option(
            "--shuffle", envvar=envvar("--shuffle"), parser=choice(("full", "block", "none")), metavar="full|block|none"
        ),
    ] = "full",
    output: Annotated[
        str,
        typer.Option(
            "--output",
            envvar=envvar("--output"),
            parser=_output_name,
            metavar="|".join(names()),
            help="What the arrays of a batch are.",
        ),
    ] = DEFAULT,
    json: JsonOption = False,
    progress: ProgressOption = None,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Measure how fast DATASET loads: each case in new processes, repeats interleaved, medians and spread."""
    try:
        counts = parse_threads(threads)
    except typer.BadParameter as error:
        raise typer.BadParameter(error.message, param_hint="--threads") from error

    from toolkit.checks.bench.bench import BenchOptions
    from toolkit.checks.bench.bench import bench as run_bench
    from toolkit.checks.bench.case import FIGURES
    from toolkit.checks.doctor import doctor
    from toolkit.report.bench_view import bench_views

    options = BenchOptions(
        split=split,
        columns=None if columns is None else tuple(columns),
        threads=counts,
        repeats=repeats,
        decode=decode,
        short_side=short_side,
        crop=crop,
        batch_size=batch_size,
        epochs=epochs,
        shuffle=shuffle,
        output=output,
        seq_len=seq_len,
    )
    with shown_progress("benchmarking", "runs", progress, quiet=quiet) as update:
        result = run_bench(dataset, options, progress=update)
    if json:
        print_document("toolkit.bench/1", {**vars(result), "meaning": FIGURES, "environment": doctor().brief()})
    else:
        print_views(bench_views(result))


def _output_name(value: str) -> str:
    """Return the name of an output; plugins are only looked for when it is none of toolkit's own."""
    return value if value in names() else choice(known_names())(value)
