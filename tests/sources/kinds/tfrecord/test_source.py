"""TFRecord files: what features become, labels, missing features, compression, slices and splits."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pictures import encode, picture
from tfrecords import example, frame, job, many, packed, rejected, sequence, write

import toolkit
from toolkit.errors import NotFoundError, RejectsError, SourceError, UsageError
from toolkit.format.schema import Kind
from toolkit.pack.run import pack, plan
from toolkit.sources.options import LabelMode, Missing
from toolkit.sources.tfrecords.records import looks_like_tfrecord

JPEG = encode(picture(1), quality=80)
PNG = encode(picture(2), "PNG")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "in" / "a.tfrecord"


# --- what features become ------------------------------------------------------------------------------------


def test_every_kind(file: Path) -> None:
    write(
        file,
        [
            example(image=[JPEG], blob=[b"\xff\xfe"], caption=["zwölf".encode()], n=[-5], x=[0.5], box=[1.0, 2.0]),
            example(image=[PNG], blob=[b""], caption=[b""], n=[1 << 62], x=[float("inf")], box=([], float)),
        ],
    )
    samples, kinds = packed(file)
    assert kinds == {"blob": "bytes", "box": "value", "caption": "text", "image": "image", "n": "scalar", "x": "scalar"}
    assert samples == [
        {
            "__key__": "a.tfrecord#0",
            "blob": b"\xff\xfe",
            "box": [1.0, 2.0],
            "caption": "zwölf",
            "image": JPEG,
            "n": -5,
            "x": 0.5,
        },
        {
            "__key__": "a.tfrecord#1",
            "blob": b"",
            "box": [],
            "caption": "",
            "image": PNG,
            "n": 1 << 62,
            "x": float("inf"),
        },
    ]


def test_lists(file: Path) -> None:
    write(file, [example(t=[b"a", b"b"], b=[b"\xff"], i=[1, 2]), example(t=[b"c"], b=[b"x", b"y"], i=[3, 4])])
    samples, kinds = packed(file)
    assert set(kinds.values()) == {"value"}
    assert samples[0] | {"__key__": ""} == {"__key__": "", "b": [b"\xff"], "i": [1, 2], "t": ["a", "b"]}
    assert samples[1] | {"__key__": ""} == {"__key__": "", "b": [b"x", b"y"], "i": [3, 4], "t": ["c"]}


def test_sequence_example(file: Path) -> None:
    lists = {"words": [[b"a", b"b"], ([], bytes), [b"c"]], "xs": [[1.0], None], "never": []}
    write(file, [sequence({"id": [7]}, lists), sequence({"id": [8]}, {"words": [], "xs": [], "never": []})])
    samples, kinds = packed(file)
    assert kinds == {"id": "scalar", "never": "value", "words": "value", "xs": "value"}
    assert samples[0]["words"] == [["a", "b"], [], ["c"]]
    assert samples[0]["xs"] == [[1.0], []]
    assert [sample["never"] for sample in samples] == [[], []]
    assert (samples[1]["id"], samples[1]["words"]) == (8, [])


def test_small_numbers_are_no_text(file: Path) -> None:
    write(file, [example(mask=[b"\1\0\2"], zeros=[b"abc"]), example(mask=[b"abc"], zeros=[b"\0\0"])])
    assert packed(file)[1] == {"mask": "bytes", "zeros": "bytes"}


def test_bytes_can_be_said_to_be_text_and_back(file: Path) -> None:
    write(file, [example(a=[b"\0x"], b=[b"text"]), example(a=[b"y"], b=[b"\xc3\xa4"])])
    samples, kinds = packed(file, kind={"a": Kind.TEXT, "b": Kind.BYTES})
    assert kinds == {"a": "text", "b": "bytes"}
    assert [(s["a"], s["b"]) for s in samples] == [("\0x", b"text"), ("y", b"\xc3\xa4")]


def test_raw(file: Path) -> None:
    write(file, [b"", b"\xff" * 100, example(a=[1])])
    samples, kinds = packed(file, tfrecord_raw=True)
    assert kinds == {"record": "bytes"}
    assert [sample["record"] for sample in samples] == [b"", b"\xff" * 100, example(a=[1])]
    write(file, [JPEG, PNG])
    samples, kinds = packed(file, tfrecord_raw=True, kind={"picture": Kind.IMAGE}, rename={"record": "picture"})
    assert (kinds, samples[1]["picture"]) == ({"picture": "image"}, PNG)


def test_choosing_columns_and_key(file: Path) -> None:
    write(file, [example(**{"image/encoded": [JPEG], "id": [i], "name": [b"n%d" % i]}) for i in range(3)])
    samples, _ = packed(file, map={"image": "image/encoded", "id": "id"}, key="name")
    assert [(s["__key__"], s["id"], set(s)) for s in samples][1] == ("n1", 1, {"__key__", "image", "id"})
    with pytest.raises(UsageError, match="image/encode"):
        plan(job(file, file.parent.with_name("other"), columns=("image/encode",)))


@pytest.mark.parametrize("key", ["id", "name"])
def test_key_makes_no_column(file: Path, key: str) -> None:
    write(file, [example(id=[i], name=[b"n%d" % i]) for i in range(2)])
    samples, kinds = packed(file, key=key, rename={"id": "number"})
    assert samples[1]["__key__"] == {"id": "1", "name": "n1"}[key]
    assert kinds == ({"name": "text"} if key == "id" else {"number": "scalar"})


def test_tensor(file: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(6.0))
    write(file, [example(t=[(tmp_path / "x.npy").read_bytes()]), example(t=[b"junk"])])
    result, rejects = rejected(file, kind={"t": Kind.TENSOR})
    assert (result.samples, rejects) == (
        1,
        [
            (
                "a.tfrecord#1",
                "t: no NumPy file (.npy)",
            )
        ],
    )


# --- labels --------------------------------------------------------------------------------------------------


def test_number_labels(file: Path) -> None:
    write(file, [example(y=[i]) for i in (0, 2, -1, 1, 3)])
    result, rejects = rejected(file, kind={"y": Kind.LABEL}, classes=("a", "b", "c"))
    assert rejects == [
        ("a.tfrecord#2", "y: label -1 is not one of 0 to 2"),
        ("a.tfrecord#4", "y: label 3 is not one of 0 to 2"),
    ]
    opened = toolkit.open(result.dataset)
    assert [opened[i]["y"] for i in range(3)] == [0, 2, 1]
    assert opened.classes == ("a", "b", "c")


def test_text_labels(file: Path) -> None:
    write(file, [example(kind=[name]) for name in (b"dog", b"ant", "Öl".encode(), b"dog")])
    samples, kinds = packed(file, rename={"kind": "y"}, kind={"y": Kind.LABEL})
    assert (kinds, [s["y"] for s in samples]) == ({"y": "label"}, [1, 0, 2, 1])
    _, rejects = rejected(file, kind={"kind": Kind.LABEL}, classes=("dog", "ant"))
    assert rejects == [("a.tfrecord#2", "kind: 'Öl' is not among the classes")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": {"n": Kind.LABEL}}, "names with --classes"),
        ({"kind": {"x": Kind.LABEL}}, "can't be label"),
        ({"kind": {"n": Kind.IMAGE}}, "can't be image"),
        ({"kind": {"many": Kind.TENSOR}}, "can't be tensor"),
        ({"kind": {"n": Kind.TEXT}}, "can't be text"),
        ({"classes": ("a", "b")}, "there is none"),
        ({"classes": ("a", "a"), "kind": {"n": Kind.LABEL}}, "'a' is both"),
        ({"key": "x"}, "can't be keys"),
        ({"key": "nothing"}, "--key names 'nothing'"),
        ({"label_mode": LabelMode.NONE}, "--label-mode means nothing"),
        ({"rename": {"n": "x"}}, "two fields"),
        ({"tfrecord_raw": True, "kind": {"record": Kind.LABEL}}, "no value of it is text"),
    ],
)
def test_options_that_do_not_fit(file: Path, options: dict[str, Any], message: str) -> None:
    write(file, [example(n=[1], x=[1.0], many=[1, 2])])
    with pytest.raises(UsageError, match=message):
        pack(job(file, file.parent.with_name("packed"), **options))


# --- features that are missing -------------------------------------------------------------------------------


@pytest.fixture
def gaps(file: Path) -> Path:
    write(
        file,
        [
            example(a=[1], b=[b"x"], c=[JPEG], y=[b"k"], l=[1, 2]),
            example(a=[2]),
            example(b=[b"z"], c=None, y=[b"m"], l=[3]),
            sequence({"a": [4], "b": [b"w"], "c": [JPEG], "y": [b"k"], "l": [1]}, {"s": [[1.0]]}),
        ],
    )
    return file


def test_missing_is_rejected_by_name(gaps: Path) -> None:
    result, rejects = rejected(gaps)
    assert result.samples == 1
    assert rejects == [(f"a.tfrecord#{i}", f"lacks the feature {name!r}") for i, name in ((0, "s"), (1, "b"), (2, "a"))]
    with pytest.raises(RejectsError, match="lacks the feature 's'"):
        pack(job(gaps, gaps.parent.with_name("other")))


def test_missing_is_null(gaps: Path) -> None:
    samples, kinds = packed(gaps, missing=Missing.NULL, kind={"y": Kind.LABEL})
    assert kinds["c"] == "image"
    assert samples[1] == {"__key__": "a.tfrecord#1", "a": 2, "b": None, "c": None, "l": None, "s": None, "y": None}
    assert (samples[2]["a"], samples[2]["b"], samples[2]["c"], samples[2]["y"]) == (None, "z", None, 1)
    assert samples[3]["s"] == [[1.0]]


def test_missing_is_left_out_and_counted(gaps: Path) -> None:
    result, rejects = rejected(gaps, missing=Missing.SKIP)
    assert (result.samples, rejects, result.skipped["lacking_features"]) == (1, [], 3)
    made = plan(job(gaps, gaps.parent.with_name("other"), missing=Missing.SKIP, columns=("b", "y")))
    assert (made.splits["train"].samples, made.skipped["lacking_features"]) == (3, 1)
    made = plan(job(gaps, gaps.parent.with_name("other"), missing=Missing.SKIP, map={"q": "l"}, key="a"))
    assert made.splits["train"].samples == 3


def test_missing_key_is_rejected(gaps: Path) -> None:
    _, rejects = rejected(gaps, missing=Missing.NULL, key="a")
    assert rejects == [("a.tfrecord#2", "no key: the feature 'a' is missing or empty")]


# --- compression, slices, splits -----------------------------------------------------------------------------


def test_jobs_and_slices_make_one_pin(tmp_path: Path) -> None:
    for number in range(3):
        write(tmp_path / f"in/x.tfrecord-0000{number}-of-00003", many(200 + number))
    write(tmp_path / "in/x.tfrecord-00003-of-00003", [])
    results = [pack(job(tmp_path / "in", tmp_path / f"out{n}", jobs=n, shard_size=65536)) for n in (1, 2)]
    assert results[0].pin == results[1].pin
    assert plan(job(tmp_path / "in", tmp_path / "no", shard_size=65536)).splits["train"].tasks == results[0].shards == 6
    opened = toolkit.open(tmp_path / "out2")
    assert [opened[i]["i"] for i in range(len(opened))] == [i for n in range(3) for i in range(200 + n)]
    assert opened[200]["__key__"] == "x.tfrecord-00001-of-00003#0"


@pytest.mark.parametrize("compress", [gzip.compress, zlib.compress])
def test_compressed(file: Path, compress: Callable[[bytes], bytes]) -> None:
    payloads = many(300, 20_000)
    write(file, payloads)
    plain, _ = packed(file)
    file.write_bytes(compress(file.read_bytes()))
    seen = []
    result = pack(job(file, file.parent.with_name("again"), shard_size=1 << 20), lambda *done: seen.append(done))
    assert (result.shards, seen[-1]) == (3, (300, 300, file.stat().st_size, file.stat().st_size))
    opened = toolkit.open(result.dataset)
    assert [opened[i] for i in range(300)] == plain


def test_gzip_members_and_padding(file: Path) -> None:
    payloads = many(5)
    write(file, [])
    file.write_bytes(b"".join(gzip.compress(frame(p)) for p in payloads[:3]) + gzip.compress(b"") + bytes(1000))
    assert len(packed(file)[0]) == 3


def test_rubbish_behind_gzip_is_found(file: Path) -> None:
    write(file, []).write_bytes(gzip.compress(frame(example(a=[1]))) + b"rubbish")
    with pytest.raises(SourceError, match="record 1 at byte 30 of its decompressed content: the compressed data"):
        plan(job(file, file.parent.with_name("packed")))


def test_compressible_beyond_all_measure(file: Path) -> None:
    write(file, [])
    file.write_bytes(gzip.compress(frame(bytes(300_000)) * 20))
    assert len(packed(file, tfrecord_raw=True)[0]) == 20


def test_splits_by_file_name(tmp_path: Path) -> None:
    for name, count in (("train", 3), ("val", 2), ("test", 1)):
        write(tmp_path / f"in/d-{name}.tfrecord-00000-of-00001", many(count))
    assert pack(job(tmp_path / "in", tmp_path / "out")).splits == {"train": 3, "val": 2, "test": 1}
    assert pack(job(tmp_path / "in", tmp_path / "one", split="val")).splits == {"val": 2}


def test_limit(tmp_path: Path) -> None:
    for name in ("train-0", "train-1", "val-0"):
        write(tmp_path / f"in/{name}.tfrecord", many(10))
    (tmp_path / "in/train-2.tfrecord").write_bytes(b"never looked at")
    made = plan(job(tmp_path / "in", tmp_path / "out", limit=13, shard_size=65536))
    assert {name: split.samples for name, split in made.splits.items()} == {"train": 13, "val": 10}
    assert pack(job(tmp_path / "in", tmp_path / "out", limit=13)).splits == {"train": 13, "val": 10}


def test_folder_is_told_by_content_or_name(tmp_path: Path) -> None:
    write(tmp_path / "in/a/data", many(2))
    (tmp_path / "in/dataset_info.json").write_text("{}")
    result = pack(job(tmp_path / "in", tmp_path / "out"))
    assert (result.samples, result.skipped_names) == (2, {"other_kinds": ("dataset_info.json",)})
    (tmp_path / "in/b.tfrecord").write_text("{}")
    with pytest.raises(SourceError, match=r"b\.tfrecord.*record 0 at byte 0.*no TFRecord"):
        plan(job(tmp_path / "in", tmp_path / "out2"))
    assert plan(job(tmp_path / "in", tmp_path / "out2", exclude=("b.*",))).splits["train"].samples == 2
    with pytest.raises(SourceError, match=r"passed over: 3 excluded|1 other kinds"):
        plan(job(tmp_path / "in", tmp_path / "out2", include=("*.json",)))
    with pytest.raises(NotFoundError):
        plan(job(tmp_path / "gone", tmp_path / "out2"))


def test_looks_like_tfrecord(tmp_path: Path) -> None:
    content = frame(b"x") * 3
    for data, expected in (
        (content, True),
        (frame(b""), True),
        (gzip.compress(content), True),
        (zlib.compress(content), True),
        (gzip.compress(b"hello"), False),
        (zlib.compress(b""), False),
        (b"", False),
        (b"PAR1" + content, False),
        (content[:11], False),
        (content[:12], True),
    ):
        (tmp_path / "x").write_bytes(data)
        assert looks_like_tfrecord(str(tmp_path / "x")) is expected
