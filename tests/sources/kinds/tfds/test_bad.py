"""TFDS folders that are damaged, don't fit together, or claim what isn't there."""

from __future__ import annotations

import json
import os
import sys
import zlib
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from tfds_folders import BOX, IMAGE, TEXT, describe, label, numbers, packed, samples, sequence, tensor, write
from tfrecords import example, frame

from toolkit.errors import NotFoundError, SourceError, UsageError
from toolkit.format.kinds import Kind
from toolkit.sources.detect import find_kind
from toolkit.sources.kinds.tfds.features import features_of
from toolkit.sources.kinds.tfds.files import NotUnderstoodError, splits_of
from toolkit.sources.pictures import png_of
from toolkit.sources.tfrecords import example as tfrecords_example


def refused(folder: Path, message: str, **options: Any) -> None:
    with pytest.raises(SourceError, match=message):
        packed(folder, folder.with_name("ds"), **options)


def test_descriptions_that_are_cut_short(tmp_path: Path) -> None:
    for name in ("features.json", "dataset_info.json"):
        folder = numbers(tmp_path / name, train=[2])
        whole = (folder / name).read_bytes()
        for content in (whole[:-3], b"", b"[" * 100_000, b"\xff"):
            (folder / name).write_bytes(content)
            assert find_kind([str(folder)]) == "tfds"
            refused(folder, rf"{name}' can't be understood")


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "no featuresDict"),
        ({"type": "x", "content": "{}"}, "no featuresDict in it, as tensorflow-datasets writes since 2021"),
        ({"featuresDict": {}}, "has no features"),
        ({"featuresDict": {"features": {"a": 1}}}, "feature 'a' is described by no object"),
        (
            {"featuresDict": {"features": {"a": {"tensor": {"shape": {"dimensions": 3}}}}}},
            "that are no list",
        ),
        ({"featuresDict": {"features": {"a": {"tensor": {"shape": {"dimensions": ["x"]}}}}}}, "'x' .* no whole number"),
        ({"featuresDict": {"features": {"a": tensor("int8", 1 << 40)}}}, "an axis of 1099511627776"),
        ({"featuresDict": {"features": {"a": {"translation": {"languages": [1]}}}}}, "languages that are no texts"),
        (
            {"featuresDict": {"features": {"a/b": TEXT, "a": {"featuresDict": {"features": {"b": TEXT}}}}}},
            "two features called 'a/b'",
        ),
    ],
)
def test_features_that_can_not_be_understood(document: object, message: str) -> None:
    with pytest.raises(NotUnderstoodError, match=message):
        features_of(document)


def test_features_without_end() -> None:
    nested: Any = TEXT
    for _ in range(200):
        nested = sequence(nested)
    with pytest.raises(NotUnderstoodError, match="nested too deep"):
        features_of({"featuresDict": {"features": {"a": nested}}})


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "no list of splits"),
        ({"splits": [{}]}, "a split called None"),
        ({"splits": [{"name": "a"}, {"name": "a"}]}, "comes twice"),
        ({"fileFormat": "array_record", "splits": []}, "format 'array_record', and tfrecord is read: write them again"),
        ({"splits": [{"name": "a", "numShards": "3"}]}, "older versions .* --source-kind tfrecord"),
        ({"splits": [{"name": "a", "shardLengths": "3"}]}, "are no list"),
        ({"splits": [{"name": "a", "shardLengths": ["-3"]}]}, "'-3' in shardLengths"),
        ({"splits": [{"name": "a", "shardLengths": ["9" * 30]}]}, "is no number of records"),
        ({"splits": [{"name": "a", "shardLengths": [1], "filepathTemplate": "{X}"}]}, "nothing is known of {X}"),
        ({"splits": [{"name": "a", "shardLengths": [1]}]}, "nothing is known of {DATASET}"),
        ({"splits": [{"name": "a", "shardLengths": [1, 2], "filepathTemplate": "{SPLIT}"}]}, "several files one name"),
        ({"splits": [{"name": "..", "shardLengths": [1], "filepathTemplate": "{SPLIT}/x"}]}, "is no path below"),
        ({"name": "/etc", "splits": [{"name": "a", "shardLengths": [1]}]}, "is no path below"),
        ({"name": "../x", "splits": [{"name": "a", "shardLengths": [1]}]}, "is no path below"),
    ],
)
def test_splits_that_can_not_be_understood(document: object, message: str) -> None:
    with pytest.raises(NotUnderstoodError, match=message):
        splits_of(document)


