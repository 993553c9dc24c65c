from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sources.tars import FORMATS, JPEG, PNG, job, packed, rejects, samples, tar_bytes, write

import toolkit
from toolkit.errors import IntegrityError, NotFoundError, SourceError, ToolkitError, UsageError
from toolkit.format.kinds import Kind
from toolkit.pack.job import PackResult
from toolkit.pack.run import pack, plan
from toolkit.sources.kinds.webdataset import source as module
from toolkit.sources.kinds.webdataset.source import WebDatasetSource
from toolkit.sources.kinds.webdataset.tar import looks_like_tar
from toolkit.sources.options import Missing, SourceOptions


def webdataset_samples(items: Iterable[tuple[str, bytes]]) -> list[tuple[str, dict[str, bytes]]]:
    """What webdataset 1.0.2 makes of a tar: its expression for names, its rule for meta names, its grouping."""
    found: list[tuple[str, dict[str, bytes]]] = []
    for name, data in items:
        if "/" not in name and name.startswith("__") and name.endswith("__"):
            continue
        if re.match(r"__[^/]*__($|/)", name):
            continue
        match = re.match(r"^((?:.*/|)[^.]+)[.]([^/]*)$", name)
        if match is None:
            continue
        if not found or found[-1][0] != match[1]:
            found.append((match[1], {}))
        found[-1][1][match[2].lower()] = data
    return found


def tree(root: Path) -> dict[str, bytes]:
    files = [path for path in root.rglob("*") if path.is_file() and "reports" not in path.parts]
    return {str(path.relative_to(root)): path.read_bytes() for path in files if path.name != ".lock"}


# --- what is read ---


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("suffix", [".tar", ".tar.gz", ".tgz", ".tar.zst"])
def test_samples_come_back(tmp_path: Path, format: str, suffix: str) -> None:
    items = samples(9)
    write(tmp_path / f"x{suffix}", tar_bytes(items, format=format))
    got = packed(tmp_path / f"x{suffix}", tmp_path / "ds")
    assert [sample["__key__"] for sample in got] == [f"a/{i:04d}" for i in range(9)]
    members = dict(items)
    for i, sample in enumerate(got):
        key = f"a/{i:04d}"
        assert list(sample) == ["__key__", "image", "label", "json", "txt", "emb_npy", "x_y"]
        assert sample["image"] == members[f"{key}.jpg"]
        assert sample["label"] == i % 3
        assert sample["json"] == members[f"{key}.json"].decode()
        assert sample["txt"] == members[f"{key}.txt"].decode()
        assert sample["emb_npy"] == members[f"{key}.emb.npy"]
        assert sample["x_y"] == members[f"{key}.x-y"]
    opened = toolkit.open(tmp_path / "ds")
    assert {column.name: column.kind for column in opened.columns} == {
        "image": Kind.IMAGE,
        "label": Kind.SCALAR,
        "json": Kind.JSON,
        "txt": Kind.TEXT,
        "emb_npy": Kind.TENSOR,
        "x_y": Kind.BYTES,
    }
    assert opened.classes is None
    for i in range(len(opened)):
        opened.check_row(i)


def test_the_path_of_an_image_is_its_file_name(tmp_path: Path) -> None:
    import pyarrow as pa

    write(tmp_path / "x.tar", tar_bytes([("d/e/a.JPG", JPEG), ("d/e/b.c.jpg", JPEG)]))
    packed(tmp_path / "x.tar", tmp_path / "ds", missing=Missing.NULL)
    with pa.OSFile(toolkit.open(tmp_path / "ds").files[0]) as file:
        table = pa.ipc.open_file(file).read_all()
    derived = [f"__{of}.{what}__" for of in ("image", "c_jpg") for what in ("height", "width", "orientation", "format")]
    assert table.schema.names == ["__key__", "__digest__", *derived, "image", "c_jpg"]
    assert table["image"].to_pylist() == [{"bytes": JPEG, "path": "a.JPG"}, None]
    assert table["c_jpg"].to_pylist() == [None, {"bytes": JPEG, "path": "b.c.jpg"}]
    assert table["__key__"].to_pylist() == ["d/e/a", "d/e/b"]
    table.validate(full=True)


