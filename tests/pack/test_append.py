from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from crafted import Batch, Crafted, commit_by_hand
from pictures import encode, make_folder, picture

import toolkit
from toolkit.checks.verify import verify
from toolkit.errors import CorruptShardError, CorruptTableError, FormatError, NotFoundError, SourceError, UsageError
from toolkit.pack.job import OnExisting, PackJob
from toolkit.pack.run import pack


def append(source: Path, dataset: Path, **options: object) -> PackJob:
    return PackJob(source=str(source), dataset=str(dataset), on_existing=OnExisting.APPEND, **options)  # type: ignore[arg-type]


@pytest.fixture
def first(tmp_path: Path) -> Path:
    make_folder(tmp_path / "one", {"train/bee": 5, "train/cat": 4, "val/cat": 2})
    pack(PackJob(source=str(tmp_path / "one"), dataset=str(tmp_path / "ds"), user_metadata={"owner": "me"}))
    return tmp_path / "ds"


def more(tmp_path: Path, classes: dict[str, int]) -> Path:
    """A second source whose keys differ from the first one's; made anew."""
    shutil.rmtree(tmp_path / "two", ignore_errors=True)
    make_folder(tmp_path / "two", classes)
    for path in sorted((tmp_path / "two").rglob("*.jpg")):
        path.rename(path.with_name(f"new-{path.name}"))
    return tmp_path / "two"


def test_rows_keep_their_numbers_and_old_pins_keep_working(first: Path, tmp_path: Path) -> None:
    before = toolkit.open(first, split="train")
    old = [before[i] for i in range(len(before))]
    result = pack(append(more(tmp_path, {"train/bee": 3, "train/cat": 1}), first, user_metadata={"note": "x"}))
    assert (result.added, result.samples, result.splits) == (4, 15, {"train": 13, "val": 2})
    after = toolkit.open(first, split="train")
    assert [after[i] for i in range(9)] == old
    assert after.keys(range(9, 13))[0] == "train/bee/new-0000.jpg"
    assert after.manifest.parent == before.pin
    assert after.manifest.user == {"owner": "me", "note": "x"}
    assert after.manifest.splits["train"].labels["label"].counts == (8, 5)
    assert len(after.manifest.splits["train"].tables) == 2
    again = toolkit.open(f"{first}@sha256:{before.pin}", split="train")
    assert [again[i] for i in range(len(again))] == old
    assert not verify(first, full=True, decode=True).findings
    assert sorted(key for batch in after.loader(batch_size=5, shuffle="full") for key in batch.sample_keys) == sorted(
        after.keys()
    )


def test_what_only_a_newer_toolkit_knows_is_not_lost(first: Path, tmp_path: Path) -> None:
    document = json.loads((first / "manifest.json").read_bytes())
    document["splits"]["train"]["zone_map"] = {"of": "label"}
    pin = commit_by_hand(first, document)
    message = r"packed by a newer toolkit: its manifest has splits\.train\.zone_map"
    with pytest.raises(FormatError, match=message):
        pack(append(more(tmp_path, {"train/bee": 3}), first))
    assert toolkit.open(first, split="train").pin == pin


def refused_as_it_is(crafted: Crafted, root: Path, tmp_path: Path, says: str) -> None:
    """It is a good dataset, nothing is appended to it, and it stays what it was."""
    crafted.write(root)
    before = list(toolkit.open(root, split="train"))
    assert verify(root, full=True, jobs=1).findings == ()
    pin = toolkit.open(root, split="train").pin
    with pytest.raises(UsageError, match=says):
        pack(append(more(tmp_path, {"train/bee": 3}), root))
    assert toolkit.open(root, split="train").pin == pin
    assert list(toolkit.open(root, split="train")) == before


@pytest.mark.parametrize("name", ["label", "__image.width__"])
def test_columns_that_are_never_null_are_not_appended_to(first: Path, tmp_path: Path, name: str) -> None:
    """Shards have one schema, and those that would come say that there may be nulls."""
    crafted = Crafted.of(first)
    at = crafted.schema.get_field_index(name)
    crafted.set_schema(crafted.schema.set(at, crafted.schema.field(at).with_nullable(False)))
    says = (
        rf"column '{name}' is int\d+, never null, in the dataset.s shards and would be int\d+, null where.*: an append"
    )
    refused_as_it_is(crafted, tmp_path / "crafted", tmp_path, says)


def with_schema(crafted: Crafted, schema: pa.Schema, column: pa.Array | None = None) -> None:
    """Give every record batch these columns, of those that it has and `column` for a new one."""
    for tables in crafted.splits.values():
        for shard in [shard for table in tables for shard in table.shards]:
            made = []
            for records in (batch.records(crafted.schema) for batch in shard.batches):
                known = dict(zip(records.schema.names, records.columns, strict=True))
                if column is not None:
                    known |= {name: column[: len(records)] for name in schema.names if name not in known}
                arrays = [known[name] for name in schema.names]
                made.append(Batch.of(pa.RecordBatch.from_arrays(arrays, schema=schema)))
            shard.batches = made
    crafted.set_schema(schema)


