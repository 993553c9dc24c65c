"""A pack that is killed, fails or is interrupted at every call that changes the disk; and power cuts between any two.

A plain run tries some of the calls, `make matrices` all.

Whatever happens: the version that was there stays readable, and the same command again says the same pin.
"""

from __future__ import annotations

import errno
import random
import signal
from collections.abc import Iterator

import pytest
from faults.disk import Disk, read_tree
from faults.harness import Driver, compile_shim
from faults.world import KILL, Scenario, World, hashed, put
from matrix import some_of

FAILURES = [
    (errno.ENOSPC, "the disk is full: free some space and run again"),
    (errno.EIO, "the device reported an I/O error: check the disk"),
]
INTERRUPT = -signal.SIGINT


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
