"""Where the files that rows name lie; and what of tables can't stay where it is."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from contracts.source import Placed, check_place, placed_rows
from pictures import encode, picture

from toolkit.errors import SourceError
from toolkit.format.kinds import Kind
from toolkit.sources.base import Rows, Source
from toolkit.sources.make import make_source
from toolkit.sources.options import Missing, PlacesWanted, SourceOptions
from toolkit.sources.reject import Reject

IN_PLACE = [PlacesWanted.BESIDE, PlacesWanted.ONLY]
JPEG = encode(picture(1))


def table(folder: Path, paths: Sequence[str | None], name: str = "x.jsonl") -> Path:
    """Write a table of paths and numbers, and a picture for each path that isn't there."""
    lines = []
    for number, path in enumerate(paths):
        lines.append(json.dumps({"n": number, "path": path}))
        if path is not None and not (folder / path).exists():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(JPEG + bytes([number]))
    (folder / name).write_text("\n".join(lines))
    return folder / name


def source(path: Path, wanted: PlacesWanted, of: str = "jsonl", **options: Any) -> Source:
    if of == "jsonl":
        options.setdefault("image_column", ("path",))
    return make_source(of, SourceOptions(paths=(str(path),), slice_bytes=1 << 30, places=wanted, **options))[1]


def rows(path: Path, wanted: PlacesWanted, of: str = "jsonl", **options: Any) -> list[Placed]:
    made = source(path, wanted, of, **options)
    return placed_rows(made, made.survey())


def check_all(path: Path, of: str = "jsonl", **options: Any) -> list[Placed]:
    """Beside the values and alone, places are the same, and those of the values."""
    beside, only = (rows(path, wanted, of, **options) for wanted in IN_PLACE)
    assert [one.places for one in beside] == [one.places for one in only]
    assert [one.row for one in beside] == [one.row for one in only]
    assert not any(value is not None for one in only for value in one.media.values())
    for one in beside:
        for column, value in one.media.items():
            check_place(value, one.places[column])
    return beside


def read(path: Path, wanted: PlacesWanted, **options: Any) -> tuple[list[Rows], list[int], list[Reject]]:
    made = source(path, wanted, **options)
    survey = made.survey()
    pieces = [one for part in survey.slices for one in made.read(survey, part)]
    numbers = [number for one in pieces for number in one.batch.column("n").to_pylist()]
    assert all(len(of.files) == one.batch.num_rows for one in pieces for of in one.places.values())
    return pieces, numbers, [*survey.rejects, *(reject for one in pieces for reject in one.rejects)]


def test_paths_are_any_that_a_table_can_hold(tmp_path: Path) -> None:
    names = ["a b/c.jpg", "é.jpg", "new\nline.jpg", "日本語/x.jpg", "./p/../p/./q.jpg", "é.jpg"]
    found = check_all(table(tmp_path, names))
    assert [one.places["image"][0] for one in found if one.places["image"]] == [
        str(tmp_path / os.path.normpath(name)) for name in names
    ]


def test_paths_may_be_below_another_folder(tmp_path: Path) -> None:
    table(tmp_path / "photos", ["a/b.jpg", "c.jpg"])
    os.rename(tmp_path / "photos/x.jsonl", tmp_path / "x.jsonl")
    found = check_all(tmp_path / "x.jsonl", root=str(tmp_path / "photos"))
    assert found[0].places["image"] is not None
    assert found[0].places["image"][0] == str(tmp_path / "photos/a/b.jpg")


def test_rows_without_a_file_have_no_place(tmp_path: Path) -> None:
    path = table(tmp_path, ["a.jpg", None, "b.jpg", "c.jpg"])
    (tmp_path / "b.jpg").unlink()
    found = check_all(path, missing=Missing.NULL)
    assert [one.places["image"] is None for one in found] == [False, True, True, False]
    assert [one.row["n"] for one in check_all(path, missing=Missing.SKIP)] == [0, 3]
    for wanted in IN_PLACE:
        _, numbers, rejects = read(path, wanted)
        assert numbers == [0, 3]
        assert len(rejects) == 2


