"""Datasets that MosaicML's own writer made have the values that its own reader gives: see tests/golden/make_mds.py."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mds_shards import packed, samples
from PIL import Image

import toolkit
from toolkit.errors import SourceError, UsageError
from toolkit.format.kinds import Kind
from toolkit.sources.detect import find_kind

GOLDEN = Path(__file__).parents[3] / "golden" / "mds"
VALUES: dict[str, list[dict[str, Any]]] = json.loads((GOLDEN / "values.json").read_text())
COMPRESSED = ("br", "bz2", "gz", "snappy", "zstd")
PICTURES = ("a_jpeg", "a_png", "a_pil")
LISTS = ("jpegs", "pngs", "pils", "a_jpegarray")
ARRAYS = ("an_array", "an_array_of_a_shape", "an_array_of_a_type")


def is_picture(data: bytes, told: dict[str, Any]) -> bool:
    with Image.open(io.BytesIO(data)) as image:
        image.load()
        pixels = np.asarray(image)
    wanted = array_of(told["pixels"])
    mode = told["mode"]
    assert image.mode == {"P": "L", "I": "I;16"}.get(mode, mode)
    return pixels.shape == wanted.shape and bool((pixels == wanted).all())


def array_of(told: dict[str, Any]) -> np.ndarray[Any, Any]:
    data = bytes.fromhex(told["hex"])
    if told["dtype"] == "bool":  # whose bytes Pillow has as 255
        return np.frombuffer(data, np.uint8).reshape(told["shape"]) != 0
    return np.frombuffer(data, told["dtype"]).reshape(told["shape"])


def test_values_of_every_encoding_are_those_of_its_reader(tmp_path: Path) -> None:
    packed(GOLDEN / "everything", tmp_path / "ds")
    found = samples(tmp_path / "ds")
    assert len(found) == len(VALUES["everything"]) == 11
    for sample, wanted in zip(found, VALUES["everything"], strict=True):
        assert sample.keys() - {"__key__"} == wanted.keys()
        for name, value in wanted.items():
            if name in PICTURES:
                assert is_picture(sample[name], value), name
            elif name in LISTS:
                assert len(sample[name]) == len(value)
                assert all(map(is_picture, sample[name], value)), name
            elif name in ARRAYS:
                array = np.load(io.BytesIO(sample[name]))
                assert array.dtype == value["dtype"]
                assert array.shape == tuple(value["shape"])
                assert array.tobytes().hex() == value["hex"]
            elif name == "some_json":
                assert json.loads(sample[name]) == value
            elif name == "a_bytes":
                assert sample[name].hex() == value["hex"]
            else:
                assert type(sample[name]) is type(value), name
                assert repr(sample[name]) == repr(value), name


def test_columns_have_the_kinds_of_their_encodings(tmp_path: Path) -> None:
    packed(GOLDEN / "everything", tmp_path / "ds")
    kinds = {column.name: column.kind for column in toolkit.open(tmp_path / "ds").columns}
    assert all(kinds[name] is Kind.IMAGE for name in PICTURES)
    assert all(kinds[name] is Kind.VALUE for name in LISTS)
    assert all(kinds[name] is Kind.TENSOR for name in ARRAYS)
    assert (kinds["a_str"], kinds["some_json"], kinds["a_str_decimal"]) == (Kind.TEXT, Kind.JSON, Kind.TEXT)
    types = {column.name: column.arrow_type for column in toolkit.open(tmp_path / "ds").columns}
    for name in ("int8", "uint64", "int32"):
        assert types[f"a_{name}"] == name
    assert (types["a_float16"], types["a_float64"], types["a_str_int"]) == ("halffloat", "double", "int64")


@pytest.mark.parametrize("name", COMPRESSED)
def test_every_compression_is_read(name: str, tmp_path: Path) -> None:
    assert find_kind([str(GOLDEN / name)]) == "mds"
    packed(GOLDEN / name, tmp_path / "ds")
    found = samples(tmp_path / "ds")
    assert [{key: sample[key] for key in ("id", "text")} for sample in found] == VALUES[name]
    # Keys don't tell how a shard was compressed.
    assert found[0]["__key__"] == "shard.00000.mds#0"


def test_folders_with_an_index_are_splits(tmp_path: Path) -> None:
    source = GOLDEN / "splits"
    assert find_kind([str(source)]) == "mds"
    assert packed(source, tmp_path / "ds").samples == 13
    for split in ("train", "val"):
        found = samples(tmp_path / "ds", split)
        assert [sample["id"] for sample in found] == [value["id"] for value in VALUES[f"splits/{split}"]]
        assert found[0]["__key__"] == f"{split}/shard.00000.mds#0"
    packed(source, tmp_path / "one", split="val")
    assert len(samples(tmp_path / "one", "val")) == 4
    packed(source / "val", tmp_path / "own", split="mine")
    assert len(samples(tmp_path / "own", "mine")) == 4


def test_pickles_are_never_read(tmp_path: Path) -> None:
    source = GOLDEN / "pickled"
    advice = r"column 'a' of 'shard\.00000\.mds' can't be read: .*pickle.* with --columns id$"
    with pytest.raises(SourceError, match=advice):
        packed(source, tmp_path / "ds")
    for options in ({"columns": ("a",)}, {"map": {"x": "a"}}, {"key": "a", "columns": ("id",)}):
        with pytest.raises(UsageError, match=r"column 'a' .* can't be read: .*pickle"):
            packed(source, tmp_path / "ds", **options)
    packed(source, tmp_path / "ds", columns=("id",))
    assert [sample["id"] for sample in samples(tmp_path / "ds")] == [value["id"] for value in VALUES["pickled"]]


def test_numbers_in_text_can_stay_text(tmp_path: Path) -> None:
    kind = {"number": Kind.TEXT, "a_str_float": Kind.TEXT}
    options = {"columns": ("a_str_int", "a_str_float"), "rename": {"a_str_int": "number"}, "kind": kind}
    packed(GOLDEN / "everything", tmp_path / "ds", **options)
    for sample, value in zip(samples(tmp_path / "ds"), VALUES["everything"], strict=True):
        assert sample["number"] == str(value["a_str_int"])
        assert sample["a_str_float"] == str(value["a_str_float"]).replace("Infinity", "inf")


def test_ids_have_names_only_when_they_are_given(tmp_path: Path) -> None:
    names = tuple("abcdefghi")
    packed(GOLDEN / "zstd", tmp_path / "ds", kind={"id": Kind.LABEL}, classes=names)
    assert toolkit.open(tmp_path / "ds").classes == names
    with pytest.raises(UsageError, match="--classes"):
        packed(GOLDEN / "zstd", tmp_path / "no", kind={"id": Kind.LABEL})
