"""mixup and cutmix in a loader equal an oracle that recomputes every sample from seed, epoch and position."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mixing_oracle as oracle
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from keyed_rows import keyed
from pictures import encode, picture

import toolkit
from toolkit import slot
from toolkit.errors import LoaderError, PipelineError, SampleError, UsageError

ROWS, CLASSES, SIDE = 23, 5, 8
Seen = dict[tuple[int, int], tuple[Any, ...]]


@pytest.fixture
def ds(tmp_path: Path, commit_rows: Callable[..., str]) -> toolkit.Dataset:
    rng = np.random.default_rng(5)
    pixels = rng.integers(0, 256, (ROWS, SIDE, SIDE, 3), np.uint8)
    columns = {
        "image": pa.array([row.tobytes() for row in pixels]),
        "label": pa.array(np.arange(ROWS) % CLASSES),
        "number": pa.array(rng.random(ROWS)),
    }
    commit_rows(tmp_path / "ds", {"train": [[keyed(columns)]]})
    return toolkit.open(tmp_path / "ds")


def images(dtype: str = "float32") -> toolkit.Slot:
    return slot("image").array("uint8", (SIDE, SIDE, 3)).cast(dtype)


def pictures() -> toolkit.Slot:
    return slot("image").decode_image().resize((SIDE, SIDE)).normalize("half")


LABELS = slot("label").scalar("int64")


def collect(ds: toolkit.Dataset, pipeline: toolkit.Pipeline | None, *names: str, **options: Any) -> Seen:
    """Every sample's values by epoch and position, and its row behind them."""
    seen: Seen = {}
    with ds.loader(pipeline, **{"shuffle": "full", "seed": 9, "epochs": 2, **options}) as loader:
        for batch in loader:
            for i in np.flatnonzero(batch.mask):
                values = tuple(np.asarray(batch[name][i]).copy() for name in names)
                seen[batch.epoch, int(batch.positions[i])] = (*values, int(batch.rows[i]))
    return seen


def same(one: Seen, other: Seen) -> None:
    assert one.keys() == other.keys()
    for place, values in one.items():
        for a, b in zip(values, other[place], strict=True):
            np.testing.assert_array_equal(a, b, err_msg=str(place))


def wanted(plain: Seen, name: str, mix: Callable[[Any, Any, int], tuple[Any, float]]) -> Seen:
    """Every sample mixed with its partner: mix(own, partner's, key) gives the values and the share."""
    made: Seen = {}
    for (epoch, position), (own, label, row) in plain.items():
        soft = oracle.soft(int(label), CLASSES)
        partner = plain.get((epoch, position ^ 1))
        if partner is not None:
            own, share = mix(own, partner[0], oracle.key(9, epoch, position & ~1, name))
            soft = oracle.blended(soft, oracle.soft(int(partner[1]), CLASSES), share)
        made[epoch, position] = (own, soft, row)
    return made


def test_mixup_is_the_oracles(ds: toolkit.Dataset) -> None:
    plain = collect(ds, toolkit.pipeline(images(), LABELS), "image", "label", batch_size=6)
    step = toolkit.mixup(0.4, classes=CLASSES)
    got = collect(ds, toolkit.pipeline(images(), LABELS, batch_maps=[step]), "image", "label", batch_size=6)

    def mix(own: Any, other: Any, key: int) -> tuple[Any, float]:
        share = oracle.beta(0.4, key)
        return oracle.blended(own, other, share), share

    same(got, wanted(plain, "Mixup#0", mix))
    assert len({float(values[1].max()) for values in got.values()}) > ROWS // 2


@pytest.mark.parametrize("name", ["uint8", "float16", "float64"])
def test_mixup_of_other_dtypes(ds: toolkit.Dataset, name: str) -> None:
    plain = collect(ds, toolkit.pipeline(images(name), LABELS), "image", "label", batch_size=6)
    step = toolkit.mixup(2, classes=CLASSES, name="mine")
    got = collect(ds, toolkit.pipeline(images(name), LABELS, batch_maps=[step]), "image", "label", batch_size=6)

    def mix(own: Any, other: Any, key: int) -> tuple[Any, float]:
        share = oracle.beta(2, key)
        return oracle.blended(own, other, share), share

    same(got, wanted(plain, 'Mixup="mine"', mix))


@pytest.fixture
def photos(dataset: Path) -> toolkit.Dataset:
    return toolkit.open(dataset, split="train")


