"""Compare augmented training epochs with other loaders' over the same photographs: in turns, medians and spread.

    python benchmarks/augment.py FOLDER [--case rand_augment|simclr|trivial|crops|batch] [--count 1000] [--repeats 5]
        [--peer-path DIR] [--library-path DIRS] [--json]

rand_augment is random_resized_crop 224, hflip, RandAugment(2, 9) and normalize; simclr is SimCLR's jitter with hue (p
0.8), gray (0.2) and a Gaussian blur of 23 (0.5) instead; trivial is TrivialAugmentWide, with random erasing (0.25)
behind normalize; crops are six crops of 96 of one photograph, scale 0.05 to 0.3. batch sets training with mixup and
with cutmix against neither, in batches of 32, 64 and 128.

Each measurement is an epoch of a fresh process on one CPU, without start-up and imports; ratios by CPU time are what a
busy machine spoils least. toolkit reads a packed dataset and verifies each byte; the others read the files. Draws
differ from library to library, and so do outputs. --peer-path and --library-path: as image_pipeline.py takes them, for
dataio-rs and torchvision.
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

from augment_sides import AGAINST_TORCHVISION, CASES, SIDES
from epochs import Case, Runner, side_of, take_turns, work
from photo_task import prepare, read_files
from turns import BenchmarkError, command_line, show

__all__ = ["measure"]

BATCHES = (32, 64, 128)
BATCH_SIDES = ("neither", "mixup", "cutmix")


def measure(
    folder: str | os.PathLike[str],
    cases: Sequence[str] = (*CASES, "batch"),
    count: int = 1000,
    repeats: int = 5,
    peer_path: str | None = None,
    library_path: str | None = None,
) -> list[Case]:
    """Measure the cases on `count` photographs of `folder`.

    Raises:
        BenchmarkError: There are too few photographs, or toolkit's side fails.
    """
    if count < 1 or repeats < 1:
        raise BenchmarkError(f"count {count} and repeats {repeats} must be positive")
    found = []
    with tempfile.TemporaryDirectory(prefix="augment.") as work_folder:
        task, files = prepare(Path(folder), count, Path(work_folder))
        content = json.loads(task.read_text(encoding="utf-8"))
        content |= {"source": str(Path(work_folder, "source")), "classes": max(content["labels"]) + 1}
        read_files((*files, *Path(work_folder, "dataset").rglob("*")))
        size = statistics.mean(file.stat().st_size for file in files)
        for case in cases:
            for batch_size in BATCHES if case == "batch" else (None,):
                given = content | {"case": case}
                keys = ["toolkit", "dataio", "dataio_plain", *(["torchvision"] if case in AGAINST_TORCHVISION else [])]
                name, photographs = case, len(files)
                if batch_size is not None:
                    photographs -= photographs % batch_size
                    given |= {"batch_size": batch_size, "files": content["files"][:photographs]}
                    name, keys = f"batches of {batch_size}", list(BATCH_SIDES)
                task.write_text(json.dumps(given), encoding="utf-8")
                runner = Runner(__file__, task, peer_path, library_path, ("toolkit", *BATCH_SIDES), "dataio_plain")
                sides = [side_of(key, runs[0]["name"], runs) for key, runs in take_turns(runner, keys, repeats).items()]
                if batch_size is not None:
                    sides = [dataclasses.replace(side, name=side.key) for side in sides]
                found.append(Case(name=name, photographs=photographs, mean_bytes=size, sides=tuple(sides)))
    return found


def _work(task_file: str, key: str, cpus: str, threads: str, outputs: str) -> int:
    """Run one side, and print what came out as JSON."""
    found, _ = work(SIDES, task_file, key, cpus, threads, outputs)
    print(json.dumps(found))
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return 0, or 1 when a side of toolkit's failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="photographs, one folder a class")
    cases = (*CASES, "batch")
    parser.add_argument("--case", action="append", choices=cases, help="what to measure; may be repeated; default: all")
    parser.add_argument("--count", type=int, default=1000, help="photographs an epoch")
    parser.add_argument("--repeats", type=int, default=5, help="epochs of each side, each in its own process")
    parser.add_argument("--peer-path", metavar="DIR", help="a site directory with other loaders, measured as well")
    parser.add_argument("--library-path", metavar="DIRS", help="where the other loaders find their system libraries")
    parser.add_argument("--json", action="store_true", help="print the same as one JSON object")

    def run(given: argparse.Namespace) -> None:
        found = measure(
            given.folder, given.case or cases, given.count, given.repeats, given.peer_path, given.library_path
        )
        tables = "\n\n".join("\n".join(case.lines()) for case in found)
        show([tables], [dataclasses.asdict(case) for case in found], given.json)

    return command_line(__file__, argv, parser, run, _work)


if __name__ == "__main__":
    sys.exit(main())