def test_tars_of_gnu_tar_from_a_folder(tmp_path: Path) -> None:
    root = tmp_path / "src"
    for name, data in samples(5):
        write(root / name, b"")
        (root / name).write_bytes(data)
    os.symlink("0001.jpg", root / "a/9999.jpg")
    os.link(root / "a/0002.jpg", root / "a/9998.jpg")
    command = ["tar", "cf", str(tmp_path / "x.tar"), "--sort=name", "-C", str(root), "."]
    subprocess.run(command, check=True)
    got = packed(tmp_path / "x.tar", tmp_path / "ds")
    assert [sample["__key__"] for sample in got] == [f"./a/{i:04d}" for i in range(5)]
    planned = plan(job(tmp_path / "x.tar", tmp_path / "ds2"))
    assert {reason: number for reason, number in planned.skipped.items() if number} == {"folders": 2, "links": 2}
    assert planned.skipped_names["links"] == ("x.tar:./a/9998.jpg", "x.tar:./a/9999.jpg")


def test_grouping_is_that_of_webdataset(tmp_path: Path) -> None:
    items = [
        ("__shard__", b"meta"),
        ("__index__/x.txt", b"meta"),
        ("a.txt", b"1"),
        ("no_extension", b"-"),
        ("a.CLS", b"1"),
        ("b.seg.txt", b"2"),
        ("b.txt", b"3"),
        ("b/c.d/e.txt", b"4"),
        ("b/c.d/e.f.g.txt", b"5"),
        ("__x__.txt", b"6"),
        ("x__.txt", b"7"),
        ("dots.", b"8"),
        ("a.txt", b"9"),  # the key comes again, but not behind itself
    ]
    write(tmp_path / "x.tar", tar_bytes(items))
    write(tmp_path / "y.tar", tar_bytes(items[:-1]))
    expected = webdataset_samples(items)
    assert len(expected) == 7
    with pytest.raises((SourceError, IntegrityError, ToolkitError), match="'a'"):
        packed(tmp_path / "x.tar", tmp_path / "twice", missing=Missing.NULL)
    got = packed(tmp_path / "y.tar", tmp_path / "ds", missing=Missing.NULL)
    columns = {"txt": "txt", "cls": "label", "seg.txt": "seg_txt", "f.g.txt": "f_g_txt", "": "_"}
    for (key, parts), sample in zip(expected[:-1], got, strict=True):
        assert sample.pop("__key__") == key
        there = {name: value for name, value in sample.items() if value is not None}
        plain = {name: value if isinstance(value, bytes) else str(value).encode() for name, value in there.items()}
        assert plain == {columns[extension]: data for extension, data in parts.items()}
    result = plan(job(tmp_path / "y.tar", tmp_path / "ds2"))
    assert result.skipped["meta"] == 2
    assert result.skipped["no_extension"] == 1


def test_hidden_files_are_passed_over(tmp_path: Path) -> None:
    items = [("._a.txt", b"mac"), ("a.txt", b"1"), ("d/._b.txt", b"mac"), ("d/.DS_Store", b""), ("d/b.txt", b"2")]
    write(tmp_path / "x.tar", tar_bytes(items))
    assert [sample["txt"] for sample in packed(tmp_path / "x.tar", tmp_path / "ds")] == ["1", "2"]
    assert plan(job(tmp_path / "x.tar", tmp_path / "no")).skipped["hidden"] == 3


names = st.text("aA.b_/é日\U0001f600 x-", min_size=1, max_size=12)
long_names = st.builds(lambda name, times: name * times, names, st.integers(9, 60))


@settings(deadline=None, max_examples=120)
@given(st.lists(st.tuples(names | long_names, st.binary(max_size=20)), min_size=1, max_size=12), st.data())
def test_any_names_group_as_in_webdataset(items: list[tuple[str, bytes]], data: st.DataObject) -> None:
    def plain(name: str) -> bool:
        base = name.rpartition("/")[2]
        # Where ours differs on purpose: hidden files, names that lead outside.
        return not (base.startswith(".") or name.startswith("/") or ".." in name.split("/") or name.endswith("/"))

    items = [item for item in items if plain(item[0])]
    expected = webdataset_samples(items)
    doubled = len({name for name, _ in items}) != len(items)  # webdataset raises
    lower = Counter((name.lower()) for name, _ in items)
    if doubled or max(lower.values(), default=0) > 1 or not expected:
        return
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder) / "x.tar", tar_bytes(items, format=data.draw(st.sampled_from(["gnu", "pax"]))))
        extensions = list(dict.fromkeys(extension for _, parts in expected for extension in parts))
        source = WebDatasetSource(
            SourceOptions(
                paths=(str(path),),
                slice_bytes=data.draw(st.sampled_from([1, 300, 1 << 20])),
                missing=Missing.NULL,
                map={f"c{i}": extension for i, extension in enumerate(extensions)},
            )
        )
        if lie_apart(expected):  # webdataset gives two samples of one key, each with some of the parts
            with pytest.raises(SourceError, match="lie apart"):
                source.survey()
            return
        survey = source.survey()
        rows = [rows for part in survey.slices for rows in source.read(survey, part)]
        assert not any(one.rejects for one in rows)
        got = [sample for one in rows for sample in one.batch.to_pylist()]
        assert [sample["__key__"] for sample in got] == [key for key, _ in expected]
        for sample, (_, parts) in zip(got, expected, strict=True):
            for i, extension in enumerate(extensions):
                assert sample[f"c{i}"] == parts.get(extension)


