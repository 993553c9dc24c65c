"""Epochs of several loaders over the same photographs, each in a process of its own, in turns; medians and spread."""

from __future__ import annotations

import dataclasses
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from turns import BenchmarkError, environment, in_turns, reason, worker_command

__all__ = ["COMPARED", "Case", "Clock", "Runner", "Side", "side_of", "take_turns", "work"]

COMPARED = 128  # photographs whose outputs are compared


@dataclasses.dataclass(frozen=True, kw_only=True)
class Side:
    """One of the things compared.

    Attributes:
        key: As in SIDES, or floor, two_threads, two_processes.
        name: With its version.
        rates: Photographs a second, one for each repeat.
        cpu_rates: Photographs a second of CPU time, of all threads: what a busy machine spoils less.
        mean_difference: To toolkit's exact output, of 255; None where outputs are not compared.
    """

    key: str
    name: str
    rates: tuple[float, ...]
    cpu_rates: tuple[float, ...]
    mean_difference: float | None = None

    @property
    def rate(self) -> float:
        """Median."""
        return statistics.median(self.rates)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """What one case found.

    Attributes:
        name: One of CASES.
        photographs: How many were in each epoch.
        mean_bytes: Of a file.
        sides: The first is what the others are compared with.
    """

    name: str
    photographs: int
    mean_bytes: float
    sides: tuple[Side, ...]

    def ratios(self, side: Side) -> list[float]:
        """Return the first side's rate by that of another, for each repeat."""
        return [ours / theirs for ours, theirs in zip(self.sides[0].rates, side.rates, strict=True)]

    def cpu_ratios(self, side: Side) -> list[float]:
        """Return the same of the rates by CPU time."""
        return [ours / theirs for ours, theirs in zip(self.sides[0].cpu_rates, side.cpu_rates, strict=True)]

    def lines(self) -> Iterator[str]:
        """Yield the table."""
        yield f"{self.name}: {self.photographs} photographs, mean {self.mean_bytes:.0f} bytes"
        width = max(len(side.name) for side in self.sides)
        head = f"{self.sides[0].key} / it [min .. max]"
        yield f"{'':{width}}  photos/s  [min .. max]          {head:24}  by CPU time         mean difference (of 255)"
        for side in self.sides:
            spread = f"[{min(side.rates):.1f} .. {max(side.rates):.1f}]"
            ratio, cpu_ratio = (
                f"{statistics.median(ratios):.2f} [{min(ratios):.2f} .. {max(ratios):.2f}]"
                for ratios in (self.ratios(side), self.cpu_ratios(side))
            )
            differs = "" if side.mean_difference is None else f"{side.mean_difference:.3f}"
            yield f"{side.name:{width}}  {side.rate:8.1f}  {spread:20}  {ratio:24}  {cpu_ratio:18}  {differs}".rstrip()


@dataclasses.dataclass(frozen=True)
class Runner:
    """Runs sides of a task in processes of their own.

    Attributes:
        script: What is run: its command line takes what work() does.
        task: Its file.
        own: Sides of toolkit's, which see no other packages.
        plain: A side that sees no system libraries of the others'.
    """

    script: str
    task: Path
    peer_path: str | None
    library_path: str | None
    own: tuple[str, ...]
    plain: str = ""

    def start(
        self, key: str, cpus: Sequence[int], threads: int = 1, outputs: Path | None = None
    ) -> subprocess.Popen[str]:
        paths = [str(Path(self.script).parents[1])]
        if self.peer_path and key not in self.own:
            paths.append(str(Path(self.peer_path).resolve()))
        env = environment(*paths, OMP_NUM_THREADS="1")
        if self.library_path and key != self.plain:
            env["LD_LIBRARY_PATH"] = self.library_path
        command = worker_command(self.script, self.task, key, ",".join(map(str, cpus)), threads, outputs or "")
        return subprocess.Popen(
            command, text=True, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def finish(self, key: str, process: subprocess.Popen[str]) -> dict[str, Any]:
        out, error = process.communicate("go\n")
        if process.returncode != 0:
            raise BenchmarkError(f"{key}: {reason(error, process.returncode)}")
        return dict(json.loads(out.splitlines()[-1]))

    def run(self, key: str, cpus: Sequence[int], threads: int = 1, outputs: Path | None = None) -> dict[str, Any]:
        return self.finish(key, self.start(key, cpus, threads, outputs))


def take_turns(
    runner: Runner, keys: Iterable[str], repeats: int, outputs: Path | None = None
) -> dict[str, list[dict[str, Any]]]:
    """Run every side that runs at all, in turns: each repeat begins with another one; return what each run found.

    Args:
        runner: What runs them.
        keys: The sides; the first one must run.
        repeats: Measured runs of each.
        outputs: A folder for the first outputs of each.
    """
    cpu = [max(os.sched_getaffinity(0))]
    name = Path(runner.script).stem
    runs: dict[str, list[dict[str, Any]]] = {}
    for key in keys:
        try:
            runner.run(key, cpu, outputs=None if outputs is None else outputs / f"{key}.npy")
            runs[key] = []
        except BenchmarkError as error:
            if not runs:
                raise
            print(f"{name}: {error}: left out", file=sys.stderr)
    for repeat, order in enumerate(in_turns(runs, repeats)):
        for key in order:
            runs[key].append(runner.run(key, cpu))
        said = ", ".join(f"{key} {found[-1]['rate']:.0f}" for key, found in runs.items())
        print(f"{name}: repeat {repeat + 1} of {repeats}, photos/s: {said}", file=sys.stderr)
    return runs


def side_of(key: str, name: str, runs: Sequence[dict[str, Any]], difference: float | None = None) -> Side:
    """Return a side of what its runs found."""
    return Side(
        key=key,
        name=name,
        rates=tuple(run["rate"] for run in runs),
        cpu_rates=tuple(run["cpu_rate"] for run in runs),
        mean_difference=difference,
    )


def work(
    sides: Mapping[str, Callable[[dict[str, Any]], tuple[str, Iterator[Any]]]],
    task_file: str,
    key: str,
    cpus: str,
    threads: str,
    outputs: str,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run one side, once a line has come; return what came out and the task. With `outputs` write its first ones."""
    os.sched_setaffinity(0, {int(cpu) for cpu in cpus.split(",")})
    task = json.loads(Path(task_file).read_text(encoding="utf-8")) | {"threads": int(threads)}
    try:
        name, batches = sides[key](task)
    except ImportError as error:
        raise BenchmarkError(str(error)) from error
    print("ready", flush=True)
    sys.stdin.readline()
    if outputs:
        kept: list[Any] = []
        for batch in batches:
            kept.append(np.array(batch))
            if sum(map(len, kept)) >= COMPARED:
                break
        np.save(outputs, np.concatenate(kept)[:COMPARED])
        return {"name": name}, task
    samples, clock = 0, Clock()
    for batch in batches:
        samples += len(batch)
    found = {"name": name, **clock.rates(samples)}
    if samples != len(task["files"]):
        raise BenchmarkError(f"{name} gave {samples} of {len(task['files'])} photographs")
    return found, task


class Clock:
    """Counts from when it is made."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def rates(self, samples: int) -> dict[str, float]:
        wall, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        return {"rate": samples / wall, "cpu_rate": samples / cpu}
