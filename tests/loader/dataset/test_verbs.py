"""Verbs of datasets against numpy, polars and plain Python: over splits, views of views, joined and empty ones."""

from __future__ import annotations

import datetime
import decimal
import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import xxhash
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import toolkit
from toolkit.errors import CorruptShardError, NotFoundError, SampleError, UsageError
from toolkit.loader.dataset import tables

ROWS = 60
VIEWS = st.lists(
    st.one_of(
        st.tuples(st.just("slice"), st.integers(0, 40), st.integers(1, 80), st.sampled_from([-2, -1, 1, 2])),
        st.tuples(st.just("take"), st.integers(0, 10_000)),
        st.tuples(st.just("filter"), st.integers(0, 4)),
        st.tuples(st.just("repeat")),
        st.tuples(st.just("concat")),
    ),
    max_size=3,
)
QUICK = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def rows_of(first: int, rows: int) -> pa.RecordBatch:
    numbers = range(first, first + rows)
    floats = [None if i % 11 == 5 else math.nan if i % 13 == 4 else (-1) ** i * (i % 6) * 0.5 for i in numbers]
    return pa.record_batch(
        {
            "__key__": [f"k{i:03d}" for i in numbers],
            "number": pa.array([(i * 7) % 5 for i in numbers], pa.int64()),
            "some": pa.array([None if i % 7 == 3 else i % 5 - 2 for i in numbers], pa.int32()),
            "score": pa.array(floats, pa.float64()),
            "half": pa.array(np.array([i % 4 for i in numbers], np.float16)),
            "flag": pa.array([i % 3 == 0 for i in numbers]),
            "text": pa.array([None if i % 9 == 8 else "aZ\ue000\U00010400é"[i % 5] * (i % 3) for i in numbers]),
            "day": pa.array([datetime.date(2020, 1, 1 + (i * 5) % 20) for i in numbers]),
            "list": pa.array([[i, i] if i % 4 else None for i in numbers], pa.list_(pa.int64())),
        }
    )


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> toolkit.Dataset:
    """60 rows in three shards of several record batches."""
    from conftest import _commit_rows

    root = tmp_path_factory.mktemp("verbs") / "ds"
    _commit_rows(root, {"train": [[rows_of(0, 25)], [rows_of(25, 20)], [rows_of(45, 15)]]}, batch_body_bytes=700)
    opened = toolkit.open(root)
    assert opened.index.batches > 6
    return opened


