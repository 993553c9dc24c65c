"""`toolkit inspect --labels` against counts of the source."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import Cli

from toolkit.pack.job import PackJob
from toolkit.pack.run import pack


def test_every_class_of_an_image_folder(cli: Cli, flowers: Path, packed: Path) -> None:
    ended = cli("inspect", packed, "--labels", "--json")
    assert (ended.code, ended.err) == (0, "")
    document = json.loads(ended.out)
    assert document["schema"] == "toolkit.inspect-labels/1"
    assert document["splits"] == ["train", "val"]
    counted = Counter(
        (path.parts[-3], path.parts[-2]) for path in flowers.rglob("*") if path.suffix in (".jpg", ".png")
    )
    label = document["columns"]["label"]
    assert [(one["id"], one["name"]) for one in label["classes"]] == [(0, "daisy"), (1, "rose"), (2, "tulip")]
    for one in label["classes"]:
        assert one["splits"] == {split: counted[split, one["name"]] for split in ("train", "val")}
        assert one["count"] == sum(one["splits"].values())
        assert one["share"] == pytest.approx(one["count"] / 14)
    assert (label["labelled"], label["missing"]) == (14, {"train": 0, "val": 0})


def test_for_people(cli: Cli, packed: Path) -> None:
    ended = cli("inspect", packed, "--labels")
    assert (ended.code, ended.err) == (0, "")
    assert "label: 3 classes, 1 without a sample, the largest 2.5 times the smallest" in ended.out
    lines = [line.split() for line in ended.out.splitlines()]
    assert ["id", "class", "train", "val", "samples", "share"] in lines
    assert ["0", "daisy", "7", "3", "10", "71.43%"] in lines
    assert ["2", "tulip", "0", "0", "0", "0.00%"] in lines
    assert ["(no", "label)", "0", "0", "0"] in lines
    assert ["(all)", "10", "4", "14"] in lines


def test_no_shard_is_opened(cli: Cli, packed: Path) -> None:
    before = cli("inspect", packed, "--labels").out
    for shard in (packed / "shards").iterdir():
        shard.unlink()
    assert cli("inspect", packed, "--labels").out == before


def test_one_split(cli: Cli, packed: Path) -> None:
    document = json.loads(cli("inspect", packed, "--labels", "--json", "--split", "val").out)
    label = document["columns"]["label"]
    assert [one["splits"] for one in label["classes"]] == [{"val": 3}, {"val": 1}, {"val": 0}]
    assert label["missing"] == {"val": 0}
    ended = cli("inspect", packed, "--labels", "--split", "vall")
    assert ended.code == 2
    assert "Did you mean 'val'?" in ended.err


def test_more_classes_than_the_summary_shows_missing_labels_and_two_columns(cli: Cli, tmp_path: Path) -> None:
    features = {"info": {"features": {name: {"_type": "ClassLabel", "names": names} for name, names in (
        ("kind", [f"class {i}" for i in range(50)]), ("side", ["left", "right"]),
    )}}}  # fmt: skip
    table = pa.table({"kind": [*range(50), *([None] * 7)], "side": [0, *([1] * 56)], "n": range(57)})
    table = table.replace_schema_metadata({"huggingface": json.dumps(features)})
    pq.write_table(table, tmp_path / "x.parquet")
    pack(PackJob(source=str(tmp_path / "x.parquet"), dataset=str(tmp_path / "ds")))
    columns = json.loads(cli("inspect", tmp_path / "ds", "--labels", "--json").out)["columns"]
    assert [one["count"] for one in columns["kind"]["classes"]] == [1] * 50
    assert columns["kind"]["missing"] == {"train": 7}
    assert [(one["name"], one["count"]) for one in columns["side"]["classes"]] == [("left", 1), ("right", 56)]
    out = cli("inspect", tmp_path / "ds", "--labels").out
    assert "class 49" in out
    assert "side: 2 classes, the largest 56 times the smallest" in out


def test_without_labels(cli: Cli, tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": [1]}), tmp_path / "x.parquet")
    pack(PackJob(source=str(tmp_path / "x.parquet"), dataset=str(tmp_path / "ds")))
    ended = cli("inspect", tmp_path / "ds", "--labels")
    assert (ended.code, ended.out.splitlines()[-1]) == (0, "no label column")
    assert json.loads(cli("inspect", tmp_path / "ds", "--labels", "--json").out)["columns"] == {}
