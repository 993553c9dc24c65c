"""Record batch messages: the same as pyarrow says, and only ValueError for anything else."""

from __future__ import annotations

import base64
import binascii
import contextlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toolkit._native.shards.message import BatchMessage, decode_base64

BATCH = pa.record_batch({"a": ["x", None, "yz"], "b": [1, 2, 3]})


def message_of(batch: pa.RecordBatch, metadata: dict[str, str] | None = None, **options: object) -> bytes:
    """The message of `batch` without its body."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_batch(batch, custom_metadata=metadata)
    data = sink.getvalue().to_pybytes()
    start = 8 + int.from_bytes(data[4:8], "little")
    return data[start : start + 8 + int.from_bytes(data[start + 4 : start + 8], "little")]


GOOD = message_of(BATCH, {"toolkit.crc32c": "abcd"})


def test_what_a_message_says() -> None:
    message = BatchMessage(GOOD)
    assert message.rows == 3
    assert message.metadata == {"toolkit.crc32c": b"abcd"}
    assert message.body_bytes % 8 == 0
    sizes = [0 if buffer is None else buffer.size for array in BATCH.columns for buffer in array.buffers()]
    assert [int(length) for _, length in message.buffers] == sizes
    assert all(start % 8 == 0 and start + length <= message.body_bytes for start, length in message.buffers)


def test_a_message_without_metadata_or_columns() -> None:
    assert BatchMessage(message_of(BATCH)).metadata == {}
    empty = BatchMessage(message_of(pa.RecordBatch.from_arrays([], names=[])))
    assert (empty.rows, empty.body_bytes, empty.buffers.shape) == (0, 0, (0, 2))


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=2000), max_size=4))
def test_custom_metadata_of_any_text(metadata: dict[str, str]) -> None:
    found = BatchMessage(message_of(BATCH, metadata)).metadata
    assert found == {key: value.encode() for key, value in metadata.items()}


def test_what_format_1_has_not_is_refused() -> None:
    with pytest.raises(ValueError, match="compressed"):
        BatchMessage(message_of(BATCH, compression="lz4"))
    schema = BATCH.schema.serialize().to_pybytes()
    with pytest.raises(ValueError, match="not a record batch"):
        BatchMessage(schema)


@pytest.mark.parametrize("length", [-8, -1, 1, 8])
def test_a_message_is_as_long_as_it_says(length: int) -> None:
    """Bytes of a body behind it, hashed with it, would be no body's."""
    with pytest.raises(ValueError, match="no encapsulated message"):
        BatchMessage((GOOD + bytes(8))[: len(GOOD) + length])


def test_an_older_version_of_metadata_is_refused() -> None:
    old = message_of(BATCH, metadata_version=pa.ipc.MetadataVersion.V4)
    with pytest.raises(ValueError, match="another version than 5"):
        BatchMessage(old)


def parses_or_refuses(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        message = BatchMessage(data)
        assert message.buffers.dtype == np.int64
        assert message.buffers.ndim == 2


def test_every_cut_and_every_flip() -> None:
    for cut in range(len(GOOD)):
        with pytest.raises(ValueError, match=r"."):
            BatchMessage(GOOD[:cut])
    for at in range(len(GOOD)):
        for bit in range(8):
            data = bytearray(GOOD)
            data[at] ^= 1 << bit
            parses_or_refuses(bytes(data))


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    parses_or_refuses(data)
    parses_or_refuses(b"\xff\xff\xff\xff" + len(data).to_bytes(4, "little") + data)


WORDS = st.sampled_from([0, 1, 4, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]) | st.integers(0, 400)


@given(st.lists(st.tuples(st.integers(2, len(GOOD) // 4 - 1), WORDS), min_size=1, max_size=3))
def test_any_word_replaced(changes: list[tuple[int, int]]) -> None:
    data = bytearray(GOOD)
    for word, value in changes:
        data[4 * word : 4 * word + 4] = value.to_bytes(4, "little")
    parses_or_refuses(bytes(data))


@pytest.mark.parametrize("start", [-8, -(2**63), 2**62, 2**63 - 8])
def test_a_buffer_of_the_head_that_begins_nowhere(start: int) -> None:
    """With a start far below 0, the room behind it wrapped around."""
    where = BatchMessage(GOOD).buffers[1].tobytes()
    assert GOOD.count(where) == 1
    message = BatchMessage(GOOD.replace(where, start.to_bytes(8, "little", signed=True) + where[8:]))
    assert message.buffers[1, 0] == start
    assert message.places_fault(np.empty(0, np.int32), 3, message.body_bytes) == "a buffer of its head lies behind it"


LETTERS = st.text("Ab9+/=-\n", max_size=12).map(str.encode)


@given(st.binary(max_size=50).map(base64.b64encode) | LETTERS | st.binary(max_size=12))
@example(b"9999=")
def test_base64_is_what_python_says(text: bytes) -> None:
    """But for padding that Python takes where none may be."""
    try:
        expected: bytes | None = base64.b64decode(text, validate=True)
    except binascii.Error:
        expected = None
    try:
        found: bytes | None = decode_base64(text)
    except ValueError as error:
        assert "base64" in str(error)  # noqa: PT017 - either may be
        found = None
    assert found == expected or (found is None and expected is not None and base64.b64encode(expected) != text)
