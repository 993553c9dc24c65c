from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import toolkit
from toolkit import slot
from toolkit.errors import CorruptShardError, SampleError, UsageError
from toolkit.loader.dataset import filters
from toolkit.loader.dataset.views import array_hash, view_hash

LABEL = pc.field("label")


@pytest.fixture(scope="module")
def train(packed: Path) -> toolkit.Dataset:
    return toolkit.open(packed, split="train")


def table_of(rows: int, *, first: int = 0) -> pa.RecordBatch:
    numbers = [None if i % 7 == 3 else i % 5 for i in range(first, first + rows)]
    return pa.record_batch(
        {
            "__key__": [f"k{i:04d}" for i in range(first, first + rows)],
            "number": pa.array(numbers, pa.int64()),
            "text": [f"t{i % 3}" for i in range(first, first + rows)],
            "place": pa.array([{"x": i, "y": [i, i]} for i in range(first, first + rows)]),
        }
    )


@pytest.fixture
def numbered(tmp_path: Path, commit_rows: Callable[..., str]) -> toolkit.Dataset:
    """100 rows in three shards of several record batches."""
    shards = [[table_of(40)], [table_of(30, first=40)], [table_of(30, first=70)]]
    commit_rows(tmp_path / "numbered", {"train": shards}, batch_body_bytes=500)
    return toolkit.open(tmp_path / "numbered")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (pc.field("number") == 3, lambda row: row["number"] == 3),
        (pc.field("number").is_null(), lambda row: row["number"] is None),
        (~(pc.field("number") == 3), lambda row: row["number"] not in (None, 3)),
        ((pc.field("text") == "t1") | (pc.field("number") > 3), lambda row: row["text"] == "t1" or row["number"] == 4),
        (pc.field("place", "x") >= 90, lambda row: row["place"]["x"] >= 90),
        (pc.field("__key__").isin([f"k{i:04d}" for i in range(50)]), lambda row: row["__key__"] < "k0050"),
        (pc.scalar(True), lambda row: True),
        (pc.scalar(False), lambda row: False),
    ],
    ids=["equal", "null", "not", "or", "nested", "set", "all", "none"],
)
def test_filter_agrees_with_python(
    numbered: toolkit.Dataset, expression: pc.Expression, expected: Callable[[dict[str, Any]], bool]
) -> None:
    wanted = [numbered[i]["__key__"] for i in range(len(numbered)) if expected(numbered[i])]
    assert numbered.filter(expression).keys() == wanted
    backwards = numbered[::-1].filter(expression)
    assert backwards.keys() == wanted[::-1]
    assert numbered.filter(expression)[::-1].keys() == wanted[::-1]


def test_filter_reads_only_the_columns_it_needs_and_once(damaged: Path) -> None:
    ds = toolkit.open(damaged, split="train", columns=["image"])
    image = ds[130]["image"]  # in the middle of a shard
    for file in map(Path, ds.files):
        data = file.read_bytes()
        file.write_bytes(data.replace(image, bytes(len(image))))
    filters._cache.clear()
    ds = toolkit.open(damaged, split="train", columns=["image"])
    view = ds.filter(LABEL == 2)  # a damaged image is no concern of the labels
    assert len(view) == 30
    with pytest.raises(CorruptShardError):
        _ = view[10]
    for file in ds.files:
        Path(file).unlink()
    again = toolkit.open(damaged, split="train")  # the manifest and its tables are there, no shard is
    assert again.filter(LABEL == 2).view == view.view
    with pytest.raises(CorruptShardError, match="it is missing"):
        again.filter(LABEL == 1)


def test_long_sets_of_values_are_told_apart(numbered: toolkit.Dataset) -> None:
    # As text both are "0, 1 … 98, 99": a cache by text would give the first one's rows for the second.
    many = [f"k{i:04d}" for i in range(100)]
    without = [*many[:49], "k9999", *many[50:]]
    assert str(pc.field("__key__").isin(many)) == str(pc.field("__key__").isin(without))
    assert len(numbered.filter(pc.field("__key__").isin(many))) == 100
    assert len(numbered.filter(pc.field("__key__").isin(without))) == 99


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        (pc.field("numbre") == 1, "Did you mean 'number'"),
        (pc.field("number") + 1, "must evaluate to bool"),
        (pc.field("text") == 1, "no kernel matching"),
        (pc.field(2) == 1, "name columns, not their places"),
        (lambda row: True, "say which columns the function is given"),
        ("number == 1", "an expression of pyarrow.compute"),
    ],
    ids=["name", "number", "types", "place", "function", "text"],
)
def test_filters_that_can_not_be_are_refused(numbered: toolkit.Dataset, expression: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        numbered.filter(expression)


def train_labels(ds: toolkit.Dataset, shard: int) -> list[int]:
    """The labels of the first record batch of a shard."""
    batch = ds.index.batch(ds.index.shard(shard).batches[0])
    return [ds[row]["label"] for row in range(batch.start, batch.start + batch.rows)]


def test_filter_checks_what_it_reads(damaged: Path) -> None:
    ds = toolkit.open(damaged, split="train")
    data = bytearray(Path(ds.files[1]).read_bytes())
    labels = train_labels(ds, 1)
    data[data.index(np.array(labels, np.int64).tobytes())] ^= 1
    Path(ds.files[1]).write_bytes(data)
    filters._cache.clear()
    with pytest.raises(CorruptShardError, match="column label"):
        toolkit.open(damaged, split="train").filter(LABEL == 1)


def test_repeat(train: toolkit.Dataset) -> None:
    view = train[:3].repeat(2)
    assert view.keys() == train.keys([0, 1, 2, 0, 1, 2])
    (batch,) = view.loader(batch_size=6)
    assert batch.sample_keys == view.keys()
    for times in (0, 1.5, True):
        with pytest.raises(UsageError, match="at least 1"):
            train.repeat(times)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"more than an order can have"):
        train.repeat(1 << 60)