@pytest.fixture(autouse=True)
def _as_if_many(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Let few rows be read by the batches that hold them, as of a large dataset."""
    monkeypatch.setattr(tables, "_MOST_READ", 1)
    monkeypatch.setattr(tables, "RUN_ROWS", 1)  # record batches are read in several runs, of eight rows each


def viewed(ds: toolkit.Dataset, steps: list[tuple[Any, ...]]) -> tuple[toolkit.Dataset, list[int]]:
    """A view made by steps, and the rows it has."""
    view, rows = ds, list(range(len(ds)))
    for name, *given_to in steps:
        if name == "slice":
            start, length, step = given_to
            span = slice(start, start + length, step) if step > 0 else slice(start + length, start, step)
            view, rows = view[span], rows[span]
        elif name == "take" and rows:
            picked = np.random.default_rng(given_to[0]).integers(-len(rows), len(rows), 20).tolist()
            view, rows = view[picked], [rows[i] for i in picked]
        elif name == "filter":
            view = view.filter(pc.field("number") != given_to[0])
            rows = [row for row in rows if (row % ROWS * 7) % 5 != given_to[0]]
        elif name == "repeat":
            view, rows = view.repeat(2), rows * 2
        elif name == "concat":
            view, rows = toolkit.concat([view, ds[::-1]]), [*rows, *range(ROWS - 1, -1, -1)]
    return view, rows


@QUICK
@given(steps=VIEWS)
def test_columns_are_those_of_the_samples(ds: toolkit.Dataset, steps: list[tuple[Any, ...]]) -> None:
    view, rows = viewed(ds, steps)
    samples = [ds[row] for row in rows]
    assert view.keys() == [sample["__key__"] for sample in samples]
    for name in ("number", "half", "flag"):
        column = view.column(name)
        assert column.dtype == {"number": np.int64, "half": np.float16, "flag": np.bool_}[name]
        assert column.tolist() == [sample[name] for sample in samples]
    assert view.column("some", missing=-9).dtype == np.int32
    assert view.column("some", missing=-9).tolist() == [-9 if s["some"] is None else s["some"] for s in samples]
    for name in ("text", "day", "list", "__key__"):
        assert view[name] == view.column(name) == [sample[name] for sample in samples]
    assert view.column("text", missing="?") == ["?" if s["text"] is None else s["text"] for s in samples]
    scores = [-9.0 if sample["score"] is None else sample["score"] for sample in samples]
    assert repr(view.column("score", missing=-9.0).tolist()) == repr(scores)


def test_a_number_that_is_missing_is_an_error_that_says_which(ds: toolkit.Dataset) -> None:
    with pytest.raises(SampleError, match=r"9 of 60 samples have no some, the first is .*row 3, key 'k003'") as found:
        ds.column("some")
    assert (found.value.row, found.value.key) == (3, "k003")
    with pytest.raises(SampleError, match=r"row 59, key 'k059'"):
        ds[::-1].column("some")
    assert len(ds.filter(pc.field("some").is_valid()).column("some")) == 51
    for wrong in ("x", None, 1 << 40, 0.5):
        with pytest.raises(UsageError, match="some"):
            ds.column("some", missing=wrong)
    assert math.isnan(ds.column("score", missing=math.nan)[5])


def test_columns_of_media_are_read_only_when_asked_for(packed: Path) -> None:
    photos = toolkit.open(packed, split="val")
    with pytest.raises(UsageError, match=r"column image holds images, .*media=True"):
        photos.column("image")
    assert photos[::-1].column("image", media=True) == [photos[i]["image"] for i in range(19, -1, -1)]
    assert photos["label"].tolist() == [photos[i]["label"] for i in range(20)]
    sizes = photos.select(["__image.width__"])
    assert photos["__image.width__"].tolist() == [sizes[i]["__image.width__"] for i in range(20)]
    with pytest.raises(NotFoundError, match="Did you mean 'label'"):
        _ = photos["lable"]


def expected_order(samples: list[dict[str, Any]], by: list[str], down: list[bool]) -> list[int]:
    """Python's own sort, which is stable, by one column after the other from the last."""
    order = list(range(len(samples)))
    for name, is_down in reversed(list(zip(by, down, strict=True))):

        def rank(i: int, name: str = name) -> int:
            value = samples[i][name]
            return 2 if value is None else 1 if isinstance(value, float) and math.isnan(value) else 0

        plain = sorted((i for i in order if rank(i) == 0), key=lambda i: samples[i][name])
        if is_down:  # reversed twice: equal ones keep their order
            plain = sorted((i for i in order[::-1] if rank(i) == 0), key=lambda i: samples[i][name])[::-1]
        order = [*plain, *(i for i in order if rank(i) == 1), *(i for i in order if rank(i) == 2)]
    return order


@QUICK
@given(
    steps=VIEWS,
    by=st.lists(
        st.tuples(st.sampled_from(["number", "some", "score", "half", "flag", "text", "day"]), st.booleans()),
        min_size=1,
        max_size=3,
        unique_by=lambda pair: pair[0],
    ),
)
def test_sorting_is_pythons(ds: toolkit.Dataset, steps: list[tuple[Any, ...]], by: list[tuple[str, bool]]) -> None:
    view, rows = viewed(ds, steps)
    samples = [ds[row] for row in rows]
    names, down = [name for name, _ in by], [is_down for _, is_down in by]
    sorted_view = view.sort(names, descending=down)
    order = expected_order(samples, names, down)
    assert sorted_view.keys() == [samples[i]["__key__"] for i in order]
    assert sorted_view.view == view.take(order).view


def test_zeros_of_both_signs_are_equal(tmp_path: Path, commit_rows: Callable[..., str]) -> None:
    zeros = pa.array([0.0, -0.0, 1.0, -0.0, 0.0, -1.0])
    rows = pa.record_batch({"__key__": list("abcdef"), "x": zeros, "g": zeros})
    commit_rows(tmp_path / "ds", {"train": [[rows]]})
    ds = toolkit.open(tmp_path / "ds")
    assert "".join(ds.sort("x").keys()) == "fabdec"
    assert "".join(ds.sort("x", descending=True).keys()) == "cabdef"
    assert "".join(ds.sort(["x", "g"]).keys()) == "fabdec"


@pytest.mark.parametrize(
    ("by", "descending", "error", "says"),
    [
        ("scroe", False, NotFoundError, "Did you mean 'score'"),
        ("list", False, UsageError, "which has no order"),
        ([], False, UsageError, "takes a column or several"),
        (["number", "number"], False, UsageError, "2 times"),
        ("number", [True, False], UsageError, "one for each"),
        ("number", "yes", UsageError, "one for each"),
        ("number", None, UsageError, "one for each"),
        (["number", 1], False, UsageError, "list of names"),
        ("number", [1], UsageError, "one for each"),
        (None, False, UsageError, "list of names"),
    ],
)
def test_sorts_that_can_not_be(
    ds: toolkit.Dataset, by: Any, descending: Any, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        ds.sort(by, descending=descending)


def part_of(value: bytes, seed: int, ends: list[float]) -> int:
    """Which part a key or group goes to, by the words of the documentation."""
    hashed = xxhash.xxh64_intdigest(value, xxhash.xxh64_intdigest(f"toolkit split 1:{seed}".encode()))
    return sum(hashed >= int(end * 2.0**64) for end in ends)


def test_more_parts_than_a_byte_counts(ds: toolkit.Dataset) -> None:
    parts = ds.split_by({f"p{number}": 1 / 300 for number in range(300)})
    assert sorted(itertools.chain(*(part.keys() for part in parts.values()))) == sorted(ds.keys())
    assert any(len(parts[f"p{number}"]) for number in range(128, 300))


_FAR = 2**63 - 1
_TEN = decimal.Decimal(10)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([0, _FAR, -_FAR, 5, None], pa.timestamp("s")),
        pa.array([0, _FAR, -_FAR, 5, None], pa.timestamp("us", "+05:30")),
        pa.array([0, _FAR, -_FAR, 5, None], pa.duration("s")),
        pa.array([0, 200_000 * 10**9, -1, 5, None], pa.time64("ns")),
        pa.array([0, 2**31 - 1, -1, 5, None], pa.int32()).view(pa.time32("s")),
        pa.array([0 * _TEN, _TEN**69, -(_TEN**69), 5 * _TEN, None], pa.decimal256(76, 0)),
        pa.array([0 * _TEN, 50 * _TEN, -50 * _TEN, 5 * _TEN, None], pa.decimal128(5, -1)),
    ],
    ids=lambda values: str(values.type),
)
def test_what_polars_can_not_hold_is_sorted_all_the_same(tmp_path: Path, values: pa.Array) -> None:
    from conftest import _commit_rows

    _commit_rows(tmp_path / "ds", {"train": [[pa.record_batch({"__key__": list("abcde"), "at": values})]]})
    opened = toolkit.open(tmp_path / "ds")
    assert opened.sort("at").keys() == ["c", "a", "d", "b", "e"]
    assert opened.sort("at", descending=True).keys() == ["b", "d", "a", "c", "e"]
    with pytest.raises(UsageError, match=r"polars|time zone"):
        opened.to_polars()