def lie_apart(samples: list[tuple[str, dict[str, bytes]]]) -> bool:
    """Whether a key comes again with none of the extensions that it came with first."""
    first: dict[str, set[str]] = {}
    return any(first.setdefault(key, set(parts)).isdisjoint(parts) for key, parts in samples)


# --- columns ---


def test_one_image_column_when_samples_use_one_or_the_other(tmp_path: Path) -> None:
    write(tmp_path / "x.tar", tar_bytes([("a.jpg", JPEG), ("b.png", PNG), ("c.jpeg", JPEG)]))
    got = packed(tmp_path / "x.tar", tmp_path / "ds")
    assert [sample["image"] for sample in got] == [JPEG, PNG, JPEG]
    got = packed(tmp_path / "x.tar", tmp_path / "map", map={"pic": "png;jpg"}, missing=Missing.NULL)
    assert [sample["pic"] for sample in got] == [JPEG, PNG, None]
    got = packed(tmp_path / "x.tar", tmp_path / "some", columns=("jpg",), missing=Missing.SKIP)
    assert [(sample["__key__"], sample["image"]) for sample in got] == [("a", JPEG)]


def test_columns_by_extension_when_a_sample_has_two_images(tmp_path: Path) -> None:
    write(tmp_path / "x.tar", tar_bytes([("a.jpg", JPEG), ("a.png", PNG), ("b.png", PNG), ("b.jpg", JPEG)]))
    for sample in packed(tmp_path / "x.tar", tmp_path / "ds"):
        assert (sample["jpg"], sample["png"]) == (JPEG, PNG)
    got = packed(tmp_path / "x.tar", tmp_path / "map", map={"image": "png"})
    assert [list(sample) for sample in got] == [["__key__", "image"]] * 2
    assert got[0]["image"] == PNG


def test_an_image_beside_one_of_another_name(tmp_path: Path) -> None:
    write(tmp_path / "x.tar", tar_bytes([("a.jpg", JPEG), ("a.seg.png", PNG)]))
    (sample,) = packed(tmp_path / "x.tar", tmp_path / "ds")
    assert (sample["image"], sample["seg_png"]) == (JPEG, PNG)


def test_map_columns_rename_and_kind(tmp_path: Path) -> None:
    source = write(tmp_path / "x.tar", tar_bytes(samples(3)))
    got = packed(source, tmp_path / "1", map={"caption": "txt", "image": "jpg"})
    assert list(got[0]) == ["__key__", "caption", "image"]
    got = packed(source, tmp_path / "2", columns=("cls", "jpg"), rename={"cls": "y"})
    assert list(got[0]) == ["__key__", "y", "image"]
    got = packed(source, tmp_path / "3", columns=("cls", "x-y"), kind={"label": Kind.BYTES, "x_y": Kind.VALUE})
    assert got[1] == {"__key__": "a/0001", "label": b"1\n", "x_y": b"\x01"}
    assert packed(source, tmp_path / "4", map={"json": "json"}, kind={"json": Kind.TEXT})[2]["json"] == '{"number": 2}'
    for options, message in (
        ({"map": {"image": "png"}}, "names 'png', which the input hasn't; it has jpg, cls"),
        ({"columns": ("txt", "jsn")}, "Did you mean 'json'"),
        ({"rename": {"txt": "label"}}, "two fields would become the column 'label'"),
        ({"key": "json"}, "--key means nothing for a source of kind webdataset"),
        ({"tfrecord_raw": True}, "raw means nothing"),
        ({"kind": {"label": Kind.LABEL}}, "give the names of its ids with --classes"),
        ({"classes": ("a",), "columns": ("jpg",)}, "--classes names the ids of a label, and no column is one"),
    ):
        with pytest.raises(UsageError, match=message):
            pack(job(source, tmp_path / "no", **options))


