"""Digests: the canonical encoding of docs/format.md, and no two samples that differ have the same one."""

from __future__ import annotations

import struct
from decimal import Decimal

import pyarrow as pa
import pytest
import xxhash
from format.arrow_values import batches, pure_columns
from format.pure_arrow import canonical
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.format.digest import sample_digests
from toolkit.format.media import IMAGE_TYPE
from toolkit.format.schema import DIGEST

SCHEMA = pa.schema([("__key__", pa.string()), ("image", IMAGE_TYPE), ("label", pa.int64())])
TEXT = st.text(max_size=20)


def digest(sample: dict[str, object]) -> bytes:
    (found,) = sample_digests(pa.RecordBatch.from_pylist([sample], SCHEMA))
    return found


def image(data: bytes | None, path: str | None) -> dict[str, object]:
    return {"bytes": data, "path": path}


SAMPLES = st.fixed_dictionaries(
    {
        "__key__": TEXT,
        "image": st.none() | st.builds(image, st.none() | st.binary(max_size=20), st.none() | TEXT),
        "label": st.none() | st.integers(-(2**63), 2**63 - 1),
    }
)


def expected(batch: pa.RecordBatch) -> list[bytes]:
    columns = pure_columns(batch)
    rows = [b"".join(canonical(field, values[row]) for field, values in columns) for row in range(batch.num_rows)]
    return [xxhash.xxh3_128(row).digest() for row in rows]


@settings(max_examples=300, deadline=None)
@given(batches())
def test_it_is_xxh3_of_the_canonical_encoding(batch: pa.RecordBatch) -> None:
    assert sample_digests(batch) == expected(batch)


@given(st.lists(SAMPLES, max_size=5))
def test_it_is_xxh3_of_the_canonical_encoding_of_images(samples: list[dict]) -> None:
    batch = pa.RecordBatch.from_pylist(samples, SCHEMA)
    assert sample_digests(batch) == expected(batch)
    assert all(len(one) == 16 for one in sample_digests(batch))


@given(SAMPLES, SAMPLES)
def test_samples_that_differ_have_other_digests(one: dict, other: dict) -> None:
    assert (digest(one) == digest(other)) == (one == other)


@settings(max_examples=100, deadline=None)
@given(batches(), st.data())
def test_a_row_has_the_digest_it_has_alone(batch: pa.RecordBatch, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, batch.num_rows))
    count = data.draw(st.integers(0, batch.num_rows - start))
    assert sample_digests(batch.slice(start, count)) == sample_digests(batch)[start : start + count]


def test_written_out_by_hand() -> None:
    key = b"\x07\0\0\0__key__" + b"\x01" + b"\x02\0\0\0\0\0\0\0" + b"\xc3\xa9"
    image = b"\x05\0\0\0image" + b"\x01" + b"\x01" + b"\x03\0\0\0\0\0\0\0" + b"abc" + b"\x00"
    label = b"\x05\0\0\0label" + b"\x01" + b"\xfe\xff\xff\xff\xff\xff\xff\xff"
    encoded = key + image + label
    sample = {"__key__": "é", "image": {"bytes": b"abc", "path": None}, "label": -2}
    assert digest(sample) == xxhash.xxh3_128(encoded).digest()


TWO = b"\x02\0\0\0\0\0\0\0"


@pytest.mark.parametrize(
    ("dtype", "value", "encoded"),
    [
        (pa.null(), None, b"\0"),
        (pa.uint8(), None, b"\0"),
        (pa.uint8(), 255, b"\1\xff"),
        (pa.float64(), 0.5, b"\1" + struct.pack("<d", 0.5)),
        (pa.float16(), 1.0, b"\1\x00\x3c"),
        (pa.bool_(), True, b"\1\1"),
        (pa.bool_(), False, b"\1\0"),
        (pa.decimal128(5, 2), Decimal("-0.01"), b"\1" + b"\xff" * 16),
        (pa.date32(), 1, b"\1\1\0\0\0"),
        (pa.binary(2), b"ab", b"\1ab"),
        (pa.large_string(), "é!", b"\1\3\0\0\0\0\0\0\0\xc3\xa9!"),
        (pa.list_(pa.int8()), [1, None], b"\1" + TWO + b"\1\1" + b"\0"),
        (pa.large_list(pa.bool_()), [], b"\1" + bytes(8)),
        (pa.list_(pa.binary(1), 2), [b"x", b"y"], b"\1" + TWO + b"\1x" + b"\1y"),
        (pa.struct([("a", pa.int8()), ("b", pa.null())]), {"a": 7, "b": None}, b"\1" + b"\1\7" + b"\0"),
        (pa.struct([]), {}, b"\1"),
        (pa.list_(pa.list_(pa.int8())), [[], None], b"\1" + TWO + b"\1" + bytes(8) + b"\0"),
    ],
)
def test_every_form_by_hand(dtype: pa.DataType, value: object, encoded: bytes) -> None:
    array = pa.array([value], pa.int32()).cast(dtype) if dtype == pa.date32() else pa.array([value], dtype)
    batch = pa.RecordBatch.from_arrays([array], names=["x"])
    assert sample_digests(batch) == [xxhash.xxh3_128(b"\1\0\0\0x" + encoded).digest()]


def test_text_moved_between_columns_changes_it() -> None:
    one = {"__key__": "ab", "image": {"bytes": b"c", "path": ""}, "label": None}
    other = {"__key__": "a", "image": {"bytes": b"bc", "path": ""}, "label": None}
    assert digest(one) != digest(other)


def test_the_digest_column_itself_is_left_out() -> None:
    plain = pa.RecordBatch.from_pylist([{"__key__": "k"}], pa.schema([("__key__", pa.string())]))
    marked = plain.add_column(1, DIGEST, pa.array([bytes(16)], pa.binary(16)))
    assert sample_digests(marked) == sample_digests(plain)