@QUICK
@given(
    steps=VIEWS, seed=st.integers(-3, 1 << 70), by=st.sampled_from(["key", "number", "some", "score", "flag", "text"])
)
def test_splits_are_dealt_by_the_hash(ds: toolkit.Dataset, steps: list[tuple[Any, ...]], seed: int, by: str) -> None:
    view, rows = viewed(ds, steps)
    samples = [ds[row] for row in rows]
    parts = view.split_by({"a": 0.5, "b": 0.25, "c": 0.25}, by=by, seed=seed)

    def group(sample: dict[str, Any]) -> bytes:
        value = sample["__key__"] if by == "key" else sample[by]
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return str(sample["__key__"]).encode()
        if isinstance(value, str):
            return value.encode()
        return (np.float64(value + 0.0) if by == "score" else np.int64(value)).tobytes()

    for number, (name, part) in enumerate(parts.items()):
        wanted = [sample["__key__"] for sample in samples if part_of(group(sample), seed, [0.5, 0.75]) == number]
        assert (name, part.keys()) == ("abc"[number], wanted)


def test_the_hash_of_splits_is_golden(ds: toolkit.Dataset) -> None:
    parts = ds.train_test_split(0.25)
    assert list(parts) == ["train", "test"]
    numbers = (0, 2, 7, 8, 9, 14, 18, 24, 27, 28, 45, 46, 49, 51, 53, 56, 58)
    assert parts["test"].keys() == [f"k{number:03d}" for number in numbers]
    texts = ds.filter(pc.field("text").is_valid()).train_test_split(0.5, by="text", seed=7)["test"]
    assert sorted(set(texts.column("text"))) == ["", "Z", "a", "é", "\ue000\ue000", "\U00010400", "\U00010400" * 2]
    groups = ds.train_test_split(0.5, by="number", seed=3)["test"].column("number")
    assert sorted(set(groups.tolist())) == [1, 4]


