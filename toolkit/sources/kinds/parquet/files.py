"""Parquet files as they lie: footers, whether they fit together, the values of their folder names, record batches.

Knows nothing of columns and kinds.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from toolkit.errors import SourceError
from toolkit.format.schema import stored_type
from toolkit.sources.base import PIECE_BYTES
from toolkit.sources.files import InputFile
from toolkit.sources.kinds.parquet.footer import Chunks, FooterError, read_chunks
from toolkit.sources.names import is_utf8, printable
from toolkit.sources.regular import check_regular, open_file
from toolkit.sources.state import FileState
from toolkit.storage.files import read_range, storage_errors

__all__ = [
    "SUFFIXES",
    "Footer",
    "batch_rows",
    "check_folders",
    "looks_like_parquet",
    "open_parquet",
    "partition_types",
    "partitions_of",
    "read_footer",
    "read_group",
    "share_of",
    "stored",
]

SUFFIXES = (".parquet", ".pq", ".parq")

_MAGIC = b"PAR1"
_ENCRYPTED_MAGIC = b"PARE"  # of a file whose footer is encrypted
_MAGICS = (_MAGIC, _ENCRYPTED_MAGIC)
_TAIL_BYTES = 64 * 1024  # nearly every footer is smaller
_MOST_ROWS = 4096
# What one value of a dictionary page can take (writers end a dictionary there), and what a batch of such may.
_DICTIONARY_BYTES = 1024 * 1024
_EXPANDED_BYTES = 64 * 1024 * 1024
# Read buffers, one for each leaf column.
_BUFFER_BYTES = 1024 * 1024
_LEAST_BUFFER_BYTES = 16 * 1024
_ALL_BUFFERS_BYTES = 32 * 1024 * 1024
_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_INTEGER = re.compile(r"-?[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class Footer:
    """What a file says about itself.

    Attributes:
        file: Where it is.
        state: By which a change is noticed.
        groups: Rows and bytes (decompressed, all columns) of each row group.
        chunks: Its column chunks.
        schema: Its Arrow schema.
        features: Hugging Face features by column; empty without.
        partitions: Values of the folders named k=v that it lies in; None for the null value.
    """

    file: InputFile
    state: FileState
    groups: tuple[tuple[int, int], ...]
    chunks: Chunks
    schema: pa.Schema
    features: Mapping[str, Mapping[str, object]]
    partitions: Mapping[str, str | None]

    @property
    def shown(self) -> str:
        """The path, for messages."""
        return repr(printable(self.file.path))

    @property
    def rows(self) -> int:
        """Rows of all row groups."""
        return sum(rows for rows, _ in self.groups)


def looks_like_parquet(path: str) -> bool:
    """Tell whether the file begins and ends as Parquet files do. Raises StorageError."""
    with storage_errors("read", path), open_file(path) as file:
        if file.read(len(_MAGIC)) not in _MAGICS or file.seek(0, os.SEEK_END) < 3 * len(_MAGIC):
            return False
        file.seek(-len(_MAGIC), os.SEEK_END)
        return file.read() in _MAGICS


def read_footer(file: InputFile) -> Footer:
    """Read the end of a file.

    Raises:
        SourceError: It is no Parquet file, or a damaged one.
        StorageError: It can't be read.
    """
    shown = printable(file.path)
    if not is_utf8(file.name):
        raise SourceError(f"the file name {shown!r} is not valid UTF-8, which keys are made of: rename it")
    advice = f"it is cut short, damaged or no Parquet file. {_advice(file.name)}"
    with _content_errors(file.path, lambda reason: f"{shown!r} has no readable Parquet footer ({reason}): {advice}"):
        state = FileState.of(check_regular(file.path))
        chunks = _read_chunks(replace(file, bytes=state.size))
        with pq.ParquetFile(file.path) as opened:
            schema = opened.schema_arrow
            every = (opened.metadata.row_group(i) for i in range(opened.metadata.num_row_groups))
            groups = tuple((group.num_rows, group.total_byte_size) for group in every)
            if (len(groups), opened.metadata.num_columns if groups else 0) != chunks.nbytes.shape:
                raise FooterError("readers find different row groups or columns in it")
    twice = [name for name in schema.names if schema.names.count(name) > 1]
    if twice:
        raise SourceError(f"{shown!r} has several columns called {twice[0]!r}: write it anew with one of them renamed")
    return Footer(file, state, groups, chunks, schema, _features(schema), partitions_of(file.name))


def _read_chunks(file: InputFile) -> Chunks:
    """Read the chunks of a file, before pyarrow is asked about it. Raises SourceError when it can't be asked."""
    with open_file(file.path) as opened:
        size = file.bytes
        tail = read_range(opened.fileno(), max(0, size - _TAIL_BYTES), min(size, _TAIL_BYTES))
        if tail[-4:] == _ENCRYPTED_MAGIC:
            raise SourceError(f"{printable(file.path)!r} is encrypted. {_advice(file.name)}")
        length = int.from_bytes(tail[-8:-4], "little")
        if tail[-4:] != _MAGIC or length + 8 > size:
            raise FooterError("it doesn't end as Parquet files do")
        if length + 8 > len(tail):
            tail = read_range(opened.fileno(), size - 8 - length, length + 8)
    chunks = read_chunks(tail[-8 - length : -8])
    if chunks.encrypted:
        shown = ", ".join(repr(name) if name else "one that the file doesn't name" for name in chunks.encrypted)
        raise SourceError(f"{printable(file.path)!r} has encrypted columns ({shown}). {_advice(file.name)}")
    return chunks


