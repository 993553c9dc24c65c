"""Parquet files that don't fit together, are damaged, or change while they are packed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from parquet_inputs import number_files, packed, read_all, samples, source_of, write

import toolkit
from toolkit.errors import NotFoundError, SourceError
from toolkit.format.schema import Kind
from toolkit.pack.job import OnExisting
from toolkit.sources.kinds.parquet.files import looks_like_parquet


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three files in name order, row groups of 4 rows, n from 0 to 29."""
    return number_files(tmp_path / "src")


def test_schemas_must_agree(tmp_path: Path) -> None:
    write(tmp_path / "src/a.parquet", {"n": [1], "s": ["x"]})
    write(tmp_path / "src/b.parquet", {"n": [1.5], "s": ["x"]})
    with pytest.raises(SourceError, match=r"column 'n' is int64 in '.*a\.parquet' and is double in '.*b\.parquet'"):
        packed(tmp_path / "src", tmp_path / "ds")
    packed(tmp_path / "src", tmp_path / "ds", columns=("s",))
    write(tmp_path / "src/b.parquet", {"n": [1]})
    with pytest.raises(SourceError, match=r"column 's' is string in '.*a\.parquet' and isn't in '.*b\.parquet'"):
        packed(tmp_path / "src", tmp_path / "no")
    write(tmp_path / "src/b.parquet", {"n": [1], "s": ["y"], "z": [1]})
    with pytest.raises(SourceError, match=r"column 'z' isn't in '.*a\.parquet' and is int64 in '.*b\.parquet'"):
        packed(tmp_path / "src", tmp_path / "no")
    assert packed(tmp_path / "src", tmp_path / "left", exclude=("b.*",)).samples == 1


def test_order_of_columns_and_dictionaries_are_no_difference(tmp_path: Path) -> None:
    write(tmp_path / "src/a.parquet", {"n": [1], "s": ["x"]})
    write(tmp_path / "src/b.parquet", {"s": pa.array(["y"]).dictionary_encode(), "n": [2]})
    packed(tmp_path / "src", tmp_path / "ds")
    assert [(s["n"], s["s"]) for s in samples(tmp_path / "ds")] == [(1, "x"), (2, "y")]


def test_empty_files_are_fine(tmp_path: Path) -> None:
    write(tmp_path / "src/a.parquet", {"n": pa.nulls(0)})
    write(tmp_path / "src/b.parquet", {"n": [1]})
    write(tmp_path / "src/c.parquet", {"n": pa.array([], pa.int64())})
    packed(tmp_path / "src", tmp_path / "ds")
    assert [s["n"] for s in samples(tmp_path / "ds")] == [1]
    with pytest.raises(SourceError, match=r"c\.parquet' holds no samples$"):
        packed(tmp_path / "src/c.parquet", tmp_path / "none")


