"""Compare verbs of a dataset of many small rows with polars alone: filter, sort, split, in turns.

    python benchmarks/in_place_verbs.py [--cases filter,function,sort,split] [--rows 10000000] [--repeats 5]
        [--work DIR] [--json]

Rows have a key (text of ten digits), a label (int64, 1000 of them) and a score (float64): packed by toolkit, and
written by polars itself as Arrow IPC, not compressed, and as Parquet.

filter     score above a number; toolkit: an expression of pyarrow.compute
function   the same by a function of many samples at once: batched=True there, map_batches() here
sort       by score, stable
split      a fifth of the rows by a hash of the key, and the others: train_test_split() there, hash() here

Sides: toolkit gives views. polars_ipc and polars_parquet give frames of the rows, the way polars has them; ipc_numbers
does less than they, and gives numbers of the rows alone, as views do. A run is a fresh process that does the question
once, unmeasured, and then TIMES times: its time is the median. Nothing is asked twice, since toolkit remembers what an
expression gave. The sides take turns; a ratio is toolkit's time by another side's of the same repeat: its median, least
and most. Exits with 1 when a side fails, or when they don't find equally many rows.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from turns import BenchmarkError, command_line, environment, in_turns, run_worker, show

__all__ = ["CASES", "SIDES", "Case", "measure"]

CASES = ("filter", "function", "sort", "split")
SIDES = ("toolkit", "polars_ipc", "ipc_numbers", "polars_parquet")
TIMES = 3
CLASSES = 1000
FIFTH = (1 << 64) // 5  # hashes below it


@dataclasses.dataclass(frozen=True)
class Case:
    """A question: seconds of each repeat of each side."""

    name: str
    rows: int
    seconds: dict[str, tuple[float, ...]]

    def ratios(self) -> dict[str, tuple[float, float, float]]:
        """Return the median, least and most of toolkit's time by that of another side, by its name."""
        first, *others = self.seconds
        found = {}
        for other in others:
            pairs = zip(self.seconds[first], self.seconds[other], strict=True)
            each = [mine / theirs for mine, theirs in pairs]
            found[other] = (statistics.median(each), min(each), max(each))
        return found


def measure(
    cases: Sequence[str] = CASES, rows: int = 10_000_000, repeats: int = 5, work: str | None = None
) -> list[Case]:
    """Make the rows in a folder below `work`, and ask the questions of every side.

    Raises:
        BenchmarkError: A case isn't known, a side fails, or sides differ in what they find.
    """
    unknown = [name for name in cases if name not in CASES]
    if unknown or min(rows, repeats) < 1:
        raise BenchmarkError(f"unknown cases {unknown}" if unknown else "rows and repeats must be positive")
    with tempfile.TemporaryDirectory(prefix="verbs.", dir=work) as made:
        _run("make", "", str(rows), made)
        return [_case(name, made, repeats) for name in cases]


def _case(name: str, folder: str, repeats: int) -> Case:
    runs: dict[str, list[float]] = {side: [] for side in SIDES}
    counts: dict[str, str] = {}
    for repeat, order in enumerate(in_turns(SIDES, repeats)):
        for side in order:
            seconds, counts[side] = _run(name, side, folder)
            runs[side].append(float(seconds))
        said = ", ".join(f"{side} {found[-1]:.3f}" for side, found in runs.items())
        print(f"{name}, repeat {repeat + 1}: {said}", file=sys.stderr)
    # Hashes differ, and so does what a split has of each; everything else is the same.
    if name != "split" and len(set(counts.values())) > 1:
        raise BenchmarkError(f"{name}: the sides found {counts} rows")
    return Case(name, int(counts["toolkit"]), {side: tuple(found) for side, found in runs.items()})


def _run(name: str, side: str, *arguments: str) -> list[str]:
    env = environment(str(Path(__file__).parents[1]))
    return run_worker(f"{name}, {side}", __file__, name, side, *arguments, env=env).split()[-2:]


def _make(rows: int, folder: Path) -> None:
    import numpy as np
    import polars as pl

    import toolkit

    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {
            "key": pl.Series(rng.permutation(rows)).cast(pl.String).str.zfill(10),
            "label": rng.integers(0, CLASSES, rows),
            "score": rng.random(rows),
        }
    )
    frame.write_ipc(folder / "rows.arrow")
    frame.write_parquet(folder / "rows.parquet")
    toolkit.pack(folder / "rows.parquet", folder / "ds", key="key")


