"""Answers of queries against polars over the same rows; which columns are read; errors of shards; types; files."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import commit_columns
from format import arrow_values
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import toolkit
from toolkit.checks.query_columns import Meaning, QueryColumn, series_of
from toolkit.errors import CorruptShardError, CorruptTableError, NotFoundError, StorageError, UsageError
from toolkit.format.schema import KEY, Column, Kind, arrow_schema, label_column
from toolkit.format.tables import encode_label_table, sha256
from toolkit.format.values import python_value
from toolkit.loader.dataset.fetch import Fetcher

CLASSES = ("cat", "dog é 花", 'qu"ote', "\x1b[31m")


def batch(start: int, rows: int, seed: int = 0) -> pa.RecordBatch:
    """Rows with columns of the usual types; every one has nulls but the key."""
    rng = np.random.default_rng(seed + start)

    def thinned(values: Any, dtype: pa.DataType) -> pa.Array:
        return pa.array(values, dtype, mask=rng.random(rows) < 0.2)

    numbers = rng.integers(-5, 5, rows).astype(np.float64)
    numbers[rng.random(rows) < 0.1] = np.nan
    return pa.RecordBatch.from_pydict(
        {
            KEY: [f"k{start + i:05d}" for i in range(rows)],
            "label": thinned(rng.integers(0, 3, rows), pa.int64()),
            "score": thinned(numbers, pa.float64()),
            "huge": thinned(rng.integers(-(2**63), 2**63 - 1, rows), pa.int64()),
            "text": thinned([f"t{number}" for number in rng.integers(0, 9, rows)], pa.string()),
            "picture": thinned([b"\0" * 200] * rows, pa.binary()),
        }
    )


def write(root: Path, splits: dict[str, list[list[pa.RecordBatch]]]) -> Path:
    table = sha256(encode_label_table(CLASSES))
    columns = (
        label_column("label", table),
        Column(name="score", kind=Kind.SCALAR, arrow_type="double"),
        Column(name="huge", kind=Kind.SCALAR, arrow_type="int64"),
        Column(name="text", kind=Kind.TEXT, arrow_type="string"),
        Column(name="picture", kind=Kind.BYTES, arrow_type="binary"),
    )
    types = {
        "label": pa.int64(),
        "score": pa.float64(),
        "huge": pa.int64(),
        "text": pa.string(),
        "picture": pa.binary(),
    }
    classes = {"label": CLASSES}
    schema = arrow_schema(columns, types, classes)
    names = [name for name in schema.names if name != "__digest__"]
    ordered = {split: [[one.select(names) for one in shard] for shard in shards] for split, shards in splits.items()}
    commit_columns(root, ordered, columns, schema, classes, batch_body_bytes=1 << 14, changes={})
    return root


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pl.DataFrame]:
    """A dataset of three splits, one of them empty; and the same rows in polars, labels by name."""
    parts = {"train": [[batch(0, 300), batch(300, 40)], [batch(340, 60)]], "val": [[batch(400, 50)]], "none": [[]]}
    root = write(tmp_path_factory.mktemp("query") / "ds", parts)
    tables = []
    for split in ("train", "val"):
        table = pa.Table.from_batches([one for shard in parts[split] for one in shard])
        frame = pl.DataFrame(table).with_columns(split=pl.lit(split), label_id="label")
        tables.append(frame.with_columns(label=pl.Series(CLASSES[:3]).gather(frame["label"])))
    return root, pl.concat(tables)


def same(found: pl.DataFrame, expected: pl.DataFrame, *, ordered: bool) -> None:
    assert found.columns == expected.columns
    assert found.schema == expected.schema
    if not ordered:
        found, expected = (frame.sort(frame.columns) for frame in (found, expected))
    assert found.equals(expected, null_equal=True)


QUERIES = [
    "select label, count(*) as n from T group by label",
    "select label, count(*), avg(score), min(huge), max(text) from T group by label",
    "select label_id, label, text from T where label_id >= 1 and score > 0",
    "select __key__, score from T where score between -2 and 2 order by score desc, __key__ limit 7",
    "select __key__ from T where text like 't1%' or text is null order by __key__",
    "select __key__, huge from T order by huge limit 5 offset 3",
    "select distinct label from T where label is not null",
    "select count(*), count(label), count(distinct text), sum(huge % 7) from T",
    "select T.__key__, u.text from T join T u on T.__key__ = u.__key__ where u.label = 'cat'",
    "select upper(label) as up, length(label) as n from T where label like 'd%'",
    "with c as (select label, count(*) as n from T group by label) select * from c where n > 20",
    "select __key__ from T where label in (select label from T where score > 3)",
    "select text, row_number() over (partition by label order by __key__) as i, label from T",
    "select label from T union select text from T",
    "select coalesce(label, 'none') as label, case when score > 0 then 'more' else 'less' end as c from T",
    "select label from T where false",
    "with s as (select * from T where __key__ < 'k00007') select count(*) from s a, s b, s c where a.text < c.text",
    "select count(*) from T a, T b, T c where a.__key__ = c.__key__ and b.__key__ = 'k00007'",
    "select count(*) from (select 1 as one from T where score > 0) q cross join T x where x.label = 'cat'",
    "select 1 as one from T where score > 3",
    "select octet_length(text), picture from T where label = 'cat' order by __key__ limit 3",
    "select sum(case when label is null then 1 else 0 end) as missing from T having count(*) > 1",
]


@pytest.mark.parametrize("sql", QUERIES)
@pytest.mark.parametrize("table", ["train", "samples", "none"])
def test_answers_are_those_of_polars(sql: str, table: str, rows: tuple[Path, pl.DataFrame]) -> None:
    root, frame = rows
    whole = frame if table == "samples" else frame.filter(pl.col("split") == table)
    names = {"T": whole.select(KEY, "label", "score", "huge", "text", "picture", "split", "label_id")}
    expected = pl.SQLContext(names).execute(sql, eager=True)
    query = sql.replace("T.", f"{table}.").replace(" T ", f" {table} ").replace(" T)", f" {table})")
    query = query.removesuffix(" T") + (f" {table}" if query.endswith(" T") else "")
    same(toolkit.query(root, query).to_polars(), expected, ordered="order by" in sql and "over" not in sql)


COMPARED = [
    "label = 'cat'",
    "label <> 'dog é 花'",
    "label is null",
    "score > 1",
    "huge < 0",
    "text >= 't5'",
    "label_id = 2",
]
SHOWN = ["label", "score", "huge", "text", "label_id", "__key__", "score * 2 as s", "upper(text) as u"]


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_random_queries_answer_as_polars_does(data: st.DataObject, rows: tuple[Path, pl.DataFrame]) -> None:
    root, frame = rows
    shown = data.draw(st.lists(st.sampled_from(SHOWN), min_size=1, max_size=4, unique=True))
    terms = data.draw(st.lists(st.sampled_from(COMPARED), max_size=3))
    sql = f"select {', '.join(shown)} from train"
    sql += f" where {data.draw(st.sampled_from([' and ', ' or '])).join(terms)}" if terms else ""
    if data.draw(st.booleans()):
        sql += f" order by __key__ limit {data.draw(st.integers(0, 500))} offset {data.draw(st.integers(0, 500))}"
    expected = pl.SQLContext({"train": frame.filter(pl.col("split") == "train")}).execute(sql, eager=True)
    same(toolkit.query(root, sql).to_polars(), expected, ordered=True)


# --- what is read -------------------------------------------------------------------------------------------------


@pytest.fixture
def reads() -> Any:
    """The (column, rows) of every read of shards."""
    told: list[tuple[str, int]] = []
    real = Fetcher.array

    def array(self: Fetcher, column: str, number: int, start: int = 0, count: int | None = None) -> pa.Array:
        found = real(self, column, number, start, count)
        told.append((column, len(found)))
        return found

    with mock.patch.object(Fetcher, "array", array):
        yield told


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("select count(*) from train", set()),
        ("select count(*) from samples where split = 'val'", set()),
        ("select label, count(*) from train group by label", {"label"}),
        ("select label, label_id from train where score > 0", {"label", "score"}),
        ("select * from train", {KEY, "label", "score", "huge", "text"}),
        ("select *, picture from train", {KEY, "label", "score", "huge", "text", "picture"}),
        ("select * exclude (text) from train where label_id = 1", {KEY, "label", "score", "huge"}),
        ("select picture from train where label = 'no such'", {"label"}),
    ],
)
def test_only_columns_that_are_needed_are_read(
    sql: str, columns: set[str], rows: tuple[Path, pl.DataFrame], reads: list[tuple[str, int]]
) -> None:
    toolkit.query(rows[0], sql).to_polars()
    assert {column for column, _ in reads} == columns


def test_limit_reads_no_more_rows(rows: tuple[Path, pl.DataFrame], reads: list[tuple[str, int]]) -> None:
    assert toolkit.query(rows[0], "select text from train limit 10").to_polars().height == 10
    assert sum(count for _, count in reads) == 10


def test_of_other_columns_only_rows_that_pass_are_read(
    rows: tuple[Path, pl.DataFrame], reads: list[tuple[str, int]]
) -> None:
    found = toolkit.query(rows[0], "select picture from train where __key__ = 'k00007'").to_polars()
    assert found.height == 1
    assert [count for column, count in reads if column == "picture"] == [1]


def test_nothing_is_read_before_the_answer_is_asked_for(
    rows: tuple[Path, pl.DataFrame], reads: list[tuple[str, int]]
) -> None:
    answer = toolkit.query(rows[0], "select label, score from train")
    assert answer.columns == {"label": "String", "score": "Float64"}
    assert repr(answer) == "<toolkit.QueryResult label: String, score: Float64>"
    assert reads == []
    assert answer.to_arrow(3).num_rows == 3
    assert sum(frame.height for frame in answer.batches()) == 400


def test_no_other_library_is_imported(rows: tuple[Path, pl.DataFrame]) -> None:
    script = (
        "import sys, toolkit\n"
        f"toolkit.query({str(rows[0])!r}, 'select label, count(*) from train where score > 0 group by label').rows()\n"
        "print([name for name in ('pandas', 'torch', 'jax', 'PIL') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("[]\n", "")


# --- tables and columns -------------------------------------------------------------------------------------------


def test_star_leaves_large_columns_out_and_says_so(rows: tuple[Path, pl.DataFrame]) -> None:
    for sql, columns, left_out in (
        ("select * from train", [KEY, "label", "score", "huge", "text"], ("picture",)),
        ("select * from samples", [KEY, "label", "score", "huge", "text", "split"], ("picture",)),
        ("select *, picture from train", [KEY, "label", "score", "huge", "text", "picture"], ()),
        ("select t.*, label_id from train t", [KEY, "label", "score", "huge", "text", "label_id"], ("picture",)),
        ("select * exclude (label, huge), picture from train", [KEY, "score", "text", "picture"], ()),
        ("select * except (label) from train where label_id = 1", [KEY, "score", "huge", "text"], ("picture",)),
        ("select count(*) as n from train", ["n"], ()),
        ("select columns('^s') from train", ["score"], ("picture",)),
        ("select * from (select label_id, picture from train)", ["label_id", "picture"], ()),
    ):
        answer = toolkit.query(rows[0], sql)
        assert (list(answer.columns), answer.left_out) == (columns, left_out), sql


def test_from_may_be_left_out_with_one_split(tmp_path: Path) -> None:
    root = write(tmp_path / "ds", {"all data": [[batch(0, 30)]]})
    one = toolkit.query(root, "select label, count(*) as n group by label order by n desc, label")
    two = toolkit.query(root, 'select label, count(*) as n from "all data" group by label order by n desc, label')
    assert one.rows() == two.rows() != []


def test_names_that_are_taken_get_underscores(tmp_path: Path, commit_rows: Callable[..., str]) -> None:
    piece = pa.RecordBatch.from_pydict({KEY: ["a", "b"], "split": [1, 2]})
    commit_rows(tmp_path / "ds", {"samples": [[piece]], "train": [[]]})
    found = toolkit.query(
        tmp_path / "ds", "select split, __split__ as s, count(*) as n from __samples__ group by all order by 1"
    )
    assert found.rows() == [{"split": 1, "s": "samples", "n": 1}, {"split": 2, "s": "samples", "n": 1}]


def test_what_is_not_packed_is_asked_at_once(image_folder: Path) -> None:
    counts = toolkit.query(image_folder, "select label, count(*) as n from train group by label order by label")
    assert counts.rows() == [{"label": "cat", "n": 6}, {"label": "dog", "n": 6}]
    assert toolkit.query(pl.DataFrame({"a": [1, 2, 4]}), "select sum(a) as s, max(a) as m").rows() == [{"s": 7, "m": 4}]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        (
            "select lable from train",
            "train has no column 'lable'; the columns are __key__, label, .* Did you mean 'label'",
        ),
        ("select Label from train", "Did you mean 'label'"),
        ("select labl", "no column 'labl'.* Did you mean 'label'"),
        ("select label, count(*) from train", "'label' should participate in the GROUP BY"),
        ("select label from train where", "Expected: an expression, found: EOF"),
        ("select label, , text from train", r"Expected: an expression, found: , \(column 15\)"),
        ("select label from train where label = 3", "'label' holds the names of classes, .* ids are in 'label_id'"),
        ("select label from train where 3 < label", "'label' holds the names of classes"),
        ("select label from train where train.label not in (1, 2)", "'label' holds the names of classes"),
        ("select x.text from (select label from train) as x", "text"),
        ("select text[1] from train", "query: "),
        ("select score, score from train", "duplicate"),
        ("select array_get(label) from train", "query: "),
        ("select no_such(label) from train", r"there is no function no_such\(…\)"),
        ("select label from no_such", "there are none, train, val, samples"),
    ],
)
def test_what_polars_cannot_do_is_a_usage_error(sql: str, said: str, rows: tuple[Path, pl.DataFrame]) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        toolkit.query(rows[0], sql).to_polars()
    assert len(str(caught.value)) < 600
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("sql", [None, 3, "", b"select 1"])
def test_sql_is_text(sql: Any, rows: tuple[Path, pl.DataFrame]) -> None:
    with pytest.raises(UsageError, match=r"sql: expected text"):
        toolkit.query(rows[0], sql)


def test_a_dataset_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        toolkit.query(tmp_path / "nothing", "select 1")


# --- damage -------------------------------------------------------------------------------------------------------


def test_a_damaged_value_is_the_error_that_it_always_is(tmp_path: Path) -> None:
    root = write(tmp_path / "ds", {"train": [[batch(0, 300)]]})
    shard = next((root / "shards").iterdir())
    data = bytearray(shard.read_bytes())
    data[data.index(b"k00007")] ^= 1
    shard.write_bytes(data)
    assert toolkit.query(root, "select count(*) as n from train").rows() == [{"n": 300}]
    for ask in (
        lambda answer: answer.to_polars(),
        lambda answer: answer.rows(),
        lambda answer: list(answer.batches()),
        *(
            lambda answer, end=end: answer.write(tmp_path / f"out.{end}")
            for end in ("csv", "jsonl", "arrow", "parquet")
        ),
    ):
        with pytest.raises(
            CorruptShardError, match=r"column (__key__|score): a chunk's bytes have another CRC32C"
        ) as caught:
            ask(toolkit.query(root, "select __key__, score from train where score > -100 or score is null"))
        assert caught.value.shard.startswith("shards/train-")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ds"]


def test_an_id_of_no_class_is_no_null() -> None:
    names = QueryColumn(name="label", stored="label", type=pa.int64(), names=("a", "b"), meaning=Meaning.NAMES)
    for ids in ([0, 2], [-1, None], [1 << 40]):
        with pytest.raises(CorruptTableError, match=r"has the id .*, and there are 2 classes"):
            series_of(names, [pa.array(ids, pa.int64())], len(ids), "train")


# --- types --------------------------------------------------------------------------------------------------------


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(array=arrow_values.arrays(rows=17))
def test_every_type_is_what_it_was_or_refused(
    array: pa.Array, commit_rows: Callable[..., str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("types") / "ds"
    keys = [f"{i:02d}" for i in range(len(array))]
    try:
        commit_rows(root, {"train": [[pa.RecordBatch.from_arrays([pa.array(keys), array], names=[KEY, "x"])]]})
    except Exception:
        return  # no column of a dataset
    stored = toolkit.open(root)
    expected = stored.fetcher.array("x", 0)
    try:
        answer = toolkit.query(root, "select x, __key__ from train order by __key__").to_polars()
    except UsageError as error:
        said = str(error)
    else:
        if "null" in str(expected.type):  # pyarrow can't cast lists of them back
            return
        found = answer["x"].to_arrow().cast(expected.type)
        assert [repr(python_value(one)) for one in found] == [repr(python_value(one)) for one in expected]
        return
    assert "column 'x'" in said
    assert toolkit.query(root, "select count(*) as n, min(__key__) as k from train").rows() == [{"n": 17, "k": "00"}]
    assert toolkit.query(root, "select * from train").left_out == ("x",)


EDGES = [
    (pa.timestamp("s"), [2**62]),
    (pa.duration("s"), [-(2**62)]),
    (pa.time32("s"), [86_400]),
    (pa.time64("us"), [-1]),
    (pa.list_(pa.time32("ms")), [[86_400_000]]),
    (pa.struct([("a", pa.timestamp("s"))]), [{"a": 2**62}]),
    (pa.decimal256(50, 1), [1]),
    (pa.month_day_nano_interval(), [(1, 2, 3)]),
    (pa.timestamp("us", "Nowhere/Town"), [0]),
    (pa.list_(pa.decimal256(50, 1)), [[1]]),
]


@pytest.mark.parametrize(("dtype", "values"), EDGES, ids=[str(dtype) for dtype, _ in EDGES])
def test_what_polars_would_change_is_refused(
    dtype: pa.DataType, values: list[Any], tmp_path: Path, commit_rows: Callable[..., str]
) -> None:
    array = exact(values, dtype)
    piece = pa.RecordBatch.from_arrays([pa.array(["a"]), array], names=[KEY, "x"])
    commit_rows(tmp_path / "ds", {"train": [[piece]]})
    with pytest.raises(UsageError, match=r"column 'x' (can't be queried|has a time that polars can't hold)"):
        toolkit.query(tmp_path / "ds", "select x from train").to_polars()
    assert toolkit.query(tmp_path / "ds", "select __key__ from train").rows() == [{KEY: "a"}]


def exact(values: list[Any], dtype: pa.DataType) -> pa.Array:
    """An array of values of times as the numbers that they are stored as."""
    if pa.types.is_struct(dtype):
        return pa.StructArray.from_arrays(
            [exact([one["a"] for one in values], dtype.field(0).type)], fields=list(dtype)
        )
    if pa.types.is_list(dtype) and pa.types.is_time(dtype.value_type):
        return pa.ListArray.from_arrays([0, 1], exact(values[0], dtype.value_type))
    if pa.types.is_temporal(dtype) and not pa.types.is_interval(dtype):
        return pa.array(values, pa.int32() if dtype.bit_width == 32 else pa.int64()).view(dtype)
    return pa.array(values, dtype)


def test_lists_of_ids_are_lists_of_names(tmp_path: Path) -> None:
    table = sha256(encode_label_table(CLASSES))
    columns = (Column(name="objects", kind=Kind.VALUE, arrow_type="list<item: int64>", label_table=table),)
    types = {"objects": pa.list_(pa.int64())}
    schema = arrow_schema(columns, types, {"objects": CLASSES})
    piece = pa.RecordBatch.from_arrays(
        [pa.array(["a", "b", "c", "d"]), pa.array([[0, 1], None, [], [2, None]], types["objects"])],
        names=[KEY, "objects"],
    )
    with mock.patch("conftest.LabelCounts"):
        commit_columns(tmp_path / "ds", {"train": [[piece]]}, columns, schema, {}, batch_body_bytes=1 << 14, changes={})
    # The label table is named by the column alone.
    (tmp_path / "ds" / "tables" / f"{table}.arrow").write_bytes(encode_label_table(CLASSES))
    found = toolkit.query(tmp_path / "ds", "select objects, objects_id from train order by __key__").to_polars()
    assert found["objects"].to_list() == [["cat", "dog é 花"], None, [], ['qu"ote', None]]
    assert found["objects_id"].to_list() == [[0, 1], None, [], [2, None]]


# --- files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["csv", "jsonl", "arrow", "parquet"])
@pytest.mark.parametrize("where", ["", " where false"])
def test_files_hold_the_answer(form: str, where: str, rows: tuple[Path, pl.DataFrame], tmp_path: Path) -> None:
    sql = f"select __key__, label, score, huge, text, picture from train{where}"
    answer = toolkit.query(rows[0], sql)
    path = tmp_path / f"out.{form}"
    path.write_text("was here before")
    assert answer.write(path) == path.stat().st_size
    expected = answer.to_polars()
    hexed = expected.with_columns(pl.col("picture").bin.encode("hex"))
    match form:
        case "csv":
            found = pl.read_csv(path, schema=hexed.schema)
            assert found.equals(hexed)
        case "jsonl":
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            assert lines == hexed.with_columns(pl.col("score").fill_nan(None)).to_dicts()
        case "arrow":
            found = pl.DataFrame(pa.ipc.open_file(path).read_all(), schema=expected.schema)
            assert found.equals(expected)
        case "parquet":
            assert pl.DataFrame(pq.read_table(path), schema=expected.schema).equals(expected)


def test_files_that_cannot_be_written(rows: tuple[Path, pl.DataFrame], tmp_path: Path) -> None:
    answer = toolkit.query(rows[0], "select label, array_agg(score) as scores from train group by label")
    with pytest.raises(UsageError, match=r"CSV can't hold the lists and structs of scores"):
        answer.write(tmp_path / "a.csv")
    with pytest.raises(UsageError, match=r"doesn't say a format"):
        answer.write(tmp_path / "a.xlsx")
    with pytest.raises(UsageError, match=r"is not one of|expected one of"):
        answer.write(tmp_path / "a.csv", format="cvs")
    with pytest.raises(UsageError, match="is a URL"):
        answer.write("s3://bucket/a.csv")
    with pytest.raises(StorageError):
        answer.write(tmp_path / "no" / "a.parquet")
    assert list(tmp_path.iterdir()) == []
    assert answer.write(tmp_path / "a.data", format="jsonl")


def test_durations_and_days_beyond_the_calendar_are_texts_in_csv(tmp_path: Path) -> None:
    from conftest import _commit_rows

    far = 2**63 - 1
    columns = {
        "took": pa.array([1_500_000, None], pa.duration("us")),
        "at": pa.array([far, 0], pa.timestamp("us")),
        "day": pa.array([2**31 - 1, None], pa.int32()).view(pa.date32()),
        "plain": pa.array([0, None], pa.timestamp("us")),
    }
    _commit_rows(tmp_path / "ds", {"train": [[pa.record_batch({KEY: ["a", "b"], **columns})]]})
    answer = toolkit.query(tmp_path / "ds", "select took, at, day, plain from train")
    answer.write(tmp_path / "answer.csv")
    assert (tmp_path / "answer.csv").read_text().splitlines() == [
        "took,at,day,plain",
        "0:00:01.500000,294247-01-10T04:00:54.775807,5881580-07-11,1970-01-01T00:00:00.000000",
        ",1970-01-01 00:00:00,,",
    ]
