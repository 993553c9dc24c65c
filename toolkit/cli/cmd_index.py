"""`toolkit index`: files that stay where they are become a pinned dataset."""

from __future__ import annotations

from typing import Annotated

import typer

from toolkit.cli.cmd_pack import PackCommand
from toolkit.cli.config_options import ConfigOption, SetOption
from toolkit.cli.flags import flag, with_options
from toolkit.cli.jobs import give_up, run_job, show_plan
from toolkit.cli.options import DebugOption, JsonOption, ProgressOption, QuietOption
from toolkit.errors import UsageError
from toolkit.options.option import flag_of
from toolkit.pack.index.job import PACK_ONLY, IndexJob
from toolkit.pack.make import job_of
from toolkit.sources.registry import every

__all__ = ["IndexCommand", "index"]


class IndexCommand(PackCommand):
    """With words for flags that only a pack has."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Read the arguments. Raises UsageError for a flag that only a pack has."""
        own = args[: args.index("--")] if "--" in args else args
        given = {arg.partition("=")[0] for arg in own if arg.startswith("--")}
        for name in sorted(PACK_ONLY):
            if flag_of(name) in given:
                raise UsageError(f"{flag_of(name)} means nothing for values that stay where they are: pack them")
        return super().parse_args(ctx, args)


def _source_text() -> str:
    """Return what SOURCE may be: inputs of every kind whose values can stay where they are."""
    *titles, last = (spec.title for spec in every() if spec.in_place)
    text = f"{', '.join(titles)} or {last}" if titles else last
    return f"{text[0].upper()}{text[1:]}: files, folders, patterns or {{000..099}} lists."


@with_options(IndexJob.declared(), before="config")
def index(
    context: typer.Context,
    source: Annotated[str, typer.Argument(metavar="SOURCE...", help=_source_text(), show_default=False)],
    dataset: Annotated[
        str | None, typer.Argument(metavar="DATASET", help="Folder to make.", show_default=False)
    ] = None,
    # A shell expands train-*.tar: with more than two paths the last is DATASET, and all others are SOURCE.
    further: Annotated[list[str] | None, typer.Argument(metavar=" ", hidden=True)] = None,
    config: ConfigOption = None,
    settings: SetOption = None,
    dry_run: Annotated[bool, flag("--dry-run", "Say what would be indexed; write nothing.")] = False,
    abort: Annotated[
        bool,
        flag("--abort", "Give up the unfinished index of DATASET, whichever it is; versions stay. Needs no SOURCE."),
    ] = False,
    json: JsonOption = False,
    progress: ProgressOption = None,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Make DATASET of SOURCE without a copy: images stay in their files, and are checked when they are read.

    Keys, labels, order and digests are those of a pack. The last line on stdout is for programs: samples=600 shards=2
    bytes=170276 seconds=0.37 pin=<sha256>.
    """
    paths = [source, *([] if dataset is None else [dataset]), *(further or [])]
    if abort:
        give_up(paths[-1], json=json, quiet=quiet)
        return
    if dataset is None:
        raise UsageError("Missing argument 'DATASET'. See `toolkit index --help`.")
    job = job_of(IndexJob, paths, context.params)
    if dry_run:
        show_plan(job, "index", json=json, quiet=quiet)
        return
    from toolkit.pack.index.run import indexing

    run_job(indexing, job, "index", json=json, progress=progress, quiet=quiet)
