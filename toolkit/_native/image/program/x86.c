/* The loops of resample.c for AVX2 and AVX-512; compiled into every x86-64 build, used where the processor has them.
 *
 * As in Pillow-SIMD, two taps of a channel lie side by side as 16-bit numbers and one vpmaddwd multiplies and adds them.
 * Unlike there, that is done for the high and the low half of each coefficient, so that no bit is lost.
 * AVX-512 (with VBMI and VNNI) brings the pixels of four outputs into that order with one vpermb.
 */
#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#include "kernels.h"

#define HALF (1 << (IMG_PRECISION - 1))
#define AVX2 __attribute__((target("avx2")))
#define AVX512 __attribute__((target("avx2,avx512f,avx512bw,avx512vbmi,avx512vnni")))
#define INLINE512 static inline __attribute__((always_inline)) AVX512
#define INLINE static inline __attribute__((always_inline)) AVX2

/* Sums of two neighbouring outputs, one in each half. Sums wrap around; the total fits. */
INLINE __m256i two_outputs(const uint8_t *row, const int32_t *start, const int16_t *wide, int64_t pairs, int coarse,
                           __m256i first, __m256i second) {
    const uint8_t *a = row + 4 * (int64_t)start[0], *b = row + 4 * (int64_t)start[1];
    const __m256i *c = (const __m256i *)wide;
    __m256i high = _mm256_setzero_si256(), low = _mm256_set1_epi32(HALF), two;
    int64_t p = 0;
    for (; p + 1 < pairs; p += 2, a += 16, b += 16, c += 4) {
        __m256i four = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)a)),
                                               _mm_loadu_si128((const __m128i *)b), 1);
        two = _mm256_shuffle_epi8(four, first);
        high = _mm256_add_epi32(high, _mm256_madd_epi16(two, c[0]));
        low = coarse ? low : _mm256_add_epi32(low, _mm256_madd_epi16(two, c[1]));
        two = _mm256_shuffle_epi8(four, second);
        high = _mm256_add_epi32(high, _mm256_madd_epi16(two, c[2]));
        low = coarse ? low : _mm256_add_epi32(low, _mm256_madd_epi16(two, c[3]));
    }
    if (p < pairs) {
        two = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadl_epi64((const __m128i *)a)),
                                      _mm_loadl_epi64((const __m128i *)b), 1);
        two = _mm256_shuffle_epi8(two, first);
        high = _mm256_add_epi32(high, _mm256_madd_epi16(two, c[0]));
        low = coarse ? low : _mm256_add_epi32(low, _mm256_madd_epi16(two, c[1]));
    }
    return _mm256_srai_epi32(_mm256_add_epi32(_mm256_slli_epi32(high, IMG_SPLIT), low), IMG_PRECISION);
}

INLINE void horizontal_of(uint8_t *out, const uint8_t *row, const img_axis *axis, int64_t pairs, int coarse) {
    /* Bytes of pixels 0 and 1 (2 and 3) to r0 r1 g0 g1 b0 b1 x0 x1, each with a zero byte above it. */
    const __m256i first = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, -1, 4, -1, 1, -1, 5, -1, 2, -1, 6, -1, 3, -1, 7, -1));
    const __m256i second = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(8, -1, 12, -1, 9, -1, 13, -1, 10, -1, 14, -1, 11, -1, 15, -1));
    const int32_t *start = axis->start;
    const int16_t *wide = axis->wide;
    for (int64_t i = 0; i < axis->padded; i += 4) {
        __m256i left = two_outputs(row, start + i, wide, pairs, coarse, first, second);
        __m256i right = two_outputs(row, start + i + 2, wide + 32 * pairs, pairs, coarse, first, second);
        wide += 64 * pairs;
        __m256i words = _mm256_packs_epi32(left, right);
        __m256i bytes = _mm256_packus_epi16(words, words); /* outputs 0 2 0 2 | 1 3 1 3 */
        _mm_storeu_si128((__m128i *)(out + 4 * i),
                         _mm_unpacklo_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1)));
    }
}

/* The usual widths get their loops unrolled. */
#define BY_WIDTH(loop, ...)                                                                                            \
    switch (axis->pairs) {                                                                                             \
    case 1:                                                                                                            \
        loop(__VA_ARGS__, 1, coarse);                                                                                  \
        break;                                                                                                         \
    case 2:                                                                                                            \
        loop(__VA_ARGS__, 2, coarse);                                                                                  \
        break;                                                                                                         \
    case 3:                                                                                                            \
        loop(__VA_ARGS__, 3, coarse);                                                                                  \
        break;                                                                                                         \
    default:                                                                                                           \
        loop(__VA_ARGS__, axis->pairs, coarse);                                                                        \
    }

