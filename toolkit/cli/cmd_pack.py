"""`toolkit pack`: files that people have become a pinned dataset."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated

import typer
from typer.core import TyperCommand

from toolkit.cli.config_options import ConfigOption, SetOption
from toolkit.cli.flags import flag, gathered, with_options
from toolkit.cli.jobs import give_up, run_job, show_plan
from toolkit.cli.options import DebugOption, JsonOption, ProgressOption, QuietOption
from toolkit.errors import UsageError
from toolkit.options.option import options_of
from toolkit.pack.job import PackJob
from toolkit.pack.make import make_job
from toolkit.sources.registry import every

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
        give_up(paths[-1], json=json, quiet=quiet)
        return
    if dataset is None:
        raise UsageError("Missing argument 'DATASET'. See `toolkit pack --help`.")
    with _spooled(make_job(paths, context.params)) as job:
        if dry_run:
            show_plan(job, "pack", json=json, quiet=quiet)
            return
        from toolkit.pack.run import packing

        run_job(packing, job, "pack", json=json, progress=progress, quiet=quiet)


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
