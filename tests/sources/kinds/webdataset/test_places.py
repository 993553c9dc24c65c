"""Where the values of a tar lie: whatever its headers are like, inside the tar, and what a pack takes."""

from __future__ import annotations

import gzip
import os
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import pytest
from contracts.source import Placed, check_place, placed_rows
from hypothesis import given, settings
from hypothesis import strategies as st
from sources.tars import FORMATS, JPEG, PNG, tar_bytes, write

from toolkit.errors import SourceError, ToolkitError
from toolkit.format.kinds import Kind
from toolkit.sources.kinds.webdataset import source as module
from toolkit.sources.kinds.webdataset.source import WebDatasetSource
from toolkit.sources.options import Missing, PlacesWanted, SourceOptions, VerifyImages
from toolkit.sources.reject import Reject

IN_PLACE = [PlacesWanted.BESIDE, PlacesWanted.ONLY]


def source(path: Path | str, wanted: PlacesWanted, **options: Any) -> WebDatasetSource:
    return WebDatasetSource(SourceOptions(paths=(str(path),), slice_bytes=1 << 30, places=wanted, **options))


def rows(path: Path, wanted: PlacesWanted, **options: Any) -> list[Placed]:
    made = source(path, wanted, **options)
    return placed_rows(made, made.survey())


def read(path: Path, wanted: PlacesWanted, **options: Any) -> tuple[list[str], list[Reject]]:
    made = source(path, wanted, **options)
    survey = made.survey()
    pieces = [one for part in survey.slices for one in made.read(survey, part)]
    keys = [key for one in pieces for key in one.batch.column(0).to_pylist()]
    return keys, [*survey.rejects, *(reject for one in pieces for reject in one.rejects)]


@pytest.mark.parametrize("format", FORMATS)
def test_headers_of_every_form_are_passed(tmp_path: Path, format: str) -> None:
    names = [
        "a b",
        "é",
        "日本語/ü",
        "new\nline",
        "x" * 90,
        *([] if format == "ustar" else ["y" * 240, "z" * 150 + "/é"]),
    ]
    items = [(f"{name}.{end}", data) for name in names for end, data in (("jpg", JPEG), ("txt", b"text"))]
    path = write(tmp_path / "x y é.tar", tar_bytes(items, format=format))
    beside, only = (rows(path, wanted) for wanted in IN_PLACE)
    assert [one.row["__key__"] for one in only] == names
    assert [one.places for one in beside] == [one.places for one in only]
    assert [one.row for one in beside] == [one.row for one in only]
    for one in beside:
        check_place(one.media["image"], one.places["image"])
    with tarfile.open(path) as tar:
        assert [one.places["image"][1] for one in only if one.places["image"]] == [
            info.offset_data for info in tar if info.name.endswith(".jpg")
        ]