def test_concat_of_views_of_different_manifests(
    tmp_path: Path, commit_rows: Callable[..., str], numbered: toolkit.Dataset
) -> None:
    commit_rows(tmp_path / "other", {"train": [[table_of(20, first=200)]]}, batch_body_bytes=300)
    other = toolkit.open(tmp_path / "other")
    joined = toolkit.concat([numbered[90:], other[::-1], numbered.filter(pc.field("number") == 1)[:3]])
    expected = [*numbered.keys()[90:], *other.keys()[::-1], *numbered.filter(pc.field("number") == 1).keys()[:3]]
    assert joined.keys() == expected
    assert [joined[i]["__key__"] for i in range(len(joined))] == expected
    assert [joined[i] for i in (0, 15)] == [numbered[90], other[14]]
    found = {}
    complete = (pc.field("text") == "t1") & pc.field("number").is_valid()
    for batch in joined.filter(complete).repeat(2).loader(batch_size=5, shuffle="full"):
        found.update(zip(batch.sample_keys, batch["place"], strict=True))
    by_key = {joined[i]["__key__"]: joined[i] for i in range(len(joined))}
    assert found == {
        key: row["place"] for key, row in by_key.items() if row["text"] == "t1" and row["number"] is not None
    }
    assert joined.pins == (numbered.pin, other.pin, numbered.pin)
    assert len(joined.files) == len(numbered.files) * 2 + 1
    with pytest.raises(UsageError, match="3 joined datasets have no pin in common"):
        _ = joined.pin
    copy = pickle.loads(pickle.dumps(joined[5:15]))
    assert (copy.keys(), copy.view) == (expected[5:15], joined[5:15].view)
    assert toolkit.concat([joined]).keys() == expected


def test_concat_decodes_images_of_both(packed: Path, train: toolkit.Dataset) -> None:
    val = toolkit.open(packed, split="val")
    joined = toolkit.concat([train, val])
    steps = toolkit.pipeline(slot("image").decode_image().center_crop(16))
    batches = list(joined.loader(steps, batch_size=64, shuffle="block", seed=2))
    assert sorted(key for batch in batches for key in batch.sample_keys) == sorted(train.keys() + val.keys())
    for batch in batches:
        for key, label in zip(batch.sample_keys, batch["label"], strict=True):
            assert joined.classes[label] == key.split("/")[1]


def test_an_error_in_a_joined_dataset_names_the_row_of_its_own_split(damaged: Path, packed: Path) -> None:
    broken = toolkit.open(damaged, split="val")
    file = Path(broken.files[0])
    data = bytearray(file.read_bytes())
    data[data.index(broken[0]["image"]) + 200] ^= 1
    file.write_bytes(data)
    joined = toolkit.concat([toolkit.open(packed, split="train"), toolkit.open(damaged, split="val")])
    with pytest.raises(CorruptShardError, match=r"shards/val.*row 0, key") as caught:
        list(joined.loader(batch_size=170))
    assert caught.value.row == 0


def test_datasets_that_differ_are_not_joined(
    train: toolkit.Dataset, packed: Path, numbered: toolkit.Dataset, tmp_path: Path, commit_samples: Callable[..., str]
) -> None:
    with pytest.raises(UsageError, match="read the columns image, label and number, text"):
        toolkit.concat([train, numbered])
    with pytest.raises(UsageError, match="read the columns image, label and label"):
        toolkit.concat([train, toolkit.open(packed, split="val", columns=["label"])])
    samples = [{"__key__": "a", "image": None, "label": 1}]
    for name, classes in (("one", ("ant", "bee", "cat")), ("other", ("ant", "dog", "cat"))):
        commit_samples(tmp_path / name, {"train": [samples]}, classes=classes)
    with pytest.raises(UsageError, match="id 1 of label is 'bee' in one dataset and 'dog' in the other"):
        toolkit.concat([toolkit.open(tmp_path / "one"), toolkit.open(tmp_path / "other")])
    with pytest.raises(UsageError, match=r"store the columns .*__image\.width__"):
        toolkit.concat([train, toolkit.open(tmp_path / "one")])
    for nothing in ([], [1], train):
        with pytest.raises(UsageError, match="a list of datasets"):
            toolkit.concat(nothing)  # type: ignore[arg-type]


