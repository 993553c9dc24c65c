"""`toolkit pack`: files that people have become a pinned dataset."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Collection, Iterator
from dataclasses import asdict, replace
from typing import Annotated

import typer
from typer.core import TyperCommand

from toolkit.cli.config_options import ConfigOption, SetOption
from toolkit.cli.flags import flag, gathered, with_options
from toolkit.cli.options import DebugOption, JsonOption, ProgressOption, QuietOption
from toolkit.cli.output import Interrupted, note, print_document, print_line, print_views, warn
from toolkit.cli.progress import shown_progress
from toolkit.errors import RejectsError, UsageError
from toolkit.options.option import options_of
from toolkit.pack.identity import job_options
from toolkit.pack.job import OnExisting, PackJob, PackResult
from toolkit.pack.make import make_job
from toolkit.report.text import count
from toolkit.sources.registry import every
from toolkit.sources.splits import DEFAULT_SPLIT, SPLIT_NAMES

__all__ = ["PackCommand", "pack"]

_STANDARD_INPUT = "-"


class PackCommand(TyperCommand):
    """The command without hidden arguments in its usage line, and with several patterns behind one --pair."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Read the arguments: what has {} behind --pair is no path, but a pattern."""
        return super().parse_args(ctx, gathered(args, "--pair", lambda text: "{}" in text))

    def collect_usage_pieces(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """Return the words of the usage line."""
        shown = [param for param in self.get_params(ctx) if not getattr(param, "hidden", False)]
        return ["[OPTIONS]", *(piece for param in shown for piece in param.get_usage_pieces(ctx))]


def _source_text() -> str:
    """Return what SOURCE may be: inputs of every kind that is known."""
    *titles, last = (spec.title for spec in every())
    text = f"{', '.join(titles)} or {last}: files, folders, patterns or {{000..099}} lists; - is standard input."
    return text[0].upper() + text[1:]


@with_options(options_of(PackJob), before="config")
def pack(
    context: typer.Context,
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE...",
            help=_source_text(),
            show_default=False,
        ),
    ],
    dataset: Annotated[
        str | None, typer.Argument(metavar="DATASET", help="Folder to make.", show_default=False)
    ] = None,
    # A shell expands corpus/*.jsonl: with more than two paths the last is DATASET, and all others are SOURCE.
    further: Annotated[list[str] | None, typer.Argument(metavar=" ", hidden=True)] = None,
    config: ConfigOption = None,
    settings: SetOption = None,
    dry_run: Annotated[bool, flag("--dry-run", "Say what would be packed; write nothing.")] = False,
    abort: Annotated[
        bool,
        flag("--abort", "Give up the unfinished pack of DATASET, whichever it is; versions stay. Needs no SOURCE."),
    ] = False,
    json: JsonOption = False,
    progress: ProgressOption = None,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Pack SOURCE into DATASET.

    The last line on stdout is for programs: samples=600 shards=2 bytes=21087276 seconds=0.37 pin=<sha256>.
    """
    paths = [source, *([] if dataset is None else [dataset]), *(further or [])]
    if abort:
        _abort(paths[-1], json=json, quiet=quiet)
        return
    if dataset is None:
        raise UsageError("Missing argument 'DATASET'. See `toolkit pack --help`.")
    with _spooled(make_job(paths, context.params)) as job:
        if dry_run:
            _plan(job, json=json, quiet=quiet)
        else:
            _pack(job, json=json, progress=progress, quiet=quiet)


@contextlib.contextmanager
def _spooled(job: PackJob) -> Iterator[PackJob]:
    """Put standard input into a file where SOURCE is "-": a pack reads it twice, and some kinds from the end."""
    if _STANDARD_INPUT not in job.sources:
        yield job
        return
    if job.more_sources:
        raise UsageError("standard input (-) is the one SOURCE where it is any: pack others with --on-existing append")
    if sys.stdin.isatty():
        raise UsageError("SOURCE is -, and nothing is piped into standard input: pipe a file into it, or name one")
    if job.image_column is not None and job.root is None:
        raise UsageError("a table from standard input lies in no folder: say with --root what its paths are below")
    from toolkit.storage.scratch import spooled

    with spooled(sys.stdin.buffer, "stdin") as path:
        yield replace(job, spool=path)


def _pack(job: PackJob, *, json: bool, progress: bool | None, quiet: bool) -> None:
    from toolkit.pack.passes import PackInterrupted
    from toolkit.pack.run import packing

    before = _current_pin(job.dataset)
    try:
        with contextlib.ExitStack() as stack:
            with shown_progress("packing", "bytes", progress, quiet=quiet) as update:
                bar = lambda samples, all_samples, nbytes, all_bytes: update(nbytes, all_bytes)  # noqa: E731
                result = stack.enter_context(packing(job, bar))
            _report(job, result, json=json, quiet=quiet)
            sys.stdout.flush()  # or the pin may be lost after all, when what stands for it is gone
    except KeyboardInterrupt as error:
        if _current_pin(job.dataset) != before:
            raise Interrupted("interrupted, after the dataset was committed") from error
        kept = ""
        if isinstance(error, PackInterrupted):
            goes_on = "goes on where it was" if error.kept else "begins anew"
            kept = f"; kept: {error.kept} of {count(error.slices, 'shard')}. The same command {goes_on}"
        raise Interrupted(f"interrupted; nothing was committed{kept}") from error


def _report(job: PackJob, result: PackResult, *, json: bool, quiet: bool) -> None:
    from toolkit.report.pack_view import pack_views

    for text in result.warnings:
        warn(text)
    if not quiet:
        _note_split(job, result.splits)
    if json:
        print_document("toolkit.pack/1", result)
        return
    if not quiet:
        print_views(pack_views(result, job))
    print_line(
        f"samples={result.samples} shards={result.shards} bytes={result.bytes} "
        f"seconds={result.seconds:.2f} pin={result.pin}"
    )


def _abort(dataset: str, *, json: bool, quiet: bool) -> None:
    from toolkit.pack.abort import abort

    done = abort(dataset)
    if json:
        print_document("toolkit.pack-abort/1", done)
        return
    if done.pin is not None and done.shards and not quiet:
        note(f"its {count(done.shards, 'finished shard')} stay until toolkit gc --delete removes what no version names")
    print_line(f"aborted=true shards={done.shards} pin={done.pin or 'none'}")


def _plan(job: PackJob, *, json: bool, quiet: bool) -> None:
    from toolkit.pack.run import plan
    from toolkit.report.pack_view import plan_views

    planned = plan(job)
    exists = _current_pin(job.dataset) is not None
    for text in planned.warnings:
        warn(text)
    if not quiet:
        _note_split(job, planned.splits)
        if exists and job.on_existing is OnExisting.REFUSE:
            note(f"{job.dataset!r} already holds a dataset: packing would need --on-existing overwrite")
    splits = planned.splits.values()
    counts = [split.samples for split in splits]
    samples = None if None in counts else sum(number or 0 for number in counts)
    if json:
        document = {**asdict(planned), "dataset": job.dataset, "dataset_exists": exists, "options": job_options(job)}
        print_document("toolkit.pack-plan/1", document)
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
