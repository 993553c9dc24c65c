"""Put pieces of documents into rows: first fit and best fit, in the order they are given.

The Python that says the same is fitted() in tests/loader/tokens/test_packing.py.
"""

from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc


def fit_rows(
    const int64_t[::1] lengths not None, int64_t capacity, bint best, int64_t[::1] rows not None,
    int64_t[::1] places not None,
):
    """Put pieces of `lengths` (1 to capacity), in order, into rows: the fullest with room, or the first; return how many.

    rows[i] and places[i] say where piece i goes. A piece that fills a row gets one of its own at once.
    """
    cdef int64_t n = lengths.shape[0], i, j, chosen, count = 0
    if rows.shape[0] != n or places.shape[0] != n:
        raise ValueError("rows and places must have one number a piece")
    for i in range(n):
        if lengths[i] < 1 or lengths[i] > capacity:
            raise ValueError(f"a piece of {lengths[i]} for rows of {capacity}")
    cdef int64_t *used = <int64_t *>malloc(<size_t>(n + 1) * sizeof(int64_t))
    cdef int64_t open_from = 0
    if used == NULL:
        raise MemoryError()
    try:
        with nogil:
            for i in range(n):
                chosen = -1
                while open_from < count and used[open_from] == capacity:
                    open_from += 1
                if lengths[i] < capacity:
                    for j in range(open_from, count):
                        if capacity - used[j] >= lengths[i] and (chosen < 0 or used[j] > used[chosen]):
                            chosen = j
                            if not best or capacity - used[j] == lengths[i]:
                                break
                if chosen < 0:
                    chosen = count
                    used[count] = 0
                    count += 1
                rows[i] = chosen
                places[i] = used[chosen]
                used[chosen] += lengths[i]
    finally:
        free(used)
    return count
