"""`toolkit bench`: how fast a dataset loads here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from toolkit.cli.flags import flag
from toolkit.cli.options import (
    DatasetArgument,
    DebugOption,
    JsonOption,
    ProgressOption,
    QuietOption,
    RootsOption,
    given_roots,
)
from toolkit.cli.output import print_document, print_views
from toolkit.cli.progress import shown_progress
from toolkit.errors import UsageError
from toolkit.loader.outputs.registry import DEFAULT, known_names, names
from toolkit.options.compound import Names
from toolkit.options.texts import parse_counts
from toolkit.options.values import Choice, Whole

__all__ = ["bench"]


class _OutputName(Choice):
    """The name of an output; plugins are only looked for when it is none of toolkit's own."""

    def read(self, given: str) -> str:
        """Return the name. Raises UsageError."""
        return given if given in self.values else Choice(tuple(known_names())).read(given)


def bench(
    dataset: DatasetArgument,
    split: Annotated[str | None, flag("--split", "The split; the only one, or train, if not given.")] = None,
    columns: Annotated[
        Sequence[str] | None,
        flag("--columns", "Load only these, for instance to leave out one with missing values.", Names()),
    ] = None,
    threads: Annotated[str, flag("--threads", "Thread counts, one case each; or auto.", metavar="N,...")] = "1,2",
    batch_size: Annotated[int, flag("--batch-size", None, Whole(1))] = 64,
    epochs: Annotated[int, flag("--epochs", "Epochs of a run.", Whole(1))] = 1,
    repeats: Annotated[int, flag("--repeats", "Runs of each case.", Whole(1))] = 3,
    short_side: Annotated[int, flag("--short-side", "Resize to this.", Whole(1, "PIXELS"))] = 256,
    crop: Annotated[int, flag("--crop", "Cut this from the middle.", Whole(1, "PIXELS"))] = 224,
    seq_len: Annotated[int, flag("--seq-len", "Tokens of a row, when DATASET has tokens.", Whole(1, "TOKENS"))] = 1024,
    decode: Annotated[bool, flag("--decode/--no-decode", "Decode images, or load their bytes.")] = True,
    shuffle: Annotated[str, flag("--shuffle", None, Choice(("full", "block", "none")))] = "full",
    output: Annotated[str, flag("--output", "What the arrays of a batch are.", _OutputName(tuple(names())))] = DEFAULT,
    roots: RootsOption = None,
    json: JsonOption = False,
    progress: ProgressOption = None,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Measure how fast DATASET loads: each case in new processes, repeats interleaved, medians and spread."""
    try:
        counts = parse_counts(threads)
    except UsageError as error:
        raise UsageError(f"--threads: {error}") from error

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
        result = run_bench(dataset, options, roots=given_roots(roots), progress=update)
    if json:
        print_document("toolkit.bench/1", {**vars(result), "meaning": FIGURES, "environment": doctor().brief()})
    else:
        print_views(bench_views(result))
