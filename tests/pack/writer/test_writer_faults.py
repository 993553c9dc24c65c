"""A writer that is killed at every call that changes the disk, parts and merges at many, and power cuts between.

Whatever happens: no half of a version is there, and the same program again comes to the same pin.
"""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from faults.disk import Call, Disk, Tree, read_trace, read_tree, write_tree
from faults.harness import Driver, Ended, compile_shim
from matrix import some_of

import toolkit
from toolkit.errors import NotFoundError

KILL = -signal.SIGKILL
DONE = ("already holds a dataset", "are missing of 2 parts", "has no parts to merge")


class World:
    """A folder with a dataset `ds`, and what runs programs on it."""

    def __init__(self, root: Path, driver: Driver) -> None:
        self.root, self.driver = root, driver
        self.folder, self.ds = driver.folder, driver.folder / "ds"

    def begin(self, tree: Tree) -> None:
        shutil.rmtree(self.folder)
        write_tree(self.folder, tree)

    def run(self, what: tuple[object, ...], at: int = 0, trace: Path | None = None) -> Ended:
        return self.driver.run("records", self.ds, *what, at=at, fault=KILL if at else 0, trace=trace)

    def whole(self, what: tuple[object, ...], start: Tree) -> tuple[list[Call], Tree]:
        """Run without a fault; return the calls, and what lies there then."""
        self.begin(start)
        trace = self.root / "trace"
        trace.unlink(missing_ok=True)
        ended = self.run(what, trace=trace)
        assert ended.code == 0, ended
        return list(read_trace(trace)), read_tree(self.folder)

    def pin(self) -> str | None:
        try:
            return toolkit.open(self.ds).pin
        except NotFoundError:
            return None

    def finish(self, what: tuple[object, ...], end: Tree, pin: str | None) -> None:
        """Run again: it comes to the same, or finds that all is done."""
        assert self.pin() in (None, pin)
        ended = self.run(what)
        if ended.code != 0:
            assert any(text in ended.err for text in DONE), ended
            assert self.pin() == pin is not None, ended
        assert self.pin() == pin
        left = read_tree(self.folder)
        assert {name for name in files(left) if name not in files(end)} == set(), what
        assert {name: data for name, data in files(left).items() if "provenance" not in name} == {
            name: data for name, data in files(end).items() if "provenance" not in name
        }


def files(tree: Tree) -> Tree:
    """Return what must come out the same: nothing that the next pack takes away, and no locks."""
    left_out = (".lock", "/.tmp-", "/.commit")
    kept = (name for name, data in tree.items() if data is not None)
    return {name: tree[name] for name in kept if not any(part in name for part in left_out)}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    root = tmp_path_factory.mktemp("faults").resolve()
    shim = compile_shim(root)
    if shim is None:
        pytest.skip("no C compiler for the shim: install gcc")
    (root / "world").mkdir()
    with Driver(shim, root / "world", "records", root / "warmed", "whole", 2) as driver:
        yield World(root, driver)


WHOLE = ("whole", 2)


def test_a_writer_killed_at_every_call(world: World) -> None:
    calls, end = world.whole(WHOLE, {})
    pin = world.pin()
    assert pin is not None
    for at in some_of(range(1, len(calls) + 1)):
        world.begin({})
        assert world.run(WHOLE, at).code == KILL, at
        world.finish(WHOLE, end, pin)


def test_a_power_cut_under_a_writer(world: World) -> None:
    calls, end = world.whole(WHOLE, {})
    pin = world.pin()
    disk = Disk(world.folder, {})
    for at, call in enumerate(calls, 1):
        disk.do(call)
        if at % 4 == 0:
            world.begin(disk.after_cut("any", at))
            world.finish(WHOLE, end, pin)


def test_a_part_killed_here_and_there_is_redone_alone(world: World) -> None:
    part = ("part", 2, 1)
    calls, end = world.whole(part, {})
    for at in range(1, len(calls) + 1, 4):
        world.begin({})
        assert world.run(part, at).code == KILL, at
        world.finish(part, end, None)


def test_a_merge_killed_here_and_there_and_power_cuts(world: World) -> None:
    _, one = world.whole(("part", 1, 0), {})
    _, start = world.whole(("part", 1, 1), one)
    merge = ("merge", 2)
    calls, end = world.whole(merge, start)
    pin = world.pin()
    assert pin is not None
    assert len(toolkit.open(world.ds)) == 2
    disk = Disk(world.folder, start)
    for at, call in enumerate(calls, 1):
        if at % 2 == 0:
            world.begin(start)
            assert world.run(merge, at).code == KILL, at
            world.finish(merge, end, pin)
        disk.do(call)
        if at % 6 == 0:
            world.begin(disk.after_cut("any", at))
            world.finish(merge, end, pin)
