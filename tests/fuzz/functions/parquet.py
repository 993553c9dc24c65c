"""Parquet files through their source: rows equal what pyarrow reads of the whole file, or the file is refused."""

from __future__ import annotations

import datetime
import decimal
import io
import resource
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from fuzz.inputs import File, pieces, refused, same

from toolkit.errors import ToolkitError
from toolkit.sources.kinds.parquet.source import ParquetSource
from toolkit.sources.options import SourceOptions

# A page's header may say that it has 2 GiB, and pyarrow takes them before it looks at the file's size.
_GROWTH_BYTES = 800 << 20

_FILE = File("a.parquet")


def _limit_memory() -> None:
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + _GROWTH_BYTES, now + _GROWTH_BYTES))


def _expected(fields: list[str]) -> pa.Table:
    with pq.ParquetFile(_FILE.path, page_checksum_verification=True) as file:
        return file.read(fields, use_threads=False)


_limit_memory()


def fuzz(data: bytes) -> object:
    """Use one input."""
    options = SourceOptions(paths=(_FILE.write(data),), slice_bytes=300)
    rows: list[dict[str, Any]] = []
    rejected: list[str] = []
    fields: dict[str, str] = {}
    try:
        for survey, _, made in pieces(ParquetSource(options)):
            fields = {column.column.name: column.field for column in survey.plan.columns}  # type: ignore[attr-defined]
            try:
                rows += made.batch.to_pylist()
            except OverflowError:  # this target's own: Python has no such years
                return "times beyond Python's"
            rejected += [reject.reason for reject in made.rejects]
    except ToolkitError as error:
        return "".join(c for c in refused(error).partition(_FILE.path)[2][:70] if not c.isdigit())
    if not fields:
        return "no rows"
    wanted = _expected(list(fields.values()))
    assert len(rows) + len(rejected) == len(wanted), (len(rows), rejected, len(wanted))
    for row in rows:
        number = int(row.pop("__key__").rpartition("#")[2])
        for name, value in row.items():
            read = wanted[fields[name]][number].as_py()
            assert same(value, read), (name, value, read)
    return len(rows), len(rejected), tuple(fields)[:3]


def seeds() -> list[bytes]:
    """Return small files: values of many types, each way to encode and compress them, several row groups."""
    n = range(20)
    table = pa.table(
        {
            "int": pa.array([i * 3 for i in n], pa.int32()),
            "flag": pa.array([None if i % 3 else i % 2 == 0 for i in n]),
            "float": pa.array([i / 3 for i in n], pa.float32()),
            "text": pa.array([None if i % 5 == 4 else "word" * (i % 4) for i in n]),
            "data": pa.array([b"\xff" * i for i in n], pa.binary()),
            "list": pa.array([None if i % 6 == 5 else list(range(i % 4)) for i in n], pa.list_(pa.int64())),
        }
    )
    odd = pa.table(
        {
            "nested": pa.array([{"a": ["x"] * (i % 3), "b": None if i % 2 else {"c": i}} for i in range(4)]),
            "time": pa.array([datetime.datetime(2020, 1, 1 + i) for i in range(4)], pa.timestamp("us")),
            "money": pa.array([decimal.Decimal(i) for i in range(4)], pa.decimal128(9, 2)),
            "name": pa.array(["a", "b", "a", None]).dictionary_encode(),
            "fixed": pa.array([b"abc", b"def", None, b"ghi"], pa.binary(3)),
            "__index_level_0__": pa.array([0, 1, 2, 3]),
        }
    )
    ways: list[dict[str, Any]] = [
        {"compression": "none"},
        {"compression": "snappy", "write_page_checksum": True},
        {"compression": "none", "use_dictionary": False, "data_page_version": "2.0"},
        {"compression": "zstd", "row_group_size": 7, "data_page_size": 32},
        {"compression": "gzip", "store_schema": False},
        {"compression": "lz4", "use_dictionary": False, "row_group_size": 9},
    ]
    made = []
    for each in (table, odd):
        for way in ways:
            sink = io.BytesIO()
            pq.write_table(each, sink, **way)
            made.append(sink.getvalue())
    encoded = {"int": "DELTA_BINARY_PACKED", "float": "BYTE_STREAM_SPLIT", "text": "DELTA_BYTE_ARRAY"}
    sink = io.BytesIO()
    columns = table.select(list(encoded))
    pq.write_table(columns, sink, use_dictionary=False, column_encoding=encoded, compression="none")
    return [*made, sink.getvalue()]
