"""NumPy files as tables: written by NumPy, read as NumPy reads them; what is damaged, bombed or pickled is refused."""

from __future__ import annotations

import io
import pickle
import re
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from waiting import tick

from toolkit.errors import SourceError
from toolkit.sources.kinds.numpy import array as array_module
from toolkit.sources.kinds.numpy.files import find_tables
from toolkit.sources.kinds.numpy.looks import holds_arrays_alone, looks_like_arrays
from toolkit.sources.options import SourceOptions
from toolkit.sources.skips import Skips
from toolkit.sources.tables.table import Table

Arrays = Mapping[str, np.ndarray[Any, Any]]


def tables(path: Path, **given: Any) -> dict[str, list[Any]]:
    return find_tables(SourceOptions(paths=(str(path),), slice_bytes=1 << 20, **given), Skips())


def only(path: Path, **given: Any) -> Table:
    ((table,),) = tables(path, **given).values()
    return table


def contents(table: Table, first: int = 0, count: int | None = None) -> pa.Table:
    table = pickle.loads(pickle.dumps(table))
    names = table.schema.names
    batches = list(table.read(names, first, len(table.pieces) if count is None else count))
    return pa.Table.from_batches(batches, table.schema)


def tensors(column: pa.ChunkedArray) -> np.ndarray[Any, Any]:
    return np.stack([np.load(io.BytesIO(data), allow_pickle=False) for data in column.to_pylist()])


