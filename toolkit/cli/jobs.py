"""Carry out a pack or an index for the command line: progress, interrupts, and what is said of the result."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import asdict
from typing import TypeVar

import typer

from toolkit.cli.output import Interrupted, note, print_document, print_line, print_views, warn
from toolkit.cli.progress import shown_progress
from toolkit.errors import RejectsError
from toolkit.pack.identity import job_options
from toolkit.pack.job import OnExisting, PackJob, PackResult
from toolkit.report.text import count
from toolkit.sources.splits import DEFAULT_SPLIT, SPLIT_NAMES

__all__ = ["give_up", "run_job", "show_plan"]

Job = TypeVar("Job", bound=PackJob)

# A job and what is called as it goes on -> what it came to, while it can still be said.
Run = Callable[[Job, Callable[[int, int | None, int, int], None]], AbstractContextManager[PackResult]]


def run_job(run: Run[Job], job: Job, name: str, *, json: bool, progress: bool | None, quiet: bool) -> None:
    """Carry out a job; `name` is its command's."""
    from toolkit.pack.passes import PackInterrupted

    before = _current_pin(job.dataset)
    try:
        with contextlib.ExitStack() as stack:
            with shown_progress(f"{name}ing", "bytes", progress, quiet=quiet) as update:
                bar = lambda samples, all_samples, nbytes, all_bytes: update(nbytes, all_bytes)  # noqa: E731
                result = stack.enter_context(run(job, bar))
            _report(job, result, name, json=json, quiet=quiet)
            sys.stdout.flush()  # or the pin may be lost after all, when what stands for it is gone
    except KeyboardInterrupt as error:
        if _current_pin(job.dataset) != before:
            raise Interrupted("interrupted, after the dataset was committed") from error
        kept = ""
        if isinstance(error, PackInterrupted):
            goes_on = "goes on where it was" if error.kept else "begins anew"
            kept = f"; kept: {error.kept} of {count(error.slices, 'shard')}. The same command {goes_on}"
        raise Interrupted(f"interrupted; nothing was committed{kept}") from error


def _report(job: PackJob, result: PackResult, name: str, *, json: bool, quiet: bool) -> None:
    from toolkit.report.pack_view import pack_views

    for text in result.warnings:
        warn(text)
    if not quiet:
        _note_split(job, result.splits)
    if json:
        print_document(f"toolkit.{name}/1", result)
        return
    if not quiet:
        print_views(pack_views(result, job))
    print_line(
        f"samples={result.samples} shards={result.shards} bytes={result.bytes} "
        f"seconds={result.seconds:.2f} pin={result.pin}"
    )


def give_up(dataset: str, *, json: bool, quiet: bool) -> None:
    """Give up the unfinished pack of a dataset, or its index."""
    from toolkit.pack.abort import abort

    done = abort(dataset)
    if json:
        print_document("toolkit.pack-abort/1", done)
        return
    if done.pin is not None and done.shards and not quiet:
        note(f"its {count(done.shards, 'finished shard')} stay until toolkit gc --delete removes what no version names")
    print_line(f"aborted=true shards={done.shards} pin={done.pin or 'none'}")


def show_plan(job: PackJob, name: str, *, json: bool, quiet: bool) -> None:
    """Say what a job would do; `name` is its command's."""
    from toolkit.pack.run import plan
    from toolkit.report.pack_view import plan_views

    planned = plan(job)
    exists = _current_pin(job.dataset) is not None
    for text in planned.warnings:
        warn(text)
    if not quiet:
        _note_split(job, planned.splits)
        if exists and job.on_existing is OnExisting.REFUSE:
            note(f"{job.dataset!r} already holds a dataset: {name}ing would need --on-existing overwrite")
    splits = planned.splits.values()
    counts = [split.samples for split in splits]
    samples = None if None in counts else sum(number or 0 for number in counts)
    if json:
        document = {**asdict(planned), "dataset": job.dataset, "dataset_exists": exists, "options": job_options(job)}
        print_document(f"toolkit.{name}-plan/1", document)
    else:
        if not quiet:
            print_views(plan_views(planned, job))
        print_line(
            f"dry_run=true samples={'unknown' if samples is None else samples} shards={sum(s.tasks for s in splits)} "
            f"source_bytes={sum(s.bytes for s in splits)}"
        )
    allowed = job.allowed_rejects(len(planned.rejects) + sum(number or 0 for number in counts))
    if len(planned.rejects) > allowed:
        note(f"{count(len(planned.rejects), 'sample')} would be rejected, {allowed} allowed (--max-rejects)")
        raise typer.Exit(RejectsError.exit_code)


def _current_pin(dataset: str) -> str | None:
    """Return the pin of the dataset's current version, or None where there is none that can be read as one."""
    from toolkit.format.pin import current_pin
    from toolkit.storage.local import LocalStore

    return current_pin(LocalStore(dataset))


def _note_split(job: PackJob, splits: Collection[str]) -> None:
    """Say when a folder named like a split became the split train, because its own name counts for nothing."""
    name = os.path.basename(os.path.abspath(job.source))
    if job.split is None and list(splits) == [DEFAULT_SPLIT] and name in SPLIT_NAMES and name != DEFAULT_SPLIT:
        note(f"the samples of {name!r} became the split {DEFAULT_SPLIT!r}: give --split {name} to name it so")
