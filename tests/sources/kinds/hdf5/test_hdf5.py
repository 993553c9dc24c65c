"""HDF5 files as tables: written by h5py, with the values that h5py reads; what leads to other files is refused."""

from __future__ import annotations

import fcntl
import io
import json
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest
from pictures import encode, picture
from waiting import tick

import toolkit
from toolkit.errors import SourceError
from toolkit.format.kinds import Kind
from toolkit.sources.kinds.hdf5 import dataset as dataset_module
from toolkit.sources.kinds.hdf5.source import Hdf5Source
from toolkit.sources.kinds.hdf5.walk import arrays_in
from toolkit.sources.options import SourceOptions
from toolkit.sources.skips import Skips

GOLDEN = Path(__file__).parents[3] / "golden/hdf5"


def tables(path: Path, skips: Skips | None = None, **given: Any) -> dict[str, list[Any]]:
    source = Hdf5Source(SourceOptions(paths=(str(path),), slice_bytes=1 << 20, **given))
    return {split: list(of) for split, of in source.tables(Skips() if skips is None else skips).items()}


def only(path: Path, **given: Any) -> Any:
    ((table,),) = tables(path, **given).values()
    return table


def contents(table: Any, first: int = 0, count: int | None = None) -> pa.Table:
    table = pickle.loads(pickle.dumps(table))
    batches = table.read(table.schema.names, first, len(table.pieces) if count is None else count)
    return pa.Table.from_batches(list(batches), table.schema)


def written(path: Path, write: Callable[[h5py.File], object], **given: Any) -> Path:
    with h5py.File(path, "w", **given) as file:
        write(file)
    return path


def refused(path: Path, reason: str, **given: Any) -> None:
    with pytest.raises(SourceError, match=reason) as told:
        [contents(table) for of in tables(path, **given).values() for table in of]
    assert str(path.parent) in str(told.value)


def plain(value: Any, kind: Kind | None) -> Any:
    """A value as tests/golden/make_hdf5.py writes it."""
    if kind is Kind.TENSOR:
        array = np.load(io.BytesIO(value))
        value = [array.real.item(), array.imag.item()] if array.dtype.kind == "c" else array.tolist()
    return list(value) if isinstance(value, bytes) else value


def test_values_are_those_that_h5py_reads() -> None:
    table = only(GOLDEN / "types.h5")
    rows = contents(table)
    wanted = json.loads((GOLDEN / "types.json").read_text())
    for name in ("text", "short", "record.b"):
        wanted[name] = [bytes.fromhex(text).decode() for text in wanted[name]]
    assert sorted(rows.column_names) == sorted(wanted)
    for name, values in wanted.items():
        assert [plain(value, table.facts.kinds.get(name)) for value in rows[name].to_pylist()] == values, name
    assert table.facts.classes == {"kind": ("cat", "dog", "bird")}
    assert rows.schema.field("half").type == pa.float16()
    assert rows.schema.field("lists").type == pa.list_(pa.float32())


def test_a_pack_has_the_labels_of_the_enumeration(tmp_path: Path) -> None:
    toolkit.pack(GOLDEN / "types.h5", tmp_path / "ds", columns=["kind", "n"])
    ds = toolkit.open(tmp_path / "ds")
    assert ds.classes == ("cat", "dog", "bird")
    assert [ds[i]["kind"] for i in range(4)] == [0, 1, 2, 0]
    assert ds[3]["__key__"] == "types.h5#3"


@pytest.mark.parametrize("folder", ["", "data/"])
def test_groups_are_splits(tmp_path: Path, folder: str) -> None:
    def write(file: h5py.File) -> None:
        for split, rows in (("train", 5), ("val", 3), ("test", 2)):
            file[f"{split}/{folder}x"] = np.arange(rows * 4).reshape(rows, 2, 2)
            file[f"{split}/{folder}y"] = np.arange(rows)
        file.attrs["a"] = 1
        file["train"].attrs["b"] = [1, 2]

    skips = Skips()
    found = tables(written(tmp_path / "a.h5", write), skips)
    assert {split: [(one.file.name, one.rows) for one in of] for split, of in found.items()} == {
        "train": [("a.h5/train", 5)],
        "val": [("a.h5/val", 3)],
        "test": [("a.h5/test", 2)],
    }
    assert contents(found["val"][0]).column_names == ["x", "y"]
    assert skips.counts["attributes"] == 2


