"""toolkit.writer(): records one by one become a version, whatever stops it goes on, and what is wrong is told."""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from forks import forked
from pictures import encode, picture
from PIL import Image

import toolkit
from toolkit.errors import ExistsError, RejectsError, SourceError, UsageError
from toolkit.pack.job import PackResult
from toolkit.pack.writer.declared import declare
from toolkit.pack.writer.session import Session

SMALL: dict[str, Any] = {"shard_size": "64KiB"}
PHOTOS = {"image": "image", "label": "label"}


def photo(number: int, *, nbytes: int = 0) -> bytes:
    return encode(picture(number, 8, 8)) + np.random.default_rng(number).bytes(nbytes)


def write(dataset: Path, *records: Mapping[str, Any], **options: Any) -> PackResult:
    """Write records; __key__ and __split__ in them aren't columns."""
    with toolkit.writer(dataset, **options) as w:
        for record in records:
            values = {name: value for name, value in record.items() if name[:2] != "__"}
            w.add(values, key=record.get("__key__"), split=record.get("__split__"))
    assert w.result is not None
    return w.result


def stopped(dataset: Path, stop: int, **options: Any) -> tuple[int, list[str]]:
    """Stop by an exception behind some photographs; return how many were safe at the start, and notes of the error."""
    done, notes = 0, []
    try:
        with toolkit.writer(dataset, columns=PHOTOS, **options) as w:
            done = w.done
            add_photos(w, range(w.done, stop))
            raise ZeroDivisionError
    except ZeroDivisionError as error:
        notes = getattr(error, "__notes__", [])
    return done, notes


def add_photos(w: toolkit.Writer, numbers: range, *, nbytes: int = 20_000) -> None:
    for number in numbers:
        split = "val" if number % 5 == 4 else None
        w.add(image=photo(number, nbytes=nbytes), label=f"class {number % 7}", key=f"k{number}", split=split)


def rows(dataset: Path, split: str | None = None) -> list[dict[str, Any]]:
    ds = toolkit.open(dataset) if split is None else toolkit.open(dataset, split=split)
    return [ds[number] for number in range(len(ds))]


def test_values_of_every_kind_come_back(tmp_path: Path) -> None:
    columns = {
        "image": "image",
        "label": "label",
        "text": "text",
        "extra": "json",
        "score": "float32",
        "count": "scalar",
        "good": "bool",
        "array": "tensor",
        "blob": "bytes",
        "when": "timestamp[us]",
        "boxes": "list<fixed_size_list<float64, 4>>",
    }
    array = np.arange(6, dtype=np.int16).reshape(2, 3).T
    with toolkit.writer(tmp_path / "ds", columns=columns, user_metadata={"owner": "me"}) as w:
        w.add(
            image=photo(1),
            label="cat",
            text="höher",
            extra={"a": [1, None, "x"]},
            score=0.5,
            count=np.int64(7),
            good=True,
            array=array,
            blob=bytearray(b"\0\1"),
            when=np.datetime64("2026-01-02T03:04:05"),
            boxes=[[0.0, 1.0, 2.0, 3.0]],
        )
        assert w.result is None
    assert w.result is not None
    assert (w.result.samples, w.result.source_kind, w.result.classes) == (1, "records", 1)
    ds = toolkit.open(tmp_path / "ds")
    (row,) = rows(tmp_path / "ds")
    assert ds.pin == w.result.pin
    assert ds.manifest.user == {"owner": "me"}
    assert {one.name: one.arrow_type for one in ds.columns}["count"] == "int64"
    assert row["__key__"] == "0"
    assert row["image"] == photo(1)
    assert (row["label"], ds.classes) == (0, ("cat",))
    assert (row["text"], json.loads(row["extra"])) == ("höher", {"a": [1, None, "x"]})
    assert (row["score"], row["count"], row["good"], row["blob"]) == (0.5, 7, True, b"\0\1")
    assert np.array_equal(np.load(io.BytesIO(row["array"])), array)
    assert row["boxes"] == [[0.0, 1.0, 2.0, 3.0]]
    assert toolkit.verify(tmp_path / "ds", full=True, decode=True).ok


