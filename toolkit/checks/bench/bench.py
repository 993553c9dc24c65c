"""Run a benchmark: each case in fresh processes, repeats interleaved over the cases, medians at the end."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from toolkit.checks.arguments import argument, check_flags, progress_of, split_of, whole
from toolkit.checks.bench.case import BenchCase, BenchResult, BenchRun, CaseResult, measured
from toolkit.checks.bench.memory import available_bytes
from toolkit.checks.bench.steps import case_loader, steps_text
from toolkit.checks.references import reference_facts
from toolkit.errors import LoaderError, NotFoundError, StorageError, ToolkitError, UsageError, did_you_mean
from toolkit.escapes import short
from toolkit.format.layout import leaf_name
from toolkit.format.pin import reference_text, resolve
from toolkit.format.schema import reference_columns
from toolkit.loader.api import Dataset
from toolkit.loader.api import open as open_dataset
from toolkit.options.compound import Names
from toolkit.storage.roots import RootsOption
from toolkit.storage.store import pieces

__all__ = ["BenchOptions", "bench"]

_PREFERRED_SPLIT = "train"
_READ_BYTES = 1 << 20
_READ_ROWS = 64


@dataclass(frozen=True, kw_only=True)
class BenchOptions:
    """What to benchmark. Checked when made.

    Attributes:
        split: The split; None is the only one, or train.
        columns: The columns to load; None is all but labels that are missing somewhere.
        threads: Thread counts, one case each.
        repeats: Processes a case.
        decode, short_side, crop, batch_size, epochs, shuffle, output, seq_len: See BenchCase.
    """

    split: str | None = None
    columns: tuple[str, ...] | None = None
    threads: tuple[int, ...] = (1, 2)
    repeats: int = 3
    decode: bool = True
    short_side: int = 256
    crop: int = 224
    batch_size: int = 64
    epochs: int = 1
    shuffle: str = "full"
    output: str = "numpy"
    seq_len: int = 1024

    def __post_init__(self) -> None:
        for name in ("repeats", "short_side", "crop", "batch_size", "epochs", "seq_len"):
            whole(name, getattr(self, name), 1)
        check_flags(decode=self.decode)
        split_of(self.split)
        if self.columns is not None:
            argument("columns", self.columns, Names())
        if not isinstance(self.threads, Sequence) or isinstance(self.threads, str) or not self.threads:
            raise UsageError(f"threads: expected a list of counts, as in [1, 2], got {short(self.threads, 40)}")
        for count in self.threads:
            whole("threads", count, 1)


_DEFAULTS = BenchOptions()


def bench(
    dataset: str | os.PathLike[str],
    options: BenchOptions = _DEFAULTS,
    *,
    roots: RootsOption | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> BenchResult:
    """Measure how fast a dataset loads here.

    Args:
        dataset: As toolkit.open takes it.
        options: What to measure.
        roots: As toolkit.open takes them: where the files of references lie.
        progress: Called with (processes done, processes in all).

    Raises:
        ToolkitError: The dataset can't be opened, or a case fails; the error has the exit code of its cause.
    """
    told = progress_of(progress)
    reference = reference_text(dataset)
    version = resolve(reference)
    split = _choose_split(reference, list(version.manifest.splits), options.split)
    pinned = f"{version.root}@sha256:{version.pin}"
    whole = open_dataset(pinned, split=split, roots=roots)
    if not len(whole):
        raise UsageError(f"split {split} of {reference} has no samples to benchmark")
    columns = _loadable(whole) if options.columns is None else options.columns
    absolute = None if roots is None else whole.roots
    cases = [
        BenchCase(
            dataset=pinned,
            split=split,
            columns=columns,
            decode=options.decode,
            short_side=options.short_side,
            crop=options.crop,
            threads=threads,
            batch_size=options.batch_size,
            epochs=options.epochs,
            shuffle=options.shuffle,
            output=options.output,
            seq_len=options.seq_len,
            roots=absolute,
        )
        for threads in options.threads
    ]
    _check(open_dataset(pinned, split=split, columns=columns, roots=roots), cases[0])
    cache = _warm(whole)
    runs: dict[int, list[BenchRun]] = {case.threads: [] for case in cases}
    total = options.repeats * len(cases)
    told(0, total)
    for repeat in range(options.repeats):
        for number, case in enumerate(cases):
            runs[case.threads].append(_in_process(case))
            told(repeat * len(cases) + number + 1, total)
    return BenchResult(
        pin=version.pin,
        split=split,
        columns=columns,
        pipeline=steps_text(cases[0], whole.columns),
        batch_size=options.batch_size,
        epochs=options.epochs,
        repeats=options.repeats,
        shuffle=options.shuffle,
        output=options.output,
        cache=cache,
        samples=len(whole),
        cases=tuple(
            CaseResult(threads=threads, figures=measured(done), runs=tuple(done)) for threads, done in runs.items()
        ),
    )


def _choose_split(reference: str, splits: list[str], asked: str | None) -> str:
    if asked is None:
        if len(splits) > 1 and _PREFERRED_SPLIT not in splits:
            raise UsageError(f"{reference} has the splits {', '.join(splits)}: say which, with --split")
        return splits[0] if len(splits) == 1 else _PREFERRED_SPLIT
    if asked not in splits:
        raise NotFoundError(
            f"{reference} has no split {asked!r}; it has {', '.join(splits)}.{did_you_mean(asked, splits)}"
        )
    return asked


def _loadable(dataset: Dataset) -> tuple[str, ...]:
    """Return the columns without those labels that are missing somewhere: a batch of them would be an error."""
    labels = dataset.manifest.splits[dataset.split].labels
    return tuple(c.name for c in dataset.columns if c.name not in labels or not labels[c.name].missing)


def _check(dataset: Dataset, case: BenchCase) -> None:
    """Find what is wrong with the options here, before any process is started."""
    case_loader(case, dataset).close()


def _warm(dataset: Dataset) -> str:
    """Read the shards once, and what they refer to, when all fits in half the free memory, so that every run finds it
    in the page cache.
    """
    available = available_bytes()
    referred = reference_columns(dataset.columns, dataset.schema)
    facts = reference_facts(dataset.stored.parts[0].version, referred, [dataset], None)
    nbytes = dataset.manifest.splits[dataset.split].bytes + (0 if facts is None else facts.bytes or 0)
    if available is not None and nbytes > available // 2:
        return "as found"
    for part in dataset.stored.parts:
        for name in part.index.paths():
            try:
                for _ in pieces(part.version.store, name, _READ_BYTES):
                    pass
            except (NotFoundError, StorageError):
                continue  # the loader says it better: which shard, and what to do
    for start in range(0, len(dataset) if referred else 0, _READ_ROWS):
        located = dataset.fetcher.locate(np.arange(start, min(start + _READ_ROWS, len(dataset))))
        for name in referred:
            with contextlib.suppress(ToolkitError):  # as above
                dataset.fetcher.bytes(leaf_name(name, "bytes"), located)
    return "warm"


def _in_process(case: BenchCase) -> BenchRun:
    command = [sys.executable, "-m", "toolkit.checks.bench.worker"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            answer, complaints = process.communicate(json.dumps(asdict(case)))
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        last = (complaints.strip().splitlines() or [f"exit code {process.returncode}"])[-1]
        raise LoaderError(f"the measuring process for {case.threads} threads ended: {last}")
    content = json.loads(answer)
    if "error" in content:
        failure = LoaderError(content["error"])
        failure.exit_code = content["exit_code"]
        raise failure
    return BenchRun(**content["run"])
