"""What samples.pyx shares with locate.pyx: rows found one at a time, without an array."""

from libc.stdint cimport int64_t, uint64_t

cdef extern from "sys/stat.h" nogil:
    ctypedef long dev_t
    ctypedef unsigned long ino_t
    cdef struct timespec_t "timespec":
        int64_t tv_sec
        long tv_nsec
    cdef struct stat_t "stat":
        uint64_t st_dev
        uint64_t st_ino
        int64_t st_size
        timespec_t st_mtim
        timespec_t st_ctim
    int c_stat "stat" (const char *path, stat_t *out)

cdef extern from "time.h" nogil:
    int CLOCK_MONOTONIC
    int clock_gettime(int clock, timespec_t *out)

cdef class FileIdentity:
    cdef bytes _path
    cdef stat_t _then
    cdef int64_t _looked

    cpdef bint changed(self)
    cdef bint _look(self, stat_t *now)
    cdef int changed_lately(self) except -1

cdef class _Table:
    cdef const int64_t[::1] starts
    cdef int64_t first

cdef class Locator:
    cdef const int64_t[::1] _starts
    cdef list _tables
    cdef object _open_table
    cdef object _open_batch
    cdef object _want_batches
    cdef dict _opened
    cdef Py_ssize_t _keep

    cdef tuple find(self, int64_t row, int64_t *inner)
    cdef _ask(self, const int64_t[::1] rows)
    cdef tuple _found(self, int64_t batch, int64_t inner)
    cdef tuple _open(self, int64_t batch)
    cdef int64_t _batch(self, int64_t row, int64_t *inner) except -1
    cdef _Table _read(self, int64_t number)
