/* Huffman decoding of a sequential JPEG's only scan, with the bytes that stuffing added taken out beforehand.
 *
 * Bits are refilled 8 bytes at a time without a branch (F. Giesen, "Reading bits in far too many ways, part 2", variant 4).
 */
#include "scan.h"

#if defined(__x86_64__)
#include <string.h>

#pragma GCC target("avx2,bmi,bmi2")
#define INLINE static inline __attribute__((always_inline))
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define LAST IMG_HUFFMAN_LAST
#define END IMG_HUFFMAN_END

/* Place k of the zigzag is natural_order[k]. What lies behind the block goes to the place behind it: the zero that an end
 * of block comes with, and what damage makes. */
#define EIGHT 64, 64, 64, 64, 64, 64, 64, 64
static const uint8_t natural_order[256] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6,
    7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46,
    53, 60, 61, 54, 47, 55, 62, 63, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT,
    EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT};

/* ---- Segments ---- */

/* Copy the bytes up to the next marker, and take it. */
static int next_segment(img_scan *scan) {
    const uint8_t *p = scan->data;
    uint8_t *out = scan->segment;
    for (;;) {
        const uint8_t *mark = memchr(p, 0xFF, (size_t)(scan->end - p));
        if (mark == NULL || mark + 1 >= scan->end)
            return -1;
        memcpy(out, p, (size_t)(mark - p));
        out += mark - p;
        p = mark + 2;
        scan->marker = mark[1];
        if (scan->marker != 0)
            break;
        *out++ = 0xFF;
    }
    scan->data = p;
    scan->segment_length = out - scan->segment;
    memset(out, 0, IMG_SEGMENT_ROOM(0));
    scan->next = scan->segment;
    scan->bits = 0;
    scan->count = 0;
    scan->until_restart = scan->restart_interval;
    memset(scan->predicted, 0, sizeof scan->predicted);
    return 0;
}

int img_scan_start(img_scan *scan) {
    scan->restarts = 0;
    if (next_segment(scan) != 0)
        return -1;
    return scan->restart_interval > 0 || scan->marker == 0xD9 ? 0 : -1;
}

static int restart(img_scan *scan) {
    return scan->marker == 0xD0 + scan->restarts++ % 8 ? next_segment(scan) : -1;
}

/* ---- Blocks ---- */

typedef int16_t vector __attribute__((vector_size(32), aligned(2), may_alias));

typedef struct {
    uint64_t bits;       /* the next ones, from the top */
    int64_t count;       /* how many of them are there */
    const uint8_t *next;
} reader;

INLINE void refill(reader *r) {
    uint64_t eight;
    memcpy(&eight, r->next, 8);
    r->bits |= __builtin_bswap64(eight) >> r->count;
    r->next += (63 - r->count) >> 3;
    r->count |= 56;
}

INLINE void take(reader *r, uint64_t entry) {
    r->bits <<= entry & 63;
    r->count -= (int64_t)img_huffman_field(entry, 0);
}

/* The value behind the top `at` bits; its first bit is 0 when it is negative. */
INLINE int value_of(uint64_t bits, uint64_t at, uint64_t unused) {
    const int64_t here = (int64_t)(bits << (at & 63)), sign = ~(here >> 63);
    return (int)(((int64_t)((uint64_t)(here ^ sign) >> 1 >> (unused & 63)) ^ sign) - sign);
}

/* The steps through a block. */
typedef struct {
    uint64_t bits, entry; /* what the last step took */
    uint64_t first, k;    /* the places of its first and its last code */
} place;

/* Take one or two codes after the DC's, 26 bits at most. Returns 0 behind the last one. */
INLINE int step(reader *r, const img_huffman *ac, place *at, int16_t *block, int store) {
    const uint64_t bits = at->bits = r->bits;
    uint64_t entry = ac->look[bits >> (64 - IMG_HUFFMAN_LOOK)];
    if (UNLIKELY(entry == 0))
        entry = img_huffman_long_code(ac, bits);
    take(r, entry);
    at->entry = entry;
    at->first = at->k + img_huffman_field(entry, 1);
    at->k = at->first + img_huffman_field(entry, 4);
    if (store) {
        block[natural_order[at->k]] = (int16_t)value_of(bits, entry >> 40, entry >> 48);
        block[natural_order[at->first]] = (int16_t)value_of(bits, entry >> 16, entry >> 24);
    }
    return at->k < LAST;
}

/* One block. Returns 1 when it has nothing but its DC, -1 for damage. */
INLINE int decode_block(reader *r, const img_huffman *dc, const img_huffman *ac, uint32_t *predicted, int16_t *block,
                        int store) {
    refill(r);
    uint64_t entry = dc->look[r->bits >> (64 - IMG_HUFFMAN_LOOK)];
    if (UNLIKELY(entry == 0) && (entry = img_huffman_long_code(dc, r->bits)) == IMG_HUFFMAN_NO_CODE)
        return -1;
    *predicted += (uint32_t)value_of(r->bits, entry >> 16, entry >> 24);
    take(r, entry);
    if (store) {
        for (int i = 0; i < 4; i++) /* memset would be a slow instruction here */
            ((vector *)block)[i] = (vector){0};
        block[0] = (int16_t)*predicted;
    }
    place at = {.k = 0}; /* 27 bits at most are taken: there are enough for a step */
    if (step(r, ac, &at, block, store))
        do
            refill(r);
        while (step(r, ac, &at, block, store) && step(r, ac, &at, block, store));
    if (UNLIKELY(at.first == LAST && at.k > LAST)) { /* the block was full: the second code is the next block's */
        const int64_t taken = (int64_t)(img_huffman_field(at.entry, 2) + 63 - img_huffman_field(at.entry, 3));
        r->count += (int64_t)img_huffman_field(at.entry, 0) - taken;
        r->bits = at.bits << taken;
        return 0;
    }
    return UNLIKELY(at.k >= END ? at.k > END + LAST : at.k != LAST) ? -1 : at.first == END;
}

INLINE int decode_mcu(img_scan *scan, int16_t *blocks, int *flat, int store) {
    reader r = {scan->bits, scan->count, scan->next};
    int damaged = 0;
    *flat = 0;
    for (int i = 0; i < scan->blocks; i++) {
        const int c = scan->component[i];
        const int alone = decode_block(&r, scan->dc[c], scan->ac[c], &scan->predicted[c],
                                       store ? blocks + 64 * i : NULL, store);
        damaged |= alone;
        *flat |= (alone & 1) << i;
    }
    scan->bits = r.bits;
    scan->count = r.count;
    scan->next = r.next;
    return damaged < 0 || 8 * (r.next - scan->segment) - r.count > 8 * scan->segment_length ? -1 : 0;
}

int img_scan_mcu(img_scan *scan, int16_t *blocks, int *flat) {
    if (scan->restart_interval > 0 && scan->until_restart-- == 0) {
        if (restart(scan) != 0)
            return -1;
        scan->until_restart--;
    }
    return blocks == NULL ? decode_mcu(scan, NULL, flat, 0) : decode_mcu(scan, blocks, flat, 1);
}
#else
typedef int img_scan_is_empty_here; /* ISO C wants at least one declaration */
#endif
