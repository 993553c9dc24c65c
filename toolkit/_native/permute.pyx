"""A keyed permutation of 0..n-1, evaluated position by position in constant memory.

An alternating Feistel network on the smallest power of two that holds n (Luby and Rackoff 1988; unbalanced halves as in
NIST SP 800-38G), walked along its cycle until the result is below n (Black and Rogaway 2002). The round function is
the finaliser of splitmix64 (Steele, Lea and Flood 2014). The pure-Python oracle is in tests/native/test_permute.py.
"""

from libc.stdint cimport int64_t, uint64_t

cdef enum:
    ROUNDS = 12


cdef inline uint64_t _mix(uint64_t x) noexcept nogil:
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL
    return x ^ (x >> 31)


cdef inline uint64_t _permuted(
    uint64_t x, uint64_t n, int low_bits, int high_bits, const uint64_t *keys
) noexcept nogil:
    cdef uint64_t low_mask = (1ULL << low_bits) - 1
    cdef uint64_t high_mask = (1ULL << high_bits) - 1
    cdef uint64_t low, high
    cdef int i
    while True:
        low = x & low_mask
        high = x >> low_bits
        for i in range(0, ROUNDS, 2):
            high ^= _mix(low ^ keys[i]) & high_mask
            low ^= _mix(high ^ keys[i + 1]) & low_mask
        x = high << low_bits | low
        if x < n:
            return x


def permute(int64_t n, uint64_t key, const int64_t[::1] positions not None, int64_t[::1] out not None):
    """Write to out[i] where positions[i] of 0..n-1 goes under `key`; positions are int64 in [0, n), n at most 2**62."""
    cdef int64_t count = positions.shape[0], i
    cdef uint64_t keys[ROUNDS]
    cdef int bits = 2
    if out.shape[0] != count:
        raise ValueError(f"out has {out.shape[0]} places for {count} positions")
    if n < 1 or n > 1LL << 62:
        raise ValueError(f"a permutation of {n} elements; 1 to 2**62 are possible")
    for i in range(count):
        if positions[i] < 0 or positions[i] >= n:
            raise ValueError(f"position {positions[i]} lies outside 0..{n - 1}")
    while bits < 62 and (1LL << bits) < n:
        bits += 1
    for i in range(ROUNDS):
        keys[i] = _mix(key + <uint64_t>(i + 1) * 0x9E3779B97F4A7C15ULL)
    with nogil:
        for i in range(count):
            out[i] = <int64_t>_permuted(<uint64_t>positions[i], <uint64_t>n, bits // 2, bits - bits // 2, keys)
