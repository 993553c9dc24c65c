"""XXH64 of many values: of texts or bytes by their offsets, or of whole numbers by their eight bytes.

    out[i] = xxhash.xxh64_intdigest(bytes(data[offsets[i]:offsets[i + 1]]), seed)

The algorithm is Yann Collet's: https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md. Numbers are read from
memory in its little-endian order, as everywhere in this package.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

ctypedef fused offset_t:
    int32_t
    int64_t

cdef enum:
    LANES = 32  # bytes of a stripe

# Of C: a variable of Cython's is read from memory each time.
cdef extern from *:
    """
    #define TK_P1 0x9E3779B185EBCA87ULL
    #define TK_P2 0xC2B2AE3D27D4EB4FULL
    #define TK_P3 0x165667B19E3779F9ULL
    #define TK_P4 0x85EBCA77C2B2AE63ULL
    #define TK_P5 0x27D4EB2F165667C5ULL
    """
    const uint64_t P1 "TK_P1"
    const uint64_t P2 "TK_P2"
    const uint64_t P3 "TK_P3"
    const uint64_t P4 "TK_P4"
    const uint64_t P5 "TK_P5"


cdef inline uint64_t _turned(uint64_t value, int bits) noexcept nogil:
    return (value << bits) | (value >> (64 - bits))


cdef inline uint64_t _eight(const uint8_t *data) noexcept nogil:
    cdef uint64_t value
    memcpy(&value, data, 8)
    return value


cdef inline uint64_t _round(uint64_t lane, uint64_t value) noexcept nogil:
    return _turned(lane + value * P2, 31) * P1


cdef inline uint64_t _merged(uint64_t hashed, uint64_t lane) noexcept nogil:
    return (hashed ^ _round(0, lane)) * P1 + P4


cdef uint64_t _xxh64(const uint8_t *data, int64_t length, uint64_t seed) noexcept nogil:
    cdef const uint8_t *end = data + length
    cdef uint64_t hashed, a, b, c, d
    cdef uint32_t four
    if length >= LANES:
        a, b, c, d = seed + P1 + P2, seed + P2, seed, seed - P1
        while end - data >= LANES:
            a = _round(a, _eight(data))
            b = _round(b, _eight(data + 8))
            c = _round(c, _eight(data + 16))
            d = _round(d, _eight(data + 24))
            data += LANES
        hashed = _turned(a, 1) + _turned(b, 7) + _turned(c, 12) + _turned(d, 18)
        hashed = _merged(_merged(_merged(_merged(hashed, a), b), c), d)
    else:
        hashed = seed + P5
    hashed += <uint64_t>length
    while end - data >= 8:
        hashed = _turned(hashed ^ _round(0, _eight(data)), 27) * P1 + P4
        data += 8
    if end - data >= 4:
        memcpy(&four, data, 4)
        hashed = _turned(hashed ^ (<uint64_t>four * P1), 23) * P2 + P3
        data += 4
    while data < end:
        hashed = _turned(hashed ^ (<uint64_t>data[0] * P5), 11) * P1
        data += 1
    hashed = (hashed ^ (hashed >> 33)) * P2
    hashed = (hashed ^ (hashed >> 29)) * P3
    return hashed ^ (hashed >> 32)


def hash_values(
    const offset_t[::1] offsets not None, const uint8_t[::1] data not None, uint64_t seed, uint64_t[::1] out not None
):
    """Write to out[i] the hash of data[offsets[i]:offsets[i + 1]]; offsets are int32 or int64, one more than out."""
    cdef int64_t count = out.shape[0], size = data.shape[0], i = 0, start, end
    cdef const uint8_t *begin = &data[0] if size else NULL
    cdef const offset_t *ends
    cdef uint64_t *hashes
    cdef uint8_t nothing = 0
    if offsets.shape[0] != count + 1:
        raise ValueError(f"{offsets.shape[0]} offsets for {count} values")
    if count == 0:
        return
    if begin == NULL:
        begin = &nothing
    ends, hashes = &offsets[0], &out[0]
    with nogil:
        end = ends[0]
        while i < count:
            start, end = end, ends[i + 1]
            if start < 0 or end < start or end > size:
                break
            hashes[i] = _xxh64(begin + start, end - start, seed)
            i += 1
    if i < count:
        raise ValueError(f"offsets {offsets[i]} and {offsets[i + 1]} of {size} bytes")


def hash_numbers(const int64_t[::1] values not None, uint64_t seed, uint64_t[::1] out not None):
    """Write to out[i] the hash of the eight bytes of values[i], the lowest first."""
    cdef int64_t count = values.shape[0], i
    cdef const int64_t *numbers
    cdef uint64_t *hashes
    if out.shape[0] != count:
        raise ValueError(f"out has {out.shape[0]} places for {count} values")
    if count == 0:
        return
    numbers, hashes = &values[0], &out[0]
    with nogil:
        for i in range(count):
            hashes[i] = _xxh64(<const uint8_t *>&numbers[i], 8, seed)
