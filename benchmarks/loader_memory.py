"""Measure how far a process grows while it loads under a cap: its own memory, not the pages of mapped shards.

    python benchmarks/loader_memory.py DATASET [--split train] [--caps 37MiB 64MiB 256MiB 1GiB 2GiB] [--batches 150]

Each cap runs in a process of its own, with a fast consumer and with one that takes 20 ms a batch: images to 224x224
float32, batches of 32 (18 MiB), prefetch=1000, two threads. Anonymous and shared memory (smaps_rollup) is looked at
every 5 ms; `grown` is the most above what the process had after a few batches of two images. `counted` is the
loader's own peak, stats()["budget_peak_bytes"]. Ends with 1 if a process grew by more than its cap and 32 MiB. Linux
only.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
import time
from pathlib import Path

import toolkit
from toolkit import slot
from toolkit.memory.sizes import parse_bytes

MEBIBYTE = 1 << 20
SLOW_SECONDS = 0.02
EVERY_SECONDS = 0.005
MOST_BESIDE = 32 << 20


def owned_bytes() -> int:
    """Return this process's anonymous and shared memory."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()[1:]
    kibibytes = {name: int(rest.split()[0]) for name, rest in (line.split(":") for line in lines)}
    return (kibibytes["Anonymous"] + kibibytes["Pss_Shmem"]) << 10


def measure(dataset: str, split: str, cap: int, batches: int, pause: float) -> tuple[str, bool]:
    """Load `batches` batches under a cap of `cap` bytes; return a line of the table, and whether the cap was kept."""
    ds = toolkit.open(dataset, split=split)
    steps = toolkit.pipeline(slot("image").decode_image().resize_short(256).center_crop(224).normalize("imagenet"))
    for batch in ds[:8].loader(steps, batch_size=2, threads=2):
        del batch
    begun = most = owned_bytes()
    ended = threading.Event()

    def watch() -> None:
        nonlocal most
        while not ended.wait(EVERY_SECONDS):
            most = max(most, owned_bytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    epochs = -(-batches * 32 // len(ds))
    loader = ds.loader(
        steps, batch_size=32, shuffle="full", threads=2, prefetch=1000, epochs=epochs, remainder="drop", max_bytes=cap
    )
    for batch in loader:
        time.sleep(pause)
        del batch
    ended.set()
    watcher.join()
    stats = loader.stats()
    figures = (cap, stats["budget_peak_bytes"], most - begun)
    line = " | ".join(
        [f"| {'slow' if pause else 'fast'}", *(f"{each / MEBIBYTE:.1f}" for each in figures), f"{stats['batches']} |"]
    )
    return line, most - begun <= cap + MOST_BESIDE


def main() -> None:
    """Run each case in a process of its own and print the table, in MiB."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("--split", default="train")
    parser.add_argument("--caps", nargs="+", type=parse_bytes, default=[n << 20 for n in (37, 64, 256, 1024, 2048)])
    parser.add_argument("--batches", type=int, default=150)
    parser.add_argument("--one", type=float, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one is not None:
        line, kept = measure(given.dataset, given.split, given.caps[0], given.batches, given.one)
        print(line)
        sys.exit(not kept)
    print("| consumer | cap | counted | grown | batches |\n|---|---|---|---|---|")
    codes = []
    for cap in given.caps:
        for pause in (0.0, SLOW_SECONDS):
            case = [given.dataset, "--split", given.split, "--caps", str(cap), "--batches", str(given.batches)]
            codes.append(subprocess.run([sys.executable, __file__, *case, "--one", str(pause)], check=False).returncode)
    sys.exit(max(codes))


if __name__ == "__main__":
    main()
