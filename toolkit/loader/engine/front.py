"""What loaders and token streams share: iterations over an engine, one at a time, and what ends them."""

from __future__ import annotations

import os
from abc import ABC
from collections.abc import Callable, Generator, Iterator
from types import TracebackType
from typing import Any, ClassVar, Generic, Self, TypeVar

from toolkit.errors import LoaderError, UsageError
from toolkit.loader.engine.engine import Engine
from toolkit.loader.engine.filler import Content, Filler, PlannedT
from toolkit.loader.engine.stats import LoaderStats, report_text
from toolkit.memory.budget import Budget, process_budget
from toolkit.memory.pool import Allocate, BlockPool, aligned
from toolkit.memory.sizes import size_text

__all__ = ["Front"]

_Batch = TypeVar("_Batch")


class Front(ABC, Generic[_Batch]):
    """Owns the memory that batches lie in, and the engine of the iteration that runs.

    A `with` block, or close(), ends the threads; so does the end of an iteration, and dropping it.
    """

    #: What errors call it.
    _called: ClassVar[str]

    def __init__(
        self,
        stats: LoaderStats,
        *,
        max_bytes: int | None,
        hold_timeout: float,
        prefetch: int,
        collect: Callable[[], None],
        allocate: Allocate = aligned,
    ) -> None:
        """`allocate` makes the memory of batches; `collect`: see Engine."""
        self._stats = stats
        self._budget = Budget(max_bytes, process_budget())
        # In flight, in the consumer's hand, and the one before it that JAX or a slow `del` still holds.
        self._pool = BlockPool(prefetch + 2, self._budget, allocate)
        self._hold_timeout = hold_timeout
        self._collect = collect
        self._engine: Engine[Any, Any] | None = None
        self._closed = False
        self._pid = os.getpid()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __dir__(self) -> list[str]:
        """List what is public, for completion."""
        return [name for name in object.__dir__(self) if not name.startswith("_")]

    def stats(self) -> dict[str, Any]:
        """Return the counters so far; toolkit.loader.engine.stats.LoaderStats describes them."""
        return self._stats.snapshot(self._budget)

    def report(self) -> str:
        """Return stats() in a few lines for people, with what held the loop up."""
        return report_text(self.stats())

    def close(self) -> None:
        """End a running iteration and its threads. May be called more than once."""
        self._closed = True
        self._end_engine()
        self._pool.close()

    def _begin(self) -> None:
        """End the iteration that is running, for another one. Raises LoaderError."""
        if self._closed:
            raise LoaderError(f"this {self._called} is closed: make a new one")
        if os.getpid() != self._pid:
            raise LoaderError(f"this {self._called} was made before a fork: open a new one in the child process")
        self._end_engine()

    def _start(
        self, plan: Iterator[PlannedT], filler: Filler[PlannedT, Content, Any], *, threads: int, prefetch: int
    ) -> Engine[PlannedT, Content]:
        """Start the engine of an iteration."""
        self._stats.begin()
        engine = Engine(
            plan,
            filler,
            self._stats,
            called=self._called,
            threads=threads,
            prefetch=prefetch,
            pool=self._pool,
            budget=self._budget,
            hold_timeout=self._hold_timeout,
            collect=self._collect,
        )
        self._engine = engine
        return engine

    def _end_engine(self) -> None:
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def _run(self, engine: Engine[Any, Any], batches: Generator[_Batch, None, None]) -> Generator[_Batch, None, None]:
        """Yield the batches that are made of an engine's, and end it with them."""
        try:
            yield from batches
        except GeneratorExit:  # nobody has the iteration any more
            engine.drop()
            raise
        except BaseException:
            engine.close()
            raise
        engine.close()

    def _cut_off(self, delivered: str) -> LoaderError:
        return LoaderError(
            f"the iteration ended after {delivered}, because the {self._called} was closed or another iteration over "
            f"it began: use one {self._called} for each loop that runs at the same time"
        )

    def _check_fits(self, need: int, what: str) -> None:
        """Raise UsageError when a batch's blocks are more than all memory that there may be."""
        limit = self._budget.least_limit
        if limit is not None and need > limit:
            own = limit == self._budget.limit
            raise UsageError(
                f"{what} needs {size_text(need)}, and "
                f"{'max_bytes' if own else 'toolkit.set_memory_limit()'} allows {size_text(limit)}: allow at least "
                f"{need} bytes, twice that for a loop that holds one batch while the next is made, or take smaller "
                "batches"
            )
