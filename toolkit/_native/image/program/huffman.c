/* Huffman tables: a look-up by the next bits gives a code's length, its zero run and how many bits its value has, so that
 * finding the next code waits for one load and one shift; the value is worked out beside that.
 */
#include "huffman.h"

#if defined(__x86_64__)
#include <string.h>

#pragma GCC target("avx2,bmi,bmi2")

/* Bits of a value, at 8 bits a sample. */
#define LARGEST_DC 11
#define LARGEST_AC 10

/* The entry of one code: behind it a second one that does nothing. */
static uint64_t fields(int length, int symbol) {
    const uint64_t size = (uint64_t)symbol & 15, run = (uint64_t)symbol >> 4;
    const uint64_t step = size == 0 && run != 15 ? IMG_HUFFMAN_END : run + 1, at = (uint64_t)length;
    return (at + size) | step << 8 | at << 16 | (63 - size) << 24 | (uint64_t)63 << 48;
}

/* Put behind the first code of each entry the second one, where all of it lies in the bits looked at. */
static void add_second_codes(uint64_t *look) {
    uint32_t single[1 << IMG_HUFFMAN_LOOK]; /* fields of the first code */
    for (int i = 0; i < 1 << IMG_HUFFMAN_LOOK; i++)
        single[i] = (uint32_t)look[i];
    for (int i = 0; i < 1 << IMG_HUFFMAN_LOOK; i++) {
        const int taken = (int)img_huffman_field(single[i], 0), mask = (1 << IMG_HUFFMAN_LOOK) - 1;
        if (single[i] == 0 || img_huffman_field(single[i], 1) == IMG_HUFFMAN_END || taken >= IMG_HUFFMAN_LOOK)
            continue;
        const uint64_t second = single[i << taken & mask];
        if (second != 0 && taken + (int)img_huffman_field(second, 2) <= IMG_HUFFMAN_LOOK)
            look[i] = (single[i] & ~(uint64_t)255) | ((uint64_t)taken + img_huffman_field(second, 0)) |
                      img_huffman_field(second, 1) << 32 | ((uint64_t)taken + img_huffman_field(second, 2)) << 40 |
                      img_huffman_field(second, 3) << 48;
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

uint64_t img_huffman_long_code(const img_huffman *table, uint64_t bits) {
    const int32_t code = (int32_t)(bits >> 48);
    for (int length = IMG_HUFFMAN_LOOK + 1; length <= 16; length++)
        if (code < table->end[length])
            return fields(length, table->symbols[((code >> (16 - length)) + table->offset[length]) & 255]);
    return IMG_HUFFMAN_NO_CODE;
}
#else
typedef int img_huffman_is_empty_here; /* ISO C wants at least one declaration */
#endif