INLINE void horizontal_by_width(uint8_t *out, const uint8_t *row, const img_axis *axis, int coarse) {
    BY_WIDTH(horizontal_of, out, row, axis)
}

AVX2 static void horizontal(uint8_t *out, const uint8_t *row, const img_axis *axis) {
    if (axis->coarse)
        horizontal_by_width(out, row, axis, 1);
    else
        horizontal_by_width(out, row, axis, 0);
}

/* Four bytes of each half of a vector, every one with its neighbour of the next row. */
#define FOUR(n, interleaved)                                                             \
    high##n = _mm256_add_epi32(high##n, _mm256_madd_epi16(interleaved, c_high));         \
    low##n = coarse ? low##n : _mm256_add_epi32(low##n, _mm256_madd_epi16(interleaved, c_low))
#define TOTAL(n) _mm256_srai_epi32(_mm256_add_epi32(_mm256_slli_epi32(high##n, IMG_SPLIT), low##n), IMG_PRECISION)

INLINE void vertical_of(uint8_t *out, const uint8_t *const *rows, const int16_t *split, int64_t bytes, int64_t pairs,
                        int coarse) {
    const __m256i zero = _mm256_setzero_si256(), half = _mm256_set1_epi32(HALF);
    for (int64_t at = 0; at < bytes; at += 32) {
        __m256i high0 = zero, high1 = zero, high2 = zero, high3 = zero;
        __m256i low0 = half, low1 = half, low2 = half, low3 = half;
        for (int64_t p = 0; p < pairs; p++) {
            int32_t two[2];
            memcpy(two, split + 4 * p, 8);
            const __m256i c_high = _mm256_set1_epi32(two[0]), c_low = _mm256_set1_epi32(two[1]);
            __m256i a = _mm256_loadu_si256((const __m256i *)(rows[2 * p] + at));
            __m256i b = _mm256_loadu_si256((const __m256i *)(rows[2 * p + 1] + at));
            __m256i left = _mm256_unpacklo_epi8(a, b), right = _mm256_unpackhi_epi8(a, b), four;
            four = _mm256_unpacklo_epi8(left, zero);
            FOUR(0, four);
            four = _mm256_unpackhi_epi8(left, zero);
            FOUR(1, four);
            four = _mm256_unpacklo_epi8(right, zero);
            FOUR(2, four);
            four = _mm256_unpackhi_epi8(right, zero);
            FOUR(3, four);
        }
        __m256i left = _mm256_packs_epi32(TOTAL(0), TOTAL(1)), right = _mm256_packs_epi32(TOTAL(2), TOTAL(3));
        _mm256_storeu_si256((__m256i *)(out + at), _mm256_packus_epi16(left, right));
    }
}

INLINE void vertical_by_width(uint8_t *out, const uint8_t *const *rows, const img_axis *axis, int64_t i, int64_t bytes,
                              int coarse) {
    BY_WIDTH(vertical_of, out, rows, axis->split + 4 * i * axis->pairs, bytes)
}

AVX2 static void vertical(uint8_t *out, const uint8_t *const *rows, const img_axis *axis, int64_t i, int64_t bytes) {
    if (axis->coarse)
        vertical_by_width(out, rows, axis, i, bytes, 1);
    else
        vertical_by_width(out, rows, axis, i, bytes, 0);
}

AVX2 static void from_rgb(uint8_t *rgbx, const uint8_t *rgb, int64_t count) {
    const __m256i spread = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1));
    const __m256i opaque = _mm256_set1_epi32((int)0xFF000000u);
    int64_t i = 0;
    for (; i + 10 <= count; i += 8) { /* reads 28 bytes, 24 of them used */
        const uint8_t *p = rgb + 3 * i;
        __m256i eight = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)p)),
                                                _mm_loadu_si128((const __m128i *)(p + 12)), 1);
        _mm256_storeu_si256((__m256i *)(rgbx + 4 * i), _mm256_or_si256(_mm256_shuffle_epi8(eight, spread), opaque));
    }
    img_generic_kernels.from_rgb(rgbx + 4 * i, rgb + 3 * i, count - i);
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

