"""Parquet as files: which rows are taken, in which order, splits and slices."""

from __future__ import annotations

import pickle
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from parquet_inputs import number_files, packed, read_all, samples, source_of, write

import toolkit
from toolkit.errors import NotFoundError, SourceError, UsageError
from toolkit.format.schema import Kind
from toolkit.pack.job import PackJob


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three files in name order, row groups of 4 rows, n from 0 to 29."""
    return number_files(tmp_path / "src")


# --- order, keys, slices, limit ----------------------------------------------------------------------------------


def test_rows_are_in_order_of_file_names_and_rows(folder: Path, tmp_path: Path) -> None:
    packed(folder, tmp_path / "ds")
    names = [f"a/10.parquet#{i}" for i in range(10)] + [f"a/2.parquet#{i}" for i in range(10)]
    names += [f"b.parquet#{i}" for i in range(10)]
    numbers = [*range(10, 20), *range(10), *range(20, 30)]
    assert samples(tmp_path / "ds") == [
        {"__key__": key, "n": n, "s": f"s{n}"} for key, n in zip(names, numbers, strict=True)
    ]


def test_jobs_and_place_never_change_the_pin(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    for i in range(3):
        blobs = [rng.bytes(int(size)) for size in rng.integers(0, 4000, 300)]
        write(tmp_path / f"src/{i}.parquet", {"n": range(300), "b": blobs}, row_group_size=17)
    (tmp_path / "moved").symlink_to(tmp_path / "src")
    results = [
        packed(tmp_path / source, tmp_path / dataset, jobs=jobs, shard_size=1 << 16)
        for source, dataset, jobs in (("src", "one", 1), ("src", "two", 2), ("moved", "three", 5))
    ]
    assert len({result.pin for result in results}) == 1
    assert results[0].shards > 10
    assert [s["n"] for s in samples(tmp_path / "two")] == [*range(300)] * 3


def test_slices_are_runs_of_row_groups_within_the_size(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    sizes = [1000, 1000, 1000, 20_000, 1000, 1000]
    schema = pa.schema([("b", pa.binary())])
    with pq.ParquetWriter(tmp_path / "x.parquet", schema, use_dictionary=False, write_statistics=False) as writer:
        for size in sizes:
            writer.write_table(pa.table({"b": [rng.bytes(size)]}, schema=schema))
    source = source_of(tmp_path / "x.parquet", slice_bytes=2500)
    survey = source.survey()
    assert [(part.number, part.samples) for part in survey.slices] == [(0, 2), (1, 1), (2, 1), (3, 2)]
    assert pickle.loads(pickle.dumps(survey.slices)) == survey.slices
    plain = (int, str, tuple, bytes)
    assert all(type(value) in plain for part in survey.slices for value in vars(part.payload).values())
    for part in survey.slices:
        assert sum(rows.read_bytes for rows in source.read(survey, part)) == part.bytes
    lengths = [len(blob) for rows in read_all(source, survey) for blob in rows.batch.column("b").to_pylist()]
    assert lengths == sizes


@pytest.mark.parametrize("limit", [1, 4, 5, 10, 11, 29, 30, 100])
def test_limit_takes_the_first_rows_of_each_split(folder: Path, tmp_path: Path, limit: int) -> None:
    order = [*range(10, 20), *range(10), *range(20, 30)]
    packed(folder, tmp_path / "ds", limit=limit, shard_size=1 << 16)
    assert [s["n"] for s in samples(tmp_path / "ds")] == order[:limit]
    survey = source_of(folder, limit=limit, slice_bytes=1).survey()
    assert sum(part.samples or 0 for part in survey.slices) == min(limit, 30)
    assert [n for rows in read_all(source_of(folder), survey) for n in rows.batch.column("n").to_pylist()] == order[
        :limit
    ]


def test_a_field_may_be_the_key(folder: Path, tmp_path: Path) -> None:
    packed(folder, tmp_path / "text", key="s")
    assert samples(tmp_path / "text")[0] == {"__key__": "s10", "n": 10}
    packed(folder, tmp_path / "int", key="n", columns=("n",))
    assert samples(tmp_path / "int")[0] == {"__key__": "10", "n": 10}
    with pytest.raises(UsageError, match="--key names 'm'"):
        packed(folder, tmp_path / "no", key="m")
    source = write(tmp_path / "x.parquet", {"k": ["a", None, "c"], "f": [1.5, 2.5, 3.5]})
    result = packed(source, tmp_path / "null", key="k", max_rejects=1)
    assert [(r.key, r.reason) for r in result.rejects] == [("x.parquet#1", "the key field 'k' is null")]
    with pytest.raises(UsageError, match="keys are text or integers"):
        packed(source, tmp_path / "no", key="f")
    with pytest.raises(SourceError, match="'x' occurs twice"):
        packed(write(tmp_path / "y.parquet", {"k": ["x", "x"], "n": [1, 2]}), tmp_path / "no", key="k")


def test_columns_are_chosen_mapped_and_renamed(folder: Path, tmp_path: Path) -> None:
    packed(folder, tmp_path / "columns", columns=("s",), rename={"s": "text"}, limit=1)
    assert samples(tmp_path / "columns") == [{"__key__": "a/10.parquet#0", "text": "s10"}]
    packed(folder, tmp_path / "map", map={"x": "n", "y": "n", "z": "s"}, limit=1)
    assert samples(tmp_path / "map") == [{"__key__": "a/10.parquet#0", "x": 10, "y": 10, "z": "s10"}]
    with pytest.raises(UsageError, match=r"--columns names 'q'.*it has n, s"):
        packed(folder, tmp_path / "no", columns=("q",))


def test_columns_with_dots_and_strange_names(tmp_path: Path) -> None:
    columns = {"a": pa.array([{"b": 1}]), "a.b": ["x"], "ü ö": [2.5], "a.b.c": [True]}
    source = write(tmp_path / "x.parquet", columns)
    packed(source, tmp_path / "all")
    assert samples(tmp_path / "all") == [
        {"__key__": "x.parquet#0", "a": {"b": 1}, "a.b": "x", "ü ö": 2.5, "a.b.c": True}
    ]
    packed(source, tmp_path / "one", columns=("a.b",))
    assert samples(tmp_path / "one") == [{"__key__": "x.parquet#0", "a.b": "x"}]


def test_an_index_of_pandas_is_left_out_unless_asked_for(tmp_path: Path) -> None:
    write(tmp_path / "src/a.parquet", {"n": [1], "__index_level_0__": [7]})
    write(tmp_path / "src/b.parquet", {"n": [2]})
    result = packed(tmp_path / "src", tmp_path / "ds")
    assert result.skipped["pandas_index"] == sum(result.skipped.values()) == 1
    assert result.skipped_names == {"pandas_index": ("__index_level_0__",)}
    assert [s["n"] for s in samples(tmp_path / "ds")] == [1, 2]
    packed(tmp_path / "src/a.parquet", tmp_path / "key", key="__index_level_0__")
    assert samples(tmp_path / "key") == [{"__key__": "7", "n": 1}]


# --- splits and partitions ---------------------------------------------------------------------------------------


def test_splits_come_from_names(tmp_path: Path) -> None:
    for i, name in enumerate(("data/train-00000-of-00002", "data/train-00001-of-00002", "data/test-00000-of-00001")):
        write(tmp_path / f"src/{name}.parquet", {"n": [i]})
    result = packed(tmp_path / "src", tmp_path / "ds", limit=1)
    assert result.splits == {"train": 1, "test": 1}
    assert packed(tmp_path / "src", tmp_path / "one", split="test").splits == {"test": 1}
    with pytest.raises(NotFoundError, match="train, test"):
        packed(tmp_path / "src", tmp_path / "no", split="val")
    with pytest.raises(UsageError, match="can't name a split"):
        packed(tmp_path / "src", tmp_path / "no", split="../x")


def test_partition_folders_become_columns(tmp_path: Path) -> None:
    write(tmp_path / "src/year=2023/city=K%C3%B6ln/x.parquet", {"n": [1, 2]})
    write(tmp_path / "src/year=0/city=__HIVE_DEFAULT_PARTITION__/x.parquet", {"n": [3]})
    packed(tmp_path / "src", tmp_path / "ds")
    assert samples(tmp_path / "ds") == [
        {"__key__": "year=0/city=__HIVE_DEFAULT_PARTITION__/x.parquet#0", "n": 3, "year": 0, "city": None},
        {"__key__": "year=2023/city=K%C3%B6ln/x.parquet#0", "n": 1, "year": 2023, "city": "Köln"},
        {"__key__": "year=2023/city=K%C3%B6ln/x.parquet#1", "n": 2, "year": 2023, "city": "Köln"},
    ]
    packed(tmp_path / "src", tmp_path / "only", columns=("city",))
    assert [s["city"] for s in samples(tmp_path / "only")] == [None, "Köln", "Köln"]
    packed(tmp_path / "src", tmp_path / "label", kind={"city": Kind.LABEL}, columns=("n", "city"))
    assert toolkit.open(tmp_path / "label").classes == ("Köln",)
    assert [s["city"] for s in samples(tmp_path / "label")] == [None, 0, 0]


def test_partitions_of_polars(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"n": [1, 2, 3], "k": ["1", "x", "1"]})
    frame.write_parquet(tmp_path / "src", partition_by="k", mkdir=True)
    packed(tmp_path / "src", tmp_path / "ds")
    assert sorted((s["n"], s["k"]) for s in samples(tmp_path / "ds")) == [(1, "1"), (2, "x"), (3, "1")]


def test_a_partition_may_tell_the_split_and_a_column_beats_it(tmp_path: Path) -> None:
    write(tmp_path / "src/split=train/x.parquet", {"n": [1]})
    write(tmp_path / "src/split=test/x.parquet", {"n": [2]})
    assert packed(tmp_path / "src", tmp_path / "ds").splits == {"train": 1, "test": 1}
    assert samples(tmp_path / "ds", "test") == [{"__key__": "split=test/x.parquet#0", "n": 2, "split": "test"}]
    write(tmp_path / "own/n=5/x.parquet", {"n": [1]})
    packed(tmp_path / "own", tmp_path / "beats")
    assert samples(tmp_path / "beats") == [{"__key__": "n=5/x.parquet#0", "n": 1}]


def test_partition_folders_must_agree(tmp_path: Path) -> None:
    write(tmp_path / "src/a=1/x.parquet", {"n": [1]})
    write(tmp_path / "src/b=1/x.parquet", {"n": [1]})
    with pytest.raises(SourceError, match=r"partition folders \(a=…\).*\(b=…\)"):
        packed(tmp_path / "src", tmp_path / "ds")


# --- memory ------------------------------------------------------------------------------------------------------


def test_pieces_are_small_whatever_the_row_group(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    blobs = [rng.bytes(20_000) for _ in range(4000)]
    path = write(tmp_path / "x.parquet", {"b": blobs}, use_dictionary=False, row_group_size=4000)
    source = source_of(path, slice_bytes=1 << 30)
    survey = source.survey()
    before = pa.total_allocated_bytes()
    most = 0
    for rows in source.read(survey, survey.slices[0]):
        assert rows.batch.nbytes < 5 << 20
        most = max(most, pa.total_allocated_bytes() - before)
    assert most < 48 << 20
    assert len(survey.slices) == 1


def test_a_dictionary_of_large_values_expands_in_small_pieces(tmp_path: Path) -> None:
    same = pa.DictionaryArray.from_arrays(np.zeros(4000, np.int32), pa.array([b"x" * 500_000]))
    path = write(tmp_path / "x.parquet", {"b": same}, row_group_size=4000, store_schema=False)
    assert path.stat().st_size < 1 << 20
    source = source_of(path)
    survey = source.survey()
    rows = 0
    for piece in source.read(survey, survey.slices[0]):
        assert piece.batch.nbytes <= 65 << 20
        rows += piece.batch.num_rows
        if rows > 500:
            break


def test_slices_are_read_from_several_threads(folder: Path) -> None:
    source = source_of(folder, slice_bytes=1)
    survey = source.survey()
    got: dict[int, list[int]] = {}

    def read(number: int) -> None:
        parts = source.read(survey, survey.slices[number])
        got[number] = [n for rows in parts for n in rows.batch.column("n").to_pylist()]

    threads = [threading.Thread(target=read, args=(i,)) for i in range(len(survey.slices))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [n for i in sorted(got) for n in got[i]] == [*range(10, 20), *range(10), *range(20, 30)]


def test_names_that_tell_splits_beside_others_are_refused(tmp_path: Path) -> None:
    for i, name in enumerate(("train-0", "val-0", "extra")):
        write(tmp_path / f"src/{name}.parquet", {"n": [i]})
    with pytest.raises(SourceError, match=r"train-0.*extra.*--split"):
        packed(tmp_path / "src", tmp_path / "ds")
    assert packed(tmp_path / "src", tmp_path / "ds", exclude=("extra*",)).splits == {"train": 1, "val": 1}
    assert packed(tmp_path / "src", tmp_path / "all", split="all").splits == {"all": 3}


def test_links_back_to_a_folder_are_not_followed(tmp_path: Path) -> None:
    write(tmp_path / "src/a/x.parquet", {"n": [1]})
    write(tmp_path / "other/y.parquet", {"n": [2]})
    (tmp_path / "src/a/loop").symlink_to("..")
    (tmp_path / "src/linked").symlink_to(tmp_path / "other")
    (tmp_path / "other/back").symlink_to(tmp_path / "src/a")
    result = packed(tmp_path / "src", tmp_path / "ds", follow_links=True)
    assert result.skipped_names == {"loops": ("a/loop", "linked/back/loop")}
    keys = [sample["__key__"] for sample in samples(tmp_path / "ds")]
    assert keys == ["a/x.parquet#0", "linked/back/x.parquet#0", "linked/y.parquet#0"]


def test_texts_that_are_not_utf8_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    write(tmp_path / "x.parquet", {"n": [1]})
    for options in ({"user_metadata": {"a": "\udcff"}}, {"rename": {"n": "\udcff"}}, {"key": "\udcff"}):
        with pytest.raises(UsageError, match="UTF-8"):
            packed(tmp_path / "x.parquet", tmp_path / "ds", **options)
    assert not (tmp_path / "ds").exists()
    assert packed(tmp_path / "x.parquet", tmp_path / "ds", exclude=("\udcff",)).samples == 1


def test_an_empty_key_is_rejected(tmp_path: Path) -> None:
    write(tmp_path / "x.parquet", {"k": ["", "a"], "n": [1, 2]})
    result = packed(tmp_path / "x.parquet", tmp_path / "ds", key="k", max_rejects=1)
    assert [reject.reason for reject in result.rejects] == ["the key field 'k' is empty"]


def test_a_share_of_rejects_is_exact() -> None:
    assert PackJob(source="s", dataset="d", max_rejects=0.29).allowed_rejects(100) == 29