@pytest.mark.parametrize("chw", [True, False])
def test_cutmix_is_the_oracles(photos: toolkit.Dataset, chw: bool) -> None:
    slots = slot("image").decode_image().resize((9, 14))
    slots = slots.normalize("half") if chw else slots
    plain = collect(photos, toolkit.pipeline(slots), "image", "label", batch_size=4)
    made = toolkit.pipeline(slots, batch_maps=[toolkit.cutmix(1.0, classes=CLASSES)])
    got = collect(photos, made, "image", "label", batch_size=4)

    def mix(own: Any, other: Any, key: int) -> tuple[Any, float]:
        where = oracle.box(oracle.beta(1.0, key), key, 9, 14)
        return oracle.cut(own, other, where, chw=chw), oracle.kept(where, 9, 14)

    same(got, wanted(plain, "Cutmix#0", mix))


def test_either_of_them_by_the_pair(photos: toolkit.Dataset) -> None:
    slots = slot("image").decode_image().resize((9, 14))
    plain = collect(photos, toolkit.pipeline(slots), "image", "label", batch_size=4, epochs=4)
    step = toolkit.mixup_or_cutmix(0.3, 0.9, switch_prob=0.4, prob=0.8, classes=CLASSES)
    got = collect(photos, toolkit.pipeline(slots, batch_maps=[step]), "image", "label", batch_size=4, epochs=4)
    seen = set()

    def mix(own: Any, other: Any, key: int) -> tuple[Any, float]:
        if oracle.draw(key, 0) >= 0.8:
            seen.add("neither")
            return own, 1.0
        if oracle.draw(key, 1) < 0.4:
            seen.add("cutmix")
            where = oracle.box(oracle.beta(0.9, key), key, 9, 14)
            return oracle.cut(own, other, where, chw=False), oracle.kept(where, 9, 14)
        seen.add("mixup")
        share = oracle.beta(0.3, key)
        return oracle.blended(own, other, share), share

    same(got, wanted(plain, "MixupOrCutmix#0", mix))
    assert seen == {"neither", "cutmix", "mixup"}


STEPS = [toolkit.mixup_or_cutmix(0.3, 0.9, classes=CLASSES, smoothing=0.1)]


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(half=st.integers(1, 14), threads=st.integers(1, 3), world_size=st.sampled_from([1, 2, 4]))
def test_batches_threads_and_ranks_change_nothing(
    photos: toolkit.Dataset, half: int, threads: int, world_size: int
) -> None:
    made = toolkit.pipeline(slot("image").decode_image().resize((6, 6)).normalize("half"), batch_maps=STEPS)
    whole = collect(photos, made, "image", "label", batch_size=len(photos) + len(photos) % 2)
    seen: Seen = {}
    for rank in range(world_size):
        ranks: dict[str, Any] = {"rank": rank, "world_size": world_size, "remainder": "pad"}
        part = collect(photos, made, "image", "label", batch_size=2 * half, threads=threads, **ranks)
        assert not part.keys() & seen.keys()
        seen |= part
    same(seen, whole)


@pytest.mark.parametrize("mode", ["pair", "batch"])
def test_a_run_that_was_cut_off_goes_on(photos: toolkit.Dataset, mode: str) -> None:
    step = toolkit.mixup(0.5, classes=CLASSES, mode=mode)
    made = toolkit.pipeline(slot("image").decode_image().resize((6, 6)), batch_maps=[step])
    options: dict[str, Any] = {"batch_size": 4, "shuffle": "full", "seed": 3}
    whole = [dict(batch) for batch in photos.loader(made, **options)]
    loader = photos.loader(made, **options)
    for number, batch in enumerate(loader):
        state = json.dumps(loader.state_dict())
        fresh = pickle.loads(pickle.dumps(photos.loader(pickle.loads(pickle.dumps(made)), **options)))
        fresh.load_state_dict(json.loads(state))
        rest = list(fresh) if number + 1 < len(whole) else []
        for got, want in zip([batch, *rest], whole[number:], strict=True):
            for name in want:
                np.testing.assert_array_equal(got[name], want[name])


