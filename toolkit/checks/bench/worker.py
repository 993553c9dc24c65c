"""Measure one case in this process: `python -m toolkit.checks.bench.worker` reads it on stdin and prints figures."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict

from toolkit.checks.bench.case import BenchCase, BenchRun
from toolkit.checks.bench.memory import AnonymousPeak, peak_resident_bytes
from toolkit.checks.bench.steps import case_loader
from toolkit.errors import ToolkitError
from toolkit.loader.api import Dataset
from toolkit.loader.api import open as open_dataset
from toolkit.loader.loader import Loader
from toolkit.loader.outputs.registry import named
from toolkit.loader.tokens.batch import TokenBatch

__all__ = ["measure"]


def measure(case: BenchCase) -> BenchRun:
    """Open the dataset, iterate over it as the case says, and return the figures."""
    ready = named(case.output).ready()  # the framework starts outside of what is measured
    with AnonymousPeak() as anonymous:
        begun = time.perf_counter()
        dataset = open_dataset(case.dataset, split=case.split, columns=case.columns, roots=case.roots)
        loader = case_loader(case, dataset)
        open_seconds = time.perf_counter() - begun
        batches, rows, tokens, first_seconds = 0, 0, 0, 0.0
        with loader:
            cpu, begun = time.process_time(), time.perf_counter()
            for batch in loader:
                ready(batch.values())
                if not batches:
                    first_seconds = time.perf_counter() - begun
                batches += 1
                if isinstance(batch, TokenBatch):
                    rows += len(batch["tokens"])
                    tokens += len(batch["tokens"]) * case.seq_len
                del batch
            seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
    # Windows are cast as they are copied: what was read is not what was delivered.
    stats = (
        loader.stats() if isinstance(loader, Loader) else {"samples": rows, "fetched_bytes": tokens * _width(dataset)}
    )
    samples = int(stats["samples"])
    return BenchRun(
        samples=samples,
        batches=batches,
        seconds=seconds,
        samples_per_second=samples / seconds,
        tokens_per_second=tokens / seconds if tokens else None,
        megabytes_per_second=stats["fetched_bytes"] / 1e6 / seconds,
        open_ms=1e3 * open_seconds,
        first_batch_ms=1e3 * first_seconds,
        cpu_seconds_per_1000_samples=1e3 * cpu / samples if samples else 0.0,
        peak_anonymous_bytes=anonymous.growth_bytes,
        peak_resident_bytes=peak_resident_bytes(),
    )


def _width(dataset: Dataset) -> int:
    """Return the bytes of a stored token id."""
    return 2 if next(c.tokens.vocabulary for c in dataset.columns if c.tokens) <= 1 << 16 else 4


def _main() -> None:
    case = BenchCase(**json.load(sys.stdin))
    try:
        answer: dict[str, object] = {"run": asdict(measure(case))}
    except ToolkitError as error:
        answer = {"error": str(error), "exit_code": error.exit_code}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    _main()