def test_other_derived_columns_are_not_appended_to(first: Path, tmp_path: Path) -> None:
    crafted = Crafted.of(first)
    schema = crafted.schema
    at = schema.names.index("image")
    said = {"of": "image", "what": "odd", "version": 1, "arrow_type": "int32"}
    crafted.manifest["derived"].append(said)
    with_schema(crafted, schema.insert(at, pa.field("__image.odd__", pa.int32())), pa.array(range(100), pa.int32()))
    refused_as_it_is(
        crafted, tmp_path / "crafted", tmp_path, r"the dataset has .*__image\.odd__ \(int32, version 1\), and"
    )

    crafted = Crafted.of(first)
    crafted.manifest["derived"] = []
    kept = [name for name in schema.names if not name.startswith("__image.")]
    with_schema(crafted, pa.schema([schema.field(name) for name in kept], schema.metadata))
    refused_as_it_is(crafted, tmp_path / "crafted", tmp_path, r"the dataset has no derived columns, and .* would write")

    crafted = Crafted.of(first)
    crafted.manifest["derived"][1]["version"] = 2
    refused_as_it_is(crafted, tmp_path / "crafted", tmp_path, r"__image\.width__ \(int32, version 2\)")


def test_a_missing_table_is_told_before_anything_is_packed(first: Path, tmp_path: Path) -> None:
    table = toolkit.open(first, split="val").manifest.splits["val"].tables[0].sha256
    (first / f"tables/{table}.arrow").unlink()
    with pytest.raises(CorruptTableError, match=f"{table}.*is missing"):
        pack(append(more(tmp_path, {"train/bee": 3}), first))
    assert not (first / ".journal").exists()


def test_ids_never_move_and_new_classes_come_behind_when_allowed(first: Path, tmp_path: Path) -> None:
    source = more(tmp_path, {"train/ant": 2, "train/cat": 1, "train/zebra": 1})
    with pytest.raises(SourceError, match=r"2 classes of 'label' are not in the dataset, 'ant' the first.*--extend"):
        pack(append(source, first))
    pin = toolkit.open(first, split="val").pin
    pack(append(source, first, extend_classes=True))
    ds = toolkit.open(first, split="train")
    assert ds.classes == ("bee", "cat", "ant", "zebra")
    for i in range(len(ds)):
        sample = ds[i]
        assert ds.classes[sample["label"]] == sample["__key__"].split("/")[1]
    assert toolkit.open(f"{first}@sha256:{pin}", split="val").classes == ("bee", "cat")
    assert toolkit.open(first, split="val").manifest.splits["val"].labels["label"].counts == (0, 2, 0, 0)
    assert not verify(first, full=True).findings


def test_a_class_that_is_missing_from_the_new_part_shifts_nothing(first: Path, tmp_path: Path) -> None:
    pack(append(more(tmp_path, {"train/cat": 2}), first))
    ds = toolkit.open(first, split="train")
    assert [ds[i]["label"] for i in (9, 10)] == [1, 1]


def test_a_new_split(first: Path, tmp_path: Path) -> None:
    pack(append(more(tmp_path, {"test/bee": 2}), first))
    assert len(toolkit.open(first, split="test")) == 2
    assert len(toolkit.open(first, split="train")) == 9


def test_appending_is_deterministic(tmp_path: Path) -> None:
    make_folder(tmp_path / "one", {"a": 40, "b": 30})
    second = more(tmp_path, {"a": 50, "b": 20})
    pins = set()
    for place, jobs in (("x", 1), ("deep/er", 2)):
        dataset = tmp_path / place
        pack(PackJob(source=str(tmp_path / "one"), dataset=str(dataset), jobs=jobs, shard_size=65536))
        pins.add(pack(append(second, dataset, jobs=jobs, shard_size=65536)).pin)
    assert len(pins) == 1


def test_keys_that_are_there_already_are_refused(first: Path, tmp_path: Path) -> None:
    pin = toolkit.open(first, split="val").pin
    with pytest.raises(SourceError, match=r"the key 'train/bee/0000.jpg' occurs twice: in the dataset already"):
        pack(append(tmp_path / "one", first))
    assert toolkit.open(first, split="val").pin == pin


def test_other_columns_are_refused(first: Path, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain/x.jpg").write_bytes(encode(picture(1)))
    with pytest.raises(UsageError, match=r"column 'label' is label \(int64\) in the dataset and missing in the input"):
        pack(append(tmp_path / "plain", first))


def test_nothing_to_append_to_and_nothing_to_build_on(first: Path, tmp_path: Path) -> None:
    source = more(tmp_path, {"train/cat": 1})
    with pytest.raises(NotFoundError):
        pack(append(source, tmp_path / "nowhere"))
    assert not (tmp_path / "nowhere").exists()
    with pytest.raises(UsageError, match="without --on-existing append"):
        PackJob(source="x", dataset="y", extend_classes=True)
    shard = next((first / "shards").glob("train-*"))
    data = bytearray(shard.read_bytes())
    key = data.index(b"train/bee/0000.jpg")
    data[key] ^= 1
    shard.write_bytes(data)
    with pytest.raises(CorruptShardError, match=shard.name):
        pack(append(source, first))
