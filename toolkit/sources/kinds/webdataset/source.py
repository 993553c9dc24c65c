"""WebDataset tars as a source: consecutive members with the same key are a sample, each extension a column."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

from toolkit.errors import SourceError
from toolkit.format.schema import Kind
from toolkit.sources.base import ROW_OVERHEAD_BYTES, Rows, Slice, Source, Survey
from toolkit.sources.fields import Chosen, make_column
from toolkit.sources.files import InputFile, ends_with, find_files, group_by_split
from toolkit.sources.in_place import check_plain
from toolkit.sources.kinds.webdataset.doubts import TarDoubts
from toolkit.sources.kinds.webdataset.looks import Looks
from toolkit.sources.kinds.webdataset.parts import check_labels, choose_parts, doubled_media, read_parts
from toolkit.sources.kinds.webdataset.rows import RowsBuilder
from toolkit.sources.kinds.webdataset.samples import check_together, gather
from toolkit.sources.kinds.webdataset.tar import SUFFIXES, Tar, TarFile, looks_like_tar, open_tar
from toolkit.sources.names import printable
from toolkit.sources.options import Missing, PlacesWanted, SourceOptions
from toolkit.sources.skips import FILE_REASONS, Skips
from toolkit.sources.state import changed

__all__ = ["WebDatasetSource"]

_READ_BYTES = 4 * 1024 * 1024
_SURVEY_READ_BYTES = 16 * 1024
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


class WebDatasetSource(Source):
    """Tars of samples, plain or compressed."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def survey(self) -> Survey:
        """Read the headers of all tars, and where names say nothing first bytes; compressed ones are read whole.

        Raises:
            SourceError: As every survey; or places are wanted, and a tar is compressed.
        """
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
        """Read the slice's part of its tar.

        Where only places are wanted, headers and the members of columns that are no media are read, and what lies in
        the same few KiB as they do.
        """
        payload = cast(_Part, part.payload)
        rows = RowsBuilder(survey, payload.tar, payload.start, payload.columns, self._options)
        chunk_bytes = _SURVEY_READ_BYTES if self._options.places is PlacesWanted.ONLY else _READ_BYTES
        samples = 0
        with open_tar(payload.tar.path, chunk_bytes=chunk_bytes, start=payload.start, known=payload.tar) as tar:
            for sample, end in gather(tar, payload.end, rows.wanted, most=self._options.max_value_bytes):
                samples += 1
                if rows.is_full(sample, end - sample.start):
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
                if self._options.places is not PlacesWanted.NONE:
                    check_plain(file.path, tar.file.compression)
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
        for taken, (sample, end) in enumerate(gather(tar, None, frozenset(), skips, looks)):
            if taken == limit:
                span.end = sample.start
                break
            check_together(tar, sample, seen)
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


def _counts(skips: Skips) -> str:
    return ", ".join(f"{number} {name}" for name, number in skips.counts.items() if number) or "nothing"


def _is_whole(extensions: Iterable[str], chosen: Iterable[Chosen]) -> bool:
    met = frozenset(extensions)
    return all(not met.isdisjoint(read_parts(one.field)) for one in chosen)
