"""Rows of sources that are all shuffled in full: which row each number of a source is, in one call for all sources.

A source's permutation is that of toolkit.loader.order.order.Order: keyed by its seed, the epoch of the source, and
nothing behind them. The oracle in tests/loader/order/test_mixed.py asks each source's Order.
"""

from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free, malloc

from toolkit._native.order.permute cimport key_permutation, mix, permutation, permuted

cdef enum:
    MOST_ROWS_BITS = 62

ctypedef struct shuffled:
    int64_t epoch  # that the permutation is keyed for; -1: none yet
    permutation order


def permute_sources(
    const int64_t[::1] sizes not None, const uint64_t[::1] keys not None, const int64_t[::1] firsts not None,
    int64_t epoch, const int64_t[::1] sources not None, const int64_t[::1] numbers not None, int64_t[::1] out not None,
):
    """Write to out[i] the row that number numbers[i] of source sources[i] is, of the rows of all sources.

    Source s has sizes[s] rows, the first of them firsts[s]; keys[s] is its order version and seed, folded. Numbers
    count through its epochs: 0, 1 … where `epoch` is -1; else all of them are of that epoch.
    """
    cdef int64_t count = sources.shape[0], several = sizes.shape[0], i
    if keys.shape[0] != several or firsts.shape[0] != several:
        raise ValueError(f"{several} sizes, {keys.shape[0]} keys and {firsts.shape[0]} first rows")
    if numbers.shape[0] != count or out.shape[0] != count:
        raise ValueError(f"{count} sources, {numbers.shape[0]} numbers and {out.shape[0]} places")
    if epoch < -1:
        raise ValueError(f"epoch {epoch}")
    for i in range(count):
        if sources[i] < 0 or sources[i] >= several:
            raise ValueError(f"source {sources[i]} lies outside 0..{several - 1}")
        if sizes[sources[i]] < 1 or sizes[sources[i]] > 1LL << MOST_ROWS_BITS:
            raise ValueError(f"a source of {sizes[sources[i]]} rows; 1 to 2**62 are possible")
        if numbers[i] < 0:
            raise ValueError(f"number {numbers[i]} of a source")
    if count == 0:
        return
    cdef shuffled *state = <shuffled *>malloc(<size_t>several * sizeof(shuffled))
    if state == NULL:
        raise MemoryError()
    try:
        with nogil:
            for i in range(several):
                state[i].epoch = -1
            for i in range(count):
                out[i] = _row(
                    &state[sources[i]], sizes[sources[i]], keys[sources[i]], firsts[sources[i]], epoch, numbers[i]
                )
    finally:
        free(state)


cdef inline int64_t _row(
    shuffled *state, int64_t size, uint64_t key, int64_t first, int64_t epoch, int64_t number
) noexcept nogil:
    cdef int64_t own = number // size
    number -= own * size
    if epoch >= 0:
        own = epoch
    if state.epoch != own:
        # toolkit.pipelines.randomness.fold
        key_permutation(&state.order, size, mix(key + <uint64_t>own + 0x9E3779B97F4A7C15ULL))
        state.epoch = own
    return first + permuted(&state.order, number)
