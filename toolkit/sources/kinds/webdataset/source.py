"""WebDataset tars as a source: consecutive members with the same key are a sample, each extension a column."""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

import pyarrow as pa

from toolkit.errors import SourceError
from toolkit.format.arrays import to_array
from toolkit.format.media import stored_medium
from toolkit.format.schema import Kind
from toolkit.sources.base import (
    PIECE_BYTES,
    ROW_OVERHEAD_BYTES,
    Rows,
    Slice,
    Source,
    Survey,
    rows_schema,
    too_large,
)
from toolkit.sources.contents import UnfitError
from toolkit.sources.fields import Chosen, make_column
from toolkit.sources.files import InputFile, ends_with, find_files, group_by_split
from toolkit.sources.kinds.webdataset.doubts import TarDoubts
from toolkit.sources.kinds.webdataset.looks import Looks
from toolkit.sources.kinds.webdataset.parts import (
    GZIP_SUFFIX,
    check_labels,
    choose_parts,
    converter,
    doubled_media,
    is_gzip,
    read_parts,
    safe_key,
    skip_reason,
    split_name,
    unpacked,
    unsafe,
)
from toolkit.sources.kinds.webdataset.tar import SUFFIXES, Member, Tar, TarFile, looks_like_tar, open_tar
from toolkit.sources.names import printable
from toolkit.sources.options import Missing, SourceOptions
from toolkit.sources.payloads import payload_column
from toolkit.sources.reject import Reject
from toolkit.sources.skips import FILE_REASONS, Skips
from toolkit.sources.state import changed

__all__ = ["WebDatasetSource"]

_READ_BYTES = 4 * 1024 * 1024
_SURVEY_READ_BYTES = 16 * 1024
_MOST_KEYS = 1_000_000  # of a tar that are remembered, to tell whether the members of a sample lie apart

_SKIPPED = ("folders", "links", "meta", "missing", "no_extension", "other_types", "sparse", *FILE_REASONS)


@dataclass(frozen=True, slots=True)
class _Part:
    """What a slice is: `samples` of a tar from offset `start` up to `end`, and the extensions of each column."""

    tar: TarFile
    start: int
    end: int | None
    samples: int
    columns: tuple[tuple[str, ...], ...]


@dataclass(slots=True)
class _Span:
    """A slice to be, while the columns aren't known: how many samples have which extensions."""

    split: str
    tar: TarFile
    start: int
    end: int | None = None
    samples: int = 0
    read_bytes: int = 0
    row_bytes: int = 0
    extensions: Counter[tuple[str, ...]] = field(default_factory=Counter)


@dataclass(slots=True)
class _Sample:
    """A sample that is being gathered. `fault` is why it is unusable; `parts` are its members by extension."""

    key: str
    start: int
    parts: dict[str, tuple[Member, memoryview | None]] = field(default_factory=dict)
    fault: str | None = None


