"""The engine over a filler of a few lines: order, errors in place, what is left out, memory, and the end."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from waiting import PATIENCE, wait_until

from toolkit.errors import LoaderError, ToolkitError
from toolkit.loader.engine.engine import Engine
from toolkit.loader.engine.filler import Filler, LendNamed, fill_now
from toolkit.loader.engine.memory import MakeRoom, WorkerMemory
from toolkit.loader.engine.stats import LoaderStats
from toolkit.memory.budget import Budget, OverBudgetError
from toolkit.memory.holding import debug_batches
from toolkit.memory.pool import BlockPool

SIZE = 1000  # numbers of a batch


class BadNumberError(ToolkitError):
    """A number that can't be counted."""


@dataclass(frozen=True, slots=True)
class Counted:
    """A batch of numbers from `first` on."""

    first: int
    epoch: int = 0
    places: int = SIZE

    @property
    def span(self) -> tuple[int, int]:
        return self.first, self.first + self.places - 1

    def __str__(self) -> str:
        return f"a batch of {self.places} numbers"


@dataclass(frozen=True, slots=True)
class Content:
    planned: Counted
    numbers: NDArray[np.int64]


class Numbers(Filler[Counted, Content, WorkerMemory]):
    """Counts; `bad` numbers can't be, and each needs `takes` bytes while it is counted."""

    def __init__(self, bad: Sequence[int] = (), *, skip: bool = False, takes: int = 0) -> None:
        self.bad = bad
        self.takes = takes
        self.skippable = (BadNumberError,) if skip else ()

    def block_bytes(self, planned: Counted) -> int:
        return 8 * planned.places

    def allocate(self, planned: Counted, lend: LendNamed) -> Content:
        return Content(planned, lend("numbers")(8 * planned.places).view(np.int64))

    def parts(self, planned: Counted, threads: int) -> Sequence[tuple[int, int]]:
        return [(start, start + SIZE // 4) for start in range(0, planned.places, SIZE // 4)]

    def memory(self, budget: Budget | None = None, make_room: MakeRoom | None = None) -> WorkerMemory:
        return WorkerMemory(budget, make_room)

    def fill(self, content: Content, start: int, stop: int, memory: WorkerMemory) -> None:
        memory.need(self.takes * (stop - start))
        first = content.planned.first
        content.numbers[start:stop] = np.arange(first + start, first + stop)
        for number in self.bad:
            if first + start <= number < first + stop:
                raise BadNumberError(f"{number} is bad")

    def blank(self, content: Content, start: int, stop: int) -> None:
        content.numbers[start:stop] = -1

    def place(self, planned: Counted, at: int) -> str:
        return f"number {planned.first + at}"


def run(
    filler: Numbers, batches: int = 20, *, threads: int = 2, limit: int | None = None, **more: Any
) -> Engine[Counted, Content]:
    budget = Budget(limit)
    options: dict[str, Any] = {
        "called": "loader",
        "prefetch": 2,
        "hold_timeout": PATIENCE,
        "collect": lambda: None,
        **more,
    }
    plan = (Counted(SIZE * number) for number in range(batches))
    return Engine(plan, filler, LoaderStats(), threads=threads, pool=BlockPool(4, budget), budget=budget, **options)


def numbers(engine: Engine[Counted, Content]) -> list[int]:
    found: list[int] = []
    for batch in engine:
        found += batch.content.numbers.tolist()
        del batch  # else it is held while the next is made
    return found


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("limit", [None, 3 * 8 * SIZE])
def test_all_comes_once_in_order(threads: int, limit: int | None) -> None:
    assert numbers(run(Numbers(), threads=threads, limit=limit)) == list(range(20 * SIZE))


def test_an_error_comes_in_place_of_its_batch() -> None:
    engine, seen = run(Numbers(bad=[5100])), []
    with pytest.raises(BadNumberError, match="5100 is bad"):
        seen.extend(batch.planned.first for batch in engine)
    assert seen == [0, 1000, 2000, 3000, 4000]
    assert next(engine, None) is None


def test_the_first_of_several_errors_is_raised() -> None:
    with pytest.raises(BadNumberError, match="1100 is bad"):
        numbers(run(Numbers(bad=[1900, 1100, 1600])))


def test_what_can_be_left_out_is_blank() -> None:
    expected = np.arange(4 * SIZE)
    expected[[1500, 2999]] = -1
    made = list(run(Numbers(bad=[1500, 2999], skip=True), batches=4))
    assert [number for batch in made for number in batch.content.numbers.tolist()] == expected.tolist()
    assert [batch.planned.first + place for batch in made for place, _ in batch.skipped] == [1500, 2999]


def test_a_batch_that_never_fits_says_so() -> None:
    with pytest.raises(LoaderError, match=r"a batch of 1000 numbers needs .* more than max_bytes"):
        next(run(Numbers(), limit=8 * SIZE - 1))


def test_a_consumer_that_holds_all_is_told_what_it_holds() -> None:
    engine = run(Numbers(), limit=3 * 8 * SIZE, hold_timeout=0.3)
    held = []
    with pytest.raises(LoaderError, match=r"epoch 0, positions 0\.\.999, .* delivered: numbers"):
        held.extend(engine)
    assert len(held) == 3
    held.clear()
    assert not debug_batches()


def test_parts_are_halved_until_a_worker_has_room() -> None:
    limit = 8 * SIZE + 100 * 16
    assert numbers(run(Numbers(takes=100), batches=3, limit=limit)) == list(range(3 * SIZE))
    with pytest.raises(OverBudgetError, match="number 0: to read and decode it takes"):
        numbers(run(Numbers(takes=100_000), batches=3, limit=limit))


@pytest.mark.parametrize("end", ["close", "drop"])
def test_its_threads_end(end: str) -> None:
    before = set(threading.enumerate())  # some of which may end meanwhile
    engine: Engine[Any, Any] | None = run(Numbers(), threads=3)
    assert next(engine).planned.first == 0
    if end == "close":
        engine.close()
        assert next(engine, None) is None
    engine = None
    wait_until(lambda: not set(threading.enumerate()) - before)


def test_a_batch_is_filled_in_ones_own_thread() -> None:
    content = fill_now(Numbers(), Counted(7), lambda name: BlockPool(0).lend, WorkerMemory())
    assert content.numbers.tolist() == list(range(7, 7 + SIZE))
