"""A benchmark's figures as a table for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit.report.tables import View, table
from toolkit.report.text import count, number, size_text

if TYPE_CHECKING:
    from toolkit.checks.bench.case import BenchResult, Measured

__all__ = ["bench_views"]

_MEMORY = ("peak_anonymous_bytes", "peak_resident_bytes")
_TITLES = {
    "samples_per_second": "samples/s",
    "tokens_per_second": "tokens/s",
    "megabytes_per_second": "MB/s encoded",
    "open_ms": "open, ms",
    "first_batch_ms": "first batch, ms",
    "cpu_seconds_per_1000_samples": "CPU-s per 1000 samples",
    "peak_anonymous_bytes": "peak anonymous memory, growth",
    "peak_resident_bytes": "peak resident memory, whole process",
}


def bench_views(result: BenchResult) -> list[View]:
    """Return what was run, and a line for each figure with a column for each thread count."""
    titles = {name: title for name, title in _TITLES.items() if name != "tokens_per_second" or _has(result, name)}
    rows = [[title, *(_cell(name, case.figures[name]) for case in result.cases)] for name, title in titles.items()]
    headers = ["", *(count(case.threads, "thread") for case in result.cases)]
    return [
        f"split {result.split}, {count(result.samples, 'sample')}, columns {', '.join(result.columns)}, "
        f"pin {result.pin[:12]}",
        f"pipeline: {result.pipeline}",
        f"batch size {result.batch_size}, shuffle {result.shuffle}, output {result.output}, "
        f"{count(result.epochs, 'epoch')}, page cache {result.cache}",
        f"median of {count(result.repeats, 'run')} (min to max), a new process each",
        "",
        table(headers, rows, right=set(range(1, len(headers)))),
    ]


def _has(result: BenchResult, name: str) -> bool:
    return any(case.figures[name] is not None for case in result.cases)


def _cell(name: str, figure: Measured | None) -> str:
    if figure is None:
        return "not told here"
    shown = size_text if name in _MEMORY else number
    if figure.min == figure.max:
        return shown(figure.median)
    return f"{shown(figure.median)} ({shown(figure.min)} to {shown(figure.max)})"
