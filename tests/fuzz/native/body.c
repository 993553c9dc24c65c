/* Checked copies of crafted ranges out of a body: what is in range equals the bytes, what isn't is refused. */
#include <stdlib.h>
#include <string.h>

#include "shards/body/body.h"
#include "shards/body/crc32c.h"
#include "shards/body/guard.h"

#define LENGTH (2 * TK_CHUNK_BYTES + 1000)
#define CHUNKS 3

static uint8_t *memory; /* of exactly LENGTH bytes: ASan sees what is read behind it */
static uint32_t sums[CHUNKS];

static int64_t number(const uint8_t **p, const uint8_t *end)
{
    static const int64_t edges[] = {0, 1, TK_CHUNK_BYTES, LENGTH, INT64_MAX, INT64_MIN, INT64_MAX / 2, 1LL << 32};
    if (*p >= end)
        return 0;
    uint8_t kind = *(*p)++;
    int64_t value = 0;
    size_t width = kind >> 6 == 0 ? 1 : kind >> 6 == 1 ? 2 : 8;
    if (width > (size_t)(end - *p))
        width = (size_t)(end - *p);
    memcpy(&value, *p, width);
    *p += width;
    if (kind & 32)
        value = (int64_t)((uint64_t)edges[kind & 7] + (uint64_t)(value & 255) - 128);
    return value;
}

/* Whether `rows` stretches of n bytes, `stride` apart, lie in the body: in numbers that hold it. */
static int fits(int64_t start, int64_t n, int64_t stride, int64_t rows)
{
    __int128 end = (__int128)start + (__int128)(rows - 1) * stride + n;
    return start >= 0 && n >= 0 && end <= LENGTH;
}

static void expect(int is_true)
{
    if (!is_true)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (memory == NULL) {
        memory = malloc(LENGTH);
        for (int i = 0; i < LENGTH; i++)
            memory[i] = (uint8_t)((uint32_t)i * 2654435761u >> 16);
        for (int i = 0; i < CHUNKS; i++)
            sums[i] = tk_crc32c_table(0, memory + i * TK_CHUNK_BYTES, i + 1 < CHUNKS ? TK_CHUNK_BYTES : 1000);
        expect(tk_guard_install() == 0);
    }
    uint8_t bits[CHUNKS / 8 + 1] = {0}, *tmp = malloc(TK_CHUNK_BYTES);
    uint64_t aligned[TK_CHUNK_BYTES / 8]; /* ids are cast from there */
    tk_body body = {memory, LENGTH, sums, bits};
    const uint8_t *p = data, *end = data + size;
    for (int step = 0; step < 8 && p < end; step++) {
        int64_t bad = -1, start, n;
        switch (*p++ % 4) {
        case 0: {
            start = number(&p, end), n = number(&p, end);
            int good = fits(start, n, 0, 1);
            uint8_t *out = malloc(good ? (size_t)n + 1 : 1);
            int status = tk_checked_copy(&body, start, n, out, tmp, &bad);
            expect(status == (good ? TK_READ_OK : TK_READ_RANGE));
            expect(!good || memcmp(out, memory + start, (size_t)n) == 0);
            free(out);
            break;
        }
        case 1: {
            start = number(&p, end), n = number(&p, end);
            int64_t stride = number(&p, end), rows = number(&p, end);
            int good = n > 0 && stride >= n && rows > 0 && fits(start, n, stride, rows);
            int none = n == 0 || rows == 0;
            uint8_t *out = malloc(good ? (size_t)(rows * n) : 1);
            int status = tk_checked_rows(&body, start, n, stride, rows, out, n, tmp, &bad);
            expect(none ? status == TK_READ_OK || status == TK_READ_RANGE : status == (good ? TK_READ_OK : TK_READ_RANGE));
            for (int64_t row = 0; good && row < rows; row++)
                expect(memcmp(out + row * n, memory + start + row * stride, (size_t)n) == 0);
            free(out);
            break;
        }
        case 2: {
            start = number(&p, end), n = number(&p, end);
            int width = n & 1 ? 2 : 4, to = n & 2 ? 8 : 4;
            start -= start % width;
            n = n >> 2;
            int good = n >= 0 && start >= 0 && start <= LENGTH && n <= (LENGTH - start) / width;
            uint8_t *out = malloc(good ? (size_t)(n * to) + 1 : 1);
            int status = tk_checked_ids(&body, start, n, width, out, to, (uint8_t *)aligned, &bad);
            expect(status == (good ? TK_READ_OK : TK_READ_RANGE));
            for (int64_t i = 0; good && i < n; i++) {
                uint64_t value = 0, given = 0;
                memcpy(&value, memory + start + i * width, (size_t)width);
                memcpy(&given, out + i * to, (size_t)to);
                expect(value == given);
            }
            free(out);
            break;
        }
        default: { /* a flipped bit in a chunk that was not checked yet is found */
            int64_t at = number(&p, end);
            if (at < 0 || at >= LENGTH || bits[0] >> (at / TK_CHUNK_BYTES) & 1)
                break;
            uint8_t out;
            memory[at] ^= 16;
            int status = tk_checked_copy(&body, at, 1, &out, tmp, &bad);
            memory[at] ^= 16;
            expect(status == TK_READ_CRC && bad == at / TK_CHUNK_BYTES);
        }
        }
    }
    expect(size > 4096 || tk_crc32c(7, data, size) == tk_crc32c_table(7, data, size));
    free(tmp);
    return 0;
}