def test_classes_make_cls_a_label(tmp_path: Path) -> None:
    write(tmp_path / "x.tar", tar_bytes([("a.cls", b"1"), ("b.cls", b" dog\n"), ("c.cls", b"0"), ("d.txt", b"-")]))
    options = {"classes": ("cat", "dog"), "columns": ("cls",), "missing": Missing.NULL}
    got = packed(tmp_path / "x.tar", tmp_path / "ds", **options)
    assert [sample["label"] for sample in got] == [1, 1, 0, None]
    opened = toolkit.open(tmp_path / "ds")
    assert opened.classes == ("cat", "dog")
    counts = opened.manifest.splits["train"].labels["label"]
    assert (counts.counts, counts.missing) == ((1, 2), 1)
    write(tmp_path / "x.tar", tar_bytes([("a.cls", b"2"), ("b.cls", b"cow"), ("c.cls", b"-1"), ("d.cls", b"0")]))
    assert rejects(tmp_path / "x.tar", tmp_path / "ds2", classes=("cat", "dog")) == {
        "a": "cls: 2 is not among the ids 0 to 1 of --classes",
        "b": "cls: 'cow' is neither an id nor a name of --classes",
        "c": "cls: -1 is not among the ids 0 to 1 of --classes",
    }


def test_missing_parts(tmp_path: Path) -> None:
    items = [("a.txt", b"1"), ("a.cls", b"1"), ("b.txt", b"2"), ("c.cls", b"3"), ("d.cls", b"4"), ("d.txt", b"5")]
    source = write(tmp_path / "x.tar", tar_bytes(items))
    assert rejects(source, tmp_path / "1") == {
        "b": "lacks the part cls; has txt",
        "c": "lacks the part txt; has cls",
    }
    got = packed(source, tmp_path / "2", missing=Missing.NULL)
    assert [(sample["txt"], sample["label"]) for sample in got] == [("1", 1), ("2", None), (None, 3), ("5", 4)]
    result = pack(job(source, tmp_path / "3", missing=Missing.SKIP))
    assert (result.samples, result.skipped["missing"], result.rejects) == (2, 2, [])
    assert plan(job(source, tmp_path / "4", missing=Missing.SKIP)).splits["train"].samples == 2


# --- files, splits, slices ---


def test_folders_brace_lists_and_splits(tmp_path: Path) -> None:
    for i in range(3):
        write(tmp_path / f"src/train-{i:03d}.tar", tar_bytes(samples(4, start=4 * i)))
    write(tmp_path / "src/val-000.tar.gz", tar_bytes(samples(3, start=100)))
    result = pack(job(tmp_path / "src", tmp_path / "ds"))
    assert result.splits == {"train": 12, "val": 3}
    assert [toolkit.open(tmp_path / "ds", split="train")[i]["label"] for i in range(12)] == [i % 3 for i in range(12)]
    got = packed(str(tmp_path / "src/train-{000..001}.tar"), tmp_path / "braces")
    assert [sample["__key__"] for sample in got] == [f"a/{i:04d}" for i in range(8)]
    with pytest.raises(NotFoundError, match="train-003"):
        packed(str(tmp_path / "src/train-{000..003}.tar"), tmp_path / "no")
    result = pack(job(tmp_path / "src", tmp_path / "one", split="val"))
    assert result.splits == {"val": 3}
    result = pack(job(tmp_path / "src", tmp_path / "without", exclude=("*001*", "val*")))
    assert result.samples == 8
    with pytest.raises(SourceError, match="no input file"):
        pack(job(tmp_path / "src", tmp_path / "no", include=("nothing",)))


@pytest.mark.parametrize("suffix", [".tar", ".tar.gz", ".tar.zst"])
def test_jobs_never_change_a_byte(tmp_path: Path, suffix: str) -> None:
    for i in range(3):
        write(tmp_path / f"src/{i}{suffix}", tar_bytes(samples(60, start=60 * i), format="pax"))
    results: list[PackResult] = [
        pack(job(tmp_path / "src", tmp_path / f"ds{jobs}", jobs=jobs, shard_size=64 * 1024)) for jobs in (1, 2, 5)
    ]
    assert len({result.pin for result in results}) == 1
    assert tree(tmp_path / "ds1") == tree(tmp_path / "ds2") == tree(tmp_path / "ds5")
    tasks = plan(job(tmp_path / "src", tmp_path / "no", shard_size=64 * 1024)).splits["train"].tasks
    assert tasks == 3 if suffix != ".tar" else tasks > 9
    assert results[0].shards > 9


