"""What comparisons of two checkouts share: their processes, sides measured in turns, figures and their table."""

from __future__ import annotations

import dataclasses
import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from turns import BenchmarkError, environment, in_turns, reason

__all__ = ["HERE", "Checkout", "Figure", "check_compiled", "compare", "lines"]

HERE = Path(__file__).resolve().parents[1]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Figure:
    """One number that was measured of this checkout, and of another one.

    Attributes:
        name: Case and what was measured.
        ours: Of this checkout, one for each repeat.
        theirs: Of the other one; () where there is none.
    """

    name: str
    ours: tuple[float, ...]
    theirs: tuple[float, ...] = ()

    @property
    def ratios(self) -> list[float]:
        """This checkout's number by the other's, for each repeat; not a number where that is 0."""
        pairs = zip(self.ours, self.theirs, strict=True) if self.theirs else ()
        return [ours / theirs if theirs else float("nan") for ours, theirs in pairs]

    @property
    def ratio(self) -> float:
        """Their median; not a number without another checkout."""
        return statistics.median(self.ratios) if self.theirs else float("nan")

    def cells(self) -> list[str]:
        """Return the cells of its line in the table."""
        cells = [self.name, _spread(self.ours)]
        if self.theirs:
            ratios = self.ratios
            cells += [_spread(self.theirs), f"{self.ratio:.3f}  [{min(ratios):.3f} .. {max(ratios):.3f}]"]
        return cells


@dataclasses.dataclass(frozen=True)
class Checkout:
    """A checkout, and the folder that it works in."""

    root: Path
    work: Path

    def python(self, code: str, *arguments: object) -> None:
        """Evaluate an expression over one of its benchmark scripts, with `arguments` as argv[1:]."""
        module = code.split(".")[0]
        self._run("-c", f"from pathlib import Path; from sys import argv; import {module}; {code}", *arguments)

    def script(
        self, name: str | Path, *arguments: object, cpus: set[int] | None = None, said: str = ""
    ) -> dict[str, Any]:
        """Run a benchmark script over its toolkit; return the JSON on the last line of what it printed.

        A name is that of its own script. A path is a script of any checkout, whose neighbours it imports.
        """
        out = self._run(self.root / "benchmarks" / name, *arguments, cpus=cpus, said=said)
        found = json.loads(out.splitlines()[-1])
        return found if isinstance(found, dict) else {"seconds": float(found)}

    def process(self, *arguments: object) -> None:
        """Run its Python with `arguments`."""
        self._run(*arguments)

    def _run(self, *arguments: object, cpus: set[int] | None = None, said: str = "") -> str:
        env = environment(str(self.root), str(self.root / "benchmarks"), OMP_NUM_THREADS="1")
        env.pop("PYTHONDONTWRITEBYTECODE", None)  # what is installed is compiled once, not at every start
        env["PYTHONPYCACHEPREFIX"] = str(self.work / "pycache")
        command = ["taskset", "-c", ",".join(map(str, sorted(cpus)))] if cpus else []
        command += [sys.executable, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=env, input=said, cwd=self.work)
        if done.returncode != 0:
            raise BenchmarkError(f"{self.root}: {reason(done.stderr, done.returncode)}")
        return done.stdout


def check_compiled(checkout: Path) -> None:
    """Raise BenchmarkError unless a checkout is compiled in place."""
    if not list((checkout / "toolkit" / "_native").rglob("*.so")):
        raise BenchmarkError(f"{checkout} is not compiled: run python setup.py build_ext --inplace there")


def compare(
    script: str, case: str, sides: Sequence[Callable[[], Mapping[str, float]]], repeats: int
) -> Iterator[Figure]:
    """Measure one side, or this checkout's and the other's in turns: each returns numbers by name, once a repeat."""
    runs: dict[str, list[list[float]]] = {}
    for repeat, order in enumerate(in_turns(range(len(sides)), repeats)):
        for side in order:
            for name, number in sides[side]().items():
                runs.setdefault(f"{case}, {name}", [[] for _ in sides])[side].append(number)
        print(f"{script}: {case}: repeat {repeat + 1} of {repeats}", file=sys.stderr)
    for name, (ours, *theirs) in runs.items():
        yield Figure(name=name, ours=tuple(ours), theirs=tuple(theirs[0]) if theirs else ())


def lines(figures: Sequence[Figure]) -> Iterator[str]:
    """Yield the lines of the table: medians with their spread."""
    table = [figure.cells() for figure in figures]
    heads = ["", "this", "other", "this by other"]
    widths = [max(map(len, column)) for column in zip(heads[: len(table[0])], *table, strict=True)]
    for row in [heads[: len(widths)], *table]:
        name, *cells = (f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True))
        yield "  ".join((f"{row[0]:{len(name)}}", *cells))


def _spread(numbers: Sequence[float]) -> str:
    return f"{_text(statistics.median(numbers))} [{_text(min(numbers))}..{_text(max(numbers))}]"


def _text(number: float) -> str:
    digits = 0 if abs(number) >= 1000 else 1 if abs(number) >= 10 else 3
    return f"{number:,.{digits}f}"
