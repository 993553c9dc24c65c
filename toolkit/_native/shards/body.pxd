"""What other kernels of toolkit share with body.pyx: bodies, checked copies out of them, and CRC32C.

The guard's state is that module's, so its C functions must not be linked twice.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

cdef extern from "shards/body/body.h" nogil:
    enum:
        TK_CHUNK_BYTES
        TK_READ_OK
        TK_READ_NULL
        TK_READ_CRC
        TK_READ_FAULT
        TK_READ_RANGE
        TK_READ_TEXT
        TK_READ_ITEMS
    ctypedef struct tk_body:
        const uint8_t *body
        int64_t length
        const uint32_t *crcs
        uint8_t *bits

cdef class ShardMap:
    cdef const uint8_t *_address
    cdef readonly int64_t length

cdef class Body:
    cdef ShardMap _map
    cdef tk_body _body
    cdef int64_t *_buffers
    cdef readonly int64_t rows
    cdef readonly int64_t buffer_count

cdef int guard() except -1
cdef uint32_t crc32c_of(uint32_t crc, const uint8_t *data, size_t n) noexcept nogil
cdef uint32_t crc32c_by_table(uint32_t crc, const uint8_t *data, size_t n) noexcept nogil
cdef const char *crc32c_backend_name() noexcept nogil
cdef int checked_copy(
    const tk_body *body, int64_t start, int64_t n, uint8_t *dst, uint8_t *tmp, int64_t *bad
) noexcept nogil
cdef int checked_rows(
    const tk_body *body, int64_t start, int64_t n, int64_t stride, int64_t rows, uint8_t *dst,
    int64_t dst_stride, uint8_t *tmp, int64_t *bad,
) noexcept nogil
cdef int checked_ids(
    const tk_body *body, int64_t start, int64_t count, int width, void *dst, int dst_width, uint8_t *tmp, int64_t *bad
) noexcept nogil
cdef int is_null(
    const tk_body *body, const int64_t *buffers, const int32_t *validity, int64_t levels, int64_t row, uint8_t *tmp,
    int64_t *bad,
) noexcept nogil
cdef int fixed_value(
    const tk_body *body, const int64_t *buffers, int64_t row, const int32_t *validity, int64_t levels, int32_t data,
    int64_t width, uint8_t *out, uint8_t *tmp, int64_t *bad,
) noexcept nogil
cdef int value_span(
    const tk_body *body, const int64_t *buffers, int64_t row, const int32_t *validity, int64_t levels, int32_t offsets,
    int32_t data, int64_t width, int64_t *start, int64_t *length, uint8_t *tmp, int64_t *bad,
) noexcept nogil

cdef class UnpackedRows:
    cdef tk_body **bodies
    cdef int64_t **buffers

cdef int64_t highest_buffer(const int32_t[::1] validity, int64_t a, int64_t b) except -2
