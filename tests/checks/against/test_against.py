"""verify(against=...): a dataset and its source, of many kinds and options, unchanged and changed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import parquet_inputs
import pytest
from pictures import make_folder
from PIL import Image
from sources import tars

import toolkit
from toolkit.checks.against import compare
from toolkit.checks.verify import VerifyResult, verify
from toolkit.errors import CorruptShardError, NotFoundError, UsageError


def counts(result: VerifyResult) -> dict[str, int]:
    assert result.against is not None
    return {what: count for what, count in result.against.counts.items() if count}


def packed(tmp_path: Path, source: Path | list[Path], **options: Any) -> Path:
    toolkit.pack(source, tmp_path / "ds", jobs=1, **options)
    return tmp_path / "ds"


def folder(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "photos", {"cat": 3, "dog": 2})


def tar(tmp_path: Path) -> Path:
    names = [(f"{i}.{what}", data) for i in range(4) for what, data in (("jpg", tars.JPEG), ("cls", b"%d" % (i % 2)))]
    return tars.write(tmp_path / "x.tar", tars.tar_bytes(names))


def rows(tmp_path: Path) -> Path:
    columns = {"id": ["a", "b", "c"], "text": ["x", "y", None], "n": [1, 2, 3], "left": [0, 0, 0]}
    return parquet_inputs.write(tmp_path / "rows.parquet", columns)


def lines(tmp_path: Path) -> Path:
    path = tmp_path / "x.jsonl"
    path.write_text("".join(json.dumps({"text": f"line {i}", "n": i}) + "\n" for i in range(5)))
    return path


CASES: dict[str, tuple[Callable[[Path], Path], dict[str, Any], dict[str, Any]]] = {
    "folder": (folder, {}, {}),
    "no labels, some files": (folder, {"label_mode": "none", "exclude": ["*1.jpg"]}, {}),
    "a limit in an order": (folder, {"limit": 3, "shuffle_seed": 5}, {}),
    "classes given": (folder, {"classes": ["dog", "cat", "cow"]}, {}),
    "encoded anew": (folder, {"image_encoding": "jpeg:80", "short_side": 16}, {}),
    "pixels": (folder, {"image_encoding": "raw"}, {}),
    "tar": (tar, {}, {}),
    "tar, mapped": (tar, {"map": {"photo": "jpg"}, "kind": {"photo": "bytes"}}, {}),
    "rows": (rows, {"key": "id"}, {}),
    "rows, some columns": (rows, {"columns": ["text", "n"], "rename": {"n": "number"}}, {}),
    "rows, mapped": (rows, {"map": {"caption": "text"}, "key": "id"}, {}),
    "lines": (lines, {}, {}),
    "tokens": (lines, {"tokenizer": "bytes", "eos": True}, {"tokenizer": "bytes", "eos": True}),
}


@pytest.mark.parametrize("case", CASES)
def test_what_was_packed_does_not_differ(case: str, tmp_path: Path) -> None:
    make, options, told = CASES[case]
    source = make(tmp_path)
    result = verify(packed(tmp_path, source, **options), against=source, options=told)
    assert result.against is not None
    assert (result.findings, counts(result)) == ((), {})
    assert result.against.samples == result.samples
    assert result.against.sources == (str(source),)


def test_each_difference(tmp_path: Path) -> None:
    source = make_folder(tmp_path / "photos", {"cat": 5, "dog": 4})
    dataset = packed(tmp_path, source)
    cat, dog = (sorted((source / name).iterdir()) for name in ("cat", "dog"))
    cat[0].unlink()
    cat[1].write_bytes(cat[1].read_bytes() + b"!")
    cat[2].write_bytes(b"no picture")
    (source / "dog/new.jpg").write_bytes(cat[3].read_bytes())
    (source / "dog/reject.jpg").write_bytes(b"no picture either")
    (source / "ape").mkdir()
    dog[0].rename(source / "ape/moved.jpg")
    result = verify(dataset, against=source, full=True)
    assert counts(result) == {"missing": 2, "changed": 1, "rejected": 1, "new": 2}
    assert result.against is not None
    assert result.against.rejected == 1
    found = {(one.what, one.key, one.place) for one in result.against.differences}
    assert found == {
        ("missing", f"cat/{cat[0].name}", ""),
        ("missing", f"dog/{dog[0].name}", ""),
        ("changed", f"cat/{cat[1].name}", str(cat[1])),
        ("rejected", f"cat/{cat[2].name}", str(cat[2])),
        ("new", "dog/new.jpg", str(source / "dog/new.jpg")),
        ("new", "ape/moved.jpg", str(source / "ape/moved.jpg")),
    }
    assert {one.kind for one in result.findings} == {"source"}
    with toolkit.open(dataset).loader(batch_size=4) as loader:
        assert len(list(loader)) == 3  # the dataset itself is what it was


def test_a_label_that_differs(tmp_path: Path) -> None:
    """A table says another number of one of its rows: the digest covers every column."""
    dataset = packed(tmp_path, rows(tmp_path), key="id")
    parquet_inputs.write(
        tmp_path / "rows.parquet", {"id": ["a", "b", "c"], "text": ["x", "y", None], "n": [1, 7, 3], "left": [0, 0, 0]}
    )
    assert counts(verify(dataset, against=tmp_path / "rows.parquet")) == {"changed": 1}


def test_another_split(tmp_path: Path) -> None:
    source = parquet_inputs.write(tmp_path / "in/train.parquet", {"id": ["a", "b"], "n": [1, 2]})
    parquet_inputs.write(tmp_path / "in/val.parquet", {"id": ["c"], "n": [3]})
    dataset = packed(tmp_path, source.parent, key="id")
    parquet_inputs.write(tmp_path / "in/train.parquet", {"id": ["a"], "n": [1]})
    parquet_inputs.write(tmp_path / "in/val.parquet", {"id": ["c", "b", "c"], "n": [3, 2, 3]})
    result = verify(dataset, against=tmp_path / "in")
    assert counts(result) == {"split": 1, "again": 1}
    assert "comes again in the source" in result.findings[-1].message


def test_two_sources_of_an_append(tmp_path: Path) -> None:
    """An append brings new classes: ids of the old ones stay, whatever the names' order."""
    first, second = make_folder(tmp_path / "a", {"dog": 2}), make_folder(tmp_path / "b", {"ape": 2, "dog": 0})
    dataset = packed(tmp_path, first)
    toolkit.pack(second, dataset, on_existing="append", extend_classes=True)
    assert counts(verify(dataset, against=[first, second])) == {}
    assert counts(verify(dataset, against=first)) == {"missing": 2}


