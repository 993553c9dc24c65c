"""Steps on batches besides mixup and cutmix: resizemix, label smoothing, padding to the longest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mixing_oracle as oracle
import numpy as np
import pyarrow as pa
import pytest
from keyed_rows import keyed

import toolkit
from toolkit import slot
from toolkit.errors import LoaderError, PipelineError, SampleError


def weights(size: int, out: int) -> np.ndarray:
    """(out, size): Pillow's BILINEAR."""
    scale = size / out
    middles = (np.arange(out)[:, None] + 0.5) * scale
    made = np.maximum(1 - np.abs((np.arange(size)[None] + 0.5 - middles) / scale), 0)
    return np.asarray(made / made.sum(1, keepdims=True))


@pytest.fixture
def photos(dataset: Path) -> toolkit.Dataset:
    return toolkit.open(dataset, split="train")


def test_resizemix_is_the_oracles(photos: toolkit.Dataset) -> None:
    slots = slot("image").decode_image().resize((20, 13)).normalize("half")
    options: dict[str, Any] = {"batch_size": 4, "seed": 6, "shuffle": "full"}
    step = toolkit.resizemix(scale=(0.2, 0.9), alpha=2)
    loader = photos.loader(toolkit.pipeline(slots, batch_maps=[step]), **options)
    for got, own in zip(loader, photos.loader(toolkit.pipeline(slots), **options), strict=True):
        for i, position in enumerate(got.positions):
            key = oracle.key(6, 0, int(position) & ~1, "ResizeMix#0")
            scale = 0.2 + (0.9 - 0.2) * oracle.beta(2, key)
            h, w = max(1, int(20 * scale)), max(1, int(13 * scale))
            top, left = int(oracle.draw(key, 4) * (20 - h + 1)), int(oracle.draw(key, 5) * (13 - w + 1))
            want = own["image"][i].astype(np.float64)
            patch = np.einsum("jy,ix,cyx->cji", weights(20, h), weights(13, w), own["image"][i ^ 1])
            want[:, top : top + h, left : left + w] = patch
            np.testing.assert_allclose(got["image"][i], want, atol=1e-5)
            share = 1 - h * w / (20 * 13)
            soft = share * oracle.soft(own["label"][i], 2) + (1 - share) * oracle.soft(own["label"][i ^ 1], 2)
            np.testing.assert_allclose(got["label"][i], soft, atol=1e-6)


@pytest.mark.parametrize("scale", [(0, 0), (0.5, 0.2), (0.1, 1.1), 0.5, (float("nan"), 1)])
def test_scales_that_can_not_be(scale: Any) -> None:
    with pytest.raises(PipelineError, match="batch step resizemix: scale must"):
        toolkit.resizemix(scale=scale)


def test_label_smoothing_is_torchs(photos: toolkit.Dataset) -> None:
    torch = pytest.importorskip("torch")
    made = toolkit.pipeline(batch_maps=[toolkit.label_smoothing(0.1, classes=7)])
    labels = next(iter(photos.open_split("train").loader(batch_size=4)))["label"]
    soft = next(iter(photos.loader(made, batch_size=4, output="torch")))["label"]
    scores = torch.randn(4, 7, generator=torch.Generator().manual_seed(1))
    wanted = torch.nn.functional.cross_entropy(scores, torch.from_numpy(labels), label_smoothing=0.1)
    assert soft.dtype == torch.float32
    torch.testing.assert_close(torch.nn.functional.cross_entropy(scores, soft), wanted)
    twice = toolkit.pipeline(batch_maps=[toolkit.label_smoothing(0.1, classes=7), toolkit.label_smoothing(0.5)])
    again = next(iter(photos.loader(twice, batch_size=4)))["label"]
    np.testing.assert_allclose(again, soft.numpy() / 2 + 0.5 / 7, rtol=1e-6)


