"""--dry-run of every kind of source, and the brace lists that inputs may be given as."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import h5py
import mds_shards
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tfds_folders
import tfrecords
from command import Cli, encoded, put
from sources import cocos, roxxels, tars

from toolkit.sources import registry
from toolkit.sources.skips import WORDS


def put_coco(root: Path) -> None:
    cocos.photos(root, "train/1.jpg", "train/2.jpg")
    images = [cocos.image(1), cocos.image(2)]
    cocos.write(root / "annotations/instances_train.json", cocos.document(images, [cocos.box(1, 2)]))


def write_parquet(root: Path) -> None:
    pq.write_table(pa.table({"text": ["a", "b"]}), root / "x.parquet")


def put_hdf5(root: Path) -> None:
    with h5py.File(root / "x.h5", "w") as file:
        file["n"] = np.arange(2)


def put_mds(root: Path) -> None:
    mds_shards.numbers(root, 2)


def put_voc(root: Path) -> None:
    put(root, "JPEGImages/1.jpg", encoded(9, 9))
    put(root, "Annotations/1.xml", b"<annotation/>")


def put_yolo(root: Path) -> None:
    put(root, "images/1.jpg", encoded(9, 9))
    put(root, "labels/1.txt", b"0 0.5 0.5 1 1")
    put(root, "classes.txt", b"cat")


def put_tfds(root: Path) -> None:
    tfds_folders.numbers(root, train=[2])


def put_metadata(root: Path) -> None:
    put(root, "1.jpg", encoded(9, 9))
    put(root, "metadata.csv", b"file_name\n1.jpg\n")


INPUTS: dict[str, Callable[[Path], None]] = {
    "coco": put_coco,
    "csv": lambda root: put(root, "x.csv", b"text,n\na,1\nb,2\n"),
    "hdf5": put_hdf5,
    "imagefolder": lambda root: put(root, "cat/1.jpg", encoded(9, 9)),
    "mds": put_mds,
    "jsonl": lambda root: put(root, "x.jsonl", b'{"text": "a", "n": 1}\n'),
    "numpy": lambda root: np.savez(root / "x.npz", text=np.array(["a", "b"]), n=np.arange(2)),
    "pairs": lambda root: put(root, "cat/1.jpg", encoded(9, 9)),
    "metadata": put_metadata,
    "parquet": write_parquet,
    "roxxel": lambda root: roxxels.write(root / "x.rox", np.arange(64, dtype=np.uint16), 32),
    "text": lambda root: put(root, "x.txt", b"a text"),
    "tfds": put_tfds,
    "tfrecord": lambda root: tfrecords.write(root / "x.tfrecord", tfrecords.many(3)),
    "voc": put_voc,
    "webdataset": lambda root: put(root, "x.tar", tars.tar_bytes(tars.samples(2))),
    "yolo": put_yolo,
}


@pytest.mark.parametrize("kind", registry.names())
@pytest.mark.parametrize("tokens", [False, True])
def test_every_kind_can_be_planned(cli: Cli, tmp_path: Path, kind: str, tokens: bool) -> None:
    (tmp_path / "source").mkdir()
    INPUTS[kind](tmp_path / "source")
    flags = ["--tokenizer", "bytes"] if tokens else []
    if tokens and kind not in ("text", "parquet", "mds"):
        flags = ["--limit", "1"] if kind != "roxxel" else ["--split", "all"]
    flags += ["--pair", "cat/{}.jpg"] if kind == "pairs" else []
    ended = cli("pack", tmp_path / "source", tmp_path / "ds", "--dry-run", *flags)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("dry run: nothing is written; ")
    assert ended.last_line.startswith("dry_run=true samples=")
    document = json.loads(cli("pack", tmp_path / "source", tmp_path / "ds", "--dry-run", "--json", *flags).out)
    assert document["source_kind"] == kind
    assert document["skipped"].keys() <= WORDS.keys() | registry.named(kind).skips.keys()  # each can be told in words
    assert not (tmp_path / "ds").exists()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("x-{5..1}.txt", r"{5..1} in 'x-{5..1}.txt' counts down, and stands for nothing: {1..5}?"),
        ("x-{0..99999999999}.txt", "{0..99999999999} in 'x-{0..99999999999}.txt' stands for more than 1,000,000 paths"),
        (f"x-{{0..{'9' * 5000}}}.txt", "stands for more than 1,000,000 paths"),
        ("x-{0..9999}{0..9999}.txt", "stands for more than 1,000,000 paths"),
        ("x-{0..999999}-{a,b}.txt", "stands for more than 1,000,000 paths"),
        ("x-{3..4}.txt", "no input at"),
        ("x-{}.txt", "no input at"),
    ],
)
def test_brace_lists_that_stand_for_nothing_or_too_much(cli: Cli, tmp_path: Path, given: str, says: str) -> None:
    for number in range(2):
        put(tmp_path, f"x-{number}.txt", b"a text")
    for flags in ([], ["--dry-run"], ["--source-kind", "text"]):
        ended = cli("pack", f"{tmp_path}/{given}", tmp_path / "ds", *flags)
        assert ended.code == 2
        assert says in ended.err.replace(f"{tmp_path}/", "")
        assert not (tmp_path / "ds").exists()


def test_brace_lists(cli: Cli, tmp_path: Path) -> None:
    for number in range(8, 12):
        put(tmp_path, f"x-{number:02}.txt", b"a text")
    ended = cli("pack", f"{tmp_path}/x-{{08..11}}.txt", tmp_path / "ds", "--dry-run", "-q")
    assert ended.out == "dry_run=true samples=unknown shards=1 source_bytes=24\n"
    put(tmp_path, "x-{5..1}.txt", b"a name that is there stands for itself")
    assert cli("pack", tmp_path / "x-{5..1}.txt", tmp_path / "ds", "--dry-run", "-q").code == 0
