"""Offsets, counts and texts that a stranger wrote, every sum mended: an error, and no byte of anyone else's."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from crafted import Batch, Crafted
from keyed_rows import keyed

import toolkit
from toolkit.checks.verify import verify
from toolkit.errors import CorruptShardError, SourceError
from toolkit.format.layout import ListLayout, StructLayout, VariableLayout, column_layouts
from toolkit.format.sizes import MOST_EMPTY_ITEMS

CommitRows = Callable[..., str]

WRAPPED_32 = [0, 2**31 - 1, -(2**31), -200, 5]  # differences that are positive once they wrap around
WRAPPED_64 = [0, 2**63 - 1, -(2**63), -200, 5]
COLUMNS = {
    "list<binary>": pa.array([[b"a"], [b"b", b"c"], [], [b"d"]], pa.list_(pa.binary())),
    "list<uint8>": pa.array([[1], [2, 3], [], [4, 5]], pa.list_(pa.uint8())),
    "large_list<uint8>": pa.array([[1], [2, 3], [], [4, 5]], pa.large_list(pa.uint8())),
    "struct<list<string>>": pa.array([{"a": ["x"]}, {"a": ["y", "z"]}, {"a": []}, {"a": ["w", "v"]}]),
    "text": pa.array(["ab", "c", "", "de"]),
    "binary": pa.array([b"ab", b"c", b"", b"de"]),
    "large_binary": pa.array([b"ab", b"c", b"", b"de"], pa.large_binary()),
    "list<list<text>>": pa.array([[["ab"]], [["c"], []], [], [["d", "e"]]]),
}


def offsets_of(crafted: Crafted) -> tuple[int, int]:
    """The buffer of the outermost offsets of column x, and their width."""
    layout = column_layouts(crafted.schema)["x"]
    while isinstance(layout, StructLayout):
        layout = next(iter(layout.children.values()))
    assert isinstance(layout, ListLayout | VariableLayout)
    assert layout.offsets is not None
    return layout.offsets, layout.offset_width


def crafted_offsets(root: Path, commit_rows: CommitRows, array: pa.Array, offsets: Sequence[int] | None = None) -> Path:
    commit_rows(root / "good", {"train": [[keyed({"x": array})]]})
    crafted = Crafted.of(root / "good")
    number, width = offsets_of(crafted)
    if offsets is None:
        offsets = WRAPPED_32 if width == 4 else WRAPPED_64
    crafted.batch().put(number, np.array(offsets, f"<i{width}"))
    crafted.write(root / "crafted")
    return root / "crafted"


@pytest.mark.parametrize("kind", COLUMNS)
def test_offsets_that_wrap_around(tmp_path: Path, commit_rows: CommitRows, kind: str) -> None:
    root = crafted_offsets(tmp_path, commit_rows, COLUMNS[kind])
    ds = toolkit.open(root)
    for row in range(1, 4):
        with pytest.raises(CorruptShardError, match=f"row {row}, key 'k{row}', column x: a value's offsets"):
            ds[row]
    with pytest.raises(CorruptShardError, match="offsets point outside"):
        ds.filter(pc.field("x").is_valid())
    with pytest.raises(CorruptShardError, match="offsets point outside"):
        list(ds.loader(batch_size=4))
    assert verify(root, full=True).findings


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("offsets", [[5, 4, 3, 2, 1], [-1, 0, 1, 2, 3], [0, 1, 1 << 20, 2, 3], [0, 0, 0, 0, 100]])
def test_offsets_out_of_order_or_range(tmp_path: Path, commit_rows: CommitRows, kind: str, offsets: list[int]) -> None:
    ds = toolkit.open(crafted_offsets(tmp_path, commit_rows, COLUMNS[kind], offsets))
    with pytest.raises(CorruptShardError, match="offsets point outside"):
        ds.filter(pc.field("x").is_valid())
    with pytest.raises(CorruptShardError, match="offsets point outside"):
        list(ds.loader(batch_size=4))


@pytest.mark.parametrize(
    "item", [pa.null(), pa.struct([]), pa.binary(0), pa.list_(pa.null(), 1), pa.struct([("a", pa.null())])]
)
def test_items_that_take_no_bytes_are_counted(tmp_path: Path, commit_rows: CommitRows, item: pa.DataType) -> None:
    array = pa.array([[None] * 3, []], pa.large_list(item))
    root = crafted_offsets(tmp_path, commit_rows, array, [0, 0, 2**35])
    ran = subprocess.run(
        [sys.executable, "-m", "toolkit.cli.main", "head", str(root)], capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 4
    assert "more items than format 1 allows" in ran.stderr
    assert verify(root, full=True).findings


def test_a_fixed_list_of_nothing(tmp_path: Path, commit_rows: CommitRows) -> None:
    commit_rows(tmp_path / "good", {"train": [[keyed({"x": pa.array([[None]], pa.list_(pa.null(), 1))})]]})
    crafted = Crafted.of(tmp_path / "good")
    field = pa.field("x", pa.list_(pa.list_(pa.null(), 2**31 - 1), 2**31 - 1))
    crafted.set_schema(crafted.schema.set(2, field))
    batch = crafted.batch()
    batch.buffers.append([0, 0])
    crafted.write(tmp_path / "crafted")
    with pytest.raises(CorruptShardError, match="more items than format 1 allows"):
        toolkit.open(tmp_path / "crafted")[0]


def test_as_many_empty_items_as_are_allowed_can_be_packed_and_read(tmp_path: Path, commit_rows: CommitRows) -> None:
    """The writer cuts record batches so that no batch has more; a row alone that does is refused."""
    rows = pa.array([[None] * (MOST_EMPTY_ITEMS // 4)] * 9, pa.list_(pa.null()))
    commit_rows(tmp_path / "good", {"train": [[keyed({"x": rows})]]}, batch_body_bytes=16 << 20)
    ds = toolkit.open(tmp_path / "good")
    assert [len(sample["x"]) for sample in ds] == [MOST_EMPTY_ITEMS // 4] * 9
    assert ds.index.batches > 2
    assert len(ds.filter(pc.field("x").is_valid())) == 9
    with pytest.raises(SourceError, match="1,048,577 items that take no bytes"):
        commit_rows(
            tmp_path / "bad", {"train": [[keyed({"x": pa.array([[None] * (MOST_EMPTY_ITEMS + 1)], rows.type)})]]}
        )


@pytest.mark.parametrize("dtype", [pa.string(), pa.large_string()])
@pytest.mark.parametrize("data", [b"\xffbcd", b"\xc3\xa9\xc3\xa9"])
def test_text_that_is_not_utf8(tmp_path: Path, commit_rows: CommitRows, dtype: pa.DataType, data: bytes) -> None:
    """Of the second, each value cuts a character in two, though all of them together are UTF-8."""
    plain, listed = pa.array(["ab", "cd"], dtype), pa.array([["ab"], ["cd"]], pa.list_(dtype))
    for name, array in (("plain", plain), ("listed", listed)):
        commit_rows(tmp_path / name, {"train": [[keyed({"x": array})]]})
        crafted = Crafted.of(tmp_path / name)
        batch = crafted.batch()
        batch.put(len(batch.buffers) - 1, data)
        if data.startswith(b"\xc3"):
            batch.put(len(batch.buffers) - 2, np.array([0, 1, 4], "<i8" if dtype == pa.large_string() else "<i4"))
        crafted.write(tmp_path / f"{name}-crafted", digests=False)
        ds = toolkit.open(tmp_path / f"{name}-crafted")
        with pytest.raises(CorruptShardError, match="row 0, key 'k0', column x: a text is not UTF-8"):
            ds[0]
        with pytest.raises(CorruptShardError, match="a text is not UTF-8"):
            list(ds.loader(batch_size=2))
        with pytest.raises(CorruptShardError, match="a text is not UTF-8"):
            ds.filter(pc.field("x").is_valid())
        assert verify(tmp_path / f"{name}-crafted", full=True).findings


def test_a_key_that_is_not_utf8(dataset: Path, tmp_path: Path) -> None:
    crafted = Crafted.of(dataset)
    batch = crafted.batch("train")
    batch.put(2, b"\xff" * len(batch.buffer(2)))
    crafted.write(tmp_path / "crafted", digests=False)
    ds = toolkit.open(tmp_path / "crafted", split="train")
    for read in (lambda: ds[0], ds.keys, lambda: next(iter(ds.loader(batch_size=2))).sample_keys):
        with pytest.raises(CorruptShardError, match="column __key__: a text is not UTF-8"):
            read()
    assert verify(tmp_path / "crafted", full=True).findings


def test_a_bool_column_without_bytes(tmp_path: Path, commit_rows: CommitRows) -> None:
    commit_rows(tmp_path / "good", {"train": [[keyed({"x": pa.array([[True], [False]])})]]})
    crafted = Crafted.of(tmp_path / "good")
    batch = crafted.batch()
    batch.put(len(batch.buffers) - 3, np.array([0, 1, 2**31 - 1], "<i4"))
    batch.buffers[-1][1] = 0
    crafted.write(tmp_path / "crafted")
    with pytest.raises(CorruptShardError, match="offsets point outside"):
        toolkit.open(tmp_path / "crafted")[1]


@pytest.mark.parametrize("zone", ["Mars/Phobos", "../../etc/passwd", "+99:99"])
def test_times_of_a_zone_that_nobody_knows(tmp_path: Path, commit_rows: CommitRows, zone: str) -> None:
    commit_rows(tmp_path / "ds", {"train": [[keyed({"x": pa.array([5], pa.timestamp("s", zone))})]]})
    assert toolkit.open(tmp_path / "ds")[0]["x"] == np.datetime64(5, "s")


def test_rows_of_a_batch_are_taken_from_its_message(dataset: Path, tmp_path: Path) -> None:
    crafted = Crafted.of(dataset)
    crafted.shard("train").batches[0] = Batch.of(crafted.batch("train").records(crafted.schema).slice(0, 1))
    crafted.batch("train").line["rows"] = 2
    for key in ("counts", "missing"):
        crafted.say("splits", "train", "labels", "label", key, value=[6, 5] if key == "counts" else 0)
    crafted.write(tmp_path / "crafted")
    ds = toolkit.open(tmp_path / "crafted", split="train")
    with pytest.raises(CorruptShardError, match="1 rows, its shard table says 2"):
        ds[0]
