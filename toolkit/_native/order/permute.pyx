"""A keyed permutation of 0..n-1, evaluated position by position in constant memory.

An alternating Feistel network on the smallest power of two that holds n (Luby and Rackoff 1988; unbalanced halves as in
NIST SP 800-38G), walked along its cycle until the result is below n (Black and Rogaway 2002). The round function is
the finaliser of splitmix64 (Steele, Lea and Flood 2014). The network itself is in permute.pxd, for kernels that walk an
order; the pure-Python oracle is in tests/native/order/test_permute.py.
"""

from libc.stdint cimport int64_t, uint64_t


def permute(int64_t n, uint64_t key, const int64_t[::1] positions not None, int64_t[::1] out not None):
    """Write to out[i] where positions[i] of 0..n-1 goes under `key`; positions are int64 in [0, n), n at most 2**62."""
    cdef int64_t count = positions.shape[0], i
    cdef permutation order
    if out.shape[0] != count:
        raise ValueError(f"out has {out.shape[0]} places for {count} positions")
    if n < 1 or n > 1LL << 62:
        raise ValueError(f"a permutation of {n} elements; 1 to 2**62 are possible")
    for i in range(count):
        if positions[i] < 0 or positions[i] >= n:
            raise ValueError(f"position {positions[i]} lies outside 0..{n - 1}")
    with nogil:
        key_permutation(&order, n, key)
        for i in range(count):
            out[i] = permuted(&order, positions[i])