def test_slices_begin_and_end_between_samples(tmp_path: Path) -> None:
    long = "n" * 150
    items = [(f"{long}{i}.{extension}", bytes(300 * i)) for i in range(20) for extension in ("bin", "dat")]
    source = write(tmp_path / "x.tar", tar_bytes(items, format="gnu"))
    for slice_bytes in (1, 5000, 20_000, 1 << 30):
        reader = WebDatasetSource(SourceOptions(paths=(str(source),), slice_bytes=slice_bytes))
        survey = reader.survey()
        rows = [row for part in survey.slices for one in reader.read(survey, part) for row in one.batch.to_pylist()]
        assert [(row["__key__"], len(row["bin"])) for row in rows] == [(f"{long}{i}", 300 * i) for i in range(20)]
        assert sum(part.samples or 0 for part in survey.slices) == 20
        assert [part.number for part in survey.slices] == list(range(len(survey.slices)))
        if slice_bytes == 1:
            assert len(survey.slices) == 20
        read = [sum(one.read_bytes for one in reader.read(survey, part)) for part in survey.slices]
        assert all(nbytes >= part.bytes for nbytes, part in zip(read, survey.slices, strict=True))
        assert 0 < sum(read) <= source.stat().st_size


def test_pieces_are_a_few_mebibytes(tmp_path: Path) -> None:
    items = [(f"{i:03d}.bin", os.urandom(700_000)) for i in range(24)] + [("big.bin", bytes(9_000_000))]
    source = write(tmp_path / "x.tar", tar_bytes(items))
    reader = WebDatasetSource(SourceOptions(paths=(str(source),), slice_bytes=1 << 30))
    survey = reader.survey()
    pieces = list(reader.read(survey, survey.slices[0]))
    assert [piece.batch.num_rows for piece in pieces] == [5, 5, 5, 5, 4, 1]
    rows = [row for piece in pieces for row in piece.batch.to_pylist()]
    assert [(row["__key__"] + ".bin", row["bin"]) for row in rows] == items


@pytest.mark.parametrize("suffix", [".tar", ".tar.gz"])
def test_the_limit_takes_the_first(tmp_path: Path, suffix: str) -> None:
    for i in range(3):
        write(tmp_path / f"src/{i}{suffix}", tar_bytes(samples(5, start=5 * i)))
    for limit in (1, 5, 7, 10, 15, 99):
        got = packed(tmp_path / "src", tmp_path / f"ds{limit}", limit=limit)
        assert [sample["__key__"] for sample in got] == [f"a/{i:04d}" for i in range(min(limit, 15))]


def test_a_key_in_two_tars_is_told(tmp_path: Path) -> None:
    for i in range(2):
        write(tmp_path / f"src/{i}.tar", tar_bytes([(f"{i}.txt", b""), ("same.txt", b"")]))
    with pytest.raises(ToolkitError, match="same"):
        pack(job(tmp_path / "src", tmp_path / "ds"))


def test_looks_like_tar(tmp_path: Path) -> None:
    data = tar_bytes(samples(1))
    for name in ("x.tar", "x.tgz", "x.tar.zst", "shard.bin"):
        assert looks_like_tar(str(write(tmp_path / "yes" / name, data)))
    (tmp_path / "no").mkdir()
    (tmp_path / "no/x.tar").write_bytes(b"PK\x03\x04")
    (tmp_path / "no/x.gz").write_bytes(b"\x1f\x8b")
    assert not looks_like_tar(str(tmp_path / "no/x.tar"))
    assert not looks_like_tar(str(tmp_path / "no/x.gz"))


def test_only_the_parts_that_are_asked_for_are_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write(tmp_path / "x.tar", tar_bytes(samples(6)))
    read: list[str] = []
    real = module.Tar.read

    def spy(self: module.Tar, member: module.Member) -> memoryview:
        read.append(member.name)
        return real(self, member)

    monkeypatch.setattr(module.Tar, "read", spy)
    packed(source, tmp_path / "ds", columns=("json",))
    assert read == [f"a/{i:04d}.json" for i in range(6)]


def test_the_manifest_says_what_shaped_the_samples(tmp_path: Path) -> None:
    source = write(tmp_path / "x.tar", tar_bytes(samples(3)))
    packed(source, tmp_path / "ds", map={"y": "cls"}, limit=2)
    options = toolkit.open(tmp_path / "ds").manifest.options
    assert options["source_kind"] == "webdataset"
    assert (options["mapping"], options["limit"], options["missing"]) == ({"y": "cls"}, 2, "error")
    assert str(tmp_path) not in json.dumps(options)