AVX2 static void reverse(uint8_t *out, const uint8_t *rgbx, int64_t count) {
    const __m256i order = _mm256_setr_epi32(7, 6, 5, 4, 3, 2, 1, 0);
    int64_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m256i eight = _mm256_loadu_si256((const __m256i *)(rgbx + 4 * (count - 8 - i)));
        _mm256_storeu_si256((__m256i *)(out + 4 * i), _mm256_permutevar8x32_epi32(eight, order));
    }
    img_generic_kernels.reverse(out + 4 * i, rgbx, count - i);
}

INLINE512 void horizontal_of_512(uint8_t *out, const uint8_t *row, const img_axis *axis, int64_t pairs, int coarse) {
    const __m512i half = _mm512_set1_epi32(HALF), next = _mm512_set1_epi8(8);
    const __mmask64 even = 0x5555555555555555;
    const __m512i *c = (const __m512i *)axis->wide, *index = (const __m512i *)axis->index;
    for (int64_t i = 0; i < axis->padded; i += 4, c += 2 * pairs) {
        const __m512i pixels = _mm512_loadu_si512(row + 4 * (int64_t)axis->start[i]);
        __m512i high = _mm512_setzero_si512(), low = half, order = *index++;
        for (int64_t p = 0; p < pairs; p++) {
            __m512i two = _mm512_maskz_permutexvar_epi8(even, order, pixels);
            high = _mm512_dpwssd_epi32(high, two, c[2 * p]);
            low = coarse ? low : _mm512_dpwssd_epi32(low, two, c[2 * p + 1]);
            order = _mm512_add_epi8(order, next);
        }
        __m512i total = _mm512_srai_epi32(_mm512_add_epi32(_mm512_slli_epi32(high, IMG_SPLIT), low), IMG_PRECISION);
        total = _mm512_max_epi32(total, _mm512_setzero_si512());
        _mm_storeu_si128((__m128i *)(out + 4 * i), _mm512_cvtusepi32_epi8(total));
    }
}

INLINE512 void horizontal_512_by_width(uint8_t *out, const uint8_t *row, const img_axis *axis, int coarse) {
    BY_WIDTH(horizontal_of_512, out, row, axis)
}

AVX512 static void horizontal_512(uint8_t *out, const uint8_t *row, const img_axis *axis) {
    if (axis->lanes != 4)
        horizontal(out, row, axis);
    else if (axis->coarse)
        horizontal_512_by_width(out, row, axis, 1);
    else
        horizontal_512_by_width(out, row, axis, 0);
}

AVX512 static void look_up_512(uint8_t *rgbx, int64_t count, const img_table *table) {
    __m512i of[3][4];
    for (int c = 0; c < 3; c++)
        for (int k = 0; k < 4; k++)
            of[c][k] = _mm512_loadu_si512(table->of[c] + 64 * k);
    const __mmask64 every = 0x1111111111111111;
    for (int64_t i = 0; i < count; i += 16) {
        const __mmask64 here = count - i < 16 ? ((__mmask64)1 << (4 * (count - i))) - 1 : ~(__mmask64)0;
        const __m512i pixels = _mm512_maskz_loadu_epi8(here, rgbx + 4 * i);
        const __mmask64 upper = _mm512_movepi8_mask(pixels); /* 128 .. 255 */
        __m512i result = pixels;
        for (int c = 0; c < 3; c++) {
            const __mmask64 mine = every << c;
            const __m512i low = _mm512_permutex2var_epi8(of[c][0], pixels, of[c][1]);
            const __m512i high = _mm512_permutex2var_epi8(of[c][2], pixels, of[c][3]);
            result = _mm512_mask_mov_epi8(result, mine & ~upper, low);
            result = _mm512_mask_mov_epi8(result, mine & upper, high);
        }
        _mm512_mask_storeu_epi8(rgbx + 4 * i, here, result);
    }
}

const img_kernels img_avx512_kernels = {"avx512", 4,         horizontal_512, vertical,   from_rgb,
                                        to_rgb,   to_planes, reverse,        look_up_512};
const img_kernels img_avx2_kernels = {"avx2", 2,         horizontal, vertical,   from_rgb,
                                      to_rgb, to_planes, reverse,    img_look_up};
#else
typedef int img_x86_is_empty_here; /* ISO C wants at least one declaration */
#endif
