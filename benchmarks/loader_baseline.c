/* What benchmarks/loader.py measures toolkit against: copies of records out of a map by a loop in C, with and without a
 * checksum, and the sum that stands for a consumer that reads every byte. Compiled by the benchmark. */
#include <nmmintrin.h>
#include <stdint.h>
#include <string.h>

/* The sum of all bytes. */
uint64_t sum_bytes(const uint8_t *data, int64_t n)
{
    uint64_t total = 0;
    for (int64_t i = 0; i < n;) {
        int64_t stop = i + 4096 < n ? i + 4096 : n;
        uint32_t part = 0;
        for (; i < stop; i++)
            part += data[i];
        total += part;
    }
    return total;
}

/* The sum of all bytes of n values that lie anywhere. */
uint64_t sum_values(const uint8_t *const *values, const int64_t *lengths, int64_t n)
{
    uint64_t total = 0;
    for (int64_t i = 0; i < n; i++)
        total += sum_bytes(values[i], lengths[i]);
    return total;
}

/* Copy records number rows[0 .. n) one behind the other; return how many bytes. */
int64_t gather(const uint8_t *data, const int64_t *starts, const int64_t *rows, int64_t n, uint8_t *out)
{
    uint8_t *at = out;
    for (int64_t i = 0; i < n; i++) {
        int64_t start = starts[rows[i]], length = starts[rows[i] + 1] - start;
        memcpy(at, data + start, (size_t)length);
        at += length;
    }
    return at - out;
}

/* The same, with the processor's CRC32C of each copied record in three streams; they are not joined to the record's
 * true sum, which would cost a little more. */
int64_t gather_crc(const uint8_t *data, const int64_t *starts, const int64_t *rows, int64_t n, uint8_t *out,
                   uint64_t *sum)
{
    uint8_t *at = out;
    for (int64_t i = 0; i < n; i++) {
        int64_t start = starts[rows[i]], length = starts[rows[i] + 1] - start;
        memcpy(at, data + start, (size_t)length);
        int64_t third = length / 24;
        uint64_t a = 0, b = 0, c = 0, word[3];
        for (int64_t j = 0; j < third; j++) {
            memcpy(&word[0], at + 8 * j, 8);
            memcpy(&word[1], at + 8 * (third + j), 8);
            memcpy(&word[2], at + 8 * (2 * third + j), 8);
            a = _mm_crc32_u64(a, word[0]);
            b = _mm_crc32_u64(b, word[1]);
            c = _mm_crc32_u64(c, word[2]);
        }
        for (int64_t j = 24 * third; j < length; j++)
            c = _mm_crc32_u8((uint32_t)c, at[j]);
        *sum += a ^ b ^ c;
        at += length;
    }
    return at - out;
}
