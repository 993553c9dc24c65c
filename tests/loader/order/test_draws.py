"""The same sample draws the same, whatever batch size, threads and ranks; another one each epoch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from keyed_rows import keyed

import toolkit
from toolkit import slot
from toolkit.pipelines.randomness import fold_all, generator, sample_keys, step_id, step_keys

ROWS = 60


@pytest.fixture
def ds(tmp_path: Path, commit_rows: Callable[..., str]) -> toolkit.Dataset:
    columns = {name: pa.array(range(ROWS), pa.int64()) for name in ("image", "mask")}
    commit_rows(tmp_path / "ds", {"train": [[keyed(columns)]]})
    return toolkit.open(tmp_path / "ds")


def draw(value: Any, rng: np.random.Generator) -> float:
    return float(rng.random())


DRAWS = toolkit.chain().python(draw, "float64", random=True).python(lambda value: value, "float64")
PIPELINE = toolkit.pipeline(
    slot("image").then(DRAWS),
    slot("mask").then(DRAWS),
    slot("image", name="view").then(DRAWS),
    slot("image", name="again", sync="image").then(DRAWS),
)


def collect(ds: toolkit.Dataset, pipeline: toolkit.Pipeline = PIPELINE, **options: Any) -> dict[Any, tuple[float, ...]]:
    """Return what every sample drew in each slot, by (epoch, position)."""
    seen = {}
    with ds.loader(pipeline, shuffle="full", epochs=2, **options) as loader:
        for batch in loader:
            drawn = zip(*(batch[name].tolist() for name in ("image", "mask", "view", "again")), strict=True)
            for position, row, values in zip(batch.positions.tolist(), batch.rows.tolist(), drawn, strict=True):
                seen[batch.epoch, position, row] = values
    return seen


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(
    batch_size=st.integers(1, ROWS), threads=st.integers(1, 4), world_size=st.integers(1, 3), seed=st.integers(0, 2**70)
)
def test_draws_depend_on_seed_epoch_and_position_alone(
    ds: toolkit.Dataset, batch_size: int, threads: int, world_size: int, seed: int
) -> None:
    whole = collect(ds, batch_size=ROWS, threads=1, seed=seed)
    assert len(whole) == 2 * ROWS
    if batch_size * world_size > ROWS:
        world_size = 1
    remainder = "keep" if world_size == 1 else "drop"
    seen: dict[Any, Any] = {}
    for rank in range(world_size):
        options = {"rank": rank, "world_size": world_size, "remainder": remainder, "seed": seed}
        seen |= collect(ds, batch_size=batch_size, threads=threads, **options)
    assert len(seen) == 2 * (ROWS if world_size == 1 else ROWS // (batch_size * world_size) * batch_size * world_size)
    assert seen.items() <= whole.items()


def test_image_and_mask_agree_and_views_do_not(ds: toolkit.Dataset) -> None:
    for image, mask, view, again in collect(ds, batch_size=7).values():
        assert image == mask == again != view


def test_every_epoch_and_seed_draws_anew(ds: toolkit.Dataset) -> None:
    drawn = collect(ds, batch_size=7, seed=1) | {(3, *key): v for key, v in collect(ds, batch_size=7, seed=2).items()}
    assert len({values[0] for values in drawn.values()}) == 4 * ROWS


def test_draws_are_the_documented_arithmetic(ds: toolkit.Dataset) -> None:
    seen = collect(ds, batch_size=7, seed=5)
    for (epoch, position, _), values in seen.items():
        key = sample_keys(5, epoch, "", np.array([position], np.int64))
        assert values[0] == generator(int(step_keys(key, step_id("Python#0"))[0])).random()


def test_another_step_of_the_class_draws_on_its_own(ds: toolkit.Dataset) -> None:
    twice = toolkit.chain().python(lambda value, rng: rng.random(), "float64", random=True)
    twice = twice.python(lambda value, rng: np.array([value, rng.random()]), ("float64", (2,)), random=True)
    (batch,) = ds.loader(toolkit.pipeline(slot("image").then(twice)), batch_size=ROWS)
    assert (batch["image"][:, 0] != batch["image"][:, 1]).all()


AUGMENT = toolkit.chain().random_resized_crop(16).hflip()
AUGMENTED = toolkit.pipeline(
    slot("image").decode_image().then(AUGMENT).color_jitter(brightness=0.4, hue=0.1).normalize("half").cast("bfloat16"),
    slot("image", name="plain", sync="image").decode_image().then(AUGMENT),
    slot("image", name="mask", sync="image").decode_image(mode="gray").then(AUGMENT),
    slot("image", name="view").decode_image().then(AUGMENT),
)


def augmented(ds: toolkit.Dataset, **options: Any) -> dict[str, np.ndarray]:
    """Return an epoch of each slot, in the order of positions."""
    with ds.loader(AUGMENTED, shuffle="full", seed=3, **options) as loader:
        batches = [
            ({name: batch[name] for name in ("image", "plain", "mask", "view")}, batch.epoch) for batch in loader
        ]
    return {name: np.concatenate([batch[name] for batch, _ in batches]) for name in batches[0][0]}


def test_augmented_images_depend_on_seed_epoch_and_position_alone(packed: Path) -> None:
    ds = toolkit.open(packed, split="val")
    whole = augmented(ds, batch_size=20, threads=1)
    for options in ({"batch_size": 3, "threads": 3}, {"batch_size": 7, "threads": 2}):
        for name, images in augmented(ds, **options).items():
            np.testing.assert_array_equal(images, whole[name], err_msg=name)
    twice = augmented(ds, batch_size=20, epochs=2)
    for name, images in whole.items():
        np.testing.assert_array_equal(twice[name][:20], images)
        assert (twice[name][:20] != twice[name][20:]).any()


def test_image_and_mask_are_cut_and_flipped_alike(packed: Path) -> None:
    epoch = augmented(toolkit.open(packed, split="val"), batch_size=6)
    gray = epoch["plain"] @ np.array([0.299, 0.587, 0.114])
    assert np.abs(gray - epoch["mask"][..., 0]).max() <= 3  # gray before the resize or after it
    assert np.abs(gray - epoch["view"] @ np.array([0.299, 0.587, 0.114])).max() > 30


def test_bfloat16_reaches_frameworks_as_itself(packed: Path) -> None:
    import jax.numpy as jnp
    import torch

    ds = toolkit.open(packed, split="val", columns=["image"])
    steps = slot("image", optional=True, fill=-2.5).decode_image().center_crop(16).normalize("half")
    exact = next(iter(ds.loader(toolkit.pipeline(steps), batch_size=4)))["image"]
    halves = toolkit.pipeline(steps.cast("bfloat16"))
    stored, tensor, array = (
        next(iter(ds.loader(halves, batch_size=4, output=output)))["image"] for output in ("numpy", "torch", "jax")
    )
    assert (stored.dtype, tensor.dtype, array.dtype) == (np.uint16, torch.bfloat16, jnp.bfloat16)
    np.testing.assert_array_equal(tensor.float().numpy(), torch.from_numpy(exact).bfloat16().float().numpy())
    np.testing.assert_array_equal(np.asarray(array.astype(jnp.float32)), tensor.float().numpy())


def test_batch_maps_draw_from_their_first_position(ds: toolkit.Dataset) -> None:
    def mark(columns: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        return {**columns, "image": columns["image"] + rng.random(len(columns["image"]))}

    def run(threads: int) -> list[Any]:
        made = toolkit.pipeline(slot("image").scalar("float64"), batch_maps=[mark])
        with ds.loader(made, batch_size=7, threads=threads, seed=3, epochs=2, shuffle="full") as loader:
            return [(batch.epoch, batch["image"].tolist(), batch.rows) for batch in loader]

    one, other = run(1), run(3)
    assert [batch[:2] for batch in one] == [batch[:2] for batch in other]
    first = fold_all(2, 3, 0, xxhash.xxh3_64_intdigest(b"BatchMap#0"), 7)
    np.testing.assert_array_equal(np.array(one[1][1]) - one[1][2], (one[1][2] + generator(first).random(7)) - one[1][2])


def test_a_batch_map_sees_the_whole_batch(ds: toolkit.Dataset, packed: Path) -> None:
    def flip(columns: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        columns["image"] = columns["image"][::-1]
        return {**columns, "mean": columns["image"].mean((1, 2, 3))}

    images = toolkit.open(packed, split="val")
    steps = slot("image").decode_image().center_crop(24)
    made: Callable[..., Any] = toolkit.batch_map(flip, adds=("mean",))
    plain = next(iter(images.loader(toolkit.pipeline(steps), batch_size=8)))
    batch = next(iter(images.loader(toolkit.pipeline(steps, batch_maps=[made]), batch_size=8, output="torch")))
    np.testing.assert_array_equal(batch["image"].numpy(), plain["image"][::-1])
    assert batch["mean"].shape == (8,)


def test_branches_of_pixels_then_branches_of_functions(packed: Path) -> None:
    image = slot("image").decode_image().maybe(toolkit.chain().hflip(1.0), name="turn").center_crop(16)
    tail = toolkit.chain().maybe(toolkit.chain().python(lambda value: 255 - value, ("uint8", (16, 16, 3))))
    mask = slot("image", name="mask", sync="image").decode_image().maybe(toolkit.chain().hflip(1.0), name="turn")
    made = toolkit.pipeline(image.python(lambda value: value, ("uint8", (16, 16, 3))).then(tail), mask.center_crop(16))
    turned = 0
    for batch in toolkit.open(packed, split="val").loader(made, batch_size=10):
        for one, other in zip(batch["image"], batch["mask"], strict=True):
            turned += not np.array_equal(one, other)
            assert np.array_equal(one, other) or np.array_equal(one, 255 - other)
    assert turned