def test_pictures_of_every_form_are_the_same_pixels(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    pixels = np.asarray(picture(3, 12, 10))
    (tmp_path / "a.png").write_bytes(encode(Image.fromarray(pixels), "PNG"))
    image = Image.fromarray(pixels)
    given: list[Any] = [
        encode(Image.fromarray(pixels), "PNG"),
        tmp_path / "a.png",
        str(tmp_path / "a.png"),
        {"bytes": encode(Image.fromarray(pixels), "PNG"), "path": "x/b.png"},
        image,
        pixels,
        pixels[:, ::-1][:, ::-1],
        torch.from_numpy(pixels.transpose(2, 0, 1).copy()),
        torch.from_numpy(pixels.copy()),
    ]
    with toolkit.writer(tmp_path / "ds", columns={"image": "image"}) as w:
        for one in given:
            w.add(image=one)
    ds = toolkit.open(tmp_path / "ds")
    for row in range(len(given)):
        assert np.array_equal(np.asarray(Image.open(io.BytesIO(ds[row]["image"])).convert("RGB")), pixels), row
    with toolkit.writer(tmp_path / "raw", columns={"image": "image"}, image_encoding="raw") as w:
        for one in given:
            w.add(image=one)
    steps = toolkit.slot("image").decode_image()
    (batch,) = toolkit.open(tmp_path / "raw").loader(toolkit.pipeline(steps), batch_size=len(given))
    assert np.array_equal(np.asarray(batch["image"]), np.stack([pixels] * len(given)))


def test_what_is_added_may_change_afterwards(tmp_path: Path) -> None:
    buffer, listed, path = np.zeros((4, 4, 3), np.uint8), [0], tmp_path / "a.png"
    columns = {"image": "image", "file": "image", "array": "tensor", "list": "list<int64>", "json": "json"}
    with toolkit.writer(tmp_path / "ds", columns=columns) as w:
        for number in range(3):
            buffer[:], listed[0] = number, number
            path.write_bytes(encode(Image.fromarray(buffer), "PNG"))
            w.add(image=buffer, file=path, array=buffer, list=listed, json=listed)
    for number, row in enumerate(rows(tmp_path / "ds")):
        for name in ("image", "file"):
            assert np.asarray(Image.open(io.BytesIO(row[name])))[0, 0, 0] == number
        assert np.load(io.BytesIO(row["array"]))[0, 0, 0] == number
        assert (row["list"], row["json"]) == ([number], f"[{number}]")


def test_shards_are_cut_by_the_rows_alone(tmp_path: Path) -> None:
    pins = set()
    for jobs in (1, 3):
        with toolkit.writer(tmp_path / str(jobs), columns=PHOTOS, jobs=jobs, **SMALL) as w:
            add_photos(w, range(40))
        assert w.result is not None
        pins.add(w.result.pin)
        assert w.result.splits == {"train": 32, "val": 8}
        assert w.result.shards > 10
    assert len(pins) == 1


@pytest.mark.parametrize("options", [{}, {"key_conflict": "suffix"}, {"shuffle_seed": 3}])
def test_goes_on_where_an_exception_stopped_it(tmp_path: Path, options: dict[str, Any]) -> None:
    options = {**SMALL, **options}
    with toolkit.writer(tmp_path / "whole", columns=PHOTOS, **options) as w:
        add_photos(w, range(40))
    assert w.result is not None
    pin = w.result.pin
    for stop in (3, 17, 40):
        ds = tmp_path / f"ds {stop}"
        _, notes = stopped(ds, stop, **options)
        assert len(notes) == (stop > 3)
        assert not (ds / "manifest.json").exists()
        first, _ = stopped(ds, 25, on_existing="resume", **options)
        second, notes = stopped(ds, 40, on_existing="resume", **options)
        assert first <= second
        assert "records are safe" in notes[0]
        with toolkit.writer(ds, columns=PHOTOS, on_existing="resume", **options) as w:
            assert w.done >= second > 0
            add_photos(w, range(w.done, 40))
        assert w.result is not None
        assert (w.result.pin, w.result.resumed > 0) == (pin, True), stop
        assert toolkit.verify(ds, full=True).ok


def test_an_unfinished_pack_is_told_of(tmp_path: Path) -> None:
    ds = tmp_path / "ds"
    stopped(ds, 20, **SMALL)
    with pytest.raises(ExistsError, match=r"unfinished pack of records.*resume.*--abort"), toolkit.writer(ds, **SMALL):
        pass
    with (
        pytest.raises(ExistsError, match="unfinished pack of another kind:\n  classes: then not given, now given"),
        toolkit.writer(ds, columns=PHOTOS, classes=["a"], on_existing="resume", **SMALL),
    ):
        pass
    with toolkit.writer(ds, columns=PHOTOS, on_existing="overwrite") as w:
        assert w.done == 0
        add_photos(w, range(3))
    with pytest.raises(ExistsError, match="already holds a dataset"), toolkit.writer(ds, on_existing="resume"):
        pass
    assert len(toolkit.open(ds)) == 3


def test_names_of_classes_are_ids_in_order_of_appearance_or_those_given(tmp_path: Path) -> None:
    with toolkit.writer(tmp_path / "found", columns={"label": "label"}) as w:
        for name in ("dog", "cat", "dog", np.str_("eel")):
            w.add(label=name)
    assert toolkit.open(tmp_path / "found").classes == ("dog", "cat", "eel")
    with toolkit.writer(tmp_path / "given", columns={"label": "label"}, classes=["cat", "dog", "eel"]) as w:
        for one in ("dog", 0, np.int32(2), "cat"):
            w.add(label=one)
    ds = toolkit.open(tmp_path / "given")
    assert ([row["label"] for row in rows(tmp_path / "given")], ds.classes) == ([1, 0, 2, 0], ("cat", "dog", "eel"))
    append: dict[str, Any] = {"columns": {"label": "label"}, "on_existing": "append"}
    with pytest.raises(RejectsError, match=r"'do' is none of the 3 classes. Did you mean 'dog'"):
        write(tmp_path / "given", {"label": "eel"}, {"label": "do"}, **append)
    write(tmp_path / "given", {"label": "fox"}, {"label": "cat"}, extend_classes=True, **append)
    ds = toolkit.open(tmp_path / "given")
    assert ds.classes == ("cat", "dog", "eel", "fox")


def test_two_label_columns(tmp_path: Path) -> None:
    columns = {"a": "label", "b": "label"}
    with (
        pytest.raises(UsageError, match="there are 2 label columns"),
        toolkit.writer(tmp_path / "ds", columns=columns, classes=["x"]),
    ):
        pass
    with toolkit.writer(tmp_path / "ds", columns=columns, classes={"a": ["x"], "b": ["y", "z"]}) as w:
        w.add(a="x", b="z")
    assert rows(tmp_path / "ds")[0]["b"] == 1


WRONG: list[tuple[str, Any, str]] = [
    ("image", b"no picture", "column 'image': "),
    ("image", "nowhere.jpg", "column 'image': can't read 'nowhere.jpg': No such file or directory"),
    ("image", "https://me:secret@host/a.jpg?token=1", r"column 'image': https://host/… is a URL: download it"),
    ("image", np.zeros((4, 4, 3)), "4 x 4 x 3 float64 is no picture.*255"),
    ("image", np.zeros((3, 8, 8), np.uint8), r"no picture.*transpose\(1, 2, 0\)"),
    ("image", 3, "a value of type int is no picture"),
    ("image", None, "column 'image': there is no value"),
    ("label", 1.5, "column 'label': a value of type float is neither"),
    ("label", 2, "2 is no id of 2 classes"),
    ("label", np.timedelta64(1, "s"), "a value of type timedelta64 is neither"),
    ("label", "cta", "'cta' is none of the 2 classes. Did you mean 'cat'?"),
    ("text", b"x", "is no text"),
    ("text", "\ud800", "column 'text': it has half of a surrogate pair"),
    ("text", "x" * 2000, "2000 bytes are more than a value may have"),
    ("json", {1, 2}, "no JSON value"),
    ("json", float("nan"), "no JSON value"),
    ("int8", 128, "column 'int8': 128 is no int8"),
    ("int8", True, "True is no int8"),
    ("int8", 1.0, "1.0 is no int8"),
    ("int8", np.timedelta64(5, "ns"), "is no int8"),
    ("float32", 1e39, "is too large for float"),
    ("float32", 2**24 + 1, "doesn't hold exactly"),
    ("tensor", [1], "is no array"),
    ("tensor", np.array([object()]), "Python objects"),
    ("tensor", np.ma.array([1, 2], mask=[0, 1]), "a masked array"),
    ("bytes", "x", "is no bytes"),
    ("list", [1.5], "1.5 is no int64"),
    ("struct", {"b": 1}, "it has 'b', which struct<a: int64> hasn't"),
]


@pytest.mark.parametrize(("column", "value", "says"), WRONG)
def test_a_wrong_value_is_told_with_its_record(tmp_path: Path, column: str, value: object, says: str) -> None:
    import pyarrow as pa

    columns: dict[str, Any] = {
        "image": "image",
        "label": "label",
        "text": "text",
        "json": "json",
        "int8": "int8",
        "float32": "float32",
        "tensor": "tensor",
        "bytes": "bytes",
        "list": "list<int64>",
        "struct": pa.struct([("a", pa.int64())]),
    }
    good: dict[str, Any] = {
        "image": photo(1),
        "label": "dog",
        "text": "",
        "json": 1,
        "int8": -128,
        "float32": 1,
        "tensor": np.zeros(()),
        "bytes": b"",
        "list": [],
        "struct": {"a": 1},
    }
    options: dict[str, Any] = {"columns": columns, "classes": ["cat", "dog"], "max_value_bytes": 1000}

    records = [
        {"__key__": "fine", **good},
        {"__key__": "bad", **{**good, column: value}},
        {"__key__": "last", **good},
    ]
    with pytest.raises(RejectsError, match=r"1 record rejected, 0 allowed:\n  bad \(record 1\): ") as caught:
        write(tmp_path / "ds", *records, **options)
    assert not list(tmp_path.iterdir())
    caught.match(says)
    (reject,) = write(tmp_path / "ds", *records, max_rejects=1, **options).rejects
    assert (reject.key, reject.source) == ("bad", "record 1")
    assert "secret" not in reject.reason
    assert [row["__key__"] for row in rows(tmp_path / "ds")] == ["fine", "last"]


def test_columns_that_lack_or_are_too_many(tmp_path: Path) -> None:
    columns = {"a": "int64", "caption": "text"}
    with pytest.raises(RejectsError, match=r"'captoin' is none of the columns a, caption. Did you mean 'caption'"):
        write(tmp_path / "ds", {"a": 1, "captoin": "x"}, columns=columns)
    with pytest.raises(RejectsError, match="column 'caption': there is no value"):
        write(tmp_path / "ds", {"a": 1}, columns=columns)
    with toolkit.writer(tmp_path / "null", columns=columns, missing="null") as w:
        w.add(a=1)
        w.add(a=None, caption="x")
    assert [(row["a"], row["caption"]) for row in rows(tmp_path / "null")] == [(1, None), (None, "x")]
    with toolkit.writer(tmp_path / "skip", columns=columns, missing="skip") as w:
        w.add(a=1)
        w.add(a=2, caption="x")
    assert w.result is not None
    assert w.result.skipped == {"missing": 1}
    assert [row["__key__"] for row in rows(tmp_path / "skip")] == ["1"]


def test_keys(tmp_path: Path) -> None:
    columns = {"key": "int64"}
    with toolkit.writer(tmp_path / "ds", columns=columns) as w:
        w.add({"key": 5}, key=np.int64(12))
        w.add({"key": 6}, split="val")
    assert [(row["__key__"], row["key"]) for row in rows(tmp_path / "ds", "train")] == [("12", 5)]
    assert [(row["__key__"], row["key"]) for row in rows(tmp_path / "ds", "val")] == [("1", 6)]
    with toolkit.writer(tmp_path / "ds", columns=columns, on_existing="append") as w:
        w.add({"key": 7})
    assert rows(tmp_path / "ds", "train")[-1]["__key__"] == "13"
    twice = {"key": 1, "__key__": "a"}, {"key": 2, "__key__": "a"}
    with pytest.raises(SourceError, match="the key 'a' occurs twice: in records 0 to 1"):
        write(tmp_path / "two", *twice, columns=columns)
    for key, says in [
        ("", "its key is empty"),
        (1.5, "its key is of type float"),
        (np.timedelta64(1, "ns"), "of type timedelta64"),
        ("\ud800", "not valid UTF-8"),
    ]:
        with pytest.raises(RejectsError, match=says):
            write(tmp_path / "bad", {"key": 1, "__key__": key}, columns=columns)
    write(tmp_path / "two", *twice, columns=columns, key_conflict="suffix", on_existing="resume")
    assert [row["__key__"] for row in rows(tmp_path / "two")] == ["a", "a#1"]


def test_options_that_cannot_be(tmp_path: Path) -> None:
    for columns, says in [
        ({}, "columns is empty"),
        ({"image": "imgae"}, "'imgae' is neither a kind .* Did you mean 'image'"),
        ({"__x": "text"}, "can't name a column"),
        ({"x": "value"}, "as an Arrow type"),
        ({"x": "tokens"}, "pack_tokens"),
        ({"x": 5}, "expected a kind"),
    ]:
        with pytest.raises(UsageError, match=says):
            toolkit.writer(tmp_path / "ds", columns=columns)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="can't name a split"):
        toolkit.writer(tmp_path / "ds", split="a/b")
    with pytest.raises(UsageError, match="inside its block"):
        toolkit.writer(tmp_path / "ds", columns={"a": "int64"}).add(a=1)
    with pytest.raises(SourceError, match="no record was added"), toolkit.writer(tmp_path / "ds"):
        pass
    with pytest.raises(SourceError, match="holds no samples"), toolkit.writer(tmp_path / "ds", columns={"a": "int64"}):
        pass
    assert not list(tmp_path.iterdir())


