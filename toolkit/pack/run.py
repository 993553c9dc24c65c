"""Pack a source into a dataset: scan, cut into tasks, run them, commit; or plan it only."""

from __future__ import annotations

import json
import os
import platform
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import UTC, datetime

import msgspec
import pyarrow as pa

from toolkit import __version__
from toolkit.errors import RejectsError, SourceError, UsageError
from toolkit.format.commit import Transaction
from toolkit.format.manifest import LabelCounts, Manifest, Split, TableRef
from toolkit.format.schema import FORMAT_VERSION, Column, arrow_schema, image_column, label_column
from toolkit.format.shard import ShardRecord
from toolkit.format.tables import encode_label_table, encode_shard_table, sha256
from toolkit.pack.executor import run_in_order
from toolkit.pack.job import OnExisting, PackJob, PackPlan, PackResult, PlannedSplit
from toolkit.pack.task import Task, TaskResult, cut_tasks, run_task, shard_name
from toolkit.sources.imagefolder import ImageFolderOptions, Scan, scan_imagefolder
from toolkit.sources.reject import Reject

__all__ = ["pack", "plan"]

_SHOWN_REJECTS = 5
_FAILED_REPORT = "failed.rejects.jsonl"

# Called as (samples done, samples in all, bytes done, bytes in all).
Progress = Callable[[int, int, int, int], None]


def plan(job: PackJob) -> PackPlan:
    """Return what `job` would do. Reads folders, no image, and writes nothing."""
    scan = _scan(job)
    tasks = Counter(task.split for task in cut_tasks(scan.splits, job.shard_bytes))
    return PackPlan(
        splits={
            name: PlannedSplit(samples=len(entries), bytes=sum(e.bytes for e in entries), tasks=tasks[name])
            for name, entries in scan.splits.items()
        },
        columns={column.name: column.kind.value for column in _columns(scan)},
        classes=scan.classes,
        skipped=_skipped(scan),
        rejects=scan.rejects,
    )


def pack(job: PackJob, progress: Progress = lambda *_: None) -> PackResult:
    """Carry out `job`; return what was packed.

    A kill at any instant leaves the dataset as it was, or the new version.

    Raises:
        SourceError, NotFoundError, UsageError, ExistsError: The job can't be done; nothing was written.
        RejectsError: More rejects than allowed; nothing was committed.
        StorageError: The disk is full or fails; nothing was committed.
    """
    started = time.monotonic()
    _check_places(job)
    scan = _scan(job)
    columns = _columns(scan)
    schema = arrow_schema(columns, {"label": scan.classes} if scan.classes is not None else {})
    with Transaction(job.dataset, overwrite=job.on_existing is OnExisting.OVERWRITE) as transaction:
        results, rejects = _run_tasks(job, scan, schema, transaction, progress)
        if len(rejects) > job.max_rejects:
            report = transaction.write_report(_FAILED_REPORT, _jsonl(rejects))
            raise RejectsError(
                f"{len(rejects)} samples rejected, {job.max_rejects} allowed; nothing was committed:"
                f"{_rejects_text(rejects)}\nAll of them: {report}. "
                f"Mend them, or allow them with --max-rejects {len(rejects)}"
            )
        if not any(result.record for result in results):
            raise SourceError(f"{job.source!r}: not one sample is left to pack:{_rejects_text(rejects)}")
        splits = _publish(scan, results, transaction)
        if scan.classes is not None:
            transaction.add_table(encode_label_table(scan.classes))
        manifest = Manifest(
            format=FORMAT_VERSION,
            requires=(),
            columns=columns,
            splits=splits,
            options=_shaping_options(job),
            parent=None,
            user={},
        )
        reports = {"rejects.jsonl": _jsonl(rejects), "provenance.json": _provenance(job, scan, started)}
        pin = transaction.commit(manifest, reports)
    return PackResult(
        pin=pin,
        dataset=job.dataset,
        samples=sum(split.rows for split in splits.values()),
        shards=sum(table.shards for split in splits.values() for table in split.tables),
        bytes=sum(split.bytes for split in splits.values()),
        seconds=time.monotonic() - started,
        splits={name: split.rows for name, split in splits.items()},
        classes=None if scan.classes is None else len(scan.classes),
        skipped=_skipped(scan),
        rejects=rejects,
    )


