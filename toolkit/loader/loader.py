"""A loader: epochs of batches, each epoch exactly as planned or an error; its place can be saved and gone back to."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolkit.errors import LoaderError, UsageError
from toolkit.loader.dataset.dataset import Dataset
from toolkit.loader.dataset.views import joined_pin, short_pins
from toolkit.loader.engine.engine import Engine
from toolkit.loader.engine.front import Front
from toolkit.loader.engine.iteration import Iteration
from toolkit.loader.engine.stats import LoaderStats
from toolkit.loader.engine.work import FilledBatch
from toolkit.loader.options.loader import LoaderOptions, OnError
from toolkit.loader.order.course import Course, EndedRunWarning, Stretch, ended_text
from toolkit.loader.order.cut import Cut
from toolkit.loader.order.mixed import MixedOrder
from toolkit.loader.order.state import Cursor, Run, checked_epoch, dump_state, load_state
from toolkit.loader.outputs.batch import Batch, Sources
from toolkit.loader.outputs.delivery import BatchOutput, sample_shapes
from toolkit.loader.plan import check_pairs, make_order, plan_batches
from toolkit.loader.stages.filler import FilledSamples, SampleFiller
from toolkit.loader.stages.make import make_stages
from toolkit.loader.stages.maps import BatchMaps
from toolkit.loader.stages.planned import PlannedBatch
from toolkit.loader.stages.stage import ColumnStage
from toolkit.pipelines.batch.step import Reach
from toolkit.pipelines.batch_plan import batch_columns, plan_maps, reach_of
from toolkit.pipelines.build import last_steps
from toolkit.pipelines.pipeline import Pipeline

__all__ = ["Loader", "Mixed"]

_log = logging.getLogger("toolkit.loader")


@dataclass(frozen=True, slots=True)
class Mixed:
    """What a mix's loader has besides.

    Attributes:
        order: The order of all samples.
        names: Its sources, in the order of the plan.
        sources: Which rows are whose; of a mix in the mix, its own sources.
        facts: What a state holds of it.
    """

    order: MixedOrder
    names: tuple[str, ...]
    sources: Sources
    facts: dict[str, object]


_Engine = Engine[PlannedBatch, FilledSamples]
_Filled = FilledBatch[PlannedBatch, FilledSamples]


class Loader(Front[Batch]):
    """Iterates over batches; made by Dataset.loader(). Each iter() gives `epochs` epochs from `epoch` on.

    A `with` block, or close(), ends the threads; so does the end of the last epoch, and dropping the loader.

    Attributes:
        dataset, pipeline, options: What it was made of.
        cut: This rank's share of every epoch.
    """

    _called = "loader"

    def __init__(
        self,
        dataset: Dataset,
        pipeline: Pipeline | None,
        options: LoaderOptions,
        *,
        worker: int = 0,
        workers: int = 1,
        mixed: Mixed | None = None,
    ) -> None:
        """Make the loader of a rank, or of one of `workers` processes that deal its batches out among themselves.

        `mixed`: the order of a mix, in place of the one that the options ask for.

        Raises UsageError, PipelineError; no sample is read yet, but the labels are for weights="balanced".
        """
        if pipeline is not None and not isinstance(pipeline, Pipeline):
            raise UsageError(
                f"a loader takes a pipeline, got {type(pipeline).__name__}: toolkit.pipeline(slot(...), ...)"
            )
        given = options.given
        self.dataset = dataset = dataset if given["verify"] is None else dataset.verified(given["verify"])
        self.pipeline = pipeline
        self.options = options
        self._epoch = 0
        self._mixed = mixed
        self._order = make_order(dataset, options) if mixed is None else mixed.order
        self._arrays = options.output_spec.arrays(device=given["device"], sharding=given["sharding"])
        mesh = self._arrays.mesh
        self.cut: Cut = replace(options.cut(self._order.samples, mesh), worker=worker, workers=workers)
        super().__init__(
            LoaderStats(),
            max_bytes=options.most_bytes,
            hold_timeout=given["hold_timeout"],
            prefetch=given["prefetch"],
            collect=self._arrays.collect,
            allocate=self._arrays.allocate,
        )
        self._compiled = pipeline.compile(dataset.columns, dataset.schema) if pipeline else []
        maps = pipeline.batch_maps if pipeline else ()
        columns = batch_columns(self._compiled, dataset.columns, dataset.schema, dataset.class_names)
        self._maps, self._columns = plan_maps(maps, columns)
        check_pairs(maps, self.cut)
        if mesh is not None:
            mesh.check(list(self._columns), {} if maps else sample_shapes(self._stages()))
        self._output = BatchOutput(
            self._arrays,
            options.adapter,
            dataset.fetcher,
            _folders(dataset),
            last_steps(self._compiled),
            maps,
            None if mixed is None else mixed.sources,
        )
        samples = min(self.cut.local_batch, self.cut.samples)
        need = SampleFiller(self._stages(), dataset.fetcher).least_bytes(samples)
        self._check_fits(need, f"a batch of {samples} samples")
        self._cursor = Cursor(0, 0, 0, 0)  # what the consumer of the last iter() has received, or a loaded state
        self._resuming = False
        self._delivering: _Engine | None = None  # from its first batch on

    def __repr__(self) -> str:
        cut = self.cut
        order = self._order.name.partition(" ")[0]  # what follows is the hash of weights
        ranks = f", rank {cut.rank} of {cut.world_size}" if cut.world_size > 1 else ""
        return (
            f"<toolkit.Loader {self.dataset.split}: {cut.batches():,} batches of {cut.local_batch:,} an epoch, "
            f"{cut.samples:,} samples, shuffle {order}{ranks}, epoch {self._epoch}, "
            f"pin {short_pins(self.dataset.pins)}>"
        )

    def __len__(self) -> int:
        """Batches of a whole iter(), the same on every rank; the one after load_state_dict() gives what is left."""
        steps = self.options.bound.course(self.cut, Cursor(0, 0, 0, 0)).steps
        epochs, rest = divmod(steps, max(1, self.cut.steps()))
        return epochs * self.cut.batches() + self.cut.batches(0, rest)

    def __iter__(self) -> Iterator[Batch]:
        """Start the next epochs, or go on where a loaded state says. An iteration that is still running ends."""
        self._begin()
        options = self.options
        course = options.bound.course(self.cut, self._next)
        stages = self._stages()
        maps, dataset = self._maps, self.dataset
        filler = SampleFiller(
            stages,
            dataset.fetcher,
            BatchMaps(maps, options.given["seed"], _folders(dataset), dataset.fetcher) if maps else None,
            skip_errors=options.on_error is OnError.SKIP,
        )
        plan = plan_batches(dataset, self._order, course)
        engine = self._start(plan, filler, threads=options.thread_count, prefetch=options.given["prefetch"])
        dtypes = {stage.name: stage.dtype for stage in stages}
        dtypes |= {name: column.state.dtype for name, column in self._columns.items() if column.state is not None}
        return Iteration(self._run(engine, self._deliver(engine, dtypes, course)))

    @property
    def epoch(self) -> int:
        """Where the next iter() begins; the first batch that an iter() delivers advances it."""
        return self._epoch

    @property
    def finished(self) -> bool:
        """Whether until_epoch= or steps= bound the run, and nothing is left behind what state_dict() says."""
        return self.options.bound.is_reached(self.cut, self._cursor)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as dataset, pipeline, options and state: a copy goes on where this one's consumer stands."""
        cut, options = self.cut, self.options
        if self._arrays.mesh is None:
            options = replace(options, given={**options.given, "rank": cut.rank, "world_size": cut.world_size})
        loader = partial(
            type(self),
            self.dataset,
            self.pipeline,
            options,
            worker=cut.worker,
            workers=cut.workers,
            mixed=self._mixed,
        )
        return _restored, (loader, self._cursor)

    def set_epoch(self, epoch: int) -> None:
        """Let the next iter() begin at `epoch`; of the epoch that a loaded state stands in, where that state says."""
        epoch = checked_epoch(epoch)
        if not (self._resuming and self._cursor.epoch == epoch):
            self._cursor, self._resuming = Cursor(epoch, epoch, 0, self._cursor.step), False
        self._epoch = epoch

    def state_dict(self) -> dict[str, Any]:
        """Return where the run is: what the consumer has received, not what is prefetched. Small, ready for JSON.

        At a step it is the same on every rank, and any rank's serves all, on any number of ranks and with any batch
        size, threads and prefetch. With a batch step whose result depends on the batch, it holds batch size and ranks,
        and others are refused.
        """
        return dump_state(self._run_facts(), self._cursor)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next iter() go on where the state was taken; a running one ends. Costs the same at any position.

        That iter() ends where the interrupted one would have: `epochs` after it began. `epoch` becomes the state's.
        Of a run that until_epoch= or steps= bound and that is over, it delivers nothing, and `finished` is True.
        Without such a bound, an EndedRunWarning says that a run of several epochs had ended and begins anew.

        Raises:
            UsageError: The state is of another run, and the message names what differs; or `epochs` ends before it.
        """
        cursor = load_state(state, self._run_facts())
        epochs = self.options.given["epochs"]
        if not self.options.bound.is_reached(self.cut, cursor):
            if epochs is not None and cursor.epoch >= cursor.first_epoch + epochs:
                raise UsageError(
                    f"the state stands in epoch {cursor.epoch} of a run that began at epoch {cursor.first_epoch}, and "
                    f"epochs={epochs} ends before: give more epochs"
                )
            self._warn_if_ended(cursor)
        self._end_engine()
        self._cursor, self._resuming = cursor, True
        self._epoch = cursor.epoch

    @property
    def _next(self) -> Cursor:
        """Where the next iter() begins."""
        return self._cursor if self._resuming else Cursor(self._epoch, self._epoch, 0, self._cursor.step)

    def _warn_if_ended(self, cursor: Cursor) -> None:
        """Warn of a state at the end of a whole iter() of several epochs, unless the run is bounded."""
        bound = self.options.bound
        began = cursor.first_epoch == cursor.epoch and cursor.position == 0
        if not bound.is_whole and (bound.epochs or 0) > 1 and began and cursor.step and cursor.epoch:
            text = ended_text(f"epochs={bound.epochs}", cursor.epoch, cursor.epoch)
            warnings.warn(text, EndedRunWarning, stacklevel=3)

    def _end_engine(self) -> None:
        self._delivering = None
        super()._end_engine()

    def _stages(self) -> list[ColumnStage]:
        dataset = self.dataset
        return make_stages(
            dataset.columns,
            dataset.schema,
            self._compiled,
            dataset.fetcher,
            self._stats,
            seed=self.options.given["seed"],
        )

    def _run_facts(self) -> Run:
        pipeline = self.pipeline or Pipeline(())
        by_batch = reach_of(pipeline.batch_maps) is Reach.BATCH
        return Run(
            pin=joined_pin(self.dataset.pins),
            view=self.dataset.view,
            order=self._order.name,
            samples=self._order.samples,
            seed=self.options.given["seed"],
            pipeline=pipeline.describe(),
            global_batch_size=self.cut.global_batch if by_batch else None,
            world_size=self.cut.world_size if by_batch else None,
            mix=None if self._mixed is None else self._mixed.facts,
        )

    def _deliver(self, engine: _Engine, dtypes: dict[str, str | None], course: Course) -> Generator[Batch, None, None]:
        """Yield the batches; at the end of each epoch, every planned sample was delivered or skipped."""
        for stretch in course.stretches():
            start, epoch = stretch.start, stretch.start.epoch
            batches = self.cut.batches(start.position, stretch.steps)
            delivered = skipped = 0
            for number in range(batches):
                filled = next(engine, None)
                if filled is None:
                    raise self._cut_off(f"{number} of {batches} batches of epoch {epoch}")
                mask = _mask(filled)
                there = int(np.count_nonzero(mask))
                self._stats.add(batches=1, samples=there, skipped=len(filled.skipped))
                if filled.skipped:
                    skipped += self._count_skips(filled, skipped)
                delivered += there
                made = [self._output(filled, dtypes, mask)]
                del filled
                # Before it is handed over: a state taken inside the loop counts the batch in the loop's hand.
                self._advance(engine, course, self._behind(stretch, number, number + 1 == batches))
                yield made.pop()  # kept by no name here: the consumer alone decides how long it lives
            planned = self.cut.planned(start.position, stretch.steps)
            if delivered + skipped != planned:
                raise LoaderError(
                    f"epoch {epoch} delivered {delivered} samples and skipped {skipped}, planned were {planned}: "
                    "this is a defect of toolkit, please report it"
                )
            if not batches and self._engine is engine:  # unless a state was loaded since
                self._advance(engine, course, self._behind(stretch, -1, True))
        if not course.steps and self._engine is engine:  # the last epoch's loop was left, and another begun
            self._cursor = self._next

    def _behind(self, stretch: Stretch, number: int, is_last: bool) -> Cursor:
        """Return where the run is behind this process's batch `number` of a stretch, the last it has of it or not."""
        start = stretch.start
        taken = stretch.steps if is_last else min((number + 1) * self.cut.workers, stretch.steps)
        there = Cursor(start.first_epoch, start.epoch, self.cut.after(start.position, taken), start.step + taken)
        # An epoch's end is the beginning of the next.
        return self.options.bound.after_epoch(there) if is_last and stretch.is_whole else there

    def _advance(self, engine: _Engine, course: Course, cursor: Cursor) -> None:
        """Note what the consumer has. Not when iter() is called: Lightning calls it twice, and trains on the second."""
        self._cursor, self._resuming = cursor, False
        if self._delivering is not engine:
            self._delivering, self._epoch = engine, course.end

    def _count_skips(self, filled: _Filled, before: int) -> int:
        """Log what was skipped; raise when it is more than max_skips in the epoch."""
        for place, error in sorted(filled.skipped, key=lambda skip: skip[0]):
            _log.warning("skipped the sample at position %d: %s", int(filled.planned.positions[place]), error)
        most = self.options.given["max_skips"]
        if before + len(filled.skipped) > most:
            error = filled.skipped[-1][1]
            raise LoaderError(
                f"epoch {filled.planned.epoch}: more than max_skips={most} samples can't be read, the last: {error}"
            ) from error
        return len(filled.skipped)


def _restored(made: Callable[[], Loader], cursor: Cursor) -> Loader:
    loader = made()
    loader._cursor, loader._resuming, loader._epoch = cursor, True, cursor.epoch
    return loader


def _mask(filled: _Filled) -> NDArray[np.bool_]:
    """Return where the batch has samples: not behind the last one, nor where one was skipped."""
    mask = np.ones(len(filled.planned.rows), np.bool_)
    mask[filled.planned.samples :] = False
    for place, _ in filled.skipped:
        mask[place] = False
    return mask


def _folders(dataset: Dataset) -> str:
    """Name the folders that a view's samples lie in, for errors about whole batches."""
    return ", ".join(dict.fromkeys(part.version.root for part in dataset.stored.parts))
