"""Mutate datasets, mend their hashes, and use them: no crash, no unexpected error, no hang, no growth.

    python tests/fuzz/datasets.py [--seconds 60] [--datasets N] [--start SEED] [--processes 2] [--sanitized]
    python tests/fuzz/datasets.py --start 1234 --datasets 1 --processes 1      (the dataset of seed 1234 again)

A dataset follows from its seed alone. Worker processes carry out every action of dataset_actions on each; this process
watches them: one that dies, an action that takes more than 10 s of CPU time or grows by more than 1 GiB, and any
exception that is no ToolkitError is a finding. Exits with 1 when there are any; their datasets are kept in --findings.
With --sanitized the native code has ASan and UBSan.
"""

from __future__ import annotations

import argparse
import copy
import faulthandler
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from sanitize.build import environment

ACTION_SECONDS = 10.0  # of CPU time: the machine may be busy
HUNG_SECONDS = 60.0  # without an end, whatever it does
START_SECONDS = 120.0
GROWTH_BYTES = 1 << 30
WORKER = "--worker"


# --- the worker: one line of JSON before and after each action --------------------------------------------------------


def work(work_folder: str, first: str, step: str) -> int:
    """Carry out all actions on the datasets of seeds first, first + step, ... until killed."""
    import warnings

    import numpy as np
    from fuzz.dataset_actions import ACTIONS
    from fuzz.dataset_mutations import mutate, seeds

    from toolkit.errors import ToolkitError

    faulthandler.enable()
    say = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    root = Path(work_folder)
    good = seeds(root / "good")
    for name in ACTIONS:  # what is imported late, and pools, are no growth
        for one in ("pictures", "raw", "values", "tokens"):
            _attempt(ACTIONS[name], root / "good" / one, ToolkitError)
    seed = int(first)
    while True:
        rng = np.random.default_rng(seed)
        crafted = copy.deepcopy(good[seed % len(good)])
        shutil.rmtree(root / "mutated", ignore_errors=True)
        try:
            print(json.dumps({"seed": seed, "done": mutate(crafted, rng)}), file=say)
            crafted.write(root / "mutated")
        except Exception as error:  # an edit that no file can hold, such as a column type without a format
            print(json.dumps({"seed": seed, "unwritten": repr(error)[:200]}), file=say)
            seed += int(step)
            continue
        for name, action in ACTIONS.items():
            print(json.dumps({"seed": seed, "action": name}), file=say)
            with warnings.catch_warnings():
                warnings.simplefilter("error", RuntimeWarning)
                outcome, grown = _attempt(action, root / "mutated", ToolkitError)
            print(json.dumps({"seed": seed, "action": name, "outcome": outcome, "grown": grown}), file=say)
        seed += int(step)


def _attempt(action: Any, dataset: Path, expected: type[Exception]) -> tuple[str, int]:
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    try:
        action(dataset)
        outcome = "done"
    except expected:
        outcome = "refused"
    except Exception:
        outcome = traceback.format_exc()
    return outcome, _status("VmHWM") - before


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    raise LookupError(name)


# --- the watcher ------------------------------------------------------------------------------------------------------


@dataclass
class Watched:
    """A worker and what it said last."""

    number: int
    folder: Path
    process: subprocess.Popen[bytes]
    next_seed: int
    done: list[str] = field(default_factory=list)
    action: str = "start"
    since: float = field(default_factory=time.monotonic)
    cpu: float = 0.0
    buffer: bytes = b""


