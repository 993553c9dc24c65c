"""An index that is killed or fails at every call that changes the disk; and power cuts between any two.

A plain run tries some of the calls, `make matrices` all. Whatever happens: the version that was there is read from
where its files lie, and the same command again says the same pin. What a pack does as well is tested of packs.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from faults.disk import Disk, read_tree
from faults.harness import Driver, compile_shim
from faults.world import KILL, Samples, Scenario, World, hashed, put
from matrix import some_of
from pictures import encode, picture
from sources import tars

import toolkit


class IndexWorld(World):
    """Sources that lie outside of where faults happen."""

    def __init__(self, root: Path, driver: Driver) -> None:
        super().__init__(root, driver)
        self.one = put(root / "one", *(f"ant/one{i}.jpg" for i in range(8)))  # two slices

    def pack(self, source: Path, *options: object) -> tuple[object, ...]:
        return ("index", *super().pack(source, *options)[1:])

    def tars(self, *options: object) -> tuple[object, ...]:
        """Index two tars, in two passes: a sample of the second has a key of the first."""
        for number, key in enumerate("bc"):
            items = [(f"{name}.jpg", encode(picture(i, 9, 9))) for i, name in enumerate(f"a{key}")]
            tars.write(self.root / f"tars/{number}/x.tar", tars.tar_bytes(items))
        both = (self.root / "tars/0/x.tar", self.root / "tars/1/x.tar")
        return ("index", *both, *self.pack(self.root, "--key-conflict", "suffix", *options)[2:])

    def rows(self, reference: object) -> Samples:
        ds = toolkit.open(str(reference))
        return [[(name, value) for name, value in sorted(ds[i].items())] for i in range(len(ds))]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IndexWorld]:
    root = tmp_path_factory.mktemp("faults").resolve()
    shim = compile_shim(root)
    if shim is None:
        pytest.skip("no C compiler for the shim: install gcc")
    (root / "world").mkdir()
    source = put(root / "warm", "ant/1.jpg")
    with Driver(shim, root / "world", "index", source, root / "warmed") as driver:
        yield IndexWorld(root, driver)


@pytest.fixture(scope="module")
def fresh(world: IndexWorld) -> Scenario:
    return world.scenario(world.pack(world.one), {})


@pytest.fixture(scope="module")
def append(world: IndexWorld, fresh: Scenario) -> Scenario:
    """With another root."""
    options = ("--on-existing", "append", "--extend-classes")
    return world.scenario(world.pack(world.two, *options), fresh.end, (fresh.pin,))


@pytest.fixture(scope="module")
def overwrite(world: IndexWorld, fresh: Scenario) -> Scenario:
    """With a root of the same name that lies elsewhere."""
    return world.scenario(world.pack(world.two, "--on-existing", "overwrite"), fresh.end, (fresh.pin,))


@pytest.fixture(scope="module")
def unhashed(world: IndexWorld) -> Scenario:
    return world.scenario(world.pack(world.two, "--trust", "stat"), {})


@pytest.fixture(scope="module")
def renamed(world: IndexWorld) -> Scenario:
    return world.scenario(world.tars("--trust", "stat"), {})


@pytest.fixture(scope="module")
def shuffled(world: IndexWorld) -> Scenario:
    return world.scenario(world.tars("--shuffle-seed", "3"), {})


@pytest.fixture(params=["fresh", "append", "overwrite", "unhashed", "renamed", "shuffled"])
def scenario(request: pytest.FixtureRequest) -> Scenario:
    made: Scenario = request.getfixturevalue(request.param)
    return made


def test_killed_at_every_call(world: IndexWorld, scenario: Scenario) -> None:
    """And when the second run is done, a power cut takes nothing of it away."""
    two_passes = "--key-conflict" in scenario.args
    for at in some_of(scenario.calls if not scenario.old else scenario.commit, each=60 if two_passes else 24):
        world.begin(scenario.start)
        disk = Disk(world.folder, scenario.start)
        assert world.traced(disk, scenario.args, at, KILL).code == KILL, at
        world.check(scenario)
        if world.finish(scenario, disk):
            sure, end = disk.after_cut("sure"), hashed(scenario.end)
            assert {name: sure.get(name, b"gone") for name in end} == end, at


@pytest.mark.parametrize("name", ["append", "overwrite", "unhashed"])
def test_a_power_cut_between_calls(world: IndexWorld, name: str, request: pytest.FixtureRequest) -> None:
    made: Scenario = request.getfixturevalue(name)
    disk = Disk(world.folder, made.start)
    taken, tried = set(some_of(made.commit, each=18)), set()
    for at, call in enumerate(made.trace, 1):
        disk.do(call)
        for kept, seed in (("sure", 0), ("names", 0), ("any", at)) if at in taken else ():
            tree = disk.after_cut(kept, seed)
            if hash(tuple(tree.items())) not in tried:
                tried.add(hash(tuple(tree.items())))
                world.begin(tree)
                world.check(made)
                world.finish(made, said=True)
    assert disk.seen() == made.end


@pytest.mark.parametrize("name", ["fresh", "overwrite", "unhashed"])
def test_failing_at_calls(world: IndexWorld, name: str, request: pytest.FixtureRequest) -> None:
    made: Scenario = request.getfixturevalue(name)
    for at in some_of(made.calls if not made.old else made.commit, each=30):
        world.begin(made.start)
        ended = world.run(made.args, at, errno.ENOSPC)
        world.check(made)
        assert ended.code == 5 or (ended.code == 0 and at in made.commit), (at, ended)
        assert not any(".tmp-" in one and ".tmp-journal" not in one for one in read_tree(world.folder)), at
        world.finish(made)


def test_the_roots_of_each_version(world: IndexWorld, fresh: Scenario, append: Scenario, overwrite: Scenario) -> None:
    assert roots(fresh) == {"roots": {"source": str(world.one)}}
    assert roots(append) == {"roots": {"source": str(world.one), "source-2": str(world.two)}}
    older = {fresh.pin: {"source": str(world.one)}}
    assert roots(overwrite) == {"roots": {"source": str(world.two)}, "older": older}


def roots(made: Scenario) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(made.end["ds/roots.json"])
    assert len(said.pop("mac")) == 64
    assert made.pin in said.pop("versions")
    return said
