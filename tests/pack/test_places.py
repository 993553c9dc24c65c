"""No file of a dataset says where on a machine it was packed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import parquet_inputs
import pytest
import tfrecords
from pictures import make_folder

from toolkit.errors import RejectsError
from toolkit.pack.job import PackJob, PackResult
from toolkit.pack.places import Places
from toolkit.pack.run import pack


def check(dataset: Path, secret: Path) -> None:
    files = [path for path in dataset.rglob("*") if path.is_file()]
    assert files
    for path in files:
        data = path.read_bytes()
        for form in {str(secret), str(secret.resolve()), str(secret.parent)}:
            assert form.encode() not in data, (path, data)


def reports(dataset: Path, result: PackResult) -> tuple[list[dict[str, str]], dict[str, object]]:
    rejects = (dataset / f"reports/{result.pin}.rejects.jsonl").read_text().splitlines()
    return [json.loads(one) for one in rejects], json.loads(
        (dataset / f"reports/{result.pin}.provenance.json").read_text()
    )


@pytest.fixture
def private(tmp_path: Path) -> Path:
    return tmp_path / "home me" / "secret project"


def images(private: Path) -> Path:
    source = make_folder(private / "photos", {"a": 2, "b": 2})
    (source / "a/bad.jpg").write_bytes(b"no image")
    (source / "a/notes.txt").write_bytes(b"passed over")
    return source


@pytest.mark.parametrize("how", ["absolute", "relative", "link", "dot", "slash"])
def test_an_image_folder(private: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    source = images(private)
    given = {"absolute": str(source), "relative": "home me/secret project/photos", "dot": ".", "slash": f"{source}//"}
    (tmp_path / "photos").symlink_to(source)
    monkeypatch.chdir(source if how == "dot" else tmp_path)
    job = PackJob(source=given.get(how, str(tmp_path / "photos")), dataset=str(tmp_path / "ds"), max_rejects=1)
    rejects, facts = reports(tmp_path / "ds", pack(job))
    assert rejects == [{"source": "photos/a/bad.jpg", "key": "a/bad.jpg", "reason": rejects[0]["reason"]}]
    assert facts["source"] == "photos"
    check(tmp_path / "ds", private)


def test_what_is_rejected_before_a_commit(private: Path, tmp_path: Path) -> None:
    with pytest.raises(RejectsError):
        pack(PackJob(source=str(images(private)), dataset=str(tmp_path / "ds")))
    check(tmp_path / "ds/reports", private)


def test_files_of_other_kinds(private: Path, tmp_path: Path) -> None:
    rows = parquet_inputs.write(private / "x/rows.parquet", {"k": ["one", None], "n": [1, 2]})
    records = tfrecords.write(private / "y/a.tfrecord", [tfrecords.example(n=[1]), b"\xff\xff"])
    texts = private / "z/texts.jsonl"
    texts.parent.mkdir()
    texts.write_text('{"text": "good"}\nnot json\n')
    for number, (given, kind, name) in enumerate(
        [
            (rows, None, "rows.parquet, row 1"),
            (records, None, "a.tfrecord#1"),
            (texts, "text", "texts.jsonl#2"),
            (private / "z/*.jsonl", "text", "z/texts.jsonl#2"),
            (private / "{z}/texts.jsonl", "text", "secret project/z/texts.jsonl#2"),
        ]
    ):
        dataset = tmp_path / f"ds{number}"
        key = "k" if given is rows else None
        job = PackJob(source=str(given), dataset=str(dataset), source_kind=kind, key=key, max_rejects=1)
        rejects, facts = reports(dataset, pack(job))
        assert [one["source"] for one in rejects] == [name]
        assert not os.path.isabs(str(facts["source"]))
        check(dataset, private)


def test_several_sources(private: Path, tmp_path: Path) -> None:
    for name in "ab":
        parquet_inputs.write(private / f"{name}/rows{name}.parquet", {"n": [1, 2]})
    job = PackJob(
        source=str(private / "a"), more_sources=(str(private / "b/rowsb.parquet"),), dataset=str(tmp_path / "ds")
    )
    facts = reports(tmp_path / "ds", pack(job))[1]
    assert (facts["source"], facts["more_sources"]) == ("a", ["rowsb.parquet"])
    check(tmp_path / "ds", private)


def test_only_whole_paths_are_shortened() -> None:
    places = Places(["/home/me", "/home/me/data/train"])
    assert places.place("/home/me/x.jpg") == "me/x.jpg"
    assert places.place("/home/me/data/train/x.tar, member 3") == "train/x.tar, member 3"
    assert places.shorten("can't open '/home/me/x': gone; /home/me2/x and /mnt/home/me/x stay") == (
        "can't open 'me/x': gone; /home/me2/x and /mnt/home/me/x stay"
    )
    assert places.place("/mnt/link/target/y.jpg") == "y.jpg"
    assert places.place("https://host/home/me/x") == "https://host/home/me/x"
    assert Places(["/"]).place("/a/b.jpg") == "b.jpg"
    assert Places([]).place("a/b.jpg") == "a/b.jpg"
