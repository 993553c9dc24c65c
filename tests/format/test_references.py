"""Columns of references: what a manifest and a schema may say of them, and what other readers see."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from format.pure_arrow import Damaged
from format.pure_reader import PureReader
from referenced import refer

import toolkit
from toolkit.errors import CorruptShardError, CorruptTableError
from toolkit.format.contract import columns_fault, schema_fault
from toolkit.format.media import IMAGE, IMAGE_TYPE
from toolkit.format.references import REFERENCE_TYPE, REFERENCES, UNHASHED, is_reference, path_fault
from toolkit.format.schema import Column, Kind, arrow_schema, derived_of, image_column, reference_columns
from toolkit.format.unhashed import FileStats, encode_stats, stat_path
from toolkit.pipelines.media import held_medium
from toolkit.storage.local import LocalStore


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


COLUMNS = (image_column("image"), Column(name="text", kind=Kind.TEXT, arrow_type="string"))
TYPES = {"image": REFERENCE_TYPE, "text": pa.string()}
BOTH = (REFERENCES, UNHASHED)


def schema_of(columns: tuple[Column, ...] = COLUMNS, *, hashed: bool = True, **types: pa.DataType) -> pa.Schema:
    return arrow_schema(columns, {**TYPES, **types}, {}, derived_of(columns), hashed=hashed)


def fault(schema: pa.Schema, columns: tuple[Column, ...] = COLUMNS, *requires: str) -> str | None:
    derived = derived_of(columns)
    return columns_fault(columns, derived, requires) or schema_fault(schema, columns, derived, requires)


def test_references_and_their_features_belong_together() -> None:
    packed, referred = schema_of(image=IMAGE_TYPE), schema_of()
    assert fault(packed) is None
    assert fault(referred, COLUMNS, REFERENCES) is None
    assert fault(schema_of(hashed=False), COLUMNS, *BOTH) is None
    assert fault(referred) == "column 'image' holds references, and the manifest does not require 'references'"
    assert fault(packed, COLUMNS, REFERENCES) == "no column holds references, and the manifest requires 'references'"
    assert fault(referred, COLUMNS, UNHASHED) == "it requires 'unhashed' without 'references'"
    assert "no column can hold any" in (fault(packed, COLUMNS[1:], REFERENCES) or "")


def test_a_digest_may_be_missing_where_nothing_is_hashed_and_nowhere_else() -> None:
    assert "both never null" in (fault(schema_of(hashed=False), COLUMNS, REFERENCES) or "")
    assert "__digest__ not fixed" in (fault(schema_of(), COLUMNS, *BOTH) or "")


@pytest.mark.parametrize("encoding", ["raw", "jpeg:90"])
def test_only_the_sources_own_bytes_can_lie_elsewhere(encoding: str) -> None:
    columns = (dataclasses_replace(COLUMNS[0], encoding=encoding), COLUMNS[1])
    assert fault(schema_of(columns), columns, REFERENCES) is not None


def dataclasses_replace(column: Column, **changes: Any) -> Column:
    return Column(**{**{name: getattr(column, name) for name in column.__struct_fields__}, **changes})


def test_a_column_of_structs_of_that_type_holds_structs() -> None:
    columns = (Column(name="image", kind=Kind.VALUE, arrow_type="?"), COLUMNS[1])
    assert reference_columns(columns, schema_of(columns)) == ()
    assert fault(schema_of(columns), columns) is None
    assert held_medium(Kind.VALUE, REFERENCE_TYPE, by_type=True) is None
    assert reference_columns(COLUMNS, schema_of()) == ("image",)


def test_the_form_of_references_is_that_of_files_without_their_bytes() -> None:
    form = IMAGE.form_of(REFERENCE_TYPE)
    assert form == dataclasses.replace(IMAGE.source_form, type=REFERENCE_TYPE, path="name", feature=None)
    assert not is_reference(IMAGE_TYPE)


def test_other_readers_see_a_struct_and_no_picture() -> None:
    features = json.loads(schema_of().metadata[b"huggingface"])["info"]["features"]
    assert features["image"]["path"] == {"dtype": "string", "_type": "Value"}
    assert features["image"].keys() == {"root", "path", "offset", "length", "name", "crc32c"}


@pytest.mark.parametrize("path", ["a", "a/b", "...", "a b/ü"])
def test_paths_below_a_root(path: str) -> None:
    assert path_fault(path) is None


@pytest.mark.parametrize("path", ["", "/", "/a", "a/", "a//b", "..", "a/../b", ".", "./a", "a\0b"])
def test_other_paths(path: str) -> None:
    assert path_fault(path) is not None


# --- sizes and times that stand for sums ----------------------------------------------------------------------------


def test_sizes_and_times_are_read_by_row(tmp_path: Path) -> None:
    store, shard = LocalStore(str(tmp_path)), "shards/train-000000-0123456789abcdef.arrow"
    (tmp_path / "shards").mkdir()
    columns = [(np.arange(7) * 10 + k, np.arange(7) * 10 + 5 + k) for k in range(2)]
    assert stat_path(shard) == "shards/train-000000-0123456789abcdef.stat"
    (tmp_path / stat_path(shard)).write_bytes(encode_stats(columns))
    found = FileStats(store, shard, 2, 7).read(np.array([2, 6, 2]))
    assert found.tolist() == [[[row * 10 + k, row * 10 + 5 + k] for k in (0, 1)] for row in (2, 6, 2)]
    assert FileStats(store, shard, 2, 7).one(6, 1) == (61, 66)
    with pytest.raises(CorruptTableError, match="has 224 bytes, and 256 are the sizes and times of shard"):
        FileStats(store, shard, 2, 8)
    cut = FileStats(store, shard, 2, 7)
    with open(tmp_path / stat_path(shard), "wb"):
        pass
    with pytest.raises(CorruptTableError, match="was cut short"):
        cut.read(np.array([0]))
    with pytest.raises(CorruptTableError, match="was cut short"):
        cut.one(0, 0)
    (tmp_path / stat_path(shard)).unlink()
    with pytest.raises(CorruptTableError, match=r"is missing, which has the sizes and times .* Index the source again"):
        FileStats(store, shard, 2, 7)


# --- a reader that was written from docs/format.md ------------------------------------------------------------------


@pytest.mark.parametrize("form", ["files", "tar", "unhashed"])
def test_a_strangers_reader_gives_the_packed_samples(dataset: Path, tmp_path: Path, form: str) -> None:
    refer(dataset, tmp_path / "ds", tmp_path / "root", tar=form == "tar", hashed=form != "unhashed")
    reader, packed = PureReader(tmp_path / "ds", roots={"source": tmp_path / "root"}), PureReader(dataset)
    for split in ("train", "val"):
        expected = list(packed.samples(split))
        assert list(reader.samples(split)) == expected
        assert [reader.row(split, row) for row in range(len(expected))] == expected
    assert toolkit.open(tmp_path / "ds", split="train")[3]["image"] == expected_image(packed)


def expected_image(packed: PureReader) -> object:
    return packed.row("train", 3)["image"]["bytes"]


@pytest.mark.parametrize("how", ["flipped", "longer", "shorter", "gone", "linked", "up", "nowhere"])
def test_a_strangers_reader_refuses_what_we_refuse(dataset: Path, tmp_path: Path, how: str) -> None:
    def change(row: int, value: dict[str, object]) -> dict[str, object]:
        return {**value, "path": "../root/" + str(value["path"])} if how == "up" else value

    refer(dataset, tmp_path / "ds", tmp_path / "root", change=change)
    file = tmp_path / "root" / toolkit.open(tmp_path / "ds", split="val").keys()[0]
    data = file.read_bytes()
    if how == "flipped":
        file.write_bytes(data[:50] + bytes([data[50] ^ 1]) + data[51:])
    elif how == "longer":
        file.write_bytes(b"!" + data)
    elif how == "shorter":
        file.write_bytes(data[:-1])
    elif how in ("gone", "linked"):
        file.rename(tmp_path / "elsewhere")
    if how == "linked":
        file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Damaged, match="reference"):
        PureReader(tmp_path / "ds", roots={} if how == "nowhere" else {"source": tmp_path / "root"}).row("val", 0)
    if how != "nowhere":
        with pytest.raises(CorruptShardError):
            toolkit.open(tmp_path / "ds", split="val")[0]


def test_hugging_face_sees_structs(dataset: Path, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    ds = toolkit.open(refer(dataset, tmp_path / "ds", tmp_path / "root"), split="val")
    loaded = datasets.load_dataset("arrow", data_files=ds.files, cache_dir=str(tmp_path / "cache"), split="train")
    assert loaded[0]["image"]["path"] == ds.keys()[0]