def test_what_only_a_read_tells_is_a_row_where_nothing_is_read(tmp_path: Path) -> None:
    path = table(tmp_path, ["a.jpg", "empty.jpg", "text.jpg", "large.jpg"])
    (tmp_path / "empty.jpg").write_bytes(b"")
    (tmp_path / "text.jpg").write_bytes(b"no picture")
    (tmp_path / "large.jpg").write_bytes(JPEG + bytes(5000))
    _, numbers, rejects = read(path, PlacesWanted.BESIDE, max_value_bytes=5000)
    assert (numbers, len(rejects)) == ([0], 3)
    (piece,), numbers, (reject,) = read(path, PlacesWanted.ONLY, max_value_bytes=5000)
    assert numbers == [0, 1, 2]
    assert piece.places["image"].lengths.tolist() == [len(JPEG) + 1, 0, 10]
    assert "bytes are more than a value may have (5000)" in reject.reason


def test_a_file_may_be_a_medium_and_bytes(tmp_path: Path) -> None:
    path = table(tmp_path, ["a.jpg", "b.jpg"])
    found = check_all(path, map={"image": "path", "raw": "path"}, kind={"raw": Kind.BYTES})
    assert [one.row["raw"] for one in found] == [JPEG + b"\0", JPEG + b"\1"]


def test_texts_beside_pictures_are_read(tmp_path: Path) -> None:
    for stem in ("a", "b/c"):
        for end, data in ((".jpg", b"no picture"), (".txt", f"caption of {stem}".encode())):
            (tmp_path / (stem + end)).parent.mkdir(exist_ok=True)
            (tmp_path / (stem + end)).write_bytes(data)
    pair = {"image": ("{}.jpg",), "caption": ("{}.txt",)}
    found = rows(tmp_path, PlacesWanted.ONLY, "pairs", pair=pair)
    assert [one.row["caption"] for one in found] == ["caption of a", "caption of b/c"]
    for one in found:
        check_place({"bytes": b"no picture", "path": os.path.basename(one.row["__key__"])}, one.places["image"])


def test_files_that_change_are_noticed_when_they_are_read(tmp_path: Path) -> None:
    path = table(tmp_path, ["a.jpg", "b.jpg"])
    beside, only = (source(path, wanted) for wanted in IN_PLACE)
    surveys = beside.survey(), only.survey()
    before = placed_rows(only, surveys[1])
    os.utime(tmp_path / "b.jpg", ns=(1, 1))
    (piece,) = beside.read(surveys[0], surveys[0].slices[0])
    assert piece.places["image"].files.to_pylist() == [str(tmp_path / "a.jpg")]
    assert [one.reason for one in piece.rejects] == ["column 'path': 'b.jpg' changed during the pack"]
    assert placed_rows(only, surveys[1]) == before


@pytest.mark.parametrize("wanted", IN_PLACE)
def test_media_inside_a_table_cannot_stay_there(tmp_path: Path, wanted: PlacesWanted) -> None:
    (tmp_path / "a.jpg").write_bytes(JPEG)
    pq.write_table(pa.table({"file_name": ["a.jpg"], "mask": [JPEG]}), tmp_path / "metadata.parquet")
    with pytest.raises(SourceError, match=r"column 'mask' lie in no files of their own.*: pack it, or leave"):
        source(tmp_path, wanted, "metadata").survey()
    (one,) = rows(tmp_path, wanted, "metadata", columns=("image",))
    check_place({"bytes": JPEG, "path": "a.jpg"}, next(iter(one.places.values())))


@pytest.mark.parametrize("wanted", IN_PLACE)
def test_what_is_fetched_lies_nowhere(tmp_path: Path, wanted: PlacesWanted) -> None:
    with pytest.raises(SourceError, match=r"--fetch-urls: what is fetched lies nowhere, .*: pack it"):
        source(table(tmp_path, ["a.jpg"]), wanted, fetch_urls=True).survey()


def test_a_folder_whose_path_is_no_text_cannot_be_referred_to(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.path.join(os.fsencode(tmp_path), b"\xff")))
    path = table(folder, ["a.jpg"])
    with pytest.raises(SourceError, match=r"\\xff' is not valid UTF-8, so nothing can refer to what lies there"):
        source(path, PlacesWanted.ONLY).survey()


def test_many_rows_come_in_several_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = table(tmp_path, [f"{i}.jpg" for i in range(9)])
    whole = check_all(path)
    monkeypatch.setattr("toolkit.sources.tables.source.PIECE_BYTES", 3 * len(JPEG))
    monkeypatch.setattr("toolkit.sources.tables.cut.PIECE_BYTES", 2 * len(JPEG))
    assert len(read(path, PlacesWanted.BESIDE)[0]) > 2
    assert check_all(path) == whole
