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
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from checkouts import HERE, Checkout, Figure, check_compiled, compare, lines
from loader import Baseline
from photo_task import read_files
from turns import BenchmarkError, show

__all__ = ["CASES", "HERE", "Figure", "measure"]

RECORDS, RECORD_BATCH = 30_000, 256
TOKENS = 50_000_000
PACK_COPIES, PACK_JOBS = 6, 2
OPEN_SHARDS = 400_000
STARTS = 8  # processes of each kind in a repeat

Rates = dict[str, float]


def measure(
    folder: Path, other: Path, *, cases: Sequence[str], count: int, repeats: int, work: Path | None = None
) -> list[Figure]:
    """Measure the cases on this checkout and `other`, `repeats` times in turns.

    Raises:
        BenchmarkError: A version fails, or the other one is not compiled.
    """
    check_compiled(other)
    figures: list[Figure] = []
    for case in cases:
        with tempfile.TemporaryDirectory(prefix="versions.", dir=work) as made:
            versions = [Checkout(HERE, Path(made, "ours")), Checkout(other.resolve(), Path(made, "theirs"))]
            for version in versions:
                version.work.mkdir()
            sides = [_warm(version, CASES[case](version, folder.resolve(), count)) for version in versions]
            figures += compare("versions", case, sides, repeats)
    return figures


def _warm(version: Checkout, once: Callable[[], Rates]) -> Callable[[], Rates]:
    def warm() -> Rates:
        read_files(tuple(version.work.rglob("*")))
        return once()

    return warm


def _image(version: Checkout, folder: Path, count: int) -> Callable[[], Rates]:
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


def _loader(version: Checkout, folder: Path, count: int) -> Callable[[], Rates]:
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


def _tokens(version: Checkout, folder: Path, count: int) -> Callable[[], Rates]:
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


def _pack(version: Checkout, folder: Path, count: int) -> Callable[[], Rates]:
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


def _open(version: Checkout, folder: Path, count: int) -> Callable[[], Rates]:
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


def _start(version: Checkout, folder: Path, count: int) -> Callable[[], Rates]:
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


CASES: dict[str, Callable[[Checkout, Path, int], Callable[[], Rates]]] = {
    "image": _image,
    "loader": _loader,
    "tokens": _tokens,
    "pack": _pack,
    "open": _open,
    "start": _start,
}


def _lines(figures: Sequence[Figure]) -> Iterator[str]:
    yield from lines(figures)
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