def test_templates_of_file_names() -> None:
    template = "{SPLIT}/{DATASET}.{FILEFORMAT}-{SHARD_INDEX}_{NUM_SHARDS}"
    told = {"name": "d", "splits": [{"name": "a", "shardLengths": ["1", 2], "filepathTemplate": template}]}
    assert [(shard.name, shard.records) for shard in splits_of(told)["a"]] == [
        ("a/d.tfrecord-00000_00002", 1),
        ("a/d.tfrecord-00001_00002", 2),
    ]
    assert splits_of({"splits": [{"name": "a"}]}) == {"a": []}


def test_counts_of_records_are_checked(tmp_path: Path) -> None:
    folder = numbers(tmp_path / "in", train=[3, 2])
    features = json.loads((folder / "features.json").read_text())["featuresDict"]["features"]
    name = r"x-train\.tfrecord-00001-of-00002"
    describe(folder, features, {"train": [3, 4]})
    refused(folder, rf"{name}' holds 2 records, and dataset_info\.json says 4")
    describe(folder, features, {"train": [3, 1]})
    refused(folder, rf"{name}' holds more than 1 records, and dataset_info\.json says 1")
    describe(folder, features, {"train": [3, 2, 1]})
    refused(folder, r"tells of 'x-train\.tfrecord-00000-of-00003' with 3 records, and it isn't in")
    describe(folder, features, {"train": [3, 2]})
    path = folder / "x-train.tfrecord-00001-of-00002"
    path.write_bytes(path.read_bytes()[:-3])
    refused(folder, "the file is cut off")
    result = packed(folder, tmp_path / "ds", exclude=("*-00001-*",))
    assert (result.samples, result.skipped["excluded"]) == (3, 1)


def test_a_record_that_is_damaged_is_rejected_alone(tmp_path: Path) -> None:
    folder = numbers(tmp_path / "in", train=[4])
    path = folder / "x-train.tfrecord-00000-of-00001"
    good = [example(n=[i], t=[b"t"]) for i in range(4)]
    damaged = bytearray(frame(good[1]))
    damaged[14] ^= 1
    path.write_bytes(frame(good[0]) + bytes(damaged) + frame(b"\xff\xff") + frame(good[3]))
    result = packed(folder, tmp_path / "ds", max_rejects=2)
    assert [(reject.key, reject.reason) for reject in result.rejects] == [
        ("x-train.tfrecord-00000-of-00001#1", "the payload doesn't fit its CRC"),
        ("x-train.tfrecord-00000-of-00001#2", "the payload is no tf.train.Example"),
    ]
    assert [sample["n"] for sample in samples(tmp_path / "ds")] == [0, 3]


