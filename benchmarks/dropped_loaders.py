"""Build loaders and drop them at random points; nothing may hang, and nothing of them may be left.

    python benchmarks/dropped_loaders.py DATASET [--tokens DATASET] [--split train] [--count 10000] [--seed 0]

With --tokens, half of them are token streams of that dataset. Each draws its options and its end: dropped before it is
iterated over, or before its first batch; in the middle of an epoch while workers run, by reference or by the garbage
collector, with or without batches that stay; closed, by its own thread or another; left by an exception; forked, and
used in the child; iterated over again; run to its end. The collector runs often, so that it also ends loaders in
threads of others. A step that takes longer than `--timeout`
seconds prints the stacks of all threads and ends the process. Threads, descriptors, mapped shards, batches, bytes
that budgets count and the process's own memory are compared with what there was in the beginning. Linux only.
"""

from __future__ import annotations

import argparse
import collections
import faulthandler
import gc
import os
import random
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import toolkit
from toolkit import slot
from toolkit.errors import LoaderError
from toolkit.memory.budget import process_budget
from toolkit.memory.system import SystemMemory


def slow(value: int) -> int:
    """Stand for a function of the user's own that waits for something."""
    time.sleep(0.0002)
    return value


IMAGES = slot("image").decode_image().resize_short(40).center_crop(32)
PIPELINES = (
    None,
    toolkit.pipeline(IMAGES),
    toolkit.pipeline(IMAGES, slot("label").scalar("int64").python(slow, "int64")),
    toolkit.pipeline(IMAGES, batch_maps=[lambda columns, rng: columns | {"image": columns["image"][::-1].copy()}]),
)
MOST_GROWTH = 32 << 20


class ConsumerError(Exception):
    """What a training loop dies of."""


def make(ds: toolkit.Dataset, draw: random.Random) -> toolkit.Loader:
    """Return a loader of drawn options."""
    return ds.loader(
        draw.choice(PIPELINES),
        batch_size=draw.randint(1, 24),
        shuffle=draw.choice(["none", "full", "block"]),
        threads=draw.randint(1, 3),
        prefetch=draw.randint(0, 5),
        epochs=draw.randint(1, 3),
        max_bytes=draw.choice([None, "4MiB", "16MiB"]),
        on_error=draw.choice(["raise", "skip"]),
    )


def make_stream(ds: toolkit.Dataset, draw: random.Random) -> toolkit.TokenStream:
    """Return a token stream of drawn options."""
    return ds.tokens(
        seq_len=draw.choice([8, 64, 300]),
        batch_size=draw.randint(1, 24),
        shuffle=draw.choice(["none", "block"]),
        block_size=512,
        threads=draw.randint(0, 3),
        prefetch=draw.randint(1, 5),
        total_steps=draw.randint(5, 40),
        epochs=None,
        documents=draw.choice([False, True]),
        max_bytes=draw.choice([None, "1MiB", "16MiB"]),
    )


def some(loader: toolkit.Loader, draw: random.Random) -> tuple[Any, Any]:
    """Iterate over a few batches; return the iteration, and its last batch."""
    iterator, batch = iter(loader), None
    for _ in range(draw.randint(1, 3)):
        batch = next(iterator, None)
    return iterator, batch


def unused(loader: toolkit.Loader, draw: random.Random) -> None:
    """Dropped as it was made."""


def before_first(loader: toolkit.Loader, draw: random.Random) -> None:
    """Dropped when its threads have begun."""
    iter(loader)


def middle(loader: toolkit.Loader, draw: random.Random) -> None:
    """Dropped while workers run."""
    some(loader, draw)


def collected(loader: toolkit.Loader, draw: random.Random) -> None:
    """In a cycle, with what it gave: only the collector ends it, in whichever thread it runs."""
    cycle: list[Any] = [loader, *some(loader, draw)]
    cycle.append(cycle)


def outlived(loader: toolkit.Loader, draw: random.Random) -> Any:
    """Survived by one of its batches."""
    return some(loader, draw)[1]


def closed(loader: toolkit.Loader, draw: random.Random) -> None:
    """Closed in the middle, twice; the iteration must not end as if it were complete."""
    iterator, _ = some(loader, draw)
    at = loader.stats()["batches"]
    loader.close()
    loader.close()
    if at < len(loader):
        expect_error(iterator)


def closed_by_another(loader: toolkit.Loader, draw: random.Random) -> None:
    """Closed by another thread while this one asks for batches."""
    iterator = iter(loader)
    timer = threading.Timer(draw.random() * 0.01, loader.close)
    timer.start()
    try:
        for batch in iterator:
            del batch
    except LoaderError:
        pass
    timer.join()


