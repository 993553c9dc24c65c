"""CRC32C, and the sums of 16 KiB chunks of what is written.

The Python that says the same as ChunkSums, for a crc32c() of any make:
    [crc32c(data[at : at + CHUNK_BYTES]) for at in range(0, len(data), CHUNK_BYTES)]
and as chunk_sums(), of the values data[starts[i] : starts[i + 1]], one behind another:
    [one for i in range(len(starts) - 1) for one in the same of data[starts[i] : starts[i + 1]]]
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, realloc

from toolkit._native.shards.body cimport TK_CHUNK_BYTES, crc32c_backend_name, crc32c_by_table, crc32c_of


def crc32c(const uint8_t[::1] data not None, uint32_t crc=0, *, bint table=False):
    """Return the CRC32C of `data`, continuing from `crc`; `table` forces the portable implementation."""
    cdef size_t n = <size_t>data.shape[0]
    cdef const uint8_t *p = &data[0] if n else NULL
    with nogil:
        crc = crc32c_by_table(crc, p, n) if table else crc32c_of(crc, p, n)
    return crc


def crc32c_backend():
    """Return which CRC32C runs here: "sse4.2", "armv8-crc" or "table"."""
    return crc32c_backend_name().decode()


cdef int _chunk_sums(
    const int64_t *starts, int64_t rows, const uint8_t *data, int64_t nbytes, uint32_t *sums, int64_t capacity
) noexcept nogil:
    """Write the sums of each value's chunks; return 0, or -1 when values or sums lie outside."""
    cdef int64_t row, at, take, done = 0
    for row in range(rows):
        at = starts[row]
        if at < 0 or starts[row + 1] < at or starts[row + 1] > nbytes:
            return -1
        while at < starts[row + 1]:
            if done == capacity:
                return -1
            take = starts[row + 1] - at
            if take > TK_CHUNK_BYTES:
                take = TK_CHUNK_BYTES
            sums[done] = crc32c_of(0, data + at, <size_t>take)
            done += 1
            at += take
    return 0 if done == capacity else -1


def chunk_sums(const int64_t[::1] starts not None, const uint8_t[::1] data not None, uint32_t[::1] out not None):
    """Write the CRC32C of each 16 KiB chunk of the values data[starts[i] : starts[i + 1]] to `out`, which they fill."""
    cdef int64_t rows = starts.shape[0] - 1, nbytes = data.shape[0], capacity = out.shape[0]
    cdef int status = 0
    if rows < 0:
        raise ValueError("starts has one number more than there are values")
    cdef const uint8_t *p = &data[0] if nbytes else NULL
    cdef uint32_t *sums = &out[0] if capacity else NULL
    with nogil:
        status = _chunk_sums(&starts[0], rows, p, nbytes, sums, capacity)
    if status:
        raise ValueError("the values don't lie in the data one behind another, or have not as many chunks as out")


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
                self._current = crc32c_of(self._current, p, <size_t>take)
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
