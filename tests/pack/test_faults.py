"""A pack that is killed, fails or is interrupted at every call that changes the disk; and power cuts between any two.

A plain run tries some of the calls, `make matrices` all.

Whatever happens: the version that was there stays readable, and the same command again says the same pin.
"""

from __future__ import annotations

import errno
import random
import shutil
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from faults.disk import Call, Disk, Tree, read_trace, read_tree, write_tree
from faults.harness import Driver, Ended, compile_shim
from matrix import some_of
from pictures import encode, picture

import toolkit
from toolkit.checks.verify import verify
from toolkit.errors import NotFoundError

FAILURES = [
    (errno.ENOSPC, "the disk is full: free some space and run again"),
    (errno.EIO, "the device reported an I/O error: check the disk"),
]
KILL = -signal.SIGKILL
INTERRUPT = -signal.SIGINT
DONE = "already holds a dataset", "occurs twice: in the dataset already"

Samples = list[tuple[str, bytes, int]]


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
        pin = toolkit.open(self.ds).pin
        assert verify(self.ds, full=True).findings == ()
        self.samples[pin] = rows(self.ds)
        return Scenario(args, start, old, pin, read_tree(self.folder), calls)

    def check(self, scenario: Scenario) -> str | None:
        """Check that the dataset is one of the two versions, and that older ones are whole; return its pin."""
        for pin in scenario.old:
            assert rows(f"{self.ds}@sha256:{pin}") == self.samples[pin]
        if not (self.ds / "manifest.json").exists():
            assert not scenario.old
            with pytest.raises(NotFoundError):
                toolkit.open(self.ds)
            return None
        pin = toolkit.open(self.ds).pin
        assert pin in (*scenario.old, scenario.pin)
        assert rows(self.ds) == self.samples[pin]
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
            assert ended.out.endswith(f"pin={scenario.pin}\n") or scenario.args[0] != "pack", ended
        assert hashed(after) == hashed(scenario.end)
        assert self.check(scenario) == scenario.pin
        return ended.code == 0


def rows(reference: object) -> Samples:
    ds = toolkit.open(str(reference))
    return [(sample["__key__"], sample["image"], sample["label"]) for sample in (ds[i] for i in range(len(ds)))]


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


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    root = tmp_path_factory.mktemp("faults").resolve()
    shim = compile_shim(root)
    if shim is None:
        pytest.skip("no C compiler for the shim: install gcc")
    (root / "world").mkdir()
    source = put(root / "warm", "ant/1.jpg")
    with Driver(shim, root / "world", "pack", source, root / "warmed") as driver:
        yield World(root, driver)


@pytest.fixture(scope="module")
def fresh(world: World) -> Scenario:
    return world.scenario(world.pack(world.one), {})


@pytest.fixture(scope="module")
def append(world: World, fresh: Scenario) -> Scenario:
    return world.scenario(world.pack(world.two, "--on-existing", "append"), fresh.end, (fresh.pin,))


@pytest.fixture(scope="module")
def overwrite(world: World, fresh: Scenario) -> Scenario:
    return world.scenario(world.pack(world.two, "--on-existing", "overwrite"), fresh.end, (fresh.pin,))


@pytest.fixture(scope="module")
def collect(world: World, overwrite: Scenario) -> Scenario:
    return world.scenario(("gc", world.ds, "--delete"), overwrite.end)


@pytest.fixture(scope="module")
def renamed(world: World) -> Scenario:
    return world.scenario(world.pack_rows(), {})


@pytest.fixture(scope="module")
def shuffled(world: World) -> Scenario:
    return world.scenario(world.pack_rows("--shuffle-seed", "3"), {})


@pytest.fixture(params=["fresh", "append", "overwrite", "collect"])
def scenario(request: pytest.FixtureRequest) -> Scenario:
    made: Scenario = request.getfixturevalue(request.param)
    return made


@pytest.fixture(params=["fresh", "append", "collect"])
def failing(request: pytest.FixtureRequest) -> Scenario:
    made: Scenario = request.getfixturevalue(request.param)
    return made


def test_the_trace_has_every_change(world: World, scenario: Scenario) -> None:
    disk = Disk(world.folder, scenario.start)
    for call in scenario.trace:
        disk.do(call)
    assert disk.seen() == scenario.end


# --- kills, failures, interrupts --------------------------------------------------------------------------------


def test_killed_at_every_call(world: World, scenario: Scenario) -> None:
    """And when the second run is done, a power cut takes nothing of it away."""
    # With an older version there, slices are packed as in a fresh dataset.
    for at in some_of(scenario.calls if not scenario.old else scenario.commit):
        world.begin(scenario.start)
        disk = Disk(world.folder, scenario.start)
        assert world.traced(disk, scenario.args, at, KILL).code == KILL, at
        world.check(scenario)
        if world.finish(scenario, disk):
            sure = disk.after_cut("sure")
            end = hashed(scenario.end)
            assert {name: sure.get(name, b"gone") for name in end} == end, at


