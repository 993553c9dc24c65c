"""Compare a Pillow loop with a loader over the same photographs: one thread, one CPU, in turns, medians and spread.

    python benchmarks/pillow_pipeline.py FOLDER [--count 600] [--repeats 5] [--pillow-path DIR] [--json]

Both make what ImageNet evaluation is fed with: decode, Resize(256), CenterCrop(224), ToTensor, Normalize, torch
batches of 64. The Pillow side does torchvision's steps on Pillow images in a plain Python loop over the files; the
loader reads the same photographs in the same order from a dataset that is packed beforehand, untimed. Each measurement
is the first epoch of a fresh process on one CPU, with the files in the page cache and without start-up and imports.
Before any is taken, the outputs are compared sample by sample. It must not time anything that one side is spared.

--pillow-path puts another site directory first, as made by pip install --no-deps --target DIR pillow, so that Pillow
and Pillow-SIMD are measured side by side. The last line is the ratio to the fastest of them. Exits with 1 when the
outputs differ. Photographs that are turned by EXIF differ by nature: torchvision's loader leaves them as they are.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import importlib.metadata
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from photo_task import prepare, read_files
from turns import BenchmarkError, command_line, environment, in_turns, run_worker, show

from toolkit import __version__

__all__ = ["Result", "Side", "measure"]

BATCH_SIZE = 64
RESIZE, CROP = 256, 224
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
# Of 255, with room for the rounding of float32. Pillow-SIMD's own resize is, now and then, 2 levels from Pillow's.
LARGEST_DIFFERENCE = {"Pillow": 1.01, "Pillow-SIMD": 2.01}

Batch = tuple[Any, Any]  # float32 (n, 3, CROP, CROP) and int64 (n,), torch


@dataclasses.dataclass(frozen=True, kw_only=True)
class Side:
    """One of the things compared.

    Attributes:
        name: What was measured, with its version.
        rates: Photographs a second, one for each repeat.
        peak_bytes: Of the whole process, torch included; median.
        max_difference: To the loader's output, before normalising, in 1/255; 0 for the loader itself.
        mean_difference: The same, mean over all values.
    """

    name: str
    rates: tuple[float, ...]
    peak_bytes: int
    max_difference: float
    mean_difference: float

    @property
    def rate(self) -> float:
        """Median."""
        return statistics.median(self.rates)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result:
    """What a comparison found.

    Attributes:
        photographs: How many were in each epoch.
        mean_bytes: Of a file.
        cpu: The CPU that everything ran on.
        toolkit: The loader.
        pillows: The Pillows, in the order they were asked for.
    """

    photographs: int
    mean_bytes: float
    cpu: int
    toolkit: Side
    pillows: tuple[Side, ...]

    @property
    def ratio(self) -> float:
        """The loader's median by that of the fastest Pillow."""
        return self.toolkit.rate / max(side.rate for side in self.pillows)

    def ratios(self, pillow: Side) -> list[float]:
        """Return the loader's rate by that of a Pillow, for each repeat."""
        return [ours / theirs for ours, theirs in zip(self.toolkit.rates, pillow.rates, strict=True)]

    def lines(self) -> Iterator[str]:
        """Yield the table, and the ratios below it."""
        yield f"{self.photographs} photographs, mean {self.mean_bytes:.0f} bytes; one thread on CPU {self.cpu}"
        width = max(len(side.name) for side in (*self.pillows, self.toolkit))
        yield f"{'':{width}}  photos/s  [min .. max]      peak MiB  max, mean difference (of 255)"
        for side in (*self.pillows, self.toolkit):
            spread = f"[{min(side.rates):.1f} .. {max(side.rates):.1f}]"
            line = f"{side.name:{width}}  {side.rate:8.1f}  {spread:16}  {side.peak_bytes / 2**20:8.0f}"
            differs = f"  {side.max_difference:.3f}, {side.mean_difference:.5f}"
            yield line + (differs if side is not self.toolkit else "")
        for side in self.pillows:
            ratios = self.ratios(side)
            median = self.toolkit.rate / side.rate
            yield f"toolkit / {side.name}: {median:.2f} [{min(ratios):.2f} .. {max(ratios):.2f}]"
        yield f"ratio={self.ratio:.2f}"


