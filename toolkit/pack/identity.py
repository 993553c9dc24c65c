"""The options of a job by their names: as --json prints them, and those that an unfinished pack must share."""

from __future__ import annotations

from collections.abc import Mapping

from toolkit.options.option import echo, options_of
from toolkit.pack.job import PackJob
from toolkit.sources.names import printable
from toolkit.sources.options import InputOptions

__all__ = ["job_options", "journal_options", "shaping_options"]


def job_options(job: PackJob) -> dict[str, object]:
    """Return all options of a job, and its inputs, for JSON."""
    options = {name: value for name, value in echo(job).items() if name in job.declared()}
    return {"source": job.source, "more_sources": list(job.more_sources), **options}


def shaping_options() -> frozenset[str]:
    """Return the names of the options that decide what samples a pack of an input has."""
    return frozenset(
        {*options_of(InputOptions), "source_kind", "image_encoding", "short_side", "max_pixels", "key_conflict"}
    )


def journal_options(job: PackJob, found: Mapping[str, object]) -> dict[str, object]:
    """Return what a pack is known by in its journal.

    These are the options that are declared so, and of what shapes the samples as it was `found` the rest: the kind of
    source, which fields became which columns, or which id ends a text.
    """
    declared = {name: one for name, one in job.declared().items() if one.in_journal}
    words = {word for name, one in declared.items() for word in (name, one.in_manifest)}
    given = echo(job)
    return {
        **{name: value for name, value in found.items() if name not in words},
        **{name: _printable(given[name]) for name in declared},
    }


def _printable(value: object) -> object:
    """Return a JSON value whose texts can be encoded: patterns and folders may be any bytes."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list):
        return [_printable(one) for one in value]
    if isinstance(value, Mapping):
        return {str(_printable(name)): _printable(one) for name, one in value.items()}
    return value
