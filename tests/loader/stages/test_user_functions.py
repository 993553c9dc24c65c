"""Functions of the user's own that raise, return something else, or never return."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from waiting import PATIENCE

import toolkit
from toolkit import slot
from toolkit.errors import LoaderError, SampleError


@pytest.fixture
def ds(packed: Path) -> toolkit.Dataset:
    return toolkit.open(packed, split="val", columns=["label"])


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What a function waits for that would never return; opened at the end, so that its thread ends."""
    event = threading.Event()
    yield event
    event.set()
    for thread in threading.enumerate():
        if thread.name.startswith("toolkit-loader"):
            thread.join(PATIENCE)


def through(
    ds: toolkit.Dataset, fn: Callable[..., Any], schema: Any, *, threads: int = 2, **options: Any
) -> list[toolkit.Batch]:
    made = toolkit.pipeline(slot("label").scalar("int64").python(fn, schema, **options))
    return list(ds.loader(made, batch_size=6, threads=threads))


def test_a_function_that_raises_names_the_sample_and_keeps_its_traceback(ds: toolkit.Dataset) -> None:
    with pytest.raises(SampleError) as caught:
        through(ds, lambda value: int("x") if value == 2 else value, "int64")
    error = caught.value
    assert (error.key, error.slot, error.row) == ("val/cat/0000.jpg", "label", 10)
    assert error.step.startswith("python(<lambda>")
    for part in (
        f"dataset {ds.root}",
        "shard shards/",
        "row 10",
        "key 'val/cat/0000.jpg'",
        "slot 'label'",
        "ValueError",
    ):
        assert part in str(error)
    assert isinstance(error.__cause__, ValueError)
    assert 'int("x")' in "".join(traceback.format_exception(error))


@pytest.mark.parametrize(
    ("result", "schema", "says"),
    [
        (np.zeros(3), ("float32", (3,)), r"it returned float64 \(3,\), the schema says float32 \(3\)"),
        (np.zeros(3, np.float32), ("float32", (4,)), r"float32 \(3,\), the schema says float32 \(4\)"),
        (np.zeros((3, 1), np.float32), ("float32", (None,)), r"the schema says float32 \(any\)"),
        ([1.0], ("float32", (1,)), r"it returned list, the schema says float32 \(1\)"),
        (None, "int64", "it returned NoneType, the schema says int64 a number"),
        (1.5, "int64", "it returned 1.5, the schema says int64"),
        (300, "uint8", "it returned 300, the schema says uint8"),
        (2**70, "int64", "it returned int, the schema says int64"),
        (np.int32(1), "int64", r"it returned int32 \(\), the schema says int64 a number"),
    ],
)
def test_a_result_of_another_type_is_refused(ds: toolkit.Dataset, result: Any, schema: Any, says: str) -> None:
    with pytest.raises(SampleError, match=f"key 'val/ant/0000.jpg', slot 'label', step python.*{says}"):
        through(ds, lambda value: result, schema)


@pytest.mark.parametrize(
    ("fn", "schema", "expected"),
    [
        (lambda value: int(value) + 1, "int16", np.array([1] * 6, np.int16)),
        (lambda value: bool(value), "bool", np.array([False] * 6)),
        (lambda value: 2, "float32", np.array([2] * 6, np.float32)),
        (lambda value: np.full(2, value), ("int64", (2,)), np.zeros((6, 2), np.int64)),
    ],
)
def test_results_fill_one_array(ds: toolkit.Dataset, fn: Any, schema: Any, expected: np.ndarray) -> None:
    values = through(ds, fn, schema)[0]["label"]
    assert values.dtype == expected.dtype
    np.testing.assert_array_equal(values, expected)


def test_objects_and_arrays_of_any_size_come_as_lists(ds: toolkit.Dataset) -> None:
    assert through(ds, lambda value: {"n": int(value)}, "object")[0]["label"] == [{"n": 0}] * 6
    ragged = through(ds, lambda value: np.arange(value, dtype=np.int8), ("int8", (None,)))[-1]["label"]
    assert [array.tolist() for array in ragged] == [[0, 1]] * 2


def test_a_function_that_never_returns_is_named(ds: toolkit.Dataset, gate: threading.Event) -> None:
    def stuck(value: Any) -> Any:
        if value == 2:
            gate.wait()
        return value

    with pytest.raises(
        SampleError, match=r"key 'val/cat/0000.jpg', slot 'label', .*has not returned for 0.3 s"
    ) as caught:  # the first one: one that returns may take longer as well, where the machine pauses
        through(ds[10:], stuck, "int64", timeout=0.3, threads=1)
    assert caught.value.row == 10


def test_close_does_not_wait_for_it(ds: toolkit.Dataset, gate: threading.Event) -> None:
    entered = threading.Event()

    def stuck(value: Any) -> Any:
        entered.set()
        gate.wait()
        return value

    made = toolkit.pipeline(slot("label").scalar("int64").python(stuck, "int64", timeout=None))
    loader = ds.loader(made, batch_size=6, threads=2)
    ended: list[BaseException] = []

    def consume() -> None:
        try:
            next(iter(loader))
        except LoaderError as error:
            ended.append(error)

    consumer = threading.Thread(target=consume)
    consumer.start()
    assert entered.wait(PATIENCE)
    loader.close()
    consumer.join(PATIENCE)
    assert "the iteration ended after 0" in str(ended[0])
    assert any(thread.name.startswith("toolkit-loader") for thread in threading.enumerate())
    gate.set()
    for thread in threading.enumerate():
        if thread.name.startswith("toolkit-loader"):
            thread.join(PATIENCE)
            assert not thread.is_alive()


@pytest.mark.parametrize(
    ("fn", "says"),
    [
        (lambda columns, rng: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda columns, rng: None, "ValueError: it must return a dict of columns, got NoneType"),
    ],
)
def test_a_batch_map_that_fails_names_its_batch(ds: toolkit.Dataset, fn: Any, says: str) -> None:
    loader = ds.loader(toolkit.pipeline(batch_maps=[fn]), batch_size=6)
    with pytest.raises(LoaderError, match=rf"dataset .*, epoch 0, positions 0\.\.5, batch map <lambda>: {says}"):
        list(loader)


def test_a_batch_map_that_never_returns_is_named(ds: toolkit.Dataset, gate: threading.Event) -> None:
    made = toolkit.batch_map(lambda columns, rng: gate.wait(), timeout=0.2)
    with pytest.raises(LoaderError, match=r"positions 0\.\.5, batch map <lambda>: it has not returned for 0.2 s"):
        list(ds.loader(toolkit.pipeline(batch_maps=[made]), batch_size=6, threads=1))