def mnist(rng: np.random.Generator, train: int = 40, test: int = 10) -> Arrays:
    return {
        "x_train": rng.integers(0, 256, (train, 28, 28), np.uint8),
        "y_train": rng.integers(0, 10, train, np.uint8),
        "x_test": rng.integers(0, 256, (test, 28, 28), np.uint8),
        "y_test": rng.integers(0, 10, test, np.uint8),
    }


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_mnist_is_two_splits_of_two_columns(tmp_path: Path, rng: np.random.Generator, save: Any) -> None:
    arrays = mnist(rng)
    save(tmp_path / "mnist.npz", **arrays)
    found = tables(tmp_path / "mnist.npz")
    assert list(found) == ["train", "test"]
    for split, (table,) in found.items():
        assert table.file.name == f"mnist.npz/{split}"
        rows = contents(table)
        assert np.array_equal(tensors(rows["x"]), arrays[f"x_{split}"])
        assert rows["y"].to_pylist() == arrays[f"y_{split}"].tolist()
        assert rows.schema.field("y").type == pa.uint8()


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<u2", ">f8"])
def test_any_rows_are_read_from_any_order(
    tmp_path: Path, rng: np.random.Generator, save: Any, order: Any, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolkit.sources.arrays.table.PIECE_BYTES", 4096)
    array = np.asarray(rng.integers(0, 60_000, (300, 5, 7)).astype(dtype), order=order)
    save(tmp_path / "a.npz", a=array, b=np.arange(300))
    table = only(tmp_path / "a.npz")
    rows = [count for count, _ in table.pieces]
    assert sum(rows) == 300
    assert (len(rows) == 1) is (save is np.savez_compressed)
    assert np.array_equal(tensors(contents(table)["a"]), array)
    for first, count in ((0, 1), (3, 2), (len(rows) - 1, 1)):
        if first + count <= len(rows):
            start, stop = sum(rows[:first]), sum(rows[: first + count])
            part = contents(table, first, count)
            assert part["b"].to_pylist() == list(range(start, stop))
            assert np.array_equal(tensors(part["a"]), array[start:stop])
    # Fields alone, and in another order.
    (batch, *_) = table.read(["b"], 0, 1)
    assert batch.schema.names == ["b"]
    (batch, *_) = table.read(["b", "a"], 0, 1)
    assert batch.schema.names == ["b", "a"]


def test_files_side_by_side_are_columns(tmp_path: Path, rng: np.random.Generator) -> None:
    images, labels = rng.integers(0, 256, (9, 4, 4), np.uint8), np.arange(9)
    np.save(tmp_path / "images.npy", images)
    np.save(tmp_path / "labels.npy", labels)
    table = only(tmp_path)
    assert table.file.name == "images.npy"
    rows = contents(table)
    assert rows.column_names == ["images", "labels"]
    assert np.array_equal(tensors(rows["images"]), images)
    assert rows["labels"].to_pylist() == labels.tolist()
    for name, count in (("train_images", 5), ("train_labels", 5), ("val_images", 2), ("val_labels", 2)):
        (tmp_path / "s").mkdir(exist_ok=True)
        np.save(tmp_path / "s" / f"{name}.npy", np.arange(count))
    found = tables(tmp_path / "s")
    assert {split: [one.file.name for one in of] for split, of in found.items()} == {
        "train": ["train_images.npy"], "val": ["val_images.npy"],
    }  # fmt: skip
    assert contents(found["val"][0]).column_names == ["images", "labels"]


def test_folders_and_archives_are_splits_by_their_names(tmp_path: Path) -> None:
    for split, count in (("train", 4), ("val", 3)):
        (tmp_path / "a" / split).mkdir(parents=True)
        np.save(tmp_path / "a" / split / "x.npy", np.arange(count))
        (tmp_path / "b").mkdir(exist_ok=True)
        np.savez(tmp_path / "b" / f"{split}.npz", x=np.arange(count), z=np.arange(1))
    for folder in ("a", "b"):
        found = tables(tmp_path / folder, columns=("x",))
        assert {split: [one.rows for one in of] for split, of in found.items()} == {"train": [4], "val": [3]}


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_every_version_of_npy_is_read(tmp_path: Path, version: tuple[int, int]) -> None:
    with (tmp_path / "x.npy").open("wb") as file:
        np.lib.format.write_array(file, np.arange(6).reshape(3, 2), version)
    assert contents(only(tmp_path / "x.npy"))["x"].to_pylist() == [[0, 1], [2, 3], [4, 5]]


def test_a_structured_file_is_a_table(tmp_path: Path) -> None:
    array = np.array([(1, "é", [1.5, 2]), (2, "", [0, -1])], [("a", ">i2"), ("b", "U3"), ("c", "f4", (2,))])
    np.save(tmp_path / "x.npy", array)
    rows = contents(only(tmp_path / "x.npy"))
    assert rows.to_pylist() == [{"a": 1, "b": "é", "c": [1.5, 2.0]}, {"a": 2, "b": "", "c": [0.0, -1.0]}]


def test_rows_that_are_none_are_counted(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", a=np.zeros((0, 3)), n=np.float32(1))
    skips = Skips()
    options = SourceOptions(paths=(str(tmp_path),), slice_bytes=1)
    assert [table.rows for table in find_tables(options, skips)["train"]] == [0]
    assert skips.counts["scalars"] == 1


# --- bad input ----------------------------------------------------------------------------------------------------


def everything(path: Path, **given: Any) -> list[pa.Table]:
    return [contents(table) for split in tables(path, **given).values() for table in split]


def refused(path: Path, reason: str, **given: Any) -> None:
    with pytest.raises(SourceError, match=reason) as told:
        everything(path, **given)
    assert str(path.parent) in str(told.value)


def zipped(path: Path, members: Mapping[str, bytes], method: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def npy(array: np.ndarray[Any, Any], **given: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array, **given)
    return file.getvalue()


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return (exec, ("raise SystemExit('a pickle was run')",))


def test_pickles_are_refused_and_never_run(tmp_path: Path) -> None:
    pickled = np.array([Bomb(), None], object)
    np.save(tmp_path / "x.npy", pickled, allow_pickle=True)
    refused(tmp_path / "x.npy", r"array 'x' of .* is pickled.* run code that the file chooses. Save plain arrays")
    np.savez(tmp_path / "y.npz", y=pickled, x=np.arange(2))
    refused(tmp_path / "y.npz", "array 'y' of .* is pickled")
    # What nobody asks for isn't looked at.
    assert contents(only(tmp_path / "y.npz", columns=("x",)))["x"].to_pylist() == [0, 1]
    (tmp_path / "z.npy").write_bytes(pickle.dumps(Bomb()))
    refused(tmp_path / "z.npy", "is a Python pickle")


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_cifar_s_own_pickles_are_known_and_refused(tmp_path: Path, protocol: int) -> None:
    (tmp_path / "data_batch_1").write_bytes(pickle.dumps({b"data": b"", b"labels": []}, protocol))
    (tmp_path / "readme.html").write_text("<html>")
    assert looks_like_arrays(str(tmp_path / "data_batch_1"))
    refused(tmp_path / "data_batch_1", r"is a Python pickle, as the python version of CIFAR is.* np.savez\(")
    refused(tmp_path, "is a Python pickle")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_any_damage_to_an_archive_is_told_or_changes_nothing(
    tmp_path: Path, rng: np.random.Generator, save: Any
) -> None:
    x, y = rng.integers(0, 256, (6, 3, 3), np.uint8), np.arange(6)
    save(tmp_path / "a.npz", x=x, y=y)
    whole = (tmp_path / "a.npz").read_bytes()
    told = 0
    for at in range(0, len(whole), 3):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << at % 8
        (tmp_path / "a.npz").write_bytes(damaged)
        try:
            rows = contents(only(tmp_path / "a.npz"))
        except SourceError:
            told += 1
            continue
        assert np.array_equal(tensors(rows["x"]), x)
        assert rows["y"].to_pylist() == y.tolist()
    assert told > 50
    for cut in (1, 21, 22, 23, len(whole) // 2, len(whole) - 30):
        (tmp_path / "a.npz").write_bytes(whole[:-cut])
        refused(tmp_path / "a.npz", "no archive that can be read|no NumPy file")


def test_a_stored_member_is_checked_by_whoever_reads_its_end(
    tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolkit.sources.arrays.table.PIECE_BYTES", 4096)
    np.savez(tmp_path / "a.npz", x=rng.integers(0, 256, (100, 1000), np.uint8))
    data = bytearray((tmp_path / "a.npz").read_bytes())
    data[5000] ^= 1
    (tmp_path / "a.npz").write_bytes(data)
    table = only(tmp_path / "a.npz")
    assert len(table.pieces) == 25
    contents(table, 3, 2)
    for first in (0, 24):
        with pytest.raises(SourceError, match="CRC32"):
            contents(table, first, 25 - first)


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        ((1 << 50, 10), "bytes for the shape"),
        ((1 << 50, 1 << 50, 1 << 50), "bytes for the shape"),
        ((-1, 3), "bytes for the shape"),
        ((5,), "bytes for the shape"),
        ((1 << 60, 0), "take no bytes"),
    ],
)
@pytest.mark.parametrize("in_archive", [False, True])
def test_headers_that_lie_are_refused_before_memory_is_taken(
    tmp_path: Path, shape: tuple[int, ...], reason: str, in_archive: bool
) -> None:
    file = io.BytesIO()
    np.lib.format.write_array_header_2_0(file, {"descr": "<f8", "fortran_order": False, "shape": shape})
    data = file.getvalue() + (b"" if 0 in shape else bytes(64))
    path = tmp_path / "x.npy"
    path.write_bytes(data)
    refused(zipped(tmp_path / "x.npz", {"x.npy": data}) if in_archive else path, reason)


@pytest.mark.parametrize("by", [1, 1 << 20, 1 << 40])
def test_members_that_claim_other_sizes_are_refused(tmp_path: Path, by: int) -> None:
    data = npy(np.zeros(50_000, np.uint8))
    path = zipped(tmp_path / "x.npz", {"x.npy": data}, zipfile.ZIP_DEFLATED)
    # A header that says as much as the archive claims, and fewer bytes than that.
    claimed = npy(np.zeros(50_000 + by, np.uint8)) if by == 1 else None
    head = np.lib.format
    file = io.BytesIO()
    head.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": (50_000 + by,)})
    assert claimed is None or len(file.getvalue()) == len(data) - 50_000
    lying = file.getvalue() + bytes(50_000)
    path = zipped(tmp_path / "x.npz", {"x.npy": lying}, zipfile.ZIP_DEFLATED)
    raw = path.read_bytes()
    size = struct.pack("<I", len(lying))
    wanted = len(lying) + by
    if wanted < 1 << 32:
        at = raw.rindex(size)
        path.write_bytes(raw[:at] + struct.pack("<I", wanted) + raw[at + 4 :])
    refused(path, "ends after|claims .* bytes, and the|bytes for the shape")


def test_a_member_that_inflates_to_more_than_it_claims_is_refused(tmp_path: Path) -> None:
    data = npy(np.zeros(100_000, np.uint8))
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": (10,)})
    lying = file.getvalue() + data[len(file.getvalue()) :]
    path = zipped(tmp_path / "x.npz", {"x.npy": lying}, zipfile.ZIP_DEFLATED)
    raw = path.read_bytes()
    at = raw.rindex(struct.pack("<I", len(lying)))
    path.write_bytes(raw[:at] + struct.pack("<I", len(file.getvalue()) + 10) + raw[at + 4 :])
    refused(path, "inflates to more than")


def test_what_zip_archives_can_be_besides_is_refused(tmp_path: Path) -> None:
    data = npy(np.arange(3))
    refused(zipped(tmp_path / "b.npz", {"x.npy": data}, zipfile.ZIP_BZIP2), "compressed by bzip2")
    path = zipped(tmp_path / "e.npz", {"x.npy": data})
    raw = bytearray(path.read_bytes())
    raw[raw.rindex(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(raw)
    refused(path, "member 'x.npy' is encrypted")
    twice = zipped(tmp_path / "d.npz", {"x.npy": data, "y.npy": data})
    twice.write_bytes(twice.read_bytes().replace(b"y.npy", b"x.npy"))
    refused(twice, "two members called 'x.npy'")
    refused(zipped(tmp_path / "n.npz", {}), "holds none of the arrays to pack; it has no member")
    refused(zipped(tmp_path / "s.npz", {f"{n}.npy": data for n in ("data", "indices", "indptr", "shape", "format")}),
            "sparse matrix of SciPy")  # fmt: skip
    refused(zipped(tmp_path / "f.npz", {"x.npy": b"no npy"}), "array 'x' of .*: no NumPy file")
    many = zipped(tmp_path / "m.npz", {f"{i}.npy": b"" for i in range(1001)})
    refused(many, "1001 arrays, and 1000 at the most")


def test_members_that_share_their_bytes_are_refused(tmp_path: Path) -> None:
    array = npy(np.arange(3))
    inner = zipped(tmp_path / "i.npz", {"y.npy": array}).read_bytes()[: 30 + len("y.npy") + len(array)]
    path = zipped(tmp_path / "o.npz", {"x.npy": inner, "y.npy": array})
    raw = bytearray(path.read_bytes())
    second = raw.rindex(b"PK\x01\x02")
    struct.pack_into("<I", raw, second + 42, 30 + len("x.npy"))  # the second one lies within the first one
    path.write_bytes(raw)
    refused(path, "are those of another member too")


def test_what_takes_too_much_memory_is_refused(
    tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(array_module, "_MOST_INFLATED_BYTES", 1000)
    np.savez_compressed(tmp_path / "x.npz", x=np.asfortranarray(rng.random((20, 20))))
    refused(tmp_path / "x.npz", r"compressed and in Fortran order.* np.ascontiguousarray")
    np.save(tmp_path / "y.npy", np.zeros((2, 100)))
    refused(tmp_path / "y.npy", "in each row 800 bytes are more than a value may have", max_value_bytes=799)


def test_a_file_that_changes_is_told(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(10))
    table = only(tmp_path / "x.npy")
    tick(tmp_path)
    np.save(tmp_path / "x.npy", np.arange(10) + 1)
    with pytest.raises(SourceError, match="was changed during the pack"):
        contents(table)
    assert table.fingerprint(0, 1) != only(tmp_path / "x.npy").fingerprint(0, 1)


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"a": np.arange(3), "b": np.arange(4)}, r"lengths differ: a \(3,\), b \(4,\)"),
        ({"a": np.array(["2020"], "M8")}, None),
        ({"a": np.zeros(2, np.longdouble)}, r"array 'a' of .* differs from machine"),
    ],
)
def test_arrays_that_are_no_rows_are_refused(tmp_path: Path, arrays: Arrays, reason: str | None) -> None:
    np.savez(tmp_path / "x.npz", **arrays)  # type: ignore[arg-type]
    if reason is None:
        contents(only(tmp_path / "x.npz"))
    else:
        refused(tmp_path / "x.npz", reason)


def test_npy_files_that_are_samples_each_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolkit.sources.kinds.numpy.files._MOST_FILES", 3)
    for i in range(4):
        np.save(tmp_path / f"{i}.npy", np.arange(3))
    with pytest.raises(SourceError, match=re.escape("has 4 .npy files: the files of a folder are columns")):
        tables(tmp_path)


def test_a_folder_of_arrays_and_documents_is_one_of_arrays(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(3))
    assert holds_arrays_alone(str(tmp_path))
    (tmp_path / "README.txt").write_text("read me")
    (tmp_path / "LICENSE").write_text("take it")
    assert holds_arrays_alone(str(tmp_path))
    (tmp_path / "photo.jpg").write_bytes(b"")
    assert not holds_arrays_alone(str(tmp_path))