def test_a_view_hash_names_samples_and_order(train: toolkit.Dataset, packed: Path) -> None:
    again = toolkit.open(packed, split="train", columns=["label"])
    views = [
        train,
        toolkit.open(packed, split="val"),
        train[:50],
        train[50:],
        train[:50][::-1],
        train.take([1, 2]),
        train.take([2, 1]),
        train.filter(LABEL == 1),
        train.filter(LABEL == 2),
        train[:50].filter(LABEL == 0),
        train.repeat(2),
        toolkit.concat([train, train]),
        toolkit.concat([train[:50], train[50:]]),
    ]
    assert len({view.view for view in views}) == len(views)
    assert again.view == train.view == train[:].view
    assert again.take(np.array([1, 2], np.int32)).view == train.take([1, 2]).view
    assert again.filter(LABEL == 1).view == train.filter(LABEL == 1).view
    assert f"view {train[:50].view[:12]}" in repr(train[:50])
    assert "view" not in repr(train)


def test_a_view_hash_never_changes() -> None:
    # Golden: a state saved yesterday must fit today.
    assert view_hash("split", "ab", "train")[:16] == "1ee328ce3d3e1d67"
    assert array_hash(np.array([1, 2, 300], np.int64))[:16] == "a1671a506c4c89d0"


operations = st.one_of(
    st.tuples(st.just("slice"), st.integers(-20, 20), st.integers(-20, 20), st.sampled_from([-2, -1, 1, 3])),
    st.tuples(st.just("take"), st.integers(0, 10**6)),
    st.tuples(st.just("filter"), st.integers(0, 2)),
    st.tuples(st.just("repeat"), st.integers(1, 2)),
    st.tuples(st.just("concat")),
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(st.lists(operations, max_size=5))
def test_views_of_views_are_those_of_a_list(train: toolkit.Dataset, steps: list[tuple[Any, ...]]) -> None:
    whole = train.keys()
    labels = {key: i for i, kind in enumerate(("ant", "bee", "cat")) for key in whole if f"/{kind}/" in key}
    view, expected = train[60:80], whole[60:80]
    for step in steps:
        match step:
            case ("slice", start, stop, stride):
                view, expected = view[start:stop:stride], expected[start:stop:stride]
            case ("take", seed):
                rows = np.random.default_rng(seed).integers(0, max(len(expected), 1), min(len(expected), 5))
                view, expected = view.take(rows), [expected[row] for row in rows]
            case ("filter", label):
                view, expected = view.filter(label == LABEL), [key for key in expected if labels[key] == label]
            case ("repeat", times):
                view, expected = view.repeat(times), expected * times
            case ("concat",):
                view, expected = toolkit.concat([view, train[:2]]), [*expected, *whole[:2]]
    assert len(view) == len(expected)
    assert view.keys() == expected
    assert pickle.loads(pickle.dumps(view)).keys() == expected


def test_balanced_draws_read_the_labels(train: toolkit.Dataset) -> None:
    loader = train.loader(batch_size=300, weights="balanced", epoch_samples=3000, seed=1)
    assert len(loader) == 10
    labels = np.concatenate([batch["label"] for batch in loader])
    assert (np.abs(np.bincount(labels) - 1000) < 5 * np.sqrt(1000)).all()
    cats = train.filter(LABEL == 2).loader(batch_size=10, weights=[1.0] + [0.0] * 29, epoch_samples=10)
    assert set(next(iter(cats)).sample_keys) == {train.keys()[120]}


def test_balanced_draws_need_one_complete_label_column(
    numbered: toolkit.Dataset, tmp_path: Path, commit_samples: Callable[..., str]
) -> None:
    with pytest.raises(UsageError, match="needs one label column, read are 0"):
        numbered.loader(batch_size=1, weights="balanced")
    samples = [{"__key__": f"k{i}", "image": None, "label": None if i == 3 else i % 2} for i in range(6)]
    commit_samples(tmp_path / "gaps", {"train": [samples]})
    gaps = toolkit.open(tmp_path / "gaps")
    with pytest.raises(SampleError, match=r"1 of 6 samples have no label.*row 3, key 'k3'"):
        gaps.loader(batch_size=1, weights="balanced")
    complete = gaps.filter(LABEL.is_valid())
    keys = next(iter(complete.loader(batch_size=500, weights="balanced", epoch_samples=500))).sample_keys
    assert set(keys) == {"k0", "k1", "k2", "k4", "k5"}
