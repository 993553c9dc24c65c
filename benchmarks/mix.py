"""Compare a mix of many sources with one source of as many rows, and with mixes of grain and datasets, in turns.

    python benchmarks/mix.py [--peer-python PYTHON] [--rows N] [--sources N] [--repeats 5] [--work DIR] [--json]

PYTHON is an interpreter that has grain and datasets; without it only toolkit's two sides run. Rows are an int64 and two
floating-point numbers, in batches of 256, shuffled within each source; weights go from 1 to 2. Every side has them
where its documentation says that reading is fastest:

- toolkit: packed datasets, `mix.loader(...)`, against `dataset.loader(...)` over one dataset of all rows.
- grain: numpy arrays in memory, `MapDataset.source(...).shuffle().repeat()` in `MapDataset.mix`, batched before
  `to_iter_dataset(ReadOptions(num_threads=0))`, as its ReadOptions recommends of data in memory.
- datasets: Arrow tables in memory, `interleave_datasets(...).with_format("numpy").iter(batch_size=256)`. It is the mix
  that is not shuffled: its shuffle() is a second table of indices, and slower. "flattened" is the same after
  `flatten_indices()`, which writes the rows of the mix one after the other, within what it takes to set up.

A run is a process of its own: a pass that isn't timed (of a peer, a tenth of its rows), then three that are. Rows a
second of a processor are those by the time of all of the process's threads, which other processes change least. A
ratio is the mix's by the other side's, the median of the repeats'. Exits with 1 when a side fails.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from turns import BenchmarkError, command_line, environment, in_turns, reason, show, worker_command

__all__ = ["Result", "Run", "measure"]

BATCH = 256
PASSES = 3
PEER_SHARE = 10  # peers read one row in so many: they are slower
OURS = ("mix", "one")
PEERS = ("grain", "datasets", "datasets flattened")

_Batches = Callable[[], Iterable[Any]]


@dataclasses.dataclass(frozen=True)
class Run:
    """What one process found."""

    rows_s: float
    rows_cpu_s: float
    setup_s: float
    peak_mib: float
    threads: int


@dataclasses.dataclass(frozen=True)
class Result:
    """The runs of each side, in the order of repeats."""

    rows: int
    sources: int
    runs: dict[str, tuple[Run, ...]]

    def ratios(self, side: str, what: str) -> list[float]:
        """Return the mix's by a side's, of each repeat, in order of size."""
        pairs = zip(self.runs["mix"], self.runs[side], strict=True)
        return sorted(getattr(mine, what) / max(getattr(other, what), 1e-9) for mine, other in pairs)

    def lines(self) -> Iterator[str]:
        """Yield the table, and the ratios as the last lines."""
        yield f"{'':18} {'rows/s':>10} {'rows/CPU s':>11} {'set-up s':>9} {'peak MiB':>9} {'threads':>8}"
        for side, runs in self.runs.items():
            found = {field.name: statistics.median(getattr(run, field.name) for run in runs) for field in FIELDS}
            yield (
                f"{side:18} {found['rows_s']:10,.0f} {found['rows_cpu_s']:11,.0f} {found['setup_s']:9.3f} "
                f"{found['peak_mib']:9.0f} {found['threads']:8.0f}"
            )
        for side in self.runs:
            if side != "mix":
                said = []
                for what in ("rows_s", "rows_cpu_s", "peak_mib", "threads"):
                    ratios = self.ratios(side, what)
                    said.append(f"{what}={statistics.median(ratios):.2f} [{ratios[0]:.2f}..{ratios[-1]:.2f}]")
                yield f"mix by {side}: {' '.join(said)}"


FIELDS = dataclasses.fields(Run)


def measure(
    peer_python: str | None = None,
    rows: int = 350_000,
    sources: int = 35,
    repeats: int = 5,
    work: str | os.PathLike[str] | None = None,
) -> Result:
    """Run every side in turns; packed datasets are made below `work`.

    Raises:
        BenchmarkError: Numbers are too small, or a side fails.
    """
    if repeats < 1 or sources < 2 or rows < sources * BATCH:
        raise BenchmarkError(f"there must be a repeat, two sources, and {BATCH} rows of each")
    sides = OURS + (PEERS if peer_python else ())
    with tempfile.TemporaryDirectory(prefix="mix.", dir=work) as made:
        _run("build", sys.executable, made, rows, sources)
        runs: dict[str, list[Run]] = {side: [] for side in sides}
        for repeat, order in enumerate(in_turns(sides, repeats)):
            for side in order:
                python = sys.executable if side in OURS else peer_python
                runs[side].append(Run(**json.loads(_run(side, str(python), made, rows, sources))))
            said = ", ".join(f"{side} {found[-1].rows_s:,.0f}" for side, found in runs.items())
            print(f"repeat {repeat + 1}: {said} rows/s", file=sys.stderr)
    return Result(rows, sources, {side: tuple(found) for side, found in runs.items()})


def _run(side: str, python: str, folder: str, rows: int, sources: int) -> str:
    """Run a side in a process of its own; return the last line it printed."""
    command = [python, *worker_command(__file__, side, folder, rows, sources)[1:]]
    env = environment(str(Path(__file__).parents[1])) if side in (*OURS, "build") else None
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    if done.returncode != 0:
        raise BenchmarkError(f"{side}: {reason(done.stderr, done.returncode)}")
    return (done.stdout.strip().splitlines() or [""])[-1]


def _work(side: str, folder: str, rows: str, sources: str) -> int:
    each, many = int(rows) // int(sources), int(sources)
    if side == "build":
        _build(Path(folder), each, many)
        return 0
    makers = {"mix": _mix, "one": _one, "grain": _grain, "datasets": _interleaved, "datasets flattened": _flattened}
    most = each * many if side in OURS else max(each * many // PEER_SHARE, BATCH)
    ready = makers[side](Path(folder), each, many)  # imports and data in memory aren't set-up
    begun = time.perf_counter()
    batches = ready()
    setup = time.perf_counter() - begun
    _read(batches, most)
    begun, cpu, read, threads = time.perf_counter(), time.process_time(), 0, 0
    for _ in range(PASSES):
        one, seen = _read(batches, most)
        read, threads = read + one, max(threads, seen)
    wall, cpu = time.perf_counter() - begun, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(dataclasses.asdict(Run(read / wall, read / max(cpu, 1e-9), setup, peak, threads))))
    return 0


def _read(batches: _Batches, most: int) -> tuple[int, int]:
    """Read a pass, or `most` rows; return how many they were, and the most threads seen."""
    read = threads = 0
    for number, batch in enumerate(batches()):
        read += len(batch["label"])
        if number % 64 == 0:
            threads = max(threads, len(os.listdir("/proc/self/task")))
        if read >= most:
            break
    return read, threads


def _weights(sources: int) -> list[float]:
    return [1 + number / (sources - 1) for number in range(sources)]


def _build(folder: Path, each: int, sources: int) -> None:
    import toolkit

    columns = {"label": "int64", "a": "float32", "b": "float64"}
    with toolkit.writer(folder / "one", columns=columns) as whole:
        for source in range(sources):
            with toolkit.writer(folder / str(source), columns=columns) as writer:
                for row in range(source * each, (source + 1) * each):
                    for one in (whole, writer):
                        one.add(label=row, a=row % 1000 / 2, b=row / 4)


def _one(folder: Path, each: int, sources: int) -> Callable[[], _Batches]:
    import toolkit

    def ready() -> _Batches:
        loader = toolkit.open(folder / "one").loader(batch_size=BATCH, shuffle="full", seed=1)
        return lambda: loader

    return ready


def _mix(folder: Path, each: int, sources: int) -> Callable[[], _Batches]:
    import toolkit

    def ready() -> _Batches:
        opened = {str(number): toolkit.open(folder / str(number)) for number in range(sources)}
        weights = {str(number): weight for number, weight in enumerate(_weights(sources))}
        mixed = toolkit.mix(opened, weights)
        loader = mixed.loader(batch_size=BATCH, shuffle="full", seed=1, epoch_samples=each * sources)
        return lambda: loader

    return ready


def _arrays(each: int, sources: int) -> Iterator[dict[str, Any]]:
    import numpy as np

    for source in range(sources):
        rows = np.arange(source * each, (source + 1) * each, dtype=np.int64)
        yield {"label": rows, "a": (rows % 1000 / 2).astype(np.float32), "b": rows / 4}


class _InMemory:
    """Arrays as grain's RandomAccessDataSource."""

    def __init__(self, arrays: dict[str, Any]) -> None:
        self._arrays = arrays

    def __len__(self) -> int:
        return len(self._arrays["label"])

    def __getitem__(self, row: int) -> dict[str, Any]:
        return {name: values[row] for name, values in self._arrays.items()}