def test_one_writer_at_a_time_and_one_thread(tmp_path: Path) -> None:
    with toolkit.writer(tmp_path / "ds", columns={"a": "int64"}) as w:
        with pytest.raises(ExistsError, match="another pack is writing"), toolkit.writer(tmp_path / "ds"):
            pass
        told: list[str] = []

        def add() -> None:
            try:
                w.add(a=1)
            except UsageError as error:
                told.append(str(error))

        thread = threading.Thread(target=add)
        thread.start()
        thread.join()
        assert "opened by another thread" in told[0]
        forked(_add_in_child, w, tmp_path / "told").join()
        assert "opened in another process" in (tmp_path / "told").read_text()
        w.add(a=2)
    assert [row["a"] for row in rows(tmp_path / "ds")] == [2]


def _add_in_child(w: toolkit.Writer, told: Path) -> None:
    try:
        w.add(a=1)
    except UsageError as error:
        told.write_text(str(error))
    w.__exit__(None, None, None)


def add_catching(
    dataset: Path, columns: Mapping[str, str], *values: object, told: list[BaseException], **options: Any
) -> None:
    """Add records of one column, and catch what add() raises; what the end of the block raises isn't caught."""
    (name,) = columns
    with toolkit.writer(dataset, columns=columns, jobs=1, **options) as w:
        for value in values:
            try:
                w.add({name: value})
            except (Exception, KeyboardInterrupt) as error:
                told.append(error)


