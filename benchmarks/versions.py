"""Compare this checkout with another one, compiled in place: the same photographs, records, tokens and packs, in turns.

    python benchmarks/versions.py FOLDER --other DIR [--case CASE] [--count 2000] [--repeats 5]

Each version packs its own datasets and runs its own benchmark scripts (image_pipeline.py, loader.py, tokens.py,
pack.py, open_resume.py), only the sides that are toolkit's, each in a fresh process, the page cache warm, on one CPU
(pack: on all). `start` counts whole processes: `toolkit --help`, a pack of three photographs, a first batch of them. A
ratio is this checkout's rate by the other's in the same repeat: above 1 this checkout is faster. The last line is the
least median.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from loader import Baseline
from photo_task import read_files
from turns import BenchmarkError, environment, in_turns, reason, show

__all__ = ["CASES", "Figure", "measure"]

HERE = Path(__file__).resolve().parents[1]
RECORDS, RECORD_BATCH = 30_000, 256
TOKENS = 50_000_000
PACK_COPIES, PACK_JOBS = 6, 2
OPEN_SHARDS = 400_000
STARTS = 8  # processes of each kind in a repeat

Rates = dict[str, float]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Figure:
    """One rate of both versions.

    Attributes:
        name: Case and what was measured.
        ours: Rates of this checkout, one for each repeat.
        theirs: Of the other one.
    """

    name: str
    ours: tuple[float, ...]
    theirs: tuple[float, ...]

    @property
    def ratios(self) -> list[float]:
        """This checkout's rate by the other's, for each repeat."""
        return [ours / theirs for ours, theirs in zip(self.ours, self.theirs, strict=True)]

    @property
    def ratio(self) -> float:
        """Their median."""
        return statistics.median(self.ratios)

    def line(self) -> str:
        """Return a line of the table."""
        spread = f"[{min(self.ratios):.3f} .. {max(self.ratios):.3f}]"
        ours, theirs = statistics.median(self.ours), statistics.median(self.theirs)
        return f"{self.name:24}{ours:14,.1f}{theirs:14,.1f}{self.ratio:9.3f}  {spread}"


@dataclasses.dataclass(frozen=True)
class _Version:
    """A checkout, and the folder that it works in."""

    root: Path
    work: Path

    def python(self, code: str, *arguments: object) -> None:
        """Evaluate an expression over one of its benchmark scripts, with `arguments` as argv[1:]."""
        module = code.split(".")[0]
        self._run("-c", f"from pathlib import Path; from sys import argv; import {module}; {code}", *arguments)

    def script(self, name: str, *arguments: object, cpus: set[int] | None = None, said: str = "") -> dict[str, Any]:
        """Run one of its benchmark scripts; return the JSON on the last line of what it printed."""
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


def measure(
    folder: Path, other: Path, *, cases: Sequence[str], count: int, repeats: int, work: Path | None = None
) -> list[Figure]:
    """Measure the cases on this checkout and `other`, `repeats` times in turns.

    Raises:
        BenchmarkError: A version fails, or the other one is not compiled.
    """
    if not list((other / "toolkit" / "_native").rglob("*.so")):
        raise BenchmarkError(f"{other} is not compiled: run python setup.py build_ext --inplace there")
    figures = []
    for case in cases:
        with tempfile.TemporaryDirectory(prefix="versions.", dir=work) as made:
            versions = [_Version(HERE, Path(made, "ours")), _Version(other.resolve(), Path(made, "theirs"))]
            runs: dict[str, tuple[list[float], list[float]]] = {}
            for version in versions:
                version.work.mkdir()
            once = [CASES[case](version, folder.resolve(), count) for version in versions]
            for repeat, order in enumerate(in_turns((0, 1), repeats)):
                for side in order:
                    read_files(tuple(versions[side].work.rglob("*")))
                    for name, rate in once[side]().items():
                        runs.setdefault(f"{case}, {name}", ([], []))[side].append(rate)
                print(f"versions: {case}: repeat {repeat + 1} of {repeats}", file=sys.stderr)
            figures += [
                Figure(name=name, ours=tuple(ours), theirs=tuple(theirs)) for name, (ours, theirs) in runs.items()
            ]
    return figures


def _image(version: _Version, folder: Path, count: int) -> Callable[[], Rates]:
    cpu = max(os.sched_getaffinity(0))
    version.python("photo_task.prepare(Path(argv[1]), int(argv[2]), Path(argv[3]))", folder, count, version.work)
    task = json.loads((version.work / "task.json").read_text())
    sides = {"eval exact": ("eval", "exact"), "eval fast": ("eval", "fast"), "train exact": ("train", "exact")}
    for case in ("eval", "train"):
        content = task | {"case": case, "threads": 1, "source": str(version.work / "source")}
        (version.work / f"{case}.json").write_text(json.dumps(content))

    def once() -> Rates:
        found = {}
        for name, (case, key) in sides.items():
            arguments = ("--worker", version.work / f"{case}.json", key, cpu, 1, "")
            found[name] = version.script("image_pipeline.py", *arguments, said="go\n")["rate"]
        return found

    return once


def _loader(version: _Version, folder: Path, count: int) -> Callable[[], Rates]:
    library = Baseline.compile(version.work)
    version.python(
        "loader._cut(Path(argv[1]), int(argv[2]), Path(argv[3]))", folder, RECORDS, version.work / "records.npy"
    )

    def run(action: str) -> dict[str, Any]:
        arguments = ("--worker", "toolkit", action, version.work, library, RECORD_BATCH)
        return version.script("loader.py", *arguments, cpus={max(os.sched_getaffinity(0))})

    run("build")

    def once() -> Rates:
        found = run("read")
        return {"first epoch": found["first"], "later epochs": found["later"], "one at a time": found["single"]}

    return once


def _tokens(version: _Version, folder: Path, count: int) -> Callable[[], Rates]:
    trained = version.work.parent / "tokenizer.json"
    if trained.exists():
        shutil.copy(trained, version.work)
    version.python("tokens.prepare(Path(argv[1]), int(argv[2]), list(tokens.TEXT), '', [])", version.work, TOKENS)
    if (version.work / "tokenizer.json").exists():
        shutil.copy(version.work / "tokenizer.json", trained)

    def once() -> Rates:
        arguments = ("--work", version.work, "--measure", "toolkit")
        found = version.script("tokens.py", *arguments, cpus={max(os.sched_getaffinity(0))})
        return {"first epoch": found["first"] / 1e6, "later epochs": found["later"] / 1e6}

    return once


def _pack(version: _Version, folder: Path, count: int) -> Callable[[], Rates]:
    source, out = version.work / "source", version.work / "out"
    copied = version.work / "photographs"
    shutil.copytree(folder, copied)  # hard links need one file system
    version.python("pack._prepare(Path(argv[1]), int(argv[2]), Path(argv[3]))", copied, PACK_COPIES, source)

    def once() -> Rates:
        out.mkdir()
        os.sync()
        seconds = version.script("pack.py", "--worker", "toolkit", source, out, PACK_JOBS)["seconds"]
        shutil.rmtree(out)
        return {"packs a minute": 60 / seconds}

    return once


def _open(version: _Version, folder: Path, count: int) -> Callable[[], Rates]:
    version.python("open_resume.build(Path(argv[1]), int(argv[2]))", version.work / "ds", OPEN_SHARDS)

    def once() -> Rates:
        seconds = version.script("open_resume.py", "--worker", "open", version.work / "ds")["seconds"]
        return {f"of {OPEN_SHARDS:,} shards": 1 / seconds}

    return once


FIRST_BATCH = """
import sys, toolkit
from toolkit import slot
steps = slot("image").decode_image().resize_short(64).center_crop(64).normalize("imagenet")
with toolkit.open(sys.argv[1]).loader(toolkit.pipeline(steps), batch_size=3) as loader:
    next(iter(loader))