def test_text_that_is_not_utf8_is_rejected(tmp_path: Path) -> None:
    def text(*items: bytes | None) -> pa.Array:
        return pa.array(items, pa.binary()).view(pa.string())

    lists = pa.ListArray.from_arrays([0, 1, 2, 3, 4], text(b"a", b"b", b"\xff", b"c"))
    columns = {"k": text(b"a", b"\xfe", b"c", b"d"), "s": text(b"\xff", b"ok", b"x", None), "l": lists}
    source = write(tmp_path / "x.parquet", columns)
    result = packed(source, tmp_path / "ds", key="k", max_rejects=3)
    assert [(r.key, r.reason) for r in result.rejects] == [
        ("a", "column 's': text is not valid UTF-8"),
        ("x.parquet#1", "column 'k': text is not valid UTF-8"),
        ("c", "column 'l': text is not valid UTF-8"),
    ]
    assert samples(tmp_path / "ds") == [{"__key__": "d", "s": None, "l": ["c"]}]
    result = packed(source, tmp_path / "label", columns=("s",), kind={"s": Kind.LABEL}, max_rejects=1)
    assert result.rejects[0].reason == "column 's': text is not valid UTF-8"
    assert toolkit.open(tmp_path / "label").classes == ("ok", "x")


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: b"PAR1",
        lambda data: data[:-1],
        lambda data: data[: len(data) // 2],
        lambda data: data[:-12] + b"\xff" * 4 + data[-8:],
        lambda data: data[:-8] + b"\xff\xff\xff\x7f" + data[-4:],
        lambda data: b"no parquet at all" * 10,
    ],
)
def test_a_damaged_footer_names_the_file(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    path = write(tmp_path / "src/sub/x.parquet", {"n": range(1000)})
    write(tmp_path / "src/y.parquet", {"n": range(1000)})
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(SourceError, match=r"x\.parquet' has no readable Parquet footer.*--exclude 'sub/x\.parquet'"):
        packed(tmp_path / "src", tmp_path / "ds")
    assert packed(tmp_path / "src", tmp_path / "ds", exclude=("sub/x.parquet",)).samples == 1000


def flip(path: Path, column: int, group: int) -> None:
    """Flip a bit in the middle of a column chunk, and keep the file's time."""
    with pq.ParquetFile(path) as file:
        chunk = file.metadata.row_group(group).column(column)
    data = bytearray(path.read_bytes())
    data[chunk.data_page_offset + chunk.total_compressed_size * 3 // 4] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
def test_a_flipped_bit_in_a_page_with_a_checksum_names_the_column(tmp_path: Path, compression: str) -> None:
    columns = {"n": range(1000), "b": [os.urandom(50) for _ in range(1000)]}
    path = write(
        tmp_path / "src/x.parquet",
        columns,
        row_group_size=400,
        use_dictionary=False,
        write_page_checksum=True,
        compression=compression,
    )
    flip(path, 1, 1)
    with pytest.raises(
        SourceError, match=r"x\.parquet', row group 1, column 'b': can't be read \(.*--exclude 'x\.parquet'"
    ):
        packed(path.parent, tmp_path / "ds")
    assert not (tmp_path / "ds/manifest.json").exists()
    assert packed(path.parent, tmp_path / "ds", columns=("n",), on_existing=OnExisting.OVERWRITE).samples == 1000


def test_a_page_that_cant_be_decompressed_names_the_column(tmp_path: Path) -> None:
    columns = {"n": range(1000), "s": ["ab" * (i % 50) for i in range(1000)]}
    path = write(tmp_path / "x.parquet", columns, use_dictionary=False, compression="zstd")
    flip(path, 1, 0)
    with pytest.raises(SourceError, match=r"row group 0, column 's': can't be read"):
        packed(path, tmp_path / "ds")


def test_a_file_changed_during_the_pack_is_refused(folder: Path) -> None:
    source = source_of(folder)
    survey = source.survey()
    file = folder / "b.parquet"
    os.utime(file, ns=(1, 1))
    with pytest.raises(SourceError, match=r"b\.parquet' was changed"):
        read_all(source, survey)
    survey = source.survey()
    reading = iter(source.read(survey, survey.slices[-1]))
    next(reading)
    os.utime(file, ns=(2, 2))
    with pytest.raises(SourceError, match=r"b\.parquet' was changed"):
        list(reading)
    survey = source.survey()
    file.unlink()
    with pytest.raises(toolkit.errors.StorageError, match=r"b\.parquet"):
        read_all(source, survey)


def test_no_input(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    with pytest.raises(SourceError, match=r"no input file in .*; passed over: nothing"):
        packed(tmp_path / "src", tmp_path / "ds")
    with pytest.raises(NotFoundError):
        packed(tmp_path / "sr", tmp_path / "ds")


def test_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]), tmp_path / "x.parquet")
    with pytest.raises(SourceError, match="several columns called 'a'"):
        packed(tmp_path / "x.parquet", tmp_path / "ds")


def test_looks_like_parquet(folder: Path, tmp_path: Path) -> None:
    assert looks_like_parquet(str(folder / "b.parquet"))
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    (tmp_path / "y.parquet").write_bytes(b"not at all PAR1")
    (tmp_path / "z.pq").write_bytes(b"")
    for name in ("x.parquet", "y.parquet", "z.pq"):
        assert not looks_like_parquet(str(tmp_path / name))
    (folder / "b.parquet").rename(tmp_path / "anything")
    assert looks_like_parquet(str(tmp_path / "anything"))
