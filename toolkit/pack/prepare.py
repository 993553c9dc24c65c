"""Find what a pack has to know before its first slice: the survey, the schema, and what is there to append to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec
import pyarrow as pa

from toolkit.errors import NotFoundError, UsageError
from toolkit.format.contract import columns_fault, schema_fault
from toolkit.format.references import REFERENCES, ROOT_NAMES, UNHASHED, UNSEEN
from toolkit.format.schema import Column, Derived, arrow_schema, derived_of
from toolkit.format.tables import encode_label_table, sha256
from toolkit.pack.append import Base
from toolkit.pack.committed import Committed
from toolkit.pack.derive import Deriver, Finisher
from toolkit.pack.identity import journal_options
from toolkit.pack.in_place.indexer import Indexer
from toolkit.pack.in_place.locate import Roots
from toolkit.pack.in_place.roots import joined_roots, root_names, roots_of
from toolkit.pack.in_place.trust import Trust
from toolkit.pack.job import KeyConflict, OnExisting, PackJob
from toolkit.pack.journal import Journal
from toolkit.pack.shape import Shaper
from toolkit.pack.slices import SliceRows
from toolkit.pack.versions import versions
from toolkit.sources.base import Source, Survey
from toolkit.sources.make import make_source
from toolkit.sources.names import printable
from toolkit.sources.options import VerifyImages
from toolkit.storage.places import real_path

__all__ = [
    "Prepared",
    "base_of",
    "check_base",
    "make_rows",
    "make_shaper",
    "prepare",
    "shaping_options",
    "with_label_tables",
]

_APPENDED_TO = "appended to"


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """What is known before the first slice is packed.

    Attributes:
        base: The version that is appended to, if any.
        rows: The rows to pack, as they come from the source, shaped.
        columns: The columns with their label tables.
        derived: The columns that are derived of them.
        schema: The shards' schema.
        options: The options that shape samples and shards, for the manifest.
        asked: What the journal knows the pack by.
        two_passes: All samples must be known before a shard has its place.
        requires: The features that a reader must know.
        roots: Where the roots of references lie, by name; None where there are no references.
    """

    base: Base | None
    rows: SliceRows
    columns: tuple[Column, ...]
    derived: tuple[Derived, ...]
    schema: pa.Schema
    options: dict[str, object]
    asked: dict[str, object]
    two_passes: bool
    requires: tuple[str, ...] = ()
    roots: Mapping[str, str] | None = None

    @property
    def deriver(self) -> Deriver:
        """What makes the derived columns."""
        return Deriver(self.columns, self.derived)

    @property
    def finisher(self) -> Finisher:
        """What makes the rows what their shards hold."""
        return self.rows if isinstance(self.rows, Indexer) else self.deriver

    @property
    def survey(self) -> Survey:
        """What there is to pack."""
        return self.rows.survey


def prepare(
    job: PackJob, journal: Journal, committed: Committed | None = None, source: Source | None = None
) -> Prepared:
    """Survey `source`, or the one that the job names, and what is there to append to.

    `committed` is what a pack came to that may have been this one, stopped behind its commit.

    Raises:
        NotFoundError: There is no unfinished pack, and the job is to resume one.
        SourceError, UsageError: The input can't be packed.
    """
    base = base_of(job, journal, committed)
    requires = _required(job.in_place)
    if base is not None:
        base.check_requires(requires)
    roots = None if job.in_place is None else roots_of(_folders(job), base)
    kind, rows = _surveyed(job, base, source, roots)
    survey = rows.survey
    columns = with_label_tables(survey)
    derived = derived_of(columns)
    schema = _schema(columns, survey, derived, hashed=UNHASHED not in requires)
    fault = columns_fault(columns, derived, requires) or schema_fault(schema, columns, derived, requires)
    if fault is not None:
        raise UsageError(f"these columns can't be packed: {fault}")
    if base is not None:
        base.check_schema(schema)
    options = shaping_options(job, survey, kind)
    if roots is not None:
        options[ROOT_NAMES] = root_names(base, roots)
    before = {} if base is None else base.manifest.options
    off = VerifyImages.OFF.value
    if job.in_place is Trust.STAT and off in (job.verify_images.value, before.get(UNSEEN)):
        options[UNSEEN] = off  # whoever reads values first asks no more of them
    return Prepared(
        base=base,
        rows=rows,
        columns=columns,
        derived=derived,
        schema=schema,
        options=options,
        asked={
            **journal_options(job, options),
            "source": [printable(real_path(one)) if source is None else one for one in job.sources],
            _APPENDED_TO: None if base is None else base.pin,
            "versions": versions(job),
        },
        two_passes=job.key_conflict is KeyConflict.SUFFIX or (job.shuffle_seed is not None and not survey.shuffled),
        requires=requires,
        roots=None if roots is None else joined_roots(base, roots),
    )


def _folders(job: PackJob) -> list[str]:
    """Return what values of an index may lie below: the inputs, and the folder that paths in them are below."""
    return [*job.sources, *([] if job.root is None else [job.root])]


def check_base(job: PackJob, journal: Journal, committed: Committed | None) -> None:
    """Raise NotFoundError when the job is to append to, or to go on with, what isn't there."""
    base_of(job, journal, committed)


