"""Values of rows copied out of record batch bodies, many in one call: fixed-width ones, and bytes of any length.

The numpy line that says the same as fetch_fixed, for a body that is known to be good:
    values = np.frombuffer(body, dtype, offset=buffers[data][0])[rows]
and as fetch_binary and fetch_bytes:
    offsets = np.frombuffer(body, "<i4", offset=buffers[offsets][0]); body[data + offsets[r] : data + offsets[r + 1]]
Every byte comes through checked_copy of body.pyx.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc

from toolkit._native.shards.body cimport (
    TK_CHUNK_BYTES, TK_READ_NULL, TK_READ_OK, UnpackedRows, checked_copy, fixed_value, highest_buffer, value_span,
)


cdef class FetchBuffer:
    """Memory that fetch_binary fills; grows to the largest part of a batch and is reused. One thread at a time.

    Attributes:
        nbytes: What it has.
        room: None, or what is called with the bytes that it is going to have, before it grows; what it raises is raised.
    """

    def __cinit__(self):
        self._data = NULL
        self.nbytes = 0

    def __dealloc__(self):
        free(self._data)

    cdef int _reserve(self, int64_t n) except -1:
        if n > self.nbytes:
            if self.room is not None:
                self.room(n)
            free(self._data)
            self.nbytes = 0
            self._data = <uint8_t *>malloc(<size_t>n)
            if self._data == NULL:
                raise MemoryError(f"no memory for {n} bytes of fetched samples")
            self.nbytes = n
        return 0

    def take(self, uint64_t address, int64_t length):
        """Return a bytes copy of a fetched value (an address and length that fetch_binary gave)."""
        cdef uint64_t first = <uint64_t>self._data
        if length < 0 or address < first or address + <uint64_t>length > first + <uint64_t>self.nbytes:
            raise ValueError("not a value of this buffer")
        return (<const char *>address)[:length]


def fetch_fixed(
    list bodies not None, const int64_t[::1] rows not None, const int32_t[::1] validity not None, int32_t data,
    int64_t width, uint8_t[::1] out not None, int32_t[::1] statuses not None, int64_t[::1] bad_chunks not None,
):
    """Copy fixed-width values to `out` (len(rows) * width bytes). A null leaves zeros and the status READ_NULL.

    Returns how many rows are neither good nor null; `statuses` and `bad_chunks` say which and where.
    """
    cdef int64_t n = rows.shape[0], i, failed = 0, levels = validity.shape[0]
    cdef uint8_t tmp[TK_CHUNK_BYTES]
    if width <= 0 or out.shape[0] % width or out.shape[0] // width != n or statuses.shape[0] != n or bad_chunks.shape[0] != n:
        raise ValueError("out, statuses and bad_chunks must fit the rows")
    cdef UnpackedRows unpacked = UnpackedRows(bodies, rows, highest_buffer(validity, data, 0))
    if n == 0:
        return 0
    cdef const int32_t *validity_p = &validity[0] if levels else NULL
    out[:] = 0
    with nogil:
        for i in range(n):
            bad_chunks[i] = -1
            statuses[i] = fixed_value(
                unpacked.bodies[i], unpacked.buffers[i], rows[i], validity_p, levels, data, width, &out[i * width],
                tmp, &bad_chunks[i],
            )
            failed += statuses[i] > TK_READ_NULL
    return failed


def fetch_binary(
    list bodies not None, const int64_t[::1] rows not None, const int32_t[::1] validity not None, int32_t offsets,
    int32_t data, int64_t offset_width, FetchBuffer into not None, uint64_t[::1] addresses not None,
    int64_t[::1] lengths not None, int32_t[::1] statuses not None, int64_t[::1] bad_chunks not None,
):
    """Copy variable-length values into `into`; give each one's address and length (-1 when null or not readable).

    Addresses hold until the next fetch into the same buffer. Returns how many rows are neither good nor null.
    """
    cdef int64_t n = rows.shape[0], i, failed = 0, levels = validity.shape[0], total = 0, at = 0
    cdef uint8_t tmp[TK_CHUNK_BYTES]
    if offset_width != 4 and offset_width != 8:
        raise ValueError("offsets are 4 or 8 bytes wide")
    if addresses.shape[0] != n or lengths.shape[0] != n or statuses.shape[0] != n or bad_chunks.shape[0] != n:
        raise ValueError("addresses, lengths, statuses and bad_chunks must fit the rows")
    cdef UnpackedRows unpacked = UnpackedRows(bodies, rows, highest_buffer(validity, offsets, data))
    if n == 0:
        return 0
    cdef const int32_t *validity_p = &validity[0] if levels else NULL
    cdef int64_t *starts = <int64_t *>malloc(<size_t>n * sizeof(int64_t))
    if starts == NULL:
        raise MemoryError()
    try:
        with nogil:
            for i in range(n):
                bad_chunks[i] = -1
                lengths[i] = -1
                addresses[i] = 0
                statuses[i] = value_span(
                    unpacked.bodies[i], unpacked.buffers[i], rows[i], validity_p, levels, offsets, data, offset_width,
                    &starts[i], &lengths[i], tmp, &bad_chunks[i],
                )
                if statuses[i] == TK_READ_OK:
                    total = total + lengths[i] if lengths[i] < (1LL << 62) - total else 1LL << 62  # no such memory
        into._reserve(total + 1)
        with nogil:
            for i in range(n):
                if statuses[i] == TK_READ_OK:
                    statuses[i] = checked_copy(
                        unpacked.bodies[i], starts[i], lengths[i], into._data + at, tmp, &bad_chunks[i]
                    )
                    addresses[i] = <uint64_t>(into._data + at)
                    at += lengths[i]
                    if statuses[i] != TK_READ_OK:
                        lengths[i] = -1
                failed += statuses[i] > TK_READ_NULL
    finally:
        free(starts)
    return failed


def fetch_bytes(
    list bodies not None, const int64_t[::1] rows not None, const int32_t[::1] validity not None, int32_t offsets,
    int32_t data, int64_t offset_width, int32_t[::1] statuses not None, int64_t[::1] bad_chunks not None,
):
    """Return variable-length values as a list of bytes, None where null or not readable, and how many are not readable.

    The bytes objects are made first and filled afterwards without the GIL: the values are copied once.
    """
    cdef int64_t n = rows.shape[0], i, failed = 0, levels = validity.shape[0]
    cdef uint8_t tmp[TK_CHUNK_BYTES]
    if offset_width != 4 and offset_width != 8:
        raise ValueError("offsets are 4 or 8 bytes wide")
    if statuses.shape[0] != n or bad_chunks.shape[0] != n:
        raise ValueError("statuses and bad_chunks must fit the rows")
    cdef UnpackedRows unpacked = UnpackedRows(bodies, rows, highest_buffer(validity, offsets, data))
    cdef list values = [None] * n
    if n == 0:
        return values, 0
    cdef const int32_t *validity_p = &validity[0] if levels else NULL
    cdef int64_t *spans = <int64_t *>malloc(<size_t>n * 3 * sizeof(int64_t))
    cdef int64_t *lengths = spans + n
    cdef uint8_t **places = <uint8_t **>(spans + 2 * n)
    cdef object value
    if spans == NULL:
        raise MemoryError()
    try:
        with nogil:
            for i in range(n):
                bad_chunks[i] = -1
                statuses[i] = value_span(
                    unpacked.bodies[i], unpacked.buffers[i], rows[i], validity_p, levels, offsets, data, offset_width,
                    &spans[i], &lengths[i], tmp, &bad_chunks[i],
                )
        for i in range(n):
            if statuses[i] == TK_READ_OK:
                value = PyBytes_FromStringAndSize(NULL, lengths[i])
                places[i] = <uint8_t *>PyBytes_AS_STRING(value)
                values[i] = value
        with nogil:
            for i in range(n):
                # Nothing is written for no bytes: b"" is one object that everybody shares.
                if statuses[i] == TK_READ_OK and lengths[i]:
                    statuses[i] = checked_copy(
                        unpacked.bodies[i], spans[i], lengths[i], places[i], tmp, &bad_chunks[i]
                    )
                failed += statuses[i] > TK_READ_NULL
    finally:
        free(spans)
    if failed:
        for i in range(n):
            if statuses[i] > TK_READ_NULL:
                values[i] = None
    return values, failed
