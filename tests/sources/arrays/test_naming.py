"""Which arrays belong together, by their names."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from toolkit.errors import NotFoundError, SourceError, UsageError
from toolkit.format.kinds import Kind
from toolkit.sources.arrays.naming import Names, asked_kinds, by_split
from toolkit.sources.options import SourceOptions
from toolkit.sources.skips import Skips


def options(**given: Any) -> SourceOptions:
    return SourceOptions(paths=("in",), slice_bytes=1, **given)


def grouped(shapes: dict[str, tuple[int, ...]], **given: Any) -> dict[str | None, dict[str, str]]:
    arrays: list[Any] = [SimpleNamespace(name=name, shape=shape) for name, shape in shapes.items()]
    found = by_split(arrays, Names(shapes, options(**given)), options(**given), "'a.npz'", Skips())
    return {split: {field: array.name for field, array in group.items()} for split, group in found.items()}


@pytest.mark.parametrize(
    ("train", "test"),
    [
        (("x_train", "y_train"), ("x_test", "y_test")),
        (("train_x", "train_y"), ("test_x", "test_y")),
        (("train/x", "train/y"), ("test/x", "test/y")),
        (("TRAIN.x", "train-y"), ("x.Test", "y_TEST")),
        (("train/in/x", "train/in/y"), ("test/in/x", "test/in/y")),
    ],
)
def test_names_tell_splits(train: tuple[str, ...], test: tuple[str, ...]) -> None:
    shapes = dict.fromkeys(test, (2,)) | dict.fromkeys(train, (3, 4))
    wanted = {"train": dict(zip("xy", train, strict=True)), "test": dict(zip("xy", test, strict=True))}
    assert grouped(shapes) == wanted
    assert list(grouped(shapes)) == ["train", "test"]
    assert grouped(shapes, split="test") == {"test": wanted["test"]}
    with pytest.raises(NotFoundError, match=r"tell the splits test, train, not 'tset'.* mean"):
        grouped(shapes, split="tset")


def test_names_that_tell_none_are_fields() -> None:
    shapes = {"images": (3, 2), "labels": (3,), "training": (3,), "trainx": (3,)}
    assert grouped(shapes) == {None: {name: name for name in shapes}}
    assert grouped({"data/a": (3,), "data/b/c": (3,)}) == {None: {"a": "data/a", "b/c": "data/b/c"}}
    assert grouped({"train": (3,)}) == {None: {"train": "train"}}


def test_one_split_alone_may_be_called_otherwise() -> None:
    assert grouped({"x_train": (3,)}, split="all") == {"all": {"x": "x_train"}}
    assert grouped({"x_train": (3,), "y": (3,)}, split="all") == {None: {"x_train": "x_train", "y": "y"}}


@pytest.mark.parametrize(
    ("shapes", "reason"),
    [
        ({"x_train": (3,), "y": (3,)}, r"'x_train' tells its split \(train\) by its name and 'y' tells none"),
        ({"x": (3, 2), "y": (4,)}, r"lengths differ: x \(3, 2\), y \(4,\)"),
        ({"x_train": (3,), "train_x": (3,)}, "two arrays would be 'x', 'x_train' and 'train_x'"),
        ({"n": ()}, "no array with rows"),
        ({f"a{i}": (i + 1,) for i in range(20)}, "and 8 more"),
    ],
)
def test_what_does_not_fit_together_is_refused(shapes: dict[str, tuple[int, ...]], reason: str) -> None:
    with pytest.raises(SourceError, match=reason):
        grouped(shapes)


def test_arrays_without_rows_are_counted() -> None:
    skips = Skips()
    arrays: list[Any] = [SimpleNamespace(name="n", shape=()), SimpleNamespace(name="x", shape=(2,))]
    assert by_split(arrays, Names(("n", "x"), options()), options(), "in", skips) == {None: {"x": arrays[1]}}
    assert skips.counts == {"scalars": 1}
    assert skips.names == {"scalars": ("n",)}


def wanted(names: tuple[str, ...], **given: Any) -> list[str]:
    known = Names(names, options(**given))
    return [name for name in names if known.is_wanted(name)]


def test_only_what_is_named_is_wanted() -> None:
    assert wanted(("x", "y")) == ["x", "y"]
    names = ("x", "x_train", "train/x", "t", "id", "y", "xx")
    assert wanted(names, columns=("x", "t.a"), key="id") == ["x", "x_train", "train/x", "t", "id"]
    assert wanted(("x", "image"), map={"image": "x"}) == ["x"]
    assert wanted(("train/in/x", "train/in/y"), columns=("x",)) == ["train/in/x"]


@pytest.mark.parametrize("columns", [("b/x",), ("y",), ("b/x", "y")])
def test_a_field_is_called_the_same_whatever_else_is_packed(columns: tuple[str, ...]) -> None:
    names = ("a/b/x", "a/y")
    known = Names(names, options(columns=columns))
    arrays: list[Any] = [SimpleNamespace(name=name, shape=(2,)) for name in names if known.is_wanted(name)]
    assert tuple(by_split(arrays, known, options(columns=columns), "in", Skips())[None]) == columns


def test_kinds_are_asked_of_fields() -> None:
    assert asked_kinds(options(kind={"x": Kind.IMAGE})) == {"x": Kind.IMAGE}
    assert asked_kinds(options(kind={"image": Kind.IMAGE}, rename={"x": "image"})) == {"x": Kind.IMAGE}
    assert asked_kinds(options(kind={"image": Kind.IMAGE}, map={"image": "x", "y": "y"})) == {"x": Kind.IMAGE}
    with pytest.raises(UsageError, match="columns made of 'x' must all be of one kind"):
        asked_kinds(options(kind={"a": Kind.IMAGE}, map={"a": "x", "b": "x"}))
