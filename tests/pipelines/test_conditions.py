"""Conditions: what they run, what they must leave, and what they draw by."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import image_steps_oracle as oracle
import numpy as np
import pyarrow as pa
import pytest
from image_slots import compiled
from keyed_rows import keyed
from pictures import picture

import toolkit
from toolkit import chain, slot
from toolkit._native.image.program import Scratch
from toolkit.errors import PipelineError, SampleError
from toolkit.pipelines.conditions import Branch
from toolkit.pipelines.draw_names import draw_names
from toolkit.pipelines.randomness import draw, sample_keys, step_id, step_keys
from toolkit.pipelines.state import State, ValueKind

ROWS = 60
TREES = [
    chain().maybe(chain().hflip(1.0)),
    chain().resize((30, 40)).maybe(chain().vflip(1.0).crop(1, 2, 20, 20).pad(1), p=0.3).hflip(),
    chain().one_of(chain(), chain().hflip(1.0), chain().center_crop(9), weights=(1, 2, 3)).random_crop(8),
    chain().hflip().maybe(chain().hflip().one_of(chain().color_jitter(hue=0.3), chain().hflip(name="é")), p=0.8),
    chain().one_of(chain().grayscale(channels=3), chain().maybe(chain().random_resized_crop(12), name="x")).vflip(),
]


@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_branches_of_pixels_are_what_pil_makes_of_them(tree: toolkit.Chain) -> None:
    image = picture(3, 50, 40)
    made = compiled(*tree.steps)
    assert made.random
    shapes = set()
    for key in np.random.default_rng(1).integers(0, 2**64, 24, np.uint64).tolist():
        pixels = made.apply(np.asarray(image), Scratch(), key)
        expected = oracle.apply(image, tree.steps, key)
        assert np.array_equal(pixels, expected)
        shapes.add(pixels.shape)
    state = slot("image").decode_image().then(tree).states(State(ValueKind.STORED))[-1]
    assert state.fixed_shape == made.shape
    assert len(shapes) == 1 or made.shape is None


def one(tree: toolkit.Chain) -> toolkit.Slot:
    return slot("image").decode_image().then(tree)


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (
            lambda: one(chain().maybe(chain().grayscale())),
            "got uint8 height x width x 1 pixels: a sample that isn't drawn keeps what it has",
        ),
        (
            lambda: one(chain().one_of(chain(), chain().hflip(), chain().grayscale())),
            "expected uint8 height x width x 3 pixels, got .* x 1 pixels: branch 3 must leave what",
        ),
        (
            lambda: one(chain().one_of(chain(), chain().grayscale().color_jitter(hue=0.1))),
            r"step 2 one_of\(.*\): branch 2, step 2 color_jitter\(.*\): expected 3 channels, got 1",
        ),
        (
            lambda: one(chain().one_of(chain().normalize("half"), chain().normalize("unit"))),
            r"branch 1, step 1 normalize\(.half.\): expected a step on pixels, .*: put it behind the branch",
        ),
        (
            lambda: slot("x").one_of(chain().text(), chain().text("latin-1")),
            r"branch 1, step 1 text\(\): expected a step behind the decoding, .*: put it in front",
        ),
        (
            lambda: one(chain().maybe(chain().maybe(chain().normalize("half")))),
            r"within it, step 1 maybe\(.*\): within it, step 1 normalize",
        ),
        (
            lambda: one(
                chain().one_of(chain().hflip().python(len, "int64"), chain().python(len, "int64")),
            ),
            r"got hflip\(\) and python\(len, .int64.\): put each in a branch of its own",
        ),
        (
            lambda: slot("x").scalar("int64").maybe(chain().one_hot(3)),
            "expected a number, int64, got a float32 tensor 3: a sample that isn't drawn",
        ),
    ],
)
def test_branches_that_do_not_agree_are_named(build: Callable[[], Any], says: str) -> None:
    with pytest.raises(PipelineError, match=says):
        build()


def test_explain_and_describe() -> None:
    made = toolkit.pipeline(one(chain().maybe(chain().center_crop(9), p=0.25)))
    assert made.explain().splitlines()[-1].strip().startswith("└─ maybe(chain().center_crop(9), p=0.25)  uint8")
    others = [chain().maybe(chain().center_crop(9), p=0.5), chain().maybe(chain().center_crop(8), p=0.25)]
    others += [chain().maybe(chain().center_crop(9), p=0.25, name="x")]
    assert len({made.describe(), *(toolkit.pipeline(one(other)).describe() for other in others)}) == 4


@pytest.fixture
def ds(tmp_path: Path, commit_rows: Callable[..., str]) -> toolkit.Dataset:
    columns = {name: pa.array(range(ROWS), pa.int64()) for name in ("x", "y")}
    commit_rows(tmp_path / "ds", {"train": [[keyed(columns)]]})
    return toolkit.open(tmp_path / "ds")


def add(value: Any, rng: np.random.Generator) -> float:
    return float(value) + float(rng.random())


def negative(value: Any) -> float:
    return -float(value)


def expected(steps: Any, value: float, key: int, path: str = "") -> float:
    """Return what the documented arithmetic makes of a value."""
    for step, name in zip(steps, draw_names(steps, path), strict=True):
        of_step = int(step_keys(np.array([key], np.uint64), step_id(name))[0])
        if isinstance(step, Branch):
            way = next((i for i, limit in enumerate(step.limits_of_ways) if draw(of_step, 0) < limit), None)
            value = value if way is None else expected(step.ways[way], value, key, f"{name}/{step.path(way)}")
        else:
            value = add(value, toolkit.pipelines.randomness.generator(of_step)) if step.draws else negative(value)
    return value


def test_branches_of_functions_run_on_the_samples_that_drew_them(ds: toolkit.Dataset) -> None:
    random = chain().python(add, "float64", random=True)
    plain = chain().python(negative, "float64")
    tree = random.maybe(plain, p=0.4).one_of(random, chain(), plain.maybe(random.then(random)), weights=(1, 1, 2))
    made = toolkit.pipeline(slot("x").scalar("float64").then(tree), slot("y").scalar("float64").then(tree))
    seen = []
    for options in ({"batch_size": 7, "threads": 3}, {"batch_size": ROWS, "threads": 1}):
        with ds.loader(made, seed=5, **options) as loader:
            batches = list(loader)
        assert all(batch["x"].tolist() == batch["y"].tolist() for batch in batches)  # the slot isn't in the names
        seen.append([value for batch in batches for value in batch["x"].tolist()])
    keys = sample_keys(5, 0, "", np.arange(ROWS)).tolist()
    assert seen[0] == seen[1] == [expected(tree.steps, float(row), key) for row, key in enumerate(keys)]


def test_objects_of_branches_stay_as_they_are(ds: toolkit.Dataset) -> None:
    """Some of a part may be arrays, and others not: which ones are in a part follows from the batch size."""

    def boxed(value: Any) -> Any:
        return {"v": int(value)}

    def unboxed(value: Any) -> Any:
        return np.array([value["v"]])

    objects = slot("x").scalar("int64").python(boxed, "object")
    made = toolkit.pipeline(objects.maybe(chain().python(unboxed, "object"), p=0.5))
    for size in (1, ROWS):
        values = [value for batch in ds.loader(made, batch_size=size, threads=1) for value in batch["x"]]
        assert [value["v"] if isinstance(value, dict) else int(value[0]) for value in values] == list(range(ROWS))
        assert {type(value) for value in values} == {dict, np.ndarray}
        assert all(value.base is None for value in values if isinstance(value, np.ndarray))


@pytest.mark.parametrize("weights", [(1e308, 1e308), (1e308, 1e308, 0), (0, 0), (10**400, 1), (1, float("nan"))])
def test_weights_that_have_no_shares_are_refused_when_written(weights: tuple[float, ...]) -> None:
    ways = [chain().hflip()] * len(weights)
    with pytest.raises(PipelineError, match=r"weights must (have a finite sum|not all be 0)|must be a finite number"):
        chain().one_of(*ways, weights=weights)


def test_a_number_beyond_float64_is_refused_as_others_are() -> None:
    for build in (lambda: chain().maybe(chain().hflip(), 10**400), lambda: chain().color_jitter(brightness=10**400)):
        with pytest.raises(PipelineError, match="finite number"):
            build()


def test_a_function_that_fails_in_a_branch_names_its_sample(ds: toolkit.Dataset) -> None:
    def refuse(value: Any) -> float:
        if value == 17:
            raise ValueError("seventeen")
        return float(value)

    way = chain().python(refuse, "float64")
    made = toolkit.pipeline(slot("x").scalar("float64").one_of(way, chain().maybe(way, p=1.0)))
    with pytest.raises(SampleError, match="seventeen") as caught:
        list(ds.loader(made, batch_size=ROWS))
    assert caught.value.row == 17
    assert "python(refuse" in str(caught.value)