def test_no_media_are_read_where_only_places_are_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count, size = 20, 1 << 20
    with open(tmp_path / "x.tar", "wb") as file:
        for i in range(count):
            for name, nbytes in ((f"{i}.jpg", size), (f"{i}.txt", 5)):
                info = tarfile.TarInfo(name)
                info.size = nbytes
                file.write(info.tobuf(tarfile.USTAR_FORMAT))
                file.seek(-(-nbytes // 512) * 512, os.SEEK_CUR)  # a hole
        file.write(bytes(1024))
    taken = 0
    pread = os.pread

    def counted(fd: int, length: int, offset: int) -> bytes:
        nonlocal taken
        data = pread(fd, length, offset)
        taken += len(data)
        return data

    monkeypatch.setattr(os, "pread", counted)
    found = rows(tmp_path / "x.tar", PlacesWanted.ONLY)
    assert [one.places["image"][2] for one in found if one.places["image"]] == [size] * count
    assert 0 < taken <= 2 * module._SURVEY_READ_BYTES * 2 * count


@pytest.mark.parametrize("wanted", IN_PLACE)
@pytest.mark.parametrize("name", ["x.tar.gz", "x.tar.zst"])
def test_a_compressed_tar_is_refused_by_name(tmp_path: Path, name: str, wanted: PlacesWanted) -> None:
    write(tmp_path / "a.tar", tar_bytes([("1.jpg", JPEG)]))
    write(tmp_path / name, tar_bytes([("0.jpg", JPEG)]))
    with pytest.raises(SourceError, match=rf"{name}' is compressed \(\w+\), so what it holds can't .*: pack it"):
        source(tmp_path, wanted).survey()
    assert [one.row["__key__"] for one in rows(tmp_path, wanted, exclude=("*.tar.*",))] == ["1"]


@pytest.mark.parametrize("wanted", IN_PLACE)
def test_what_is_gunzipped_lies_nowhere(tmp_path: Path, wanted: PlacesWanted) -> None:
    items = [("a.jpg", JPEG), ("a.txt.gz", gzip.compress(b"text")), ("b.jpg.gz", gzip.compress(JPEG))]
    path = write(tmp_path / "x.tar", tar_bytes([*items, ("b.txt.gz", gzip.compress(b"more"))]))
    keys, (reject,) = read(path, wanted, map={"image": "jpg;jpg.gz", "text": "txt.gz"}, kind={"image": Kind.IMAGE})
    assert keys == ["a"]
    assert reject.key == "b"
    assert reject.reason == "jpg.gz: a gzip member can't stay where it is, since its value lies nowhere: pack it"


@pytest.mark.parametrize("wanted", IN_PLACE)
def test_links_and_sparse_files_are_no_members(tmp_path: Path, wanted: PlacesWanted) -> None:
    extra = []
    for name, kind in (("b.jpg", tarfile.LNKTYPE), ("c.jpg", tarfile.SYMTYPE), ("d.jpg", tarfile.GNUTYPE_SPARSE)):
        info = tarfile.TarInfo(name)
        info.type, info.linkname = kind, "a.jpg"
        extra.append(info)
    path = write(tmp_path / "x.tar", tar_bytes([("a.jpg", JPEG)], extra=extra))
    made = source(path, wanted)
    survey = made.survey()
    assert (survey.skipped["links"], survey.skipped["sparse"]) == (2, 1)
    assert [one.row["__key__"] for one in placed_rows(made, survey)] == ["a"]


@pytest.mark.parametrize("wanted", IN_PLACE)
def test_a_sample_without_the_part_has_a_null_and_no_place(tmp_path: Path, wanted: PlacesWanted) -> None:
    path = write(tmp_path / "x.tar", tar_bytes([("a.jpg", JPEG), ("a.txt", b"a"), ("b.txt", b"b")]))
    a, b = rows(path, wanted, missing=Missing.NULL)
    assert a.places["image"] is not None
    assert (b.media, b.places, b.row["txt"]) == ({"image": None}, {"image": None}, "b")
    assert [one.row["__key__"] for one in rows(path, wanted, missing=Missing.SKIP)] == ["a"]
    keys, (reject,) = read(path, wanted)
    assert (keys, reject.reason) == (["a"], "lacks the part jpg; has txt")


def test_one_member_may_be_a_medium_and_bytes(tmp_path: Path) -> None:
    path = write(tmp_path / "x.tar", tar_bytes([("a.jpg", JPEG), ("b.jpg", PNG)]))
    for wanted in IN_PLACE:
        a, b = rows(path, wanted, map={"image": "jpg", "raw": "jpg"}, kind={"raw": Kind.BYTES})
        assert (a.row["raw"], b.row["raw"]) == (JPEG, PNG)
        check_place({"bytes": PNG, "path": "b.jpg"}, b.places["image"])


def test_what_only_a_read_tells_is_a_row_where_nothing_is_read(tmp_path: Path) -> None:
    items = [("a.jpg", b""), ("b.jpg", b"no picture"), ("c.jpg", JPEG), ("d.jpg", bytes(6000)), ("e.jpg", JPEG)]
    path = write(tmp_path / "x.tar", tar_bytes([*items, ("e.JPG", JPEG)]))
    keys, rejects = read(path, PlacesWanted.BESIDE, max_value_bytes=5999)
    assert (keys, [one.key for one in rejects]) == (["c"], ["a", "b", "d", "e"])
    keys, rejects = read(path, PlacesWanted.ONLY, max_value_bytes=5999)
    assert (keys, [one.key for one in rejects]) == (["a", "b", "c"], ["d", "e"])
    assert [one.reason for one in rejects] == [
        "jpg: 6000 bytes are more than a value may have (5999); --max-value-bytes says how many",
        "two of its members have the extension jpg",
    ]


@pytest.mark.parametrize("wanted", IN_PLACE)
def test_a_tar_that_changes_is_noticed(tmp_path: Path, wanted: PlacesWanted) -> None:
    path = write(tmp_path / "x.tar", tar_bytes([("a.jpg", JPEG), ("b.jpg", PNG)]))
    made = source(path, wanted)
    survey = made.survey()
    os.utime(path, ns=(1, 1))
    with pytest.raises(SourceError, match="was changed during the pack"):
        placed_rows(made, survey)


def test_a_tar_whose_path_is_no_text_cannot_be_referred_to(tmp_path: Path) -> None:
    path = os.path.join(os.fsencode(tmp_path), b"\xff.tar")
    with open(path, "wb") as file:
        file.write(tar_bytes([("a.jpg", JPEG)]))
    with pytest.raises(SourceError, match=r"\\xff.tar' is not valid UTF-8, so nothing can refer to what lies there"):
        source(os.fsdecode(path), PlacesWanted.BESIDE).survey()


def test_a_link_to_a_tar_is_where_it_is_read(tmp_path: Path) -> None:
    write(tmp_path / "in/x.tar", tar_bytes([("a.jpg", JPEG)]))
    (tmp_path / "in/y.tar").symlink_to("x.tar")
    found = rows(tmp_path / "in", PlacesWanted.ONLY)
    assert [one.places["image"][0] for one in found if one.places["image"]] == [
        str(tmp_path / "in/x.tar"),
        str(tmp_path / "in/y.tar"),
    ]


@st.composite
def hostile(draw: st.DrawFn) -> bytes:
    """A tar with some bytes changed, its header sums mended or not, cut or not."""
    items = [
        ("a.jpg", JPEG[:700]),
        ("a.txt", b"text"),
        ("b.jpg", b""),
        ("c" * 60 + "/" + "d" * 60 + ".jpg", JPEG[:512]),
    ]
    data = bytearray(tar_bytes(items, format=draw(st.sampled_from(sorted(FORMATS)))))
    for _ in range(draw(st.integers(0, 4))):
        block = draw(st.integers(0, len(data) // 512 - 1)) * 512
        at = block + draw(st.one_of(st.integers(124, 157), st.integers(0, 511)))
        data[at] = draw(st.one_of(st.integers(0, 255), st.sampled_from(b"0127LKxg\x80\xff")))
        if draw(st.booleans()):
            data[block + 148 : block + 156] = b" " * 8
            data[block + 148 : block + 156] = b"%06o\0 " % sum(data[block : block + 512])
    return bytes(data[: draw(st.one_of(st.just(len(data)), st.integers(1, len(data))))])


@given(hostile(), st.sampled_from([Missing.NULL, Missing.SKIP]))
@settings(max_examples=150)
def test_places_lie_inside_whatever_the_tar_says(data: bytes, missing: Missing) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder) / "x.tar", data)
        for wanted in IN_PLACE:
            made = source(path, wanted, missing=missing, verify_images=VerifyImages.OFF)
            try:
                survey = made.survey()
                pieces = [one for part in survey.slices for one in made.read(survey, part)]
            except ToolkitError:
                continue
            for one in pieces:
                for column, places in one.places.items():
                    values = one.batch.column(column).to_pylist()
                    for i, file in enumerate(places.files.to_pylist()):
                        begin, end = int(places.offsets[i]), int(places.offsets[i] + places.lengths[i])
                        assert 0 <= begin <= end <= len(data)
                        if wanted is PlacesWanted.BESIDE and file is not None:
                            assert data[begin:end] == values[i]["bytes"]
