"""Pack a source into a dataset: survey it, pack its slices, commit; or plan it only."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

import msgspec

from toolkit.errors import RejectsError, SourceError, UsageError
from toolkit.format.commit import Transaction
from toolkit.format.manifest import LabelCounts, Manifest, Split, TableRef
from toolkit.format.schema import FORMAT_VERSION, Column, Kind, arrow_schema
from toolkit.format.tables import encode_label_table, encode_schema_table, encode_shard_table, sha256
from toolkit.pack.append import Base
from toolkit.pack.duplicates import check_keys
from toolkit.pack.executor import run_in_order
from toolkit.pack.job import OnExisting, PackJob, PackPlan, PackResult, PlannedSplit
from toolkit.pack.journal import Journal, SliceResult
from toolkit.pack.report import provenance, rejects_jsonl, rejects_text
from toolkit.pack.slices import SlicePacker
from toolkit.sources.base import Slice, Source, Survey
from toolkit.sources.detect import make_source
from toolkit.sources.scan import printable

__all__ = ["pack", "plan"]

_FAILED_REPORT = "failed.rejects.jsonl"

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
    with Transaction(job.dataset, replace=job.on_existing is not OnExisting.REFUSE) as transaction:
        base = Base(job.dataset) if job.on_existing is OnExisting.APPEND else None
        source, survey = _surveyed(job, base, source)
        columns = _with_label_tables(survey)
        schema = arrow_schema(columns, survey.types, survey.classes)
        journal = Journal(job.dataset)
        packer = SlicePacker(source, survey, schema, transaction, journal, job.shard_bytes)
        finished = _begin(job, survey, journal, base)
        try:
            results, resumed = _pack_slices(job, packer, survey, finished, progress)
        except BaseException:
            journal.discard_if_empty()
            raise
        rejects = [*survey.rejects, *(reject for result in results for reject in result.rejects)]
        rows = sum(result.rows for result in results)
        allowed = job.allowed_rejects(rows + len(rejects))
        if len(rejects) > allowed:
            report = transaction.write_report(_FAILED_REPORT, rejects_jsonl(rejects))
            raise RejectsError(
                f"{len(rejects)} samples rejected, {allowed} allowed; nothing was committed:{rejects_text(rejects)}\n"
                f"All of them: {report}. Mend them, or allow them with --max-rejects {len(rejects)}"
            )
        if not rows:
            journal.discard()
            raise SourceError(f"{job.source!r}: not one sample is left to pack:{rejects_text(rejects)}")
        check_keys(results, journal, transaction.root, None if base is None else base.key_hashes())
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
        for table in (*map(encode_label_table, survey.classes.values()), *survey.tables):
            transaction.add_table(table)
        reports = {
            "rejects.jsonl": rejects_jsonl(rejects),
            "provenance.json": provenance(job, survey, time.monotonic() - started),
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
    )


def _check_places(job: PackJob) -> None:
    if not job.dataset:
        raise UsageError("'' is not a path; give the folder for the dataset")
    dataset = os.path.realpath(job.dataset)
    for given in (job.source, *job.more_sources):
        source = os.path.realpath(given)
        if os.path.commonpath([source, dataset]) == source:
            raise UsageError(f"the dataset {job.dataset!r} lies inside its source {given!r}: put it elsewhere")


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


def _surveyed(job: PackJob, base: Base | None, given: Source | None) -> tuple[Source, Survey]:
    """Survey the source; for an append with the class names of the dataset, so that no id moves."""
    options = job.source_options
    source = make_source(job.source_kind, options)[1] if given is None else given
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
        "source": [printable(os.path.realpath(one)) for one in (job.source, *job.more_sources)],
        "appended to": None if base is None else base.pin,
    }
    if job.on_existing is OnExisting.OVERWRITE and not journal.is_of(asked):
        journal.discard()
    return journal.begin(asked)


def _pack_slices(
    job: PackJob,
    packer: SlicePacker,
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
        if known is None or known.fingerprint != packer.fingerprint(part):
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
    return {**survey.options, "shard_bytes": job.shard_bytes}