def test_an_error_that_the_block_catches_commits_nothing(tmp_path: Path) -> None:
    labels = ["dog" if number == 20_000 else "cat" for number in range(50_000)]
    with pytest.raises(RejectsError, match=r"20000 \(record 20000\): column 'label': 'dog' is none of the 1 classes"):
        add_catching(tmp_path / "ds", {"label": "label"}, *labels, told=[], classes=["cat"])
    assert not list(tmp_path.iterdir())
    told: list[BaseException] = []
    with pytest.raises(RejectsError, match="record 1"):
        add_catching(tmp_path / "ds", {"a": "int64"}, 1, "x", 3, told=told)
    assert [type(error) for error in told] == [RejectsError, UsageError]
    assert "this writer failed, and takes no more records" in str(told[1])
    assert told[1].__cause__ is told[0]


def test_an_interrupt_that_the_block_catches_commits_nothing(tmp_path: Path) -> None:
    class Interrupting(os.PathLike[str]):
        def __fspath__(self) -> str:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        add_catching(tmp_path / "ds", {"a": "image"}, photo(0), Interrupting(), told=[])
    assert not list(tmp_path.iterdir())


def test_a_process_forked_inside_the_block_keeps_no_lock(tmp_path: Path) -> None:
    ended = multiprocessing.get_context("fork").Event()
    with toolkit.writer(tmp_path / "ds", columns={"a": "int64"}) as w:
        child = forked(ended.wait, 60)
        w.add(a=2)
    write(tmp_path / "ds", {"a": 3}, on_existing="append")
    ended.set()
    child.join()
    assert [row["a"] for row in rows(tmp_path / "ds")] == [2, 3]


def test_types_as_text_are_read_as_arrow_writes_them_and_none_is_too_deep() -> None:
    for dtype in (
        pa.list_(pa.float64(), 4),
        pa.list_(pa.list_(pa.int8(), 2)),
        pa.binary(16),
        pa.large_list(pa.bool_()),
    ):
        declared = declare("x", str(dtype))
        assert declared is not None
        assert declared.type == dtype
    for text in (
        "fixed_size_list<int8, 99999999999999999999>",
        "fixed_size_binary[99999999999]",
        "list<" * 999 + ">" * 999,
    ):
        with pytest.raises(UsageError, match=r"columns\.x: "):
            declare("x", text)


def test_goes_on_behind_a_commit_that_passed_records_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [{"a": number} if number % 3 else {} for number in range(10)]
    options: dict[str, Any] = {"columns": {"a": "int64"}, "missing": "skip", "on_existing": "resume"}
    with monkeypatch.context() as patched:
        patched.setattr(Session, "_forget", lambda _: None)  # killed behind the commit
        pin = write(tmp_path / "ds", *records, **options).pin
    with toolkit.writer(tmp_path / "ds", **options) as w:
        assert w.done == len(records)
    assert w.result is not None
    assert w.result.pin == pin
