"""Pack what a program has at hand: an iterable of records, a DataFrame, an Arrow table, a dataset of a framework."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import replace
from typing import Any, cast

import pyarrow as pa

from toolkit.errors import SourceError, UsageError
from toolkit.format.kinds import Kind
from toolkit.options.option import options_of, take
from toolkit.options.value_type import expected
from toolkit.pack.job import PackJob, PackResult
from toolkit.pack.make import make_job, paths_of
from toolkit.pack.passes import Progress
from toolkit.pack.run import pack as run
from toolkit.pack.writer.declared import Declaration, check_names, declare, declare_by, written_as
from toolkit.pack.writer.frames import FrameSource, arrow_of
from toolkit.pack.writer.streams import Stream, stream_of
from toolkit.pack.writer.writer import Writer, names_of_classes
from toolkit.sources.fields import Field, choose_fields
from toolkit.sources.options import InputOptions
from toolkit.sources.splits import check_name
from toolkit.storage.store import WritableStore

__all__ = ["is_path", "pack_object"]

_OF_RECORDS = frozenset({"split", "limit", "shuffle_seed", "classes", "map", "columns", "rename", "kind", "key"})
_OF_RECORDS |= {"max_value_bytes", "missing", "verify_images"}
_OF_TABLES = _OF_RECORDS | {"label_mode", "require_labels", "follow_links", "image_column", "root"}
_LABEL = "label"  # a field of text that is called so holds classes, in tables too


def is_path(source: object) -> bool:
    """Tell whether what is to be packed is a path or a list of paths."""
    if isinstance(source, str | os.PathLike | set | frozenset | bytes):
        return True
    if isinstance(source, list | tuple):
        return not source or isinstance(source[0], str | os.PathLike)
    return not isinstance(source, Iterable | Mapping) and not hasattr(source, "__getitem__")


def pack_object(
    source: Any,
    dataset: str | os.PathLike[str],
    given: Mapping[str, object],
    progress: Progress | None,
    store: WritableStore | None = None,
) -> PackResult:
    """Pack an object that holds samples; `given` are the keywords of toolkit.pack().

    `store` is where to write when that is no folder.

    Raises:
        UsageError: It can't be packed, or an option means nothing for it.
        SourceError: A record is none.
    """
    parts = _by_split(source) if isinstance(source, Mapping) else {None: source}
    classes = given["classes"]
    defaults = {name: one.default for name, one in options_of(PackJob).items()}
    plain = {name: value for name, value in given.items() if value is not None and value != defaults[name]}
    tables = {split: arrow_of(one) for split, one in parts.items()}
    frames = {split: table for split, table in tables.items() if table is not None}
    if frames:
        if len(frames) < len(parts):
            raise UsageError("some splits are tables and some are none: give all of one form")
        _refuse(plain, _OF_TABLES, "a table in memory")
        job = make_job(paths_of("<frame>", dataset), take(options_of(PackJob), given))
        _check_split(job, parts)
        return run(job, progress or (lambda *_: None), FrameSource(job.source_options, frames), store)
    streams = {split: stream_of(one) for split, one in parts.items()}
    _refuse(plain, _OF_RECORDS, "records")
    job = make_job(paths_of("<records>", dataset), take(options_of(PackJob), {**given, "classes": None}))
    _check_split(job, parts)
    return _Records(streams, job, store).pack(classes, progress or (lambda *_: None))


def _by_split(source: Mapping[Any, Any]) -> dict[str | None, Any]:
    if not source:
        raise UsageError("source is an empty mapping: give split -> what is packed into it")
    parts: dict[str | None, Any] = {}
    for split, one in source.items():
        if not isinstance(split, str) and type(split).__name__ != "NamedSplit":  # of datasets
            raise UsageError(f"source is a mapping: {expected('names of splits as text', split).message}")
        check_name(str(split))
        parts[str(split)] = one
    return parts


def _refuse(given: Mapping[str, object], accepted: Set[str], what: str) -> None:
    for name in (*options_of(InputOptions), "source_kind"):
        if name in given and name not in accepted:
            raise UsageError(f"{name} means nothing for {what}: leave it out")


def _check_split(job: PackJob, parts: Mapping[Any, object]) -> None:
    if job.split is not None:
        check_name(job.split)
        if None not in parts:
            raise UsageError("the mapping says which splits there are: leave split out")


class _Records:
    """Streams of records, by split."""

    def __init__(self, streams: Mapping[str | None, Stream], job: PackJob, store: WritableStore | None) -> None:
        self._streams = streams
        self._store = store
        self._job = job
        self._first = next(iter(streams.values()))

    def pack(self, classes: Any, progress: Progress) -> PackResult:
        """Add the records that aren't safe yet, and commit."""
        records = self._records(0)
        try:
            split, first = next(records)
        except StopIteration:
            raise SourceError("source has no records: there is nothing to pack") from None
        columns, fields = self._columns(first, classes is not None)
        names = self._classes(classes, columns, fields)
        with Writer(self._writer_job(), columns, names, progress, store=self._store) as w:
            for of, record in self._behind(w.done, split, first, records):
                values = {column: record[field] for column, field in fields.items() if field in record}
                if not self._chooses:
                    values |= {name: one for name, one in record.items() if name not in self._known}
                key = None
                if self._job.key is not None:
                    key = record.get(self._job.key)
                    key = "" if key is None else key
                w.add(values, key=key, split=of)
        result = cast(PackResult, w.result)  # the block has ended well
        return replace(result, warnings=(*result.warnings, *self._doubts(fields)))

    def _doubts(self, fields: Mapping[str, str]) -> Iterator[str]:
        """Yield what the user should know before trusting columns, each made of a field."""
        for column, field in fields.items():
            if field in self._first.nameless:
                yield (
                    f"column {column!r} has lists of ids, and the names of their classes were left out: to keep them, "
                    "write the dataset with its to_parquet(), and pack that"
                )

    @property
    def _chooses(self) -> bool:
        return self._job.columns is not None or self._job.map is not None

    def _writer_job(self) -> PackJob:
        # What chooses fields is done here.
        return replace(self._job, columns=None, map=None, rename={}, kind={}, key=None, limit=None)

    def _behind(
        self, done: int, split: str | None, first: dict[str, Any], rest: Iterator[tuple[str | None, dict[str, Any]]]
    ) -> Iterator[tuple[str | None, dict[str, Any]]]:
        """Yield all records, of which the first one is read, but for those that are done."""
        if done and len(self._streams) == 1 and self._first.jumps:
            return self._records(done)
        return itertools.islice(itertools.chain([(split, first)], rest), done, None)

    def _records(self, start: int) -> Iterator[tuple[str | None, dict[str, Any]]]:
        """Yield split and record, from record `start` of each stream on."""
        limit = self._job.limit
        for split, stream in self._streams.items():
            records = stream.records(start)
            for number, record in enumerate(records, start):
                if limit is not None and number >= limit:
                    break
                yield split, self._as_dict(record, number, stream)

    def _as_dict(self, record: Any, number: int, stream: Stream) -> dict[str, Any]:
        as_dict = getattr(record, "_asdict", None)  # of a named tuple
        record = record if as_dict is None else as_dict()
        if isinstance(record, Mapping):
            values = dict(record)
        elif isinstance(record, tuple):
            names = self._job.columns or stream.names
            if not names:
                raise UsageError("records are tuples: say what is in them, as in columns=['image', 'label']")
            if len(names) != len(record):
                raise SourceError(
                    f"record {number} has {len(record)} values, and there are {len(names)} columns: {', '.join(names)}"
                )
            values = dict(zip(names, record, strict=True))
        else:
            raise SourceError(
                f"record {number} is of type {type(record).__name__}: records are dicts of column -> value, or tuples"
            )
        for name in stream.classes:
            if stream.no_label is not None and values.get(name) == stream.no_label:
                values[name] = None
        return values

    def _columns(self, first: Mapping[str, Any], has_classes: bool) -> tuple[dict[str, Declaration], dict[str, str]]:
        """Return what is declared of each column, and column -> field."""
        job, known = self._job, self._first.fields
        self._known = {*first, *known}
        names = list(known) or list(first)
        odd = [name for name in names if not isinstance(name, str)]
        if odd:
            raise SourceError(f"record 0 has a value called {odd[0]!r}: columns are called by text")
        check_names(dict.fromkeys(name for name in names if name != job.key))
        fields = {name: Field(pa.null(), Kind.VALUE) for name in names}
        chosen = {one.column: one.field for one in choose_fields(fields, job.source_options)}
        columns: dict[str, Declaration] = {}
        for column, field in chosen.items():
            value = first.get(field)
            asked = job.kind.get(column)
            if asked is Kind.SCALAR:
                columns[column] = written_as(declare_by(column, value, "scalar"))
            elif asked is not None:
                columns[column] = asked
            elif field in known:
                columns[column] = known[field]
            elif column == _LABEL and (isinstance(value, str) or has_classes or field in self._first.classes):
                columns[column] = "label"
            else:
                columns[column] = written_as(declare_by(column, value))
            declare(column, columns[column])
        return columns, chosen

    def _classes(
        self, given: Any, columns: Mapping[str, Declaration], fields: Mapping[str, str]
    ) -> dict[str, tuple[str, ...]]:
        if given is not None:
            return names_of_classes(given)
        labels = [column for column, one in columns.items() if one in ("label", Kind.LABEL)]
        known = self._first.classes
        for stream in self._streams.values():
            if stream.classes != known:
                raise SourceError("the splits have different class names: say which by classes=")
        return {column: known[fields[column]] for column in labels if fields[column] in known}