def test_a_batch_and_itself_turned_round(photos: toolkit.Dataset) -> None:
    slots = slot("image").decode_image().resize((6, 6)).normalize("half")
    plain = [dict(batch) for batch in photos.loader(toolkit.pipeline(slots), batch_size=5, seed=2)]
    step = toolkit.mixup(0.5, classes=CLASSES, mode="batch")
    loader = photos.loader(toolkit.pipeline(slots, batch_maps=[step]), batch_size=5, seed=2)
    for got, own in zip(loader, plain, strict=True):
        share = oracle.beta(0.5, oracle.key(2, 0, int(got.positions[0]), "Mixup#0"))
        n = len(got["label"])
        for i in range(n):
            other = n - 1 - i
            want = own["image"][i], oracle.soft(own["label"][i], CLASSES)
            if other != i:
                want = (
                    oracle.blended(want[0], own["image"][other], share),
                    oracle.blended(want[1], oracle.soft(own["label"][other], CLASSES), share),
                )
            np.testing.assert_array_equal(got["image"][i], want[0])
            np.testing.assert_array_equal(got["label"][i], want[1])


def test_a_state_by_batch_is_of_its_batches(photos: toolkit.Dataset) -> None:
    slots = slot("image").decode_image().resize((6, 6))
    by_batch = toolkit.pipeline(slots, batch_maps=[toolkit.mixup(0.5, classes=CLASSES, mode="batch")])
    by_pair = toolkit.pipeline(slots, batch_maps=[toolkit.mixup(0.5, classes=CLASSES)])
    state = photos.loader(by_batch, batch_size=4).state_dict()
    assert (state["global_batch_size"], state["world_size"]) == (4, 1)
    with pytest.raises(UsageError, match="global_batch_size 4 there, 6 here; world_size 1 there, 3 here"):
        photos.loader(by_batch, batch_size=2, rank=0, world_size=3, remainder="drop").load_state_dict(state)
    with pytest.raises(UsageError, match=r"pipeline .*; global_batch_size 4 there, None here"):
        photos.loader(by_pair, batch_size=4).load_state_dict(state)
    other = photos.loader(by_pair, batch_size=4).state_dict()
    assert "global_batch_size" not in other
    with pytest.raises(UsageError, match=r"pipeline .*; global_batch_size None there, 4 here"):
        photos.loader(by_batch, batch_size=4).load_state_dict(other)
    photos.loader(by_pair, batch_size=6).load_state_dict(other)


def test_labels_in_pairs(ds: toolkit.Dataset) -> None:
    step = toolkit.mixup(0.5, labels="pair", classes=CLASSES)
    made = toolkit.pipeline(images(), LABELS, batch_maps=[step])
    batches = list(ds.loader(made, batch_size=6, seed=9))
    assert list(batches[0]) == ["image", "label_a", "label_b", "lam", "number"]
    for batch in batches:
        plain = ds.take(batch.rows.tolist())
        assert batch["label_a"].tolist() == [plain[i]["label"] for i in range(len(plain))]
        assert batch["lam"].dtype == np.float32
        for i, position in enumerate(batch.positions):
            j = i ^ 1
            alone = j >= len(batch["lam"])
            share = 1.0 if alone else oracle.beta(0.5, oracle.key(9, 0, int(position) & ~1, "Mixup#0"))
            assert batch["lam"][i] == np.float32(share)
            assert batch["label_b"][i] == batch["label_a"][i if alone else j]


def test_numbers_are_mixed_as_they_are(ds: toolkit.Dataset) -> None:
    slots = (images(), slot("number").scalar("float32"), LABELS.one_hot(CLASSES))
    plain = next(iter(ds.loader(toolkit.pipeline(*slots), batch_size=2)))
    for label in ("number", "label"):
        step = toolkit.mixup(0.5, label=label)
        got = next(iter(ds.loader(toolkit.pipeline(*slots, batch_maps=[step]), batch_size=2)))
        share = oracle.beta(0.5, oracle.key(0, 0, 0, "Mixup#0"))
        np.testing.assert_array_equal(got[label][0], oracle.blended(plain[label][0], plain[label][1], share))


def test_masks_are_cut_alike(photos: toolkit.Dataset) -> None:
    slots = (
        slot("image").decode_image().resize((8, 8)).normalize("half"),
        slot("image", name="mask", sync="image").decode_image(mode="gray").resize((8, 8)),
    )
    plain = next(iter(photos.loader(toolkit.pipeline(*slots), batch_size=2, seed=4)))
    step = toolkit.cutmix(1, columns=["image", "mask"], label=None)
    got = next(iter(photos.loader(toolkit.pipeline(*slots, batch_maps=[step]), batch_size=2, seed=4)))
    key = oracle.key(4, 0, 0, "Cutmix#0")
    where = oracle.box(oracle.beta(1, key), key, 8, 8)
    assert where[0].start < where[0].stop
    assert where[1].start < where[1].stop
    for name, chw in (("image", True), ("mask", False)):
        for i in (0, 1):
            want = oracle.cut(plain[name][i], plain[name][1 - i], where, chw=chw)
            np.testing.assert_array_equal(got[name][i], want)
    np.testing.assert_array_equal(got["label"], plain["label"])