class WebDatasetSource(Source):
    """Tars of samples, plain or compressed."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def survey(self) -> Survey:
        """Read the headers of all tars, and where names say nothing first bytes; compressed ones are read whole."""
        options = self._options
        skips = Skips(_SKIPPED)
        files = find_files(options, ends_with(SUFFIXES), looks_like_tar, skips)
        groups = group_by_split(files, options.split)
        looks = Looks(options.kind.keys())
        doubts = TarDoubts()
        spans = [span for split, group in groups.items() for span in self._scan(split, group, skips, looks, doubts)]
        met = Counter[tuple[str, ...]]()
        for span in spans:
            met.update(span.extensions)
        if not any(span.samples for span in spans):
            raise SourceError(
                f"no sample in {', '.join(map(repr, options.paths))}: "
                f"{len(files)} tars, passed over {_counts(skips)}. Samples are files called KEY.EXTENSION"
            )
        extensions = list(dict.fromkeys(extension for signature in met for extension in signature))
        seen = looks.media
        together = {kind for signature in met for kind in doubled_media(signature, seen)}
        chosen = choose_parts(extensions, together, options, seen)
        check_labels(chosen, options)
        made = [make_column(one.column, one.kind, one.type) for one in chosen]
        if options.missing is Missing.SKIP:
            skips.count("missing", sum(met[signature] for signature in met if not _is_whole(signature, chosen)))
        return Survey(
            columns=tuple(column for column, _ in made),
            types={column.name: dtype for column, dtype in made},
            classes={one.column: options.classes or () for one in chosen if one.kind is Kind.LABEL},
            splits=tuple(groups),
            slices=tuple(self._slices(spans, chosen)),
            skipped=skips.counts,
            skipped_names=skips.names,
            options={
                "classes_given": options.classes is not None,
                "columns": None if options.columns is None else list(options.columns),
                "exclude": [printable(pattern) for pattern in options.exclude],
                "include": [printable(pattern) for pattern in options.include],
                "kinds": {name: kind.value for name, kind in options.kind.items()},
                "limit": options.limit,
                "mapping": None if options.map is None else dict(options.map),
                "missing": options.missing.value,
                "rename": dict(options.rename),
                "split": options.split,
            },
            warnings=doubts.said(),
        )

    def read(self, survey: Survey, part: Slice) -> Iterator[Rows]:
        """Read the slice's part of its tar."""
        payload = cast(_Part, part.payload)
        rows = _RowsBuilder(survey, payload, self._options)
        wanted = frozenset(extension for column in payload.columns for extension in column)
        samples = 0
        with open_tar(payload.tar.path, chunk_bytes=_READ_BYTES, start=payload.start, known=payload.tar) as tar:
            for sample, end in _gather(tar, payload.end, wanted, most=self._options.max_value_bytes):
                samples += 1
                if rows.is_full(end - sample.start):
                    yield rows.take(tar.consumed)
                rows.add(sample, end - sample.start)
            if samples != payload.samples:
                raise changed(payload.tar.path)
            yield rows.take(tar.consumed)

    def place(self, part: Slice, key: str) -> str:
        """Return the path of the slice's tar."""
        return printable(os.path.abspath(cast(_Part, part.payload).tar.path))

    def _scan(
        self, split: str, files: Sequence[InputFile], skips: Skips, looks: Looks, doubts: TarDoubts
    ) -> Iterator[_Span]:
        """Yield the spans of a split's tars, up to the limit."""
        left = self._options.limit
        for file in files:
            if left == 0:
                return
            with open_tar(file.path, chunk_bytes=_SURVEY_READ_BYTES) as tar:
                empty = True
                for span in self._scan_tar(split, tar, left, skips, looks):
                    yield span
                    empty = False
                    left = None if left is None else left - span.samples
                doubts.look(tar)
                if empty:
                    skips.add("empty", file.name)

    def _scan_tar(self, split: str, tar: Tar, limit: int | None, skips: Skips, looks: Looks) -> Iterator[_Span]:
        """Cut one tar where the parts that can be wanted fill a slice; a compressed one isn't cut."""
        asked = [*(self._options.map or {}).values(), *(self._options.columns or ())]
        wanted = {extension for name in asked for extension in read_parts(name)} or None
        span = _Span(split, tar.file, 0)
        seen: dict[str, tuple[int, tuple[str, ...]]] = {}
        for taken, (sample, end) in enumerate(_gather(tar, None, frozenset(), skips, looks)):
            if taken == limit:
                span.end = sample.start
                break
            _check_together(tar, sample, seen)
            size = 2 * len(sample.key) + ROW_OVERHEAD_BYTES
            size += sum(part.size for name, (part, _) in sample.parts.items() if wanted is None or name in wanted)
            if span.samples and not tar.file.compression and span.row_bytes + size > self._options.slice_bytes:
                span.end = sample.start
                yield span
                span = _Span(split, tar.file, sample.start)
            span.samples += 1
            span.row_bytes += size
            span.read_bytes = end - span.start
            if sample.fault is None:
                span.extensions[tuple(sample.parts)] += 1
        if tar.file.compression:
            span.read_bytes = tar.consumed
        if span.samples:
            yield span

    def _slices(self, spans: Iterable[_Span], chosen: Sequence[Chosen]) -> Iterator[Slice]:
        columns = tuple(read_parts(one.field) for one in chosen)
        numbers = Counter[str]()
        for span in spans:
            samples = span.samples
            if self._options.missing is Missing.SKIP:
                samples -= sum(count for met, count in span.extensions.items() if not _is_whole(met, chosen))
            payload = _Part(span.tar, span.start, span.end, span.samples, columns)
            name = printable(os.path.basename(span.tar.path))
            yield Slice(span.split, numbers[span.split], samples, span.read_bytes, payload, name)
            numbers[span.split] += 1


def _check_together(tar: Tar, sample: _Sample, seen: dict[str, tuple[int, tuple[str, ...]]]) -> None:
    """Raise SourceError when other parts of the sample came earlier in the tar; take note of it in `seen`."""
    parts = tuple(sample.parts)
    start, earlier = seen.get(sample.key, (0, parts))
    if parts and earlier and set(earlier).isdisjoint(parts):
        raise SourceError(
            f"{printable(tar.file.path)!r}: the members of the sample {printable(sample.key)!r} lie apart: "
            f"{_extensions(earlier)} at byte {start}, {_extensions(parts)} at byte {sample.start}. A WebDataset has "
            "them next to each other: make the tar again in the order of names (tar --sort=name), or leave it out with "
            "--exclude"
        )
    if len(seen) < _MOST_KEYS:
        seen.setdefault(sample.key, (sample.start, parts))


def _extensions(parts: Iterable[str]) -> str:
    return ", ".join(printable(part) if part else "no extension" for part in parts)


def _counts(skips: Skips) -> str:
    return ", ".join(f"{number} {name}" for name, number in skips.counts.items() if number) or "nothing"


def _is_whole(extensions: Iterable[str], chosen: Iterable[Chosen]) -> bool:
    met = frozenset(extensions)
    return all(not met.isdisjoint(read_parts(one.field)) for one in chosen)