"""


def _start(version: _Version, folder: Path, count: int) -> Callable[[], Rates]:
    source, out = version.work / "three", version.work / "out"
    (source / "class").mkdir(parents=True)
    for path in sorted(path for path in folder.rglob("*") if path.is_file())[:3]:
        shutil.copy(path, source / "class")
    program = ("-m", "toolkit.cli.main")
    version.process(*program, "pack", source, version.work / "ds")
    kinds = {
        "toolkit --help": (*program, "--help"),
        "a small pack": (*program, "pack", source, out),
        "a first batch": ("-c", FIRST_BATCH, version.work / "ds"),
    }

    def once() -> Rates:
        found = {}
        for name, words in kinds.items():
            seconds = []
            for _ in range(STARTS):
                shutil.rmtree(out, ignore_errors=True)
                begun = time.perf_counter()
                version.process(*words)
                seconds.append(time.perf_counter() - begun)
            found[name] = 1 / min(seconds)
        return found

    return once


CASES: dict[str, Callable[[_Version, Path, int], Callable[[], Rates]]] = {
    "image": _image,
    "loader": _loader,
    "tokens": _tokens,
    "pack": _pack,
    "open": _open,
    "start": _start,
}


def _lines(figures: Sequence[Figure]) -> Iterator[str]:
    yield f"{'':24}{'this':>14}{'other':>14}{'ratio':>9}  [min .. max]"
    yield from (figure.line() for figure in figures)
    yield f"least={min(figure.ratio for figure in figures):.3f}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return 0, or 1 when a version failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="photographs, as benchmarks/photos.py makes them")
    parser.add_argument("--other", type=Path, required=True, metavar="DIR", help="a checkout, compiled in place")
    parser.add_argument("--case", action="append", choices=CASES, help="what to measure; may be repeated; default: all")
    parser.add_argument("--count", type=int, default=2000, help="photographs of the image case")
    parser.add_argument("--repeats", type=int, default=5, help="of each version, each in its own process")
    parser.add_argument("--work", type=Path, metavar="DIR", help="for the datasets; the system's temporary folder")
    parser.add_argument("--json", action="store_true", help="print the same as one JSON object")
    given = parser.parse_args(sys.argv[1:] if argv is None else argv)
    try:
        figures = measure(
            given.folder,
            given.other,
            cases=given.case or tuple(CASES),
            count=given.count,
            repeats=given.repeats,
            work=given.work,
        )
    except (BenchmarkError, OSError) as error:
        print(f"versions: {error}", file=sys.stderr)
        return 1
    show(_lines(figures), [dataclasses.asdict(figure) for figure in figures], given.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
