/* Halves: bfloat16 and float16 of float and back; to nearest, halves to even, as numpy, torch and JAX round. */
#ifndef TOOLKIT_IMAGE_HALF_H
#define TOOLKIT_IMAGE_HALF_H

#include <stdint.h>
#include <string.h>

/* All cases are computed and one is taken: so compilers make vectors of it. */
static inline uint16_t to_bf16(float value) {
    uint32_t bits, rounded;
    memcpy(&bits, &value, 4);
    rounded = bits + 0x7FFF + (bits >> 16 & 1);
    /* NaN stays one: rounding could carry into its sign. */
    return (uint16_t)(((bits & 0x7FFFFFFF) > 0x7F800000 ? bits | 0x400000 : rounded) >> 16);
}

static inline uint16_t to_f16(float value) {
    uint32_t bits, sign, small_bits, half;
    float small;
    memcpy(&bits, &value, 4);
    sign = bits >> 16 & 0x8000;
    bits &= 0x7FFFFFFF;
    memcpy(&small, &bits, 4);
    small += 0.5f; /* below the normal numbers an addition rounds */
    memcpy(&small_bits, &small, 4);
    half = (bits - 0x38000000 + 0xFFF + (bits >> 13 & 1)) >> 13;
    half = bits < 0x38800000 ? small_bits - 0x3F000000 : half;
    half = bits >= 0x477FF000 ? 0x7C00 : half; /* rounds to infinity */
    half = bits > 0x7F800000 ? 0x7E00 : half;  /* NaN */
    return (uint16_t)(sign | half);
}

static inline float from_bf16(uint16_t half) {
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

/* A multiplication moves the exponent, and makes normal numbers of those below. */
static inline float from_f16(uint16_t half) {
    uint32_t bits = (uint32_t)(half & 0x7FFF) << 13, sign = (uint32_t)(half & 0x8000) << 16;
    float value;
    memcpy(&value, &bits, 4);
    value *= 0x1p112f;
    memcpy(&bits, &value, 4);
    bits |= sign | (bits >= 0x47800000 ? 0x7F800000 : 0); /* infinity and NaN */
    memcpy(&value, &bits, 4);
    return value;
}

#endif