def _work(name: str, side: str, *arguments: str) -> int:
    if name == "make":
        _make(int(arguments[0]), Path(arguments[1]))
        print("made", arguments[0])
        return 0
    folder = Path(arguments[0])
    ask = (_toolkit if side == "toolkit" else _polars)(name, side, folder)
    seconds, count = [], ask(-1)
    for number in range(TIMES):
        begun = time.perf_counter()
        ask(number)
        seconds.append(time.perf_counter() - begun)
    print(statistics.median(seconds), count)
    return 0


def _least(number: int) -> float:
    """Return another bound for each question; the first one is for all sides' counts."""
    return 0.5 + 0.001 * (number + 1)


def _toolkit(name: str, side: str, folder: Path) -> Callable[[int], int]:
    import pyarrow as pa
    import pyarrow.compute as pc

    import toolkit

    ds = toolkit.open(folder / "ds")

    def by_function(number: int) -> int:
        def is_above(batch: pa.RecordBatch) -> pa.Array:
            return pc.greater(batch["score"], _least(number))

        return len(ds.filter(is_above, ["score"], batched=True))

    asked: dict[str, Callable[[int], int]] = {
        "filter": lambda number: len(ds.filter(pc.field("score") > _least(number))),
        "function": by_function,
        "sort": lambda number: len(ds.sort("score")),
        "split": lambda number: len(ds.train_test_split(0.2, seed=number)["test"]),
    }
    return asked[name]


def _polars(name: str, side: str, folder: Path) -> Callable[[int], int]:
    import polars as pl

    numbers = side == "ipc_numbers"

    def scan() -> pl.LazyFrame:
        if side == "polars_parquet":
            return pl.scan_parquet(folder / "rows.parquet")
        return pl.scan_ipc(folder / "rows.arrow")

    def kept(condition: pl.Expr) -> int:
        found = scan().with_row_index("row").filter(condition).select("row") if numbers else scan().filter(condition)
        return len(found.collect())

    def is_above(number: int) -> pl.Expr:
        return pl.col("score").map_batches(lambda column: column > _least(number), return_dtype=pl.Boolean)

    def sort(number: int) -> int:
        order = pl.arg_sort_by("score", nulls_last=True, maintain_order=True)
        found = scan().select(order) if numbers else scan().sort("score", nulls_last=True, maintain_order=True)
        return len(found.collect())

    def split(number: int) -> int:
        is_test = pl.col("key").hash(number + 1) < FIFTH
        rows: Any = scan().with_row_index("row").select("row", is_test=is_test) if numbers else scan()
        whole = rows.collect() if numbers else rows.with_columns(is_test=is_test).collect()
        return min(len(whole.filter("is_test")), len(whole.filter(~pl.col("is_test"))))

    asked: dict[str, Callable[[int], int]] = {
        "filter": lambda number: kept(pl.col("score") > _least(number)),
        "function": lambda number: kept(is_above(number)),
        "sort": sort,
        "split": split,
    }
    return asked[name]


def _lines(cases: Sequence[Case]) -> Iterator[str]:
    """Yield a line for each side, and the ratios as the last line."""
    yield f"{'case':10} {'side':18} {'median s':>9} {'least':>8} {'most':>8}"
    ratios = []
    for case in cases:
        for side, seconds in case.seconds.items():
            yield (
                f"{case.name:10} {side:18} {statistics.median(seconds):9.4f} {min(seconds):8.4f} {max(seconds):8.4f}"
            )
        for other, (median, least, most) in case.ratios().items():
            yield f"{case.name:10} {f'by {other}':18} {median:9.3f} {least:8.3f} {most:8.3f}"
            ratios.append(f"{case.name}_by_{other}={median:.3f}")
    yield " ".join(ratios)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return 0, or 1 when a side failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", default=",".join(CASES), metavar="CASE,...", help=", ".join(CASES))
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of the dataset and of the files")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each side, each in its own process")
    parser.add_argument("--work", metavar="DIR", help="for what is made")
    parser.add_argument("--json", action="store_true", help="print the same as one JSON object")

    def run(given: argparse.Namespace) -> None:
        cases = measure(given.cases.split(","), given.rows, given.repeats, given.work)
        found = [dataclasses.asdict(case) | {"ratios": case.ratios()} for case in cases]
        show(_lines(cases), {"cases": found}, given.json)

    return command_line(__file__, argv, parser, run, _work)


if __name__ == "__main__":
    sys.exit(main())