def check_folders(first: Footer, other: Footer) -> None:
    """Raise SourceError when two files differ in the names of the folders k=v that they lie in."""
    if first.partitions.keys() != other.partitions.keys():
        folders = [", ".join(f"{name}=…" for name in footer.partitions) or "none" for footer in (first, other)]
        raise SourceError(
            f"{first.shown} lies in other partition folders ({folders[0]}) than {other.shown} ({folders[1]}): "
            "all files of a source need the same ones. Leave some out with --exclude"
        )


def stored(footer: Footer, name: str) -> pa.DataType:
    """Return the type that a column is stored as. Raises SourceError for one that can't be."""
    try:
        return stored_type(footer.schema.field(name).type)
    except TypeError as error:
        raise SourceError(f"column {name!r} of {footer.shown}: {error}") from error


def partition_types(footers: Sequence[Footer]) -> dict[str, pa.DataType]:
    """Return the type of each partition column: int64 when every value is an integer, else string."""
    types = {}
    for name in footers[0].partitions:
        values = {footer.partitions[name] for footer in footers} - {None}
        integers = values and all(_INTEGER.fullmatch(value or "") for value in values)
        types[name] = pa.int64() if integers else pa.string()
    return types


def open_parquet(path: str, leaves: int) -> pq.ParquetFile:
    """Open a file for reading `leaves` leaf columns in bounded memory, page checksums verified where there are any."""
    buffer = min(_BUFFER_BYTES, max(_LEAST_BUFFER_BYTES, _ALL_BUFFERS_BYTES // max(1, leaves)))
    with _content_errors(path, lambda reason: f"{printable(path)!r} can't be opened any more ({reason})"):
        check_regular(path)
        return pq.ParquetFile(path, buffer_size=buffer, pre_buffer=False, page_checksum_verification=True)


def read_group(
    file: pq.ParquetFile, input_file: InputFile, group: int, columns: Sequence[str], size: int, rows: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the columns of a row group, or of its first `rows` rows, in batches of `size` rows: see batch_rows().

    Raises:
        SourceError: A page is damaged; names the column.
        StorageError: The disk fails.
    """

    def told(reason: str) -> str:
        culprit = _damaged_column(file, group, columns, size)
        where = "" if culprit is None else f", column {culprit!r}"
        shown = f"{printable(input_file.path)!r}, row group {group}{where}"
        return f"{shown}: can't be read ({reason}). The file is damaged. {_advice(input_file.name)}"

    left = file.metadata.row_group(group).num_rows if rows is None else rows
    with _content_errors(input_file.path, told):
        batches = file.iter_batches(
            min(size, max(1, left)), row_groups=[group], columns=list(columns), use_threads=False
        )
        while left > 0:
            batch = next(batches, None)
            if batch is None:
                raise SourceError(told(f"{left} rows are missing at its end"))
            yield batch.slice(0, left)
            left -= batch.num_rows


def share_of(footer: Footer, columns: Sequence[str]) -> float:
    """Return how much of a file's bytes the columns take: between 0 and 1."""
    wanted = float(footer.chunks.nbytes[:, footer.chunks.of(set(columns))].sum(dtype=np.float64))
    return min(1.0, wanted / (sum(size for _, size in footer.groups) or 1))


def batch_rows(footer: Footer, columns: Sequence[str]) -> tuple[int, ...]:
    """Return how many rows of each row group to read at a time.

    They are a few MiB by the average, and little enough if dictionaries expand.
    """
    chunks = footer.chunks
    leaves = chunks.of(set(columns))
    sizes = chunks.nbytes[:, leaves]
    largest = np.where(chunks.expands[:, leaves], np.minimum(sizes, _DICTIONARY_BYTES), 1).max(axis=1, initial=1)
    totals = sizes.sum(axis=1, dtype=np.float64).tolist()
    return tuple(
        max(1, min(_MOST_ROWS, int(PIECE_BYTES // max(1, total // max(1, rows))), _EXPANDED_BYTES // max(1, most)))
        for (rows, _), total, most in zip(footer.groups, totals, largest.tolist(), strict=True)
    )


def _damaged_column(file: pq.ParquetFile, group: int, columns: Sequence[str], size: int) -> str | None:
    """Return the first column that can't be read alone."""
    for name in columns:
        try:
            for _ in file.iter_batches(size, row_groups=[group], columns=[name], use_threads=False):
                pass
        except (pa.ArrowException, OSError, UnicodeDecodeError):
            return name
    return None


@contextlib.contextmanager
def _content_errors(path: str, told: Callable[[str], str]) -> Iterator[None]:
    """Turn Arrow's complaints about content into SourceError, the system's (they have an errno) into StorageError."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError, FooterError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            with storage_errors("read", path):
                raise
        reason = " ".join(str(error).split()).removesuffix(".")
        if isinstance(error, UnicodeDecodeError):
            reason = f"the name {error.object!r} in its schema is not valid UTF-8"
        raise SourceError(told(reason)) from error


def _advice(name: str) -> str:
    return f"Write it anew, or leave it out with --exclude {name!r}"


def _features(schema: pa.Schema) -> dict[str, Mapping[str, object]]:
    """Return the features in the schema's metadata; nothing when there are none, or none that can be understood."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        named = {name: _list_feature(feature) for name, feature in features.items()}
        return {name: feature for name, feature in named.items() if isinstance(feature, dict)}
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError):
        return {}


def _list_feature(feature: object) -> object:
    """Return a feature; a list that holds one, as `datasets` wrote lists once, as it writes them now."""
    return {"_type": "List", "feature": feature[0]} if isinstance(feature, list) and len(feature) == 1 else feature


def partitions_of(name: str) -> dict[str, str | None]:
    """Return the values that the folders k=v of a file's name give; None for the null value."""
    found: dict[str, str | None] = {}
    for folder in name.split("/")[:-1]:
        column, equals, value = folder.partition("=")
        if equals and column:
            found[unquote(column)] = None if value == _NULL_PARTITION else unquote(value)
    return found