def left_by_exception(loader: toolkit.Loader, draw: random.Random) -> None:
    """The loop's body raises, in a `with` block or not."""
    try:
        if draw.random() < 0.5:
            with loader:
                die(loader, draw)
        else:
            die(loader, draw)
    except ConsumerError:
        pass


def die(loader: toolkit.Loader, draw: random.Random) -> None:
    """Raise after a few batches."""
    last = draw.randint(0, 2)
    for number, batch in enumerate(loader):
        if number == last:
            raise ConsumerError(batch)
    raise ConsumerError


def forked(loader: toolkit.Loader, draw: random.Random) -> None:
    """Used and dropped in a forked child, and here as well."""
    iterator, batch = some(loader, draw) if draw.random() < 0.7 else (iter(loader), None)
    child = os.fork()
    if not child:
        code = 1
        try:
            if loader.stats()["batches"] < len(loader):
                expect_error(iterator)
            del iterator, batch, loader
            gc.collect()
            code = 0
        finally:
            os._exit(code)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        raise SystemExit("a forked child failed")


def again(loader: toolkit.Loader, draw: random.Random) -> None:
    """Iterated over anew in the middle; the first iteration must not end as if it were complete."""
    iterator, _ = some(loader, draw)
    if loader.stats()["batches"] < len(loader):
        some(loader, draw)
        expect_error(iterator)


def complete(loader: toolkit.Loader, draw: random.Random) -> None:
    """Run to its end."""
    for batch in loader:
        del batch


def expect_error(iterator: Any) -> None:
    """Ask for one more batch."""
    try:
        next(iterator)
    except LoaderError:
        return
    raise SystemExit("an iteration that was cut off went on or ended in silence")


ENDS: tuple[Callable[[toolkit.Loader, random.Random], Any], ...] = (
    unused, before_first, middle, collected, outlived, closed, closed_by_another, left_by_exception, forked, again,
    complete,
)  # fmt: skip


def left(folder: str) -> dict[str, Any]:
    """Return what a process has that loaders could leave behind."""
    gc.collect()
    maps = Path("/proc/self/maps").read_text().splitlines()
    return {
        "threads": len(os.listdir("/proc/self/task")),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "mapped files of the dataset": sum(folder in line for line in maps),
        "batches": len(toolkit.debug_batches()),
        "counted bytes": process_budget().used,
    }


def more(found: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Whether there is more of anything; less is no fault: a library's thread may end meanwhile."""
    return any(found[name] > number for name, number in wanted.items())


def settled(folder: str, wanted: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Return what is left as soon as it is what is wanted, or in the end: a worker that was woken ends a bit later."""
    until = time.monotonic() + seconds
    while more(found := left(folder), wanted) and time.monotonic() < until:
        time.sleep(0.02)
    return found


def main() -> None:
    """Run, print what was done and what is left, and exit with 1 if anything is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("--tokens")
    parser.add_argument("--split", default="train")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--timeout", type=float, default=60)
    given = parser.parse_args()
    folder = os.path.realpath(given.dataset)
    draw = random.Random(given.seed)
    gc.set_threshold(200, 5, 5)
    system = SystemMemory()
    faulthandler.dump_traceback_later(given.timeout, exit=True)  # its own thread is counted too
    before = left(folder)
    began, warm = time.perf_counter(), 0
    done: collections.Counter[str] = collections.Counter()
    ds, kept = toolkit.open(given.dataset, split=given.split), None
    tokens = toolkit.open(given.tokens, split=given.split) if given.tokens else None
    for number in range(given.count):
        faulthandler.dump_traceback_later(given.timeout, exit=True)
        if draw.random() < 0.1:  # so that maps and descriptors come and go too
            ds = toolkit.open(given.dataset, split=given.split)
        end = draw.choice(ENDS)
        if tokens is not None and draw.random() < 0.5:
            kept = end(make_stream(tokens, draw), draw)
        else:
            kept = end(make(ds[: draw.randint(20, 80)], draw), draw)
        done[end.__name__] += 1
        if number == given.count // 10:
            gc.collect()
            warm = system.own_bytes() or 0
    del ds, kept, tokens
    seconds = time.perf_counter() - began
    faulthandler.dump_traceback_later(given.timeout, exit=True)
    after = settled(folder, before, given.timeout / 2)
    grown = (system.own_bytes() or 0) - warm
    print(f"{given.count} loaders in {seconds:.1f} s: " + ", ".join(f"{name} {n}" for name, n in sorted(done.items())))
    for name, number in before.items():
        print(f"{name}: {number} before, {after[name]} after")
    print(f"own memory: grown by {grown / (1 << 20):.1f} MiB since the first tenth")
    sys.exit(more(after, before) or grown > MOST_GROWTH)


if __name__ == "__main__":
    main()
