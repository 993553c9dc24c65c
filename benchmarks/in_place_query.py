"""Measure queries: toolkit.query over a dataset against polars alone over its own IPC file of the same rows.

    python benchmarks/in_place_query.py [--rows 10000000] [--cases group,filter,program] [--repeats 5] [--work DIR]
        [--json]

group     select label, count(*), avg(score) from train group by label; labels are the names of 1,000 classes
filter    the keys and scores above 0.99, in the order of scores, 10 of them
program   group as a program: `toolkit query` against a Python program of polars, from their start to their end

Both have the same rows: a key, a label and a score each. The dataset is packed by this benchmark, which takes minutes
for ten million rows; with --work it is kept there and found again. A run is a fresh process; but for program, imports
are done before its clock starts. All files are in the page cache, toolkit checks all that it reads against its CRC32C,
and polars maps its file and has the streaming engine, as toolkit does. The sides take turns. A ratio is toolkit's time
by that of polars in the same repeat: its median, least and most. Exits with 1 when a side fails or answers differ.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from turns import BenchmarkError, command_line, in_turns, reason, run_worker, show

__all__ = ["CASES", "Case", "measure"]

QUERIES = {
    "group": "select label, count(*) as n, avg(score) as mean from train group by label order by label",
    "filter": "select __key__, score from train where score > 0.99 order by score desc limit 10",
}
CASES = (*QUERIES, "program")
SIDES = ("toolkit", "polars")
CLASSES = 1000
_PROGRAM = (
    "import polars, sys; print(polars.SQLContext(train=polars.scan_ipc(sys.argv[1])).execute(sys.argv[2])"
    ".collect(engine='streaming').write_csv(), end='')"
)


@dataclasses.dataclass(frozen=True)
class Case:
    """A question: seconds of each repeat of each side."""

    name: str
    seconds: dict[str, tuple[float, ...]]

    def ratio(self) -> tuple[float, float, float]:
        """Return the median, least and most of toolkit's time by that of polars."""
        pairs = zip(self.seconds["toolkit"], self.seconds["polars"], strict=True)
        each = [mine / theirs for mine, theirs in pairs]
        return statistics.median(each), min(each), max(each)


def measure(
    rows: int = 10_000_000,
    cases: Sequence[str] = CASES,
    repeats: int = 5,
    work: str | os.PathLike[str] | None = None,
) -> list[Case]:
    """Measure the cases over so many rows, which are made below `work` (the system's place for such when None).

    Raises:
        BenchmarkError: A case isn't known, a side fails, or the sides answer differently.
    """
    unknown = [name for name in cases if name not in CASES]
    if unknown or rows < 1 or repeats < 1:
        raise BenchmarkError(f"there is no case {unknown[0]!r}" if unknown else "rows and repeats are at least 1")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder if work is None else work)
        place.mkdir(parents=True, exist_ok=True)
        _make(place, rows)
        return [_case(name, place, rows, repeats) for name in cases]


def _case(name: str, place: Path, rows: int, repeats: int) -> Case:
    seconds: dict[str, list[float]] = {side: [] for side in SIDES}
    answers = set()
    for order in in_turns(SIDES, repeats):
        for side in order:
            if name == "program":
                taken, answer = _program(side, place, rows)
            else:
                taken, answer = json.loads(run_worker(side, __file__, name, side, place, rows))
            seconds[side].append(taken)
            answers.add(json.dumps(answer))
    if len(answers) != 1:
        raise BenchmarkError(f"{name}: the sides answer differently")
    return Case(name, {side: tuple(each) for side, each in seconds.items()})


def _program(side: str, place: Path, rows: int) -> tuple[float, list[str]]:
    sql = QUERIES["group"]
    commands = {
        "toolkit": ["-m", "toolkit.cli.main", "query", str(_dataset(place, rows)), sql, "--format", "csv"],
        "polars": ["-c", _PROGRAM, str(_ipc(place, rows)), sql],
    }
    start = time.perf_counter()
    done = subprocess.run([sys.executable, *commands[side]], capture_output=True, text=True, check=False)
    taken = time.perf_counter() - start
    if done.returncode != 0:
        raise BenchmarkError(f"{side}: {reason(done.stderr, done.returncode)}")
    # Means differ in their last digits with the order in which rows were added up.
    return taken, [line.rpartition(",")[0] for line in done.stdout.splitlines()]


def _dataset(place: Path, rows: int) -> Path:
    return place / f"query-{rows}"


def _ipc(place: Path, rows: int) -> Path:
    return place / f"query-{rows}.arrow"


def _make(place: Path, rows: int) -> None:
    """Make the rows, as a dataset and as an IPC file of polars, where they aren't yet."""
    if _ipc(place, rows).exists():
        return
    import numpy as np
    import polars as pl

    import toolkit

    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {
            "key": pl.Series([f"k{number:08d}" for number in range(rows)]),
            "label": pl.Series([f"class {i:04d}" for i in range(CLASSES)]).gather(rng.integers(0, CLASSES, rows)),
            "score": rng.random(rows),
        }
    )
    parquet = place / f"query-{rows}.parquet"
    frame.write_parquet(parquet)
    toolkit.pack(str(parquet), str(_dataset(place, rows)), kind={"label": "label"}, key="key", on_existing="overwrite")
    parquet.unlink()
    unfinished = _ipc(place, rows).with_suffix(".part")
    frame.rename({"key": "__key__"}).write_ipc(unfinished, compression="uncompressed")
    unfinished.rename(_ipc(place, rows))


def _work(case: str, side: str, place: str, rows: str) -> int:
    """Ask once, and print the seconds and the answer."""
    import polars as pl

    import toolkit
    import toolkit.checks.query

    pl.SQLContext({"t": pl.LazyFrame({"a": [1]})}).execute("select sum(a) from t").collect(engine="streaming")
    sql = QUERIES[case]
    start = time.perf_counter()
    if side == "toolkit":
        found = toolkit.query(_dataset(Path(place), int(rows)), sql).to_polars()
    else:
        table = pl.scan_ipc(_ipc(Path(place), int(rows)))
        found = pl.SQLContext({"train": table}).execute(sql).collect(engine="streaming")
    taken = time.perf_counter() - start
    print(json.dumps([taken, found.select(pl.exclude("mean")).rows()]))
    return 0


def _lines(cases: Sequence[Case]) -> Iterator[str]:
    for case in cases:
        ours, theirs = (min(case.seconds[side]) for side in SIDES)
        median, least, most = case.ratio()
        yield f"{case.name:8} toolkit {ours:.3f} s, polars {theirs:.3f} s: {median:.2f} ({least:.2f} to {most:.2f})"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--cases", default=",".join(CASES), type=lambda text: tuple(text.split(",")))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--work", help="where the rows are kept")
    parser.add_argument("--json", action="store_true")

    def run(given: argparse.Namespace) -> None:
        cases = measure(given.rows, given.cases, given.repeats, given.work)
        show(_lines(cases), [{"name": case.name, "seconds": case.seconds} for case in cases], given.json)

    return command_line(__file__, argv, parser, run, _work)


if __name__ == "__main__":
    sys.exit(main())
