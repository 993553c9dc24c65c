"""Make the rows of a tar's samples: the value of each column from a member's bytes, or why there is no row."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from toolkit.format.arrays import to_array
from toolkit.format.media import StoredMedium, stored_medium
from toolkit.sources.base import PIECE_BYTES, ROW_OVERHEAD_BYTES, Rows, Survey, rows_schema, too_large
from toolkit.sources.contents import UnfitError
from toolkit.sources.in_place import Span, places_in_file
from toolkit.sources.kinds.webdataset.parts import GZIP_SUFFIX, Converter, converter, is_gzip, safe_key, unpacked
from toolkit.sources.kinds.webdataset.samples import Sample
from toolkit.sources.kinds.webdataset.tar import Member, TarFile
from toolkit.sources.names import printable
from toolkit.sources.options import Missing, PlacesWanted, SourceOptions
from toolkit.sources.payloads import payload_column
from toolkit.sources.reject import Reject

__all__ = ["RowsBuilder"]


class _Maker(NamedTuple):
    """What makes a column: its name, how a medium is stored, the extensions of its parts, what makes a value of one."""

    name: str
    medium: StoredMedium | None
    extensions: tuple[str, ...]
    convert: Converter


class _Value(NamedTuple):
    """A value, the base name of its member, and where it lies in the tar."""

    value: object = None
    name: str | None = None
    span: Span | None = None


class RowsBuilder:
    """Turns samples into pieces of rows. Borrows the chunks of the tar that its pending values lie in.

    Attributes:
        wanted: Extensions of the parts whose bytes it needs.
    """

    def __init__(
        self, survey: Survey, tar: TarFile, start: int, columns: Sequence[tuple[str, ...]], options: SourceOptions
    ) -> None:
        """`start` is where reading begins; `columns` are the extensions of each of the survey's columns."""
        self._schema = rows_schema(survey)
        self._tar = tar
        self._missing = options.missing
        self._most = options.max_value_bytes
        self._in_place = options.places is not PlacesWanted.NONE
        self._reads_media = options.places is not PlacesWanted.ONLY
        self._columns = [
            _Maker(
                column.name,
                stored_medium(column.kind),
                extensions,
                converter(column.kind, survey.classes.get(column.name), options.verify_images),
            )
            for column, extensions in zip(survey.columns, columns, strict=True)
        ]
        read = [maker for maker in self._columns if self._reads_media or maker.medium is None]
        self.wanted = frozenset(extension for maker in read for extension in maker.extensions)
        self._told = 0 if tar.compression else start  # up to where reading was reported
        self._begin()

    def is_full(self, sample: Sample, nbytes: int) -> bool:
        """Tell whether a sample that spans `nbytes` of the tar belongs to the next piece."""
        return self._taken > 0 and self._taken + self._cost(sample, nbytes) > PIECE_BYTES

    def add(self, sample: Sample, nbytes: int) -> None:
        """Add a sample, or the reject it is."""
        self._taken += self._cost(sample, nbytes)
        reason = sample.fault
        if reason is None:
            lacking = [one.extensions for one in self._columns if sample.parts.keys().isdisjoint(one.extensions)]
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
        arrays, places = [to_array(self._keys, pa.string())], {}
        for name, medium, _, _ in self._columns:
            found = self._values[name]
            values = [one.value for one in found]
            if medium is None:
                arrays.append(to_array(values, self._schema.field(name).type))
                continue
            names = to_array([one.name for one in found], pa.string())
            arrays.append(payload_column(medium.source_form, to_array(values, pa.binary()), names))
            if self._in_place:
                state, spans = self._tar.state, [one.span for one in found]
                places[name] = places_in_file(self._tar.path, state.size, state.mtime_ns, spans, names)
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        rows = Rows(batch, tuple(self._rejects), consumed - self._told, places)
        self._told = consumed
        self._begin()
        return rows

    def _begin(self) -> None:
        self._taken = 0
        self._keys: list[str] = []
        self._values: dict[str, list[_Value]] = {one.name: [] for one in self._columns}
        self._rejects: list[Reject] = []

    def _cost(self, sample: Sample, nbytes: int) -> int:
        """Return how much of a piece a sample takes."""
        if self._reads_media:
            return nbytes
        read = sum(len(data) for _, data in sample.parts.values() if data is not None)
        return read + len(sample.key) + ROW_OVERHEAD_BYTES * len(self._columns)

    def _convert(self, sample: Sample) -> str | None:
        """Append the sample's values; return why it has none instead."""
        found: list[_Value] = []
        for one in self._columns:
            extension = next((each for each in one.extensions if each in sample.parts), None)
            if extension is None:
                found.append(_Value())
                continue
            try:
                found.append(self._value(one, extension, *sample.parts[extension]))
            except UnfitError as fault:
                return f"{extension}: {fault}"
        self._keys.append(sample.key)
        for one, value in zip(self._columns, found, strict=True):
            self._values[one.name].append(value)
        return None

    def _value(self, maker: _Maker, extension: str, member: Member, data: memoryview | None) -> _Value:
        """Return what a member is. Raises UnfitError: nothing that can be stored."""
        name = member.name.rpartition("/")[2]
        if member.size > self._most:
            raise UnfitError(too_large(member.size, self._most))
        span = None
        if self._in_place and maker.medium is not None:
            if is_gzip(extension):
                raise UnfitError("a gzip member can't stay where it is, since its value lies nowhere: pack it")
            span = (member.data, member.size)
            if not self._reads_media:
                return _Value(None, name, span)
        assert data is not None
        if is_gzip(extension):
            data, name = unpacked(data, self._most), name[: -len(GZIP_SUFFIX)]
            self._taken += len(data)
        return _Value(maker.convert(data), name, span)
