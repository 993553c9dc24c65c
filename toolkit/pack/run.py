"""Pack a source into a dataset: survey it, pack its slices, commit; or plan it only."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence

from toolkit.errors import StorageError, UsageError
from toolkit.format.commit import Transaction
from toolkit.format.manifest import Manifest, encode_manifest
from toolkit.format.schema import Kind
from toolkit.pack.assembly import assemble
from toolkit.pack.job import OnExisting, PackJob, PackPlan, PackResult, PlannedSplit
from toolkit.pack.journal import Journal
from toolkit.pack.passes import Packed, Progress, pack_all
from toolkit.pack.prepare import Prepared, make_shaper, prepare
from toolkit.pack.report import provenance, rejects_jsonl
from toolkit.sources.base import Slice, Source
from toolkit.sources.detect import make_source

__all__ = ["pack", "plan"]


def plan(job: PackJob) -> PackPlan:
    """Return what `job` would do. Writes nothing; reads no more than the source must to know its columns and slices."""
    kind, source = make_source(job.source_kind, job.source_options)
    survey = make_shaper(job, source).survey
    return PackPlan(
        source_kind=kind.value,
        splits={name: _planned([part for part in survey.slices if part.split == name]) for name in survey.splits},
        columns={column.name: column.kind.value for column in survey.columns},
        encodings={column.name: column.encoding or "" for column in survey.columns if column.kind is Kind.IMAGE},
        classes=next(iter(survey.classes.values()), None),
        skipped=dict(survey.skipped),
        rejects=list(survey.rejects),
    )


def pack(job: PackJob, progress: Progress = lambda *_: None, source: Source | None = None) -> PackResult:
    """Carry out `job`; return what was packed. `source` is what to read when no files are: the job only names it then.

    A kill at any instant leaves the dataset as it was, or the new version; the same pack again goes on where it was.

    Raises:
        SourceError, NotFoundError, UsageError, ExistsError: The job can't be done; nothing was written.
        RejectsError: More rejects than allowed; nothing was committed.
        StorageError: The disk is full or fails; nothing was committed.
    """
    started = time.monotonic()
    _check_places(job)
    journal = Journal(job.dataset)
    new = job.on_existing is OnExisting.REFUSE
    with Transaction(job.dataset, replace=not new or journal.is_committed()) as transaction:
        prepared, again = _prepared(job, transaction, journal, source)
        if job.on_existing is OnExisting.OVERWRITE and not journal.is_of(prepared.asked):
            journal.discard()
        packed = pack_all(job, prepared, transaction, journal, progress)
        manifest = assemble(job, prepared, packed.results, transaction)
        pin = encode_manifest(manifest)[1]
        if again and job.on_existing is not OnExisting.OVERWRITE and not journal.is_about(pin):
            journal.discard()
            transaction.refuse_existing()
        journal.will_commit(pin)
        report = provenance(job, prepared.survey, time.monotonic() - started, renamed=packed.renamed)
        transaction.commit(manifest, {"rejects.jsonl": rejects_jsonl(packed.rejects), "provenance.json": report})
        with contextlib.suppress(StorageError):  # the next pack or gc knows it for what it is
            journal.discard()
    return _result(job, prepared, packed, manifest, pin, time.monotonic() - started)


def _check_places(job: PackJob) -> None:
    if not job.dataset:
        raise UsageError("'' is not a path; give the folder for the dataset")
    dataset = os.path.realpath(job.dataset)
    for given in job.sources:
        source = os.path.realpath(given)
        if os.path.commonpath([source, dataset]) == source:
            raise UsageError(f"the dataset {job.dataset!r} lies inside its source {given!r}: put it elsewhere")


def _prepared(job: PackJob, transaction: Transaction, journal: Journal, source: Source | None) -> tuple[Prepared, bool]:
    """Prepare the pack; tell whether it is one that was killed right behind its commit, run again to learn its pin."""
    prepared = prepare(job, journal, source)
    committed = journal.is_committed()
    if committed and prepared.is_finished(job.dataset):
        return prepared, True
    if committed:  # another pack was killed there: nothing of it is unfinished
        journal.discard()
    if job.on_existing is OnExisting.REFUSE:
        transaction.refuse_existing()
    return prepare(job, journal, source) if committed else prepared, False


def _planned(slices: Sequence[Slice]) -> PlannedSplit:
    counts = [part.samples for part in slices]
    known = [count for count in counts if count is not None]
    return PlannedSplit(
        samples=sum(known) if len(known) == len(counts) else None,
        bytes=sum(part.bytes for part in slices),
        tasks=len(slices),
    )


def _result(
    job: PackJob, prepared: Prepared, packed: Packed, manifest: Manifest, pin: str, seconds: float
) -> PackResult:
    splits, classes = manifest.splits, prepared.survey.classes
    return PackResult(
        pin=pin,
        dataset=job.dataset,
        samples=sum(split.rows for split in splits.values()),
        shards=sum(table.shards for split in splits.values() for table in split.tables),
        bytes=sum(split.bytes for split in splits.values()),
        seconds=seconds,
        splits={name: split.rows for name, split in splits.items()},
        classes=len(next(iter(classes.values()))) if classes else None,
        skipped=dict(prepared.survey.skipped),
        rejects=packed.rejects,
        added=packed.rows,
        resumed=packed.resumed,
        renamed=packed.renamed,
    )
