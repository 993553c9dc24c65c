"""`toolkit verify`: is a dataset still what was packed?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from toolkit.cli.flags import flag, flag_for
from toolkit.cli.options import (
    DatasetArgument,
    DebugOption,
    JsonOption,
    ProgressOption,
    QuietOption,
    RootsOption,
    given_roots,
)
from toolkit.cli.output import print_document, print_views
from toolkit.cli.progress import shown_progress
from toolkit.errors import IntegrityError, SampleError, StorageError, UsageError
from toolkit.options.load import read_settings
from toolkit.options.option import options_of
from toolkit.options.values import COUNT
from toolkit.pack.identity import shaping_options
from toolkit.pack.job import PackJob
from toolkit.pipelines.image.formats import DEFAULT_MAX_PIXELS

__all__ = ["verify"]


def verify(
    dataset: DatasetArgument,
    full: Annotated[
        bool,
        flag(
            "--full/--quick",
            "Check every byte of every shard, or the tables' hashes and each shard's size and metadata.",
        ),
    ] = False,
    decode: Annotated[bool, flag("--decode", "Decode every image as well.")] = False,
    max_pixels: Annotated[int, flag_for(options_of(PackJob)["max_pixels"])] = DEFAULT_MAX_PIXELS,
    jobs: Annotated[
        int, flag("--jobs", "Shards checked at the same time; never changes the result.", COUNT, short="-j")
    ] = "auto",  # type: ignore[assignment]  # read as given text
    against: Annotated[
        list[str] | None,
        flag("--against", "Compare with this source, sample by sample; several times for several.", metavar="SOURCE"),
    ] = None,
    options: Annotated[
        list[str] | None,
        flag(
            "--set",
            "With --against: an option of the pack that the manifest doesn't have, as in tokenizer=FILE.",
            metavar="KEY=VALUE",
        ),
    ] = None,
    roots: RootsOption = None,
    json: JsonOption = False,
    progress: ProgressOption = None,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Check DATASET and name each bad shard or sample.

    Exit codes: 0 all good; 1 samples that can't be decoded; 4 bytes that aren't those that were packed, or a source
    that has other samples.
    """
    from toolkit.checks.verify import verify as run_verify
    from toolkit.report.verify_view import verify_views

    with shown_progress("verifying", "bytes", progress, quiet=quiet) as update:
        result = run_verify(
            dataset,
            full=full,
            decode=decode,
            max_pixels=max_pixels,
            jobs=jobs,
            roots=given_roots(roots),
            against=against or (),
            options=_options(options or ()),
            progress=update,
        )
    if json:
        print_document("toolkit.verify/1", {"ok": result.ok, **vars(result)})
    else:
        print_views(verify_views(result))
    if any(finding.kind in ("integrity", "source") for finding in result.findings):
        raise typer.Exit(IntegrityError.exit_code)
    if any(finding.kind == "storage" for finding in result.findings):
        raise typer.Exit(StorageError.exit_code)
    if result.findings:
        raise typer.Exit(SampleError.exit_code)


def _options(settings: Sequence[str]) -> dict[str, object]:
    """Return what --set gives."""
    known = {name: one for name, one in options_of(PackJob).items() if name in shaping_options()}
    given: dict[str, object] = {}
    for name, setting in read_settings(settings, known).items():
        try:
            value = known[name].value
            given[name] = value.plain(value.read(setting.value))
        except UsageError as error:
            raise UsageError(f"{setting.where}: {error}") from error
    return given
