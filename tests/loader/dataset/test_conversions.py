"""Views as tables of Arrow, polars, pandas and Hugging Face, and as torch's own datasets: the same rows, in order."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from referenced import refer

import toolkit
from toolkit import slot
from toolkit.errors import CorruptShardError, NotFoundError, UsageError
from toolkit.loader.dataset import tables
from toolkit.loader.dataset.conversions import with_features


@pytest.fixture(scope="module")
def photos(packed: Path) -> toolkit.Dataset:
    return toolkit.open(packed, split="train")


@pytest.fixture
def view(photos: toolkit.Dataset) -> toolkit.Dataset:
    """Some samples in another order, one twice, with their keys."""
    return photos[[149, 0, 75, 0, 20]].with_key("key")


def samples(view: toolkit.Dataset) -> list[dict[str, Any]]:
    return [view[i] for i in range(len(view))]


def test_arrow_has_the_rows_in_order(view: toolkit.Dataset) -> None:
    table = view.to_arrow()
    assert table.column_names == ["image", "label", "key"]
    wanted = samples(view)
    assert [one["bytes"] for one in table["image"].to_pylist()] == [sample["image"] for sample in wanted]
    assert [one["path"] for one in table["image"].to_pylist()] == [sample["key"].split("/")[-1] for sample in wanted]
    label = table["label"].combine_chunks()
    assert label.type == pa.dictionary(pa.int32(), pa.string())
    assert label.indices.to_pylist() == [sample["label"] for sample in wanted]
    assert label.dictionary.to_pylist() == list(view.classes or ())
    assert table["key"].to_pylist() == [sample["key"] for sample in wanted]
    few = view.rename({"label": "kind"}).to_arrow(["__key__", "kind", "__image.width__"])
    assert few.column_names == ["__key__", "kind", "__image.width__"]
    assert view[:0].to_arrow().num_rows == 0
    assert view.select([]).to_arrow().num_rows == len(view)


def test_polars_has_an_enum(view: toolkit.Dataset) -> None:
    frame = view.to_polars(["label", "key"])
    assert isinstance(frame, pl.DataFrame)
    assert frame["label"].dtype == pl.Enum(["ant", "bee", "cat"])
    assert frame["label"].to_physical().to_list() == [sample["label"] for sample in samples(view)]
    assert frame["key"].to_list() == view.keys()
    assert view.to_polars()["image"].struct.field("bytes").to_list() == [s["image"] for s in samples(view)]


def test_pandas_has_categories_and_keeps_whole_numbers(
    view: toolkit.Dataset, tmp_path: Path, commit_rows: Callable[..., str]
) -> None:
    pytest.importorskip("pandas")
    frame = view.to_pandas(["label", "key"])
    assert list(frame["label"].cat.categories) == ["ant", "bee", "cat"]
    assert frame["label"].cat.codes.tolist() == [sample["label"] for sample in samples(view)]
    assert frame["key"].tolist() == view.keys()
    big = (1 << 60) + 1
    numbers = pa.array([big, None, 3], pa.int64())
    bools = pa.array([True, None, False])
    rows = pa.record_batch({"__key__": ["a", "b", "c"], "n": numbers, "flag": bools, "x": pa.array([0.5, None, 1.0])})
    commit_rows(tmp_path / "ds", {"train": [[rows]]})
    other = toolkit.open(tmp_path / "ds").to_pandas()
    assert (str(other["n"].dtype), other["n"][0]) == ("Int64", big)
    assert str(other["flag"].dtype) == "boolean"
    assert other["x"].isna().tolist() == [False, True, False]
    assert len(toolkit.open(tmp_path / "ds")[:0].to_pandas()) == 0


def test_hugging_face_has_images_and_class_labels(view: toolkit.Dataset) -> None:
    datasets = pytest.importorskip("datasets")
    made = view.to_hf()
    assert isinstance(made.features["image"], datasets.Image)
    assert made.features["label"].names == ["ant", "bee", "cat"]
    assert made["label"] == [sample["label"] for sample in samples(view)]
    assert made["key"] == view.keys()
    assert made[2]["image"].size == made.cast_column("image", datasets.Image(decode=True))[2]["image"].size
    raw = made.cast_column("image", datasets.Image(decode=False))
    assert [one["bytes"] for one in raw["image"]] == [sample["image"] for sample in samples(view)]
    assert len(view[:0].to_hf()) == 0


def test_lists_of_ids_have_their_names() -> None:
    datasets = pytest.importorskip("datasets")
    stored = SimpleNamespace(
        schema=pa.schema([("tags", pa.list_(pa.int64()))]), classes={"tags": ("x", "y")}, columns=()
    )
    made = with_features(stored, pa.table({"tags": pa.array([[0, 1], []], pa.list_(pa.int64()))}))  # type: ignore[arg-type]
    assert made[0]["tags"] == [0, 1]
    assert isinstance(made, datasets.Dataset)
    assert made.features["tags"].feature.names == ["x", "y"]


def test_torch_has_its_map_style_dataset(view: toolkit.Dataset) -> None:
    torch = pytest.importorskip("torch")
    pipeline = toolkit.pipeline(slot("image").decode_image().resize((8, 8)))
    made = view.to_torch(pipeline, seed=3)
    assert type(made).__module__ == "toolkit.torch"
    batch = next(iter(torch.utils.data.DataLoader(made, batch_size=5)))
    assert batch["image"].shape == (5, 8, 8, 3)
    assert batch["label"].tolist() == [sample["label"] for sample in samples(view)]
    assert list(batch["key"]) == view.keys()
    with pytest.raises(UsageError, match="unknown"):
        view.to_torch(unknown=1)  # type: ignore[call-arg]


def test_large_columns_are_taken_without_overflow(
    tmp_path: Path, commit_rows: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if offsets reached to a few hundred bytes: the wide way gives the same."""
    count = 200
    rows = pa.record_batch(
        {
            "__key__": [f"k{i}" for i in range(count)],
            "text": pa.array([None if i % 9 == 0 else "x" * (i % 13) for i in range(count)]),
            "list": pa.array([[str(i)] * (i % 4) for i in range(count)], pa.list_(pa.string())),
            "deep": pa.array([{"a": [b"y" * i], "n": i} for i in range(count)]),
            "pair": pa.array([["p", str(i)] for i in range(count)], pa.list_(pa.string(), 2)),
        }
    )
    commit_rows(tmp_path / "ds", {"train": [[rows]]}, batch_body_bytes=1000)
    view = toolkit.open(tmp_path / "ds")[::-3]
    wanted = view.to_arrow()
    monkeypatch.setattr(tables, "_MOST_OFFSET", 300)
    monkeypatch.setattr(tables, "_SLICE_ROWS", 7)
    found = view.to_arrow()
    assert found.schema == wanted.schema
    assert (
        found.to_pylist()
        == wanted.to_pylist()
        == rows.slice(0).drop_columns(["__key__"]).take(pa.array(range(199, -1, -3))).to_pylist()
    )