def _check_places(job: PackJob) -> None:
    if not job.dataset:
        raise UsageError("'' is not a path; give the folder for the dataset")
    source, dataset = os.path.realpath(job.source), os.path.realpath(job.dataset)
    if os.path.commonpath([source, dataset]) == source:
        raise UsageError(f"the dataset {job.dataset!r} lies inside its source {job.source!r}: put it elsewhere")


def _scan(job: PackJob) -> Scan:
    return scan_imagefolder(
        job.source,
        ImageFolderOptions(
            label_mode=job.label_mode,
            require_labels=job.require_labels,
            classes=job.classes,
            split=job.split,
            limit=job.limit,
        ),
    )


def _columns(scan: Scan) -> tuple[Column, ...]:
    if scan.classes is None:
        return (image_column("image"),)
    return image_column("image"), label_column("label", sha256(encode_label_table(scan.classes)))


def _run_tasks(
    job: PackJob, scan: Scan, schema: pa.Schema, transaction: Transaction, progress: Progress
) -> tuple[list[TaskResult], list[Reject]]:
    cancelled = threading.Event()
    lock = threading.Lock()
    done = [0, 0]
    samples = sum(len(entries) for entries in scan.splits.values())
    total_bytes = sum(entry.bytes for entries in scan.splits.values() for entry in entries)

    def on_sample(nbytes: int) -> None:
        with lock:
            done[0] += 1
            done[1] += nbytes
            progress(done[0], samples, done[1], total_bytes)

    def run(task: Task) -> TaskResult:
        temporary = transaction.shard_temporary(f"{task.split}-{task.number:06d}")
        return run_task(task, schema, temporary, cancelled, on_sample)

    results = list(run_in_order(run, cut_tasks(scan.splits, job.shard_bytes), job.jobs, cancelled))
    return results, [*scan.rejects, *(reject for result in results for reject in result.rejects)]


def _publish(scan: Scan, results: list[TaskResult], transaction: Transaction) -> dict[str, Split]:
    """Give the shards their names and write each split's shard table."""
    splits = {}
    for name in scan.splits:
        records: list[ShardRecord] = []
        labels: Counter[int | None] = Counter()
        for result in results:
            if result.task.split == name and result.record is not None:
                path = transaction.publish_shard(result.temporary, shard_name(result.task, result.record))
                records.append(replace(result.record, path=path))
                labels.update(result.labels)
        rows = sum(record.rows for record in records)
        table = transaction.add_table(encode_shard_table(records))
        counts = {}
        if scan.classes is not None:
            counts["label"] = LabelCounts(
                counts=tuple(labels[i] for i in range(len(scan.classes))), missing=labels[None]
            )
        splits[name] = Split(
            rows=rows,
            bytes=sum(record.file_bytes for record in records),
            labels=counts,
            tables=(TableRef(sha256=table, shards=len(records), rows=rows),),
        )
    return splits


def _shaping_options(job: PackJob) -> dict[str, object]:
    """Return the options that shape samples and shards; where things lie and how many worked on it do not."""
    return {
        "classes_given": job.classes is not None,
        "label_mode": job.label_mode.value,
        "limit": job.limit,
        "shard_bytes": job.shard_bytes,
        "source_kind": "imagefolder",
        "split": job.split,
    }


def _skipped(scan: Scan) -> dict[str, int]:
    return {
        "hidden": scan.skipped_hidden,
        "loops": scan.skipped_loops,
        "not_images": scan.skipped_not_images,
    }


def _jsonl(rejects: list[Reject]) -> bytes:
    return "".join(json.dumps(asdict(reject), ensure_ascii=False) + "\n" for reject in rejects).encode()


def _rejects_text(rejects: list[Reject]) -> str:
    """Return the first rejects, a line each, and how many more there are."""
    shown = "".join(f"\n  {reject.key}: {reject.reason}" for reject in rejects[:_SHOWN_REJECTS])
    return shown + (f"\n  … and {len(rejects) - _SHOWN_REJECTS} more" if len(rejects) > _SHOWN_REJECTS else "")


def _provenance(job: PackJob, scan: Scan, started: float) -> bytes:
    facts = {
        "toolkit": __version__,
        "python": platform.python_version(),
        "pyarrow": pa.__version__,
        "platform": platform.platform(),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(time.monotonic() - started, 3),
        "source": os.path.abspath(job.source),
        "jobs": job.jobs,
        "skipped": _skipped(scan),
    }
    return msgspec.json.format(msgspec.json.encode(facts), indent=1) + b"\n"
