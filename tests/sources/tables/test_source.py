"""Tables whose rows name files: which become samples, under which keys, and what is said of the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from contracts.source import Bad, SourceContract
from pictures import encode, make_folder, picture
from sources.tables.listings import NAME, ListingSpec, listings, write

import toolkit
from toolkit.format.schema import KEY
from toolkit.pack.job import PackJob
from toolkit.pack.run import pack
from toolkit.sources import registry
from toolkit.sources.base import Source, Survey
from toolkit.sources.make import make_source
from toolkit.sources.options import SourceOptions
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
        assert [row["labels"] for row in rows] == columns["labels"][:4]
        assert [one.reason for one in rejects] == ["column 'labels': 2 is none of the ids 0 to 1"]
        rows, rejects, survey = rows_of(table, classes=("emu", "dog", "cat"))
        assert [row["labels"] for row in rows] == [[2, 1], [], None, [1, None]]
        rows, rejects, survey = rows_of(table, classes=("emu", "dog"))
        assert [row["n"] for row in rows] == [1, 2, 3]
        assert rejects[0].reason == "column 'labels': label 'cat' is none of the 2 classes"
    registry.register(ListingSpec())


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
