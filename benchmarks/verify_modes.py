"""What checking every read costs: verify="always" against "touch", whose chunks were all checked before, in turns.

    python benchmarks/verify_modes.py PHOTOS WORK [--rounds 5]

PHOTOS is a folder that benchmarks/photos.py made. Its train split is packed into WORK as it is and as pixels of a short
side of 256, once, beside 20 million tokens in documents of 500. One thread reads them; each round reads an epoch in
both modes, in turns, and a first epoch of each is not counted. A figure is the time of "always" by that of "touch" in
the same round: the median, with the least and the most.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import toolkit
from toolkit import slot

__all__ = ["main", "measure"]

TOKENS, DOCUMENT_TOKENS = 20_000_000, 500
ROWS, SEQ_LEN = 32, 1024
DECODE = toolkit.pipeline(slot("image").decode_image().resize_short(256).center_crop(224).normalize("imagenet"))
CROP = toolkit.pipeline(slot("image").decode_image().center_crop(224))


def prepare(photos: Path, work: Path) -> None:
    """Pack what is read, unless it is there."""
    from toolkit.format.encodings import ImageEncoding
    from toolkit.pack.job import PackJob
    from toolkit.pack.run import pack

    if not (work / "keep").exists():
        pack(PackJob(source=str(photos), dataset=str(work / "keep")))
    if not (work / "raw").exists():
        raw = ImageEncoding.parse("raw")
        pack(PackJob(source=str(photos), dataset=str(work / "raw"), image_encoding=raw, short_side=256))
    if not (work / "tokens").exists():
        ids = np.random.default_rng(0).integers(0, 32_000, (TOKENS // DOCUMENT_TOKENS, DOCUMENT_TOKENS), np.uint16)
        toolkit.pack_tokens(list(ids), work / "tokens", vocabulary=32_000)


def cases(work: Path) -> dict[str, tuple[Path, Callable[[Any], Any]]]:
    """Return what is read of which dataset, by name: functions of a dataset that is open already."""

    def loaded(pipeline: Any) -> Callable[[Any], None]:
        def epoch(ds: Any) -> None:
            with ds.loader(pipeline, batch_size=64, shuffle="full", threads=1) as loader:
                for _ in loader:
                    pass

        return epoch

    def windows(**options: Any) -> Callable[[Any], None]:
        def epoch(ds: Any) -> None:
            for _ in ds.tokens(seq_len=SEQ_LEN, batch_size=ROWS, shuffle="block", threads=0, **options):
                pass

        return epoch

    return {
        "photographs, decoded": (work / "keep", loaded(DECODE)),
        "photographs, as bytes": (work / "keep", loaded(None)),
        "photographs, ds[i]": (work / "keep", lambda ds: [ds[i] for i in range(len(ds))]),
        "pixels, center_crop(224)": (work / "raw", loaded(CROP)),
        "tokens": (work / "tokens", windows()),
        "tokens with documents": (work / "tokens", windows(documents=True)),
    }


def measure(work: Path, rounds: int) -> dict[str, list[float]]:
    """Return the ratios of each round, by case."""
    found = {}
    for name, (path, epoch) in cases(work).items():
        opened = {mode: toolkit.open(path, split="train", verify=mode) for mode in ("touch", "always")}
        for ds in opened.values():
            epoch(ds)
        found[name] = []
        for number in range(rounds):
            took = {}
            for mode in ("touch", "always") if number % 2 else ("always", "touch"):
                begun = time.perf_counter()
                epoch(opened[mode])
                took[mode] = time.perf_counter() - begun
            found[name].append(took["always"] / took["touch"])
    return found


def main(arguments: list[str]) -> int:
    """Run the comparison and print its table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("photos", type=Path, metavar="PHOTOS", help="folder of photographs")
    parser.add_argument("work", type=Path, metavar="WORK", help="where datasets are made, and kept")
    parser.add_argument("--rounds", type=int, default=5, help="epochs in each mode")
    options = parser.parse_args(arguments)
    options.work.mkdir(parents=True, exist_ok=True)
    prepare(options.photos, options.work)
    for name, ratios in measure(options.work, options.rounds).items():
        print(f"{name:28} {statistics.median(ratios):.2f} [{min(ratios):.2f}..{max(ratios):.2f}]")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
