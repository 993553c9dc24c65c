/* Blends and swaps: one pass over both samples, which are read and written while they are in the cache. */
#include "mix.h"

#include <string.h>

#include "image/program/base.h"
#include "image/program/half.h"

#define LINE 64 /* bytes that a cache fetches at once */
#define AHEAD 4096 /* bytes of a box that are asked for early: machines look ahead along rows, but not to the next */

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

IMG_CLONES static void swap(uint8_t *restrict first, uint8_t *restrict second, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i++) {
        const uint8_t kept = first[i];
        first[i] = second[i];
        second[i] = kept;
    }
}

/* Ask for a run of bytes that will be changed, from the line that it begins in to the one that it ends in. */
static inline void fetch_run(const uint8_t *run, int64_t bytes) {
    const uintptr_t at = (uintptr_t)run;
    for (uintptr_t line = at & ~(uintptr_t)(LINE - 1); line < at + (uintptr_t)bytes; line += LINE)
        __builtin_prefetch((const void *)line, 1);
}

void mix_swap(uint8_t *first, uint8_t *second, int64_t planes, int64_t plane, int64_t rows, int64_t stride,
              int64_t bytes) {
    const int64_t early = 1 + AHEAD / (bytes + 1); /* rows */
    for (int64_t p = 0; p < planes; p++)
        for (int64_t y = 0; y < rows; y++) {
            const int64_t row = p * plane + y * stride;
            if (y + early < rows && bytes <= AHEAD) {
                fetch_run(first + row + early * stride, bytes);
                fetch_run(second + row + early * stride, bytes);
            }
            swap(first + row, second + row, bytes);
        }
}
