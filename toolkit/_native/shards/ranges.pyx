"""Ranges of files below a root folder: many opened, read and checked in one call.

The Python lines that say the same as Ranges.take, for files that are as they were:
    with open(os.path.join(roots[i], paths[i]), "rb") as file: file.seek(offsets[i]); values.append(file.read(lengths[i]))
    sums[i] == np.array([crc32c(value[at : at + 16384]) for at in range(0, len(value), 16384)], "<u4").tobytes()
Statuses are those of body.pyx besides: READ_OK, and READ_NULL where there is no path.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc

from toolkit._native.shards.body cimport TK_READ_NULL, TK_READ_OK, crc32c_of
from toolkit._native.shards.fetch cimport FetchBuffer

cdef extern from "shards/ranges/ranges.h" nogil:
    enum:
        TK_RANGE_GONE
        TK_RANGE_KIND
        TK_RANGE_LINK
        TK_RANGE_SHORT
        TK_RANGE_SUM
        TK_RANGE_STAT
        TK_RANGE_PLACE
        TK_RANGE_ROOT
        TK_RANGE_ERRNO
    ctypedef uint32_t (*tk_range_sum)(uint32_t crc, const uint8_t *data, size_t n)
    ctypedef struct tk_range:
        const char *path
        int64_t path_bytes
        int32_t root
        int64_t offset
        int64_t length
        const uint8_t *sums
        int64_t sums_bytes
        int64_t size
        int64_t mtime_ns
        uint8_t *out
    int tk_range_fault(const tk_range *range)
    void tk_read_ranges(
        const tk_range *ranges, int64_t n, tk_range_sum sum, int walk, int32_t *statuses, int64_t *bad)

RANGE_GONE = TK_RANGE_GONE
RANGE_KIND = TK_RANGE_KIND
RANGE_LINK = TK_RANGE_LINK
RANGE_SHORT = TK_RANGE_SHORT
RANGE_SUM = TK_RANGE_SUM
RANGE_STAT = TK_RANGE_STAT
RANGE_PLACE = TK_RANGE_PLACE
RANGE_ROOT = TK_RANGE_ROOT
RANGE_ERRNO = TK_RANGE_ERRNO


def read_range(
    int32_t root, bytes path not None, int64_t offset, int64_t length, bytes sums, int64_t size=-1, int64_t mtime_ns=-1,
):
    """Return one range of a file below the folder `root`; None where anything is wrong: Ranges says what."""
    cdef tk_range one
    cdef int32_t status = TK_READ_OK
    cdef int64_t bad = -1
    one.root, one.path, one.path_bytes = root, PyBytes_AS_STRING(path), len(path)
    one.offset, one.length = offset, length
    one.sums, one.sums_bytes = NULL, 0
    if sums is not None:
        one.sums, one.sums_bytes = <const uint8_t *>PyBytes_AS_STRING(sums), len(sums)
    one.size, one.mtime_ns = size, mtime_ns
    if root < 0 or tk_range_fault(&one):
        return None
    cdef bytes value = PyBytes_FromStringAndSize(NULL, length)
    one.out = <uint8_t *>PyBytes_AS_STRING(value)
    with nogil:
        tk_read_ranges(&one, 1, _sum, False, &status, &bad)
    return value if status == TK_READ_OK else None


cdef uint32_t _sum(uint32_t crc, const uint8_t *data, size_t n) noexcept nogil:
    return crc32c_of(crc, data, n)


cdef class Ranges:
    """Ranges of files, to be looked at or read. Holds what it was given; one thread at a time.

    Args:
        roots: Descriptors of the folders; below 0 where none is known. They must stay open.
        paths: Bytes, below the root; None where there is no value.
        offsets, lengths: The ranges.
        sums: Bytes, a little-endian uint32 for each 16 KiB of a range; None where there are none.
        sizes, mtimes_ns: What the files must be, or None: a size below 0 isn't compared. Without sums it must be.
        walk: Whether files are opened as where the system has no openat2.
    """

    cdef tk_range *_ranges
    cdef int64_t _n
    cdef list _paths
    cdef list _sums
    cdef list _statuses
    cdef bint _walk

    def __cinit__(
        self, const int32_t[::1] roots not None, list paths not None, const int64_t[::1] offsets not None,
        const int64_t[::1] lengths not None, list sums not None, const int64_t[::1] sizes=None,
        const int64_t[::1] mtimes_ns=None, *, bint walk=False,
    ):
        cdef int64_t n = len(paths), i
        cdef tk_range *one
        cdef object path, of
        if roots.shape[0] != n or offsets.shape[0] != n or lengths.shape[0] != n or len(sums) != n:
            raise ValueError("roots, offsets, lengths and sums must fit the paths")
        if (sizes is None) != (mtimes_ns is None) or (
            sizes is not None and (sizes.shape[0] != n or mtimes_ns.shape[0] != n)
        ):
            raise ValueError("sizes and mtimes_ns must fit the paths")
        self._n = n
        self._walk = walk
        # Copies: a list may be changed by whoever gave it, and its bytes be gone then.
        self._paths, self._sums, self._statuses = list(paths), list(sums), [TK_READ_OK] * n
        self._ranges = <tk_range *>malloc(<size_t>(n + 1) * sizeof(tk_range))
        if self._ranges == NULL:
            raise MemoryError()
        for i in range(n):
            one = &self._ranges[i]
            path, of = self._paths[i], self._sums[i]
            one.root, one.offset, one.length = roots[i], offsets[i], lengths[i]
            one.path, one.path_bytes = NULL, 0
            one.sums, one.sums_bytes = NULL, 0
            one.size = -1 if sizes is None else sizes[i]
            one.mtime_ns = -1 if mtimes_ns is None else mtimes_ns[i]
            one.out = NULL
            if path is None:
                one.length = 0
                self._statuses[i] = TK_READ_NULL
                continue
            one.path, one.path_bytes = PyBytes_AS_STRING(<bytes?>path), len(<bytes>path)
            if of is not None:
                one.sums, one.sums_bytes = <const uint8_t *>PyBytes_AS_STRING(<bytes?>of), len(<bytes>of)
            if tk_range_fault(one):
                one.length = 0
                self._statuses[i] = TK_RANGE_PLACE
            elif one.root < 0:
                self._statuses[i] = TK_RANGE_ROOT

    def __dealloc__(self):
        free(self._ranges)

    def look(self, int32_t[::1] statuses not None, int64_t[::1] bad_chunks not None):
        """Open the files and look whether they can hold their ranges; read nothing. Returns how many can't."""
        self._begin(statuses, bad_chunks)
        return self._run(NULL, statuses, bad_chunks)

    def read(
        self, const int64_t[::1] places not None, uint8_t[::1] out not None, int32_t[::1] statuses not None,
        int64_t[::1] bad_chunks not None,
    ):
        """Read the ranges whose status is READ_OK to out[places[i] : places[i + 1]]; zeros where that fails.

        A status that says something else stays. Returns how many are neither good nor null, those before included.
        """
        cdef int64_t i
        cdef int32_t status
        if places.shape[0] != self._n + 1:
            raise ValueError("places must fit the paths")
        for i in range(self._n):
            if places[i] < 0 or places[i + 1] < places[i] or places[i + 1] > out.shape[0]:
                raise ValueError(f"range {i} has no place within out")
        self._begin(statuses, bad_chunks, True)
        for i in range(self._n):
            status = statuses[i]
            if status == TK_READ_OK:
                if places[i + 1] - places[i] != self._ranges[i].length:
                    raise ValueError(f"range {i} has {self._ranges[i].length} bytes, its place {places[i + 1] - places[i]}")
                self._ranges[i].out = &out[0] + places[i] if self._ranges[i].length else NULL
            elif places[i + 1] > places[i]:
                out[places[i] : places[i + 1]] = 0
        return self._run(_sum, statuses, bad_chunks)

    def read_into(
        self, FetchBuffer into not None, uint64_t[::1] addresses not None, int64_t[::1] lengths not None,
        int32_t[::1] statuses not None, int64_t[::1] bad_chunks not None,
    ):
        """Read all into `into`; give each one's address and length (-1 when null or not readable).

        No more memory is taken than the ranges have: whoever fears for it looks before. Addresses hold until the next
        use of the buffer. Returns how many are neither good nor null.
        """
        cdef int64_t i, total = 0, at = 0, failed
        if addresses.shape[0] != self._n or lengths.shape[0] != self._n:
            raise ValueError("addresses and lengths must fit the paths")
        self._begin(statuses, bad_chunks, True)
        for i in range(self._n):
            if statuses[i] == TK_READ_OK:
                total = min(total, (1LL << 62) - self._ranges[i].length) + self._ranges[i].length  # no such memory
        into._reserve(total + 1)
        for i in range(self._n):
            addresses[i] = 0
            lengths[i] = -1
            if statuses[i] == TK_READ_OK:
                self._ranges[i].out = into._data + at
                addresses[i] = <uint64_t>self._ranges[i].out
                at += self._ranges[i].length
        failed = self._run(_sum, statuses, bad_chunks)
        for i in range(self._n):
            if statuses[i] == TK_READ_OK:
                lengths[i] = self._ranges[i].length
        return failed

    def take(self, int32_t[::1] statuses not None, int64_t[::1] bad_chunks not None):
        """Return the ranges as a list of bytes, None where null or not readable, and how many are not readable."""
        cdef int64_t i, failed
        cdef list values = [None] * self._n
        cdef object value
        self._begin(statuses, bad_chunks, True)
        for i in range(self._n):
            if statuses[i] == TK_READ_OK:
                value = PyBytes_FromStringAndSize(NULL, self._ranges[i].length)
                self._ranges[i].out = <uint8_t *>PyBytes_AS_STRING(value)
                values[i] = value
        failed = self._run(_sum, statuses, bad_chunks)
        if failed:
            for i in range(self._n):
                if statuses[i] > TK_READ_NULL:
                    values[i] = None
        return values, failed

    cdef int _begin(self, int32_t[::1] statuses, int64_t[::1] bad_chunks, bint keep=False) except -1:
        """Set the statuses that are known before a file is opened; `keep`: where they say something, they stay."""
        cdef int64_t i
        if statuses.shape[0] != self._n or bad_chunks.shape[0] != self._n:
            raise ValueError("statuses and bad_chunks must fit the paths")
        for i in range(self._n):
            if not keep or statuses[i] == TK_READ_OK:
                statuses[i] = self._statuses[i]
                bad_chunks[i] = -1
        return 0

    cdef int64_t _run(self, tk_range_sum sum, int32_t[::1] statuses, int64_t[::1] bad_chunks) except -1:
        cdef int64_t i, failed = 0
        if self._n == 0:
            return 0
        with nogil:
            tk_read_ranges(self._ranges, self._n, sum, self._walk, &statuses[0], &bad_chunks[0])
            for i in range(self._n):
                failed += statuses[i] > TK_READ_NULL
        return failed
