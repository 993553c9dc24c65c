"""Text as a source: JSON lines, one document in a field of each, and plain text files, one document each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import msgspec
import pyarrow as pa

from toolkit.errors import SourceError
from toolkit.format.arrays import to_array
from toolkit.format.schema import Column, Kind
from toolkit.sources.base import PIECE_BYTES, ROW_OVERHEAD_BYTES, Rows, Slice, Source, Survey, rows_schema
from toolkit.sources.files import InputFile, find_files, group_by_split
from toolkit.sources.kinds.text.files import (
    BYTE_ORDER_MARK,
    LARGEST_BYTES,
    TextPart,
    cut_lines,
    is_blank,
    is_compressed,
    read_lines,
    read_whole,
)
from toolkit.sources.kinds.text.names import LINES, PACKED, PLAIN, is_lines, is_plain, looks_like_text
from toolkit.sources.names import is_utf8, printable
from toolkit.sources.options import SourceOptions
from toolkit.sources.reject import Reject
from toolkit.sources.skips import FILE_REASONS, Skips
from toolkit.sources.state import identity

__all__ = ["TextSource"]

_TEXT = "text"

# The text of a document's bytes, and its key where a field has one.
_Decoder = Callable[[bytes], tuple[str, str | None]]


class _UnfitError(ValueError):
    """Why bytes are no document."""


@dataclass(frozen=True, slots=True)
class _Payload:
    parts: tuple[TextPart, ...]
    limit: int | None


class TextSource(Source):
    """Files named *.jsonl, *.ndjson, *.json (JSON lines) or *.txt, *.text, *.md, plain or .gz, .bz2, .xz or .zst."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._field = options.text_column or _TEXT
        self._most = min(options.max_value_bytes, LARGEST_BYTES)

    def survey(self) -> Survey:
        """List the files; large plain ones are read once, to number their lines."""
        options = self._options
        skips = Skips(FILE_REASONS)
        files = find_files(options, looks_like_text, None, skips)  # content tells nothing
        for file in files:
            if not looks_like_text(file.name):
                raise SourceError(
                    f"{printable(file.path)!r}: a text file is called *{', *'.join(LINES + PLAIN)}, with "
                    f"{', '.join(PACKED[1:])} behind it when it is compressed: the name says what its lines are"
                )
            if not is_utf8(file.name):
                raise SourceError(f"the file name {printable(file.path)!r} is not valid UTF-8: rename it")
        for file in files:
            if not is_plain(file.name) and is_blank(file.path):
                skips.add("empty", file.name)
        groups = group_by_split(files, options.split)
        return Survey(
            columns=(Column(name=_TEXT, kind=Kind.TEXT, arrow_type=str(pa.string())),),
            types={_TEXT: pa.string()},
            classes={},
            splits=tuple(groups),
            slices=tuple(part for split, members in groups.items() for part in self._cut(split, members)),
            skipped=skips.counts,
            skipped_names=skips.names,
            options={
                "exclude": [printable(pattern) for pattern in options.exclude],
                "include": [printable(pattern) for pattern in options.include],
                "key": options.key,
                "limit": options.limit,
                "split": options.split,
                "text_column": self._field,
            },
        )

    def read(self, survey: Survey, part: Slice) -> Iterator[Rows]:
        """Read the slice's documents."""
        payload: _Payload = part.payload  # type: ignore[assignment]
        rows = _RowsBuilder(survey)
        left = payload.limit
        for place in payload.parts:
            done = 0
            decode = self._decoder(place)
            for where, consumed, data in _documents(place, self._most):
                if left == 0:
                    break
                left = None if left is None else left - 1
                if rows.is_full:
                    yield rows.take(consumed - done)
                    done = consumed
                key = place.name + where
                try:
                    if data is None:
                        raise _UnfitError(f"more bytes than a value may have ({self._most}): see --max-value-bytes")
                    text, own_key = decode(data)
                    rows.add(own_key or key, text)
                except _UnfitError as error:
                    rows.reject(printable(place.path) + where, key, str(error))
            yield rows.take(max(0, _span(place) - done))

    def place(self, part: Slice, key: str) -> str:
        """Return the path of the file; where a field gave the key, that of the first file, and how many more."""
        parts = cast(_Payload, part.payload).parts
        if self._options.key is None:
            names = (key, key.rpartition("#")[0])  # of a text, of a line
            parts = tuple(one for one in parts if printable(one.name) in names) or parts
        more = f" and {len(parts) - 1} more" if len(parts) > 1 else ""
        return printable(parts[0].path) + more

    def _decoder(self, part: TextPart) -> _Decoder:
        return _decode_text if is_plain(part.name) else _line_decoder(self._field, self._options.key)

    def _cut(self, split: str, files: Sequence[InputFile]) -> Iterator[Slice]:
        """Group small files, cut large plain ones between lines; compressed files and texts stay whole."""
        if self._options.limit is not None:
            # Where a limit falls is known only by reading: one slice, which stops there.
            whole = tuple(TextPart(file.path, file.name, *identity(file.path)) for file in files)
            yield self._slice(split, 0, whole)
            return
        number = 0
        group: list[TextPart] = []
        room = self._options.slice_bytes
        for part in self._parts(files):
            size = _span(part) + ROW_OVERHEAD_BYTES
            if group and size > room:
                yield self._slice(split, number, tuple(group))
                number, group, room = number + 1, [], self._options.slice_bytes
            group.append(part)
            room -= size
        if group:
            yield self._slice(split, number, tuple(group))

    def _parts(self, files: Sequence[InputFile]) -> Iterator[TextPart]:
        for file in files:
            large = file.bytes > self._options.slice_bytes and is_lines(file.name)
            if large and not is_compressed(file.path):
                yield from cut_lines(file.path, file.name, self._options.slice_bytes)
            else:
                yield TextPart(file.path, file.name, *identity(file.path))

    def _slice(self, split: str, number: int, parts: tuple[TextPart, ...]) -> Slice:
        more = f" and {len(parts) - 1} more" if len(parts) > 1 else ""
        payload = _Payload(parts, self._options.limit)
        return Slice(split, number, None, sum(map(_span, parts)), payload, printable(parts[0].name) + more)


