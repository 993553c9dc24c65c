"""Measure what a dataset costs before its first samples arrive: opening it, a first batch, a first epoch of labels.

    python benchmarks/open_resume.py [--other CHECKOUT] [--case CASE] [--photographs DIR] [--repeats 9] [--work DIR]

With --other, the same of another checkout, compiled in place: each packs datasets of its own with its own code, from
the same samples, and the two take turns. Every measurement is a process of its own, imports left out; of first batches
it is the least of five. A cell is the median of the repeats with the least and the most; a ratio is taken within each
repeat, and below 1 this checkout takes less. CPU time is that of all threads. The load average tells how busy the
machine was.

Small shards have one record batch of 1,000 samples of 40 bytes: up to 1,000 are written, and for more these are taken
as often as needed, by hard links under names of their own. Pictures are 60 kB of random bytes in the mean behind a
JPEG's head, with labels, in shards of 256 MiB, which are 17 record batches of 16 MiB; all have bytes of their own.

open      toolkit.open, page cache warm. The shards are names without files, which opening doesn't miss. `own memory` is
          what it added.
first     The first batch of 256 samples from 256 shards, one of each, shuffled, on a dataset opened anew: page cache
          warm, one thread; from the loader to the batch, and from toolkit.open to it. Small shards, and pictures whose
          files have several names each, by hard links.
resume    The same in full shuffle over the whole dataset, from toolkit.open to the batch; fresh, and after loading a
          state that stands at the beginning, in the middle and at the end of an epoch. Longer orders are the same
          dataset repeated.
labels    An epoch of `columns=["label"]` over the pictures, from toolkit.open on, with no page of a shard in the page
          cache, which mincore confirms; and how much of the shards is there afterwards.
touch     One row of each shard of pictures, `ds[i]`, none of its pages in the page cache: what it costs a shard. Calls
          are counted as reads; what a map brings in is counted `from disk` alone. The ranges are those that are in the
          page cache afterwards.
metadata  Bytes a sample beside its values, by where they are: of --photographs, a folder of them, or of the pictures.

The system may still know names and inodes of cold files, and the disk may have a cache. The system reads ahead of what
is asked for, up to the disk's `readahead`: what `labels` and `touch` find depends on it. Linux only.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from checkouts import HERE, Checkout, Figure, check_compiled, compare, lines
from cold_reads import Usage, drop_pages, readahead_bytes, resident_bytes, resident_ranges
from shard_sets import pack_pictures, pack_small, repeat_shards, shard_starts, shard_tables, write_pictures
from turns import BenchmarkError, command_line, show

__all__ = ["CASES", "Task", "build", "measure"]

WRITTEN_SHARDS = 1000
BATCH_SIZE = 256
ROUNDS = 5  # in a process
PLACES = {"begin": 0.0, "middle": 0.5, "end": 1.0}
MILLI, MEBIBYTE = 1e3, 1 << 20

Numbers = dict[str, float]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
    """How much is measured.

    Attributes:
        open_shards: Shards of the datasets that are opened.
        shards: Shards of those that give a first batch, small ones.
        orders: Samples of the orders that are resumed in; the longest one in every dataset, the others in the first.
        picture_bytes: Bytes of all pictures.
        photographs: A folder of photographs, or None.
    """

    open_shards: tuple[int, ...] = (1000, 400_000, 1_000_000)
    shards: tuple[int, ...] = (1000, 400_000)
    orders: tuple[float, ...] = (1e6, 1e9, 1e12)
    picture_bytes: int = 4 << 30
    photographs: Path | None = None


def build(target: Path, shards: int, written: int = WRITTEN_SHARDS) -> None:
    """Make a dataset of so many small shards at `target`; those beyond `written` are hard links to these."""
    with tempfile.TemporaryDirectory(dir=target.parent) as made:
        packed = Path(made, "packed")
        pack_small(packed, min(shards, written))
        repeat_shards(packed, target, shards)


def measure(
    task: Task, *, cases: Sequence[str], repeats: int, other: Path | None = None, work: Path | None = None
) -> list[Figure]:
    """Measure the cases on this checkout, and on `other` in turns with it. Raises BenchmarkError."""
    if other is not None:
        check_compiled(other)
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="open_resume.", dir=work) as made:
        roots = {"this": HERE} | ({} if other is None else {"other": other.resolve()})
        sides = [_Side(Checkout(root, Path(made, name)), task) for name, root in roots.items()]
        for side in sides:
            side.checkout.work.mkdir()
        for case in cases:
            figures += compare("open_resume", case, [_with_load(CASES[case](side)) for side in sides], repeats)
    return figures


def _with_load(once: Callable[[], Numbers]) -> Callable[[], Numbers]:
    return lambda: once() | {"load average of the machine": os.getloadavg()[0]}


# --- the cases: each prepares a side, and returns what is done in a repeat ------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Side:
    """A checkout with its datasets, each made when it is first asked for."""

    checkout: Checkout
    task: Task

    def run(self, action: str, *arguments: object) -> Any:
        """Do something in a process of its own, over the checkout's toolkit."""
        return self.checkout.script(HERE / "benchmarks" / "open_resume.py", "--worker", action, *arguments)

    def small(self, shards: int, *, files: bool) -> Path:
        """Return a dataset of so many small shards, which are there or are names alone."""
        written = min(WRITTEN_SHARDS, *self.task.shards, *self.task.open_shards)
        packed = self._made(f"small {written}", lambda target: self.run("small", target, written))
        name = f"small {shards}" if files else f"names {shards}"
        return self._made(name, lambda target: repeat_shards(packed, target, shards, files=files))

    def pictures(self) -> Path:
        """Return the dataset of pictures."""
        source = self.checkout.work.parent / "pictures.parquet"  # the same for both sides
        if not source.exists():
            write_pictures(source, self.task.picture_bytes)
        return self._made("pictures", lambda target: self.run("pictures", source, target))

    def many_pictures(self, shards: int) -> Path:
        """Return a dataset of so many shards of pictures, or some more."""
        pictures = self.pictures()
        held = len(_shard_files(pictures))
        return self._made("many", lambda target: repeat_shards(pictures, target, -(-shards // held) * held))

    def photographs(self) -> Path:
        """Return a dataset of the photographs, or of the pictures."""
        folder = self.task.photographs
        if folder is None:
            return self.pictures()
        return self._made("photographs", lambda target: self.run("photographs", folder.resolve(), target))

    def _made(self, name: str, make: Callable[[Path], object]) -> Path:
        target = self.checkout.work / name.replace(" ", "-")
        if not target.exists():
            make(target)
        return target


def _open_case(side: _Side) -> Callable[[], Numbers]:
    datasets = {shards: side.small(shards, files=False) for shards in side.task.open_shards}

    def once() -> Numbers:
        found = {}
        for shards, dataset in datasets.items():
            opened = side.run("open", dataset)
            found[f"{shards:,} shards, ms"] = MILLI * opened["seconds"]
            found[f"{shards:,} shards, CPU ms"] = MILLI * opened["cpu_seconds"]
            found[f"{shards:,} shards, own memory, MiB"] = opened["own_bytes"] / MEBIBYTE
        return found

    return once


def _first_case(side: _Side) -> Callable[[], Numbers]:
    datasets = {"small shards": side.small(side.task.shards[0], files=True), "pictures": side.many_pictures(BATCH_SIZE)}

    def once() -> Numbers:
        return {
            f"{name}: {what}": MILLI * seconds
            for name, dataset in datasets.items()
            for what, seconds in side.run("first", dataset).items()
        }

    return once


def _resume_case(side: _Side) -> Callable[[], Numbers]:
    task = side.task
    pairs = [(shards, order) for shards in task.shards for order in task.orders]
    pairs = [(shards, order) for shards, order in pairs if shards == task.shards[0] or order == max(task.orders)]
    datasets = {shards: side.small(shards, files=True) for shards in task.shards}

    def once() -> Numbers:
        found = {}
        for shards, order in pairs:
            for place, seconds in side.run("resume", datasets[shards], order).items():
                found[f"{shards:,} shards, order of {order:.0e}: {place}, ms"] = MILLI * seconds
        return found

    return once


def _labels_case(side: _Side) -> Callable[[], Numbers]:
    dataset = side.pictures()

    def once() -> Numbers:
        found = {}
        for shuffle in ("none", "full"):
            used = side.run("labels", dataset, shuffle)
            found[f"shuffle={shuffle}: s"] = used["seconds"]
            found[f"shuffle={shuffle}: CPU s"] = used["cpu_seconds"]
            found[f"shuffle={shuffle}: from disk, MiB"] = used["disk_bytes"] / MEBIBYTE
            found[f"shuffle={shuffle}: reads"] = used["reads"]
            found[f"shuffle={shuffle}: in the page cache afterwards, %"] = used["resident_percent"]
        found["readahead of the disk, kB"] = readahead_bytes(dataset) / 1e3
        return found

    return once


def _touch_case(side: _Side) -> Callable[[], Numbers]:
    dataset = side.pictures()

    def once() -> Numbers:
        found = {}
        for column in ("image", "label"):
            used = side.run("touch", dataset, column)
            found[f"{column}: ms"] = MILLI * used["seconds"]
            found[f"{column}: CPU ms"] = MILLI * used["cpu_seconds"]
            found[f"{column}: reads"] = used["reads"]
            found[f"{column}: read, kB"] = used["read_bytes"] / 1e3
            found[f"{column}: map waits"] = used["faults"]
            found[f"{column}: ranges from disk"] = used["ranges"]
            found[f"{column}: from disk, kB"] = used["disk_bytes"] / 1e3
        found["readahead of the disk, kB"] = readahead_bytes(dataset) / 1e3
        return found

    return once


def _metadata_case(side: _Side) -> Callable[[], Numbers]:
    dataset = side.photographs()
    found = dict(_metadata(dataset))
    return lambda: found


CASES: dict[str, Callable[[_Side], Callable[[], Numbers]]] = {
    "open": _open_case,
    "first": _first_case,
    "resume": _resume_case,
    "labels": _labels_case,
    "touch": _touch_case,
    "metadata": _metadata_case,
}


def _shard_files(dataset: Path) -> list[Path]:
    return [dataset / path for table in shard_tables(dataset) for path in table.column("path").to_pylist()]


def _metadata(dataset: Path) -> Iterator[tuple[str, float]]:
    """Yield bytes a sample, by where they are."""
    tables = list(shard_tables(dataset))
    rows, shard_bytes = (sum(table.column(name).to_numpy().sum() for table in tables) for name in ("rows", "bytes"))
    lists = [lists for table in tables for lists in table.column("batches").chunks]
    body_bytes = sum(batches.flatten().field("body_bytes").to_numpy().sum() for batches in lists)
    parts = {
        "manifest": (dataset / "manifest.json").stat().st_size,
        "tables": sum(path.stat().st_size for path in (dataset / "tables").iterdir()),
        "outside bodies": shard_bytes - body_bytes,
        "keys": 0,
        "digests": 0,
        "derived columns": 0,
    }
    for path in _shard_files(dataset):
        file = pa.ipc.open_file(pa.memory_map(str(path)))
        for batch in map(file.get_batch, range(file.num_record_batches)):
            for name in (name for name in batch.schema.names if name.startswith("__")):
                part = {"__key__": "keys", "__digest__": "digests"}.get(name, "derived columns")
                parts[part] += batch.column(name).get_total_buffer_size()
    for part, size in (parts | {"all": sum(parts.values())}).items():
        yield f"{part}, bytes a sample", size / rows


# --- what runs in the measured processes ---------------------------------------------------------------------------


def _open(dataset: str) -> Numbers:
    import toolkit.loader.api
    from toolkit.checks.bench.memory import AnonymousPeak

    with AnonymousPeak() as anonymous:
        before = Usage.now()
        toolkit.open(dataset)
        used = Usage.now().since(before)
    return {
        "seconds": used.seconds,
        "cpu_seconds": used.cpu_seconds,
        "own_bytes": anonymous.growth_bytes or 0,
    }


def _first(dataset: str) -> Numbers:
    starts = shard_starts(Path(dataset))
    shards = np.arange(BATCH_SIZE) * (len(starts) - 1) // BATCH_SIZE
    rows = starts[shards] + np.arange(BATCH_SIZE) * 7919 % np.diff(starts)[shards]  # anywhere in them
    return _least(_first_batch(dataset, rows) for _ in range(ROUNDS + 1))


def _first_batch(dataset: str, rows: Any) -> Numbers:
    import toolkit

    begun = Usage.now()
    ds = toolkit.open(dataset).take(rows)
    opened = Usage.now()
    with ds.loader(batch_size=BATCH_SIZE, shuffle="full", threads=1, prefetch=0) as loader:
        batch = next(iter(loader))
        done = Usage.now()
    if len(batch.positions) != BATCH_SIZE:
        raise BenchmarkError(f"a first batch of {len(batch.positions)} samples")
    batch_used, all_used = done.since(opened), done.since(begun)
    return {
        "first batch, ms": batch_used.seconds,
        "first batch, CPU ms": batch_used.cpu_seconds,
        "opened and first batch, ms": all_used.seconds,
        "opened and first batch, CPU ms": all_used.cpu_seconds,
    }


def _resume(dataset: str, order: str) -> Numbers:
    places = ["fresh", *PLACES]
    turns = [places[turn % 4 :] + places[: turn % 4] for turn in range(ROUNDS + 1)]
    return _least({place: _resumed(dataset, int(float(order)), PLACES.get(place)) for place in turn} for turn in turns)


def _resumed(dataset: str, order: int, place: float | None) -> float:
    """Return the seconds from opening to the first batch."""
    import toolkit

    begun = Usage.now()
    ds = toolkit.open(dataset)
    ds = ds.repeat(max(1, order // len(ds)))
    position = int((place or 0) * (len(ds) - BATCH_SIZE)) // BATCH_SIZE * BATCH_SIZE
    with ds.loader(batch_size=BATCH_SIZE, shuffle="full", threads=1, prefetch=0, epochs=2) as loader:
        if place is not None:
            loader.load_state_dict(loader.state_dict() | {"position": position})
        batch = next(iter(loader))
        seconds = Usage.now().since(begun).seconds
    if len(batch.positions) != BATCH_SIZE or batch.positions[0] != position:
        raise BenchmarkError(f"the first batch is not the one at {place}")
    return seconds


def _labels(dataset: str, shuffle: str) -> Numbers:
    import toolkit

    files = _shard_files(Path(dataset))
    _first_samples(dataset)
    gc.collect()  # pages of a file that is mapped stay
    drop_pages(files)
    before = Usage.now()
    ds = toolkit.open(dataset, columns=["label"])
    with ds.loader(batch_size=BATCH_SIZE, shuffle=shuffle, threads=1, remainder="keep") as loader:
        samples = sum(len(batch["label"]) for batch in loader)
    used = Usage.now().since(before)
    if samples != len(ds):
        raise BenchmarkError(f"an epoch of {samples} samples of {len(ds)}")
    percent = 100 * resident_bytes(files) / sum(path.stat().st_size for path in files)
    return dataclasses.asdict(used) | {"resident_percent": percent}


def _touch(dataset: str, column: str) -> Numbers:
    import toolkit

    _first_samples(dataset)
    files, starts = _shard_files(Path(dataset)), shard_starts(Path(dataset))
    rows = (starts[:-1] + np.diff(starts) * 2 // 5).tolist()
    gc.collect()
    drop_pages(files)
    ds = toolkit.open(dataset, columns=[column])
    before = Usage.now()
    for row in rows:
        _ = ds[row][column]
    used = dataclasses.asdict(Usage.now().since(before))
    used["ranges"] = resident_ranges(files)
    return {name: number / len(rows) for name, number in used.items()}


def _first_samples(dataset: str) -> None:
    """Have everything imported that a loader, and a sample, need."""
    import toolkit

    ds = toolkit.open(dataset)
    _ = ds[0]
    with ds.loader(batch_size=1, threads=1) as loader:
        next(iter(loader))


def _least(found: Iterator[Numbers]) -> Numbers:
    """Return the least of each number; the first round pays for imports and is left out."""
    rounds = list(found)[1:]
    return {name: min(one[name] for one in rounds) for name in rounds[0]}


def _pack_photographs(source: str, target: str) -> None:
    import toolkit

    toolkit.pack(source, target)


ACTIONS: dict[str, Callable[..., Any]] = {
    "open": _open,
    "first": _first,
    "resume": _resume,
    "labels": _labels,
    "touch": _touch,
    "small": lambda target, shards: pack_small(Path(target), int(shards)),
    "pictures": lambda source, target: pack_pictures(Path(source), Path(target)),
    "photographs": _pack_photographs,
}


def _work(action: str, *arguments: str) -> int:
    print(json.dumps(ACTIONS[action](*arguments) or {}))
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return 0, or 1 when a measurement failed."""
    usual = Task()
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--other", type=Path, metavar="DIR", help="a checkout, compiled in place, to compare with")
    parser.add_argument("--case", action="append", choices=CASES, help="what to measure; may be repeated; default: all")
    parser.add_argument("--open-shards", type=int, nargs="+", default=usual.open_shards, metavar="N")
    parser.add_argument("--shards", type=int, nargs="+", default=usual.shards, metavar="N", help="small ones, to read")
    parser.add_argument("--orders", type=float, nargs="+", default=usual.orders, metavar="SAMPLES")
    parser.add_argument("--picture-bytes", type=float, default=usual.picture_bytes, metavar="BYTES", help="of them all")
    parser.add_argument("--photographs", type=Path, metavar="DIR", help="as benchmarks/photos.py makes them")
    parser.add_argument("--repeats", type=int, default=9, help="of each measurement, each in its own process")
    parser.add_argument("--work", type=Path, metavar="DIR", help="for the datasets; the system's temporary folder")
    parser.add_argument("--json", action="store_true", help="print the same as one JSON object")

    def run(given: argparse.Namespace) -> None:
        task = Task(
            open_shards=tuple(given.open_shards),
            shards=tuple(given.shards),
            orders=tuple(given.orders),
            picture_bytes=int(given.picture_bytes),
            photographs=given.photographs,
        )
        figures = measure(
            task, cases=given.case or tuple(CASES), repeats=given.repeats, other=given.other, work=given.work
        )
        show(lines(figures), [dataclasses.asdict(figure) for figure in figures], given.json)

    return command_line("open_resume.py", argv, parser, run, _work)


if __name__ == "__main__":
    sys.exit(main())