def measure(
    folder: str | os.PathLike[str],
    count: int = 600,
    repeats: int = 5,
    pillow_paths: Sequence[str | None] = (None,),
) -> Result:
    """Compare the Pillows at `pillow_paths` (None is the installed one) with the loader, on `count` photographs.

    Raises:
        BenchmarkError: There are too few photographs, outputs differ, or a side fails.
    """
    if count < 1 or repeats < 1:
        raise BenchmarkError(f"count {count} and repeats {repeats} must be positive")
    with tempfile.TemporaryDirectory(prefix="pillow_pipeline.") as work:
        task, files = prepare(Path(folder), count, Path(work))
        cpu = max(os.sched_getaffinity(0))
        differences = [_run(task, cpu, "compare", path) for path in pillow_paths]
        read_files((*files, *Path(work, "dataset").rglob("*")))
        sides = [("pillow", path) for path in pillow_paths] + [("toolkit", None)]
        found: list[list[dict[str, Any]]] = [[] for _ in sides]
        for repeat, order in enumerate(in_turns(range(len(sides)), repeats)):
            for which in order:
                found[which].append(_run(task, cpu, *sides[which]))
            said = ", ".join(f"{runs[-1]['rate']:.1f}" for runs in found)
            print(f"pillow_pipeline: repeat {repeat + 1} of {repeats}: {said} photos/s", file=sys.stderr)
    made = [_side(runs, difference) for runs, difference in zip(found, [*differences, {}], strict=True)]
    return Result(
        photographs=len(files),
        mean_bytes=statistics.mean(file.stat().st_size for file in files),
        cpu=cpu,
        toolkit=made[-1],
        pillows=tuple(made[:-1]),
    )


def _run(task: Path, cpu: int, side: str, pillow_path: str | None) -> dict[str, Any]:
    """Run one side in a process of its own; return what it printed."""
    env = environment(str(Path(__file__).parents[1]), OMP_NUM_THREADS="1")
    found: dict[str, Any] = json.loads(run_worker(side, __file__, task, side, cpu, pillow_path or "", env=env))
    return found


def _side(runs: Sequence[dict[str, Any]], difference: dict[str, Any]) -> Side:
    return Side(
        name=runs[0]["name"],
        rates=tuple(run["rate"] for run in runs),
        peak_bytes=int(statistics.median(run["peak_bytes"] for run in runs)),
        max_difference=difference.get("max", 0.0),
        mean_difference=difference.get("mean", 0.0),
    )


# --- what runs in the measured processes ---------------------------------------------------------------------------


def _work(task_file: str, side: str, cpu: str, pillow_path: str) -> int:
    """Run one side on one CPU and print what came out as JSON."""
    os.sched_setaffinity(0, {int(cpu)})
    if pillow_path:
        sys.path.insert(0, pillow_path)
    import torch

    torch.set_num_threads(1)
    task = json.loads(Path(task_file).read_text(encoding="utf-8"))
    if side == "compare":
        print(json.dumps(_compare(task)))
        return 0
    name, batches = _pillow_side(task) if side == "pillow" else _toolkit_side(task)
    samples, begun = 0, time.perf_counter()
    for images, _ in batches:
        samples += len(images)
    rate = samples / (time.perf_counter() - begun)
    if samples != len(task["files"]):
        raise BenchmarkError(f"{name} gave {samples} of {len(task['files'])} photographs")
    print(json.dumps({"name": name, "rate": rate, "peak_bytes": _peak_bytes()}))
    return 0


def _compare(task: dict[str, Any]) -> dict[str, float]:
    """Run both sides in step. The process may take longer, and memory of both: nothing of it is measured."""
    import torch

    name, pillow = _pillow_side(task)
    allowed = LARGEST_DIFFERENCE[name.split()[0]]
    std = torch.tensor(STD)[:, None, None] * 255
    largest, total, at = 0.0, 0.0, 0
    for (ours, our_labels), (theirs, labels) in zip(_toolkit_side(task)[1], pillow, strict=True):
        if ours.shape != theirs.shape or not torch.equal(our_labels, labels):
            raise BenchmarkError(f"photographs {at} and on: shapes or labels differ between toolkit and {name}")
        apart = ((ours - theirs) * std).abs()
        worst = apart.flatten(1).amax(1)
        if worst.max() > allowed:
            file = task["files"][at + int(worst.argmax())]
            raise BenchmarkError(f"{file} comes out {worst.max():.2f}/255 apart between toolkit and {name}")
        largest, total = max(largest, float(worst.max())), total + float(apart.mean((1, 2, 3)).sum())
        at += len(ours)
    return {"max": largest, "mean": total / at}