class _RowsBuilder:
    def __init__(self, survey: Survey) -> None:
        self._schema = rows_schema(survey)
        self._begin()

    @property
    def is_full(self) -> bool:
        return self._size >= PIECE_BYTES

    def add(self, key: str, text: str) -> None:
        self._keys.append(key)
        self._texts.append(text)
        self._size += len(text) + ROW_OVERHEAD_BYTES

    def reject(self, source: str, key: str, reason: str) -> None:
        self._rejects.append(Reject(source, key, reason))

    def take(self, read_bytes: int) -> Rows:
        arrays = [to_array(self._keys, pa.string()), to_array(self._texts, pa.string())]
        rows = Rows(pa.RecordBatch.from_arrays(arrays, schema=self._schema), tuple(self._rejects), read_bytes)
        self._begin()
        return rows

    def _begin(self) -> None:
        self._keys: list[str] = []
        self._texts: list[str] = []
        self._rejects: list[Reject] = []
        self._size = 0


def _span(part: TextPart) -> int:
    return (part.size if part.end is None else part.end) - part.start


def _documents(part: TextPart, most: int) -> Iterator[tuple[str, int, bytes | None]]:
    """Yield where in the file each document is ("" for a whole one), bytes of the part read so far, and its bytes."""
    if is_plain(part.name):
        yield "", _span(part), read_whole(part, most)
        return
    for line in read_lines(part, most):
        data = line.data
        if line.number == 1 and data is not None:
            data = data.removeprefix(BYTE_ORDER_MARK)
        if data is None or data.strip():  # blank lines are none
            yield f"#{line.number}", max(0, line.consumed - part.start), data


def _decode_text(data: bytes) -> tuple[str, str | None]:
    try:
        return data.decode("utf-8-sig"), None
    except UnicodeDecodeError as error:
        raise _UnfitError(f"not UTF-8 text at byte {error.start}") from error


def _line_decoder(field: str, key: str | None) -> _Decoder:
    """Return what takes the text, and the key where there is a field for it, out of a line."""
    fields: list[tuple[str, object]] = [("text", str)]
    names = {"text": field}
    if key is not None:
        fields.append(("key", str | int))
        names["key"] = key
    # Made here, since the fields are named by the user.
    decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(msgspec.defstruct("Line", fields, rename=names))

    def decode(data: bytes) -> tuple[str, str | None]:
        try:
            line = decoder.decode(data)
        except msgspec.ValidationError as error:
            raise _UnfitError(str(error)[:1].lower() + str(error)[1:]) from error
        except msgspec.DecodeError as error:
            raise _UnfitError(f"not valid JSON: {error}") from error
        except RecursionError as error:
            raise _UnfitError("its JSON is nested too deeply") from error
        except UnicodeDecodeError as error:
            raise _UnfitError(f"not valid UTF-8 ({error.reason})") from error
        return line.text, None if key is None else str(line.key)

    return decode
