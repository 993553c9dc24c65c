"""What a record batch message says of its body: read from the flatbuffer, every read inside of it.

pyarrow reads metadata and body together; we need to know where buffers lie before a single body byte is trusted. The
few fields are read straight from the flatbuffer (Message.fbs, Schema.fbs of the Arrow format; a table is an offset to a
vtable of 16-bit field offsets, https://flatbuffers.dev/internals/). The pyarrow line that says the same of a batch that
is read: [(0 if b is None else b.size) for array in batch.columns for b in array.buffers()]
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t
from libc.string cimport memcpy, memset

import numpy as np

cdef enum:
    _RECORD_BATCH = 3  # MessageHeader.RecordBatch
    _VERSION_5 = 4  # MetadataVersion.V5
    _MOST_PAIRS = 64  # of custom metadata; each may name the same long text as all others
    _ALIGNMENT = 8

cdef uint8_t _DIGITS[256]  # what each letter of base64 stands for; 255: nothing


cdef _fill_digits():
    cdef const char *letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    cdef int i
    memset(_DIGITS, 255, sizeof(_DIGITS))
    for i in range(64):
        _DIGITS[<uint8_t>letters[i]] = <uint8_t>i


_fill_digits()


cdef struct _Flat:
    const uint8_t *data
    int64_t size


cdef int _inside(const _Flat *flat, int64_t at, int64_t size) except -1:
    if at < 0 or size < 0 or at > flat.size or size > flat.size - at:
        raise ValueError("a damaged message: it points outside of itself")
    return 0


cdef uint32_t _word(const _Flat *flat, int64_t at) except? 0xFFFFFFFF:
    cdef uint32_t value
    _inside(flat, at, 4)
    memcpy(&value, flat.data + at, 4)
    return value


cdef int64_t _long(const _Flat *flat, int64_t at) except? -1:
    """The int64 at a field; 0 where there is none."""
    cdef int64_t value
    if at < 0:
        return 0
    _inside(flat, at, 8)
    memcpy(&value, flat.data + at, 8)
    return value


cdef int64_t _field(const _Flat *flat, int64_t table, int slot) except -2:
    """Return where field `slot` of the table lies, or -1 when it has its default."""
    cdef int64_t vtable = table - <int32_t>_word(flat, table)
    cdef uint16_t size, offset
    _inside(flat, vtable, 2)
    memcpy(&size, flat.data + vtable, 2)
    if 4 + 2 * slot >= size:
        return -1
    _inside(flat, vtable + 4 + 2 * slot, 2)
    memcpy(&offset, flat.data + vtable + 4 + 2 * slot, 2)
    return table + offset if offset else -1


cdef int64_t _follow(const _Flat *flat, int64_t at) except -1:
    return at + _word(flat, at)


cdef int64_t _vector(const _Flat *flat, int64_t at, int64_t item_bytes, int64_t *count) except -1:
    """Return where the items of a vector begin, and how many there are; none of one that is not there."""
    cdef int64_t start
    count[0] = 0
    if at < 0:
        return 0
    start = _follow(flat, at) + 4
    count[0] = _word(flat, start - 4)
    if count[0] > (flat.size - start) // item_bytes:
        raise ValueError("a vector that runs over the end")
    return start


cdef bytes _string(const _Flat *flat, int64_t at):
    cdef int64_t size, start = _vector(flat, at, 1, &size)
    return PyBytes_FromStringAndSize(<const char *>(flat.data + start), size)


cdef class BatchMessage:
    """An encapsulated record batch message: 0xFFFFFFFF, int32 length, and so many bytes of a flatbuffer. Immutable.

    Attributes:
        rows: Rows of the batch.
        body_bytes: Length of the body.
        buffers: int64 (n, 2): start in the body and length of each buffer. Any numbers at all: Body refuses those that
            lie outside of the body.
        metadata: Custom metadata of the message, text -> bytes.

    Raises:
        ValueError: It is no such message, or has a compressed body.
    """

    cdef readonly int64_t rows
    cdef readonly int64_t body_bytes
    cdef readonly object buffers
    cdef readonly dict metadata

    def __cinit__(self, bytes message not None):
        cdef _Flat flat
        cdef int64_t size = len(message), batch, count, start, at, pair, key, value, i
        cdef const uint8_t *data = <const uint8_t *>PyBytes_AS_STRING(message)
        cdef uint32_t marker
        cdef int32_t length
        cdef uint16_t version = 0
        cdef int64_t[:, ::1] places
        if size >= 8:
            memcpy(&marker, data, 4)
            memcpy(&length, data + 4, 4)
        if size < 16 or marker != 0xFFFFFFFF or length != size - 8:
            raise ValueError("no encapsulated message")
        flat.data, flat.size = data + 8, length
        cdef int64_t table = _word(&flat, 0)
        at = _field(&flat, table, 0)
        if at >= 0:
            _inside(&flat, at, 2)
            memcpy(&version, flat.data + at, 2)
        if version != _VERSION_5:
            raise ValueError("metadata of another version than 5")
        at = _field(&flat, table, 1)
        batch = _field(&flat, table, 2)
        if at < 0 or batch < 0:
            raise ValueError("not a record batch message")
        _inside(&flat, at, 1)
        if flat.data[at] != _RECORD_BATCH:
            raise ValueError("not a record batch message")
        batch = _follow(&flat, batch)
        if _field(&flat, batch, 3) >= 0:
            raise ValueError("a compressed body, which format 1 doesn't have")
        self.rows = _long(&flat, _field(&flat, batch, 0))
        self.body_bytes = _long(&flat, _field(&flat, table, 3))
        start = _vector(&flat, _field(&flat, batch, 2), 16, &count)
        self.buffers = np.empty((count, 2), np.int64)
        if count:
            places = self.buffers
            memcpy(&places[0, 0], flat.data + start, <size_t>(count * 16))
        self.metadata = {}
        start = _vector(&flat, _field(&flat, table, 4), 4, &count)
        if count > _MOST_PAIRS:
            raise ValueError(f"{count} pairs of custom metadata")
        for i in range(count):
            pair = _follow(&flat, start + 4 * i)
            key, value = _field(&flat, pair, 0), _field(&flat, pair, 1)
            if key >= 0:
                self.metadata[_string(&flat, key).decode()] = b"" if value < 0 else _string(&flat, value)

    def places_fault(self, const int32_t[::1] empty not None, int64_t head, int64_t head_bytes):
        """Say what is wrong with the places of the buffers, or None.

        Args:
            empty: Numbers of the buffers that have no bytes.
            head: How many buffers lie in the head.
            head_bytes: Where the head ends.
        """
        cdef const int64_t[:, ::1] places = self.buffers
        cdef int64_t i
        if head < 0 or head > places.shape[0]:
            raise ValueError(f"{head} buffers of {places.shape[0]}")
        for i in range(places.shape[0]):
            if places[i, 0] % _ALIGNMENT:
                return f"a buffer at no multiple of {_ALIGNMENT} bytes"
        for i in range(head):
            if places[i, 0] < 0 or places[i, 0] > head_bytes or places[i, 1] > head_bytes - places[i, 0]:
                return "a buffer of its head lies behind it"
        for i in range(empty.shape[0]):
            if empty[i] < 0 or empty[i] >= places.shape[0]:
                raise IndexError(f"buffer {empty[i]} of {places.shape[0]}")
            if places[empty[i], 1]:
                return "nulls in a column that has none"
        return None


def decode_base64(bytes text not None):
    """Return what standard base64 says: base64.b64decode(text, validate=True). Raises ValueError."""
    cdef int64_t size = len(text), groups = size // 4, i, padding
    cdef const uint8_t *letters = <const uint8_t *>PyBytes_AS_STRING(text)
    cdef uint8_t a, b, c, d, wrong = 0
    if size % 4:
        raise ValueError(f"base64 of {size} letters, which is no multiple of 4")
    if size == 0:
        return b""
    padding = 2 if letters[size - 2] == c"=" else 1 if letters[size - 1] == c"=" else 0
    cdef bytes data = PyBytes_FromStringAndSize(NULL, groups * 3)
    cdef uint8_t *out = <uint8_t *>PyBytes_AS_STRING(data)
    for i in range(groups):
        a, b = _DIGITS[letters[4 * i]], _DIGITS[letters[4 * i + 1]]
        c, d = _DIGITS[letters[4 * i + 2]], _DIGITS[letters[4 * i + 3]]
        if i == groups - 1 and padding:
            d = 0 if letters[4 * i + 3] == c"=" else 255
            c = 0 if padding == 2 else c
        wrong |= a | b | c | d
        out[3 * i] = <uint8_t>(a << 2 | b >> 4)
        out[3 * i + 1] = <uint8_t>(b << 4 | c >> 2)
        out[3 * i + 2] = <uint8_t>(c << 6 | d)
    if wrong > 63:
        raise ValueError("a letter that is not of base64")
    return data[: groups * 3 - padding] if padding else data