def make_shaper(job: PackJob, source: Source) -> Shaper:
    """Survey a source; return its rows with their values as they are to be packed."""
    return Shaper(source, source.survey(), job.verify_images, job.image_encoding, job.short_side, job.max_pixels)


def make_rows(job: PackJob, source: Source, roots: Roots | None = None) -> Shaper | Indexer:
    """Survey a source; return its rows as they are to be packed, or of an index, whose roots these are."""
    shaper = make_shaper(job, source)
    return shaper if job.in_place is None else Indexer(shaper, job.in_place, roots or Roots(_folders(job), {}))


def base_of(job: PackJob, journal: Journal, committed: Committed | None) -> Base | None:
    """Return the version to append to; for an append that was killed behind its commit, the one that was."""
    known = None if committed is None or committed.base is None else f"{job.dataset}@sha256:{committed.base}"
    match job.on_existing:
        case OnExisting.APPEND:
            return Base(job.dataset if known is None else known)
        case OnExisting.RESUME:
            if committed is not None:
                return None if known is None else Base(known)
            unfinished = journal.job()
            if unfinished is None:
                raise NotFoundError(
                    f"{job.dataset!r} has no unfinished pack to resume: without --on-existing resume a pack goes on "
                    "with one that is there, and begins one where there is none"
                )
            pin = unfinished.get(_APPENDED_TO)
            return None if pin is None else Base(f"{job.dataset}@sha256:{pin}")
        case _:
            return None


def _required(trust: Trust | None) -> tuple[str, ...]:
    match trust:
        case None:
            return ()
        case Trust.HASH:
            return (REFERENCES,)
        case Trust.STAT:
            return (REFERENCES, UNHASHED)


def _surveyed(
    job: PackJob, base: Base | None, given: Source | None, roots: Roots | None
) -> tuple[str | None, Shaper | Indexer]:
    """Survey the source; for an append with the class names of the dataset, so that no id moves.

    Returns the kind as well, None for a source that was given.
    """
    options = job.source_options
    kind, source = None, given
    if source is None:
        kind, source = make_source(job.source_kind, options)
    rows = make_rows(job, source, roots)
    if base is not None:
        base.check_columns(rows.survey)
        joined = base.joined_classes(rows.survey, extend=job.extend_classes)
        if joined != rows.survey.classes:
            _, source = make_source(kind, replace(options, classes=next(iter(joined.values()))))
            rows = make_rows(job, source, roots)
            base.check_classes(rows.survey, joined)
    return kind, rows


def with_label_tables(survey: Survey) -> tuple[Column, ...]:
    """Return the columns with the hashes of their label tables."""
    return tuple(
        msgspec.structs.replace(column, label_table=sha256(encode_label_table(survey.classes[column.name])))
        if column.name in survey.classes
        else column
        for column in survey.columns
    )


def _schema(columns: tuple[Column, ...], survey: Survey, derived: tuple[Derived, ...], *, hashed: bool) -> pa.Schema:
    if survey.open_classes:
        columns = tuple(msgspec.structs.replace(column, label_table=None) for column in columns)
        return arrow_schema(columns, survey.types, {}, derived, hashed=hashed)
    return arrow_schema(columns, survey.types, survey.classes, derived, hashed=hashed)


def shaping_options(job: PackJob, survey: Survey, kind: str | None) -> dict[str, object]:
    """Return the options that shape samples and shards; where things lie and how many worked on it do not.

    Nor do verify_images, max_pixels and max_value_bytes: they decide what is rejected, and what is left is the same.
    """
    options = {**survey.options, "shard_bytes": job.shard_size}
    if kind is not None:
        options["source_kind"] = kind
    if job.shuffle_seed is not None:
        options["shuffle_seed"] = job.shuffle_seed
    if job.key_conflict is not KeyConflict.ERROR:
        options["key_conflict"] = job.key_conflict.value
    return options