DOUBLES = np.arange(4.0).tobytes()
BAD: dict[str, tuple[object, bytes, bytes, str]] = {
    "missing": (tensor("int64"), example(x=[1]), example(y=[1]), "has no 'x'"),
    "of no list": (tensor("int64"), example(x=[1]), example(x=None), "has no 'x'"),
    "of another type": (tensor("int64"), example(x=[1]), example(x=[1.0]), "its values are float, and not int64"),
    "too many": (tensor("int64"), example(x=[1]), example(x=[1, 2]), "2 values for the shape ()"),
    "too few": (tensor("float32", 2, 3), example(x=[1.0] * 6), example(x=[1.0] * 5), "5 values for the shape (2, 3)"),
    "half a row": (tensor("int8", -1, 2), example(x=[1, 2]), example(x=[1]), "1 values for the shape (any, 2)"),
    "beyond the type": (tensor("uint8"), example(x=[255]), example(x=[256]), "256 is no uint8"),
    "below the type": (sequence(tensor("int8")), example(x=[-128, 1]), example(x=[1, -129]), "-129 is no int8"),
    "no text": (TEXT, example(x=[b"t"]), example(x=[b"\xff"]), "not UTF-8 text at byte 0"),
    "no picture": (IMAGE, example(x=[png_of(np.zeros((1, 1), np.uint8))]), example(x=[b"none"]), "not an image"),
    "half a box": (BOX, example(x=[0.0, 0.0, 1.0, 1.0]), example(x=[0.0]), "1 values for the shape (4)"),
    "a class beyond": (label(3), example(x=[2]), example(x=[3]), "label 3 is none of the ids 0 to 2"),
    "a class in a list": (sequence(label(3)), example(x=[2, 0]), example(x=[0, 3]), "3 is none of the ids 0 to 2"),
    "no zlib": (
        tensor("float64", 2, 2, encoding="zlib"),
        example(x=[zlib.compress(DOUBLES)]),
        example(x=[b"none"]),
        "the compressed values are damaged",
    ),
    "cut zlib": (
        tensor("float64", 2, 2, encoding="zlib"),
        example(x=[zlib.compress(DOUBLES)]),
        example(x=[zlib.compress(DOUBLES)[:-5]]),
        "cut short",
    ),
    "a bomb": (
        tensor("float64", 2, 2, encoding="zlib"),
        example(x=[zlib.compress(DOUBLES)]),
        example(x=[zlib.compress(bytes(1 << 20))]),
        "compressed values of more than 10000 bytes",
    ),
    "other bytes": (tensor("float64", 2, 2, encoding="bytes"), example(x=[DOUBLES]), example(x=[b"123"]), "no numbers"),
    "fewer bytes": (
        tensor("float64", 2, 2, encoding="bytes"),
        example(x=[DOUBLES]),
        example(x=[DOUBLES[:-8]]),
        "3 values for the shape (2, 2)",
    ),
    "a shape of no end": (
        tensor("int8", -1, -1, encoding="bytes"),
        example(**{"x/value": [b"12"], "x/shape": [2, 1]}),
        example(**{"x/value": [b"12"], "x/shape": [1 << 62, 1 << 62]}),
        "2 values for the shape (4611686018427387904, 4611686018427387904)",
    ),
    "a shape of other axes": (
        tensor("int8", -1, -1, encoding="bytes"),
        example(**{"x/value": [b"12"], "x/shape": [2, 1]}),
        example(**{"x/value": [b"12"], "x/shape": [2]}),
        "says the shape (2,), and it has 2 axes",
    ),
    "ragged": (
        sequence(sequence(TEXT)),
        example(**{"x/ragged_flat_values": [b"a", b"b"], "x/ragged_row_lengths_0": [0, 2]}),
        example(**{"x/ragged_flat_values": [b"a", b"b"], "x/ragged_row_lengths_0": [1, 2]}),
        "the lengths in 'x/ragged_row_lengths_0' don't come to 2",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_a_value_that_is_not_what_it_is_said_to_be_is_rejected(what: str, tmp_path: Path) -> None:
    feature, good, bad, reason = BAD[what]
    folder = write(tmp_path / "in", {"x": feature}, {"train": [[good, bad, good]]})
    result = packed(folder, tmp_path / "ds", max_rejects=1, max_value_bytes=10_000)
    assert result.samples == 2
    (reject,) = result.rejects
    assert reject.key == "x-train.tfrecord-00000-of-00001#1"
    assert reject.reason.startswith("column 'x': ")
    assert reason in reject.reason


def test_labels_that_nobody_knows_are_null(tmp_path: Path) -> None:
    folder = write(tmp_path / "in", {"x": label(2)}, {"train": [[example(x=[-1]), example(x=[1])]]})
    packed(folder, tmp_path / "ds")
    assert [sample["x"] for sample in samples(tmp_path / "ds")] == [None, 1]


def test_names_of_classes_fit_their_number(tmp_path: Path) -> None:
    folder = write(tmp_path / "in", {"x": label(2)}, {"train": [[example(x=[0])]]})
    (folder / "x.labels.txt").write_text("a\nb\nc\n")
    refused(folder, r"'x\.labels\.txt' has 3 names, and features\.json says 2 classes")
    (folder / "x.labels.txt").write_bytes(b"a\n\xff\n")
    refused(folder, "is not UTF-8 text at byte 2")
    (folder / "x.labels.txt").write_text("a\na\n")
    with pytest.raises(UsageError, match="'a' is both id 0 and id 1"):
        packed(folder, tmp_path / "ds")
    (folder / "x.labels.txt").unlink()
    describe(folder, {"x": label(10**18)}, {"train": [1]})
    packed(folder, tmp_path / "ds")  # so many that they are no names
    assert samples(tmp_path / "ds")[0]["x"] == 0


def test_features_that_are_not_read_can_be_left_out(tmp_path: Path) -> None:
    sound = {"audio": {"encoding": "WAV", "shape": {}}, "pythonClassName": "tensorflow_datasets.Audio"}
    for feature, why in (
        (sound, "it is of Audio, which isn't read here"),
        ({"pythonClassName": "a.b.Mine"}, "it is of Mine, which"),
        (tensor("bfloat16"), "its values are 'bfloat16'"),
        (tensor("int8", -1, -1), "more than one of its axes are unknown"),
        (tensor("int8", encoding="lz4"), "its encoding 'lz4'"),
        (sequence(tensor("int8", encoding="zlib")), "it is a sequence of encoded tensors"),
    ):
        folder = write(tmp_path / "in", {"n": tensor("int64"), "x": feature}, {"train": [[example(n=[1], x=[b"1"])]]})
        refused(folder, f"feature 'x' can't be read: {why}.*--columns n$")
        with pytest.raises(UsageError, match="feature 'x' can't be read"):
            packed(folder, tmp_path / "ds", columns=("x",))
        packed(folder, tmp_path / "ds", columns=("n",))
        assert samples(tmp_path / "ds")[0]["n"] == 1


def test_links_and_files_that_nothing_tells_of(tmp_path: Path) -> None:
    folder = numbers(tmp_path / "in", train=[3], test=[1])
    (folder / "x-more.tfrecord-00000-of-00001").write_bytes(b"")
    (folder / "README.md").write_text("x")
    result = packed(folder, tmp_path / "ds")
    assert {why: n for why, n in result.skipped.items() if n} == {"unlisted_files": 1, "other_kinds": 1}
    name = "x-train.tfrecord-00000-of-00001"
    os.rename(folder / name, tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", folder / name)
    refused(folder, "link that leads out of")
    assert packed(folder, tmp_path / "ds", follow_links=True).samples == 4


def test_splits_and_folders_that_are_not_there(tmp_path: Path) -> None:
    folder = numbers(tmp_path / "in", train=[3])
    with pytest.raises(NotFoundError, match=r"splits of the dataset are train, not 'trian'\. Did you mean"):
        packed(folder, tmp_path / "ds", split="trian")
    refused(tmp_path, r"is one folder with features\.json and dataset_info\.json", source_kind="tfds")
    (folder / "features.json").unlink()
    assert find_kind([str(folder)]) == "tfrecord"


def test_strings_are_text_where_the_first_ones_are(tmp_path: Path) -> None:
    features = {"s": tensor("string"), "b": tensor("string"), "l": tensor("string", -1), "m": tensor("string", 2, 1)}
    rows = [example(s=[b"text"], b=[b"\0"], l=[b"a", b"b"], m=[b"c", b"d"])]
    packed(write(tmp_path / "in", features, {"train": [rows]}), tmp_path / "ds")
    (sample,) = samples(tmp_path / "ds")
    assert {name: sample[name] for name in features} == {"s": "text", "b": b"\0", "l": ["a", "b"], "m": [["c"], ["d"]]}
    packed(tmp_path / "in", tmp_path / "ds", kind={"s": Kind.BYTES})
    assert samples(tmp_path / "ds")[0]["s"] == b"text"


def test_without_protobuf(tmp_path: Path) -> None:
    folder = numbers(tmp_path / "in", train=[2])
    tfrecords_example.parser.cache_clear()
    with (
        mock.patch.dict(sys.modules, {"google.protobuf": None, "google.protobuf.descriptor_pb2": None}),
        pytest.raises(UsageError, match=r"pip install 'toolkit\[tfrecord\]'$"),
    ):
        packed(folder, tmp_path / "ds")


def test_descriptions_behind_links(tmp_path: Path) -> None:
    folder = numbers(tmp_path / "in", train=[3])
    for name in ("features.json", "dataset_info.json"):
        away = (folder / name).rename(tmp_path / "away.json")
        (folder / name).symlink_to(away)
        refused(folder, f"{name}' is a link that leads out of")
        assert packed(folder, tmp_path / "ds", follow_links=True).samples == 3
        away.replace(folder / name)


def test_the_folder_above_one_version(tmp_path: Path) -> None:
    numbers(tmp_path / "x/3.0.1", train=[3])
    (tmp_path / "x/3.0.1.incomplete").mkdir()
    assert find_kind([str(tmp_path / "x")]) == "tfds"
    pins = {packed(tmp_path / "x" / below, tmp_path / "ds").pin for below in ("", "3.0.1")}
    assert len(pins) == 1
    for version in ("10.0.0", "2.0.0"):
        numbers(tmp_path / "x" / version, train=[3])
    assert find_kind([str(tmp_path / "x")]) == "tfds"
    with pytest.raises(SourceError, match=r"several versions \(2\.0\.0, 3\.0\.1, 10\.0\.0\): give the folder of one"):
        packed(tmp_path / "x", tmp_path / "ds")
