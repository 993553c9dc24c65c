"""Runs of a pack with faults, on a dataset that is made anew for each: which versions it may leave, and their rows."""

from __future__ import annotations

import shutil
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from faults.disk import Call, Disk, Tree, read_trace, read_tree, write_tree
from faults.harness import Driver, Ended
from pictures import encode, picture

import toolkit
from toolkit.checks.verify import verify
from toolkit.errors import NotFoundError
from toolkit.format.pin import resolve

KILL = -signal.SIGKILL
DONE = "already holds a dataset", "occurs twice: in the dataset already"

Samples = list[Any]


def put(folder: Path, *names: str) -> Path:
    """Write images of 40 kB: each fills a slice of its own."""
    for number, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode(picture(number, 8, 8)) + np.random.default_rng(number).bytes(40_000))
    return folder


@dataclass(frozen=True)
class Scenario:
    """A command on a dataset that holds `start`: it makes `calls`, ends with the version `pin` and leaves `end`."""

    args: tuple[object, ...]
    start: Tree
    old: tuple[str, ...]
    pin: str
    end: Tree
    trace: tuple[Call, ...]

    @property
    def calls(self) -> range:
        return range(1, len(self.trace) + 1)

    @property
    def commit(self) -> range:
        """The calls behind the last finished slice."""
        entries = [i for i, call in enumerate(self.trace, 1) if call.path2.endswith(".keys")]
        return range(max(entries, default=0) + 1, len(self.trace) + 1)


class World:
    """Sources, a dataset `ds` that is made anew for each case, and what each version of it holds."""

    def __init__(self, root: Path, driver: Driver) -> None:
        self.root, self.driver = root, driver
        self.folder, self.ds = driver.folder, driver.folder / "ds"
        self.one = put(root / "one", "ant/1.jpg", "bee/2.jpg")
        self.two = put(root / "two", "ant/3.jpg", "bee/4.jpg")
        self.bad = put(root / "bad", "ant/5.jpg", "bee/6.jpg")
        (self.bad / "bee/7.jpg").write_bytes(b"no picture")
        self.samples: dict[str, Samples] = {}
        self._seen: dict[tuple[object, ...], set[int]] = {}

    def pack_rows(self, *options: object) -> tuple[object, ...]:
        """Pack rows of 40 kB, each a slice of its own in both passes; the last has the key of the first."""
        path = self.root / "rows.parquet"
        images = [encode(picture(i, 8, 8)) + np.random.default_rng(i).bytes(40_000) for i in range(3)]
        table = pa.table({"id": ["a", "b", "a"], "image": images, "label": [0, 1, 0]})
        pq.write_table(table, path, row_group_size=1)
        return self.pack(path, "--key", "id", "--key-conflict", "suffix", *options)

    def rows(self, reference: object) -> Samples:
        """What a version holds."""
        ds = toolkit.open(str(reference))
        return [(sample["__key__"], sample["image"], sample["label"]) for sample in (ds[i] for i in range(len(ds)))]

    def verify(self) -> None:
        """Check the current version as a user can."""
        assert verify(self.ds, full=True).findings == ()

    def begin(self, tree: Tree) -> None:
        shutil.rmtree(self.folder)
        write_tree(self.folder, tree)

    def run(self, args: tuple[object, ...], at: int = 0, fault: int = 0, trace: Path | None = None) -> Ended:
        return self.driver.run(*args, at=at, fault=fault, trace=trace)

    def pack(self, source: Path, *options: object) -> tuple[object, ...]:
        return ("pack", source, self.ds, "--shard-size", "64KiB", "--jobs", "1", "-q", *options)

    def scenario(self, args: tuple[object, ...], start: Tree, old: tuple[str, ...] = ()) -> Scenario:
        self.begin(start)
        trace = self.root / "trace"
        trace.unlink(missing_ok=True)
        ended = self.run(args, trace=trace)
        assert ended.code == 0, ended
        calls = tuple(read_trace(trace))
        assert len(calls) == ended.calls
        pin = resolve(self.ds).pin
        self.verify()
        self.samples[pin] = self.rows(self.ds)
        return Scenario(args, start, old, pin, read_tree(self.folder), calls)

    def check(self, scenario: Scenario) -> str | None:
        """Check that the dataset is one of the two versions, and that older ones are whole; return its pin."""
        for pin in scenario.old:
            assert self.rows(f"{self.ds}@sha256:{pin}") == self.samples[pin]
        if not (self.ds / "manifest.json").exists():
            assert not scenario.old
            with pytest.raises(NotFoundError):
                resolve(self.ds)
            return None
        pin = resolve(self.ds).pin
        assert pin in (*scenario.old, scenario.pin)
        assert self.rows(self.ds) == self.samples[pin]
        return pin

    def traced(self, disk: Disk, args: tuple[object, ...], at: int = 0, fault: int = 0) -> Ended:
        """Run the command, and do to `disk` what it does to the folder."""
        path = self.root / "trace"
        path.unlink(missing_ok=True)
        ended = self.run(args, at, fault, path)
        for call in read_trace(path) if path.exists() else ():
            disk.do(call)
        return ended

    def finish(self, scenario: Scenario, disk: Disk | None = None, *, said: bool = False) -> bool:
        """Run the command again: it must come to what it would have come to, and say so; tell whether it ran at all.

        Without a disk to follow, that is done once for each state of the folder. Only when the first run may have
        `said` its pin, as its last act before a power cut, may the second one find that all is done.
        """
        before = read_tree(self.folder)
        seen = self._seen.setdefault(scenario.args, set())
        known = hash(tuple(before.items()))
        if disk is None and known in seen:
            return False
        seen.add(known)
        ended = self.run(scenario.args) if disk is None else self.traced(disk, scenario.args)
        after = read_tree(self.folder)
        if said and ended.code == 2 and any(text in ended.err for text in DONE):
            assert hashed(without_journal(before)) == hashed(scenario.end)
            after = without_journal(after)
        else:
            assert ended.code == 0, ended
            assert ended.out.endswith(f"pin={scenario.pin}\n") or scenario.args[0] == "gc", ended
        assert hashed(after) == hashed(scenario.end)
        assert self.check(scenario) == scenario.pin
        return ended.code == 0


def hashed(tree: Tree) -> Tree:
    """Return what must come out the same: all but the lock and when and where it was packed."""
    left_out = (".lock", ".provenance.json", "failed.rejects.jsonl")
    return {name: data for name, data in tree.items() if not name.endswith(left_out)}


def without_journal(tree: Tree) -> Tree:
    return {
        name: data
        for name, data in tree.items()
        if not name.startswith(("ds/.journal", "ds/.tmp-journal", "ds/.commit"))
    }
