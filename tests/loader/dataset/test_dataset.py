from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import toolkit
from toolkit.errors import CorruptTableError, NotFoundError, PinMismatchError, UsageError
from toolkit.format.manifest import encode_manifest
from toolkit.format.schema import label_column
from toolkit.format.tables import encode_label_table, sha256


def test_samples_by_row(packed: Path) -> None:
    ds = toolkit.open(packed, split="train")
    assert len(ds) == 150
    assert ds[0]["__key__"] == "train/ant/0000.jpg"
    assert ds[-1]["__key__"] == ds[149]["__key__"] == "train/cat/0029.jpg"
    assert ds[np.int64(3)]["__key__"] == "train/ant/0003.jpg"
    assert ds[75]["image"] == (packed.parent / "src" / ds[75]["__key__"]).read_bytes()
    assert ds[75]["label"] == 1
    for beyond in (150, -151):
        with pytest.raises(IndexError, match=f"sample {beyond} of 150"):
            _ = ds[beyond]


def test_views(packed: Path) -> None:
    ds = toolkit.open(packed, split="train")
    view = ds[10:20:3]
    assert [view[i]["__key__"] for i in range(len(view))] == [ds[i]["__key__"] for i in (10, 13, 16, 19)]
    again = view.take([3, 0, 0])
    assert [again[i]["__key__"] for i in range(3)] == [ds[i]["__key__"] for i in (19, 10, 10)]
    batch = next(iter(again.loader(batch_size=3)))
    assert batch.sample_keys == [ds[i]["__key__"] for i in (19, 10, 10)]
    assert len(ds[5:5]) == 0
    assert list(ds[5:5].loader(batch_size=3)) == []
    with pytest.raises(IndexError, match=r"0\.\.3"):
        view.take([4])


def test_columns_classes_files_and_pin(packed: Path) -> None:
    ds = toolkit.open(packed, split="train", columns=["label"])
    assert set(ds[0]) == {"__key__", "label"}
    assert ds.classes == ("ant", "bee", "cat")
    assert len(ds.files) > 3
    assert all(Path(file).is_file() for file in ds.files)
    assert toolkit.open(f"{packed}@sha256:{ds.pin}", split="val").pin == ds.pin
    assert toolkit.open(packed / "manifests" / f"{ds.pin}.json", split="val").pin == ds.pin


def test_another_split_of_the_same_version(packed: Path) -> None:
    train = toolkit.open(packed, split="train", columns=["label"])
    val = train.open_split("val")
    assert (val.split, val.pin, len(val)) == ("val", train.pin, 20)
    assert set(val[0]) == {"__key__", "label"}
    assert val.keys() == val.keys(range(20))


def test_a_class_missing_from_val_shifts_nothing(packed: Path) -> None:
    ds = toolkit.open(packed, split="val")
    assert ds.classes == ("ant", "bee", "cat")
    assert [ds[i]["label"] for i in (0, 10)] == [0, 2]


def test_a_dataset_pickles_as_path_and_pin(packed: Path) -> None:
    ds = toolkit.open(packed, split="train", columns=["image"])[5:9]
    copy = pickle.loads(pickle.dumps(ds))
    assert copy.pin == ds.pin
    assert [copy[i] for i in range(4)] == [ds[i] for i in range(4)]
    assert len(pickle.dumps(ds)) < 2000


def test_a_moved_dataset_opens_by_its_pin(damaged: Path, tmp_path: Path) -> None:
    pin = toolkit.open(damaged, split="val").pin
    moved = shutil.move(damaged, tmp_path / "elsewhere")
    assert toolkit.open(f"{moved}@sha256:{pin[:12]}", split="val").pin == pin


def test_what_is_not_there_is_named_with_what_is(packed: Path) -> None:
    with pytest.raises(UsageError, match="splits train, val"):
        toolkit.open(packed)
    with pytest.raises(NotFoundError, match="Did you mean 'train'"):
        toolkit.open(packed, split="trian")
    with pytest.raises(NotFoundError, match="Did you mean 'label'"):
        toolkit.open(packed, split="train", columns=["lable"])
    with pytest.raises(NotFoundError, match="Did you mean 'ds'"):
        toolkit.open(packed.parent / "dss", split="train")
    with pytest.raises(PinMismatchError, match="no version with the pin"):
        toolkit.open(f"{packed}@sha256:{'0' * 12}", split="train")


@pytest.mark.parametrize(
    ("splits", "changes", "says"),
    [
        (
            {"train": [[{"__key__": "a", "image": None, "label": 0}]]},
            {"columns": (label_column("label", sha256(encode_label_table(("cat", "dog")))),)},
            "not those of the schema table",
        ),
        ({}, {}, "has no splits"),
    ],
)
def test_a_manifest_that_contradicts_its_tables_is_refused(
    tmp_path: Path, commit_samples: Callable[..., str], splits: dict[str, Any], changes: dict[str, Any], says: str
) -> None:
    commit_samples(tmp_path / "ds", splits, **changes)
    with pytest.raises(CorruptTableError, match=says):
        toolkit.open(tmp_path / "ds")


def test_a_manifest_with_other_row_counts_is_refused(tmp_path: Path, commit_samples: Callable[..., str]) -> None:
    sample = {"__key__": "a", "image": None, "label": 0}
    commit_samples(tmp_path / "ds", {"train": [[sample]]})
    manifest = toolkit.open(tmp_path / "ds").manifest
    split = msgspec.structs.replace(manifest.splits["train"], rows=2)
    data, pin = encode_manifest(msgspec.structs.replace(manifest, splits={"train": split}))
    (tmp_path / "ds/manifests" / f"{pin}.json").write_bytes(data)
    with pytest.raises(CorruptTableError, match=r"has 2 rows and \d+ bytes, its shard tables 1 and \d+"):
        toolkit.open(f"{tmp_path / 'ds'}@sha256:{pin}")