def test_what_is_not_there_is_mixed_with_nothing(tmp_path: Path, commit_samples: Callable[..., str]) -> None:
    good = encode(picture(1))
    samples = [
        {"__key__": f"k{i}", "image": None if i == 2 else {"bytes": good, "path": None}, "label": i % 2}
        for i in range(8)
    ]
    commit_samples(tmp_path / "ds", {"train": [samples]})
    ds = toolkit.open(tmp_path / "ds")
    slots = slot("image", optional=True, fill=7).decode_image().resize((4, 4))
    made = toolkit.pipeline(slots, batch_maps=[toolkit.mixup(1.0, labels="pair")])
    batch = next(iter(ds.loader(made, batch_size=8)))
    assert (batch["lam"][2:4] == 1).all()
    assert (batch["label_b"][2:4] == batch["label_a"][2:4]).all()
    assert (batch["image"][2] == 7).all()
    assert not batch.present["image"][2]
    assert (batch["lam"][[0, 1, 4, 5, 6, 7]] != 1).all()
    made = toolkit.pipeline(slots, batch_maps=[toolkit.mixup(1.0, mode="batch", labels="pair")])
    batch = next(iter(ds.loader(made, batch_size=8)))
    assert batch["label_b"].tolist() == [1, 0, 0, 1, 0, 1, 1, 0]  # 0 and 7, 1 and 6, 3 and 5


def test_skipped_and_padded_places_stay_empty(tmp_path: Path, commit_samples: Callable[..., str]) -> None:
    good = encode(picture(1))
    samples = [
        {"__key__": f"k{i}", "image": {"bytes": b"broken" if i == 2 else good, "path": None}, "label": i % 2}
        for i in range(9)
    ]
    commit_samples(tmp_path / "ds", {"train": [samples]})
    ds = toolkit.open(tmp_path / "ds")
    slots = slot("image").decode_image().resize((4, 4)).normalize("half")
    plain = list(ds.loader(toolkit.pipeline(slots), batch_size=6, remainder="pad", on_error="skip", max_skips=9))
    made = toolkit.pipeline(slots, batch_maps=[toolkit.mixup(1.0)])
    got = list(ds.loader(made, batch_size=6, remainder="pad", on_error="skip", max_skips=9))
    assert got[0].mask.tolist() == [True, True, False, True, True, True]
    assert got[1].mask.tolist() == [True, True, True, False, False, False]
    for one in got:
        assert not one["image"][~one.mask].any()
        assert not one["label"][~one.mask].any()
    np.testing.assert_array_equal(got[0]["image"][3], plain[0]["image"][3])
    np.testing.assert_array_equal(got[0]["label"][3], [0, 1])
    np.testing.assert_array_equal(got[1]["image"][2], plain[1]["image"][2])
    assert got[0]["label"][1, 0] not in (0, 1)


def test_a_label_out_of_range_names_its_sample(ds: toolkit.Dataset) -> None:
    for labels in ("soft", "pair"):
        made = toolkit.pipeline(images(), LABELS, batch_maps=[toolkit.mixup(1.0, classes=4, labels=labels)])
        with pytest.raises(SampleError, match=r"row 4, key .*, slot 'label', batch step mixup\(1.0, .*\): the label 4"):
            list(ds.loader(made, batch_size=6))


@pytest.mark.parametrize(
    ("step", "options", "says"),
    [
        (toolkit.mixup(1.0, classes=5), {"batch_size": 7}, "7 samples of each rank are an odd number: take an even"),
        (toolkit.mixup(1.0, classes=5), {"batch_size": 1}, "take an even batch size"),
        (toolkit.mixup(1.0, classes=5, mode="batch"), {"batch_size": 1}, "a batch would have one sample"),
        (toolkit.mixup(1.0, classes=5, mode="batch"), {"batch_size": 22}, "a batch would have one sample"),
        (toolkit.mixup(1.0), {}, r"batch step 0, mixup\(1.0\): expected a label table of column 'label', got none"),
        (toolkit.mixup(1.0, label="lable"), {}, "expected a column 'lable', got batches of .* Did you mean 'label'"),
        (toolkit.mixup(1.0, columns="x", label=None), {}, "expected a column 'x'.*: say columns="),
        (toolkit.mixup(1.0, columns="label", label=None), {}, "expected uint8, .* in column 'label'"),
        (toolkit.mixup(1.0, label="number", smoothing=0.1), {}, "smoothing= is for class ids"),
        (toolkit.cutmix(1.0, classes=5), {}, "only slots that decode images say which axis is which"),
    ],
)
def test_what_does_not_fit_is_refused_when_the_loader_is_made(
    ds: toolkit.Dataset, step: toolkit.BatchStep, options: dict[str, Any], says: str
) -> None:
    made = toolkit.pipeline(images(), LABELS, batch_maps=[step])
    with pytest.raises(UsageError, match=says):
        ds.loader(made, **{"batch_size": 6, **options})


