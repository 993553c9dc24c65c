/* Huffman decoding of a sequential JPEG's only scan, with the bytes that stuffing added taken out beforehand.
 *
 * A look-up by the next LOOK bits gives a code's length, its zero run and how many bits its value has, so that finding
 * the next code waits for one load and one shift; the value is worked out beside that. Bits are refilled 8 bytes at a
 * time without a branch (F. Giesen, "Reading bits in far too many ways, part 2", variant 4).
 */
#if defined(__x86_64__)
#include <string.h>

#include "baseline.h"

#pragma GCC target("avx2,bmi,bmi2")
#define INLINE static inline __attribute__((always_inline))
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* ---- Tables ---- */

/* Place k of the zigzag is natural_order[k]. What lies behind the block goes to the place behind it: the zero that an end
 * of block comes with, and what damage makes. */
#define EIGHT 64, 64, 64, 64, 64, 64, 64, 64
static const uint8_t natural_order[256] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6,
    7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46,
    53, 60, 61, 54, 47, 55, 62, 63, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT,
    EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT};

/* Bits of a value, at 8 bits a sample. */
#define LARGEST_DC 11
#define LARGEST_AC 10

#define LAST 63 /* place of a block's last coefficient */
#define END 128 /* the step of an end of block: behind whatever a run can reach */

/* The fields of a table's entry are bytes: bits taken in all; then step, bits before the value, 63 less its size of the
 * first code; the same of the second. A step of 0 is no second code, an entry of 0 a first code that is too long. */
INLINE uint64_t field(uint64_t entry, int i) { return entry >> 8 * i & 255; }

/* The entry of one code: behind it a second one that does nothing. */
static uint64_t fields(int length, int symbol) {
    const uint64_t size = (uint64_t)symbol & 15, run = (uint64_t)symbol >> 4;
    const uint64_t step = size == 0 && run != 15 ? END : run + 1, at = (uint64_t)length;
    return (at + size) | step << 8 | at << 16 | (63 - size) << 24 | (uint64_t)63 << 48;
}

#define NO_CODE ((uint64_t)(END + LAST + 1) << 8) /* leads behind any end of block */

/* Put behind the first code of each entry the second one, where all of it lies in the bits looked at. */
static void add_second_codes(uint64_t *look) {
    uint32_t single[1 << IMG_HUFFMAN_LOOK]; /* fields of the first code */
    for (int i = 0; i < 1 << IMG_HUFFMAN_LOOK; i++)
        single[i] = (uint32_t)look[i];
    for (int i = 0; i < 1 << IMG_HUFFMAN_LOOK; i++) {
        const int taken = (int)field(single[i], 0), mask = (1 << IMG_HUFFMAN_LOOK) - 1;
        if (single[i] == 0 || field(single[i], 1) == END || taken >= IMG_HUFFMAN_LOOK)
            continue;
        const uint64_t second = single[i << taken & mask];
        if (second != 0 && taken + (int)field(second, 2) <= IMG_HUFFMAN_LOOK)
            look[i] = (single[i] & ~(uint64_t)255) | ((uint64_t)taken + field(second, 0)) | field(second, 1) << 32 |
                      ((uint64_t)taken + field(second, 2)) << 40 | field(second, 3) << 48;
    }
}

int img_huffman_make(img_huffman *table, int ac, const uint8_t *bits, const uint8_t *symbols) {
    if (table->made == 1 + ac && memcmp(table->bits, bits, 17) == 0 && memcmp(table->symbols, symbols, 256) == 0)
        return 0;
    table->made = 0;
    memset(table->look, 0, sizeof table->look);
    int32_t code = 0, at = 0;
    for (int length = 1; length <= 16; length++, code <<= 1) {
        if (at + bits[length] > 256 || code + bits[length] >= 1 << length) /* no code is all ones */
            return -1;
        table->offset[length] = at - code;
        for (int i = 0; i < bits[length]; i++, at++, code++) {
            if (ac ? (symbols[at] & 15) > LARGEST_AC : symbols[at] > LARGEST_DC)
                return -1;
            const uint64_t entry = fields(length, symbols[at]);
            for (int j = 0; length <= IMG_HUFFMAN_LOOK && j < 1 << (IMG_HUFFMAN_LOOK - length); j++)
                table->look[(code << (IMG_HUFFMAN_LOOK - length)) + j] = entry;
        }
        table->end[length] = code << (16 - length);
    }
    if (ac)
        add_second_codes(table->look);
    memcpy(table->bits, bits, 17);
    memcpy(table->symbols, symbols, 256);
    table->made = 1 + ac;
    return 0;
}

/* The entry of a code of more than IMG_HUFFMAN_LOOK bits at the top of `bits`. */
static __attribute__((noinline)) uint64_t long_code(const img_huffman *table, uint64_t bits) {
    const int32_t code = (int32_t)(bits >> 48);
    for (int length = IMG_HUFFMAN_LOOK + 1; length <= 16; length++)
        if (code < table->end[length])
            return fields(length, table->symbols[((code >> (16 - length)) + table->offset[length]) & 255]);
    return NO_CODE;
}

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
    r->count -= (int64_t)field(entry, 0);
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
        entry = long_code(ac, bits);
    take(r, entry);
    at->entry = entry;
    at->first = at->k + field(entry, 1);
    at->k = at->first + field(entry, 4);
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
    if (UNLIKELY(entry == 0) && (entry = long_code(dc, r->bits)) == NO_CODE)
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
        const int64_t taken = (int64_t)(field(at.entry, 2) + 63 - field(at.entry, 3));
        r->count += (int64_t)field(at.entry, 0) - taken;
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
typedef int img_huffman_is_empty_here; /* ISO C wants at least one declaration */
#endif
