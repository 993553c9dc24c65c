"""Branches of a program: one way is taken for each picture, by a draw of its own, as the oracle walks the same tree."""

from __future__ import annotations

import itertools
import re
from typing import Any

import image_steps_oracle as oracle
import numpy as np
import pytest
from PIL import Image

from toolkit._native.image import program as image

Op = tuple[Any, ...]
GRAY, RGB = ("grayscale", {"channels": 1, "p": 1.0}), ("grayscale", {"channels": 3, "p": 1.0})
SMALL, LARGE = (
    ("center_crop", {"height": 8, "width": 9, "halves": "even"}),
    ("center_crop", {"height": 20, "width": 30, "halves": "even"}),
)
FLIP = ("hflip", {"p": 1.0, "id": 1})


def maybe(p: float, ops: list[Op], step_id: int = 7) -> Op:
    """Return a branch that is taken or not."""
    return ("maybe", {"limits": [p], "id": step_id}, [ops])


def one_of(weights: tuple[float, ...], *ways: list[Op], step_id: int = 8) -> Op:
    """Return a branch one way of which is taken."""
    sums = list(itertools.accumulate(weights))
    return ("one_of", {"limits": [below / sums[-1] for below in sums], "id": step_id}, list(ways))


def noise(height: int, width: int, seed: int = 0, channels: int = 3) -> np.ndarray:
    """Return pixels that tell every place apart."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, channels), np.uint8)


def leaf(draw: np.random.Generator) -> Op:
    """Return any step, of a size that pictures of some 40 pixels make sense with."""
    side = lambda: int(draw.integers(1, 60))  # noqa: E731
    step_id = int(draw.integers(0, 5))
    shape = {"height": side(), "width": side()}
    resize = str(draw.choice(["nearest", "bilinear", "bicubic", "lanczos"]))
    jitter = {name: (0.5, 1.5) if draw.random() < 0.5 else None for name in ("brightness", "contrast", "saturation")}
    return [
        ("resize", {**shape, "filter": resize}),
        ("resize_short", {"size": side(), "filter": resize}),
        ("resize_long", {"size": side(), "filter": resize}),
        ("crop", {"top": int(draw.integers(-9, 9)), "left": int(draw.integers(-9, 9)), **shape}),
        ("center_crop", {**shape, "halves": str(draw.choice(["even", "down"]))}),
        ("random_crop", {**shape, "id": step_id}),
        ("random_resized_crop", {**shape, "scale": (0.1, 1), "ratio": (0.5, 2), "filter": resize, "id": step_id}),
        ("pad", {"top": 3, "left": 0, "bottom": 1, "right": 7, "fill": int(draw.integers(0, 256))}),
        ("hflip", {"p": 0.5, "id": step_id}),
        ("vflip", {"p": 0.5, "id": step_id}),
        ("color_jitter", {**jitter, "hue": (-0.2, 0.2), "id": step_id}),
        ("sharpness", {"factor": (0.0, 2.0), "mirror": int(draw.integers(2)), "p": 0.5, "id": step_id}),
        RGB,
    ][draw.integers(0, 13)]


def tree(draw: np.random.Generator, depth: int = 0) -> list[Op]:
    """Return steps, some of them branches."""
    made: list[Op] = []
    for _ in range(draw.integers(0, 4)):
        kind = draw.integers(0, 4) if depth < 3 else 3
        step_id = int(draw.integers(0, 2**63))
        if kind == 0:
            made.append(maybe(float(draw.random()), tree(draw, depth + 1), step_id))
        elif kind == 1:
            ways = [tree(draw, depth + 1) for _ in range(draw.integers(1, 4))]
            weights = draw.random(len(ways))
            made.append(one_of(tuple(weights.tolist()), *ways, step_id=step_id))
        else:
            made.append(leaf(draw))
    return made


@pytest.mark.parametrize("seed", range(60))
def test_a_tree_is_what_the_oracle_makes_of_it(seed: int) -> None:
    draw = np.random.default_rng(seed)
    ops, scratch = tree(draw), image.Scratch()
    program = image.ImageProgram(ops)
    pixels = noise(int(draw.integers(20, 50)), int(draw.integers(20, 50)), seed)
    shapes = set()
    for key in range(8):
        made = program.apply(pixels, scratch, key)
        assert np.array_equal(made, np.asarray(oracle.apply_ops(Image.fromarray(pixels), ops, key))), (ops, key)
        shapes.add(made.shape)
    if program.output_shape is not None:
        assert shapes == {program.output_shape}


@pytest.mark.parametrize(("p", "taken"), [(0.0, 0), (1.0, 300), (0.3, 90)])
def test_maybe_takes_its_share(p: float, taken: int) -> None:
    pixels, scratch = noise(4, 5), image.Scratch()
    program = image.ImageProgram([maybe(p, [FLIP])])
    found = sum(np.array_equal(program.apply(pixels, scratch, key), pixels[:, ::-1]) for key in range(300))
    assert abs(found - taken) <= (0 if p in (0, 1) else 25)


def test_one_of_takes_shares_of_its_weights() -> None:
    pixels, scratch = noise(6, 6), image.Scratch()
    crops = [[("crop", {"top": i, "left": 0, "height": 1, "width": 6})] for i in range(4)]
    program = image.ImageProgram([one_of((1, 0, 2, 1), *crops)])
    assert program.output_shape == (1, 6, 3)
    found = np.zeros(4, int)
    for key in range(400):
        found += (pixels[:4] == program.apply(pixels, scratch, key)).all((1, 2))
    assert found[1] == 0
    assert np.abs(found - [100, 0, 200, 100]).max() <= 35


def test_branches_of_other_ids_are_drawn_apart() -> None:
    pixels, scratch = noise(6, 6), image.Scratch()
    program = image.ImageProgram([maybe(0.5, [FLIP], 3), maybe(0.5, [("vflip", {"p": 1.0, "id": 1})], 4)])
    assert len({program.apply(pixels, scratch, key).tobytes() for key in range(40)}) == 4


def test_a_batch_takes_branches_by_its_keys() -> None:
    pixels, scratch = noise(30, 40), image.Scratch()
    program = image.ImageProgram([one_of((1, 1), [LARGE, FLIP], [LARGE])])
    keys = np.arange(50, dtype=np.uint64)
    out, statuses = np.empty((50, *program.output_shape), np.uint8), np.empty(50, np.int32)
    places = np.uint64(out.ctypes.data) + np.arange(50, dtype=np.uint64) * np.uint64(out[0].nbytes)
    sizes = np.tile(np.array(pixels.shape, np.int64), (50, 1))
    addresses = np.full(50, pixels.ctypes.data, np.uint64)
    assert program.run_raw(addresses, sizes, places, out[0].nbytes, scratch, statuses, keys) == 0
    for key in range(50):
        assert np.array_equal(out[key], program.apply(pixels, scratch, key))


@pytest.mark.parametrize(
    ("ops", "shape"),
    [
        ([maybe(0.5, [SMALL])], None),
        ([LARGE, maybe(0.5, [SMALL])], None),
        ([LARGE, maybe(0.5, [LARGE, FLIP])], (20, 30, 3)),
        ([one_of((1, 1), [SMALL], [LARGE])], None),
        ([one_of((1, 1), [SMALL], [LARGE, SMALL])], (8, 9, 3)),
        ([one_of((1, 1), [SMALL], [LARGE]), LARGE], (20, 30, 3)),
        ([LARGE, one_of((1, 1), [], [FLIP])], (20, 30, 3)),
        ([SMALL, one_of((1,), [maybe(1.0, [RGB])])], (8, 9, 3)),
        ([SMALL, one_of((1, 2), [GRAY], [RGB, GRAY])], (8, 9, 1)),
    ],
)
def test_the_shape_is_known_where_branches_agree(ops: list[Op], shape: tuple[int, ...] | None) -> None:
    program = image.ImageProgram(ops)
    assert program.output_shape == shape
    assert program.random


def branch(limits: list[Any]) -> Op:
    """Return a branch of one way."""
    return ("one_of", {"limits": limits, "id": 1}, [[FLIP]])


def nested(depth: int) -> list[Op]:
    """Return a flip within so many branches."""
    return [maybe(0.5, nested(depth - 1))] if depth else [FLIP]


@pytest.mark.parametrize(
    ("ops", "words"),
    [
        ([FLIP, maybe(0.5, [GRAY])], "step 2 (maybe): results have 3 channels or 1, as it is drawn"),
        ([one_of((1, 1), [RGB], [GRAY])], "step 1 (one_of): results have 3 channels or 1"),
        (
            [one_of((1, 1), [FLIP], [FLIP, ("hflip", {"p": 2, "id": 0})])],
            "step 1 (one_of), branch 2, step 2 (hflip): p must be 0 to 1, not 2.0",
        ),
        ([maybe(0.5, [("blur", {})])], "step 1 (maybe), branch 1, step 1: no step is called 'blur'"),
        ([maybe(1.5, [FLIP])], "step 1 (maybe): limits must go up, within 0 to 1, not [1.5]"),
        ([("maybe", {"limits": [0.5], "id": 1})], "step 1 (maybe): it must be (name, fields, branches)"),
        ([("maybe", {"limits": [0.5]}, [[FLIP]])], "step 1 (maybe): its fields must be id, limits, not limits"),
        ([("maybe", {"limits": [0.5], "id": -1}, [[FLIP]])], "step 1 (maybe): id must be 0 to 2**64 - 1, not -1"),
        ([("maybe", {"limits": [0.5], "id": 1}, 3)], "step 1 (maybe): branches must be a list, not 3"),
        ([("maybe", {"limits": [0.5], "id": 1}, [3])], "step 1 (maybe), branch 1, steps must be a list, not 3"),
        ([branch([0.5, 1])], "step 1 (one_of): limits must be one for each of one branch or more, not 2 for 1"),
        ([("one_of", {"limits": [], "id": 1}, [])], "limits must be one for each of one branch or more, not 0 for 0"),
        ([branch([0.5])], "the last limit must be 1, so that a branch is taken, not 0.5"),
        ([branch([-0.5])], "limits must go up, within 0 to 1, not [-0.5]"),
        ([branch([float("nan")])], "limits must go up"),
        ([branch([10**400])], "step 1 (one_of): "),
        ([branch(["x"])], "step 1 (one_of): "),
        ([("one_of", {"limits": [0.6, 0.5, 1], "id": 1}, [[FLIP]] * 3)], "limits must go up"),
        ([maybe(0.5, [None])], "step 1 (maybe), branch 1, step 1 must be (name, fields), not None"),
        (nested(9), "branches lie within each other more than 8 deep"),
        ([one_of((1, 1), [FLIP], [FLIP] * 60), *[FLIP] * 5], "65 steps are more than 64"),
    ],
)
def test_bad_branches_are_named(ops: list[Op], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        image.ImageProgram(ops)


def test_branches_may_be_as_deep_and_as_many_as_is_said() -> None:
    image.ImageProgram(nested(8))
    image.ImageProgram([one_of((1,) * 500, *[[FLIP] * 60] * 500), *[FLIP] * 4])


def test_a_list_that_says_it_is_shorter_gets_the_memory_it_needs() -> None:
    class Short(list[Op]):
        def __len__(self) -> int:
            return 0

    with pytest.raises(ValueError, match="65 steps are more than 64"):
        image.ImageProgram([maybe(0.5, Short([FLIP] * 65))])
    image.ImageProgram([maybe(0.5, Short([FLIP] * 60))])


def test_a_branch_needs_a_key() -> None:
    with pytest.raises(ValueError, match="random"):
        image.ImageProgram([maybe(0.5, [RGB])]).apply(noise(4, 4), image.Scratch())
