"""Compare loading images from originals with loading them from packs that were shaped for it, and with a plain copy.

    python benchmarks/image_packed.py FOLDER [--count 2000] [--repeats 5]

The same photographs are packed as they are, as JPEGs of quality 90 and as pixels, both with a shorter side of 256. Each
measurement is a fresh process on one CPU with one thread: its first epoch, in which every byte is verified, and the
median of three more. float32 is center_crop 224 and normalize (from originals behind a resize_short 256), uint8 the
crop alone. The copies are numpy's, of as many bytes as the uint8 batches have: in one piece from memory that no cache
holds, and by rows, as a crop has them, out of a mapped shard.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from photo_task import prepare, read_files
from turns import BenchmarkError, command_line, in_turns, run_worker

BATCH_SIZE = 64
EPOCHS = 4
SHORT_SIDE, CROP = 256, 224
ENCODINGS = {"originals": None, "jpeg": "jpeg:90", "raw": "raw"}
# Side -> its pack, and whether the batches are uint8.
SIDES = {
    "originals, float32": ("originals", False),
    "jpeg:90 of 256, float32": ("jpeg", False),
    "raw of 256, float32": ("raw", False),
    "originals, uint8": ("originals", True),
    "raw of 256, uint8": ("raw", True),
    "copy of the same bytes": (None, True),
    "copy of rows out of a map": (None, True),
}


def measure(folder: Path, count: int, repeats: int) -> dict[str, dict[str, list[float]]]:
    """Return photographs a second by side, of the `first` epoch and of `later` ones, a figure for each repeat."""
    from toolkit.format.encodings import ImageEncoding
    from toolkit.pack.job import PackJob
    from toolkit.pack.run import pack

    with tempfile.TemporaryDirectory(prefix="image_packed.") as made:
        work = Path(made)
        prepare(folder, count, work)
        (work / "dataset").rename(work / "originals")
        for name, encoding in ENCODINGS.items():
            if encoding is not None:
                pack(
                    PackJob(
                        follow_links=True,
                        source=str(work / "source"),
                        dataset=str(work / name),
                        image_encoding=ImageEncoding.parse(encoding),
                        short_side=SHORT_SIDE,
                    )
                )
            read_files([*(work / name).rglob("*")])
        found: dict[str, dict[str, list[float]]] = {side: {"first": [], "later": []} for side in SIDES}
        for repeat, order in enumerate(in_turns(SIDES, repeats)):
            for side in order:
                said = run_worker(side, __file__, side, work, count)
                for what, rate in json.loads(said.splitlines()[-1]).items():
                    found[side][what].append(rate)
            print(f"image_packed: repeat {repeat + 1} of {repeats}", file=sys.stderr)
    return found


def table(found: dict[str, dict[str, list[float]]]) -> Iterator[str]:
    """Yield a line a side: medians with their spread, and the ratio to the originals of that dtype."""
    width = max(map(len, found))
    yield f"{'photographs a second':{width}}  {'first epoch':>34}  {'later epochs':>34}"
    for side, rates in found.items():
        base = found["originals, uint8" if SIDES[side][1] else "originals, float32"]
        cells = []
        for what, values in rates.items():
            ratio = statistics.median(values) / statistics.median(base[what])
            cells.append(f"{statistics.median(values):8,.0f} [{min(values):7,.0f}..{max(values):7,.0f}] {ratio:5.2f}x")
        yield f"{side:{width}}  " + "  ".join(f"{cell:>34}" for cell in cells)


def _work(side: str, work: str, count: str) -> int:
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    pack, whole = SIDES[side]
    seconds = []
    if pack is None:
        source = _mapped(Path(work), int(count)) if "map" in side else _in_memory(int(count))
        out = np.empty((BATCH_SIZE, CROP, CROP, 3), np.uint8)
        for _ in range(EPOCHS):
            begun = time.perf_counter()
            for start in range(0, int(count), BATCH_SIZE):
                part = source[start : start + BATCH_SIZE]
                out[: len(part)] = part
            seconds.append(time.perf_counter() - begun)
    else:
        import toolkit

        steps = toolkit.slot("image").decode_image()
        if pack == "originals":
            steps = steps.resize_short(SHORT_SIDE)
        steps = steps.center_crop(CROP)
        dataset = toolkit.open(Path(work, pack), columns=["image"])
        loader = dataset.loader(
            toolkit.pipeline(steps if whole else steps.normalize("imagenet")), batch_size=BATCH_SIZE, threads=1
        )
        for _ in range(EPOCHS):
            begun = time.perf_counter()
            samples = sum(len(batch["image"]) for batch in loader)
            seconds.append(time.perf_counter() - begun)
            if samples != int(count):
                raise BenchmarkError(f"{side} gave {samples} of {count} photographs")
    print(json.dumps({"first": int(count) / seconds[0], "later": int(count) / statistics.median(seconds[1:])}))
    return 0


def _in_memory(count: int) -> NDArray[np.uint8]:
    """Return as many bytes as the crops have, (count, CROP, CROP, 3)."""
    return np.random.default_rng(0).integers(0, 256, (count, CROP, CROP, 3), np.uint8)


def _mapped(work: Path, count: int) -> NDArray[np.uint8]:
    """Return the same shape over the largest shard's map: crops of pictures of SHORT_SIDE x 4/3 SHORT_SIDE pixels."""
    shard = np.memmap(max((work / "raw" / "shards").iterdir(), key=lambda path: path.stat().st_size), np.uint8, "r")
    row = SHORT_SIDE * 4 // 3 * 3
    step = min(SHORT_SIDE * row, (len(shard) - CROP * row) // count)
    return np.lib.stride_tricks.as_strided(shard, (count, CROP, CROP, 3), (step, row, 3, 1), writeable=False)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return 0, or 1 when a side failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="photographs, one folder a class")
    parser.add_argument("--count", type=int, default=2000, help="photographs an epoch")
    parser.add_argument("--repeats", type=int, default=5, help="processes of each side")

    def run(given: argparse.Namespace) -> None:
        print(*table(measure(given.folder, given.count, given.repeats)), sep="\n")

    return command_line(__file__, argv, parser, run, _work)


if __name__ == "__main__":
    sys.exit(main())
