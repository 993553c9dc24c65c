"""Single samples: the native reader against Arrow's own values, and what it says of damage."""

from __future__ import annotations

import os
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from waiting import tick

import toolkit
from toolkit._native.shards.locate import FileIdentity
from toolkit.errors import CorruptShardError
from toolkit.pack.job import PackJob
from toolkit.pack.run import pack

LIMITS = {
    pa.int8(): (-128, 127),
    pa.uint8(): (0, 255),
    pa.int16(): (-(1 << 15), (1 << 15) - 1),
    pa.uint16(): (0, (1 << 16) - 1),
    pa.int32(): (-(1 << 31), (1 << 31) - 1),
    pa.uint32(): (0, (1 << 32) - 1),
    pa.int64(): (-(1 << 63), (1 << 63) - 1),
    pa.uint64(): (0, (1 << 64) - 1),
}
VALUES = {
    **{dtype: st.integers(*limits) for dtype, limits in LIMITS.items()},
    pa.float32(): st.floats(width=32, allow_nan=False),
    pa.float64(): st.floats(allow_nan=False),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(max_size=12),
    pa.large_string(): st.text(max_size=12),
    pa.binary(): st.binary(max_size=12),
    pa.decimal128(9, 2): st.integers(-9999, 9999).map(lambda n: Decimal(n) / 100),
    pa.list_(pa.int16()): st.lists(st.integers(-5, 5), max_size=3),
}


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    rows = draw(st.integers(1, 20))
    types = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=5))
    return pa.table(
        {
            f"c{i}": pa.array(draw(st.lists(st.none() | VALUES[dtype], min_size=rows, max_size=rows)), dtype)
            for i, dtype in enumerate(types)
        }
    )


def packed(folder: Path, table: pa.Table, name: str = "ds") -> toolkit.Dataset:
    pq.write_table(table, folder / "in.parquet")
    pack(PackJob(source=str(folder / "in.parquet"), dataset=str(folder / name)))
    return toolkit.open(folder / name)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(tables())
def test_every_sample_is_what_was_packed(tmp_path_factory: pytest.TempPathFactory, table: pa.Table) -> None:
    ds = packed(tmp_path_factory.mktemp("values"), table)
    expected = table.to_pylist()
    for i in (*range(len(ds)), -1):
        sample = ds[i]
        assert list(sample) == ["__key__", *table.column_names]
        assert {name: sample[name] for name in table.column_names} == expected[i]
        assert [type(sample[name]) for name in table.column_names] == [type(value) for value in expected[i].values()]


def test_values_of_every_size_come_whole(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    sizes = [0, 1, 16383, 16384, 16385, 65535, 65536, 200_000, 3_000_000]
    values = [rng.integers(0, 256, size, dtype=np.uint8).tobytes() for size in sizes]
    ds = packed(tmp_path, pa.table({"data": pa.array(values, pa.binary())}))
    order = rng.permutation(len(sizes)).tolist()
    assert [ds[i]["data"] for i in order] == [values[i] for i in order]
    assert [ds[i]["data"] for i in order] == [values[i] for i in order]  # and again, from chunks that are checked


def test_a_flipped_byte_names_shard_row_key_and_column(tmp_path: Path) -> None:
    ds = packed(tmp_path, pa.table({"data": [b"first" * 9000, b"second" * 9000], "n": [1, 2]}))
    (file,) = ds.files
    content = Path(file).read_bytes()
    at = content.rindex(b"second")  # not in the chunk that the key lies in
    Path(file).write_bytes(content[:at] + b"S" + content[at + 1 :])
    damaged = toolkit.open(tmp_path / "ds")
    with pytest.raises(CorruptShardError, match=r"row 1, key '.*', column data: .*CRC32C"):
        damaged[1]


def test_a_shard_that_changes_while_it_is_open_is_noticed(tmp_path: Path) -> None:
    ds = packed(tmp_path, pa.table({"data": [b"a", b"b"]}))
    assert ds[0]["data"] == b"a"
    (file,) = ds.files
    os.utime(file, ns=(1, 1))
    with pytest.raises(CorruptShardError, match="was changed while it was open"):
        ds[1]


def test_a_shard_that_was_removed_by_name_still_delivers(tmp_path: Path) -> None:
    ds = packed(tmp_path, pa.table({"data": [b"a", b"b"]}))
    assert ds[0]["data"] == b"a"
    os.unlink(ds.files[0])
    assert ds[1]["data"] == b"b"


def test_identity_is_size_and_times_of_the_very_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one")
    tick(tmp_path)
    stat = path.stat()
    identity = FileIdentity(os.fsencode(path), stat)
    assert not identity.changed()
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    assert (identity.changed(), identity.rewritten()) == (True, True)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert (identity.changed(), identity.rewritten()) == (True, False)  # it may have been written in between
    path.write_bytes(b"four")
    assert (identity.changed(), identity.rewritten()) == (True, True)
    other = tmp_path / "other"
    other.write_bytes(b"another file of that name")
    os.replace(other, path)
    assert (identity.changed(), identity.rewritten()) == (False, False)


def test_rows_outside_are_refused(tmp_path: Path) -> None:
    ds = packed(tmp_path, pa.table({"n": [1, 2]}))
    for index in (2, -3):
        with pytest.raises(IndexError, match=f"sample {index} of 2"):
            ds[index]
