"""Compare toolkit with other image loaders and with the floor, over the same photographs: in turns, medians and spread.

    python benchmarks/image_pipeline.py FOLDER [--case eval|train|large|threads] [--count 2000] [--repeats 5]
        [--peer-path DIR] [--library-path DIRS] [--json]

eval is decode, resize_short 256 (bilinear), center_crop 224, normalize to float32 CHW, in batches of 64; train is
random_resized_crop 224 and hflip instead; large is eval on 3000x2000 mosaics of the photographs; threads sets two
threads of toolkit against two independent processes. Each measurement is the first epoch of a fresh process on one CPU
(threads: two), with the files in the page cache and without start-up and imports. toolkit reads a packed dataset and
verifies each byte; the others read the files. The floor is the same files at 1/8 scale through the libjpeg-turbo that
toolkit is linked with, in toolkit's process after its epoch: Huffman decoding and next to nothing else.

--peer-path is a site directory with other loaders (dataio-rs, mlx-data, torchvision, spdl with spdl-core and spdl-io),
as made by pip install --no-deps --target; --library-path has their system libraries (libturbojpeg.so.0 for dataio-rs,
which is measured with and without it; FFmpeg's for SPDL). What can't be imported is left out, and said. Outputs of eval
and large are compared with toolkit's exact ones: mlx-data and SPDL give uint8, which is compared as it is.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from epochs import Case, Clock, Runner, Side, side_of, take_turns, work
from image_sides import MEAN, SIDES, STD, decode_floor
from photo_task import EXTENSIONS, prepare, read_files
from turns import BenchmarkError, command_line, in_turns, show

__all__ = ["Case", "Side", "measure"]

CASES = ("eval", "train", "large", "threads")
LARGE_COUNT, LARGE_WIDTH, LARGE_HEIGHT, LARGE_QUALITY = 60, 3000, 2000, 90


def measure(
    folder: str | os.PathLike[str],
    cases: Sequence[str] = CASES,
    count: int = 2000,
    repeats: int = 5,
    peer_path: str | None = None,
    library_path: str | None = None,
) -> list[Case]:
    """Measure the cases on `count` photographs of `folder`.

    Raises:
        BenchmarkError: There are too few photographs, or a side fails.
    """
    if count < 1 or repeats < 1:
        raise BenchmarkError(f"count {count} and repeats {repeats} must be positive")
    found = []
    for case in cases:
        with tempfile.TemporaryDirectory(prefix="image_pipeline.") as work:
            source = Path(folder)
            if case == "large":
                source = _make_large(source, Path(work, "large"), min(count, LARGE_COUNT))
            task, files = prepare(source, min(count, LARGE_COUNT) if case == "large" else count, Path(work))
            content = json.loads(task.read_text(encoding="utf-8"))
            content |= {"case": case, "threads": 1, "source": str(Path(work, "source"))}
            task.write_text(json.dumps(content), encoding="utf-8")
            runner = Runner(__file__, task, peer_path, library_path, ("exact", "fast"), "dataio_plain")
            read_files((*files, *Path(work, "dataset").rglob("*")))
            sides = _threads(runner, repeats) if case == "threads" else _in_turns(runner, repeats)
            size = statistics.mean(file.stat().st_size for file in files)
            found.append(Case(name=case, photographs=len(files), mean_bytes=size, sides=tuple(sides)))
    return found


def _make_large(folder: Path, out: Path, count: int) -> Path:
    """Write mosaics of the photographs: as much detail a pixel as they have."""
    from PIL import Image

    photographs = sorted(path for path in folder.rglob("*") if path.suffix.lower() in EXTENSIONS and path.is_file())
    if not photographs:
        raise BenchmarkError(f"{folder} has no photographs")
    (out / "mosaic").mkdir(parents=True)
    for number in range(count):
        canvas, top, taken = Image.new("RGB", (LARGE_WIDTH, LARGE_HEIGHT)), 0, number * 37
        while top < LARGE_HEIGHT:
            left, tallest = 0, LARGE_HEIGHT
            while left < LARGE_WIDTH:
                with Image.open(photographs[taken % len(photographs)]) as tile:
                    canvas.paste(tile, (left, top))
                    left, tallest = left + tile.width, min(tallest, tile.height)
                taken += 1
            top += tallest
        canvas.save(out / "mosaic" / f"{number:04d}.jpg", quality=LARGE_QUALITY)
    return out


def _in_turns(runner: Runner, repeats: int) -> list[Side]:
    outputs = runner.task.parent / "outputs"
    outputs.mkdir()
    runs = take_turns(runner, SIDES, repeats, outputs)
    random = json.loads(runner.task.read_text(encoding="utf-8"))["case"] == "train"
    sides = [
        side_of(key, found[0]["name"], found, None if random else _difference(outputs, key))
        for key, found in runs.items()
    ]
    floors = [run["floor"] for run in runs["exact"]]
    return [*sides, side_of("floor", "floor: libjpeg-turbo at 1/8", floors)]


def _difference(outputs: Path, key: str) -> float:
    def pixels(name: str) -> Any:
        images = np.load(outputs / f"{name}.npy")
        if images.dtype == np.uint8:
            return images.astype(np.float32)
        return (images.transpose(0, 2, 3, 1) * STD + MEAN) * 255

    return float(np.abs(pixels(key) - pixels("exact")).mean())


def _threads(runner: Runner, repeats: int) -> list[Side]:
    """Measure two threads against two processes that run at the same time."""
    cpus = sorted(os.sched_getaffinity(0))[-2:]
    if len(cpus) < 2:
        raise BenchmarkError("threads needs two CPUs")
    together, apart, alone = [], [], []
    for repeat, order in enumerate(in_turns((False, True), repeats)):
        for as_threads in order:
            if as_threads:
                together.append(runner.run("exact", cpus, threads=2))
            else:
                pair = [runner.start("exact", [cpu]) for cpu in cpus]
                for process in pair:
                    assert process.stdout is not None
                    process.stdout.readline()
                for process in pair:
                    assert process.stdin is not None
                    process.stdin.write("go\n")
                    process.stdin.flush()
                both = [runner.finish("exact", process) for process in pair]
                apart.append({"rate": sum(run["rate"] for run in both), "cpu_rate": both[0]["cpu_rate"]})
        alone.append(runner.run("exact", cpus[-1:]))
        print(
            f"image_pipeline: repeat {repeat + 1} of {repeats}, photos/s: two threads {together[-1]['rate']:.0f}, "
            f"two processes {apart[-1]['rate']:.0f}",
            file=sys.stderr,
        )
    return [
        side_of("two_threads", "toolkit, two threads", together),
        side_of("two_processes", "toolkit, two processes together", apart),
        side_of("exact", "toolkit, one thread", alone),
    ]


def _work(task_file: str, key: str, cpus: str, threads: str, outputs: str) -> int:
    """Run one side, and print what came out as JSON; or write its first outputs."""
    found, task = work(SIDES, task_file, key, cpus, threads, outputs)
    if key == "exact" and not outputs:
        clock = Clock()
        decode_floor(task["files"])
        found["floor"] = clock.rates(len(task["files"]))
    print(json.dumps(found))
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return 0, or 1 when a side of toolkit's failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="photographs, one folder a class")
    parser.add_argument("--case", action="append", choices=CASES, help="what to measure; may be repeated; default: all")
    parser.add_argument("--count", type=int, default=2000, help=f"photographs an epoch; large: {LARGE_COUNT} at most")
    parser.add_argument("--repeats", type=int, default=5, help="epochs of each side, each in its own process")
    parser.add_argument("--peer-path", metavar="DIR", help="a site directory with other loaders, measured as well")
    parser.add_argument("--library-path", metavar="DIRS", help="where the other loaders find their system libraries")
    parser.add_argument("--json", action="store_true", help="print the same as one JSON object")

    def run(given: argparse.Namespace) -> None:
        found = measure(
            given.folder, given.case or CASES, given.count, given.repeats, given.peer_path, given.library_path
        )
        tables = "\n\n".join("\n".join(case.lines()) for case in found)
        show([tables], [dataclasses.asdict(case) for case in found], given.json)

    return command_line(__file__, argv, parser, run, _work)


if __name__ == "__main__":
    sys.exit(main())
