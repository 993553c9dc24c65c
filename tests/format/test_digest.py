"""Digests: the canonical encoding of docs/format.md, and no two samples that differ have the same one."""

from __future__ import annotations

import pyarrow as pa
import pytest
import xxhash
from format.pure_reader import canonical
from hypothesis import given
from hypothesis import strategies as st

from toolkit.format.digest import DigestEncoder
from toolkit.format.schema import DIGEST, arrow_schema, image_column, label_column

SCHEMA = arrow_schema((image_column("image"), label_column("label", "0" * 64)), {"label": ()})
ENCODER = DigestEncoder(SCHEMA)

TEXT = st.text(max_size=20)


def image(data: bytes | None, path: str | None) -> dict[str, object]:
    return {"bytes": data, "path": path}


SAMPLES = st.fixed_dictionaries(
    {
        "__key__": TEXT,
        "image": st.none() | st.builds(image, st.none() | st.binary(max_size=20), st.none() | TEXT),
        "label": st.none() | st.integers(-(2**63), 2**63 - 1),
    }
)


@given(SAMPLES)
def test_it_is_xxh3_of_the_canonical_encoding(sample: dict) -> None:
    encoded = b"".join(canonical(name, sample[name]) for name in ("__key__", "image", "label"))
    assert ENCODER.digest(sample) == xxhash.xxh3_128(encoded).digest()
    assert len(ENCODER.digest(sample)) == 16


@given(SAMPLES, SAMPLES)
def test_samples_that_differ_have_other_digests(one: dict, other: dict) -> None:
    assert (ENCODER.digest(one) == ENCODER.digest(other)) == (one == other)


def test_written_out_by_hand() -> None:
    key = b"\x07\0\0\0__key__" + b"\x01" + b"\x02\0\0\0\0\0\0\0" + b"\xc3\xa9"
    image = b"\x05\0\0\0image" + b"\x01" + b"\x01" + b"\x03\0\0\0\0\0\0\0" + b"abc" + b"\x00"
    label = b"\x05\0\0\0label" + b"\x01" + b"\xfe\xff\xff\xff\xff\xff\xff\xff"
    encoded = key + image + label
    sample = {"__key__": "é", "image": {"bytes": b"abc", "path": None}, "label": -2}
    assert ENCODER.digest(sample) == xxhash.xxh3_128(encoded).digest()


def test_text_moved_between_columns_changes_it() -> None:
    one = {"__key__": "ab", "image": {"bytes": b"c", "path": ""}, "label": None}
    other = {"__key__": "a", "image": {"bytes": b"bc", "path": ""}, "label": None}
    assert ENCODER.digest(one) != ENCODER.digest(other)


def test_order_of_keys_and_kind_of_bytes_do_not_matter() -> None:
    one = {"__key__": "k", "image": {"bytes": b"xy", "path": "p"}, "label": 1}
    other = {DIGEST: b"?", "label": 1, "image": {"path": "p", "bytes": memoryview(b"xy")}, "__key__": "k"}
    assert ENCODER.digest(one) == ENCODER.digest(other)


def test_a_type_without_an_encoding_is_refused() -> None:
    with pytest.raises(TypeError, match="no canonical encoding for double"):
        DigestEncoder(pa.schema([("x", pa.float64())])).digest({"x": 0.5})
