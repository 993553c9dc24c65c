"""Checked reads: copies of column values out of a mapped shard, CRC32C-verified chunk by chunk as they are copied.

The numpy line that says the same as fetch_fixed, for a body that is known to be good:
    values = np.frombuffer(body, dtype, offset=buffers[data][0])[rows]
and as fetch_binary:
    offsets = np.frombuffer(body, "<i4", offset=buffers[offsets][0]); body[data + offsets[r] : data + offsets[r + 1]]
Every user of a map goes through tk_checked_copy (guard.c): a flipped bit and a truncated file become a status,
never a wrong value and never a dead process.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, strerror

cdef extern from "sys/mman.h" nogil:
    void *mmap(void *address, size_t length, int protection, int flags, int fd, int64_t offset)
    int munmap(void *address, size_t length)
    int PROT_READ
    int MAP_SHARED
    void *MAP_FAILED

cdef extern from "errno.h" nogil:
    int errno

cdef extern from "shards/chunks/chunks.h" nogil:
    uint32_t tk_crc32c(uint32_t crc, const uint8_t *data, size_t n)
    uint32_t tk_crc32c_table(uint32_t crc, const uint8_t *data, size_t n)
    const char *tk_crc32c_backend()
    int tk_guard_install()
    int tk_checked_copy(const tk_body *body, int64_t start, int64_t n, uint8_t *dst, uint8_t *tmp, int64_t *bad_chunk)
    int tk_checked_rows(
        const tk_body *body, int64_t start, int64_t n, int64_t stride, int64_t rows, uint8_t *dst,
        int64_t dst_stride, uint8_t *tmp, int64_t *bad_chunk)
    int tk_checked_ids(
        const tk_body *body, int64_t start, int64_t count, int width, void *dst, int dst_width, uint8_t *tmp,
        int64_t *bad_chunk)

CHUNK_BYTES = TK_CHUNK_BYTES
READ_OK = TK_READ_OK
READ_NULL = TK_READ_NULL
READ_CRC = TK_READ_CRC
READ_FAULT = TK_READ_FAULT
READ_RANGE = TK_READ_RANGE
READ_TEXT = TK_READ_TEXT
READ_ITEMS = TK_READ_ITEMS


def crc32c(const uint8_t[::1] data not None, uint32_t crc=0, *, bint table=False):
    """Return the CRC32C of `data`, continuing from `crc`; `table` forces the portable implementation."""
    cdef size_t n = <size_t>data.shape[0]
    cdef const uint8_t *p = &data[0] if n else NULL
    with nogil:
        crc = tk_crc32c_table(crc, p, n) if table else tk_crc32c(crc, p, n)
    return crc


def crc32c_backend():
    """Return which CRC32C runs here: "sse4.2", "armv8-crc" or "table"."""
    return tk_crc32c_backend().decode()


cdef class ChunkSums:
    """CRC32C of each 16 KiB chunk of a stream of bytes that arrives in pieces of any size."""

    cdef uint32_t *_sums
    cdef int64_t _full
    cdef int64_t _capacity
    cdef int64_t _filled
    cdef uint32_t _current

    def __cinit__(self):
        self._sums = NULL
        self._full = self._capacity = self._filled = 0
        self._current = 0

    def __dealloc__(self):
        free(self._sums)

    def update(self, const uint8_t[::1] data not None):
        """Add `data` behind what came before."""
        cdef int64_t n = data.shape[0]
        cdef int64_t needed = self._full + (self._filled + n) // TK_CHUNK_BYTES + 1
        cdef void *grown
        if n == 0:
            return
        if needed > self._capacity:
            grown = realloc(self._sums, <size_t>(2 * needed) * sizeof(uint32_t))
            if grown == NULL:
                raise MemoryError()
            self._sums = <uint32_t *>grown
            self._capacity = 2 * needed
        cdef const uint8_t *p = &data[0]
        cdef int64_t take
        with nogil:
            while n > 0:
                take = TK_CHUNK_BYTES - self._filled
                if take > n:
                    take = n
                self._current = tk_crc32c(self._current, p, <size_t>take)
                self._filled += take
                p += take
                n -= take
                if self._filled == TK_CHUNK_BYTES:
                    self._sums[self._full] = self._current
                    self._full += 1
                    self._current = 0
                    self._filled = 0

    def digest(self):
        """Return the sums so far as little-endian uint32 bytes, a partly filled last chunk included."""
        cdef bytes full = (<const char *>self._sums)[: self._full * <int64_t>sizeof(uint32_t)] if self._full else b""
        if self._filled:
            return full + int(self._current).to_bytes(4, "little")
        return full


cdef class ShardMap:
    """A read-only memory map of one shard file. Owns the map; unmaps when the last Body over it is gone."""

    def __cinit__(self, int fd, int64_t length):
        guard()
        if length <= 0:
            raise ValueError("a shard has at least one byte")
        cdef void *address = mmap(NULL, <size_t>length, PROT_READ, MAP_SHARED, fd, 0)
        if address == MAP_FAILED:
            raise OSError(errno, strerror(errno).decode())
        self._address = <const uint8_t *>address
        self.length = length

    def __dealloc__(self):
        if self._address != NULL:
            munmap(<void *>self._address, <size_t>self.length)


cdef class Body:
    """One record batch's body inside a map: chunk sums, bits of the chunks already checked, places of the buffers.

    Borrows nothing: holds its ShardMap, owns copies of sums and buffer places. With `remember` False there are no such
    bits, and every read checks every chunk it touches.
    """

    def __cinit__(
        self, ShardMap shard not None, int64_t offset, int64_t length, int64_t rows, bytes sums not None,
        const int64_t[:, ::1] buffers not None, bint remember=True,
    ):
        """Take body bytes [offset, offset + length) of the file; `buffers` is (n, 2): start in the body, length."""
        cdef int64_t chunks, i
        if offset < 0 or length < 0 or offset > shard.length or length > shard.length - offset:
            raise ValueError(f"a body of {length} bytes at {offset} lies outside a file of {shard.length} bytes")
        chunks = (length + TK_CHUNK_BYTES - 1) // TK_CHUNK_BYTES
        if len(sums) != chunks * <int64_t>sizeof(uint32_t):
            raise ValueError(f"{len(sums) // 4} chunk sums for a body of {chunks} chunks")
        if buffers.shape[1] != 2:
            raise ValueError("buffers must have the shape (n, 2)")
        for i in range(buffers.shape[0]):
            if buffers[i, 0] < 0 or buffers[i, 1] < 0 or buffers[i, 0] > length or buffers[i, 1] > length - buffers[i, 0]:
                raise ValueError(f"buffer {i} lies outside the body")
        self._map = shard
        self.rows = rows
        self.buffer_count = buffers.shape[0]
        self._buffers = <int64_t *>malloc(<size_t>(self.buffer_count * 2 + 1) * sizeof(int64_t))
        cdef uint32_t *crcs = <uint32_t *>malloc(<size_t>(chunks + 1) * sizeof(uint32_t))
        self._body.crcs = crcs
        self._body.bits = <uint8_t *>calloc(<size_t>(chunks // 8 + 1), 1) if remember else NULL
        if self._buffers == NULL or crcs == NULL or (remember and self._body.bits == NULL):
            raise MemoryError()
        memcpy(crcs, <const char *>sums, len(sums))
        for i in range(self.buffer_count):
            self._buffers[2 * i] = buffers[i, 0]
            self._buffers[2 * i + 1] = buffers[i, 1]
        self._body.body = shard._address + offset
        self._body.length = length

    def __dealloc__(self):
        free(self._buffers)
        free(<void *>self._body.crcs)
        free(self._body.bits)

    def buffer(self, int64_t number):
        """Return (start in the body, length) of buffer `number`."""
        if number < 0 or number >= self.buffer_count:
            raise IndexError(f"buffer {number} of {self.buffer_count}")
        return self._buffers[2 * number], self._buffers[2 * number + 1]

    @property
    def checked_chunks(self):
        """How many chunks were checked so far, and need not be again."""
        cdef int64_t i, total = 0
        if self._body.bits == NULL:
            return 0
        for i in range((self._body.length + TK_CHUNK_BYTES - 1) // TK_CHUNK_BYTES):
            total += self._body.bits[i >> 3] >> (i & 7) & 1
        return total

    def read(self, int64_t start, uint8_t[::1] out not None):
        """Copy body bytes [start, start + len(out)) to `out`; return (READ_ status, chunk it concerns)."""
        cdef uint8_t tmp[TK_CHUNK_BYTES]
        cdef int64_t bad = -1
        cdef int status
        cdef int64_t n = out.shape[0]
        if n == 0:
            return TK_READ_OK, -1
        guard()
        with nogil:
            status = tk_checked_copy(&self._body, start, n, &out[0], tmp, &bad)
        return status, bad


cdef class FetchBuffer:
    """Memory that fetch_binary fills; grows to the largest part of a batch and is reused. One thread at a time.

    Attributes:
        nbytes: What it has.
        room: None, or what is called with the bytes that it is going to have, before it grows; what it raises is raised.
    """

    cdef uint8_t *_data
    cdef readonly int64_t nbytes
    cdef public object room

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


cdef int guard() except -1:
    """Put the SIGBUS handler in front of any that came since. Before whatever copies out of a map; costs a system call."""
    cdef int status = tk_guard_install()
    if status != 0:
        raise OSError(status, strerror(status).decode())
    return 0


cdef int checked_copy(
    const tk_body *body, int64_t start, int64_t n, uint8_t *dst, uint8_t *tmp, int64_t *bad
) noexcept nogil:
    return tk_checked_copy(body, start, n, dst, tmp, bad)


cdef int checked_rows(
    const tk_body *body, int64_t start, int64_t n, int64_t stride, int64_t rows, uint8_t *dst,
    int64_t dst_stride, uint8_t *tmp, int64_t *bad,
) noexcept nogil:
    return tk_checked_rows(body, start, n, stride, rows, dst, dst_stride, tmp, bad)


cdef int checked_ids(
    const tk_body *body, int64_t start, int64_t count, int width, void *dst, int dst_width, uint8_t *tmp, int64_t *bad
) noexcept nogil:
    return tk_checked_ids(body, start, count, width, dst, dst_width, tmp, bad)


cdef int is_null(
    const tk_body *body, const int64_t *buffers, const int32_t *validity, int64_t levels, int64_t row, uint8_t *tmp,
    int64_t *bad,
) noexcept nogil:
    """TK_READ_NULL when the row, or a struct it lies in, is null; a buffer of no bytes says that no row is."""
    cdef int64_t i, where
    cdef uint8_t byte
    cdef int status
    for i in range(levels):
        where = 2 * validity[i]
        if buffers[where + 1] == 0:
            continue
        if (row >> 3) >= buffers[where + 1]:
            return TK_READ_RANGE
        status = tk_checked_copy(body, buffers[where] + (row >> 3), 1, &byte, tmp, bad)
        if status != TK_READ_OK:
            return status
        if not (byte >> (row & 7)) & 1:
            return TK_READ_NULL
    return TK_READ_OK


cdef int fixed_value(
    const tk_body *body, const int64_t *buffers, int64_t row, const int32_t *validity, int64_t levels, int32_t data,
    int64_t width, uint8_t *out, uint8_t *tmp, int64_t *bad,
) noexcept nogil:
    cdef int status = is_null(body, buffers, validity, levels, row, tmp, bad)
    if status != TK_READ_OK:
        return status
    if width > buffers[2 * data + 1] or row > buffers[2 * data + 1] // width - 1:
        return TK_READ_RANGE
    return tk_checked_copy(body, buffers[2 * data] + row * width, width, out, tmp, bad)


cdef int value_span(
    const tk_body *body, const int64_t *buffers, int64_t row, const int32_t *validity, int64_t levels, int32_t offsets,
    int32_t data, int64_t width, int64_t *start, int64_t *length, uint8_t *tmp, int64_t *bad,
) noexcept nogil:
    """Find a variable-length value: its start in the body and its length, from int32 (width 4) or int64 offsets."""
    cdef int32_t narrow[2]
    cdef int64_t wide[2]
    cdef int status = is_null(body, buffers, validity, levels, row, tmp, bad)
    if status != TK_READ_OK:
        return status
    if row > buffers[2 * offsets + 1] // width - 2:
        return TK_READ_RANGE
    if width == 4:
        status = tk_checked_copy(body, buffers[2 * offsets] + row * 4, 8, <uint8_t *>narrow, tmp, bad)
        wide[0] = narrow[0]
        wide[1] = narrow[1]
    else:
        status = tk_checked_copy(body, buffers[2 * offsets] + row * 8, 16, <uint8_t *>wide, tmp, bad)
    if status != TK_READ_OK:
        return status
    if wide[0] < 0 or wide[1] < wide[0] or wide[1] > buffers[2 * data + 1]:
        return TK_READ_RANGE
    start[0] = buffers[2 * data] + wide[0]
    length[0] = wide[1] - wide[0]
    return TK_READ_OK


cdef class UnpackedRows:
    """The bodies and rows of one fetch, unpacked so that the loop needs no Python object. The guard is in place then."""

    def __cinit__(self, list bodies not None, const int64_t[::1] rows not None, int64_t highest):
        cdef Py_ssize_t n = len(bodies), i
        cdef Body body
        if rows.shape[0] != n:
            raise ValueError(f"{n} bodies for {rows.shape[0]} rows")
        guard()
        self.bodies = <tk_body **>malloc((n + 1) * sizeof(tk_body *))
        self.buffers = <int64_t **>malloc((n + 1) * sizeof(int64_t *))
        if self.bodies == NULL or self.buffers == NULL:
            raise MemoryError()
        for i in range(n):
            body = bodies[i]
            if rows[i] < 0 or rows[i] >= body.rows:
                raise ValueError(f"row {rows[i]} of a record batch of {body.rows} rows")
            if highest >= body.buffer_count:
                raise ValueError(f"buffer {highest} of {body.buffer_count}")
            self.bodies[i] = &body._body
            self.buffers[i] = body._buffers

    def __dealloc__(self):
        free(self.bodies)
        free(self.buffers)


cdef int64_t highest_buffer(const int32_t[::1] validity, int64_t a, int64_t b) except -2:
    cdef int64_t high = a if a > b else b, i
    if a < 0 or b < 0:
        raise ValueError("a buffer index is negative")
    for i in range(validity.shape[0]):
        if validity[i] < 0:
            raise ValueError("a buffer index is negative")
        if validity[i] > high:
            high = validity[i]
    return high


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
                    statuses[i] = tk_checked_copy(
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
                    statuses[i] = tk_checked_copy(
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
