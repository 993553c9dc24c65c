"""Where the images of a folder lie: their files, whatever these are called, and what was listed of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from contracts.source import Placed, check_place, placed_rows
from pictures import encode, make_folder, picture

from toolkit.errors import SourceError
from toolkit.sources.kinds.imagefolder import source as module
from toolkit.sources.kinds.imagefolder.source import ImageFolderSource
from toolkit.sources.options import PlacesWanted, SourceOptions
from toolkit.sources.reject import Reject

JPEG = encode(picture(1))


def source(folder: Path | str, wanted: PlacesWanted, **options: Any) -> ImageFolderSource:
    return ImageFolderSource(SourceOptions(paths=(str(folder),), slice_bytes=1 << 30, places=wanted, **options))


def rows(folder: Path, wanted: PlacesWanted, **options: Any) -> list[Placed]:
    made = source(folder, wanted, **options)
    return placed_rows(made, made.survey())


def read(folder: Path, wanted: PlacesWanted, **options: Any) -> tuple[list[str], list[Reject]]:
    made = source(folder, wanted, **options)
    survey = made.survey()
    pieces = [one for part in survey.slices for one in made.read(survey, part)]
    rejects = [*survey.rejects, *(reject for one in pieces for reject in one.rejects)]
    assert all(len(one.places["image"].files) == one.batch.num_rows for one in pieces)
    return [key for one in pieces for key in one.batch.column(0).to_pylist()], rejects


@pytest.mark.parametrize("wanted", [PlacesWanted.BESIDE, PlacesWanted.ONLY])
def test_names_are_any_that_text_can_hold(tmp_path: Path, wanted: PlacesWanted) -> None:
    names = [
        "a b.jpg",
        "é.jpg",
        "e\u0301.jpg",
        "new\nline.jpg",
        "日本語.jpg",
        "\U0001f600.jpg",
        "x" * 200 + ".jpg",
        "%2F.jpg",
    ]
    for name in names:
        for folder in ("ein Ordner/c", "\u00fc"):
            (tmp_path / folder).mkdir(parents=True, exist_ok=True)
            (tmp_path / folder / name).write_bytes(JPEG)
    found = rows(tmp_path, wanted)
    assert len(found) == 2 * len(names)
    for one in found:
        assert one.places["image"] is not None
        assert one.places["image"][0] == str(tmp_path / one.row["__key__"])
        check_place({"bytes": JPEG, "path": os.path.basename(one.row["__key__"])}, one.places["image"])


def test_a_link_is_read_where_it_lies(tmp_path: Path) -> None:
    make_folder(tmp_path / "in", {"a": 2})
    (tmp_path / "in/a/link.jpg").symlink_to("0001.jpg")
    (tmp_path / "in/b").symlink_to("a")
    placed, listed = rows(tmp_path / "in", PlacesWanted.BESIDE), rows(tmp_path / "in", PlacesWanted.ONLY)
    assert [one.places for one in placed] == [one.places for one in listed]
    assert [one.row["__key__"] for one in listed] == [f"{x}/{y}.jpg" for x in "ab" for y in ("0000", "0001", "link")]
    for one in placed:
        check_place(one.media["image"], one.places["image"])


def test_what_only_a_read_tells_is_a_row_where_nothing_is_read(tmp_path: Path) -> None:
    make_folder(tmp_path, {"a": 2})
    (tmp_path / "a/empty.jpg").write_bytes(b"")
    (tmp_path / "a/text.jpg").write_bytes(b"no picture")
    (tmp_path / "a/nowhere.jpg").symlink_to("nothing")
    keys, rejects = read(tmp_path, PlacesWanted.BESIDE)
    assert keys == ["a/0000.jpg", "a/0001.jpg"]
    assert [one.key for one in rejects] == ["a/empty.jpg", "a/nowhere.jpg", "a/text.jpg"]
    keys, rejects = read(tmp_path, PlacesWanted.ONLY)
    assert keys == ["a/0000.jpg", "a/0001.jpg", "a/empty.jpg", "a/text.jpg"]
    assert [(one.key, one.reason) for one in rejects] == [("a/nowhere.jpg", "broken symbolic link")]
    made = source(tmp_path, PlacesWanted.ONLY)
    survey = made.survey()
    (piece,) = made.read(survey, survey.slices[0])
    assert piece.places["image"].lengths.tolist()[2:] == [0, 10]


@pytest.mark.parametrize("wanted", [PlacesWanted.BESIDE, PlacesWanted.ONLY])
def test_a_file_that_is_too_large_is_rejected_unread(tmp_path: Path, wanted: PlacesWanted) -> None:
    make_folder(tmp_path, {"a": 1})
    (tmp_path / "a/large.jpg").write_bytes(JPEG + bytes(5000))
    keys, (reject,) = read(tmp_path, wanted, max_value_bytes=5000)
    assert keys == ["a/0000.jpg"]
    assert reject.key == "a/large.jpg"
    assert "bytes are more than a value may have (5000)" in reject.reason


def test_a_file_that_changes_is_noticed_when_it_is_read(tmp_path: Path) -> None:
    make_folder(tmp_path, {"a": 3})
    beside, only = source(tmp_path, PlacesWanted.BESIDE), source(tmp_path, PlacesWanted.ONLY)
    surveys = beside.survey(), only.survey()
    before = [one.places["image"] for one in placed_rows(only, surveys[1])]
    os.utime(tmp_path / "a/0001.jpg", ns=(1, 1))
    (tmp_path / "a/0002.jpg").unlink()
    (piece,) = beside.read(surveys[0], surveys[0].slices[0])
    assert piece.places["image"].files.to_pylist() == [str(tmp_path / "a/0000.jpg")]
    assert [one.reason for one in piece.rejects] == ["changed during the pack", "vanished during the pack"]
    # What was listed stays what was listed: whoever reads it compares.
    assert [one.places["image"] for one in placed_rows(only, surveys[1])] == before


def test_a_folder_whose_path_is_no_text_cannot_be_referred_to(tmp_path: Path) -> None:
    folder = os.path.join(os.fsencode(tmp_path), b"\xff")
    os.mkdir(folder)
    with open(os.path.join(folder, b"a.jpg"), "wb") as file:
        file.write(JPEG)
    made = source(os.fsdecode(folder), PlacesWanted.ONLY)
    survey = made.survey()
    with pytest.raises(SourceError, match=r"\\xff' is not valid UTF-8, so nothing can refer to what lies there"):
        list(made.read(survey, survey.slices[0]))


def test_many_files_come_in_several_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_folder(tmp_path, {"a": 7})
    whole = rows(tmp_path, PlacesWanted.ONLY)
    monkeypatch.setattr(module, "MOST_FILES", 3)
    made = source(tmp_path, PlacesWanted.ONLY)
    survey = made.survey()
    assert [one.batch.num_rows for one in made.read(survey, survey.slices[0])] == [3, 3, 1]
    assert placed_rows(made, survey) == whole
