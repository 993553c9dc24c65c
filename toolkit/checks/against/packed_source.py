"""The source that a dataset was packed of, surveyed and shaped as its manifest says that it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from toolkit.errors import SourceError, UsageError, did_you_mean
from toolkit.escapes import plain, short
from toolkit.format.contents import read_classes, read_schema
from toolkit.format.pin import Version, holds_dataset
from toolkit.format.references import UNHASHED, is_reference
from toolkit.format.schema import Column, Kind
from toolkit.options.option import options_of, take
from toolkit.pack.identity import shaping_options
from toolkit.pack.job import KeyConflict, PackJob
from toolkit.pack.make import make_job
from toolkit.pack.prepare import make_shaper
from toolkit.pack.shape import Shaper
from toolkit.sources.base import Source, Survey
from toolkit.sources.make import make_source
from toolkit.sources.options import PlacesWanted

__all__ = ["PackedSource", "packed_sources"]

_WORDS = {"map": "mapping", "kind": "kinds"}
"""Words of some kinds in manifests, for options of another name."""

_FIELDS = "fields"
"""Column -> field, as kinds that read tables say it, however it was asked for."""

_NOT_SHAPING = frozenset(
    {"classes_given", "shard_bytes", "key_conflict", "source_kind", "shuffle_seed", "verify_images"}
)
"""What manifests have among the options that decides nothing of a sample: its class names are given in any case."""


def packed_sources(version: Version, sources: Sequence[str], given: Mapping[str, object]) -> list[PackedSource]:
    """Survey the sources of a version: all together, or where it was appended to, each as a pack of its own.

    Raises as PackedSource().
    """
    if version.manifest.parent is None:
        return [PackedSource(version, sources, given)]
    return [PackedSource(version, [one], given) for one in sources]


class PackedSource:
    """What was packed, as it is now. Its rows come from `shaper`, those of a slice at a time, in any thread.

    Attributes:
        sources: The inputs.
        kind: What they are.
        is_hashed: Its values are read; otherwise only where they lie, and what their files are.
        renames: The pack renamed samples whose key an earlier one had.
        shaper: Gives the rows.
    """

    def __init__(self, version: Version, sources: Sequence[str], given: Mapping[str, object]) -> None:
        """Survey the source. `given`: options that the manifest doesn't have, or has otherwise.

        Raises:
            NotFoundError, SourceError, StorageError: It can't be read.
            UsageError: It can't be read as it was packed: an option is missing, or it has other columns.
        """
        self._version = version
        self._manifest = version.manifest
        self.is_hashed = UNHASHED not in version.manifest.requires
        self.sources = tuple(sources)
        for one in sources:
            if holds_dataset(one):
                raise UsageError(f"{one!r} is a dataset, and no source: give what was packed")
        asked = _taken(given)
        self._job = self._make_job(asked)
        self.kind, self.source, self.shaper = self._surveyed(self._job)
        if self._other_fields(self.shaper.survey) and not {"map", "columns", "rename"} & set(asked):
            self._job = self._make_job({**asked, "map": self._manifest.options[_FIELDS]})
            self.kind, self.source, self.shaper = self._surveyed(self._job)
        self._check_columns(self.shaper.survey)
        self._check_options(self.shaper.survey)
        self.renames = self._job.key_conflict is KeyConflict.SUFFIX

    @property
    def survey(self) -> Survey:
        """What there is."""
        return self.shaper.survey

    def _make_job(self, given: Mapping[str, Any]) -> PackJob:
        """Return a pack of the source with the options of the manifest, and those that are given."""
        options, known = options_of(PackJob), self._manifest.options
        stored = {}
        for name in sorted(shaping_options() | {"shard_size"}):
            words = (name, options[name].in_manifest, _WORDS.get(name))
            value = next((known[word] for word in words if word is not None and word in known), None)
            if value not in (None, [], {}, False):
                stored[name] = value
        tokens = any(column.kind is Kind.TOKENS for column in self._manifest.columns)
        if tokens and "tokenizer" not in given and "text_column" in stored:
            raise UsageError(
                "the dataset holds tokens, and its manifest doesn't say where their tokenizer lies: give the same with "
                "--set tokenizer=FILE, and --set eos=true where the pack had --eos"
            )
        try:
            values = take(options, stored)
        except UsageError as error:
            raise UsageError(
                f"the manifest has options that this version of toolkit doesn't take: {plain(str(error))}"
            ) from error
        return make_job([*self.sources, self._version.root], {**values, **given})

    def _surveyed(self, job: PackJob) -> tuple[str, Source, Shaper]:
        """Survey the source, with the class names of the dataset, so that its ids are the same."""
        asked = job.source_options
        if not self.is_hashed:
            asked = replace(asked, places=PlacesWanted.ONLY)
        kind, source = make_source(job.source_kind, asked)
        shaper = make_shaper(job, source)
        if shaper.survey.open_classes:
            raise UsageError(f"a source of kind {kind} tells its classes only when it is packed: it can't be compared")
        known = read_classes(self._version)
        joined = {
            column: (*known.get(column, ()), *(name for name in names if name not in known.get(column, ())))
            for column, names in shaper.survey.classes.items()
        }
        if joined != dict(shaper.survey.classes):
            options = replace(asked, classes=next(iter(joined.values())))
            kind, source = make_source(kind, options)
            shaper = make_shaper(job, source)
            if dict(shaper.survey.classes) != joined:
                raise SourceError(
                    "the classes of the source have other ids than in the dataset, and its labels can't be compared: "
                    "give the class names of the pack with --set classes=FILE"
                )
        return kind, source, shaper

    def _other_fields(self, survey: Survey) -> bool:
        said = self._manifest.options.get(_FIELDS)
        return said is not None and survey.options.get(_FIELDS, said) != said

    def _check_options(self, survey: Survey) -> None:
        """Raise UsageError where the source isn't read as it was packed: a comparison would say nothing."""
        packed, found = self._manifest.options, survey.options
        for name in sorted({*found, *(shaping_options() & set(packed))} - _NOT_SHAPING):
            said, is_now = packed.get(name) or None, found.get(name) or None
            if said != is_now:
                raise UsageError(
                    f"the dataset was packed with {name}={_text(said)}, and the source is read with {_text(is_now)}: "
                    "give the options of the pack with --set KEY=VALUE"
                )

    def _check_columns(self, survey: Survey) -> None:
        schema = read_schema(self._version)
        mine, theirs = {}, {}
        for column in self._manifest.columns:
            dtype = schema.field(column.name).type
            mine[column.name] = _facts(column, survey.types.get(column.name) if is_reference(dtype) else dtype)
        for column in survey.columns:
            theirs[column.name] = _facts(column, survey.types[column.name])
        for name in [*mine, *theirs]:
            if mine.get(name) != theirs.get(name):
                raise UsageError(
                    f"column {name!r} is {_column_text(mine.get(name))} in the dataset and "
                    f"{_column_text(theirs.get(name))} in the source: it isn't what was packed, or not read with the "
                    "options of the pack: give them with --set KEY=VALUE"
                )


def _taken(given: Mapping[str, object]) -> dict[str, Any]:
    known = shaping_options()
    for name in given:
        if name not in known:
            hint = did_you_mean(str(name), known)
            raise UsageError(f"{short(name, 40, quoted=True)} is no option of a pack that decides its samples.{hint}")
    return take(options_of(PackJob), given)


def _facts(column: Column, dtype: pa.DataType | None) -> tuple[object, ...]:
    """Return what must be the same on both sides."""
    return column.kind, column.encoding, column.tokens, dtype


def _column_text(facts: tuple[object, ...] | None) -> str:
    if facts is None:
        return "missing"
    kind, encoding, tokens, dtype = facts
    words = [getattr(kind, "value", kind), encoding, None if tokens is None else "tokens", dtype]
    return ", ".join(str(word) for word in words if word is not None)


def _text(value: object) -> str:
    return "nothing" if value is None else short(value, 80, quoted=isinstance(value, str))
