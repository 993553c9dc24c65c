"""Make a dataset in memory: of files, whose media stay where they are if they can, or of what a program has."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from toolkit.errors import SourceError, UsageError
from toolkit.memory.sizes import size_text
from toolkit.memory.system import SystemMemory
from toolkit.once.listing import LISTING, ListedSource
from toolkit.once.origin import Files, Records
from toolkit.options.option import options_of, take
from toolkit.options.values import SIZE
from toolkit.pack.in_place.trust import Trust
from toolkit.pack.index.job import IndexJob
from toolkit.pack.job import PackJob
from toolkit.pack.make import make_job
from toolkit.pack.run import pack
from toolkit.pack.writer.objects import pack_object
from toolkit.pipelines.media import held_medium
from toolkit.sources.make import make_source
from toolkit.sources.options import VerifyImages
from toolkit.sources.registry import named
from toolkit.storage.memory import MemoryFullError, MemoryStore

__all__ = ["listing_of", "memory_limit", "of_files", "of_objects"]

_MOST_BYTES = 1 << 30
_NAME = "<memory>"


def memory_limit(given: int | str | None) -> int:
    """Return how many bytes may be in memory: as given, or 1 GiB or a quarter of what is free, whichever is less."""
    if given is not None:
        fault = SIZE.fault(given)
        if fault is not None:
            raise UsageError(f"memory: {fault.message}")
        return int(SIZE.read(given))
    tightest = SystemMemory().tightest()
    return _MOST_BYTES if tightest is None else max(0, min(_MOST_BYTES, tightest.slack // 4))


def of_files(files: Files, name: str | None = None) -> MemoryStore:
    """Return a store with the one version that these files are; `name` is that of the store whose place it takes.

    Raises:
        NotFoundError, SourceError, UsageError: The files aren't there, or can't be packed.
        RejectsError: Samples can't be packed, as far as that is known without reading what stays in place.
        StorageError: They can't be read.
    """
    job, source = _listed(files)
    store = MemoryStore(files.limit, files, name)
    try:
        pack(job, source=source, store=store)
    except MemoryFullError as error:
        raise _too_much(files.limit, f"toolkit pack SOURCE DATASET, or toolkit.open({files}, pack=DATASET)") from error
    return store


def listing_of(files: Files) -> object:
    """Return the hash of the files' listing as they are now, as manifests have it. Raises as of_files()."""
    return _listed(files)[1].survey().options[LISTING]


def _listed(files: Files) -> tuple[PackJob, ListedSource]:
    """Return the job of the files, and their listing: of media that stay where they are, unread, if they can."""
    job = make_job([*files.paths, _NAME], take(options_of(PackJob), _for_kind(files)))
    kind, source = make_source(job.source_kind, job.source_options)
    if named(kind).in_place and job.tokenizer is None and job.verify_images is not VerifyImages.DECODE:
        listing = IndexJob(**{one.name: getattr(job, one.name) for one in fields(PackJob)}, trust=Trust.STAT)
        unread = make_source(kind, listing.source_options)[1]
        with contextlib.suppress(SourceError):  # a compressed tar; what is worse is found again when it is read
            survey = unread.survey()
            if any(held_medium(column.kind, survey.types[column.name]) is not None for column in survey.columns):
                # What tables name lies below the root that was given, and what links lead to may lie anywhere.
                roots = [*job.more_sources, *filter(None, (job.root, "/" if job.follow_links else None))]
                return replace(listing, more_sources=tuple(roots)), ListedSource(unread, kind, survey)
    return job, ListedSource(source, kind, source.survey())


def of_objects(source: Any, given: Mapping[str, Any], limit: int) -> MemoryStore:
    """Return a store with the one version that a program's samples are; `given` are keywords of toolkit.pack().

    Raises:
        UsageError, SourceError, RejectsError: As toolkit.pack().
    """
    store = MemoryStore(limit, Records(_what(source)))
    everything = {**{name: one.default for name, one in options_of(PackJob).items()}, **given}
    try:
        pack_object(source, _NAME, everything, None, store)
    except MemoryFullError as error:
        raise _too_much(limit, "toolkit.pack(source, DATASET)") from error
    return store


def _for_kind(files: Files) -> dict[str, Any]:
    """Return the options, `columns` only where the kind takes these names: else all are read, and some given."""
    given = dict(files.options)
    if "columns" in given:
        plain = {name: value for name, value in given.items() if name != "columns"}
        job = make_job([*files.paths, _NAME], take(options_of(PackJob), plain))
        kind, _ = make_source(job.source_kind, job.source_options)
        if "columns" not in named(kind).accepts or named(kind).renames:
            return plain
    return given


def _too_much(limit: int, instead: str) -> SourceError:
    return SourceError(
        f"what was read takes more than {size_text(limit)} of memory: pack it, by {instead}; or give more, as in "
        'memory="4GiB"'
    )


def _what(source: Any) -> str:
    kind = type(source)
    package = kind.__module__.partition(".")[0]
    name = kind.__qualname__ if package == "builtins" else f"{package}.{kind.__qualname__}"
    if isinstance(source, Mapping):
        return f"a {name} of {len(source)} splits"
    length = f" of {len(source):,}" if isinstance(source, Sequence) or hasattr(source, "__len__") else ""
    return f"a {name}{length}"