def test_label_smoothing_takes_any_batch_size(photos: toolkit.Dataset) -> None:
    made = toolkit.pipeline(batch_maps=[toolkit.label_smoothing(0.2)])
    for batch in photos.loader(made, batch_size=5, remainder="pad"):
        np.testing.assert_allclose(batch["label"].sum(1), batch.mask.astype(float), rtol=1e-6)
    with pytest.raises(PipelineError, match="smoothing must be below 1"):
        toolkit.label_smoothing(1)


@pytest.fixture
def ragged(tmp_path: Path, commit_rows: Callable[..., str]) -> toolkit.Dataset:
    lists = [[float(j) for j in range(i % 4 + 1)] for i in range(7)]
    columns = {"x": pa.array(lists, pa.list_(pa.float32())), "number": pa.array(range(7), pa.int64())}
    commit_rows(tmp_path / "ds", {"train": [[keyed(columns)]]})
    return toolkit.open(tmp_path / "ds")


def test_lists_are_padded_to_the_longest(ragged: toolkit.Dataset) -> None:
    lists = slot("x").array("float32", (None,))
    made = toolkit.pipeline(lists, batch_maps=[toolkit.pad_to_longest("x", value=-1)])
    first, last = ragged.loader(made, batch_size=5, remainder="pad", output="numpy")
    assert first["x"].tolist() == [[0, -1, -1, -1], [0, 1, -1, -1], [0, 1, 2, -1], [0, 1, 2, 3], [0, -1, -1, -1]]
    assert first["x_length"].tolist() == [1, 2, 3, 4, 1]
    assert (first["x"].dtype, first["x_length"].dtype) == (np.float32, np.int64)
    assert last["x"].tolist() == [[0, 1, -1], [0, 1, 2], [-1] * 3, [-1] * 3, [-1] * 3]
    assert last["x_length"].tolist() == [2, 3, 0, 0, 0]
    made = toolkit.pipeline(lists, batch_maps=[toolkit.pad_to_longest("x", multiple_of=8)])
    assert [batch["x"].shape for batch in ragged.loader(made, batch_size=5)] == [(5, 8), (2, 8)]


@pytest.mark.parametrize(
    ("dtype", "value"), [("float32", 1e300), ("float16", 1e5), ("int64", 2.0**63), ("int64", 1e300), ("uint8", -1)]
)
def test_what_stands_behind_the_end_fits(ragged: toolkit.Dataset, dtype: str, value: float) -> None:
    ends = slot("x").python(lambda value: np.zeros(len(value), dtype), (dtype, (None,)))
    made = toolkit.pipeline(ends, batch_maps=[toolkit.pad_to_longest("x", value=value)])
    with pytest.raises(LoaderError, match=rf"value=.* doesn't fit {dtype} in column 'x'"):
        next(iter(ragged.loader(made, batch_size=5)))


def test_what_can_not_be_padded(ragged: toolkit.Dataset) -> None:
    def load(*slots: toolkit.Slot, column: str = "x", **options: Any) -> None:
        made = toolkit.pipeline(*slots, batch_maps=[toolkit.pad_to_longest(column, **options)])
        list(ragged.loader(made, batch_size=5))

    with pytest.raises(PipelineError, match=r"expected arrays of numbers, got a value column|got a list"):
        load()
    with pytest.raises(PipelineError, match="expected a column 'y'"):
        load(column="y")
    with pytest.raises(PipelineError, match="expected arrays of numbers"):
        load(slot("number").scalar("int64"), column="number")
    with pytest.raises(PipelineError, match="multiple_of must be a positive int, got 0"):
        load(multiple_of=0)
    with pytest.raises(LoaderError, match=r"value=0.5 doesn't fit int8"):
        load(slot("x").python(lambda value: np.zeros(2, np.int8), ("int8", (None,))), value=0.5)
    uneven = slot("x").python(lambda value: np.zeros((1, len(value)), np.int8), ("int8", (None, None)))
    with pytest.raises(SampleError, match=r"row 1, .*int8 \(1, 2\) can't be padded to fit int8 \(1, 1\)"):
        load(uneven)


