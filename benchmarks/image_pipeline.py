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
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from image_sides import MEAN, SIDES, STD, decode_floor
from photo_task import EXTENSIONS, prepare, read_files
from turns import BenchmarkError, command_line, environment, in_turns, reason, show, worker_command

__all__ = ["Case", "Side", "measure"]

CASES = ("eval", "train", "large", "threads")
COMPARED = 128  # photographs whose outputs are compared
LARGE_COUNT, LARGE_WIDTH, LARGE_HEIGHT, LARGE_QUALITY = 60, 3000, 2000, 90


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
            runner = _Runner(task, peer_path, library_path)
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


# --- processes -----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Runner:
    """Runs sides of a task in processes of their own."""

    task: Path
    peer_path: str | None
    library_path: str | None

    def start(
        self, key: str, cpus: Sequence[int], threads: int = 1, outputs: Path | None = None
    ) -> subprocess.Popen[str]:
        paths = [str(Path(__file__).parents[1])]
        if self.peer_path and key not in ("exact", "fast"):
            paths.append(str(Path(self.peer_path).resolve()))
        env = environment(*paths, OMP_NUM_THREADS="1")
        if self.library_path and key != "dataio_plain":
            env["LD_LIBRARY_PATH"] = self.library_path
        command = worker_command(__file__, self.task, key, ",".join(map(str, cpus)), threads, outputs or "")
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


def _in_turns(runner: _Runner, repeats: int) -> list[Side]:
    """Measure every side that runs at all; each repeat begins with another one."""
    cpu = [max(os.sched_getaffinity(0))]
    runs: dict[str, list[dict[str, Any]]] = {}
    outputs = runner.task.parent / "outputs"
    outputs.mkdir()
    for key in SIDES:
        try:
            runner.run(key, cpu, outputs=outputs / f"{key}.npy")
            runs[key] = []
        except BenchmarkError as error:
            if key == "exact":
                raise
            print(f"image_pipeline: {error}: left out", file=sys.stderr)
    for repeat, order in enumerate(in_turns(runs, repeats)):
        for key in order:
            runs[key].append(runner.run(key, cpu))
        said = ", ".join(f"{key} {found[-1]['rate']:.0f}" for key, found in runs.items())
        print(f"image_pipeline: repeat {repeat + 1} of {repeats}, photos/s: {said}", file=sys.stderr)
    random = json.loads(runner.task.read_text(encoding="utf-8"))["case"] == "train"
    sides = [
        _side(key, found[0]["name"], found, None if random else _difference(outputs, key))
        for key, found in runs.items()
    ]
    floors = [run["floor"] for run in runs["exact"]]
    return [*sides, _side("floor", "floor: libjpeg-turbo at 1/8", floors)]


def _difference(outputs: Path, key: str) -> float:
    def pixels(name: str) -> Any:
        images = np.load(outputs / f"{name}.npy")
        if images.dtype == np.uint8:
            return images.astype(np.float32)
        return (images.transpose(0, 2, 3, 1) * STD + MEAN) * 255

    return float(np.abs(pixels(key) - pixels("exact")).mean())


def _threads(runner: _Runner, repeats: int) -> list[Side]:
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
        _side("two_threads", "toolkit, two threads", together),
        _side("two_processes", "toolkit, two processes together", apart),
        _side("exact", "toolkit, one thread", alone),
    ]


def _side(key: str, name: str, runs: Sequence[dict[str, Any]], difference: float | None = None) -> Side:
    return Side(
        key=key,
        name=name,
        rates=tuple(run["rate"] for run in runs),
        cpu_rates=tuple(run["cpu_rate"] for run in runs),
        mean_difference=difference,
    )


def _work(task_file: str, key: str, cpus: str, threads: str, outputs: str) -> int:
    """Run one side, once a line has come, and print what came out as JSON; or write its first outputs."""
    os.sched_setaffinity(0, {int(cpu) for cpu in cpus.split(",")})
    task = json.loads(Path(task_file).read_text(encoding="utf-8")) | {"threads": int(threads)}
    try:
        name, batches = SIDES[key](task)
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
        print(json.dumps({"name": name}))
        return 0
    samples, clock = 0, _Clock()
    for batch in batches:
        samples += len(batch)
    found = {"name": name, **clock.rates(samples)}
    if samples != len(task["files"]):
        raise BenchmarkError(f"{name} gave {samples} of {len(task['files'])} photographs")
    if key == "exact":
        clock = _Clock()
        decode_floor(task["files"])
        found["floor"] = clock.rates(samples)
    print(json.dumps(found))
    return 0


class _Clock:
    """Counts from when it is made."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def rates(self, samples: int) -> dict[str, float]:
        wall, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        return {"rate": samples / wall, "cpu_rate": samples / cpu}


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
