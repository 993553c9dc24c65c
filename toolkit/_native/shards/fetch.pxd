"""What ranges.pyx shares with fetch.pyx: the memory that a part of a batch is fetched to."""

from libc.stdint cimport int64_t, uint8_t

cdef class FetchBuffer:
    cdef uint8_t *_data
    cdef readonly int64_t nbytes
    cdef public object room

    cdef int _reserve(self, int64_t n) except -1
