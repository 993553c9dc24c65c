"""Tables whose rows name files: which become samples, under which keys, and what is said of the others."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from contracts.source import Bad, SourceContract
from pictures import encode, make_folder, picture
from sources.tables.listings import NAME, ListingSpec, listings, write

import toolkit
from toolkit.errors import NotFoundError, SourceError, UsageError
from toolkit.format.schema import KEY, Kind
from toolkit.pack import run
from toolkit.pack.job import KeyConflict, PackJob
from toolkit.pack.run import pack
from toolkit.sources import registry
from toolkit.sources.base import Source, Survey
from toolkit.sources.make import make_source
from toolkit.sources.options import LabelMode, Missing, SourceOptions
from toolkit.sources.reject import Reject
from toolkit.sources.tables.table import TableFacts


@pytest.fixture(autouse=True)
def kind() -> Iterator[None]:
    with listings():
        yield


def source(path: Path, **options: Any) -> Source:
    return make_source(NAME, SourceOptions(**{"paths": (str(path),), "slice_bytes": 1 << 30, **options}))[1]


def rows_of(path: Path, **options: Any) -> tuple[list[dict[str, Any]], list[Reject], Survey]:
    one = source(path, **options)
    survey = one.survey()
    rows: list[dict[str, Any]] = []
    rejects = list(survey.rejects)
    for part in survey.slices:
        count = 0
        for some in one.read(survey, part):
            rows += some.batch.to_pylist()
            rejects += some.rejects
            count += some.batch.num_rows + len(some.rejects)
        assert count == part.samples
    return rows, rejects, survey


def photos(root: Path, *names: str) -> None:
    for i, name in enumerate(names):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(encode(picture(i)))


def test_paths_become_images(tmp_path: Path) -> None:
    photos(tmp_path / "photos", "a.jpg", "b/c.jpg")
    table = write(tmp_path / "x.rows", {"path": ["./a.jpg", "b//x/../c.jpg"], "label": ["cat", "dog"], "n": [1, None]})
    rows, rejects, survey = rows_of(table, image_column=("path",), root=str(tmp_path / "photos"))
    assert rejects == []
    assert rows == [
        {
            KEY: key,
            "image": {"bytes": (tmp_path / "photos" / key).read_bytes(), "path": key.rpartition("/")[2]},
            "label": label,
            "n": n,
        }
        for key, label, n in (("a.jpg", 0, 1), ("b/c.jpg", 1, None))
    ]
    assert survey.classes == {"label": ("cat", "dog")}
    assert survey.options == {
        "fields": {"image": "path", "label": "label", "n": "n"},
        "image_column": ["path"],
    }


def test_it_is_the_folder_that_was_named(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "in", {"cat": 3, "dog": 2})
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.jpg"))
    table = write(tmp_path / "x.rows", {"path": names, "label": [name.partition("/")[0] for name in names]})
    pack(PackJob(source=str(folder), dataset=str(tmp_path / "a")))
    pack(PackJob(source=str(table), dataset=str(tmp_path / "b"), image_column=("path",), root=str(folder)))
    one, other = (shard(tmp_path / name) for name in "ab")
    assert one.num_rows == 5
    assert one.to_pylist() == other.to_pylist()  # with digests
    for name in "ab":
        assert toolkit.open(str(tmp_path / name), split="train").classes == ("cat", "dog")


def test_lists_of_ids_have_names(tmp_path: Path) -> None:
    columns = {"labels": [[0, 1], [], None, [1, None], [2]], "n": [0, 1, 2, 3, 4]}
    table = write(tmp_path / "x.rows", columns)
    registry.forget(NAME)
    with listings(TableFacts(classes={"labels": ("cat", "dog")})):
        rows, rejects, survey = rows_of(table)
        assert survey.classes == {"labels": ("cat", "dog")}
        assert [row["labels"] for row in rows] == columns["labels"][:3]
        assert [one.reason for one in rejects] == [
            "column 'labels': its list holds a null, which is none of the ids",
            "column 'labels': 2 is none of the ids 0 to 1",
        ]
        rows, rejects, survey = rows_of(table, classes=("emu", "dog", "cat"))
        assert [row["labels"] for row in rows] == [[2, 1], [], None]
        rows, rejects, survey = rows_of(table, classes=("emu", "dog"))
        assert [row["n"] for row in rows] == [1, 2]
        assert rejects[0].reason == "column 'labels': label 'cat' is none of the 2 classes"
    registry.register(ListingSpec())


REFUSED = {
    "/etc/passwd": "the path '/etc/passwd' is absolute; paths are relative to the table's folder or --root",
    "a/../../b.jpg": "the path 'a/../../b.jpg' leaves its folder by '..'; --root says which folder it is",
    "a\0b": "the path holds the character NUL",
    ".": "the path '.' names a folder",
    "a": "'a' is no regular file",
    "a.jpg/b": "there is no file 'a.jpg/b'",
    "a\\a.jpg": "there is no file 'a\\\\a.jpg'; parts of a path are separated by '/'",
    "HTTPS://me:secret@Host.example:80/a.jpg?token=secret#secret": (
        "https://host.example is a URL; only files are read, and with --fetch-urls what http and https URLs name"
    ),
    "http://[secret/a.jpg": (
        "http:// is a URL; only files are read, and with --fetch-urls what http and https URLs name"
    ),
    "https:/me:secret@host/a.jpg": "it begins as a URL does, without the '//' behind the scheme",
    "//me:secret@host/a.jpg": "the path begins with '//'; paths are relative to the table's folder or --root",
    "data:image/png;base64,secret": "it is a data: URL; only files are read",
    "out.jpg": "'out.jpg' is a link that leads out of the folder; --follow-links allows it",
    "": "there is no path",
    None: "there is no path",
}


def test_a_path_that_is_no_file_is_rejected_by_line(tmp_path: Path) -> None:
    photos(tmp_path, "in/a.jpg", "in/a/b.jpg", "out.jpg")
    (tmp_path / "in/out.jpg").symlink_to("../out.jpg")
    table = write(tmp_path / "in/x.rows", {"path": ["a.jpg", *REFUSED]})
    rows, rejects, _ = rows_of(table, image_column=("path",))
    assert [row[KEY] for row in rows] == ["a.jpg"]
    assert [one.reason for one in rejects] == [f"column 'path': {reason}" for reason in REFUSED.values()]
    assert [one.source for one in rejects] == [f"{table}, line {number}" for number in range(3, 3 + len(REFUSED))]
    assert not any("secret" in text for one in rejects for text in (one.key, one.source))
    rows, _, _ = rows_of(table, image_column=("path",), follow_links=True)
    assert [row[KEY] for row in rows] == ["a.jpg", "out.jpg"]


def test_no_secret_of_a_url_is_written_down(tmp_path: Path) -> None:
    photos(tmp_path / "in", "a.jpg")
    columns = {"path": ["a.jpg", "https://me:secret@host/b.jpg?secret"], "n": [1, 2]}
    table = write(tmp_path / "in/x.rows", columns)
    for column in (None, ("n",)):
        ds = tmp_path / f"ds{column}"
        job = PackJob(
            source=str(table), dataset=str(ds), source_kind=NAME, image_column=("path",), max_rejects=1, columns=column
        )
        result = pack(job)
        assert (result.samples, len(result.rejects)) == (1, 1)
        assert not any(b"secret" in path.read_bytes() for path in ds.rglob("*") if path.is_file())


MISSING: dict[Missing, tuple[list[str], list[str], int]] = {
    Missing.ERROR: (["a.jpg"], ["b.jpg", "x.rows#2"], 0),
    Missing.NULL: (["a.jpg", "b.jpg", "x.rows#2"], [], 0),
    Missing.SKIP: (["a.jpg"], [], 2),
}


@pytest.mark.parametrize("missing", Missing)
def test_missing_files(tmp_path: Path, missing: Missing) -> None:
    photos(tmp_path, "a.jpg")
    table = write(tmp_path / "x.rows", {"path": ["a.jpg", "b.jpg", None], "n": [0, None, 2]})
    rows, rejects, survey = rows_of(table, image_column=("path",), missing=missing)
    keys, bad, over = MISSING[missing]
    assert [row[KEY] for row in rows] == keys
    assert [one.key for one in rejects] == bad
    assert all(row["image"] is None for row in rows[1:])
    assert survey.skipped.get("missing_files", 0) == over
    assert survey.skipped_names.get("missing_files", ()) == (
        ("b.jpg (x.rows, line 3)", "x.rows, line 4") if over else ()
    )
    assert survey.options.get("missing") == (None if missing is Missing.ERROR else missing.value)


def test_what_no_row_names_is_told(tmp_path: Path) -> None:
    photos(tmp_path / "photos", "a.jpg", "b/c.jpg", "b/d.jpg", "e.jpg", ".hidden/f.jpg")
    (tmp_path / "photos/notes.txt").touch()
    table = write(tmp_path / "x.rows", {"path": ["a.jpg", "e.jpg"]})
    given = {"image_column": ("path",), "root": str(tmp_path / "photos")}
    _, _, survey = rows_of(table, **given)
    assert survey.skipped["unlisted"] == 2
    assert survey.skipped_names["unlisted"] == ("b/c.jpg", "b/d.jpg")
    (warning,) = survey.warnings
    assert warning.startswith("2 files are named by no row and so left out, 'b/c.jpg' for one. ")
    assert rows_of(table, **given, exclude=("b",))[2].warnings == ()
    assert "unlisted" not in rows_of(table, **given, limit=1)[2].skipped


def test_a_file_may_be_named_twice(tmp_path: Path) -> None:
    photos(tmp_path, "in/a.jpg")
    write(tmp_path / "in/x.rows", {"path": ["a.jpg", "./a.jpg"], "n": [1, 2]})
    given = {"source": str(tmp_path / "in"), "source_kind": NAME, "image_column": ("path",)}
    with pytest.raises(SourceError, match=r"the key 'a\.jpg' occurs twice"):
        pack(PackJob(**given, dataset=str(tmp_path / "a")))
    pack(PackJob(**given, dataset=str(tmp_path / "b"), key_conflict=KeyConflict.SUFFIX))
    assert shard(tmp_path / "b").column("n").to_pylist() == [1, 2]


def test_columns_of_files_are_named_and_chosen_as_others(tmp_path: Path) -> None:
    photos(tmp_path, "a.jpg", "m.png")
    columns = {"path": ["a.jpg"], "mask": ["m.png"], "id": [7]}
    table = write(tmp_path / "x.rows", columns)

    def named(**options: Any) -> dict[str, str]:
        survey = source(table, **options).survey()
        return {column.name: column.kind.value for column in survey.columns}

    assert named(image_column=("path",)) == {"image": "image", "mask": "text", "id": "scalar"}
    assert named(image_column=("path", "mask")) == {"path": "image", "mask": "image", "id": "scalar"}
    assert named(image_column=("path",), rename={"path": "photo"}) == {"photo": "image", "mask": "text", "id": "scalar"}
    assert named(image_column=("path",), columns=("path",)) == {"image": "image"}
    assert named(image_column=("path",), map={"x": "path", "y": "id"}) == {"x": "image", "y": "scalar"}
    assert named(image_column=("path",), kind={"image": Kind.BYTES})["image"] == "bytes"
    both = ("path", "mask")
    rows, _, _ = rows_of(table, image_column=both, key="id")
    assert rows[0][KEY] == "7"
    rows, _, _ = rows_of(table, image_column=both, key="mask", columns=("id",))
    assert rows == [{KEY: "m.png", "id": 7}]


def test_options_about_files_need_some(tmp_path: Path) -> None:
    table = write(tmp_path / "x.rows", {"path": ["a.jpg"], "n": [1]})
    for options, error, says in (
        ({"image_column": ("paht",)}, UsageError, r"--image-column names 'paht'.*Did you mean 'path'\?"),
        ({"image_column": ("n",)}, UsageError, "--image-column n: its values are int64; paths are text"),
        ({"root": str(tmp_path)}, UsageError, "--root: no field holds paths"),
        ({"image_column": ("path",), "root": str(table)}, UsageError, "is a file; --root is the folder"),
        ({"image_column": ("path",), "root": str(tmp_path / "no")}, NotFoundError, "There is no folder"),
        ({"label_mode": LabelMode.IMAGEFOLDER}, UsageError, "--label-mode imagefolder means nothing"),
    ):
        with pytest.raises(error, match=says):
            rows_of(table, **options)


def test_the_dataset_must_not_lie_where_files_are_read(tmp_path: Path) -> None:
    photos(tmp_path / "photos", "a.jpg")
    table = write(tmp_path / "x.rows", {"path": ["a.jpg"]})
    job = PackJob(
        source=str(table),
        dataset=str(tmp_path / "photos/ds"),
        source_kind=NAME,
        image_column=("path",),
        root=str(tmp_path / "photos"),
    )
    with pytest.raises(UsageError, match="lies inside its --root folder"):
        pack(job)


def test_only_the_field_label_is_one_unasked(tmp_path: Path) -> None:
    table = write(tmp_path / "x.rows", {"label": ["b", "a", None], "class": ["x", "y", "z"]})
    rows, _, survey = rows_of(table)
    assert survey.classes == {"label": ("a", "b")}
    assert [row["label"] for row in rows] == [1, 0, None]
    assert rows_of(table, label_mode=LabelMode.NONE)[2].classes == {}
    assert rows_of(table, kind={"label": Kind.TEXT})[2].classes == {}
    assert rows_of(table, kind={"class": Kind.LABEL})[2].classes == {"label": ("a", "b"), "class": ("x", "y", "z")}
    assert len(rows_of(table, require_labels=True)[1]) == 1


def test_tables_that_differ_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "in/a.rows", {"n": [1]})
    write(tmp_path / "in/b.rows", {"n": ["x"]})
    with pytest.raises(SourceError, match=r"column 'n' is int64 in .*a\.rows' and is string in .*b\.rows'"):
        rows_of(tmp_path / "in")
    write(tmp_path / "in/b.rows", {"m": [1]})
    with pytest.raises(SourceError, match=r"column 'n' is int64 in .* and isn't in "):
        rows_of(tmp_path / "in")
    write(tmp_path / "in/b.rows", {"m": []})
    assert rows_of(tmp_path / "in")[2].skipped["empty"] == 1


def test_files_that_change_are_noticed(tmp_path: Path) -> None:
    photos(tmp_path, "a.jpg", "b.jpg", "c.jpg")
    table = write(tmp_path / "x.rows", {"path": ["a.jpg", "b.jpg", "c.jpg"]})
    one = source(table, image_column=("path",))
    survey = one.survey()
    (tmp_path / "a.jpg").unlink()
    os.utime(tmp_path / "b.jpg", ns=(1, 1))
    rows = [rows for part in survey.slices for rows in one.read(survey, part)]
    reasons = [reject.reason for some in rows for reject in some.rejects]
    assert reasons == [
        "column 'path': 'a.jpg' vanished during the pack",
        "column 'path': 'b.jpg' changed during the pack",
    ]
    assert sum(some.batch.num_rows for some in rows) == 1


def test_a_stopped_pack_goes_on_with_what_did_not_change(tmp_path: Path) -> None:
    names = [f"{i}.jpg" for i in range(60)]
    photos(tmp_path / "in", *names)
    for name in names:  # several slices of the least size
        (tmp_path / "in" / name).write_bytes(encode(picture(int(name[:-4]), 128, 128), quality=95))
    write(tmp_path / "in/x.rows", {"path": names})
    job = PackJob(
        source=str(tmp_path / "in"),
        dataset=str(tmp_path / "ds"),
        source_kind=NAME,
        image_column=("path",),
        shard_size=1 << 18,
    )
    again = replace(job, dataset=str(tmp_path / "again"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "assemble", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            pack(job)
    (tmp_path / "in/0.jpg").write_bytes(encode(picture(99), quality=95))
    result = pack(job)
    count = len(source(tmp_path / "in", image_column=("path",), slice_bytes=1 << 18).survey().slices)
    assert count > 2
    assert result.resumed == count - 1
    assert result.pin == pack(again).pin


def shard(dataset: Path) -> pa.Table:
    (path,) = (dataset / "shards").rglob("*.arrow")
    return pa.ipc.open_file(path).read_all()


class TestContract(SourceContract):
    kind = NAME
    largest = 1 << 14
    beside = (".jpg",)

    @pytest.fixture(autouse=True)
    def with_files(self) -> Iterator[None]:
        registry.forget(NAME)
        with listings(TableFacts(files={"path": ""})):
            yield
        registry.register(ListingSpec())

    def good(self, root: Path) -> Path:
        for name, rows in {"train-0": 12, "train-1": 5, "val-0": 6}.items():
            names = [f"{name}/{i}.jpg" for i in range(rows)]
            photos(root / "in", *names)
            write(root / f"in/{name}.rows", {"path": names, "text": names})
        return root / "in"

    def bad(self, root: Path) -> Bad:
        photos(root, "a.jpg")
        write(root / "x.rows", {"path": ["a.jpg", "b.jpg"]})
        return Bad(root / "x.rows", "x.rows", "b.jpg")
