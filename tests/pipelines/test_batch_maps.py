from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from toolkit import batch_map, slot
from toolkit.errors import PipelineError
from toolkit.pipelines.batch_maps import BatchMap, as_batch_map, run_batch_map
from toolkit.pipelines.pipeline import pipeline


def run(made: BatchMap, columns: dict[str, Any], **where: int) -> dict[str, Any]:
    return run_batch_map(made, 0, columns, 3, **{"seed": 0, "epoch": 0, "first_position": 0, **where})


def test_a_map_gets_columns_and_a_generator_of_its_batch() -> None:
    def draw(columns: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        return {**columns, "x": rng.random(3)}

    made = batch_map(draw)
    first = run(made, {"x": np.zeros(3)})["x"]
    assert (run(made, {"x": np.zeros(3)})["x"] == first).all()
    for other in ({"seed": 1}, {"epoch": 1}, {"first_position": 3}):
        assert (run(made, {"x": np.zeros(3)}, **other)["x"] != first).all()


def test_names_may_be_added_and_dropped_when_said() -> None:
    def swap(columns: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        columns["b"] = columns.pop("a")
        return columns

    assert run(batch_map(swap, adds=("b",), drops=("a",)), {"a": [1, 2, 3]}) == {"b": [1, 2, 3]}
    with pytest.raises(ValueError, match="it lost a: say so"):
        run(batch_map(swap), {"a": [1, 2, 3]})


@pytest.mark.parametrize(
    ("result", "says"),
    [
        (None, "a dict of columns, got NoneType"),
        ({"a": [1, 2, 3], "b": 1}, "it added b"),
        ({"a": [1, 2]}, "2 values of 'a' for 3 samples"),
        ({"a": np.float32(3)}, "None values of 'a' for 3 samples"),
    ],
)
def test_what_a_map_returns_is_checked(result: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        run(as_batch_map(lambda columns, rng: result), {"a": [1, 2, 3]})


def test_arguments_are_checked() -> None:
    with pytest.raises(PipelineError, match="takes functions, got 3"):
        pipeline(slot("x"), batch_maps=[3])  # type: ignore[list-item]
    with pytest.raises(PipelineError, match="batch map max: adds must be a tuple of names, got 'b'"):
        batch_map(max, adds="b")  # type: ignore[arg-type]