def _grain(folder: Path, each: int, sources: int) -> Callable[[], _Batches]:
    import grain

    arrays = [_InMemory(one) for one in _arrays(each, sources)]

    def ready() -> _Batches:
        parts = [grain.MapDataset.source(one).seed(number).shuffle().repeat() for number, one in enumerate(arrays)]
        mixed = grain.MapDataset.mix(parts, _weights(sources)).batch(BATCH)
        dataset = mixed.to_iter_dataset(grain.ReadOptions(num_threads=0))
        return lambda: dataset

    return ready


def _interleaved(folder: Path, each: int, sources: int, flatten: bool = False) -> Callable[[], _Batches]:
    import datasets

    datasets.disable_progress_bars()
    parts = [datasets.Dataset.from_dict(one) for one in _arrays(each, sources)]
    total = sum(_weights(sources))

    def ready() -> _Batches:
        mixed = datasets.interleave_datasets(parts, [weight / total for weight in _weights(sources)], seed=1)
        dataset = (mixed.flatten_indices() if flatten else mixed).with_format("numpy")
        return lambda: dataset.iter(batch_size=BATCH)

    return ready


def _flattened(folder: Path, each: int, sources: int) -> Callable[[], _Batches]:
    return _interleaved(folder, each, sources, flatten=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return 0, or 1 when a side failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--peer-python", metavar="PYTHON", help="has grain and datasets; else they are left out")
    parser.add_argument("--rows", type=int, default=350_000, help="of all sources together")
    parser.add_argument("--sources", type=int, default=35, help="that are mixed")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each side, each in its own process")
    parser.add_argument("--work", metavar="DIR", help="for the datasets; the system's temporary folder")
    parser.add_argument("--json", action="store_true", help="print the same as one JSON object")

    def run(given: argparse.Namespace) -> None:
        result = measure(given.peer_python, given.rows, given.sources, given.repeats, given.work)
        show(result.lines(), dataclasses.asdict(result), given.json)

    return command_line(__file__, argv, parser, run, _work)


if __name__ == "__main__":
    sys.exit(main())