@pytest.mark.parametrize(
    "storage", [{}, {"chunks": (7, 3), "compression": "gzip"}, {"chunks": (100, 8), "shuffle": True}]
)
def test_any_rows_are_read(tmp_path: Path, storage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolkit.sources.arrays.table.PIECE_BYTES", 1024)
    array = np.arange(300 * 8, dtype=">i4").reshape(300, 8)
    path = written(tmp_path / "a.h5", lambda file: file.create_dataset("x", data=array, **storage))
    table = only(path)
    rows = [count for count, _ in table.pieces]
    assert sum(rows) == 300
    assert len(rows) > 1
    for first, count in ((0, len(rows)), (1, 1), (len(rows) - 1, 1)):
        start, stop = sum(rows[:first]), sum(rows[: first + count])
        assert contents(table, first, count)["x"].to_pylist() == array[start:stop].tolist()


def test_pictures_in_a_file_are_known_by_their_content(tmp_path: Path) -> None:
    photos = [encode(picture(seed)) for seed in range(9)]

    def write(file: h5py.File) -> None:
        images = file.create_dataset("image", (9,), h5py.vlen_dtype("u1"))
        for i, photo in enumerate(photos):
            images[i] = np.frombuffer(photo, np.uint8)
        file.create_dataset("label", data=["cat", "dog", "cat"] * 3, dtype=h5py.string_dtype())

    toolkit.pack(written(tmp_path / "a.h5", write), tmp_path / "ds")
    ds = toolkit.open(tmp_path / "ds")
    assert [ds[i]["image"] for i in range(9)] == photos
    assert ds.classes == ("cat", "dog")


def test_values_of_several_lengths_are_read_a_piece_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset_module, "PIECE_BYTES", 2000)
    sizes = [1] * 40 + [5000] * 3 + [0] * 7

    def write(file: h5py.File) -> None:
        data = file.create_dataset("x", (len(sizes),), h5py.vlen_dtype("u1"))
        for i, size in enumerate(sizes):
            data[i] = np.full(size, i, np.uint8)
        file["n"] = np.arange(len(sizes))

    table = only(written(tmp_path / "a.h5", write))._table  # read in this process, for the constant's sake
    rows = contents(table)
    assert rows["x"].to_pylist() == [bytes([i]) * size for i, size in enumerate(sizes)]
    assert rows["n"].to_pylist() == list(range(len(sizes)))
    batches = [batch.nbytes for batch in table.read(["x"], 0, len(table.pieces))]
    assert max(batches) < 16 * 1000  # what is read at once while values are small


def test_text_that_is_none_is_a_reject(tmp_path: Path) -> None:
    def write(file: h5py.File) -> None:
        file["x"] = np.array([b"a", b"\xff", b"c"], "S1")

    path = written(tmp_path / "a.h5", write)
    report = toolkit.pack(path, tmp_path / "ds", max_rejects=1)
    assert [reject.key for reject in report.rejects] == ["a.h5#1"]
    assert only(path, kind={"x": Kind.BYTES}).schema.field("x").type == pa.binary()


def test_a_file_without_rows_is_counted(tmp_path: Path) -> None:
    path = written(tmp_path / "a.h5", lambda file: file.create_dataset("x", (0, 3), "f4", maxshape=(None, 3)))
    assert only(path).rows == 0
    with pytest.raises(SourceError):
        toolkit.pack(path, tmp_path / "ds")


# --- what leads to other files, and other bad input -----------------------------------------------------------------


def external(file: h5py.File) -> None:
    file["x"] = np.arange(3)
    file["y"] = h5py.ExternalLink("/etc/passwd", "/y")


def behind_external(file: h5py.File) -> None:
    file["x"] = np.arange(3)
    file["out"] = h5py.ExternalLink("other.h5", "/")
    file["y"] = h5py.SoftLink("/out/y")


def dangling(file: h5py.File) -> None:
    file["x"] = np.arange(3)
    file["y"] = h5py.SoftLink("/no/y")


def looping(file: h5py.File) -> None:
    file["x"] = np.arange(3)
    file["y"] = h5py.SoftLink("/z")
    file["z"] = h5py.SoftLink("y")


def raw_elsewhere(file: h5py.File) -> None:
    file["x"] = np.arange(3)
    file.create_dataset("y", (3,), "i4", external=[("raw.bin", 0, 12)])


def virtual(file: h5py.File) -> None:
    file["x"] = np.arange(3)
    layout = h5py.VirtualLayout((3,), "i8")
    layout[:] = h5py.VirtualSource("other.h5", "y", (3,))
    file.create_virtual_dataset("y", layout)


def referring(file: h5py.File) -> None:
    file["x"] = np.arange(3)
    file.create_dataset("y", data=[file["x"].ref] * 3, dtype=h5py.ref_dtype)


def of_regions(file: h5py.File) -> None:
    file["x"] = np.arange(3)
    record = np.dtype([("a", "i4"), ("r", h5py.regionref_dtype)])
    file.create_dataset("y", (3,), record)


def unwritten(file: h5py.File) -> None:
    file["x"] = np.arange(3)
    file.create_dataset("y", (1 << 40, 10), "f8", chunks=(1024, 10))


def of_matlab(file: h5py.File) -> None:
    file["x"] = np.arange(3)
    file["y"] = np.zeros((3, 100))
    file["y"].attrs["MATLAB_class"] = np.bytes_(b"double")


def named_in_no_utf8(file: h5py.File) -> None:
    file["x"] = np.arange(3)
    names = h5py.h5t.enum_create(h5py.h5t.NATIVE_INT8)
    for i, name in enumerate((b"a", b"\xff")):
        names.enum_insert(name, i)
    h5py.h5d.create(file.id, b"y", names, h5py.h5s.create_simple((3,)))