def test_a_mixup_of_one_sample_is_refused(ds: toolkit.Dataset) -> None:
    made = toolkit.pipeline(images(), LABELS, batch_maps=[toolkit.mixup(1.0, classes=5)])
    with pytest.raises(UsageError, match="one sample can't be mixed with itself: leave the step out"):
        ds[:1].loader(made, batch_size=2)
    assert len(list(ds[:3].loader(made, batch_size=2))) == 2
    assert list(ds[:0].loader(made, batch_size=2)) == []


def test_functions_before_and_behind(ds: toolkit.Dataset) -> None:
    def double(columns: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        return {**columns, "image": columns["image"][:, ::-1] * 2}

    maps: list[Any] = [double, toolkit.mixup(1.0, classes=5), double]
    batch = next(iter(ds.loader(toolkit.pipeline(images(), LABELS, batch_maps=maps), batch_size=2)))
    plain = next(iter(ds.loader(toolkit.pipeline(images(), LABELS), batch_size=2)))
    share = oracle.beta(1.0, oracle.key(0, 0, 0, "Mixup#0"))
    want = oracle.blended(plain["image"][0] * 2, plain["image"][1] * 2, share) * 2
    np.testing.assert_array_equal(batch["image"][0], want)
    lists: list[Any] = [
        lambda columns, rng: {**columns, "image": list(columns["image"])},
        toolkit.mixup(1.0, classes=5),
    ]
    with pytest.raises(LoaderError, match=r"batch step mixup\(1.0, classes=5\): column 'image' is list"):
        list(ds.loader(toolkit.pipeline(images(), LABELS, batch_maps=lists), batch_size=2))


def test_every_output_gets_the_same(photos: toolkit.Dataset) -> None:
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    slots = slot("image").decode_image().resize((6, 6)).normalize("half")
    step = toolkit.mixup_or_cutmix(0.5, 1.0)
    made = toolkit.pipeline(slots, batch_maps=[step])
    options: dict[str, Any] = {"batch_size": 4, "remainder": "pad", "shuffle": "full"}
    plain, tensors, arrays = (list(photos.loader(made, output=o, **options)) for o in ("numpy", "torch", "jax"))
    for one, two, three in zip(plain, tensors, arrays, strict=True):
        assert isinstance(two["image"], torch.Tensor)
        assert isinstance(three["label"], jax.Array)
        for name in one:
            np.testing.assert_array_equal(one[name], two[name].numpy())
            np.testing.assert_array_equal(one[name], np.asarray(three[name]))


def test_bfloat16(photos: toolkit.Dataset) -> None:
    torch = pytest.importorskip("torch")
    slots = slot("image").decode_image().resize((6, 6)).normalize("half").cast("bfloat16")
    plain = next(iter(photos.loader(toolkit.pipeline(slots), batch_size=2, output="torch")))["image"]
    made = toolkit.pipeline(slots, batch_maps=[toolkit.mixup(0.5)])
    got = next(iter(photos.loader(made, batch_size=2, output="torch")))["image"]
    share = np.float32(oracle.beta(0.5, oracle.key(0, 0, 0, "Mixup#0")))
    want = (plain[0].float() * float(share) + plain[1].float() * float(1 - share)).bfloat16()
    assert got.dtype == torch.bfloat16
    assert torch.equal(got[0], want)


def test_the_step_is_refused_where_nothing_makes_batches(photos: toolkit.Dataset) -> None:
    pytest.importorskip("torch")
    with pytest.raises(PipelineError, match="batch maps need"):
        toolkit.torch.Dataset(photos, toolkit.pipeline(batch_maps=[toolkit.mixup(0.5)]))
