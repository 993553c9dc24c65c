/* The loops of image_resample.c for AVX2 and AVX-512; compiled into every x86-64 build, used where the processor has them.
 *
 * As in Pillow-SIMD, two taps of a channel lie side by side as 16-bit numbers and one vpmaddwd multiplies and adds them.
 * AVX-512 (with VBMI and VNNI) brings the pixels of four outputs into that order with one vpermb.
 */
#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#include "image.h"

#define AVX2 __attribute__((target("avx2")))
#define AVX512 __attribute__((target("avx2,avx512f,avx512bw,avx512vbmi,avx512vnni")))
#define INLINE512 static inline __attribute__((always_inline)) AVX512
#define INLINE static inline __attribute__((always_inline)) AVX2

/* Sums of two neighbouring outputs, one in each half. */
INLINE __m256i two_outputs(const uint8_t *row, const int32_t *start, const int16_t *wide, int64_t pairs, __m256i first,
                           __m256i second, __m256i half) {
    const uint8_t *a = row + 4 * (int64_t)start[0], *b = row + 4 * (int64_t)start[1];
    const __m256i *c = (const __m256i *)wide;
    __m256i sum = half;
    int64_t p = 0;
    for (; p + 1 < pairs; p += 2, a += 16, b += 16, c += 2) {
        __m256i four = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)a)),
                                               _mm_loadu_si128((const __m128i *)b), 1);
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_shuffle_epi8(four, first), c[0]));
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_shuffle_epi8(four, second), c[1]));
    }
    if (p < pairs) {
        __m256i two = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadl_epi64((const __m128i *)a)),
                                              _mm_loadl_epi64((const __m128i *)b), 1);
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_shuffle_epi8(two, first), c[0]));
    }
    return sum;
}

INLINE void horizontal_of(uint8_t *out, const uint8_t *row, const img_axis *axis, int64_t pairs) {
    /* Bytes of pixels 0 and 1 (2 and 3) to r0 r1 g0 g1 b0 b1 x0 x1, each with a zero byte above it. */
    const __m256i first = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, -1, 4, -1, 1, -1, 5, -1, 2, -1, 6, -1, 3, -1, 7, -1));
    const __m256i second = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(8, -1, 12, -1, 9, -1, 13, -1, 10, -1, 14, -1, 11, -1, 15, -1));
    const __m256i half = _mm256_set1_epi32(1 << (axis->precision - 1));
    const __m128i shift = _mm_cvtsi32_si128(axis->precision);
    const int32_t *start = axis->start;
    const int16_t *wide = axis->wide;
    for (int64_t i = 0; i < axis->padded; i += 4) {
        __m256i left = two_outputs(row, start + i, wide, pairs, first, second, half);
        __m256i right = two_outputs(row, start + i + 2, wide + 16 * pairs, pairs, first, second, half);
        wide += 32 * pairs;
        __m256i words = _mm256_packs_epi32(_mm256_sra_epi32(left, shift), _mm256_sra_epi32(right, shift));
        __m256i bytes = _mm256_packus_epi16(words, words); /* outputs 0 2 0 2 | 1 3 1 3 */
        _mm_storeu_si128((__m128i *)(out + 4 * i),
                         _mm_unpacklo_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1)));
    }
}

AVX2 static void horizontal(uint8_t *out, const uint8_t *row, const img_axis *axis) {
    switch (axis->pairs) { /* the usual widths get their loops unrolled */
    case 1:
        horizontal_of(out, row, axis, 1);
        break;
    case 2:
        horizontal_of(out, row, axis, 2);
        break;
    case 3:
        horizontal_of(out, row, axis, 3);
        break;
    case 4:
        horizontal_of(out, row, axis, 4);
        break;
    default:
        horizontal_of(out, row, axis, axis->pairs);
    }
}

INLINE void vertical_of(uint8_t *out, const uint8_t *const *rows, const int16_t *coefficients, int64_t pairs,
                        int precision, int64_t bytes) {
    const __m256i zero = _mm256_setzero_si256(), half = _mm256_set1_epi32(1 << (precision - 1));
    const __m128i shift = _mm_cvtsi32_si128(precision);
    for (int64_t at = 0; at < bytes; at += 32) {
        __m256i s0 = half, s1 = half, s2 = half, s3 = half;
        for (int64_t p = 0; p < pairs; p++) {
            int32_t two;
            memcpy(&two, coefficients + 2 * p, 4);
            const __m256i c = _mm256_set1_epi32(two);
            __m256i a = _mm256_loadu_si256((const __m256i *)(rows[2 * p] + at));
            __m256i b = _mm256_loadu_si256((const __m256i *)(rows[2 * p + 1] + at));
            __m256i low = _mm256_unpacklo_epi8(a, b), high = _mm256_unpackhi_epi8(a, b);
            s0 = _mm256_add_epi32(s0, _mm256_madd_epi16(_mm256_unpacklo_epi8(low, zero), c));
            s1 = _mm256_add_epi32(s1, _mm256_madd_epi16(_mm256_unpackhi_epi8(low, zero), c));
            s2 = _mm256_add_epi32(s2, _mm256_madd_epi16(_mm256_unpacklo_epi8(high, zero), c));
            s3 = _mm256_add_epi32(s3, _mm256_madd_epi16(_mm256_unpackhi_epi8(high, zero), c));
        }
        __m256i low = _mm256_packs_epi32(_mm256_sra_epi32(s0, shift), _mm256_sra_epi32(s1, shift));
        __m256i high = _mm256_packs_epi32(_mm256_sra_epi32(s2, shift), _mm256_sra_epi32(s3, shift));
        _mm256_storeu_si256((__m256i *)(out + at), _mm256_packus_epi16(low, high));
    }
}

