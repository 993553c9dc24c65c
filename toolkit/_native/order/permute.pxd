from libc.stdint cimport int64_t, uint64_t

cdef enum:
    PERMUTE_ROUNDS = 12

ctypedef struct permutation:
    uint64_t n
    int low_bits
    int high_bits
    uint64_t keys[PERMUTE_ROUNDS]


cdef inline uint64_t mix(uint64_t x) noexcept nogil:
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL
    return x ^ (x >> 31)


cdef inline void key_permutation(permutation *p, int64_t n, uint64_t key) noexcept nogil:
    """Set `p` to the permutation of 0..n-1 under `key`; n is 1 to 2**62."""
    cdef int bits = 2, i
    while bits < 62 and (1LL << bits) < n:
        bits += 1
    p.n = <uint64_t>n
    p.low_bits = bits // 2
    p.high_bits = bits - bits // 2
    for i in range(PERMUTE_ROUNDS):
        p.keys[i] = mix(key + <uint64_t>(i + 1) * 0x9E3779B97F4A7C15ULL)


cdef inline int64_t permuted(const permutation *p, int64_t position) noexcept nogil:
    """Return where `position` of 0..n-1 goes."""
    cdef uint64_t low_mask = (1ULL << p.low_bits) - 1
    cdef uint64_t high_mask = (1ULL << p.high_bits) - 1
    cdef uint64_t x = <uint64_t>position, low, high
    cdef int i
    while True:
        low = x & low_mask
        high = x >> p.low_bits
        for i in range(0, PERMUTE_ROUNDS, 2):
            high ^= mix(low ^ p.keys[i]) & high_mask
            low ^= mix(high ^ p.keys[i + 1]) & low_mask
        x = high << p.low_bits | low
        if x < p.n:
            return <int64_t>x