def test_failing_at_every_call(world: World, failing: Scenario) -> None:
    for at in some_of(failing.calls if not failing.old else failing.commit):
        why, says = FAILURES[at % 2]
        world.begin(failing.start)
        ended = world.run(failing.args, at, why)
        pin = world.check(failing)
        if ended.code == 0:  # what was only tidying up
            assert pin == failing.pin
            assert at in failing.commit
        else:
            assert ended.code == 5, (at, ended)
            assert ended.err.startswith("error: can't "), ended
            assert says in ended.err
        left = {name.split("/")[1] for name in read_tree(world.folder) if ".tmp-" in name}
        assert left <= ({".tmp-journal"} if ended.code == 0 else set()), (at, left)
        world.finish(failing)


def test_interrupted_anywhere(world: World, failing: Scenario) -> None:
    for at in some_of([*failing.calls[::3], *failing.commit]):
        world.begin(failing.start)
        ended = world.run(failing.args, at, INTERRUPT)
        assert ended.code == 130, (at, ended)
        assert ended.out == "" or ended.out.endswith(f"pin={failing.pin}\n"), (at, ended)
        assert ended.err.startswith("interrupted"), ended
        assert ended.err.count("\n") == 1, ended
        world.check(failing)
        world.finish(failing, said=ended.out != "")


def test_killed_ten_times_at_random(world: World, fresh: Scenario) -> None:
    rng = random.Random(4)
    world.begin({})
    args = tuple("3" if arg == "1" else arg for arg in fresh.args)
    killed = 0
    while killed < 10:
        seconds = rng.uniform(0.005, 0.06)
        ended = world.driver.run(*args, kill_after=seconds)
        killed += ended.code == -signal.SIGALRM
        if world.check(fresh) is not None:
            world.finish(fresh, said=ended.out.endswith(f"pin={fresh.pin}\n"))
            world.begin({})
    world.finish(fresh)


@pytest.mark.parametrize("name", ["renamed", "shuffled"])
def test_two_passes_killed_here_and_there_and_power_cuts(
    world: World, name: str, request: pytest.FixtureRequest
) -> None:
    made: Scenario = request.getfixturevalue(name)
    disk = Disk(world.folder, made.start)
    taken = some_of(made.calls[10::11])
    for at, call in enumerate(made.trace, 1):
        disk.do(call)
        if at in taken:
            world.begin(disk.after_cut("any", at))
            world.check(made)
            world.finish(made, said=True)
            world.begin(made.start)
            assert world.run(made.args, at, KILL).code == KILL
            world.check(made)
            world.finish(made)
    assert disk.seen() == made.end


def test_too_many_rejects_killed_anywhere(world: World) -> None:
    over = world.pack(world.bad)
    whole = world.scenario((*over, "--max-rejects", "1"), {})
    world.begin({})
    refused = world.run(over)
    assert refused.code == 3
    for at in range(1, refused.calls + 1, 5):
        world.begin({})
        assert world.run(over, at, KILL).code == KILL
        assert world.check(whole) is None
        again = world.run(over)
        assert (again.code, again.err) == (3, refused.err)
        world.finish(whole)


# --- order, and power cuts --------------------------------------------------------------------------------------


def test_what_is_renamed_is_synced_before_and_its_folder_behind(scenario: Scenario) -> None:
    """What points at others is renamed behind their folder's sync: a journal entry, and the manifest at last."""
    unsynced_files: set[str] = set()
    unsynced_folders: set[str] = set()
    for call in scenario.trace:
        match call.name:
            case "write" | "truncate" | "open":
                unsynced_files.add(call.path)
            case "fsync":
                unsynced_files.discard(call.path)
                unsynced_folders.discard(call.path)
            case "rename" if call.path2.endswith(".tmp-journal"):
                assert not unsynced_folders, "the journal ends behind the commit"
                unsynced_folders.add(call.parent)
            case "rename":
                folder, _, name = call.path2.rpartition("/")
                assert call.path not in unsynced_files, call.path2
                if folder.endswith(".journal"):
                    assert not any(path.endswith("/shards") for path in unsynced_folders), call.path2
                if name == "manifest.json":
                    assert not unsynced_folders, call.path2
                unsynced_folders.add(folder)
    assert not unsynced_folders
    published = [call.path2 for call in scenario.trace if call.name == "rename" and "journal" not in call.path2]
    assert not published or published[-1].endswith("/ds/manifest.json")


def test_a_power_cut_between_any_two_calls(world: World, scenario: Scenario) -> None:
    disk = Disk(world.folder, scenario.start)
    tried = set()
    for at, call in enumerate(scenario.trace, 1):
        disk.do(call)
        for kept, seed in (("sure", 0), ("names", 0), ("data", 0), ("any", at), ("any", -at)):
            tree = disk.after_cut(kept, seed)
            known = hash(tuple(tree.items()))
            if known not in tried:
                tried.add(known)
                world.begin(tree)
                world.check(scenario)
                world.finish(scenario, said=True)
    world.begin(disk.after_cut("sure"))
    assert world.check(scenario) == scenario.pin
    world.finish(scenario, said=True)
