"""Pack a source into a dataset: survey it, pack its slices, commit; or plan it only."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

import msgspec

from toolkit.errors import NotFoundError, RejectsError, SourceError, UsageError
from toolkit.format.commit import Transaction
from toolkit.format.manifest import LabelCounts, Manifest, Split, TableRef
from toolkit.format.schema import FORMAT_VERSION, Column, Kind, arrow_schema
from toolkit.format.tables import encode_label_table, encode_schema_table, encode_shard_table, sha256
from toolkit.pack.append import Base
from toolkit.pack.conflicts import KeyConflicts
from toolkit.pack.executor import run_in_order
from toolkit.pack.job import KeyConflict, OnExisting, PackJob, PackPlan, PackResult, PlannedSplit
from toolkit.pack.journal import Journal, SliceResult
from toolkit.pack.report import provenance, rejects_jsonl, rejects_text
from toolkit.pack.shuffled import ShuffledSource
from toolkit.pack.slices import SlicePacker
from toolkit.pack.stage import Publisher, Stage
from toolkit.sources.base import Slice, Source, Survey
from toolkit.sources.detect import make_source
from toolkit.sources.scan import printable

__all__ = ["pack", "plan"]

_FAILED_REPORT = "failed.rejects.jsonl"
_APPENDED_TO = "appended to"

# Called as (samples done, samples in all or None, bytes done, bytes in all).
Progress = Callable[[int, int | None, int, int], None]


def plan(job: PackJob) -> PackPlan:
    """Return what `job` would do. Writes nothing; reads no more than the source must to know its columns and slices."""
    kind, source = make_source(job.source_kind, job.source_options)
    survey = source.survey()
    return PackPlan(
        source_kind=kind.value,
        splits={name: _planned([part for part in survey.slices if part.split == name]) for name in survey.splits},
        columns={column.name: column.kind.value for column in survey.columns},
        classes=next(iter(survey.classes.values()), None),
        skipped=dict(survey.skipped),
        rejects=list(survey.rejects),
    )


def pack(job: PackJob, progress: Progress = lambda *_: None) -> PackResult:
    """Carry out `job`; return what was packed.

    A kill at any instant leaves the dataset as it was, or the new version; the same pack again goes on where it was.

    Raises:
        SourceError, NotFoundError, UsageError, ExistsError: The job can't be done; nothing was written.
        RejectsError: More rejects than allowed; nothing was committed.
        StorageError: The disk is full or fails; nothing was committed.
    """
    started = time.monotonic()
    _check_places(job)
    with Transaction(job.dataset, replace=job.on_existing is not OnExisting.REFUSE) as transaction:
        journal = Journal(job.dataset)
        base = _base(job, journal)
        source, survey = _surveyed(job, base)
        columns = _with_label_tables(survey)
        schema = arrow_schema(columns, survey.types, survey.classes)
        finished = _begin(job, survey, journal, base)
        try:
            stage = Stage(job.dataset) if _takes_two_passes(job, survey) else None
            first = journal if stage is None else stage.journal
            packer = SlicePacker(source, survey, schema, stage or transaction, first, job.shard_bytes)
            found = finished if stage is None else first.finished()
            results, resumed = _pack_slices(job, packer, survey, found, progress)
        except BaseException:
            journal.discard_if_empty()
            raise
        rejects = [*survey.rejects, *(reject for result in results for reject in result.rejects)]
        rows = sum(result.rows for result in results)
        allowed = job.allowed_rejects(rows + len(rejects))
        if len(rejects) > allowed:
            report = transaction.write_report(_FAILED_REPORT, rejects_jsonl(rejects))
            number = "1 sample" if len(rejects) == 1 else f"{len(rejects)} samples"
            raise RejectsError(
                f"{number} rejected, {allowed} allowed; nothing was committed:{rejects_text(rejects)}\n"
                f"All of them: {report}. Mend them, or allow them with --max-rejects {len(rejects)}: what is packed "
                "already isn't read again"
            )
        if not rows:
            journal.discard()
            raise SourceError(f"{job.source!r}: not one sample is left to pack:{rejects_text(rejects)}")
        results = _with_unique_keys(job, packer, survey, results, first, base, progress)
        renamed = sum(result.renamed for result in results)
        if stage is not None:
            second: SlicePacker | Publisher
            if job.shuffle_seed is None or survey.shuffled:
                second = Publisher(results, stage, transaction, journal)
            else:
                source = ShuffledSource(survey, results, stage, seed=job.shuffle_seed, slice_bytes=job.shard_bytes)
                survey = source.survey()
                second = SlicePacker(source, survey, schema, transaction, journal, job.shard_bytes)
            results, again = _pack_slices(job, second, survey, finished, progress)
            resumed += again
        splits = _splits(survey, results, transaction)
        manifest = Manifest(
            format=FORMAT_VERSION,
            requires=(),
            columns=columns,
            schema=transaction.add_table(encode_schema_table(schema)),
            splits=splits if base is None else base.joined_splits(splits),
            options=_shaping_options(job, survey),
            parent=None if base is None else base.pin,
            user={**({} if base is None else base.manifest.user), **job.user},
        )
        for names in survey.classes.values():
            transaction.add_table(encode_label_table(names))
        reports = {
            "rejects.jsonl": rejects_jsonl(rejects),
            "provenance.json": provenance(job, survey, time.monotonic() - started, renamed=renamed),
        }
        pin = transaction.commit(manifest, reports)
        journal.discard()
    return PackResult(
        pin=pin,
        dataset=job.dataset,
        samples=sum(split.rows for split in manifest.splits.values()),
        shards=sum(table.shards for split in manifest.splits.values() for table in split.tables),
        bytes=sum(split.bytes for split in manifest.splits.values()),
        seconds=time.monotonic() - started,
        splits={name: split.rows for name, split in manifest.splits.items()},
        classes=len(next(iter(survey.classes.values()))) if survey.classes else None,
        skipped=dict(survey.skipped),
        rejects=rejects,
        added=rows,
        resumed=resumed,
        renamed=renamed,
    )


def _check_places(job: PackJob) -> None:
    if not job.dataset:
        raise UsageError("'' is not a path; give the folder for the dataset")
    source, dataset = os.path.realpath(job.source), os.path.realpath(job.dataset)
    if os.path.commonpath([source, dataset]) == source:
        raise UsageError(f"the dataset {job.dataset!r} lies inside its source {job.source!r}: put it elsewhere")


def _planned(slices: list[Slice]) -> PlannedSplit:
    counts = [part.samples for part in slices]
    known = [count for count in counts if count is not None]
    return PlannedSplit(
        samples=sum(known) if len(known) == len(counts) else None,
        bytes=sum(part.bytes for part in slices),
        tasks=len(slices),
    )


def _with_label_tables(survey: Survey) -> tuple[Column, ...]:
    return tuple(
        msgspec.structs.replace(column, label_table=sha256(encode_label_table(survey.classes[column.name])))
        if column.kind is Kind.LABEL
        else column
        for column in survey.columns
    )


def _base(job: PackJob, journal: Journal) -> Base | None:
    """Return the version to append to, if this pack is an append."""
    if job.on_existing is not OnExisting.RESUME:
        return Base(job.dataset) if job.on_existing is OnExisting.APPEND else None
    unfinished = journal.job()
    if unfinished is None:
        raise NotFoundError(
            f"{job.dataset!r} has no unfinished pack to resume: without --on-existing resume a pack goes on with one "
            "that is there, and begins one where there is none"
        )
    # An append that was killed between its commit and the end of its journal is no longer on top of its base.
    pin = unfinished.get(_APPENDED_TO)
    return None if pin is None else Base(f"{job.dataset}@sha256:{pin}")


def _surveyed(job: PackJob, base: Base | None) -> tuple[Source, Survey]:
    """Survey the source; for an append with the class names of the dataset, so that no id moves."""
    options = job.source_options
    _, source = make_source(job.source_kind, options)
    survey = source.survey()
    if base is not None:
        base.check_columns(survey)
        joined = base.joined_classes(survey, extend=job.extend_classes)
        if joined != survey.classes:
            _, source = make_source(job.source_kind, replace(options, classes=next(iter(joined.values()))))
            survey = source.survey()
    return source, survey


def _begin(job: PackJob, survey: Survey, journal: Journal, base: Base | None) -> dict[tuple[str, int], SliceResult]:
    """Open the journal; return what a killed pack with the same options had finished."""
    asked = {
        **_shaping_options(job, survey),
        "source": printable(os.path.realpath(job.source)),
        _APPENDED_TO: None if base is None else base.pin,
    }
    if job.on_existing is OnExisting.OVERWRITE and not journal.is_of(asked):
        journal.discard()
    return journal.begin(asked)


def _takes_two_passes(job: PackJob, survey: Survey) -> bool:
    return job.key_conflict is KeyConflict.SUFFIX or (job.shuffle_seed is not None and not survey.shuffled)


def _with_unique_keys(
    job: PackJob,
    packer: SlicePacker,
    survey: Survey,
    results: list[SliceResult],
    journal: Journal,
    base: Base | None,
    progress: Progress,
) -> list[SliceResult]:
    """Refuse keys that occur twice; or pack the slices that have them once more, with new keys."""
    existing = None
    if base is not None:
        existing = journal.path("existing.hashes")
        base.write_key_hashes(existing)
    conflicts = KeyConflicts(results, journal, existing)
    if job.key_conflict is KeyConflict.ERROR:
        conflicts.refuse()
        return results
    packer.renames = conflicts.renames()
    return _pack_slices(job, packer, survey, {(one.split, one.number): one for one in results}, progress)[0]


def _pack_slices(
    job: PackJob,
    packer: SlicePacker | Publisher,
    survey: Survey,
    finished: Mapping[tuple[str, int], SliceResult],
    progress: Progress,
) -> tuple[list[SliceResult], int]:
    """Pack every slice that isn't finished, as it is listed now; return all results in order, and how many were."""
    lock = threading.Lock()
    counts = [part.samples for part in survey.slices]
    samples = None if None in counts else sum(count or 0 for count in counts)
    total_bytes = sum(part.bytes for part in survey.slices)
    done = [0, 0, 0]

    def on_read(rows: int, nbytes: int) -> None:
        with lock:
            done[0] += rows
            done[1] += nbytes
            progress(done[0], samples, done[1], total_bytes)

    def run(part: Slice) -> SliceResult:
        known = finished.get((part.split, part.number))
        if known is None or not packer.is_done(part, known):
            return packer.pack(part)
        with lock:
            done[2] += 1
        on_read(known.rows + len(known.rejects), part.bytes)
        return known

    packer.on_read = on_read
    return list(run_in_order(run, survey.slices, job.jobs, packer.cancelled)), done[2]


