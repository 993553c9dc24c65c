"""toolkit.pack() of what a program has at hand: iterables of records, frames, tables, datasets of frameworks."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from pictures import encode, picture

import toolkit
from toolkit.errors import RejectsError, SourceError, UsageError

RECORDS: list[dict[str, Any]] = [
    {"id": f"k{number}", "image": encode(picture(number, 8, 8)), "label": "ab"[number % 2], "n": number}
    for number in range(5)
]


class Pair(NamedTuple):
    image: bytes
    label: str


def rows(dataset: Path, split: str = "train") -> list[dict[str, Any]]:
    ds = toolkit.open(dataset, split=split)
    return [ds[number] for number in range(len(ds))]


def generated(stop: int = 5, *, fails: bool = False) -> Iterator[dict[str, Any]]:
    yield from RECORDS[:stop]
    if fails:
        raise ZeroDivisionError


def test_records_of_every_form_are_the_same(tmp_path: Path) -> None:
    pairs = [(record["image"], record["label"]) for record in RECORDS]
    forms: list[tuple[Any, dict[str, Any]]] = [
        (generated(), {}),
        (RECORDS, {}),
        (tuple(RECORDS), {}),
        (pairs, {}),
        (iter(pairs), {}),
        ([Pair(*pair) for pair in pairs], {"columns": None}),
        (RECORDS, {"columns": None, "map": {"image": "image", "label": "label"}}),
    ]
    results = []
    for number, (form, options) in enumerate(forms):
        results.append(toolkit.pack(form, tmp_path / str(number), **{"columns": ["image", "label"], **options}))
    assert {result.pin for result in results} == {results[0].pin}
    ds = toolkit.open(tmp_path / "0")
    assert ds.classes == ("a", "b")
    assert [(ds[i]["__key__"], ds[i]["image"], ds[i]["label"]) for i in range(5)] == [
        (str(i), RECORDS[i]["image"], i % 2) for i in range(5)
    ]


def test_fields_are_chosen_renamed_and_may_be_keys(tmp_path: Path) -> None:
    toolkit.pack(generated(), tmp_path / "ds", key="id", rename={"n": "number"}, kind={"label": "text"}, limit=3)
    assert rows(tmp_path / "ds")[2] == {
        "__key__": "k2",
        "image": RECORDS[2]["image"],
        "label": "a",
        "number": 2,
    }
    with pytest.raises(RejectsError, match=r"record 1\): its key is empty"):
        toolkit.pack([{"id": "x", "n": 1}, {"id": None, "n": 2}], tmp_path / "no", key="id")
    with pytest.raises(RejectsError, match=r"1 \(record 1\): 'm' is none of the columns n"):
        toolkit.pack([{"n": 1}, {"n": 2, "m": 1}], tmp_path / "no")


def test_splits_of_a_mapping(tmp_path: Path) -> None:
    result = toolkit.pack({"train": RECORDS, "val": generated(2)}, tmp_path / "ds")
    assert result.splits == {"train": 5, "val": 2}
    assert [row["__key__"] for row in rows(tmp_path / "ds", "val")] == ["5", "6"]


def test_a_generator_that_raises_commits_nothing_and_goes_on(tmp_path: Path) -> None:
    records = [{"a": np.random.default_rng(number).bytes(30_000)} for number in range(20)]

    def some(stop: int) -> Iterator[dict[str, Any]]:
        yield from records[:stop]
        if stop < len(records):
            raise ZeroDivisionError

    whole = toolkit.pack(records, tmp_path / "whole", shard_size="64KiB")
    with pytest.raises(ZeroDivisionError):
        toolkit.pack(some(9), tmp_path / "ds", shard_size="64KiB")
    assert not (tmp_path / "ds/manifest.json").exists()
    result = toolkit.pack(some(20), tmp_path / "ds", shard_size="64KiB", on_existing="resume")
    assert (result.pin, result.resumed > 0) == (whole.pin, True)


@pytest.mark.parametrize("name", ["arrow", "batch", "reader", "polars", "lazy", "pandas"])
def test_frames_are_packed_as_tables(tmp_path: Path, name: str) -> None:
    table = pa.Table.from_pylist(RECORDS)
    frame: Any = table
    if name == "batch":
        frame = table.combine_chunks().to_batches()[0]
    elif name == "reader":
        frame = table.to_reader()
    elif name in ("polars", "lazy"):
        polars = pytest.importorskip("polars")
        frame = polars.DataFrame(RECORDS)
        frame = frame.lazy() if name == "lazy" else frame
    elif name == "pandas":
        frame = pytest.importorskip("pandas").DataFrame(RECORDS)
    toolkit.pack(frame, tmp_path / "ds", key="id")
    ds = toolkit.open(tmp_path / "ds")
    assert [column.name for column in ds.columns] == ["image", "label", "n"]
    assert [(row["__key__"], row["image"], row["label"], row["n"]) for row in rows(tmp_path / "ds")] == [
        (record["id"], record["image"], record["n"] % 2, record["n"]) for record in RECORDS
    ]


def test_a_frame_that_names_files(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    for record in RECORDS:
        (tmp_path / "photos" / f"{record['id']}.jpg").write_bytes(record["image"])
    frame = pa.table({"path": [f"{record['id']}.jpg" for record in RECORDS], "n": range(5)})
    toolkit.pack(frame, tmp_path / "ds", image_column=["path"], root=tmp_path / "photos")
    assert [(row["__key__"], row["image"]) for row in rows(tmp_path / "ds")] == [
        (f"{record['id']}.jpg", record["image"]) for record in RECORDS
    ]


def test_a_dataset_of_hugging_face(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    (tmp_path / "x").mkdir()
    for record in RECORDS:
        (tmp_path / "x" / f"{record['id']}.jpg").write_bytes(record["image"])
    features = datasets.Features(
        {
            "image": datasets.Image(),
            "file": datasets.Image(),
            "label": datasets.ClassLabel(names=["cat", "dog"]),
            "n": datasets.Value("int32"),
            "boxes": datasets.Sequence(datasets.Sequence(datasets.Value("float32"), length=4)),
        }
    )
    values = {
        "image": [{"bytes": record["image"], "path": None} for record in RECORDS],
        "file": [str(tmp_path / "x" / f"{record['id']}.jpg") for record in RECORDS],
        "label": [0, 1, 0, 1, -1],
        "n": range(5),
        "boxes": [[[0.0, 0.5, 1.0, 2.0]]] * 5,
    }
    made = datasets.Dataset.from_dict(values, features=features)
    forms = {
        "map": made,
        "dict": datasets.DatasetDict({"train": made}),
        "shuffled": made.select([4, 3, 2, 1, 0]).select([4, 3, 2, 1, 0]),
        "iterable": made.to_iterable_dataset(),
    }
    for name, form in forms.items():
        toolkit.pack(form, tmp_path / name, missing="null")
        ds = toolkit.open(tmp_path / name, split="train")
        assert (ds.classes, {one.name: one.arrow_type for one in ds.columns}["n"]) == (("cat", "dog"), "int32")
        for number, record in enumerate(RECORDS):
            row = ds[number]
            assert row["image"] == row["file"] == record["image"], name
            assert row["label"] == (None if number == 4 else number % 2)
            assert row["boxes"] == [[0.0, 0.5, 1.0, 2.0]]
    assert len({toolkit.open(tmp_path / name).pin for name in forms}) == 1


def test_a_streamed_dataset_whose_column_was_renamed(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    made = datasets.Dataset.from_dict({"caption": [None, "a cat", None]})
    toolkit.pack(made.to_iterable_dataset().rename_column("caption", "text"), tmp_path / "ds", missing="null")
    assert [row["text"] for row in rows(tmp_path / "ds")] == [None, "a cat", None]


def test_a_dataset_of_torch(tmp_path: Path) -> None:
    data = pytest.importorskip("torch.utils.data")

    class Photos(data.Dataset):  # type: ignore[misc, name-defined]
        classes = ("cat", "dog")

        def __len__(self) -> int:
            return 5

        def __getitem__(self, number: int) -> tuple[Any, int]:
            return picture(number, 8, 8), number % 2

    class Stream(data.IterableDataset):  # type: ignore[misc, name-defined]
        def __iter__(self) -> Iterator[dict[str, Any]]:
            return generated()

    toolkit.pack(Photos(), tmp_path / "pairs")
    ds = toolkit.open(tmp_path / "pairs")
    (batch,) = ds.loader(toolkit.pipeline(toolkit.slot("image").decode_image()), batch_size=5)
    assert np.array_equal(np.asarray(batch["image"])[3], np.asarray(picture(3, 8, 8)))
    assert (ds.classes, [ds[i]["label"] for i in range(5)]) == (("cat", "dog"), [0, 1, 0, 1, 0])
    toolkit.pack(Stream(), tmp_path / "stream", key="id")
    assert rows(tmp_path / "stream")[4]["__key__"] == "k4"
    with pytest.raises(UsageError, match="a DataLoader gives batches"):
        toolkit.pack(data.DataLoader(Photos()), tmp_path / "no")


def test_names_that_are_left_out_are_told(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    names = datasets.ClassLabel(names=["cat", "dog"])
    features = datasets.Features({"ids": datasets.List(names), "n": datasets.Value("int64")})
    source = datasets.Dataset.from_dict({"ids": [[0, 1], []], "n": [1, 2]}, features=features)
    result = toolkit.pack(source, tmp_path / "ds")
    (told,) = result.warnings
    assert "column 'ids' has lists of ids, and the names of their classes were left out" in told
    assert [row["ids"] for row in rows(tmp_path / "ds")] == [[0, 1], []]
    source.to_parquet(str(tmp_path / "it.parquet"))
    assert toolkit.pack(tmp_path / "it.parquet", tmp_path / "named").warnings == ()
    assert toolkit.open(tmp_path / "named").class_names["ids"] == ("cat", "dog")


def test_what_cannot_be(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    frame = pa.Table.from_pylist(RECORDS)
    cases: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
        (generated(), {"include": ["*"]}, UsageError, "include means nothing for records"),
        (generated(), {"root": "x"}, UsageError, "root means nothing for records"),
        (pa.Table.from_pylist(RECORDS), {"tokenizer": "bytes"}, UsageError, "tokenizer means nothing for a table"),
        (generated(), {"columns": ["imgae"]}, UsageError, "Did you mean 'image'"),
        ([5], {}, SourceError, "record 0 is of type int"),
        ([{"a": 1}, 5], {}, SourceError, "record 1 is of type int"),
        ([(1, 2)], {}, UsageError, "records are tuples: say what is in them"),
        ([(1, 2), (1,)], {"columns": ["a", "b"]}, SourceError, "record 1 has 1 values, and there are 2 columns"),
        ([{"a": None}], {}, UsageError, "the first record doesn't tell what the column 'a' is"),
        ([{"a": object()}], {}, UsageError, "doesn't tell what the column 'a' is .a value of type object"),
        (iter(()), {}, SourceError, "source has no records"),
        ({}, {}, UsageError, "empty mapping"),
        ({"a": 5}, {}, UsageError, "an object of type int can't be packed"),
        ({"a/b": RECORDS}, {}, UsageError, "can't name a split"),
        ({None: frame, "a": frame}, {}, UsageError, "names of splits as text, got nothing"),
        ({0: frame}, {}, UsageError, "names of splits as text, got 0"),
        ([{1: 2}], {}, SourceError, "record 0 has a value called 1: columns are called by text"),
        (polars.DataFrame({"a": [1], "o": [object()]}), {}, UsageError, "column 'o' .* holds Python objects"),
        (
            polars.DataFrame({"a": [1], "i": polars.Series([1], dtype=polars.Int128)}).lazy(),
            {},
            UsageError,
            "column 'i' of the DataFrame is Int128, which Arrow doesn't take",
        ),
        ({"a": RECORDS}, {"split": "b"}, UsageError, "leave split out"),
        (5, {}, UsageError, "expected a path"),
    ]
    for source, options, error, says in cases:
        with pytest.raises(error, match=says):
            toolkit.pack(source, tmp_path / "ds", **options)
        assert not list(tmp_path.iterdir())


def test_no_framework_is_imported_for_plain_records(tmp_path: Path) -> None:
    program = (
        "import sys, toolkit\n"
        f"toolkit.pack([{{'a': 1, 'b': 'x'}}], {str(tmp_path / 'ds')!r})\n"
        "print([name for name in ('torch', 'datasets', 'polars', 'pandas') if name in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert ended.stdout == "[]\n"


def digests(dataset: Path) -> dict[str, bytes]:
    found = {}
    for shard in (dataset / "shards").iterdir():
        table = pa.ipc.open_file(shard).read_all()
        found.update(zip(table["__key__"].to_pylist(), table["__digest__"].to_pylist(), strict=True))
    return found


def test_the_same_photographs_by_folder_writer_and_hugging_face_have_the_same_digests(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    paths = [tmp_path / "in" / name / f"{number}.jpg" for name in ("ant", "bee") for number in range(3)]
    for number, path in enumerate(paths):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode(picture(number, 20, 16)))
    toolkit.pack(tmp_path / "in", tmp_path / "folder")
    names = [path.relative_to(tmp_path / "in").as_posix() for path in paths]
    with toolkit.writer(tmp_path / "writer", columns={"image": "image", "label": "label"}) as w:
        for name, path in zip(names, paths, strict=True):
            w.add(image=path, label=path.parent.name, key=name)
    features = datasets.Features(
        {
            "image": datasets.Image(),
            "label": datasets.ClassLabel(names=["ant", "bee"]),
            "name": datasets.Value("string"),
        }
    )
    values = {"image": [str(path) for path in paths], "label": [0, 0, 0, 1, 1, 1], "name": names}
    toolkit.pack(datasets.Dataset.from_dict(values, features=features), tmp_path / "hub", key="name")
    expected = digests(tmp_path / "folder")
    assert sorted(expected) == names
    for name in ("writer", "hub"):
        ds = toolkit.open(tmp_path / name)
        assert (ds.classes, digests(tmp_path / name)) == (("ant", "bee"), expected), name
