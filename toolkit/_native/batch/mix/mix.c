/* Blends and swaps: one pass over both samples, which are read and written while they are in the cache. */
#include "mix.h"

#include <string.h>

#include "image/program/base.h"
#include "image/program/half.h"

#define CHUNK 4096 /* bytes of a swap at once */

static const int64_t widths[MIX_DTYPES] = {1, 2, 2, 4, 8};

int64_t mix_width(int dtype) { return widths[dtype]; }

/* Of 0..255 with the fraction in the last bits: an addition rounds it away. */
static inline uint8_t to_u8(float value) {
    uint32_t bits;
    value += 0x1.8p23f;
    memcpy(&bits, &value, 4);
    return (uint8_t)bits;
}

#define SAME(v) (v)

#define BLEND(name, type, real, load, store)                                                                   \
    IMG_CLONES static void name(type *restrict first, type *restrict second, int64_t count, real share,        \
                                real rest) {                                                                   \
        for (int64_t i = 0; i < count; i++) {                                                                  \
            const real one = load(first[i]), other = load(second[i]);                                          \
            first[i] = store(one * share + other * rest);                                                      \
            second[i] = store(other * share + one * rest);                                                     \
        }                                                                                                      \
    }

BLEND(blend_u8, uint8_t, float, SAME, to_u8)
BLEND(blend_f16, uint16_t, float, from_f16, to_f16)
BLEND(blend_bf16, uint16_t, float, from_bf16, to_bf16)
BLEND(blend_f32, float, float, SAME, SAME)
BLEND(blend_f64, double, double, SAME, SAME)

void mix_blend(void *first, void *second, int64_t count, int dtype, float share, float rest) {
    switch ((mix_dtype)dtype) {
    case MIX_U8:
        blend_u8(first, second, count, share, rest);
        break;
    case MIX_F16:
        blend_f16(first, second, count, share, rest);
        break;
    case MIX_BF16:
        blend_bf16(first, second, count, share, rest);
        break;
    case MIX_F32:
        blend_f32(first, second, count, share, rest);
        break;
    case MIX_F64:
        blend_f64(first, second, count, share, rest);
        break;
    case MIX_DTYPES:
        break;
    }
}

static void swap(uint8_t *restrict first, uint8_t *restrict second, int64_t bytes) {
    uint8_t kept[CHUNK];
    while (bytes > 0) {
        const size_t now = (size_t)(bytes < CHUNK ? bytes : CHUNK);
        memcpy(kept, first, now);
        memcpy(first, second, now);
        memcpy(second, kept, now);
        first += now;
        second += now;
        bytes -= (int64_t)now;
    }
}

void mix_swap(uint8_t *first, uint8_t *second, int64_t planes, int64_t plane, int64_t rows, int64_t stride,
              int64_t bytes) {
    for (int64_t p = 0; p < planes; p++)
        for (int64_t y = 0; y < rows; y++)
            swap(first + p * plane + y * stride, second + p * plane + y * stride, bytes);
}
