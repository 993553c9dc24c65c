"""Columns selected, renamed, and the key among them: all that takes or gives names has the new ones."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import toolkit
from toolkit import slot
from toolkit.errors import CorruptShardError, NotFoundError, UsageError


@pytest.fixture(scope="module")
def train(packed: Path) -> toolkit.Dataset:
    return toolkit.open(packed, split="train")


def names(ds: toolkit.Dataset) -> list[str]:
    return [column.name for column in ds.columns]


def test_columns_are_selected_in_the_order_asked_for(train: toolkit.Dataset, packed: Path) -> None:
    view = train.select(["label", "__image.width__"])
    assert names(view) == ["label", "__image.width__"]
    assert list(view[3]) == ["__key__", "label", "__image.width__"]
    assert view[3]["label"] == train[3]["label"]
    assert list(next(iter(view.loader(batch_size=4)))) == ["label", "__image.width__"]
    again = view.select(("image",))  # what isn't read is still there
    assert again[3] == toolkit.open(packed, split="train", columns=["image"])[3]
    assert view.view == again.view == train.view
    assert train[10:20].select(["label"]).view == train[10:20].view
    assert train.select([])[0] == {"__key__": train.keys([0])[0]}


@pytest.mark.parametrize(
    ("columns", "error", "says"),
    [
        (["lable"], NotFoundError, "Did you mean 'label'"),
        (["label", "label"], UsageError, "names 'label' 2 times"),
        (["__key__"], UsageError, r"with_key\(\"key\"\) makes the key a column"),
        (["__digest__"], UsageError, "the format's own"),
        ("label", UsageError, r"list of names of columns: \['label'\]"),
        ([0, 1], UsageError, r"Rows are ds\[\[0, 1\]\]"),
        (None, UsageError, "list of names"),
    ],
)
def test_columns_that_can_not_be_selected(
    train: toolkit.Dataset, columns: Any, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        train.select(columns)


def test_everything_has_the_new_names(train: toolkit.Dataset) -> None:
    ds = train.rename({"image": "picture", "label": "kind"})
    assert names(ds) == ["picture", "kind"]
    assert ds[7] == {"__key__": train.keys([7])[0], "picture": train[7]["image"], "kind": train[7]["label"]}
    assert ds.classes == train.classes
    assert ds.class_names == {"kind": train.classes}
    assert "picture" in ds.schema.names
    assert "image" not in ds.schema.names
    widths = ds.select(["__picture.width__"])[7], train.select(["__image.width__"])[7]
    assert widths[0]["__picture.width__"] == widths[1]["__image.width__"]
    assert ds.filter(pc.field("kind") == 1).keys() == train.filter(pc.field("label") == 1).keys()
    with pytest.raises(UsageError, match="FieldRef"):
        ds.filter(pc.field("label") == 1)
    with pytest.raises(NotFoundError):
        ds.select(["image"])

    pipeline = toolkit.pipeline(slot("picture").decode_image().resize((8, 8)))
    batch = next(iter(ds.loader(pipeline, batch_size=5)))
    old = next(iter(train.loader(toolkit.pipeline(slot("image").decode_image().resize((8, 8))), batch_size=5)))
    assert (batch["picture"] == old["image"]).all()
    assert (batch["kind"] == old["label"]).all()
    with pytest.raises(UsageError, match="'image'"):
        ds.loader(toolkit.pipeline(slot("image").decode_image()), batch_size=5)


def test_renamed_views_are_views_of_their_own(train: toolkit.Dataset) -> None:
    ds = train.rename({"label": "kind"})
    assert ds.view != train.view
    assert ds.view == train.rename({"label": "kind", "image": "image"}).view
    assert train.rename({}) is train
    state = train.loader(batch_size=4).state_dict()
    with pytest.raises(UsageError):
        ds.loader(batch_size=4).load_state_dict(state)
    again = pickle.loads(pickle.dumps(ds[5:9].rename({"kind": "sort"})))
    assert again[0] == ds[5:9].rename({"kind": "sort"})[0]
    assert again[0]["sort"] == train[5]["label"]
    val = ds.open_split("val")
    assert (val.split, names(val)) == ("val", ["image", "kind"])


def test_names_are_swapped_and_given_back(tmp_path: Path, commit_rows: Callable[..., str]) -> None:
    rows = pa.record_batch({"__key__": ["k0", "k1"], "a": pa.array([1, 2]), "b": pa.array([10, 20])})
    commit_rows(tmp_path / "ds", {"train": [[rows]]})
    ds = toolkit.open(tmp_path / "ds")
    swapped = ds.rename({"a": "b", "b": "a"})
    assert swapped[1] == {"__key__": "k1", "b": 2, "a": 20}
    for expression in (pc.field("a") > 5, pc.field("b") > 5):  # one filter's result is never the other's
        assert ds.filter(expression).keys() != swapped.filter(expression).keys()
    back = swapped.rename({"a": "b", "b": "a"})
    assert back[1] == ds[1]
    three = swapped.rename({"b": "c"}).rename({"a": "b"}).rename({"c": "a"})
    assert three[1] == ds[1]
    both = toolkit.concat([ds, swapped.rename({"a": "x"}).rename({"b": "a"}).rename({"x": "b"})])
    assert [both[i]["a"] for i in range(4)] == [1, 2, 1, 2]
    renamed = both.rename({"a": "c"}).with_key("key")
    assert renamed[3] == {"__key__": "k1", "c": 2, "b": 20, "key": "k1"}
    assert pickle.loads(pickle.dumps(renamed))[3] == renamed[3]
    with pytest.raises(UsageError, match="concat"):
        toolkit.concat([ds, swapped.rename({"a": "x"})])


@pytest.mark.parametrize(
    ("renames", "error", "says"),
    [
        ({"lable": "x"}, NotFoundError, "Did you mean 'label'"),
        ({"label": "image"}, UsageError, "would all be called 'image'"),
        ({"label": "x", "image": "x"}, UsageError, "would all be called 'x'"),
        ({"label": "__x"}, UsageError, "can't name a column"),
        ({"label": ""}, UsageError, "can't name a column"),
        ({"label": "a\0b"}, UsageError, "can't name a column"),
        ({"label": "\ud800"}, UsageError, "can't name a column"),
        ({"__key__": "key"}, UsageError, "with_key"),
        ({"__image.width__": "width"}, UsageError, "called after the column"),
        ({"label": 1}, UsageError, "takes names"),
        (["label"], UsageError, "takes names"),
    ],
)
def test_renames_that_can_not_be(train: toolkit.Dataset, renames: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        train.rename(renames)


def test_a_column_that_is_not_read_keeps_its_name(train: toolkit.Dataset) -> None:
    only = train.select(["image"])
    with pytest.raises(UsageError, match="also those that aren't selected"):
        only.rename({"image": "label"})
    moved = only.rename({"image": "label", "label": "old"})
    assert moved[0]["label"] == train[0]["image"]


def test_the_key_is_a_column(train: toolkit.Dataset) -> None:
    ds = train.with_key("id")
    assert names(ds) == ["image", "label", "id"]
    keys = train.keys()
    assert [ds[i]["id"] for i in (0, 149)] == [keys[0], keys[149]]
    assert next(iter(ds[::-1].loader(batch_size=4)))["id"] == keys[:-5:-1]
    assert ds.filter(pc.field("id") == keys[33]).keys() == [keys[33]]
    assert ds.view == train.view
    assert ds.with_key("id") is ds
    assert ds.select(["label"]).with_key("id")[1] == {"__key__": keys[1], "label": train[1]["label"], "id": keys[1]}
    assert ds.rename({"id": "name"})[1]["name"] == keys[1]
    assert pickle.loads(pickle.dumps(ds))[2] == ds[2]
    assert ds.verified("always")[2] == ds[2]
    assert ds.open_split("val")[0]["id"].startswith("val/")
    ds.check_row(3)
    joined = toolkit.concat([ds[:2], train.with_key("id")[5:6]])
    assert [joined[i]["id"] for i in range(3)] == [keys[0], keys[1], keys[5]]
    assert [sample["id"] for sample in joined.rename({"id": "n"}).rename({"n": "id"})] == [keys[0], keys[1], keys[5]]
    with pytest.raises(UsageError, match="concat"):
        toolkit.concat([ds, train])
    for taken in ("label", "__key__", ""):
        with pytest.raises(UsageError, match="with_key"):
            train.with_key(taken)
    with pytest.raises(UsageError, match="take another name"):
        train.select(["image"]).with_key("label")
    with pytest.raises(UsageError, match=r"the key is the column 'id' already: rename"):
        ds.with_key("other")


def test_damage_is_told_by_the_new_name(damaged: Path) -> None:
    ds = toolkit.open(damaged, split="train").rename({"image": "picture"})
    image = ds[130]["picture"]  # in the middle of a shard
    for file in map(Path, ds.files):
        file.write_bytes(file.read_bytes().replace(image, bytes(len(image))))
    with pytest.raises(CorruptShardError, match=r"column picture\.bytes"):
        _ = toolkit.open(damaged, split="train").rename({"image": "picture"})[130]


def test_tensors_of_the_key_pass_map_style_datasets(train: toolkit.Dataset) -> None:
    ds = train.with_key("id").select(["id", "label"])
    torch_ds = pytest.importorskip("toolkit.torch").Dataset(ds)
    assert torch_ds[3]["id"] == train.keys([3])[0]
    assert int(torch_ds[3]["label"]) == train[3]["label"]


def test_rows_are_picked_by_lists_and_masks(train: toolkit.Dataset) -> None:
    keys = train.keys()
    for index in ([1, 2, -1, 1], (1, 2, -1, 1), np.array([1, 2, -1, 1], np.int16), pa.array([1, 2, -1, 1])):
        view = train[index]  # type: ignore[index]
        assert view.keys() == [keys[1], keys[2], keys[-1], keys[1]]
        assert view.view == train.take([1, 2, 149, 1]).view
    mask = np.zeros(150, bool)
    mask[[3, 149]] = True
    assert train[mask].keys() == train[mask.tolist()].keys() == [keys[3], keys[149]]
    assert len(train[[]]) == len(train[np.zeros(150, bool)]) == 0
    assert train[::-1][[0, 1]].keys() == keys[:-3:-1]
    assert train[np.array(3)] == train[3]
    chosen = np.array([5, 6])
    view = train[chosen]
    chosen[:] = 0
    assert view.keys() == keys[5:7]


@pytest.mark.parametrize(
    ("index", "error", "says"),
    [
        ([150], IndexError, "sample 150 of 150"),
        ([0, -151], IndexError, "sample -151 of 150"),
        (np.array([1 << 63], np.uint64), IndexError, "sample 9223372036854775808 of 150"),
        ([True, False], IndexError, "a mask of 2 for 150 samples"),
        ([1.0], UsageError, "takes a row"),
        (1.5, UsageError, "takes a row"),
        ([[1, 2]], UsageError, "takes a row"),
        ([[1], [1, 2]], UsageError, "takes a row"),
        (["a"], UsageError, "takes a row"),
        ({1, 2}, UsageError, "takes a row"),
        ({"a": 1}, UsageError, "takes a row"),
        (None, UsageError, "takes a row"),
        (b"ab", UsageError, "takes a row"),
        ([1 << 70], UsageError, "takes a row"),
    ],
)
def test_rows_that_can_not_be_picked(train: toolkit.Dataset, index: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        _ = train[index]


def test_all_splits_at_once(packed: Path) -> None:
    both = toolkit.open(packed, split="*", columns=["label"])
    assert list(both) == list(both["train"].manifest.splits) == ["train", "val"]
    assert {name: len(ds) for name, ds in both.items()} == {"train": 150, "val": 20}
    assert both["val"].view == toolkit.open(packed, split="val").view
    assert names(both["val"]) == ["label"]
    with pytest.raises(NotFoundError):
        toolkit.open(packed, split="*", columns=["lable"])
