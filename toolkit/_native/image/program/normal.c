/* Numbers of the normal distribution: Box and Muller's method in float, without a branch and without the library's log and
 * sin, which differ from machine to machine. */
#include "normal.h"

#include <math.h>
#include <string.h>

#include "base.h"
#include "draws.h"

#define HALF (IMG_NORMALS / 2)

IMG_CLONES static void draw_bits(uint32_t *radius, uint32_t *angle, uint64_t key, uint64_t first) {
    for (uint64_t i = 0; i < HALF; i++) {
        const uint64_t bits = img_fold(key, first + i);
        radius[i] = (uint32_t)(bits >> 40);
        angle[i] = (uint32_t)bits;
    }
}

/* The natural logarithm of `whole` / 2^24, 1 .. 2^24: that of the power of two, and of what is left, which is within sqrt(1/2)
 * .. sqrt(2), by the series of the inverse hyperbolic tangent. */
static inline float log_of_part(uint32_t whole) {
    const float value = (float)(int32_t)whole;
    uint32_t bits;
    memcpy(&bits, &value, 4);
    bits += 0x3F800000 - 0x3F3504F3;
    const float power = (float)((int32_t)(bits >> 23) - 127 - 24);
    bits = (bits & 0x7FFFFF) + 0x3F3504F3;
    float rest;
    memcpy(&rest, &bits, 4);
    const float s = (rest - 1.0f) / (rest + 1.0f), t = s * s;
    const float series = 1.0f + t * (0x1.555556p-2f + t * (0x1.99999ap-3f + t * (0x1.24924ap-3f + t * 0x1.c71c72p-4f)));
    return power * 0x1.62e430p-1f + 2.0f * s * series;
}

IMG_CLONES void img_draw_normals(float *out, uint64_t key, int64_t block) {
    uint32_t radius[HALF], angle[HALF];
    draw_bits(radius, angle, key, (uint64_t)block * HALF);
    for (int i = 0; i < HALF; i++) {
        const float length = sqrtf(-2.0f * log_of_part(radius[i] + 1));
        const float f = (float)((int32_t)(angle[i] & 0x3FFFFFFF) - 0x20000000) * 0x1.921fb6p-30f, g = f * f;
        const float sine = f * (1.0f - g * (0x1.555556p-3f - g * (0x1.111112p-7f - g * (0x1.a01a02p-13f - g * 0x1.71de3ap-19f))));
        const float even = 1.0f - g * (0.5f - g * (0x1.555556p-5f - g * (0x1.6c16c2p-10f - g * 0x1.a01a02p-16f)));
        const float cosine = angle[i] >> 31 ? -even : even;
        const int swapped = (int)(angle[i] >> 30 & 1);
        out[i] = length * (swapped ? sine : cosine);
        out[i + HALF] = length * (swapped ? cosine : sine);
    }
}