def _toolkit_side(task: dict[str, Any]) -> tuple[str, Iterator[Batch]]:
    import toolkit

    steps = toolkit.slot("image").decode_image().resize_short(RESIZE).center_crop(CROP).normalize(MEAN, STD)
    dataset = toolkit.open(task["dataset"])
    loader = dataset.loader(toolkit.pipeline(steps), batch_size=BATCH_SIZE, threads=1, output="torch")
    return f"toolkit {__version__}", ((batch["image"], batch["label"]) for batch in loader)


def _pillow_side(task: dict[str, Any]) -> tuple[str, Iterator[Batch]]:
    """Return torchvision's steps for Pillow images, with one copy fewer than its Normalize makes by default."""
    import torch
    from PIL import Image

    mean, std = torch.tensor(MEAN), torch.tensor(STD)

    def transform(image: Any) -> Any:
        short, long = sorted(image.size)
        if short != RESIZE:
            scaled = int(RESIZE * long / short)
            size = (RESIZE, scaled) if image.width <= image.height else (scaled, RESIZE)
            image = image.resize(size, Image.Resampling.BILINEAR)
        left, top = round((image.width - CROP) / 2.0), round((image.height - CROP) / 2.0)
        image = image.crop((left, top, left + CROP, top + CROP))
        tensor = torch.from_numpy(np.array(image, np.uint8, copy=True)).view(CROP, CROP, 3)
        tensor = tensor.permute(2, 0, 1).contiguous().to(torch.float32).div(255)
        return tensor.sub_(mean[:, None, None]).div_(std[:, None, None])

    def load(file: str) -> Any:
        with open(file, "rb") as opened:
            return Image.open(opened).convert("RGB")

    def batches() -> Iterator[Batch]:
        for start in range(0, len(task["files"]), BATCH_SIZE):
            images = [transform(load(file)) for file in task["files"][start : start + BATCH_SIZE]]
            yield torch.stack(images), torch.tensor(task["labels"][start : start + BATCH_SIZE])

    Image.init()  # plugins are imported, and torch has run each operation, before the first photograph
    transform(Image.new("RGB", (CROP, RESIZE)))
    return _pillow_name(), batches()


def _pillow_name() -> str:
    """Return name and version of the Pillow that is imported, and of its JPEG library."""
    import PIL
    from PIL import features

    site = str(Path(PIL.__file__).parents[1])
    names = [
        found.metadata["Name"]
        for found in importlib.metadata.distributions(path=[site])
        if found.metadata["Name"].lower().startswith("pillow") and found.version == PIL.__version__
    ]
    name = "Pillow-SIMD" if any("simd" in known.lower() for known in names) else "Pillow"
    turbo = features.version("libjpeg_turbo")
    jpeg = f"libjpeg-turbo {turbo}" if turbo else f"libjpeg {features.version('jpg')}"
    return f"{name} {PIL.__version__} ({jpeg})"


def _peak_bytes() -> int:
    """Return the most memory this process held. Not getrusage: that begins with the parent's."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return 0, or 1 when the comparison could not be made or the outputs differ."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="an ImageFolder, with or without splits")
    parser.add_argument("--count", type=int, default=600, help="photographs of an epoch, spread over the folder")
    parser.add_argument("--repeats", type=int, default=5, help="epochs of each side, each in its own process")
    parser.add_argument("--pillow-path", metavar="DIR", help="a site directory with another Pillow, measured as well")
    parser.add_argument("--json", action="store_true", help="print the same as one JSON object")

    def run(given: argparse.Namespace) -> None:
        paths = (None, given.pillow_path) if given.pillow_path else (None,)
        result = measure(given.folder, given.count, given.repeats, paths)
        show(result.lines(), dataclasses.asdict(result) | {"ratio": result.ratio}, given.json)

    return command_line(__file__, argv, parser, run, _work)


if __name__ == "__main__":
    sys.exit(main())
