/* Huffman tables of a JPEG, as the decoder of scans looks codes up. */
#ifndef TOOLKIT_IMAGE_HUFFMAN_H
#define TOOLKIT_IMAGE_HUFFMAN_H

#include <stdint.h>

#define IMG_HUFFMAN_LOOK 10

/* A Huffman table, and what it was made from. */
typedef struct {
    uint64_t look[1 << IMG_HUFFMAN_LOOK]; /* by the next bits: one code, of AC a second one where it fits; 0: longer */
    int32_t end[17];                      /* behind the last code of a length, as 16 bits */
    int32_t offset[17];                   /* from a code of a length to the place of its symbol */
    uint8_t bits[17], symbols[256];
    int made;                             /* 1: of DC, 2: of AC, 0: nothing there */
} img_huffman;

/* ---- Entries ---- */

#define IMG_HUFFMAN_LAST 63 /* place of a block's last coefficient */
#define IMG_HUFFMAN_END 128 /* the step of an end of block: behind whatever a run can reach */

/* The fields of a table's entry are bytes: bits taken in all; then step, bits before the value, 63 less its size of the
 * first code; the same of the second. A step of 0 is no second code, an entry of 0 a first code that is too long. */
static inline uint64_t img_huffman_field(uint64_t entry, int i) { return entry >> 8 * i & 255; }

#define IMG_HUFFMAN_NO_CODE ((uint64_t)(IMG_HUFFMAN_END + IMG_HUFFMAN_LAST + 1) << 8) /* leads behind any end of block */

/* ---- Tables ---- */

/* Make a table from a DHT's counts and symbols, if it isn't that already. -1: not one that this decoder takes. */
int img_huffman_make(img_huffman *table, int ac, const uint8_t *bits, const uint8_t *symbols);
/* The entry of a code of more than IMG_HUFFMAN_LOOK bits at the top of `bits`. */
uint64_t img_huffman_long_code(const img_huffman *table, uint64_t bits);

#endif
