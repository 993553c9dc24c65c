"""NumPy files from the command to the loader: the arrays that went in come out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import toolkit
from toolkit import slot
from toolkit.errors import SourceError, UsageError

CLASSES = [f"digit {i}" for i in range(10)]


@pytest.fixture
def mnist(tmp_path: Path) -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(3)
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for split, rows in (("train", 30), ("test", 9)):
        arrays[f"x_{split}"] = rng.integers(0, 256, (rows, 28, 28), np.uint8)
        arrays[f"y_{split}"] = rng.integers(0, 10, rows, np.uint8)
    np.savez_compressed(tmp_path / "mnist.npz", **arrays)  # type: ignore[arg-type]
    return arrays


def test_tensors_and_numbers(tmp_path: Path, mnist: dict[str, np.ndarray[Any, Any]]) -> None:
    report = toolkit.pack(tmp_path / "mnist.npz", tmp_path / "ds")
    assert report.source_kind == "numpy"
    assert not report.rejects
    for split in ("train", "test"):
        ds = toolkit.open(tmp_path / "ds", split=split)
        assert ds[0]["__key__"] == f"mnist.npz/{split}#0"
        with ds.loader(
            toolkit.pipeline(slot("x").npy("uint8", (28, 28))), batch_size=len(ds), shuffle="none"
        ) as loader:
            (batch,) = loader
            assert np.array_equal(batch["x"], mnist[f"x_{split}"])
            assert np.array_equal(batch["y"], mnist[f"y_{split}"])


@pytest.mark.parametrize("encoding", ["keep", "raw"])
def test_pictures_and_labels(tmp_path: Path, mnist: dict[str, np.ndarray[Any, Any]], encoding: str) -> None:
    toolkit.pack(
        tmp_path / "mnist.npz",
        tmp_path / "ds",
        map={"image": "x", "label": "y"},
        kind={"image": "image", "label": "label"},
        classes=CLASSES,
        image_encoding=encoding,
    )
    ds = toolkit.open(tmp_path / "ds", split="test")
    assert ds.classes == tuple(CLASSES)
    with ds.loader(toolkit.pipeline(slot("image").decode_image()), batch_size=9, shuffle="none") as loader:
        (batch,) = loader
        pixels = np.stack([batch["image"][i] for i in range(9)])
        assert np.array_equal(pixels, np.repeat(mnist["x_test"][..., None], 3, axis=3))
        assert np.array_equal(batch["label"], mnist["y_test"])


def test_raw_bytes_become_pixels_by_a_step(tmp_path: Path, mnist: dict[str, np.ndarray[Any, Any]]) -> None:
    toolkit.pack(tmp_path / "mnist.npz", tmp_path / "ds", kind={"x": "bytes"}, columns=["x"])
    ds = toolkit.open(tmp_path / "ds", split="test")
    with ds.loader(toolkit.pipeline(slot("x").array("uint8", (28, 28, 1))), batch_size=9, shuffle="none") as loader:
        (batch,) = loader
        assert np.array_equal(batch["x"][..., 0], mnist["x_test"])


def test_cifar_as_keras_gives_it(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    x, y = rng.integers(0, 256, (12, 32, 32, 3), np.uint8), rng.integers(0, 10, (12, 1), np.uint8)
    np.save(tmp_path / "x_train.npy", x)
    np.save(tmp_path / "y_train.npy", y)
    files = f"{tmp_path}/{{x,y}}_train.npy"
    toolkit.pack(files, tmp_path / "ds", kind={"x": "image"}, classes=CLASSES)
    ds = toolkit.open(tmp_path / "ds")
    assert ds.classes == tuple(CLASSES)
    with ds.loader(toolkit.pipeline(slot("x").decode_image()), batch_size=12, shuffle="none") as loader:
        (batch,) = loader
        assert np.array_equal(np.stack([batch["x"][i] for i in range(12)]), x)
        assert np.array_equal(batch["y"], y[:, 0])
    # Without class names nothing is guessed: a list of one number.
    toolkit.pack(files, tmp_path / "plain")
    assert toolkit.open(tmp_path / "plain")[3]["y"] == y[3].tolist()
    np.save(tmp_path / "x_train.npy", x.transpose(0, 3, 1, 2))
    with pytest.raises(UsageError, match=r"a row is 3 x 32 x 32 uint8.* Transpose or reshape"):
        toolkit.pack(files, tmp_path / "ds2", kind={"x": "image"}, classes=CLASSES)


def test_texts_become_tokens(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", text=np.array(["ab", "é"]), n=np.arange(2))
    toolkit.pack(tmp_path / "a.npz", tmp_path / "ds", tokenizer="bytes", text_column="text")
    ds = toolkit.open(tmp_path / "ds")
    assert [list(ds[i]["tokens"]) for i in range(2)] == [list(b"ab"), list("é".encode())]


def test_lists_of_one_size_are_read_as_an_array(tmp_path: Path) -> None:
    x = np.random.default_rng(1).random((9, 16)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    toolkit.pack(tmp_path / "x.npy", tmp_path / "ds")
    ds = toolkit.open(tmp_path / "ds")
    with ds.loader(toolkit.pipeline(slot("x").array("float32", (16,))), batch_size=9, shuffle="none") as loader:
        (batch,) = loader
        assert np.array_equal(batch["x"], x)


def test_class_names_alone_say_that_y_is_the_label(tmp_path: Path, mnist: dict[str, np.ndarray[Any, Any]]) -> None:
    toolkit.pack(tmp_path / "mnist.npz", tmp_path / "ds", classes=CLASSES)
    assert toolkit.open(tmp_path / "ds", split="train").classes == tuple(CLASSES)


def test_arrays_that_are_none_of_a_pack_say_what_to_do(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((3, 2)), names=np.array(["a", "b"]))
    with pytest.raises(SourceError, match=r"lengths differ: x \(3, 2\), names \(2,\).*--columns"):
        toolkit.pack(tmp_path / "a.npz", tmp_path / "ds")
    toolkit.pack(tmp_path / "a.npz", tmp_path / "ds", columns=["x"])
    with pytest.raises(UsageError, match="--columns names 'X', which the input hasn't"):
        toolkit.pack(tmp_path / "a.npz", tmp_path / "ds2", columns=["x", "X"])