@pytest.fixture
def gaps(tmp_path: Path, commit_rows: Callable[..., str]) -> toolkit.Dataset:
    columns = {
        "image": pa.array([np.full(4, i, np.float32).tobytes() for i in range(8)]),
        "label": pa.array([0, 1, None, 2, 1, 0, 2, None], pa.int64()),
    }
    commit_rows(tmp_path / "gaps", {"train": [[keyed(columns)]]})
    return toolkit.open(tmp_path / "gaps")


GAPS = (
    slot("image").array("float32", (4,)),
    slot("label", optional=True, fill=-1).scalar("int64"),
)


def test_what_a_function_keeps_stays_as_it_is(gaps: toolkit.Dataset) -> None:
    mine = np.eye(3, dtype=np.float32)[[0] * 8]
    pictures = np.arange(32, dtype=np.float32).reshape(8, 4)
    before = pictures.copy()

    def same_again(columns: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        return {**columns, "label": mine, "image": pictures}

    maps = [same_again, toolkit.label_smoothing(0.3), toolkit.mixup(1.0, prob=0.9)]
    loader = gaps.loader(toolkit.pipeline(*GAPS, batch_maps=maps), batch_size=8, epochs=3)
    for batch in loader:
        assert batch["label"][0].tolist() == pytest.approx([0.8, 0.1, 0.1])
    np.testing.assert_array_equal(mine, np.eye(3)[[0] * 8])
    np.testing.assert_array_equal(pictures, before)


@pytest.mark.parametrize("mixed", [("image",), ("clean",), ("image", "clean")])
def test_columns_of_one_array_are_mixed_by_themselves(gaps: toolkit.Dataset, mixed: tuple[str, ...]) -> None:
    def copies(columns: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        return {**columns, "clean": columns["image"]}

    maps = [toolkit.batch_map(copies, adds=("clean",)), toolkit.mixup(1.0, columns=mixed, label=None)]
    (batch,) = gaps.loader(toolkit.pipeline(*GAPS, batch_maps=maps), batch_size=8, seed=3)
    (alone,) = gaps.loader(toolkit.pipeline(*GAPS, batch_maps=[toolkit.mixup(1.0, label=None)]), batch_size=8, seed=3)
    plain = np.repeat(np.arange(8, dtype=np.float32)[:, None], 4, axis=1)
    for name in ("image", "clean"):
        np.testing.assert_array_equal(batch[name], alone["image"] if name in mixed else plain)


def test_pairs_of_labels_carry_what_is_missing(gaps: toolkit.Dataset) -> None:
    maps = [
        toolkit.mixup(1.0, labels="pair", classes=3),
        toolkit.label_smoothing(0.3, label="label_a", classes=3),
        toolkit.label_smoothing(0.3, label="label_b", classes=3),
    ]
    (batch,) = gaps.loader(toolkit.pipeline(*GAPS, batch_maps=maps), batch_size=8)
    there = [True, True, False, True, True, True, True, False]
    assert {name: found.tolist() for name, found in batch.present.items()} == {"label_a": there, "label_b": there}
    for name in ("label_a", "label_b"):
        np.testing.assert_allclose(batch[name].sum(1), there, rtol=1e-6)


def test_classes_that_are_others_than_the_shares(gaps: toolkit.Dataset) -> None:
    shares = slot("label", optional=True).scalar("int64").one_hot(3)
    for step in (toolkit.label_smoothing(0.1, classes=5), toolkit.mixup(1.0, classes=5)):
        with pytest.raises(PipelineError, match="shares of classes=5 in column 'label'"):
            gaps.loader(toolkit.pipeline(GAPS[0], shares, batch_maps=[step]), batch_size=4)
