/* Huffman decoding of a sequential JPEG's only scan, with the bytes that stuffing added taken out beforehand.
 *
 * A look-up by the next LOOK bits gives a code's length, its zero run and how many bits its value has, so that finding
 * the next code waits for one load and one shift; the value is worked out beside that. Bits are refilled 8 bytes at a
 * time without a branch (F. Giesen, "Reading bits in far too many ways, part 2", variant 4).
 */
#include <string.h>

#include "image_baseline.h"

#define INLINE static inline __attribute__((always_inline))
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* Place k of the zigzag is natural_order[k]; behind the block for runs that damage makes too long. */
static const uint8_t natural_order[64 + 16] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13,
    6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31,
    39, 46, 53, 60, 61, 54, 47, 55, 62, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63};

/* ---- Tables ---- */

/* What a code means: its value's size is in the low four bits of the symbol, its run in the high ones. */
INLINE uint32_t entry_of(int length, int symbol) {
    const uint32_t size = symbol & 15, run = (uint32_t)symbol >> 4;
    return ((uint32_t)length + size) | (uint32_t)length << 8 | size << 16 | (run + 1) << 24;
}

int img_huffman_make(img_huffman *table, const uint8_t *bits, const uint8_t *symbols, int largest_size) {
    if (table->made == largest_size && memcmp(table->bits, bits, 17) == 0 && memcmp(table->symbols, symbols, 256) == 0)
        return 0;
    table->made = 0;
    memset(table->look, 0, sizeof table->look);
    int32_t code = 0, at = 0;
    for (int length = 1; length <= 16; length++, code <<= 1) {
        if (at + bits[length] > 256 || code + bits[length] > 1 << length)
            return -1;
        table->offset[length] = at - code;
        for (int i = 0; i < bits[length]; i++, at++, code++) {
            if ((symbols[at] & 15) > largest_size)
                return -1;
            const uint32_t entry = entry_of(length, symbols[at]);
            for (int j = 0; length <= IMG_HUFFMAN_LOOK && j < 1 << (IMG_HUFFMAN_LOOK - length); j++)
                table->look[(code << (IMG_HUFFMAN_LOOK - length)) + j] = entry;
        }
        table->end[length] = code << (16 - length);
    }
    memcpy(table->bits, bits, 17);
    memcpy(table->symbols, symbols, 256);
    table->made = largest_size;
    return 0;
}

/* A code of more than IMG_HUFFMAN_LOOK bits at the top of `bits`; 0 is none. */
static __attribute__((noinline)) uint32_t long_code(const img_huffman *table, uint64_t bits) {
    const int32_t code = (int32_t)(bits >> 48);
    for (int length = IMG_HUFFMAN_LOOK + 1; length <= 16; length++)
        if (code < table->end[length])
            return entry_of(length, table->symbols[((code >> (16 - length)) + table->offset[length]) & 255]);
    return 0;
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

INLINE uint32_t next_code(reader *r, const img_huffman *table) {
    uint32_t entry = table->look[r->bits >> (64 - IMG_HUFFMAN_LOOK)];
    if (UNLIKELY(entry == 0))
        entry = long_code(table, r->bits);
    return entry;
}

/* Take the code and its value, which has `size` bits, at least one; a leading zero means a negative one. */
INLINE int64_t take(reader *r, uint32_t entry) {
    const uint64_t value = r->bits << (entry >> 8 & 63);
    const int64_t size = entry >> 16 & 15, negative = ~((int64_t)value >> 63);
    r->bits <<= entry & 63;
    r->count -= entry & 63;
    return (int64_t)(value >> ((64 - size) & 63)) + (int64_t)((uint64_t)negative << size) - negative;
}

INLINE void drop(reader *r, uint32_t entry) {
    r->bits <<= entry & 63;
    r->count -= entry & 63;
}

/* One block. Returns the place of its last coefficient in the zigzag, -1 for damage. */
INLINE int decode_block(reader *r, const img_huffman *dc, const img_huffman *ac, int *predicted, int16_t *block,
                        int store) {
    refill(r);
    uint32_t entry = next_code(r, dc);
    if (entry >> 16 & 15)
        *predicted += (int)take(r, entry);
    else
        drop(r, entry);
    if (store) {
        memset(block, 0, 64 * sizeof *block);
        block[0] = (int16_t)*predicted;
    }
    uint32_t k = 0, last = 0, bad = entry == 0;
    for (int second = 1; k < 63; second = !second) { /* two codes with their values have at most 53 bits */
        if (!second)
            refill(r);
        entry = next_code(r, ac);
        k += entry >> 24;
        if ((entry >> 16 & 15) == 0) { /* a run of 16 zeros, or the end of the block */
            drop(r, entry);
            if (entry >> 24 == 16)
                continue;
            bad |= entry == 0;
            break;
        }
        if (store) {
            block[natural_order[k]] = (int16_t)take(r, entry);
            last = k;
        } else {
            drop(r, entry);
        }
    }
    return UNLIKELY(bad || last > 63 || k > 63) ? -1 : (int)last;
}

INLINE int decode_mcu(img_scan *scan, int16_t *blocks, int *flat, int store) {
    reader r = {scan->bits, scan->count, scan->next};
    int damaged = 0;
    *flat = 0;
    for (int i = 0; i < scan->blocks; i++) {
        const int c = scan->component[i];
        const int last = decode_block(&r, scan->dc[c], scan->ac[c], &scan->predicted[c], store ? blocks + 64 * i : NULL, store);
        damaged |= last;
        *flat |= (last == 0) << i;
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
