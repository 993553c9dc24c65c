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
from toolkit.sources.base import PIECE_BYTES, Rows, Slice, Source, Survey, rows_schema
from toolkit.sources.files import InputFile, find_files, group_by_split
from toolkit.sources.options import SourceKind, SourceOptions
from toolkit.sources.scan import printable
from toolkit.sources.text_files import identity
from toolkit.sources.text_tokenized import TOKENS, token_array
from toolkit.storage.local import read_range, storage_errors

__all__ = ["RoxxelSource", "looks_like_roxxel"]

_FOOTER = struct.Struct("<qq8s8s")
_MAGIC = b"ROXXEL02"
_SUFFIXES = (".rox",)
_MOST_VOCABULARY = 1 << 32


@dataclass(frozen=True, slots=True)
class _File:
    """A file as its footer has it."""

    path: str
    name: str
    size: int
    mtime_ns: int
    dtype: str
    blocks: int
    data_bytes: int


@dataclass(frozen=True, slots=True)
class _Payload:
    file: _File
    first: int
    blocks: int


class RoxxelSource(Source):
    """Files of token ids that Roxxel 0.9 wrote."""

    def __init__(self, options: SourceOptions) -> None:
        options.refuse(
            SourceKind.ROXXEL,
            *("label_mode", "require_labels", "classes", "mapping", "columns", "rename", "kinds", "key", "missing"),
            *("raw", "text_column", "limit"),
        )
        if options.eos and options.eos_token is None:
            raise UsageError("--eos: the ids are there already; say which of them ends a document with --eos-token ID")
        if options.eos_token is not None and not options.eos_token.isdecimal():
            raise UsageError(f"--eos-token {options.eos_token}: for ready ids give the number that ends a document")
        self._options = options
        self._eos = None if options.eos_token is None else int(options.eos_token)

    def survey(self) -> Survey:
        """Read the footers and all ids once: nothing else tells how large they are."""
        options = self._options
        files = find_files(options.paths, _SUFFIXES, include=options.include, exclude=options.exclude)
        groups = group_by_split(files, options.split)
        known = {file.path: _read_footer(file) for file in files}
        highest = max((_highest(file) for file in known.values()), default=0)
        vocabulary = max(highest, self._eos or 0) + 1
        return Survey(
            columns=(token_column(TOKENS, TokenEncoding(vocabulary=vocabulary, eos=self._eos)),),
            types={TOKENS: token_type(vocabulary)},
            classes={},
            splits=tuple(groups),
            slices=tuple(
                part for split, of in groups.items() for part in self._cut(split, [known[file.path] for file in of])
            ),
            options={
                "eos": self._eos,
                "exclude": [printable(pattern) for pattern in options.exclude],
                "include": [printable(pattern) for pattern in options.include],
                "source_kind": SourceKind.ROXXEL.value,
                "split": options.split,
            },
        )

    def read(self, survey: Survey, part: Slice) -> Iterator[Rows]:
        """Read the slice's documents."""
        payload: _Payload = part.payload  # type: ignore[assignment]
        schema = rows_schema(survey)
        name = printable(payload.file.name)
        number = payload.first
        for documents, nbytes in _documents(payload, self._eos):
            keys = to_array([f"{name}#{number + i}" for i in range(len(documents))], pa.string())
            number += len(documents)
            ends = np.cumsum([0, *map(len, documents)], dtype=np.int64)
            ids = np.concatenate([*documents, np.empty(0, np.uint32)])
            arrays = [keys, token_array(ends, ids, survey.columns[0])]
            yield Rows(pa.RecordBatch.from_arrays(arrays, schema=schema), (), nbytes)

    def place(self, part: Slice, key: str) -> str:
        """Return the path of the slice's file."""
        payload: _Payload = part.payload  # type: ignore[assignment]
        return printable(payload.file.path)

    def _cut(self, split: str, files: Sequence[_File]) -> Iterator[Slice]:
        number = 0
        for file in files:
            each = max(1, file.data_bytes // max(1, file.blocks))
            step = file.blocks if self._eos is not None else max(1, self._options.slice_bytes // each)
            for first in range(0, file.blocks, max(1, step)):
                blocks = min(step, file.blocks - first)
                samples = None if self._eos is not None else blocks
                yield Slice(split, number, samples, blocks * each, _Payload(file, first, blocks), printable(file.name))
                number += 1


def looks_like_roxxel(path: str) -> bool:
    """Tell whether a file ends as a ROXXEL02 file does."""
    with storage_errors("read", path), open(path, "rb") as file:
        if file.seek(0, os.SEEK_END) < _FOOTER.size:
            return False
        file.seek(-len(_MAGIC), os.SEEK_END)
        return file.read() == _MAGIC


def _read_footer(file: InputFile) -> _File:
    size, mtime_ns = identity(file.path)
    shown = printable(file.path)
    if not looks_like_roxxel(file.path):
        raise SourceError(f"{shown!r} doesn't end as a ROXXEL02 file does: it is cut short, or another kind of file")
    with storage_errors("read", file.path), open(file.path, "rb") as opened:
        opened.seek(-_FOOTER.size, os.SEEK_END)
        blocks, data_bytes, name, _ = _FOOTER.unpack(opened.read())
    if blocks < 0 or data_bytes < 0 or data_bytes + 8 * blocks + _FOOTER.size != size:
        raise SourceError(
            f"{shown!r}: its footer says {blocks} blocks and {data_bytes} bytes, which {size} bytes aren't"
        )
    text = name.rstrip(b"\0").decode("ascii", "replace")
    if text not in ("uint8", "uint16", "uint32", "int16", "int32", "int64", "uint64", "int8"):
        raise SourceError(f"{shown!r}: its values are {text}, which are no token ids")
    return _File(file.path, file.name, size, mtime_ns, text, blocks, data_bytes)


def _highest(file: _File) -> int:
    highest = 0
    for _, ids in _pieces(file, 0, file.blocks):
        if len(ids):
            low, high = int(ids.min()), int(ids.max())
            if low < 0 or high >= _MOST_VOCABULARY:
                wrong = low if low < 0 else high
                raise SourceError(
                    f"{printable(file.path)!r} holds {wrong}, which is no token id. Roxxel shifts ids where a "
                    "separator or block isn't a whole number of them: write it anew from the texts, or use --exclude"
                )
            highest = max(highest, high)
    return highest


def _documents(payload: _Payload, eos: int | None) -> Iterator[tuple[list[NDArray[np.uint32]], int]]:
    """Yield documents in pieces, with the bytes read for them: a block each, or what ends behind `eos`."""
    rest = np.empty(0, np.uint32)
    for lengths, ids in _pieces(payload.file, payload.first, payload.blocks):
        nbytes = ids.nbytes
        ids = ids.astype(np.uint32)
        if eos is None:
            yield np.split(ids, np.cumsum(lengths)[:-1]), nbytes
            continue
        *whole, tail = np.split(ids, np.flatnonzero(ids == eos) + 1)
        if whole:
            whole[0] = np.concatenate((rest, whole[0]))
            rest = np.empty(0, np.uint32)
        rest = np.concatenate((rest, tail))
        yield whole, nbytes
    if len(rest):
        yield [rest], 0


def _pieces(file: _File, first: int, blocks: int) -> Iterator[tuple[list[int], NDArray[np.generic]]]:
    """Yield the ids of blocks in pieces of a few MiB, with the number of ids in each block."""
    width = np.dtype(file.dtype).itemsize
    with storage_errors("read", file.path):
        fd = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC)
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
                lengths = np.diff(ends, prepend=start)
                if (lengths < 0).any() or int(ends[-1]) > file.data_bytes or (lengths % width).any():
                    raise SourceError(
                        f"{printable(file.path)!r}: its blocks aren't whole ids of {file.dtype} one behind the other"
                    )
                taken = max(1, int(np.searchsorted(ends, start + PIECE_BYTES, side="right")))
                stop = int(ends[taken - 1])
                yield (
                    (lengths[:taken] // width).tolist(),
                    np.frombuffer(read_range(fd, start, stop - start), file.dtype),
                )
                at, start = at + taken, stop
        finally:
            os.close(fd)
