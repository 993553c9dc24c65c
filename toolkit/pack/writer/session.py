"""One writer's pack, from the lock to the commit: what is there to go on with, and the threads that pack meanwhile."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from toolkit.errors import ExistsError, SourceError, StorageError, UsageError
from toolkit.format.commit import Transaction
from toolkit.format.contents import read_classes
from toolkit.format.pin import resolve
from toolkit.format.tables import encode_schema_table, sha256
from toolkit.pack.append import Base
from toolkit.pack.committed import Committed
from toolkit.pack.job import OnExisting, PackJob, PackResult
from toolkit.pack.journal import Journal
from toolkit.pack.note import CommitNote
from toolkit.pack.passes import Progress
from toolkit.pack.prepare import Prepared, base_of, prepare, with_label_tables
from toolkit.pack.run import finish, known
from toolkit.pack.shape import Shaper
from toolkit.pack.slices import SlicePacker
from toolkit.pack.stage import Stage
from toolkit.pack.writer.allowance import Allowance
from toolkit.pack.writer.checkpoints import COMPLETE, Records, has_checkpoint, read_checkpoints
from toolkit.pack.writer.collect import Collector, Piece
from toolkit.pack.writer.cutter import Cutter
from toolkit.pack.writer.declared import Declared
from toolkit.pack.writer.flow import Flow
from toolkit.pack.writer.labels import Labels
from toolkit.pack.writer.parts import Part, count_records, write_facts
from toolkit.pack.writer.pieces import Made, PieceMaker
from toolkit.pack.writer.staged import DeclaredRecords, StagedRows, declaration, label_columns
from toolkit.pack.writer.values import values_of
from toolkit.sources.base import Survey
from toolkit.sources.splits import DEFAULT_SPLIT
from toolkit.storage.local import LocalStore
from toolkit.storage.store import WritableStore

__all__ = ["Session"]

_COLUMNS = "columns of records"  # in the journal


@dataclass
class _Running:
    """What works while records come."""

    columns: Sequence[Declared]
    prepared: Prepared
    journal: Journal  # of the slices: the dataset's, or the stage's
    labels: Mapping[str, Labels]
    collector: Collector
    cutter: Cutter
    flow: Flow[Piece, Made]


class Session:
    """A pack of records. For one thread.

    Attributes:
        records: What is safe; the records behind it come from add() or were not given yet.
    """

    def __init__(
        self,
        job: PackJob,
        classes: Mapping[str, Sequence[str]],
        progress: Progress,
        part: Part | None = None,
        store: WritableStore | None = None,
    ) -> None:
        """Lock the dataset and see what is there.

        Args:
            job: The pack; of a part, the dataset is the part's folder.
            classes: The names of label columns that were given.
            progress: Told how far the pack is.
            part: Which part it is.
            store: Where to write, when that is no folder.

        Raises:
            ExistsError: There is a version or an unfinished pack already, or another pack is writing.
        """
        self.records = Records()
        self._started = time.monotonic()
        self._job = job
        self._classes = classes
        self._progress = progress
        self._part = part
        store = store or LocalStore(job.dataset)
        self._journal, self._note = Journal(store), CommitNote(store)
        self._goes_on = False
        self._running: _Running | None = None
        self._committed: Committed | None = None
        self._whole: int | None = None
        self._resumed = self._written = 0
        with contextlib.ExitStack() as stack:
            self._transaction = stack.enter_context(Transaction(store, replace=True))
            self._look()
            self._stack = stack.pop_all()

    @property
    def done(self) -> int:
        """How many records are safe: a stopped pack had them, or this one has meanwhile."""
        return self.records.stop if self._whole is None else self._whole

    @property
    def declared(self) -> Mapping[str, str]:
        """The columns of the pack that this one goes on with, as text; none of a new one."""
        job = self._journal.job() if self._goes_on else None
        told: Any = (job or {}).get(_COLUMNS)
        return told if isinstance(told, dict) else {}

    @property
    def is_whole(self) -> bool:
        """Whether the pack that this one goes on with had all its records: its commit is done, or its part complete."""
        return self._whole is not None

    def begin(self, columns: Sequence[Declared]) -> Collector:
        """Begin with these columns, or go on; return what takes the records.

        Raises:
            UsageError: The columns can't be packed, or aren't those of the dataset that is appended to.
            ExistsError: The unfinished pack is of another kind.
        """
        job, labels = self._job, label_columns(columns)
        base = base_of(job, self._journal, None)
        names, is_open = self._names(labels, base)
        if self._part is not None and is_open:
            raise UsageError(
                f"parts need the names of all classes of {labels[0]!r}, by classes=: no part knows what others find"
            )
        source = DeclaredRecords(columns, names, open_classes=is_open)
        prepared = prepare(job, self._journal, None, source)
        asked = {
            **prepared.asked,
            _COLUMNS: declaration(columns),
            "classes_given": not is_open,
            "schema": sha256(encode_schema_table(prepared.schema)),
        }
        prepared = replace(prepared, asked=asked)
        finished = self._journal.begin(asked)
        stage = Stage(self._transaction.store) if prepared.two_passes else None
        journal = self._journal if stage is None else stage.journal
        self.records = read_checkpoints(self._journal, finished if stage is None else journal.finished())
        self._resumed = len(self.records.slices)
        entries = journal.finished() if self._resumed else {}
        rejects = [one for part in self.records.slices for one in entries[part.split, part.number].rejects]
        for name in labels:
            names[name] = (*names[name], *self.records.names.get(name, ()))
        self._running = self._started_threads(columns, prepared, stage, journal, names, is_open, rejects, base)
        return self._running.collector

    def _started_threads(
        self,
        columns: Sequence[Declared],
        prepared: Prepared,
        stage: Stage | None,
        journal: Journal,
        names: Mapping[str, Sequence[str]],
        is_open: bool,
        rejects: Sequence[Any],
        base: Base | None,
    ) -> _Running:
        job = self._job
        labels = {name: Labels(known, is_open=is_open) for name, known in names.items()}
        values = {
            one.name: values_of(one, job.max_value_bytes, job.verify_images)
            for one in columns
            if one.name not in labels
        }
        allowance = Allowance(job.max_rejects, rejects)
        assert isinstance(prepared.rows, Shaper)
        maker = PieceMaker(columns, values, prepared.rows, prepared.deriver, allowance)
        packer = SlicePacker(
            prepared.rows, prepared.schema, stage or self._transaction, journal, job.shard_size, prepared.deriver
        )
        split_names = [job.split or DEFAULT_SPLIT]
        cutter = Cutter(
            packer,
            self._journal,
            self.records,
            shard_bytes=job.shard_size,
            split_names=split_names,
            names={name: one.names for name, one in labels.items() if one.is_open},
            on_rows=self._on_rows,
        )
        flow = Flow(maker.make, cutter.take, job.jobs)
        collector = Collector(
            {one.name: labels.get(one.name) or values[one.name] for one in columns},
            split_names=split_names,
            first=self.records.stop,
            key_of=_KeyNumbers(base) if self._part is None else self._part.key,
            missing=job.missing,
            allowance=allowance,
            hand_on=flow.put,
        )
        return _Running(columns, prepared, journal, labels, collector, cutter, flow)

    def finish(self) -> PackResult:
        """Commit all records.

        Raises:
            SourceError: There is none, or keys occur twice.
            RejectsError: More were refused than may be.
            StorageError: The disk is full or fails.
        """
        if self._committed is not None:
            return self._known(self._committed)
        self.write_all()
        running = self._running
        if running is None:
            raise SourceError(f"no record was added: there is nothing to pack into {self._job.dataset!r}")
        names = {name: one.names for name, one in running.labels.items()}
        rows = StagedRows(running.prepared.survey, self.records, names, running.journal)
        prepared = replace(running.prepared, rows=rows, columns=with_label_tables(rows.survey))
        result = finish(
            self._job,
            prepared,
            self._transaction,
            self._journal,
            self._note,
            lambda *_: None,
            self._started,
            resumed=self._resumed,
        )
        self._forget()
        return result

    def complete(self) -> None:
        """Make every record of a part safe, and say that these are all."""
        running = self._running
        if self._whole is not None:
            return
        if running is None:
            raise SourceError(
                f"no record was added, and no column is known: declare columns= for {self._job.dataset!r}"
            )
        self.write_all()
        names = {name: one.names for name, one in running.labels.items()}
        write_facts(self._journal.store, self._job, running.columns, names, self.records.stop)

    def write_all(self) -> None:
        """Make every record safe, and commit nothing."""
        if self._running is not None:
            self._running.collector.flush()
            self._running.flow.close()
            self._running.cutter.finish()

    def close(self, *, failed: bool, kept: bool = False) -> None:
        """End: let go of the dataset. What `failed` leaves full shards; `kept`: of all records so far."""
        try:
            if self._running is not None:
                if kept:
                    with contextlib.suppress(Exception):  # what failed was told, and nothing is to be committed
                        self._running.collector.flush()
                        self._running.flow.close()
                self._running.flow.abort()
                self._running.cutter.abort()
            if failed and not self._is_kept():
                with contextlib.suppress(StorageError):
                    self._journal.discard_if_empty()
        finally:
            self._running = None  # it holds the session: what was packed in memory would stay until somebody collects
            self._stack.close()

    @property
    def _is_complete(self) -> bool:
        return self._journal.store.info(COMPLETE) is not None

    def _is_kept(self) -> bool:
        return self._is_complete or self._committed is not None or has_checkpoint(self._journal)

    def _look(self) -> None:
        """Decide what to go on with; `_goes_on` tells whether there is something."""
        job, journal, note = self._job, self._journal, self._note
        current = note.current()
        unfinished = journal.is_there() and current is None
        if job.on_existing is OnExisting.RESUME:
            if current is not None:
                self._committed = current
                self._whole = current.added + current.rejected + current.passed_over
                return
            if self._is_complete:
                self._whole = count_records(journal.store)
                return
            if unfinished:
                self._goes_on = True
                return
            self._job = job = replace(job, on_existing=OnExisting.REFUSE)
        if self._is_complete and job.on_existing is not OnExisting.OVERWRITE:
            raise ExistsError(
                f"{job.dataset!r} has all its records: merge it by toolkit.merge_parts(), or write it anew with "
                'on_existing="overwrite"'
            )
        if not unfinished or job.on_existing is OnExisting.OVERWRITE or journal.is_refused():
            self._forget()
        elif has_checkpoint(journal):
            raise ExistsError(
                f'{job.dataset!r} holds an unfinished pack of records: go on with it by on_existing="resume", which '
                "skips the records that it has; or give it up: toolkit pack --abort DATASET"
            )
        if job.on_existing is OnExisting.REFUSE:
            self._transaction.refuse_existing()

    def _names(self, labels: Sequence[str], base: Base | None) -> tuple[dict[str, tuple[str, ...]], bool]:
        """Return the names that each label column begins with, and whether others may come."""
        for name in self._classes:
            if name not in labels:
                raise UsageError(f"classes names {name!r}, which is no label column; there are {', '.join(labels)}")
        given = {name: tuple(self._classes[name]) for name in labels if name in self._classes}
        if given and len(given) < len(labels):
            missing = next(name for name in labels if name not in given)
            raise UsageError(f"classes has no names for the label column {missing!r}: give those of all, or of none")
        if base is not None:
            known = {name: base.classes.get(name, ()) for name in labels}
            joined = {
                name: (*known[name], *(one for one in given.get(name, ()) if one not in known[name])) for name in labels
            }
            return joined, bool(labels) and not given and self._job.extend_classes
        return {name: given.get(name, ()) for name in labels}, bool(labels) and not given

    def _on_rows(self, rows: int) -> None:
        self._written += rows
        self._progress(self._written, None, 0, 0)

    def _known(self, committed: Committed) -> PackResult:
        version = resolve(f"{self._job.dataset}@sha256:{committed.pin}")
        survey = Survey(columns=version.manifest.columns, types={}, classes=read_classes(version), splits=(), slices=())
        result = known(self._job, survey, committed, self._note.rejects(committed), self._started)
        self._forget()
        return result

    def _forget(self) -> None:
        with contextlib.suppress(StorageError):  # the next pack or gc knows it for what it is
            self._journal.discard()
            self._note.remove()


class _KeyNumbers:
    """Keys of records that have none: their numbers; in an append, behind every number that is a key already."""

    def __init__(self, base: Base | None) -> None:
        self._base = base
        self._first: int | None = None if base is not None else 0

    def __call__(self, number: int) -> str:
        if self._first is None:
            assert self._base is not None
            taken = (int(key) for key in self._base.each_key() if key.isascii() and key.isdecimal() and len(key) < 19)
            self._first = max(taken, default=-1) + 1
        return str(self._first + number)