def test_pictures_that_only_this_pack_took(tmp_path: Path) -> None:
    source = folder(tmp_path)
    (source / "cat/odd.jpg").write_bytes(b"no picture")
    dataset = packed(tmp_path, source, verify_images="off")
    assert counts(verify(dataset, against=source)) == {"rejected": 1}
    assert counts(verify(dataset, against=source, options={"verify_images": "off"})) == {}


def test_renamed_samples_are_refused(tmp_path: Path) -> None:
    columns = {"id": ["a", "a", "b"], "n": [1, 2, 3]}
    source = parquet_inputs.write(tmp_path / "rows.parquet", columns)
    dataset = packed(tmp_path, source, key="id", key_conflict="suffix")
    with pytest.raises(UsageError, match="'a' comes twice in the source, and the pack renamed such samples"):
        verify(dataset, against=source)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"label_mode": "none"}, "column 'label' is label, int64 in the dataset and missing in the source"),
        ({"limit": 1}, "packed with limit=nothing, and the source is read with 1"),
        ({"lable_mode": "none"}, "'lable_mode' is no option of a pack that decides its samples. Did you mean"),
        ({"max_rejects": 3}, "'max_rejects' is no option of a pack"),
        ({"limit": "many"}, "limit: "),
    ],
)
def test_options_that_are_not_those_of_the_pack(tmp_path: Path, options: dict[str, Any], said: str) -> None:
    dataset = packed(tmp_path, folder(tmp_path))
    with pytest.raises(UsageError, match=said):
        verify(dataset, against=tmp_path / "photos", options=options)


def test_what_is_no_source_of_it(tmp_path: Path) -> None:
    dataset = packed(tmp_path, folder(tmp_path))
    with pytest.raises(UsageError, match="is a dataset, and no source"):
        verify(dataset, against=dataset)
    with pytest.raises(NotFoundError, match="nowhere"):
        verify(dataset, against=tmp_path / "nowhere")
    with pytest.raises(UsageError, match=r"column 'image' is image, keep, .* and missing in the source"):
        verify(dataset, against=rows(tmp_path), options={"source_kind": "parquet"})
    with pytest.raises(UsageError, match="against: expected a path"):
        verify(dataset, against=5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="give it with --against"):
        verify(dataset, options={"limit": 3})


def test_tokens_need_their_tokenizer(tmp_path: Path) -> None:
    source = lines(tmp_path)
    dataset = packed(tmp_path, source, tokenizer="bytes")
    with pytest.raises(UsageError, match="--set tokenizer=FILE"):
        verify(dataset, against=source)
    with pytest.raises(UsageError, match="column 'tokens' is tokens"):
        verify(dataset, against=source, options={"tokenizer": "bytes", "eos": True})


def test_a_damaged_dataset_is_told_first(tmp_path: Path) -> None:
    source = folder(tmp_path)
    dataset = packed(tmp_path, source)
    [shard] = (dataset / "shards").iterdir()
    data = shard.read_bytes()
    shard.write_bytes(data[:-1])
    result = verify(dataset, against=source)
    assert result.against is None
    assert "the source: what was found comes first" in result.not_checked
    [finding] = result.findings
    assert finding.kind == "integrity"
    shard.write_bytes(data.replace(b"dog/", b"cow/", 1))  # a key, which quick doesn't read
    with pytest.raises(CorruptShardError):
        verify(dataset, against=source)


def test_so_many_that_not_all_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = make_folder(tmp_path / "photos", {"cat": 40})
    dataset = packed(tmp_path, source)
    monkeypatch.setattr(compare, "MOST_LISTED", 30)
    shutil.rmtree(source)
    Image.fromarray(np.zeros((4, 4, 3), np.uint8)).save(make_folder(source, {"cat": 0}) / "cat/x.png")
    result = verify(dataset, against=source)
    assert result.against is not None
    assert counts(result) == {"missing": 40, "new": 1}
    assert len(result.against.differences) == 30
    assert "20 more samples, 40 in all: isn't in the source" in {one.message for one in result.findings}


def test_progress(tmp_path: Path) -> None:
    source = folder(tmp_path)
    dataset = packed(tmp_path, source)
    seen: list[tuple[int, int]] = []
    verify(dataset, against=source, progress=lambda done, total: seen.append((done, total)))
    assert seen == sorted(seen)
    assert seen[-1][0] == seen[-1][1]
