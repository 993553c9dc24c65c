"""What a newer writer may add without a word in `requires`: both readers read such a dataset as if it weren't there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from crafted import Batch, Crafted, Edit, edited_table
from format.pure_reader import PureReader

import toolkit
from toolkit.checks.head import head
from toolkit.checks.inspect import inspect
from toolkit.checks.verify import verify
from toolkit.format.schema import Column, Kind

NEW = {"a": [1, None, {"b": "c"}]}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "crafted"


def read_as(root: Path, good: Path, split: str) -> None:
    """Toolkit, its commands and the pure reader find the samples of the dataset that is good."""
    ours, expected = toolkit.open(root, split=split), toolkit.open(good, split=split)
    assert list(ours) == list(expected)
    assert [str(batch) for batch in ours.loader(batch_size=3, threads=1)] != []
    mine, theirs = PureReader(root), PureReader(good)
    samples = list(theirs.samples(split, derived=theirs.derived))
    assert list(mine.samples(split, derived=theirs.derived)) == samples
    assert [mine.row(split, row, [*mine.columns, *theirs.derived]) for row in range(len(samples))] == samples
    for full in (False, True):
        assert verify(root, full=full, jobs=1).findings == ()
    assert inspect(str(root))
    assert head(str(root), split=split)


# --- keys of a manifest -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "place",
    [
        ("index",),
        ("columns", 0, "bits"),
        ("columns", 1, "soft"),
        ("derived", 2, "unit"),
        ("splits", "train", "zones"),
        ("splits", "train", "labels", "label", "weights"),
        ("splits", "train", "tables", 0, "keys"),
    ],
)
def test_keys_of_a_manifest(dataset: Path, root: Path, place: tuple[str | int, ...]) -> None:
    crafted = Crafted.of(dataset)
    crafted.say(*place, value=NEW)
    crafted.write(root)
    read_as(root, dataset, "train")


def test_options_and_user_metadata_are_for_nobody_to_act_on(dataset: Path, root: Path) -> None:
    crafted = Crafted.of(dataset)
    crafted.say("options", value={"new": NEW, "shard_bytes": "many"})
    crafted.say("user", value={"requires": "nothing"})
    crafted.write(root)
    read_as(root, dataset, "train")


def test_keys_of_tokens(tmp_path: Path, root: Path) -> None:
    toolkit.pack_tokens([np.arange(9) % 5, np.arange(4)], tmp_path / "tokens", vocabulary=5)
    crafted = Crafted.of(tmp_path / "tokens")
    crafted.say("columns", 0, "tokens", "merges", value=NEW)
    crafted.write(root)
    read_as(root, tmp_path / "tokens", "train")


# --- columns of tables, fields of structs -------------------------------------------------------------------------


def more_columns(table: pa.Table) -> pa.Table:
    """Columns behind those that are known, nulls in them, and of types that a shard couldn't have."""
    table = table.append_column("zones", pa.nulls(len(table), pa.list_(pa.int8())))
    return table.append_column("mirror", pa.array(["x"] * len(table)).dictionary_encode().cast(pa.string()))


def more_fields(table: pa.Table) -> pa.Table:
    """Fields behind those that are known of a record batch."""
    at = table.schema.names.index("batches")
    lists = table.column(at).chunk(0)
    items, field = lists.values, table.schema.field(at)
    zones = pa.array([None, 5] * len(items), pa.int32())[: len(items)]
    fields = [*items.type, pa.field("zone", pa.int32()), pa.field("box", pa.list_(pa.float32()))]
    arrays = [*items.flatten(), zones, pa.nulls(len(items), fields[-1].type)]
    structs = pa.StructArray.from_arrays(arrays, fields=fields)
    dtype = pa.list_(pa.field("item", structs.type, nullable=False))
    made = pa.ListArray.from_arrays(lists.offsets, structs, type=dtype)
    return table.set_column(at, pa.field("batches", dtype, nullable=field.nullable), made)


def fields_renamed(table: pa.Table, names: dict[str, str]) -> pa.Table:
    at = table.schema.names.index("batches")
    lists = table.column(at).chunk(0)
    fields = [field.with_name(names.get(field.name, field.name)) for field in lists.type.value_type]
    structs = pa.StructArray.from_arrays(lists.values.flatten(), fields=fields)
    dtype = pa.list_(pa.field("item", structs.type, nullable=False))
    return table.set_column(
        at, pa.field("batches", dtype), pa.ListArray.from_arrays(lists.offsets, structs, type=dtype)
    )


def said_otherwise(table: pa.Table) -> pa.Table:
    """As pyarrow makes tables when nobody says more: what could be missing isn't, and items have another name."""
    at = table.schema.names.index("batches")
    lists = table.column(at).chunk(0)
    dtype = pa.list_(pa.field("element", lists.values.type))
    made = pa.ListArray.from_arrays(lists.offsets, lists.values, type=dtype)
    table = table.set_column(at, pa.field("batches", dtype), made)
    return table.cast(pa.schema([field.with_nullable(True) for field in table.schema]))


