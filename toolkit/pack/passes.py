"""Pack all slices: in one pass, or in a first one to a stage and a second one from there."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from toolkit.errors import RejectsError, SourceError
from toolkit.format.commit import Transaction
from toolkit.pack.conflicts import KeyConflicts
from toolkit.pack.derive import AsTheyAre
from toolkit.pack.executor import run_in_order
from toolkit.pack.job import KeyConflict, PackJob
from toolkit.pack.journal import Journal, SliceResult
from toolkit.pack.prepare import Prepared
from toolkit.pack.report import rejects_jsonl, rejects_text
from toolkit.pack.shuffled import ShuffledRows
from toolkit.pack.slices import SlicePacker
from toolkit.pack.stage import Publisher, Stage
from toolkit.sources.base import Slice, Survey
from toolkit.sources.reject import Reject

__all__ = ["PackInterrupted", "Packed", "Progress", "pack_all"]

_FAILED_REPORT = "failed.rejects.jsonl"

# Called as (samples done, samples in all or None, bytes done, bytes in all).
Progress = Callable[[int, int | None, int, int], None]


class PackInterrupted(KeyboardInterrupt):
    """Ctrl-C while slices were packed: `kept` of `slices` are finished, and the same pack goes on behind them."""

    def __init__(self, kept: int, slices: int) -> None:
        super().__init__()
        self.kept = kept
        self.slices = slices


@dataclass(frozen=True, kw_only=True)
class Packed:
    """What all slices came to, in order, in the dataset's folder; `resumed` of them were finished by a stopped pack."""

    results: list[SliceResult]
    rejects: list[Reject]
    renamed: int
    resumed: int
    rows: int


def pack_all(
    job: PackJob, prepared: Prepared, transaction: Transaction, journal: Journal, progress: Progress
) -> Packed:
    """Pack every slice that isn't finished; return what they came to.

    Raises:
        RejectsError: More rejects than allowed.
        SourceError: Keys occur twice, or nothing is left to pack.
        StorageError: The disk is full or fails.
    """
    survey = prepared.survey
    finished = journal.begin(prepared.asked)
    first = None
    try:
        stage = Stage(transaction.store) if prepared.two_passes else None
        first = journal if stage is None else stage.journal
        packer = SlicePacker(
            prepared.rows, prepared.schema, stage or transaction, first, job.shard_size, prepared.finisher
        )
        # A pack's slices are many: an index has few, since shards of references are small.
        packer.reads_ahead = job.in_place is not None and job.jobs > 1 and len(survey.slices) < 2 * job.jobs
        results, resumed = _pack_slices(job, packer, survey, first.finished() if stage else finished, progress)
    except BaseException as error:
        kept = len(first.finished()) if first is not None else 0
        journal.discard_if_empty()
        if isinstance(error, KeyboardInterrupt):
            raise PackInterrupted(kept, len(survey.slices)) from error
        raise
    rejects = [*survey.rejects, *(reject for result in results for reject in result.rejects)]
    if not any(result.rows for result in results):
        journal.discard()
    _check_rejects(job, results, rejects, transaction)
    if not any(result.rows for result in results):
        if not rejects:
            raise SourceError(f"{job.source!r} holds no samples")
        raise SourceError(f"{job.source!r}: not one sample is left to pack:{rejects_text(rejects)}")
    try:
        results = _with_unique_keys(job, prepared, packer, results, first, progress)
    except SourceError:
        if job.key_conflict is KeyConflict.ERROR:
            journal.refuse_input()
        raise
    renamed = sum(result.renamed for result in results)
    if stage is not None:
        second, survey = _second_pass(job, prepared, results, stage, transaction, journal)
        results, again = _pack_slices(job, second, survey, finished, progress)
        resumed += again
    return Packed(
        results=results, rejects=rejects, renamed=renamed, resumed=resumed, rows=sum(one.rows for one in results)
    )


def _check_rejects(job: PackJob, results: list[SliceResult], rejects: list[Reject], transaction: Transaction) -> None:
    allowed = job.allowed_rejects(sum(result.rows for result in results) + len(rejects))
    if len(rejects) <= allowed:
        return
    noun = "sample" if len(rejects) == 1 else "samples"
    if transaction.store.local_path("") is None:
        raise RejectsError(
            f"{len(rejects)} {noun} rejected, {allowed} allowed:{rejects_text(rejects)}\n"
            f"Mend them, or leave them out with max_rejects={len(rejects)}"
        )
    report = transaction.write_report(_FAILED_REPORT, rejects_jsonl(rejects, job))
    raise RejectsError(
        f"{len(rejects)} {noun} rejected, {allowed} allowed; nothing was committed:{rejects_text(rejects)}\n"
        f"All of them: {report}. Mend them, or allow them with --max-rejects {len(rejects)}: what is packed already "
        "isn't read again"
    )


def _with_unique_keys(
    job: PackJob,
    prepared: Prepared,
    packer: SlicePacker,
    results: list[SliceResult],
    journal: Journal,
    progress: Progress,
) -> list[SliceResult]:
    """Refuse keys that occur twice; or pack the slices that have them once more, with new keys."""
    existing = None
    if prepared.base is not None:
        assert journal.folder is not None  # what is appended to lies on a disk
        existing = os.path.join(journal.folder, "existing.hashes")
        prepared.base.write_key_hashes(existing)
    conflicts = KeyConflicts(results, journal, existing)
    if job.key_conflict is KeyConflict.ERROR:
        conflicts.refuse()
        return results
    packer.renames = conflicts.renames()
    finished = {(one.split, one.number): one for one in results}
    return _pack_slices(job, packer, prepared.survey, finished, progress)[0]


def _second_pass(
    job: PackJob,
    prepared: Prepared,
    results: list[SliceResult],
    stage: Stage,
    transaction: Transaction,
    journal: Journal,
) -> tuple[SlicePacker | Publisher, Survey]:
    """Return what brings the staged rows to the dataset, and the survey that has its slices."""
    if job.shuffle_seed is None or prepared.survey.shuffled:
        return Publisher(results, stage, transaction, journal), prepared.survey
    refers = job.in_place is not None
    rows = ShuffledRows(
        prepared.survey, results, stage, seed=job.shuffle_seed, slice_bytes=job.shard_size, refers=refers
    )
    # Not shaped again: what is staged is as it is stored.
    finisher = AsTheyAre() if refers else prepared.deriver
    packer = SlicePacker(rows, prepared.schema, transaction, journal, job.shard_size, finisher)
    return packer, rows.survey


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
