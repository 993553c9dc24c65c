from __future__ import annotations

import json
from pathlib import Path

import pytest
from crafted import commit_by_hand
from pictures import encode, make_folder, picture

import toolkit
from toolkit.checks.verify import verify
from toolkit.errors import CorruptShardError, FormatError, NotFoundError, SourceError, UsageError
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
    """A second source whose keys differ from the first one's."""
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