@pytest.mark.parametrize(
    ("write", "reason"),
    [
        (external, "'y' is a link to another file, '/etc/passwd': only the file itself is read"),
        (behind_external, "'out' is a link to another file, 'other.h5'"),
        (dangling, r"'y' is a link that leads nowhere \('/no/y'\)"),
        (looping, "'y' is a link that leads nowhere"),
        (raw_elsewhere, r"array 'y' of .* has its values in other files \(raw.bin\)"),
        (virtual, r"array 'y' of .* is virtual: its values lie elsewhere \(other.h5\)"),
        (referring, "array 'y' of .* its values are references to other objects"),
        (of_regions, "array 'y' of .* its values are references to other objects"),
        (of_matlab, "array 'y' of .* was written by MATLAB, whose axes come in reverse order"),
        (named_in_no_utf8, "array 'y' of .* the names of its enumeration aren't UTF-8"),
        (unwritten, "claims .* bytes by its shape .*, and 0 are there: most were never written"),
    ],
)
def test_what_is_no_data_of_the_file_is_refused_unless_it_is_left_out(
    tmp_path: Path, write: Callable[[h5py.File], None], reason: str
) -> None:
    path = written(tmp_path / "a.h5", write)
    refused(path, reason)
    assert contents(only(path, columns=("x",)))["x"].to_pylist() == [0, 1, 2]


def test_large_chunks_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset_module, "_MOST_CHUNK_BYTES", 1000)
    path = written(tmp_path / "a.h5", lambda file: file.create_dataset("x", data=np.zeros((9, 90)), chunks=(3, 90)))
    with pytest.raises(SourceError, match="stored in chunks of 2160 bytes, which are read whole"):
        arrays_in(str(path), SourceOptions(paths=(str(path),), slice_bytes=1 << 20))


@pytest.mark.parametrize(("code", "name"), [(32015, "zstd"), (32001, "blosc"), (4242, "a filter without a name")])
def test_filters_that_are_not_there_are_named(tmp_path: Path, code: int, name: str) -> None:
    def write(file: h5py.File) -> None:
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk((2,))
        properties.set_filter(code, h5py.h5z.FLAG_OPTIONAL, ())
        h5py.h5d.create(file.id, b"x", h5py.h5t.NATIVE_INT32, h5py.h5s.create_simple((4,)), properties)

    refused(written(tmp_path / "a.h5", write), rf"array 'x' of .* is compressed by {name} \(filter {code}\)")


def test_groups_in_a_circle_end(tmp_path: Path) -> None:
    def write(file: h5py.File) -> None:
        file["a/x"] = np.arange(3)
        file["a/b"] = file["/"]
        file["c"] = h5py.SoftLink("/a")

    skips = Skips()
    ((table,),) = tables(written(tmp_path / "a.h5", write), skips).values()
    assert table.schema.names == ["x"]
    assert skips.names["links"] == ("c",)


def test_samples_that_are_a_dataset_each_are_refused(tmp_path: Path) -> None:
    def write(file: h5py.File) -> None:
        for i in range(1001):
            file[f"{i}"] = i

    refused(written(tmp_path / "a.h5", write), "1001 datasets, and 1000 at the most become columns")


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_a_file_that_is_cut_short_is_told(tmp_path: Path, share: float) -> None:
    path = written(tmp_path / "a.h5", lambda file: file.create_dataset("x", data=np.arange(10_000)))
    data = path.read_bytes()
    path.write_bytes(data[: 16 + int(len(data) * share)])
    refused(path, "can't be read .*truncated|can't be read ")


def test_damaged_chunks_are_told_by_their_sums(tmp_path: Path) -> None:
    path = written(
        tmp_path / "a.h5",
        lambda file: file.create_dataset("x", data=np.arange(5000), chunks=(500,), fletcher32=True),
    )
    with h5py.File(path) as file:
        offset = file["x"].id.get_chunk_info(3).byte_offset
    data = bytearray(path.read_bytes())
    data[offset + 100] ^= 1
    path.write_bytes(data)
    refused(path, "array 'x' of .* can't be read")


def test_a_file_that_is_being_written_is_told(tmp_path: Path) -> None:
    path = written(tmp_path / "a.h5", lambda file: file.create_dataset("x", data=np.arange(3)))
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # as the library does in another process
        refused(path, "a program is writing it, or died while it was")
    assert only(path).rows == 3


def test_a_file_that_changes_is_told(tmp_path: Path) -> None:
    path = written(tmp_path / "a.h5", lambda file: file.create_dataset("x", data=np.arange(3)))
    table = only(path)
    tick(tmp_path)
    written(path, lambda file: file.create_dataset("x", data=np.arange(3) + 1))
    with pytest.raises(SourceError, match="was changed during the pack"):
        contents(table)


def test_without_h5py_it_is_said_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "a.h5", lambda file: file.create_dataset("x", data=np.arange(3)))
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(SourceError, match=r"pip install 'toolkit\[hdf5\]'"):
        only(path)
