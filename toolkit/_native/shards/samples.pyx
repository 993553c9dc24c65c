"""Whole samples as dicts, one at a time: what ds[i] returns. Every byte is checked as in body.pyx.

A dict of Python values costs about as much to make as the numpy arrays of one row of fetch.pyx's calls, so reading
one row has its own way: no array, no list, one search and one copy a value.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from toolkit._native.shards.body cimport (
    TK_CHUNK_BYTES, TK_READ_NULL, TK_READ_OK, TK_READ_RANGE, TK_READ_TEXT, Body, checked_copy, fixed_value, is_null, tk_body, value_span,
)
from toolkit._native.shards.locate cimport FileIdentity, Locator

cdef enum:
    RELEASE_BYTES = 1 << 16  # below, giving the GIL away costs more than the copy
    TK_OTHER = 0
    TK_BINARY = 1
    TK_TEXT = 2
    TK_BOOL = 3

# How a column's values are read; numbers have the codes of the struct module instead: bBhHiIqQfd.
OTHER = TK_OTHER
BINARY = TK_BINARY
TEXT = TK_TEXT
BOOL = TK_BOOL


cdef class _Column:
    """Where one column's values lie: buffer numbers as in toolkit.format.layout."""

    cdef str name
    cdef int code
    cdef int64_t levels
    cdef int32_t validity[8]
    cdef int32_t offsets
    cdef int32_t data
    cdef int64_t width
    cdef int64_t highest


cdef class SampleReader:
    """Reads rows of a split as dicts of Python values. Immutable; safe from any thread.

    Args:
        locator: Finds their record batches.
    """

    cdef Locator _locator
    cdef list _columns

    def __init__(self, Locator locator not None):
        self._locator = locator
        self._columns = []

    def add(
        self, str name not None, int code, const int32_t[::1] validity not None, int32_t offsets, int32_t data,
        int64_t width,
    ):
        """Add a column, behind those that were added before.

        Args:
            name: Its key in the dicts.
            code: OTHER (the dict gets None), BINARY, TEXT, BOOL, or a number's struct code.
            validity: Buffers of the bitmaps that decide whether a value is there, outermost first.
            offsets, width: With BINARY and TEXT: the buffer of offsets and their width, 4 or 8. Else `width` is the number's.
            data: The buffer of values.
        """
        cdef _Column column = _Column()
        cdef Py_ssize_t i
        if validity.shape[0] > 8:
            raise ValueError(f"column {name!r} lies more than 8 structs deep")
        column.name = name
        column.code = code
        column.levels = validity.shape[0]
        column.offsets = offsets
        column.data = data
        column.width = width
        column.highest = max(offsets, data)
        for i in range(validity.shape[0]):
            column.validity[i] = validity[i]
            column.highest = max(column.highest, validity[i])
        if min(offsets, data, *validity, 0) < 0:
            raise ValueError("a buffer index is negative")
        self._columns.append(column)

    def read(self, int64_t row):
        """Return the row's values by column; or (column, status, chunk) where one is not readable.

        `column` is the number of the first such column, or -1 when the shard's file may have changed since it was opened:
        locate the row, which opens it anew, and read again.
        """
        cdef int64_t inner = 0, chunk = -1
        cdef int status
        cdef _Column column
        cdef object value
        cdef Py_ssize_t number = 0
        cdef dict sample = {}
        cdef tuple opened = self._locator.find(row, &inner)
        cdef Body body = opened[0]
        cdef FileIdentity identity = opened[1]
        if identity.changed_lately():
            return -1, TK_READ_OK, -1
        for column in self._columns:
            if column.highest >= body.buffer_count:
                raise ValueError(f"buffer {column.highest} of {body.buffer_count}")
            status = TK_READ_NULL
            if column.code == TK_OTHER:
                value = None
            elif column.code == TK_BINARY or column.code == TK_TEXT:
                value = _variable(body, column, inner, &status, &chunk)
            elif column.code == TK_BOOL:
                value = _bit(body, column, inner, &status, &chunk)
            else:
                value = _number(body, column, inner, &status, &chunk)
            if status > TK_READ_NULL:
                return number, status, chunk
            sample[column.name] = value
            number += 1
        return sample


cdef object _variable(Body body, _Column column, int64_t row, int *status, int64_t *chunk):
    cdef uint8_t tmp[TK_CHUNK_BYTES]
    cdef int64_t start = 0, length = 0
    cdef uint8_t *place
    status[0] = value_span(
        &body._body, body._buffers, row, column.validity, column.levels, column.offsets, column.data, column.width,
        &start, &length, tmp, chunk,
    )
    if status[0] != TK_READ_OK:
        return None
    cdef bytes data = PyBytes_FromStringAndSize(NULL, length)
    place = <uint8_t *>PyBytes_AS_STRING(data)
    if length >= RELEASE_BYTES:
        with nogil:
            status[0] = checked_copy(&body._body, start, length, place, tmp, chunk)
    elif length:
        status[0] = checked_copy(&body._body, start, length, place, tmp, chunk)
    if status[0] != TK_READ_OK:
        return None
    if column.code == TK_BINARY:
        return data
    try:
        return PyUnicode_DecodeUTF8(<char *>place, length, NULL)
    except UnicodeDecodeError:
        status[0] = TK_READ_TEXT
        return None


cdef object _bit(Body body, _Column column, int64_t row, int *status, int64_t *chunk):
    cdef uint8_t tmp[TK_CHUNK_BYTES]
    cdef uint8_t byte
    cdef const int64_t *place = body._buffers + 2 * column.data
    status[0] = is_null(&body._body, body._buffers, column.validity, column.levels, row, tmp, chunk)
    if status[0] != TK_READ_OK:
        return None
    if (row >> 3) >= place[1]:
        status[0] = TK_READ_RANGE
        return None
    status[0] = checked_copy(&body._body, place[0] + (row >> 3), 1, &byte, tmp, chunk)
    return bool((byte >> (row & 7)) & 1) if status[0] == TK_READ_OK else None


cdef object _number(Body body, _Column column, int64_t row, int *status, int64_t *chunk):
    cdef uint8_t tmp[TK_CHUNK_BYTES]
    cdef uint8_t raw[8]
    status[0] = fixed_value(
        &body._body, body._buffers, row, column.validity, column.levels, column.data, column.width, raw, tmp, chunk
    )
    return _python_number(column.code, raw) if status[0] == TK_READ_OK else None


cdef object _python_number(int code, const uint8_t *raw):
    cdef int16_t i16
    cdef uint16_t u16
    cdef int32_t i32
    cdef uint32_t u32
    cdef int64_t i64
    cdef uint64_t u64
    cdef float f32
    cdef double f64
    if code == c"q":
        memcpy(&i64, raw, 8)
        return i64
    if code == c"f":
        memcpy(&f32, raw, 4)
        return f32
    if code == c"d":
        memcpy(&f64, raw, 8)
        return f64
    if code == c"i":
        memcpy(&i32, raw, 4)
        return i32
    if code == c"B":
        return raw[0]
    if code == c"b":
        return <int8_t>raw[0]
    if code == c"h":
        memcpy(&i16, raw, 2)
        return i16
    if code == c"H":
        memcpy(&u16, raw, 2)
        return u16
    if code == c"I":
        memcpy(&u32, raw, 4)
        return u32
    memcpy(&u64, raw, 8)
    return u64
