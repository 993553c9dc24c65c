"""ROXXEL02 files as a source: token ids in blocks, which become one document a block, or are cut behind an id.

The file is blocks of raw ids, the end offset of each as int64, and a footer of 32 bytes: blocks, bytes of data, dtype,
ROXXEL02. It has no checksums; what can be checked (sizes, order, whole ids, no negative ones) is.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from toolkit.errors import SourceError, UsageError
from toolkit.format.arrays import to_array
from toolkit.format.schema import TokenEncoding, token_column, token_type
from toolkit.sources.base import PIECE_BYTES, Rows, Slice, Source, Survey, rows_schema, too_large
from toolkit.sources.files import ends_with, find_files, group_by_split
from toolkit.sources.kinds.roxxel.footer import SUFFIXES, RoxxelFile, looks_like_roxxel, read_footer
from toolkit.sources.names import printable
from toolkit.sources.options import SourceOptions
from toolkit.sources.regular import open_regular
from toolkit.sources.reject import Reject
from toolkit.sources.skips import FILE_REASONS, Skips
from toolkit.sources.tokenized import TOKENS, token_array
from toolkit.storage.files import read_range, storage_errors

__all__ = ["RoxxelSource"]

_MOST_VOCABULARY = 1 << 32

_Document = NDArray[np.uint32] | int  # its ids; or how many bytes it has, when these are too many


@dataclass(frozen=True, slots=True)
class _Payload:
    file: RoxxelFile
    first: int
    blocks: int


class RoxxelSource(Source):
    """Files of token ids that Roxxel 0.9 wrote."""

    def __init__(self, options: SourceOptions) -> None:
        if options.eos and options.eos_token is None:
            raise UsageError("--eos: the ids are there already; say which of them ends a document with --eos-token ID")
        if options.eos_token is not None and not options.eos_token.isdecimal():
            raise UsageError(f"--eos-token {options.eos_token}: for ready ids give the number that ends a document")
        self._options = options
        self._eos = None if options.eos_token is None else int(options.eos_token)

    def survey(self) -> Survey:
        """Read the footers and all ids once: nothing else tells how large they are."""
        options = self._options
        skips = Skips(FILE_REASONS)
        files = find_files(options, ends_with(SUFFIXES), looks_like_roxxel, skips)
        groups = group_by_split(files, options.split)
        known = {file.path: read_footer(file) for file in files}
        most, whole = options.max_value_bytes, self._eos is None
        highest = max((_highest(file, most, whole=whole) for file in known.values()), default=0)
        vocabulary = max(highest, self._eos or 0) + 1
        return Survey(
            columns=(token_column(TOKENS, TokenEncoding(vocabulary=vocabulary, eos=self._eos)),),
            types={TOKENS: token_type(vocabulary)},
            classes={},
            splits=tuple(groups),
            slices=tuple(
                part for split, of in groups.items() for part in self._cut(split, [known[file.path] for file in of])
            ),
            skipped=skips.counts,
            skipped_names=skips.names,
            options={
                "eos": self._eos,
                "exclude": [printable(pattern) for pattern in options.exclude],
                "include": [printable(pattern) for pattern in options.include],
                "split": options.split,
            },
        )

    def read(self, survey: Survey, part: Slice) -> Iterator[Rows]:
        """Read the slice's documents."""
        payload: _Payload = part.payload  # type: ignore[assignment]
        schema = rows_schema(survey)
        name = printable(payload.file.name)
        number = payload.first
        path, most = printable(payload.file.path), self._options.max_value_bytes
        pieces = _blocks(payload, most) if self._eos is None else _cut_documents(payload, self._eos, most)
        for found, nbytes in pieces:
            keys = [f"{name}#{number + i}" for i in range(len(found))]
            number += len(found)
            documents = {key: one for key, one in zip(keys, found, strict=True) if not isinstance(one, int)}
            rejects = [
                Reject(path, key, too_large(one, most))
                for key, one in zip(keys, found, strict=True)
                if isinstance(one, int)
            ]
            ends = np.cumsum([0, *map(len, documents.values())], dtype=np.int64)
            ids = np.concatenate([*documents.values(), np.empty(0, np.uint32)])
            arrays = [to_array(list(documents), pa.string()), token_array(ends, ids, survey.columns[0])]
            yield Rows(pa.RecordBatch.from_arrays(arrays, schema=schema), tuple(rejects), nbytes)

    def place(self, part: Slice, key: str) -> str:
        """Return the path of the slice's file."""
        payload: _Payload = part.payload  # type: ignore[assignment]
        return printable(payload.file.path)

    def _cut(self, split: str, files: Sequence[RoxxelFile]) -> Iterator[Slice]:
        number = 0
        for file in files:
            each = max(1, file.data_bytes // max(1, file.blocks))
            step = file.blocks if self._eos is not None else max(1, self._options.slice_bytes // each)
            for first in range(0, file.blocks, max(1, step)):
                blocks = min(step, file.blocks - first)
                samples = None if self._eos is not None else blocks
                yield Slice(split, number, samples, blocks * each, _Payload(file, first, blocks), printable(file.name))
                number += 1


def _highest(file: RoxxelFile, most: int, *, whole: bool) -> int:
    highest = 0
    for _, ids in _pieces(file, 0, file.blocks, most, whole=whole):
        if ids is not None and len(ids):
            low, high = int(ids.min()), int(ids.max())
            if low < 0 or high >= _MOST_VOCABULARY:
                wrong = low if low < 0 else high
                raise SourceError(
                    f"{printable(file.path)!r} holds {wrong}, which is no token id. Roxxel shifts ids where a "
                    "separator or block isn't a whole number of them: write it anew from the texts, or use --exclude"
                )
            highest = max(highest, high)
    return highest


def _blocks(payload: _Payload, most: int) -> Iterator[tuple[list[_Document], int]]:
    """Yield blocks in pieces, with the bytes read for them; for a block of more than `most` bytes, how many it has."""
    width = np.dtype(payload.file.dtype).itemsize
    for lengths, ids in _pieces(payload.file, payload.first, payload.blocks, most, whole=True):
        if ids is None:
            yield [lengths[0] * width], 0
        else:
            parts = np.split(ids.astype(np.uint32), np.cumsum(lengths)[:-1])
            yield [len(part) * width if len(part) * width > most else part for part in parts], ids.nbytes


def _cut_documents(payload: _Payload, eos: int, most: int) -> Iterator[tuple[list[_Document], int]]:
    """Yield what ends behind `eos`, as _blocks() does blocks."""
    width = np.dtype(payload.file.dtype).itemsize
    rest: list[NDArray[np.uint32]] = []
    size = 0  # of the rest, in the file
    for _, ids in _pieces(payload.file, payload.first, payload.blocks, most, whole=False):
        if ids is None:
            raise TypeError("a piece of a block is never too large")
        done: list[_Document] = []
        *ends, tail = np.split(ids.astype(np.uint32), np.flatnonzero(ids == eos) + 1)
        for part in ends:
            size += len(part) * width
            done.append(size if size > most else np.concatenate([*rest, part]))
            rest, size = [], 0
        size += len(tail) * width
        rest = [] if size > most else [*rest, tail]
        yield done, ids.nbytes
    if size:
        yield [size if size > most else np.concatenate(rest)], 0


def _pieces(
    file: RoxxelFile, first: int, blocks: int, most: int, *, whole: bool
) -> Iterator[tuple[list[int], NDArray[np.generic] | None]]:
    """Yield the ids of blocks in pieces of a few MiB, with the number of ids in each block.

    With `whole`, a block is in one piece; a large one of more than `most` bytes is None. Otherwise a block may lie in
    several pieces, and the numbers mean nothing.
    """
    width = np.dtype(file.dtype).itemsize
    with storage_errors("read", file.path):
        fd = open_regular(file.path)
        try:
            state = os.fstat(fd)
            if (state.st_size, state.st_mtime_ns) != (file.size, file.mtime_ns):
                raise SourceError(f"{printable(file.path)!r} was changed during the pack: pack again")
            start = 0
            if first:
                (start,) = struct.unpack("<q", read_range(fd, file.data_bytes + 8 * (first - 1), 8))
            at = first
            while at < first + blocks:
                count = min(first + blocks - at, PIECE_BYTES // 8)
                ends = np.frombuffer(read_range(fd, file.data_bytes + 8 * at, 8 * count), "<i8")
                # Compared, not subtracted: a difference may wrap around.
                starts = np.concatenate(([start], ends[:-1]))
                if (ends < starts).any() or int(ends[-1]) > file.data_bytes or ((ends - starts) % width).any():
                    raise SourceError(
                        f"{printable(file.path)!r}: its blocks aren't whole ids of {file.dtype} one behind the other"
                    )
                taken = max(1, int(np.searchsorted(ends, start + PIECE_BYTES, side="right")))
                stop = int(ends[taken - 1])
                counts = ((ends - starts)[:taken] // width).tolist()
                if whole and taken == 1 and stop - start > max(most, PIECE_BYTES):
                    yield counts, None
                else:
                    step = max(1, stop - start) if whole else PIECE_BYTES
                    for begin in range(start, max(stop, start + 1), step):
                        yield counts, np.frombuffer(read_range(fd, begin, min(step, stop - begin)), file.dtype)
                at, start = at + taken, stop
        finally:
            os.close(fd)
