"""Forms that toolkit's writer never gives a dataset and docs/format.md allows: both readers read the same values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from crafted import Batch, Crafted, Form
from format.pure_reader import PureReader
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import toolkit
from toolkit.checks.verify import verify
from toolkit.format.schema import Column, Kind

ROWS = {
    "__key__": pa.array(["a", "bc", "", "d"]),
    "number": pa.array([1, None, 3, 4], pa.int16()),
    "flag": pa.array([True, None, False, True]),
    "text": pa.array(["é", None, "", "xyz"]),
    "blob": pa.array([b"\xff", b"", None, b"1234567890"]),
    "items": pa.array([[1, None], None, [], [2, 3, 4]], pa.list_(pa.int32())),
    "words": pa.array([["a"], ["", None, "bcd"], None, []], pa.large_list(pa.string())),
    "pair": pa.array([{"a": 1.5, "b": "x"}, None, {"a": None, "b": None}, {"a": 2.0, "b": ""}]),
    "vector": pa.array([[1, 2], None, [3, 4], [5, None]], pa.list_(pa.uint8(), 2)),
}
KINDS = {"number": Kind.SCALAR, "flag": Kind.SCALAR, "text": Kind.TEXT, "blob": Kind.BYTES}


@pytest.fixture
def good(tmp_path: Path, commit_rows: Callable[..., str]) -> Path:
    columns = [
        Column(name=name, kind=KINDS.get(name, Kind.VALUE), arrow_type=str(array.type))
        for name, array in ROWS.items()
        if name != "__key__"
    ]
    commit_rows(tmp_path / "good", {"train": [[pa.RecordBatch.from_pydict(ROWS)]]}, columns=tuple(columns))
    return tmp_path / "good"


def same(root: Path, good: Path) -> None:
    assert repr(list(toolkit.open(root))) == repr(list(toolkit.open(good)))
    for name in ROWS:
        found, expected = (toolkit.open(one).filter(pc.field(name).is_valid()).keys() for one in (root, good))
        assert found == expected
    samples = list(PureReader(good).samples("train"))
    assert list(PureReader(root).samples("train")) == samples
    assert [PureReader(root).row("train", row) for row in range(len(samples))] == samples
    assert verify(root, full=True, jobs=1).findings == ()


def relaid(batch: Batch, first_large: int, rng: np.random.Generator) -> None:
    """Lay the buffers out anew: gaps of junk between all of them, those of large columns in any order."""
    order = [*range(first_large), *rng.permutation(range(first_large, len(batch.buffers))).tolist()]
    # What ends the head is in front of all that lies behind it, or else the head would end later.
    order.remove(first_large)
    order.insert(first_large, first_large)
    body, places = bytearray(), [[0, 0] for _ in batch.buffers]
    for number in order:
        body += rng.bytes(8 * int(rng.integers(3)))
        data = batch.buffer(number)
        places[number] = [len(body), len(data)]
        body += data + rng.bytes(-len(data) % 8)
    batch.body, batch.buffers = body + rng.bytes(8), places


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(st.integers(0, 2**32))
def test_buffers_anywhere(good: Path, tmp_path: Path, seed: int) -> None:
    crafted = Crafted.of(good)
    first = Form.of(crafted.schema, crafted.manifest).first_large
    assert first is not None
    relaid(crafted.batch(), first, np.random.default_rng(seed))
    crafted.write(tmp_path / "crafted")
    same(tmp_path / "crafted", good)


def test_junk_under_nulls_and_behind_bits(good: Path, tmp_path: Path) -> None:
    """Bytes and numbers where nothing is, and set bits behind the last row."""
    crafted = Crafted.of(good)
    batch = crafted.batch()
    validity, data = (batch.buffer(number) for number in (5, 6))
    assert validity[0] == 0b1101
    batch.put(5, bytes([validity[0] | 0xF0]))
    batch.put(6, data[:2] + b"\x7f\x7f" + data[4:])
    crafted.write(tmp_path / "crafted")
    same(tmp_path / "crafted", good)


def test_validity_where_nothing_is_null(good: Path, tmp_path: Path) -> None:
    """Of a column that may have nulls and has none; of keys, digests and tokens it is refused."""
    rows = {name: array.drop_null() if name == "number" else array for name, array in ROWS.items()}
    rows["number"] = pa.array([1, 2, 3, 4], pa.int16())
    crafted = Crafted.of(good)
    crafted.shard().batches[0] = with_rows(crafted, rows)
    crafted.write(tmp_path / "plain")
    batch = crafted.batch()
    assert batch.buffers[5][1] == 0
    batch.put(5, b"\x0f")
    crafted.write(tmp_path / "crafted")
    same(tmp_path / "crafted", tmp_path / "plain")


def with_rows(crafted: Crafted, rows: dict[str, pa.Array]) -> Batch:
    arrays = {**rows, "__digest__": pa.array([bytes(16)] * len(rows["__key__"]), pa.binary(16))}
    return Batch.of(pa.RecordBatch.from_arrays([arrays[name] for name in crafted.schema.names], schema=crafted.schema))


@pytest.mark.parametrize("name", ["__key__", "text", "blob", "items", "words"])
def test_offsets_that_begin_anywhere(good: Path, tmp_path: Path, name: str) -> None:
    """A few bytes, or items, in front that belong to no row."""
    crafted = Crafted.of(good)
    field = PureReader(good).schema[name]
    batch, width = crafted.batch(), "<i8" if name == "words" else "<i4"
    batch.put(field.offsets, batch.numbers(field.offsets, width) + 2)
    if field.data is not None:
        batch.put(field.data, b"##" + batch.buffer(field.data))
    else:
        (item,) = field.children
        bits = np.unpackbits(np.frombuffer(batch.buffer(item.validity), np.uint8), bitorder="little")
        batch.put(item.validity, np.packbits(np.concatenate(([0, 1], bits)), bitorder="little"))
        if name == "items":
            batch.put(item.data, bytes(8) + batch.buffer(item.data))
        else:
            ends = batch.numbers(item.offsets, "<i4")
            batch.put(item.offsets, np.concatenate((np.zeros(2, "<i4"), ends)))
    crafted.write(tmp_path / "crafted")
    same(tmp_path / "crafted", good)


def test_a_gap_in_front_of_a_record_batch(good: Path, tmp_path: Path) -> None:
    """Bytes that belong to nothing, in the hash of all that is in no body."""
    crafted = Crafted.of(good)
    crafted.shard().schema += b"#" * 64
    crafted.write(tmp_path / "crafted")
    reader = PureReader(tmp_path / "crafted")
    assert list(reader.samples("train")) == list(PureReader(good).samples("train"))
    assert repr(list(toolkit.open(tmp_path / "crafted"))) == repr(list(toolkit.open(good)))


def test_record_batches_without_rows(good: Path, tmp_path: Path) -> None:
    """In front, between and behind others, with offsets and without."""
    crafted = Crafted.of(good)
    empty = with_rows(crafted, {name: array.slice(0, 0) for name, array in ROWS.items()})
    bare = with_rows(crafted, {name: array.slice(0, 0) for name, array in ROWS.items()})
    bare.body, bare.buffers = bytearray(), [[0, 0] for _ in bare.buffers]
    (batch,) = crafted.shard().batches
    crafted.shard().batches = [bare, empty, batch, bare, empty]
    crafted.write(tmp_path / "crafted")
    same(tmp_path / "crafted", good)
