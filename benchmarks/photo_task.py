"""What benchmarks of image pipelines share: photographs packed in an order that all sides follow, and a warm cache."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from turns import BenchmarkError

__all__ = ["prepare", "read_files"]

EXTENSIONS = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff", ".ppm")
READ_BYTES = 1 << 20


def prepare(folder: Path, count: int, work: Path) -> tuple[Path, list[Path]]:
    """Pack `count` photographs out of all classes and splits as one split; return the task's file and their paths."""
    from toolkit import open as open_dataset
    from toolkit.pack.job import PackJob
    from toolkit.pack.run import pack

    photographs = sorted(path for path in folder.rglob("*") if path.suffix.lower() in EXTENSIONS and path.is_file())
    if len(photographs) < count:
        raise BenchmarkError(f"{folder} has {len(photographs)} photographs: give --count {len(photographs)} or less")
    behind = {}
    for number in range(count):
        path = photographs[number * len(photographs) // count]
        link = work / "source" / path.parent.name / f"{number:06d}{path.suffix.lower()}"
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(path.resolve())
        behind[f"{link.parent.name}/{link.name}"] = path.resolve()
    pack(PackJob(source=str(work / "source"), dataset=str(work / "dataset"), follow_links=True))
    dataset = open_dataset(work / "dataset")
    keys = dataset.keys(np.arange(len(dataset)))
    files = [behind[key] for key in keys]
    classes = dataset.classes or ()
    labels = [classes.index(key.split("/")[0]) for key in keys]
    task = {"dataset": str(work / "dataset"), "files": [str(file) for file in files], "labels": labels}
    (work / "task.json").write_text(json.dumps(task), encoding="utf-8")
    return work / "task.json", files


def read_files(files: Sequence[Path]) -> None:
    """Bring files into the page cache."""
    for path in files:
        if path.is_file():
            with path.open("rb") as file:
                while file.read(READ_BYTES):
                    pass