@pytest.mark.parametrize("hashed", [True, False], ids=["hashed", "stat"])
def test_references_are_given_as_their_values_would_be_packed(
    packed: Path, photos: toolkit.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hashed: bool
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    referring = toolkit.open(refer(packed, tmp_path / "ds", tmp_path / "root", hashed=hashed), split="train")
    assert referring[::-7].to_arrow() == photos[::-7].to_arrow()
    named = referring.rename({"image": "picture"}).with_key("key")
    assert named[:9].column("picture", media=True) == photos[:9].column("image", media=True)
    assert named[9]["picture"] == photos[9]["image"]
    assert named.sort("label", descending=True).keys() == photos.sort("label", descending=True).keys()
    assert named.train_test_split(by="label")["test"].keys() == photos.train_test_split(by="label")["test"].keys()
    kept = named[:9].filter(lambda sample: sample["picture"] == photos[4]["image"], ["picture"])
    assert kept.keys() == photos.keys([4])
    pytest.importorskip("datasets")
    assert named[:3].to_hf()[1]["picture"].size == photos[:3].to_hf()[1]["image"].size


def test_files_are_read_in_bounded_pieces(view: toolkit.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = view.to_arrow(["image"])
    monkeypatch.setattr(tables, "_FILE_BYTES_AT_ONCE", 1)
    found = view.to_arrow(["image"])
    assert found["image"].num_chunks == 5
    assert found.to_pylist() == wanted.to_pylist()


def test_missing_images_and_labels_stay_missing(tmp_path: Path, commit_samples: Callable[..., str]) -> None:
    rows = [{"__key__": f"k{i}", "image": None, "label": i if i else None} for i in range(2)]
    commit_samples(tmp_path / "ds", {"train": [rows]})
    ds = toolkit.open(tmp_path / "ds")
    assert ds.to_arrow()["image"].to_pylist() == [None, None]
    assert ds.to_arrow()["label"].is_null().to_pylist() == [True, False]
    assert ds.to_polars()["label"].is_null().to_list() == [True, False]
    pytest.importorskip("datasets")
    assert ds.to_hf()[0] == {"image": None, "label": None}


def test_columns_that_are_not_there(view: toolkit.Dataset) -> None:
    for to in (view.to_arrow, view.to_polars, view.to_pandas, view.to_hf):
        with pytest.raises(NotFoundError, match="Did you mean 'label'"):
            to(["lable"])
        with pytest.raises(UsageError, match=r"list of names of columns"):
            to("label")  # type: ignore[arg-type]


def test_reads_are_checked(damaged: Path) -> None:
    ds = toolkit.open(damaged, split="train")
    image = ds[130]["image"]
    for file in map(Path, ds.files):
        file.write_bytes(file.read_bytes().replace(image, bytes(len(image))))
    ds = toolkit.open(damaged, split="train")
    assert len(ds.filter(pc.field("label") == 0).to_arrow()) == 70
    with pytest.raises(CorruptShardError, match=r"column image\.bytes"):
        ds.to_arrow()


def test_narrow_decimals_in_lists_and_structs_are_what_was_stored(tmp_path: Path) -> None:
    from conftest import _commit_rows

    price = pa.decimal32(3, 1)
    values = [Decimal("1.5"), Decimal("-2.5"), None]
    lists = pa.array([[value] for value in values], pa.list_(price))
    structs = pa.array([{"price": value} for value in values], pa.struct({"price": price}))
    batch = pa.record_batch({"__key__": list("abc"), "lists": lists, "structs": structs})
    _commit_rows(tmp_path / "ds", {"train": [[batch]]})
    frame = toolkit.open(tmp_path / "ds").to_polars()
    assert frame["lists"].to_list() == [[value] for value in values]
    assert frame["structs"].to_list() == [{"price": value} for value in values]
    with pytest.raises(UsageError, match="to_hf: Arrow type decimal32"):
        toolkit.open(tmp_path / "ds").to_hf()


def test_times_that_pandas_has_none_for_are_named(tmp_path: Path) -> None:
    from conftest import _commit_rows

    days = pa.array([0, 2**31 - 1], pa.int32()).view(pa.date32())
    _commit_rows(tmp_path / "ds", {"train": [[pa.record_batch({"__key__": ["a", "b"], "day": days})]]})
    with pytest.raises(UsageError, match=r"to_pandas: column 'day', date32\[day\]: .*Leave it out"):
        toolkit.open(tmp_path / "ds").to_pandas()
