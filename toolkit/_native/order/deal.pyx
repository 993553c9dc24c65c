"""Which source each row of a block of a mix comes from: as often as its quota says, and never far from its share.

Of a source with q of a block's n rows, row k may come from row (k - j) n / q on and is due by row (k + 1 + u) n / q, with
j and u keyed numbers in [0, 1). At each row that source is dealt whose next row is due first, of those that may come.
Without j and u these are the windows of Steiner and Yeomans (1993, "Level schedules for mixed-model, just-in-time
processes"), for which dealing by the earliest due date finds a place in time for every row; wider windows lose none. So
after any row i a source has given at least i q / n - 2 rows and at most i q / n + 2. The pure-Python oracle is in
tests/native/order/test_deal.py.
"""

from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport free, malloc

from toolkit._native.order.permute cimport mix

cdef enum:
    ROW_BITS = 20  # of a block's rows, and of the number of a source in it
    MOST_ROWS = 1 << ROW_BITS

ctypedef struct source:
    int64_t released  # rows of it that may come
    int32_t next  # in the list of those that wait for the same row; -1 ends it


def deal(uint64_t key, const int64_t[::1] quotas not None, int32_t[::1] sources not None, int32_t[::1] numbers not None):
    """Deal the rows of a block: write which source each comes from, and which of the source's rows in the block it is.

    `quotas` add up to the block's rows, 2**20 at most; sources without any are passed over.
    """
    cdef int64_t n = sources.shape[0], count = quotas.shape[0], i, total = 0
    if numbers.shape[0] != n:
        raise ValueError("numbers must fit sources")
    if n > MOST_ROWS or count > MOST_ROWS:
        raise ValueError(f"a block of {n} rows of {count} sources; {MOST_ROWS} are possible")
    for i in range(count):
        if quotas[i] < 0 or quotas[i] > n:
            raise ValueError(f"a quota of {quotas[i]} of {n} rows")
        total += quotas[i]
    if total != n:
        raise ValueError(f"quotas of {total} rows for a block of {n}")
    if n == 0:
        return
    # Never more rows wait to be dealt than there are.
    cdef uint64_t *heap = <uint64_t *>malloc(<size_t>n * sizeof(uint64_t))
    cdef int32_t *waiting = <int32_t *>malloc(<size_t>n * sizeof(int32_t))
    cdef source *state = <source *>malloc(<size_t>count * sizeof(source))
    cdef int32_t *given = <int32_t *>malloc(<size_t>count * sizeof(int32_t))
    try:
        if heap == NULL or waiting == NULL or state == NULL or given == NULL:
            raise MemoryError()
        with nogil:
            _deal(key, &quotas[0], count, n, heap, waiting, state, given, &sources[0], &numbers[0])
    finally:
        free(heap)
        free(waiting)
        free(state)
        free(given)


cdef void _deal(
    uint64_t key, const int64_t *quotas, int64_t count, int64_t n, uint64_t *heap, int32_t *waiting, source *state,
    int32_t *given, int32_t *sources, int32_t *numbers,
) noexcept nogil:
    cdef int64_t i, row, size = 0
    cdef int32_t one, following
    cdef uint64_t first
    for i in range(n):
        waiting[i] = -1
    for i in range(count):
        given[i] = 0
        state[i].released = 0
        if quotas[i]:
            state[i].next = waiting[0]
            waiting[0] = <int32_t>i
    for row in range(n):
        one = waiting[row]
        while one >= 0:
            following = state[one].next
            size = _release(key, one, quotas[one], row, n, heap, size, waiting, state)
            one = following
        first = heap[0]
        size -= 1
        if size:
            _sink(heap, size, heap[size])
        one = <int32_t>(first & (MOST_ROWS - 1))
        sources[row] = one
        numbers[row] = given[one]
        given[one] += 1


cdef int64_t _release(
    uint64_t key, int32_t one, int64_t quota, int64_t row, int64_t n, uint64_t *heap, int64_t size, int32_t *waiting,
    source *state,
) noexcept nogil:
    """Put the rows of a source that may come at `row` on the heap, and let it wait for its next one; return the size."""
    cdef uint64_t drawn, due
    cdef int64_t k, start
    while state[one].released < quota:
        k = state[one].released
        drawn = _drawn(key, one, k)
        if k:
            start = (k * n - ((<int64_t>(drawn & 0xFFFFF) * n) >> ROW_BITS)) // quota
            if start > row:
                state[one].next = waiting[start]
                waiting[start] = one
                return size
        # The last 20 bits of u, and ties by them: two rows that are due together come in no fixed order.
        due = <uint64_t>((((k + 1) << ROW_BITS) + <int64_t>(drawn >> 44)) * n // quota) >> ROW_BITS
        if due > <uint64_t>n:
            due = n
        size = _rise(heap, size, due << 40 | ((drawn >> 20) & 0xFFFFF) << 20 | <uint64_t>one)
        state[one].released = k + 1
    return size


cdef inline uint64_t _drawn(uint64_t key, int64_t one, int64_t k) noexcept nogil:
    """Return fold(fold(key, source), k) of toolkit.pipelines.randomness."""
    key = mix(key + <uint64_t>one + 0x9E3779B97F4A7C15ULL)
    return mix(key + <uint64_t>k + 0x9E3779B97F4A7C15ULL)


cdef int64_t _rise(uint64_t *heap, int64_t size, uint64_t value) noexcept nogil:
    cdef int64_t at = size, above
    while at:
        above = (at - 1) >> 1
        if heap[above] <= value:
            break
        heap[at] = heap[above]
        at = above
    heap[at] = value
    return size + 1


cdef void _sink(uint64_t *heap, int64_t size, uint64_t value) noexcept nogil:
    cdef int64_t at = 0, below
    while True:
        below = 2 * at + 1
        if below >= size:
            break
        if below + 1 < size and heap[below + 1] < heap[below]:
            below += 1
        if heap[below] >= value:
            break
        heap[at] = heap[below]
        at = below
    heap[at] = value
