"""Folders that tensorflow-datasets prepared have the values that it reads itself: see tests/golden/make_tfds.py."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tfds_folders import packed, samples

import toolkit
from toolkit.errors import UsageError
from toolkit.format.kinds import Kind
from toolkit.sources.detect import find_kind

GOLDEN = Path(__file__).parents[3] / "golden" / "tfds"
VALUES: dict[str, dict[str, list[dict[str, Any]]]] = json.loads((GOLDEN / "values.json").read_text())
PICTURES = ("image", "photo", "deep")
TENSORS = {"any_shape", "as_bytes", "matrix", "ragged_rows", "zlibbed"}


def flattened(example: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """The values by the names that they have in files."""
    found: dict[str, Any] = {}
    for name, value in example.items():
        is_dict = isinstance(value, dict) and not value.keys() & {"hex", "value", "ragged"}
        found |= flattened(value, f"{prefix}{name}/") if is_dict else {prefix + name: value}
    return found


def array_of(told: dict[str, Any]) -> np.ndarray[Any, Any]:
    return np.frombuffer(bytes.fromhex(told["hex"]), told["dtype"]).reshape(told["shape"])


def plain(value: Any) -> Any:
    """A value that tensorflow-datasets gave as toolkit gives it."""
    if isinstance(value, list):
        return [plain(one) for one in value]
    if not isinstance(value, dict):
        return value
    if "ragged" in value:
        return plain(value["ragged"])
    if "value" in value:
        return value["value"]
    if "shape" in value:
        return array_of(value).tolist()
    return bytes.fromhex(value["hex"])


def as_bytes(value: Any) -> Any:
    if isinstance(value, list):
        return [as_bytes(one) for one in value]
    return value.encode() if isinstance(value, str) else value


def pixels_of(data: bytes, shape: list[int]) -> np.ndarray[Any, Any]:
    with Image.open(io.BytesIO(data)) as image:
        image.load()
        return np.asarray(image).reshape(shape)


def test_values_are_those_that_tfds_reads(tmp_path: Path) -> None:
    packed(GOLDEN / "everything", tmp_path / "ds")
    found = samples(tmp_path / "ds")
    wanted = [flattened(example) for example in VALUES["everything"]["train"]]
    assert len(found) == len(wanted) == 6
    for sample, example in zip(found, wanted, strict=True):
        assert sample.keys() - {"__key__"} == example.keys()
        for name, value in example.items():
            if name == "photo":  # whose decoders differ by their libraries
                assert pixels_of(sample[name], value["shape"]).dtype == np.uint8
            elif name in PICTURES:
                assert (pixels_of(sample[name], value["shape"]) == array_of(value)).all()
            elif name == "pictures":
                assert [pixels_of(one, [2, 2, 1]).tolist() for one in sample[name]] == array_of(value).tolist()
            elif name in TENSORS:
                array = np.load(io.BytesIO(sample[name]))
                assert array.dtype == value["dtype"]
                assert array.shape == tuple(value["shape"])
                assert array.tobytes().hex() == value["hex"]
            else:
                assert as_bytes(sample[name]) == plain(value), name
                assert repr(as_bytes(sample[name])) == repr(plain(value)), name


def test_columns_have_the_types_of_their_features(tmp_path: Path) -> None:
    packed(GOLDEN / "everything", tmp_path / "ds")
    columns = {column.name: column for column in toolkit.open(tmp_path / "ds").columns}
    kinds = {name: column.kind for name, column in columns.items()}
    assert all(kinds[name] is Kind.IMAGE for name in PICTURES)
    assert all(kinds[name] is Kind.TENSOR for name in TENSORS)
    assert kinds["label"] is kinds["digit"] is Kind.LABEL
    assert kinds["text"] is kinds["nested/c"] is kinds["translation/de"] is Kind.TEXT
    assert kinds["bytes_or_text"] is Kind.BYTES
    types = {name: column.arrow_type for name, column in columns.items()}
    for name in ("int8", "uint16", "uint64", "int32"):
        assert types[f"a_{name}"] == name
    assert types["flag"] == "bool"
    assert types["box"] == "fixed_size_list<item: float>[4]"
    assert types["objects/bbox"] == "list<item: fixed_size_list<item: float>[4]>"
    assert types["captions"] == "list<item: list<item: string>>"


def test_classes_have_their_names(tmp_path: Path) -> None:
    packed(GOLDEN / "simple", tmp_path / "ds")
    assert toolkit.open(tmp_path / "ds", split="train").classes == ("no", "yes")
    packed(GOLDEN / "everything", tmp_path / "all", columns=("label",))
    assert toolkit.open(tmp_path / "all").classes == ("cat", "dog", "Eichhörnchen")
    packed(GOLDEN / "everything", tmp_path / "digits", columns=("digit",))
    assert toolkit.open(tmp_path / "digits").classes == tuple("0123456789")


def test_splits_and_their_files_are_those_of_the_dataset(tmp_path: Path) -> None:
    assert find_kind([str(GOLDEN / "simple")]) == "tfds"
    result = packed(GOLDEN / "simple", tmp_path / "ds")
    assert dict(result.splits) == {"train": 9, "validation": 4, "test": 2}
    for split, examples in VALUES["simple"].items():
        found = samples(tmp_path / "ds", split)
        assert [sample["label"] for sample in found] == [example["label"]["value"] for example in examples]
        for sample, example in zip(found, examples, strict=True):
            assert (pixels_of(sample["image"], example["image"]["shape"]) == array_of(example["image"])).all()
        assert found[0]["__key__"] == f"simple-{split}.tfrecord-00000-of-00002#0"
    packed(GOLDEN / "simple", tmp_path / "one", split="test")
    assert len(samples(tmp_path / "one", "test")) == 2


def test_strings_are_text_or_bytes_as_it_is_asked(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="can't be json"):
        packed(GOLDEN / "everything", tmp_path / "ds", columns=("bytes_or_text",), kind={"bytes_or_text": Kind.JSON})
    kind = {"x": Kind.TEXT}
    rename = {"bytes_or_text": "x"}
    result = packed(
        GOLDEN / "everything", tmp_path / "ds", columns=tuple(rename), rename=rename, kind=kind, max_rejects=3
    )
    assert {reject.reason for reject in result.rejects} == {"column 'bytes_or_text': not UTF-8 text at byte 0"}
    assert [sample["x"] for sample in samples(tmp_path / "ds")] == ["text"] * 3
