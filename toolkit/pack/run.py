"""Pack a source into a dataset: survey it, pack its slices, commit; or plan it only."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from toolkit.errors import SourceError, StorageError, UsageError
from toolkit.format.commit import Transaction
from toolkit.format.manifest import Manifest, encode_manifest
from toolkit.format.media import stored_medium
from toolkit.format.pin import REPORTS, holds_dataset, resolve
from toolkit.pack.assembly import assemble
from toolkit.pack.committed import Committed
from toolkit.pack.identity import job_options
from toolkit.pack.job import OnExisting, PackJob, PackPlan, PackResult, PlannedSplit
from toolkit.pack.journal import Journal
from toolkit.pack.note import CommitNote
from toolkit.pack.passes import Packed, Progress, pack_all
from toolkit.pack.prepare import Prepared, check_base, make_rows, prepare
from toolkit.pack.report import provenance, rejects_jsonl
from toolkit.sources.base import Slice, Source, Survey
from toolkit.sources.make import make_source
from toolkit.sources.reject import Reject
from toolkit.storage.local import LocalStore
from toolkit.storage.places import real_path
from toolkit.storage.store import WritableStore

__all__ = ["finish", "known", "pack", "packing", "plan"]


def plan(job: PackJob) -> PackPlan:
    """Return what `job` would do. Writes nothing; reads no more than the source must to know its columns and slices."""
    _check_places(job)
    store = LocalStore(job.dataset)
    check_base(job, Journal(store), CommitNote(store).current())
    kind, source = make_source(job.source_kind, job.source_options)
    survey = make_rows(job, source).survey
    return PackPlan(
        source_kind=kind,
        splits={name: _planned([part for part in survey.slices if part.split == name]) for name in survey.splits},
        columns={column.name: column.kind.value for column in survey.columns},
        encodings={column.name: column.encoding or "" for column in survey.columns if stored_medium(column.kind)},
        classes=next(iter(survey.classes.values()), None),
        skipped=dict(survey.skipped),
        left_out=survey.left_out,
        warnings=survey.warnings,
        skipped_names=dict(survey.skipped_names),
        rejects=list(survey.rejects),
    )


def pack(
    job: PackJob,
    progress: Progress = lambda *_: None,
    source: Source | None = None,
    store: WritableStore | None = None,
) -> PackResult:
    """Carry out `job`; return what was packed.

    `source` is what to read when no files are, and `store` where to write when that is no folder: the job only names
    them then.

    A kill at any instant leaves the dataset as it was, or the new version; the same pack again goes on where it was.

    Raises:
        SourceError, NotFoundError, UsageError, ExistsError: The job can't be done; nothing was written.
        RejectsError: More rejects than allowed; nothing was committed.
        StorageError: The disk is full or fails; nothing was committed.
    """
    with packing(job, progress, source, store) as result:
        return result


@contextlib.contextmanager
def packing(
    job: PackJob,
    progress: Progress = lambda *_: None,
    source: Source | None = None,
    store: WritableStore | None = None,
) -> Iterator[PackResult]:
    """Carry out `job`, and forget what a stopped pack goes on from only when the block has ended well.

    So the block may tell somebody the pin: until that is done, the same pack again comes to it with nothing to do.
    Raises as pack().
    """
    started = time.monotonic()
    if store is None:
        _check_places(job)
        store = LocalStore(job.dataset)
    journal, note = Journal(store), CommitNote(store)
    new = job.on_existing is OnExisting.REFUSE
    with Transaction(store, replace=not new or note.current() is not None) as transaction:
        prepared, committed = _prepared(job, transaction, journal, note, source)
        if committed is None:
            result = _packed(job, prepared, transaction, journal, note, progress, started)
        else:
            result = known(job, prepared.survey, committed, note.rejects(committed), started)
        yield result
        with contextlib.suppress(StorageError):  # the next pack or gc knows it for what it is
            journal.discard()
            note.remove()


def _check_places(job: PackJob) -> None:
    dataset = real_path(job.dataset)
    for given in job.read_places:
        place = real_path(given)
        if os.path.commonpath([place, dataset]) == place:
            what = "--root folder" if given == job.root else "source"
            raise UsageError(f"the dataset {job.dataset!r} lies inside its {what} {given!r}: put it elsewhere")
    for given in job.sources:
        if holds_dataset(given):
            raise SourceError(
                f"{given!r} is a dataset already: it is opened or copied as it is, not packed. To pack its samples "
                "anew, or together with others, give the source that it was made of"
            )


def _prepared(
    job: PackJob, transaction: Transaction, journal: Journal, note: CommitNote, source: Source | None
) -> tuple[Prepared, Committed | None]:
    """Prepare the pack; return the note of its commit too when it was stopped behind that, before it said its pin."""
    current = note.current()
    prepared = prepare(job, journal, current, source)
    committed = note.of(job, prepared)
    if committed is not None:
        return prepared, committed
    if current is not None:  # another pack was stopped there: nothing of it is unfinished
        journal.discard()
        note.remove()
    if job.on_existing is OnExisting.REFUSE:
        transaction.refuse_existing()
    return prepare(job, journal, None, source) if current is not None else prepared, None


def _packed(
    job: PackJob,
    prepared: Prepared,
    transaction: Transaction,
    journal: Journal,
    note: CommitNote,
    progress: Progress,
    started: float,
) -> PackResult:
    """Pack every slice and commit the version."""
    if job.on_existing is OnExisting.OVERWRITE and not journal.is_of(prepared.asked):
        journal.discard()
    return finish(job, prepared, transaction, journal, note, progress, started)


def finish(
    job: PackJob,
    prepared: Prepared,
    transaction: Transaction,
    journal: Journal,
    note: CommitNote,
    progress: Progress,
    started: float,
    *,
    resumed: int | None = None,
) -> PackResult:
    """Pack the slices that aren't finished, and commit the version; the journal and the note are the caller's to end.

    `resumed` is how many slices an earlier pack had finished, where that isn't all that are.
    """
    packed = pack_all(job, prepared, transaction, journal, progress)
    if resumed is not None:
        packed = replace(packed, resumed=resumed)
    manifest = assemble(job, prepared, packed.results, transaction)
    pin = encode_manifest(manifest)[1]
    note.write(job, prepared, pin, added=packed.rows, renamed=packed.renamed, rejected=len(packed.rejects))
    report = provenance(job, prepared.survey, time.monotonic() - started, renamed=packed.renamed)
    if prepared.roots is not None:
        transaction.write_roots(prepared.roots, pin)
    transaction.commit(manifest, {"rejects.jsonl": rejects_jsonl(packed.rejects, job), "provenance.json": report})
    seconds = time.monotonic() - started
    return _result(job, prepared.survey, packed, manifest, pin, seconds)


def known(job: PackJob, survey: Survey, committed: Committed, rejects: list[Reject], started: float) -> PackResult:
    """Return what the pack came to that was stopped behind its commit."""
    manifest = resolve(f"{job.dataset}@sha256:{committed.pin}").manifest
    packed = Packed(
        results=[],
        rejects=rejects,
        renamed=committed.renamed,
        resumed=len(survey.slices),
        rows=committed.added,
    )
    return _result(job, survey, packed, manifest, committed.pin, time.monotonic() - started)


def _planned(slices: Sequence[Slice]) -> PlannedSplit:
    counts = [part.samples for part in slices]
    known = [count for count in counts if count is not None]
    return PlannedSplit(
        samples=sum(known) if len(known) == len(counts) else None,
        bytes=sum(part.bytes for part in slices),
        tasks=len(slices),
    )


def _result(job: PackJob, survey: Survey, packed: Packed, manifest: Manifest, pin: str, seconds: float) -> PackResult:
    splits, classes = manifest.splits, survey.classes
    report = os.path.join(job.dataset, REPORTS, f"{pin}.rejects.jsonl") if packed.rejects else None
    return PackResult(
        pin=pin,
        dataset=job.dataset,
        source_kind=str(manifest.options.get("source_kind", "")),
        samples=sum(split.rows for split in splits.values()),
        shards=sum(table.shards for split in splits.values() for table in split.tables),
        bytes=sum(split.bytes for split in splits.values()),
        seconds=seconds,
        splits={name: split.rows for name, split in splits.items()},
        classes=len(next(iter(classes.values()))) if classes else None,
        skipped=dict(survey.skipped),
        left_out=survey.left_out,
        warnings=survey.warnings,
        skipped_names=dict(survey.skipped_names),
        rejects=packed.rejects,
        rejects_report=report,
        added=packed.rows,
        resumed=packed.resumed,
        renamed=packed.renamed,
        options=job_options(job),
    )