def _splits(survey: Survey, results: list[SliceResult], transaction: Transaction) -> dict[str, Split]:
    """Write each split's shard table and add up what is in it."""
    splits = {}
    for name in survey.splits:
        mine = [result for result in results if result.split == name]
        records = [record for result in mine for record in result.records]
        rows = sum(record.rows for record in records)
        table = transaction.add_table(encode_shard_table(records))
        labels = {}
        for column, names in survey.classes.items():
            counter: Counter[int | None] = Counter()
            for result in mine:
                counter.update(dict(result.labels[column]))
            counts = tuple(counter[i] for i in range(len(names)))
            labels[column] = LabelCounts(counts=counts, missing=counter[None])
        splits[name] = Split(
            rows=rows,
            bytes=sum(record.file_bytes for record in records),
            labels=labels,
            tables=(TableRef(sha256=table, shards=len(records), rows=rows),),
        )
    return splits


def _shaping_options(job: PackJob, survey: Survey) -> dict[str, object]:
    """Return the options that shape samples and shards; where things lie and how many worked on it do not."""
    options = {**survey.options, "shard_bytes": job.shard_bytes}
    if job.shuffle_seed is not None:
        options["shuffle_seed"] = job.shuffle_seed
    if job.key_conflict is not KeyConflict.ERROR:
        options["key_conflict"] = job.key_conflict.value
    return options