def _cpu_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it ended
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Run:
    """Workers over seeds from `start`, until `datasets` were used up or `seconds` are over."""

    def __init__(self, given: argparse.Namespace, work_folder: Path) -> None:
        self.given = given
        self.work = work_folder
        self.environment = environment() if given.sanitized else None
        self.counts: Counter[str] = Counter()
        self.findings: list[str] = []
        self.seen: Counter[str] = Counter()

    def run(self) -> None:
        """Run until the end."""
        workers = [self._start(number, self.given.start + number) for number in range(self.given.processes)]
        stop = float("inf")
        try:
            while workers and time.monotonic() < stop:
                ready, _, _ = select.select([worker.process.stdout for worker in workers], [], [], 0.5)
                for worker in list(workers):
                    if worker.process.stdout in ready:
                        self._read(worker)
                    self._watch(worker, workers)
                if self.given.seconds and self.counts["datasets"] and stop == float("inf"):
                    stop = time.monotonic() + self.given.seconds  # from the first on: making the seeds takes long
        finally:
            for worker in workers:
                worker.process.kill()
                worker.process.wait()

    def _start(self, number: int, seed: int) -> Watched:
        folder = self.work / str(number)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        command = [sys.executable, __file__, WORKER, str(folder), str(seed), str(self.given.processes)]
        with open(folder.with_suffix(".err"), "wb") as errors:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env=self.environment)
        return Watched(number, folder, process, seed)

    def _read(self, worker: Watched) -> None:
        assert worker.process.stdout is not None
        worker.buffer += os.read(worker.process.stdout.fileno(), 1 << 16)
        *lines, worker.buffer = worker.buffer.split(b"\n")
        for line in lines:
            said = json.loads(line)
            worker.since, worker.cpu = time.monotonic(), _cpu_seconds(worker.process.pid)
            worker.next_seed = said["seed"]
            if "done" in said:
                self.counts["datasets"] += 1
                worker.done = said["done"]
                worker.action = "write"
            elif "outcome" not in said:
                worker.action = said.get("action", "unwritten")
                self.counts["unwritten"] += "unwritten" in said
            else:
                self.counts["actions"] += 1
                self.counts[said["outcome"] if len(said["outcome"]) < 10 else "failed"] += 1
                if len(said["outcome"]) >= 10:
                    self._found(worker, said["outcome"].strip().splitlines()[-1], said["outcome"])
                elif said["grown"] > GROWTH_BYTES:
                    self._found(worker, f"grows by {said['grown'] >> 20} MiB", "")

    def _watch(self, worker: Watched, workers: list[Watched]) -> None:
        waiting = worker.action in ("start", "write")
        limit, wall = (START_SECONDS, START_SECONDS) if waiting else (ACTION_SECONDS, HUNG_SECONDS)
        ended = worker.process.poll()
        over = self.given.datasets and worker.next_seed >= self.given.start + self.given.datasets
        if over:
            worker.process.kill()
        elif ended is not None and not worker.buffer:
            self._read(worker)
            said = worker.folder.with_suffix(".err").read_text(errors="replace")
            if worker.action == "start":
                raise SystemExit(f"a worker did not start:\n{said}")
            name = f"signal {signal.Signals(-ended).name}" if ended < 0 else f"exit {ended}"
            self._found(worker, f"the process ends with {name}", said[-6000:])
        elif time.monotonic() - worker.since > wall or _cpu_seconds(worker.process.pid) - worker.cpu > limit:
            worker.process.send_signal(signal.SIGABRT)  # faulthandler says where
            time.sleep(0.5)
            said = worker.folder.with_suffix(".err").read_text(errors="replace")
            self._found(worker, f"takes more than {limit:.0f} s", said[-6000:])
            worker.process.kill()
        else:
            return
        worker.process.wait()
        workers.remove(worker)
        if not over:
            workers.append(self._start(worker.number, worker.next_seed + self.given.processes))

    def _found(self, worker: Watched, what: str, details: str) -> None:
        title = f"{worker.action}: {what}"
        alike = title.translate(str.maketrans("", "", "0123456789"))[:120]
        self.seen[alike] += 1
        if self.seen[alike] > 3:
            return
        text = f"seed {worker.next_seed}: {title}\n  edits: {'; '.join(worker.done)}\n{details}"
        self.findings.append(text)
        print(text, file=sys.stderr, flush=True)
        if self.given.findings:
            kept = Path(self.given.findings, f"dataset-{worker.next_seed}")
            shutil.rmtree(kept, ignore_errors=True)
            with_dataset = worker.folder / "mutated"
            if with_dataset.exists():
                shutil.copytree(with_dataset, kept)
            (Path(self.given.findings) / f"dataset-{worker.next_seed}.txt").write_text(text)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return 1 when something was found."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == [WORKER]:
        return work(*arguments[1:])
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=0, help="stop so long after the first dataset")
    parser.add_argument("--datasets", type=int, default=0, help="stop after so many")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--processes", type=int, default=2, help="workers at the same time")
    parser.add_argument("--sanitized", action="store_true", help="compile the native code with ASan and UBSan")
    parser.add_argument("--findings", type=Path, help="folder that datasets with findings are copied to")
    given = parser.parse_args(arguments)
    if not given.seconds and not given.datasets:
        given.seconds = 60.0
    if given.findings:
        given.findings.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fuzz.") as made:
        run = Run(given, Path(made))
        run.run()
    print(f"executions: {run.counts['datasets']}")
    print(f"{dict(run.counts)}; kinds of findings: {len(run.seen)}")
    for title, count in run.seen.most_common():
        print(f"  {count} times {title}")
    return 1 if run.findings else 0


if __name__ == "__main__":
    sys.exit(main())