AVX2 static void vertical(uint8_t *out, const uint8_t *const *rows, const int16_t *coefficients, int64_t pairs,
                          int precision, int64_t bytes) {
    if (pairs == 1)
        vertical_of(out, rows, coefficients, 1, precision, bytes);
    else if (pairs == 2)
        vertical_of(out, rows, coefficients, 2, precision, bytes);
    else
        vertical_of(out, rows, coefficients, pairs, precision, bytes);
}

AVX2 static void to_rgb(uint8_t *out, const uint8_t *rgbx, int64_t count) {
    const __m256i drop = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1));
    const __m256i join = _mm256_setr_epi32(0, 1, 2, 4, 5, 6, 3, 7);
    int64_t i = 0;
    for (; i + 11 <= count; i += 8) { /* each store writes 32 bytes, 24 of them to stay */
        __m256i eight = _mm256_loadu_si256((const __m256i *)(rgbx + 4 * i));
        eight = _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(eight, drop), join);
        _mm256_storeu_si256((__m256i *)(out + 3 * i), eight);
    }
    img_generic_kernels.to_rgb(out + 3 * i, rgbx + 4 * i, count - i);
}

AVX2 static void to_planes(float *out, int64_t plane, const uint8_t *rgbx, int64_t count, const float *scale,
                           const float *bias) {
    const __m256i byte = _mm256_set1_epi32(255);
    int64_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m256i eight = _mm256_loadu_si256((const __m256i *)(rgbx + 4 * i));
        for (int c = 0; c < 3; c++) {
            __m256 value = _mm256_cvtepi32_ps(_mm256_and_si256(_mm256_srli_epi32(eight, 8 * c), byte));
            value = _mm256_add_ps(_mm256_mul_ps(value, _mm256_set1_ps(scale[c])), _mm256_set1_ps(bias[c]));
            _mm256_storeu_ps(out + c * plane + i, value);
        }
    }
    img_generic_kernels.to_planes(out + i, plane, rgbx + 4 * i, count - i, scale, bias);
}

INLINE512 void horizontal_of_512(uint8_t *out, const uint8_t *row, const img_axis *axis, int64_t pairs) {
    const __m512i half = _mm512_set1_epi32(1 << (axis->precision - 1)), next = _mm512_set1_epi8(8);
    const __m128i shift = _mm_cvtsi32_si128(axis->precision);
    const __mmask64 even = 0x5555555555555555;
    const __m512i *c = (const __m512i *)axis->wide, *index = (const __m512i *)axis->index;
    for (int64_t i = 0; i < axis->padded; i += 4, c += pairs) {
        const __m512i pixels = _mm512_loadu_si512(row + 4 * (int64_t)axis->start[i]);
        __m512i sum = half, order = *index++;
        for (int64_t p = 0; p < pairs; p++) {
            sum = _mm512_dpwssd_epi32(sum, _mm512_maskz_permutexvar_epi8(even, order, pixels), c[p]);
            order = _mm512_add_epi8(order, next);
        }
        _mm_storeu_si128((__m128i *)(out + 4 * i), _mm512_cvtepi32_epi8(_mm512_sra_epi32(sum, shift)));
    }
}

AVX512 static void horizontal_512(uint8_t *out, const uint8_t *row, const img_axis *axis) {
    if (axis->lanes != 4)
        horizontal(out, row, axis);
    else if (axis->pairs == 1)
        horizontal_of_512(out, row, axis, 1);
    else if (axis->pairs == 2)
        horizontal_of_512(out, row, axis, 2);
    else if (axis->pairs == 3)
        horizontal_of_512(out, row, axis, 3);
    else
        horizontal_of_512(out, row, axis, axis->pairs);
}

const img_kernels img_avx512_kernels = {"avx512", 4, horizontal_512, vertical, to_rgb, to_planes};
const img_kernels img_avx2_kernels = {"avx2", 2, horizontal, vertical, to_rgb, to_planes};
#else
typedef int img_x86_is_empty_here; /* ISO C wants at least one declaration */
#endif
