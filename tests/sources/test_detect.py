from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tfrecords
from pictures import encode, make_folder, picture
from sources.tars import samples, tar_bytes

from toolkit.errors import NotFoundError, SourceError
from toolkit.sources.detect import find_kind


def put(path: Path, kind: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "parquet":
        pq.write_table(pa.table({"x": [1]}), path)
    elif kind == "webdataset":
        path.write_bytes(tar_bytes(samples(2)))
    elif kind == "tfrecord":
        tfrecords.write(path, [tfrecords.example(x=[1])])
    else:
        path.write_bytes(encode(picture(1)))


@pytest.mark.parametrize("kind", ["parquet", "webdataset", "tfrecord"])
def test_files_are_known_by_content_whatever_their_name(kind: str, tmp_path: Path) -> None:
    put(tmp_path / "a/deep/er/file.bin", kind)
    (tmp_path / "a/README.md").write_text("about this")
    assert find_kind([str(tmp_path / "a/deep/er/file.bin")]) == kind
    assert find_kind([str(tmp_path / "a")]) == kind


def test_image_folders(tmp_path: Path) -> None:
    make_folder(tmp_path / "photos", {"train/a": 1})
    (tmp_path / "photos/notes.txt").write_text("x")
    assert find_kind([str(tmp_path / "photos")]) == "imagefolder"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.parquet", "parquet"),
        ("a.tar.gz", "webdataset"),
        ("a-00000-of-00001", "tfrecord"),
        ("a.tfrecord", "tfrecord"),
    ],
)
def test_damaged_files_are_known_by_their_names(tmp_path: Path, name: str, kind: str) -> None:
    (tmp_path / name).write_bytes(b"\0" * 100)
    assert find_kind([str(tmp_path)]) == kind
    assert find_kind([str(tmp_path / name)]) == kind


def test_where_nothing_is(tmp_path: Path) -> None:
    with pytest.raises(
        SourceError,
        match=r"nothing to pack in .*: no files\. Looked for .*images by name .* and by content, .*Parquet by content",
    ):
        find_kind([str(tmp_path)])
    (tmp_path / "notes").write_text("x")
    (tmp_path / "more.pdf").write_text("x")
    with pytest.raises(SourceError, match=r"2 files\. Looked for .*images"):
        find_kind([str(tmp_path)])


def test_an_image_behind_many_other_files(tmp_path: Path) -> None:
    """Further down than the first files, an image is found by content as well as by name."""
    for number in range(250):
        (tmp_path / f"{number:03d}.log").write_bytes(b"\0")
    put_image = tmp_path / "z/picture.img"
    put_image.parent.mkdir()
    put_image.write_bytes(encode(picture(1)))
    assert find_kind([str(tmp_path)]) == "imagefolder"


def test_text_is_what_nothing_else_is(tmp_path: Path) -> None:
    for number in range(250):
        (tmp_path / f"{number:04d}.txt").write_text("x")
    assert find_kind([str(tmp_path)]) == "text"
    damaged = tmp_path / "0000.parquet"
    damaged.write_bytes(b"\0" * 100)
    assert find_kind([str(tmp_path)]) == "parquet"
    damaged.unlink()
    put(tmp_path / "zz/far/down.jpg", "image")  # further down than is looked at
    assert find_kind([str(tmp_path)]) == "imagefolder"


def test_brace_lists(tmp_path: Path) -> None:
    for number in range(3):
        put(tmp_path / f"x-{number:02d}.tar", "webdataset")
    assert find_kind([str(tmp_path / "x-{00..02}.tar")]) == "webdataset"
    with pytest.raises(NotFoundError, match=r"x-03\.tar"):
        find_kind([str(tmp_path / "x-{00..03}.tar")])


def test_what_is_not_guessed_at(tmp_path: Path) -> None:
    put(tmp_path / "mixed/a.parquet", "parquet")
    put(tmp_path / "mixed/b.tar", "webdataset")
    with pytest.raises(SourceError, match=r"parquet and webdataset.*--source-kind"):
        find_kind([str(tmp_path / "mixed")])
    (tmp_path / "text").write_text("hello")
    with pytest.raises(SourceError, match="no kind that is known"):
        find_kind([str(tmp_path / "text")])


def test_a_pack_of_images_imports_no_other_kind(tmp_path: Path) -> None:
    make_folder(tmp_path / "src", {"train/ant": 3})
    code = textwrap.dedent(
        """
        import sys
        from toolkit.pack.job import PackJob
        from toolkit.pack.run import pack
        pack(PackJob(source=sys.argv[1], dataset=sys.argv[2]))
        unused = ["pyarrow.compute", "pyarrow.parquet", "tokenizers", "google.protobuf", "polars"]
        others = ("parquet", "roxxel", "text", "tfrecord", "webdataset")
        unused += [f"toolkit.sources.kinds.{name}.source" for name in others]
        assert not sys.modules.keys() & set(unused), sys.modules.keys() & set(unused)
        """
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "src"), str(tmp_path / "ds")], check=True, timeout=60)
