"""Bodies of record batches in a map, and checked reads of them: CRC32C-verified chunk by chunk as bytes are copied.

The numpy line that says the same as Body.read, for a body that is known to be good:
    out[:] = np.frombuffer(body, np.uint8)[start : start + len(out)]
Every user of a map goes through checked_copy and its like (body/copy.c): a flipped bit and a truncated file become a
status, never a wrong value and never a dead process.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, strerror

cdef extern from "sys/mman.h" nogil:
    void *mmap(void *address, size_t length, int protection, int flags, int fd, int64_t offset)
    int munmap(void *address, size_t length)
    int madvise(void *address, size_t length, int advice)
    int MADV_WILLNEED
    int PROT_READ
    int MAP_SHARED
    void *MAP_FAILED

cdef extern from "unistd.h" nogil:
    long sysconf(int name)
    int _SC_PAGESIZE

cdef extern from "errno.h" nogil:
    int errno

cdef extern from "shards/body/crc32c.h" nogil:
    uint32_t tk_crc32c(uint32_t crc, const uint8_t *data, size_t n)
    uint32_t tk_crc32c_table(uint32_t crc, const uint8_t *data, size_t n)
    const char *tk_crc32c_backend()

cdef extern from "shards/body/guard.h" nogil:
    int tk_guard_install()
    int tk_guarded_copy(void *dst, const void *src, size_t n)

cdef extern from "shards/body/body.h" nogil:
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

    def will_need(self, int64_t offset, int64_t length):
        """Begin to read bytes [offset, offset + length) from the disk, together, and don't wait. A hint: never fails."""
        cdef int64_t start = offset & ~<int64_t>(sysconf(_SC_PAGESIZE) - 1)
        if 0 <= offset < self.length and length > 0:
            length = min(length, self.length - offset) + offset - start
            madvise(<void *>(self._address + start), <size_t>length, MADV_WILLNEED)

    def read(self, int64_t offset, int64_t length):
        """Return bytes [offset, offset + length), unchecked; None where the file has them no more.

        Raises:
            ValueError: They are outside of the map.
        """
        if offset < 0 or length < 0 or offset > self.length or length > self.length - offset:
            raise ValueError(f"bytes {offset} to {offset + length} of {self.length}")
        guard()
        cdef bytes data = PyBytes_FromStringAndSize(NULL, length)
        cdef char *out = PyBytes_AS_STRING(data)
        cdef int status
        with nogil:
            status = tk_guarded_copy(out, self._address + offset, <size_t>length)
        return data if status == 0 else None

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


cdef int guard() except -1:
    """Put the SIGBUS handler in front of any that came since. Before whatever copies out of a map; costs a system call."""
    cdef int status = tk_guard_install()
    if status != 0:
        raise OSError(status, strerror(status).decode())
    return 0


cdef uint32_t crc32c_of(uint32_t crc, const uint8_t *data, size_t n) noexcept nogil:
    return tk_crc32c(crc, data, n)


cdef uint32_t crc32c_by_table(uint32_t crc, const uint8_t *data, size_t n) noexcept nogil:
    return tk_crc32c_table(crc, data, n)


cdef const char *crc32c_backend_name() noexcept nogil:
    return tk_crc32c_backend()


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
