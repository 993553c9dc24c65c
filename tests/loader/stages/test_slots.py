"""Slots of every kind of column, in batches."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from keyed_rows import keyed
from pictures import encode, picture

import toolkit
from toolkit import slot
from toolkit.errors import SampleError
from toolkit.format.media import IMAGE_TYPE, RAW_IMAGE_TYPE

Commit = Callable[..., str]


def npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


@pytest.fixture
def table(tmp_path: Path, commit_rows: Commit) -> Callable[..., toolkit.Dataset]:
    def make(**columns: pa.Array) -> toolkit.Dataset:
        commit_rows(tmp_path / "ds", {"train": [[keyed(columns)]]})
        return toolkit.open(tmp_path / "ds")

    return make


def only(ds: toolkit.Dataset, *slots: toolkit.Slot, **options: Any) -> toolkit.Batch:
    (batch,) = ds.loader(toolkit.pipeline(*slots), batch_size=len(ds), **options)
    return batch


def test_numbers(table: Callable[..., toolkit.Dataset]) -> None:
    ds = table(
        id=pa.array([0, 2, 1], pa.int64()),
        big=pa.array([2**64 - 1, 0, 5], pa.uint64()),
        yes=pa.array([True, False, True]),
        real=pa.array([0.5, 1e300, -1.0]),
        half=pa.array(np.array([1, 2, 3], np.float16)),
    )
    batch = only(
        ds,
        slot("id").scalar("int32"),
        slot("id", name="hot").scalar("int64").one_hot(3),
        slot("big").scalar("float32"),
        slot("yes").scalar("uint8"),
        slot("half").scalar("float64").cast("float32"),
    )
    assert (batch["id"].dtype, batch["id"].tolist()) == (np.int32, [0, 2, 1])
    assert (batch["hot"].dtype, batch["hot"].tolist()) == (np.float32, [[1, 0, 0], [0, 0, 1], [0, 1, 0]])
    assert (batch["big"].dtype, batch["big"].tolist()) == (np.float32, [2.0**64, 0, 5])
    assert (batch["yes"].dtype, batch["yes"].tolist()) == (np.uint8, [1, 0, 1])
    assert (batch["half"].dtype, batch["half"].tolist()) == (np.float32, [1, 2, 3])
    assert batch["real"].tolist() == [0.5, 1e300, -1.0]
    assert list(batch) == ["id", "hot", "big", "yes", "real", "half"]
    for bad, says in (
        (slot("big").scalar("int64"), "key 'k0', slot 'big', step scalar.*18446744073709551615 doesn't fit int64"),
        (slot("real").scalar("float32"), r"key 'k1', .*1e\+300 doesn't fit float32"),
        (slot("id").scalar("int8").one_hot(2), "key 'k1', .*step one_hot.2.: 2 is no class id of 2 classes"),
    ):
        with pytest.raises(SampleError, match=says):
            only(ds, bad)


def test_booleans_without_a_slot_are_an_array(table: Callable[..., toolkit.Dataset]) -> None:
    (batch,) = table(yes=pa.array([True, False, True])).loader(batch_size=3)
    assert (batch["yes"].dtype, batch["yes"].tolist()) == (np.bool_, [True, False, True])
    ds = table(yes=pa.array([True, None]))
    with pytest.raises(SampleError, match=r"dataset .*ds, shard shards/.*, row 1, key 'k1', slot 'yes', step read"):
        list(ds.loader(batch_size=2))


def test_text_bytes_and_json(table: Callable[..., toolkit.Dataset]) -> None:
    ds = table(
        text=pa.array(["é", "", "猫"]),
        latin=pa.array([b"\xe9", b"", b"a"]),
        json=pa.array(['{"a": [1]}', "2", '"x"']),
    )
    batch = only(
        ds,
        slot("text").text(),
        slot("text", name="raw").bytes(),
        slot("text", name="stored").passthrough(),
        slot("latin").text("latin-1"),
        slot("json").json(),
        slot("json", name="size").python(len, "int64"),
    )
    assert batch["text"] == batch["stored"] == ["é", "", "猫"]
    assert batch["raw"] == ["é".encode(), b"", "猫".encode()]
    assert batch["latin"] == ["é", "", "a"]
    assert batch["json"] == [{"a": [1]}, 2, "x"]
    assert batch["size"].tolist() == [10, 1, 3]
    with pytest.raises(SampleError, match=r"key 'k0', slot 'latin', step text.*can't decode byte 0xe9"):
        only(ds, slot("latin").text())
    with pytest.raises(SampleError, match=r"key 'k0', slot 'text', step json..: Expecting value"):
        only(ds, slot("text").json())
    with pytest.raises(toolkit.errors.PipelineError, match="stored text is UTF-8"):
        only(ds, slot("text").text("latin-1"))


def test_json_nested_beyond_pythons_stack_is_an_error(table: Callable[..., toolkit.Dataset]) -> None:
    with pytest.raises(SampleError, match="key 'k0', slot 'deep', step json"):
        only(table(deep=pa.array(["[" * 200_000])), slot("deep").json())


def test_arrays(table: Callable[..., toolkit.Dataset]) -> None:
    ds = table(
        raw=pa.array([np.arange(4, dtype="<f4").tobytes(), np.ones(4, "<f4").tobytes()]),
        list=pa.array([[1, 2], [3, 4]], pa.list_(pa.int32())),
        ragged=pa.array([[1.0], [2.0, 3.0]]),
        file=pa.array([npy(np.eye(2)), npy(np.zeros((2, 2)))]),
        odd=pa.array([npy(np.arange(2)), npy(np.arange(3))]),
    )
    batch = only(
        ds,
        slot("raw").array("float32", (2, 2)),
        slot("list").array("int64", (2,)).cast("float32"),
        slot("ragged").array("float32", (None,)),
        slot("file").npy("float64", (2, 2)).cast("float32"),
        slot("odd").npy(),
    )
    assert batch["raw"].tolist() == [[[0, 1], [2, 3]], [[1, 1], [1, 1]]]
    assert (batch["list"].dtype, batch["list"].tolist()) == (np.float32, [[1, 2], [3, 4]])
    assert [array.tolist() for array in batch["ragged"]] == [[1], [2, 3]]
    assert (batch["file"].dtype, batch["file"].tolist()) == (np.float32, [[[1, 0], [0, 1]], [[0, 0], [0, 0]]])
    assert [array.tolist() for array in batch["odd"]] == [[0, 1], [0, 1, 2]]
    with pytest.raises(SampleError, match=r"key 'k1', slot 'odd', step npy.*its shape is \(3,\), expected \(2\)"):
        only(ds, slot("odd").npy(shape=(2,)))


def images(*sides: int | None) -> pa.Array:
    made = [None if side is None else {"bytes": encode(picture(side, side, side)), "path": "a"} for side in sides]
    return pa.array(made, IMAGE_TYPE)


def test_missing_values_of_optional_slots_mix_with_others(table: Callable[..., toolkit.Dataset]) -> None:
    ds = table(
        image=images(None, 30, 40, None, None, 50),
        text=pa.array(["a", None, None, "d", "e", "f"]),
        number=pa.array([1, None, 3, None, 5, 6], pa.int64()),
        yes=pa.array([None, True, False, None, None, None]),
    )
    steps = toolkit.chain().decode_image().resize_short(16).center_crop(16)
    for threads in (1, 3):
        batch = only(
            ds,
            slot("image", optional=True, fill=7).then(steps),
            slot("image", name="zero", optional=True).then(steps).normalize("unit"),
            slot("image", name="any", optional=True).decode_image(),
            slot("image", name="mean", optional=True, fill=-1).then(steps).python(np.mean, "float64"),
            slot("text", optional=True, fill="none").text(),
            slot("number", optional=True, fill=-1).scalar("int16"),
            slot("yes", optional=True),
            threads=threads,
        )
        there = [False, True, True, False, False, True]
        for name in ("image", "zero", "any", "mean"):
            assert batch.present[name].tolist() == there
        assert [bool((image == 7).all()) for image in batch["image"]] == [not each for each in there]
        scaled = (batch["image"][there] / 255).transpose(0, 3, 1, 2)
        np.testing.assert_allclose(batch["zero"][there], scaled, atol=1e-6)
        assert not batch["zero"][~batch.present["zero"]].any()
        assert [None if image is None else image.shape[0] for image in batch["any"]] == [None, 30, 40, None, None, 50]
        assert batch["mean"].tolist() == [-1 if not there[i] else batch["image"][i].mean() for i in range(6)]
        assert batch["text"] == ["a", "none", "none", "d", "e", "f"]
        assert (batch["number"].dtype, batch["number"].tolist()) == (np.int16, [1, -1, 3, -1, 5, 6])
        assert batch["yes"].tolist() == [False, True, False, False, False, False]
        assert batch.present["yes"].tolist() == [False, True, True, False, False, False]


def test_images_of_pixels_may_be_missing_too(table: Callable[..., toolkit.Dataset]) -> None:
    pixels = [np.full((4, side, 3), side, np.uint8) for side in (5, 6)]
    stored = [{"pixels": p.tobytes(), "height": 4, "width": p.shape[1], "channels": 3} for p in pixels]
    ds = table(image=pa.array([None, stored[0], stored[1], None], RAW_IMAGE_TYPE))
    batch = only(
        ds,
        slot("image", optional=True, fill=9).decode_image().center_crop(2),
        slot("image", name="whole", optional=True).decode_image(),
        slot("image", name="stored", optional=True),
        slot("image", name="sum", optional=True, fill=0).python(np.sum, "uint64"),
    )
    assert batch["image"][:, 0, 0, 0].tolist() == [9, 5, 6, 9]
    assert batch["sum"].tolist() == [0, 4 * 5 * 3 * 5, 4 * 6 * 3 * 6, 0]
    for name in ("whole", "stored"):
        assert batch[name][0] is None
        np.testing.assert_array_equal(batch[name][2], pixels[1])
        assert batch.present[name].tolist() == [False, True, True, False]


def test_a_batch_in_which_nothing_is_there(table: Callable[..., toolkit.Dataset]) -> None:
    ds = table(image=images(None, None), file=pa.array([None, None], pa.binary()))
    batch = only(
        ds,
        slot("image", optional=True, fill=3).decode_image().center_crop(4),
        slot("file", optional=True).npy("int8", (2, 2)).cast("float32"),
    )
    assert (batch["image"] == 3).all()
    assert batch["file"].tolist() == [[[0, 0], [0, 0]]] * 2
    assert not batch.present["image"].any()


@pytest.mark.parametrize("made", [slot("image").decode_image(), slot("text").text(), slot("text"), slot("number")])
def test_a_missing_value_of_any_other_slot_names_the_sample(
    table: Callable[..., toolkit.Dataset], made: toolkit.Slot
) -> None:
    ds = table(image=images(30, None), text=pa.array(["a", None]), number=pa.array([1, None]))
    with pytest.raises(SampleError, match=f"row 1, key 'k1', slot '{made.name}', .*missing.*optional=True") as caught:
        only(toolkit.open(ds.root, columns=[made.column]), made)
    assert (caught.value.dataset, caught.value.row, caught.value.key) == (ds.root, 1, "k1")


def test_images_in_a_column_of_bytes(table: Callable[..., toolkit.Dataset]) -> None:
    ds = table(raw=pa.array([encode(picture(1, 30, 20))], pa.large_binary()), image=images(30))
    batch = only(ds, slot("raw").decode_image(), slot("image").bytes())
    assert batch["raw"][0].shape == (20, 30, 3)
    assert batch["image"] == [ds[0]["image"]["bytes"]]
    (plain,) = ds.loader(batch_size=1)
    assert plain["image"] == [ds[0]["image"]]  # a struct that nobody called an image


def test_two_views_of_a_column_and_names_of_their_own(table: Callable[..., toolkit.Dataset]) -> None:
    ds = table(image=images(30), n=pa.array([4]))
    decode = toolkit.chain().decode_image()
    batch = only(
        ds,
        slot("image", name="small").then(decode).center_crop(4),
        slot("image", name="large").then(decode).center_crop(8),
    )
    assert list(batch) == ["small", "large", "n"]
    np.testing.assert_array_equal(batch["large"][:, 2:6, 2:6], batch["small"])


@pytest.mark.parametrize("output", ["torch", "jax"])
def test_lists_and_arrays_reach_frameworks(table: Callable[..., toolkit.Dataset], output: str) -> None:
    ds = table(text=pa.array(["a"]), ragged=pa.array([[1.0]]), yes=pa.array([True]))
    batch = only(ds, slot("ragged").array("float32", (None,)), output=output)
    assert batch["text"] == ["a"]
    assert np.asarray(batch["ragged"][0]).tolist() == [1.0]
    assert np.asarray(batch["yes"]).tolist() == [True]
