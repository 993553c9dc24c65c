"""Make tests/golden/source and tests/golden/format-1 once; never again: it refuses to overwrite them.

    PYTHONPATH=. python tests/golden/make.py

Run in the set-up of requirements/dev.txt. Reports are left out: they say when and where the dataset was packed.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
from PIL import Image

from toolkit.pack.job import PackJob
from toolkit.pack.run import pack

HERE = Path(__file__).parent
NAMES = [
    "train/café/e\u0301 composed.png",
    "train/café/photo.jpg",
    "train/no class.png",
    "train/猫 🐈/2.jpeg",
    "train/猫 🐈/ｆｕｌｌ width.png",
    "val/café/last.png",
    "val/猫 🐈/first.jpg",
]


def main() -> None:
    source, dataset = HERE / "source", HERE / "format-1"
    if dataset.exists():
        raise SystemExit(f"{dataset} is there already: golden files are never rewritten")
    if not source.exists():
        rng = np.random.default_rng(0)
        for name in NAMES:
            path = source / name
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(rng.integers(0, 256, (5, 7, 3), np.uint8)).save(path)
    print(pack(PackJob(source=str(source), dataset=str(dataset))))
    shutil.rmtree(dataset / "reports")
    (dataset / ".lock").unlink()


if __name__ == "__main__":
    main()