@pytest.mark.parametrize(
    "change", [said_otherwise, more_columns, more_fields, lambda table: more_columns(more_fields(table))]
)
def test_shard_tables(dataset: Path, root: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    crafted = Crafted.of(dataset)
    for tables in crafted.splits.values():
        tables[0].edit = edited_table(change)
    crafted.write(root)
    read_as(root, dataset, "train")


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.select([*table.schema.names[1:], "path"]),
        lambda table: table.add_column(0, "first", table["rows"]),
        lambda table: table.append_column("rows", table["bytes"]),
        lambda table: fields_renamed(more_fields(table), {"zone": "rows"}),
        lambda table: table.rename_columns(["path", "rows", "bytes", "sha256", "nonbody_sha256", "ids", "batches"]),
    ],
)
def test_columns_that_are_known_come_first(dataset: Path, root: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    crafted = Crafted.of(dataset)
    crafted.splits["train"][0].edit = edited_table(change)
    crafted.write(root)
    digest = PureReader(root).manifest["splits"]["train"]["tables"][0]["sha256"]
    with pytest.raises(toolkit.errors.CorruptTableError, match=f"table {digest} has not the columns of format 1"):
        toolkit.open(root, split="train")[0]


def test_label_tables(dataset: Path, root: Path) -> None:
    crafted = Crafted.of(dataset)
    table = crafted.manifest["columns"][1]["label_table"]
    crafted.edits[table] = edited_table(more_columns)
    crafted.write(root)
    read_as(root, dataset, "train")
    assert toolkit.open(root, split="train").classes == ("cat", "dog")
    assert PureReader(root).classes == {"label": ["cat", "dog"]}


def test_tokenizer_tables(tmp_path: Path, root: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers", reason="pip install 'toolkit[tokens]'")
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    made.save(str(tmp_path / "tokenizer.json"))
    toolkit.pack_tokens(["a"], tmp_path / "tokens", tokenizer=tmp_path / "tokenizer.json")
    crafted = Crafted.of(tmp_path / "tokens")
    crafted.edits[crafted.manifest["columns"][0]["tokens"]["tokenizer_table"]] = edited_table(more_columns)
    crafted.write(root)
    read_as(root, tmp_path / "tokens", "train")
    assert PureReader(root).tokenizer("tokens") == (tmp_path / "tokenizer.json").read_bytes()


# --- columns of samples -------------------------------------------------------------------------------------------


def of_unknown_kinds(crafted: Crafted, kinds: dict[str, str]) -> None:
    """Give columns kinds that nobody knows; so they are large, and shards have them behind the small ones."""
    names = [column["name"] for column in crafted.manifest["columns"]]
    for column in crafted.manifest["columns"]:
        if column["name"] in kinds:
            column |= {"kind": kinds[column["name"]], "encoding": "lossy:3", "points": NEW}
    small = [name for name in crafted.schema.names if name not in names or name == "small"]
    order = [*small, *(name for name in names if name != "small")]
    for shard in crafted.splits["train"][0].shards:
        shard.batches = [Batch.of(batch.records(crafted.schema).select(order)) for batch in shard.batches]
    crafted.set_schema(pa.schema([crafted.schema.field(name) for name in order], crafted.schema.metadata))


COLUMNS: dict[str, pa.Array] = {
    "nested": pa.array([{"a": [1, 2], "b": "x"}, None, {"a": [], "b": None}]),
    "number": pa.array([1, None, 3], pa.int16()),
    "words": pa.array(["é", None, "a\0b"], pa.large_string()),
    "small": pa.array([1.5, 2.5, 3.5], pa.float32()),
    "nothing": pa.nulls(3),
    "blob": pa.array([b"\xff", b"", None], pa.large_binary()),
}


def test_columns_of_kinds_that_nobody_knows(tmp_path: Path, root: Path, commit_rows: Callable[..., str]) -> None:
    """Read as values of their Arrow types."""
    rows = pa.RecordBatch.from_pydict({"__key__": ["a", "b", "c"], **COLUMNS})
    order = ["__key__", "number", "small", "nothing", "nested", "words", "blob"]
    columns = tuple(Column(name=n, kind=Kind.VALUE, arrow_type=str(array.type)) for n, array in COLUMNS.items())
    commit_rows(tmp_path / "good", {"train": [[rows.select(order)]]}, columns=columns)
    crafted = Crafted.of(tmp_path / "good")
    unknown = {"nested": "point_cloud", "number": "gauge", "words": "poem", "nothing": "void", "blob": "image2"}
    of_unknown_kinds(crafted, unknown)
    crafted.write(root)
    good, ours = toolkit.open(tmp_path / "good"), toolkit.open(root)
    assert repr(list(ours)) == repr(list(good))
    mine, theirs = PureReader(root), PureReader(tmp_path / "good")
    names = [field.name for field in mine.schema.columns]
    assert names == ["__key__", "__digest__", "small", "nested", "number", "words", "nothing", "blob"]
    samples = list(theirs.samples("train"))
    assert list(mine.samples("train")) == samples
    assert [mine.row("train", row) for row in range(3)] == samples
    for full in (False, True):
        assert verify(root, full=full, jobs=1).findings == ()
    assert inspect(str(root))
    assert head(str(root))


def with_derived(crafted: Crafted, said: dict[str, Any], array: Callable[[int], pa.Array]) -> str:
    """Add a derived column behind the others; return its name."""
    crafted.manifest["derived"].append(said)
    name = f"__{said['of']}.{said['what']}__"
    at = crafted.schema.names.index("image")
    schema = crafted.schema
    for tables in crafted.splits.values():
        for shard in [shard for table in tables for shard in table.shards]:
            records = [batch.records(schema) for batch in shard.batches]
            made = [one.add_column(at, name, array(one.num_rows)) for one in records]
            shard.batches = [Batch.of(one) for one in made]
    crafted.set_schema(schema.insert(at, pa.field(name, array(0).type)))
    return name


@pytest.mark.parametrize(
    ("said", "dtype"),
    [
        ({"of": "image", "what": "rows", "version": 1, "arrow_type": "binary"}, pa.binary()),
        ({"of": "image", "what": "histogram", "version": 7, "arrow_type": "-"}, pa.list_(pa.float32())),
        ({"of": "label", "what": "share", "version": 1, "arrow_type": "double"}, pa.float64()),
    ],
)
def test_derived_columns_that_nobody_knows(dataset: Path, root: Path, said: dict[str, Any], dtype: pa.DataType) -> None:
    crafted = Crafted.of(dataset)
    name = with_derived(crafted, said, lambda rows: pa.nulls(rows, dtype))
    crafted.write(root)
    read_as(root, dataset, "train")
    assert name in PureReader(root).derived
    assert PureReader(root).row("train", 0, [name])[name] is None


def test_a_derived_column_of_a_newer_version(dataset: Path, root: Path) -> None:
    """It may have another type, and say another thing: a verification doesn't compare it with what is known here."""
    crafted = Crafted.of(dataset)
    crafted.manifest["derived"][0]["version"] = 2
    at = crafted.schema.names.index("__image.height__")
    for tables in crafted.splits.values():
        for shard in [shard for table in tables for shard in table.shards]:
            records = [batch.records(crafted.schema) for batch in shard.batches]
            heights = pa.array([7.5] * 100, pa.float64())
            made = [one.set_column(at, "__image.height__", heights[: one.num_rows]) for one in records]
            shard.batches = [Batch.of(one) for one in made]
    crafted.set_schema(crafted.schema.set(at, pa.field("__image.height__", pa.float64())))
    crafted.write(root)
    assert list(toolkit.open(root, split="train")) == list(toolkit.open(dataset, split="train"))
    for full in (False, True):
        assert verify(root, full=full, jobs=1).findings == ()
    assert PureReader(root).row("train", 0, ["__image.height__"])["__image.height__"] == 7.5


# --- bytes ----------------------------------------------------------------------------------------------------------


def test_the_edit_is_an_edit(dataset: Path) -> None:
    """What the tests above add is really there."""
    crafted = Crafted.of(dataset)
    edit: Edit = edited_table(lambda table: more_columns(more_fields(table)))
    digest = crafted.manifest["splits"]["train"]["tables"][0]["sha256"]
    table = pa.ipc.open_file(pa.py_buffer(edit((dataset / f"tables/{digest}.arrow").read_bytes()))).read_all()
    assert table.schema.names[-2:] == ["zones", "mirror"]
    assert [field.name for field in table.schema.field("batches").type.value_type][-2:] == ["zone", "box"]


# --- a kind that isn't known --------------------------------------------------------------------------------------


def test_what_a_column_of_unknown_kind_refers_to_is_not_looked_for(dataset: Path, root: Path) -> None:
    crafted = Crafted.of(dataset)
    place = next(i for i, one in enumerate(crafted.manifest["columns"]) if one["name"] == "image")
    for key, value in {
        "kind": "relief",
        "label_table": "0" * 64,
        "encoding": "lidar:3",
        "tokens": {"vocabulary": 3},
    }.items():
        crafted.say("columns", place, key, value=value)
    crafted.write(root)
    expected = [sample["image"] for sample in toolkit.open(dataset, split="train")]
    found = [sample["image"] for sample in toolkit.open(root, split="train")]
    assert [one["bytes"] for one in found] == expected


def test_one_derived_column_of_two_versions_is_not_joined(dataset: Path, root: Path) -> None:
    crafted = Crafted.of(dataset)
    crafted.say("derived", 0, "version", value=2)
    crafted.write(root)
    parts = [toolkit.open(one, split="train") for one in (dataset, root)]
    with pytest.raises(
        toolkit.errors.UsageError, match=r"derived columns __image.height__ \(version 1\).*\(version 2\)"
    ):
        toolkit.concat(parts)