def _gather(
    tar: Tar,
    end: int | None,
    wanted: frozenset[str],
    skips: Skips | None = None,
    looks: Looks | None = None,
    *,
    most: int = 0,
) -> Iterator[tuple[_Sample, int]]:
    """Yield the samples of a tar up to offset `end`, each with the offset where its last member ends.

    Args:
        tar: The tar, at the first header of a sample.
        end: Where to stop; None for the end of the archive.
        wanted: Extensions of the parts to read.
        most: Bytes of a part; a larger one is not read.
        skips: Where to note members that belong to no sample.
        looks: What looks at members whose names say nothing; then none are read.
    """
    skips = Skips() if skips is None else skips
    name = os.path.basename(tar.file.path)
    sample: _Sample | None = None
    stop = 0
    for member in tar.members(end):
        reason = skip_reason(member)
        if reason is not None:
            skips.add(reason, f"{name}:{member.name}")
            continue
        key, extension = split_name(member.name)
        if sample is None or key != sample.key:
            if sample is not None:
                yield sample, stop
            sample = _Sample(key, member.start)
        stop = member.data + member.size
        sample.fault = sample.fault or unsafe(member.name)
        if extension in sample.parts:
            sample.fault = sample.fault or f"two of its members have the extension {extension}"
        elif sample.fault is None:
            read = extension in wanted and member.size <= most
            sample.parts[extension] = (member, tar.read(member) if read else None)
            if looks is not None:
                looks.look(member, extension, functools.partial(tar.peek, member))
    if sample is not None:
        yield sample, stop


class _RowsBuilder:
    """Turns samples into pieces of rows. Borrows the chunks of the tar that its pending values lie in."""

    def __init__(self, survey: Survey, part: _Part, options: SourceOptions) -> None:
        self._schema = rows_schema(survey)
        self._tar = part.tar
        self._missing = options.missing
        self._most = options.max_value_bytes
        verify = options.verify_images
        self._columns = [
            (column.name, column.kind, extensions, converter(column.kind, survey.classes.get(column.name), verify))
            for column, extensions in zip(survey.columns, part.columns, strict=True)
        ]
        self._told = 0 if part.tar.compression else part.start  # up to where reading was reported
        self._begin()

    def is_full(self, nbytes: int) -> bool:
        """Tell whether a sample that spans `nbytes` of the tar belongs to the next piece."""
        return self._span > 0 and self._span + nbytes > PIECE_BYTES

    def add(self, sample: _Sample, nbytes: int) -> None:
        """Add a sample, or the reject it is."""
        self._span += nbytes
        reason = sample.fault
        if reason is None:
            lacking = [parts for _, _, parts, _ in self._columns if sample.parts.keys().isdisjoint(parts)]
            if lacking and self._missing is Missing.SKIP:
                return
            if lacking and self._missing is Missing.ERROR:
                reason = f"lacks the part {' or '.join(lacking[0])}; has {', '.join(sample.parts)}"
            else:
                reason = self._convert(sample)
        if reason is not None:
            place = f"{os.path.abspath(self._tar.path)}, sample at byte {sample.start}"
            self._rejects.append(Reject(printable(place), safe_key(sample.key), printable(reason)))

    def take(self, consumed: int) -> Rows:
        """Return the rows and rejects since the last call."""
        arrays = [to_array(self._keys, pa.string())]
        for name, kind, _, _ in self._columns:
            values, medium = self._values[name], stored_medium(kind)
            if medium is not None:
                payloads, paths = to_array(values, pa.binary()), to_array(self._paths[name], pa.string())
                arrays.append(payload_column(medium.source_form, payloads, paths))
            else:
                arrays.append(to_array(values, self._schema.field(name).type))
        rows = Rows(
            pa.RecordBatch.from_arrays(arrays, schema=self._schema), tuple(self._rejects), consumed - self._told
        )
        self._told = consumed
        self._begin()
        return rows

    def _begin(self) -> None:
        self._span = 0
        self._keys: list[str] = []
        self._values: dict[str, list[object]] = {name: [] for name, _, _, _ in self._columns}
        self._paths: dict[str, list[str | None]] = {name: [] for name, _, _, _ in self._columns}
        self._rejects: list[Reject] = []

    def _convert(self, sample: _Sample) -> str | None:
        """Append the sample's values; return why it has none instead."""
        found: list[tuple[object, str | None]] = []
        for _, _, extensions, convert in self._columns:
            extension = next((one for one in extensions if one in sample.parts), None)
            if extension is None:
                found.append((None, None))
                continue
            member, data = sample.parts[extension]
            name = member.name.rpartition("/")[2]
            if data is None:
                return f"{extension}: {too_large(member.size, self._most)}"
            try:
                if is_gzip(extension):
                    data, name = unpacked(data, self._most), name[: -len(GZIP_SUFFIX)]
                    self._span += len(data)
                found.append((convert(data), name))
            except UnfitError as fault:
                return f"{extension}: {fault}"
        self._keys.append(sample.key)
        for (name, _, _, _), (value, path) in zip(self._columns, found, strict=True):
            self._values[name].append(value)
            self._paths[name].append(path)
        return None