def test_no_sample_changes_sides_when_others_come_or_the_order_does(ds: toolkit.Dataset) -> None:
    def side(view: toolkit.Dataset) -> dict[str, str]:
        return {key: name for name, part in view.train_test_split(by="key").items() for key in part.keys()}  # noqa: SIM118

    whole = side(ds)
    for view in (ds[:20], ds[::-1], ds.sort("text"), toolkit.concat([ds[30:], ds[:7]]), ds.repeat(2)):
        assert {key: whole[key] for key in side(view)} == side(view)
    sizes = [set(ds.train_test_split(size)["test"].keys()) for size in (0.0, 0.1, 0.3, 0.8, 1.0)]
    assert all(smaller <= larger for smaller, larger in itertools.pairwise(sizes))
    assert (len(sizes[0]), len(sizes[-1])) == (0, ROWS)
    assert ds.train_test_split(seed=1)["test"].keys() != ds.train_test_split(seed=2)["test"].keys()


def test_classes_are_groups_by_name(packed: Path) -> None:
    photos = toolkit.open(packed, split="train")
    parts = photos.split_by({"a": 0.5, "b": 0.5}, by="label", seed=5)
    for name, number in zip(photos.classes or (), range(3), strict=True):
        there = [number in part.column("label") for part in parts.values()]
        assert there == [part_of(name.encode(), 5, [0.5]) == side for side in (0, 1)]


def test_the_column_key_is_a_column_where_there_is_one(ds: toolkit.Dataset) -> None:
    renamed = ds.rename({"number": "key"})
    assert renamed.train_test_split(by="key")["test"].keys() == ds.train_test_split(by="number")["test"].keys()
    assert ds.with_key("key").train_test_split()["test"].keys() == ds.train_test_split()["test"].keys()
    assert ds.train_test_split(by="__key__")["test"].keys() == ds.train_test_split()["test"].keys()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda ds: ds.train_test_split(20), "a share from 0 to 1, got 20"),
        (lambda ds: ds.train_test_split(-0.1), "a share from 0 to 1"),
        (lambda ds: ds.train_test_split(math.nan), "a share from 0 to 1"),
        (lambda ds: ds.train_test_split(True), "a share from 0 to 1"),
        (lambda ds: ds.train_test_split("0.2"), "a share from 0 to 1"),
        (lambda ds: ds.train_test_split(by="list"), "which no samples can be kept together by"),
        (lambda ds: ds.train_test_split(by="__digest__"), "which no samples can be kept together by"),
        (lambda ds: ds.train_test_split(by=None), 'takes "key" or the name'),
        (lambda ds: ds.train_test_split(by=["text"]), 'takes "key" or the name'),
        (lambda ds: ds.train_test_split(seed=0.5), "seed must be a whole number"),
        (lambda ds: ds.split_by({"a": 0.5}), "add up to 0.5"),
        (lambda ds: ds.split_by({"a": 0.5, "b": 0.6}), "add up to 1.1"),
        (lambda ds: ds.split_by({}), "takes the share of each part"),
        (lambda ds: ds.split_by([0.5, 0.5]), "takes the share of each part"),
        (lambda ds: ds.split_by({"a": 2}), "from 0 to 1, got 2"),
    ],
)
def test_splits_that_can_not_be(ds: toolkit.Dataset, call: Callable[[toolkit.Dataset], Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        call(ds)
    with pytest.raises(NotFoundError, match="Did you mean 'text'"):
        ds.train_test_split(by="tetx")


def test_what_verbs_read_is_checked(damaged: Path) -> None:
    photos = toolkit.open(damaged, split="train")
    batch = photos.index.batch(photos.index.shard(1).batches[0])
    labels = [photos[row]["label"] for row in range(batch.start, batch.start + batch.rows)]
    file = Path(photos.files[1])
    data = bytearray(file.read_bytes())
    data[data.index(np.array(labels, np.int64).tobytes())] ^= 1
    file.write_bytes(data)
    for verb in (
        lambda ds: ds.column("label"),
        lambda ds: ds.sort("label"),
        lambda ds: ds.train_test_split(by="label"),
        lambda ds: ds[::-1].sort("label"),
    ):
        with pytest.raises(CorruptShardError, match="column label"):
            verb(toolkit.open(damaged, split="train"))
    assert len(toolkit.open(damaged, split="train")[:5].column("label")) == 5  # another shard's
