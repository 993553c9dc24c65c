/* Pixels from coefficients for AVX2: two blocks at a time, one in each half of a vector.
 *
 * The numbers are those of libjpeg-turbo's SIMD code, so that every bit agrees: the DCT of jidctint (C. Loeffler,
 * A. Ligtenberg, G. Moschytz, "Practical fast 1-D DCT algorithms with 11 multiplications", 1989) with 13 bits of a
 * constant and 2 more between its passes; triangle filters for chroma; colours with 16 bits of a constant.
 */
#include "baseline_x86.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2")))
#define INLINE static inline __attribute__((always_inline)) AVX2

#define CONST_BITS 13
#define PASS1_BITS 2
/* round(x * 2^13) */
#define F_0_298 2446
#define F_0_390 3196
#define F_0_541 4433
#define F_0_765 6270
#define F_0_899 7373
#define F_1_175 9633
#define F_1_501 12299
#define F_1_847 15137
#define F_1_961 16069
#define F_2_053 16819
#define F_2_562 20995
#define F_3_072 25172

INLINE __m256i pair_of(int first, int second) {
    return _mm256_set1_epi32((int)((uint32_t)(uint16_t)first | (uint32_t)(uint16_t)second << 16));
}

/* first * a + second * b of the low and the high four columns of each half. */
typedef struct {
    __m256i low, high;
} wide;

INLINE wide rotate(__m256i a, __m256i b, __m256i factors) {
    return (wide){_mm256_madd_epi16(_mm256_unpacklo_epi16(a, b), factors),
                  _mm256_madd_epi16(_mm256_unpackhi_epi16(a, b), factors)};
}

INLINE wide add(wide a, wide b) {
    return (wide){_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)};
}

INLINE wide sub(wide a, wide b) {
    return (wide){_mm256_sub_epi32(a.low, b.low), _mm256_sub_epi32(a.high, b.high)};
}

/* The 16-bit numbers times 2^CONST_BITS. */
INLINE wide widen(__m256i a) {
    const __m256i zero = _mm256_setzero_si256();
    return (wide){_mm256_srai_epi32(_mm256_unpacklo_epi16(zero, a), 16 - CONST_BITS),
                  _mm256_srai_epi32(_mm256_unpackhi_epi16(zero, a), 16 - CONST_BITS)};
}

INLINE __m256i descale(wide a, int bits) {
    const __m256i half = _mm256_set1_epi32(1 << (bits - 1));
    return _mm256_packs_epi32(_mm256_srai_epi32(_mm256_add_epi32(a.low, half), bits),
                              _mm256_srai_epi32(_mm256_add_epi32(a.high, half), bits));
}

/* One pass over the columns of both blocks, v[i] being row i. */
INLINE void pass(__m256i v[8], int bits) {
    wide even2 = rotate(v[2], v[6], pair_of(F_0_541, F_0_541 - F_1_847));
    wide even3 = rotate(v[2], v[6], pair_of(F_0_541 + F_0_765, F_0_541));
    wide even0 = widen(_mm256_add_epi16(v[0], v[4])), even1 = widen(_mm256_sub_epi16(v[0], v[4]));
    wide sum0 = add(even0, even3), sum3 = sub(even0, even3), sum1 = add(even1, even2), sum2 = sub(even1, even2);

    __m256i z3 = _mm256_add_epi16(v[7], v[3]), z4 = _mm256_add_epi16(v[5], v[1]);
    wide w3 = rotate(z3, z4, pair_of(F_1_175 - F_1_961, F_1_175));
    wide w4 = rotate(z3, z4, pair_of(F_1_175, F_1_175 - F_0_390));
    wide odd0 = add(rotate(v[7], v[1], pair_of(F_0_298 - F_0_899, -F_0_899)), w3);
    wide odd3 = add(rotate(v[7], v[1], pair_of(-F_0_899, F_1_501 - F_0_899)), w4);
    wide odd1 = add(rotate(v[5], v[3], pair_of(F_2_053 - F_2_562, -F_2_562)), w4);
    wide odd2 = add(rotate(v[5], v[3], pair_of(-F_2_562, F_3_072 - F_2_562)), w3);

    v[0] = descale(add(sum0, odd3), bits);
    v[7] = descale(sub(sum0, odd3), bits);
    v[1] = descale(add(sum1, odd2), bits);
    v[6] = descale(sub(sum1, odd2), bits);
    v[2] = descale(add(sum2, odd1), bits);
    v[5] = descale(sub(sum2, odd1), bits);
    v[3] = descale(add(sum3, odd0), bits);
    v[4] = descale(sub(sum3, odd0), bits);
}

/* Turn rows into columns in each half. */
INLINE void transpose(__m256i v[8]) {
    __m256i a[8], b[8];
    for (int i = 0; i < 4; i++) {
        a[2 * i] = _mm256_unpacklo_epi16(v[2 * i], v[2 * i + 1]);
        a[2 * i + 1] = _mm256_unpackhi_epi16(v[2 * i], v[2 * i + 1]);
    }
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) {
            b[4 * i + 2 * j] = _mm256_unpacklo_epi32(a[4 * i + j], a[4 * i + 2 + j]);
            b[4 * i + 2 * j + 1] = _mm256_unpackhi_epi32(a[4 * i + j], a[4 * i + 2 + j]);
        }
    for (int j = 0; j < 4; j++) {
        v[2 * j] = _mm256_unpacklo_epi64(b[j], b[4 + j]);
        v[2 * j + 1] = _mm256_unpackhi_epi64(b[j], b[4 + j]);
    }
}

INLINE void store_rows(uint8_t *out, int64_t stride, __m128i two) {
    _mm_storel_epi64((__m128i *)out, two);
    _mm_storeh_pd((double *)(out + stride), _mm_castsi128_pd(two));
}

/* v[i] being column i of the pixels less 128. */
INLINE void store(__m256i v[8], uint8_t *out, int64_t stride, uint8_t *out_second, int64_t stride_second) {
    __m256i x[4], w[4];
    for (int i = 0; i < 4; i++)
        x[i] = _mm256_packs_epi16(v[i], v[i + 4]);
    __m256i y0 = _mm256_unpacklo_epi8(x[0], x[1]), y1 = _mm256_unpackhi_epi8(x[0], x[1]);
    __m256i y2 = _mm256_unpacklo_epi8(x[2], x[3]), y3 = _mm256_unpackhi_epi8(x[2], x[3]);
    __m256i z0 = _mm256_unpacklo_epi16(y0, y2), z1 = _mm256_unpackhi_epi16(y0, y2);
    __m256i z2 = _mm256_unpacklo_epi16(y1, y3), z3 = _mm256_unpackhi_epi16(y1, y3);
    w[0] = _mm256_unpacklo_epi32(z0, z2);
    w[1] = _mm256_unpackhi_epi32(z0, z2);
    w[2] = _mm256_unpacklo_epi32(z1, z3);
    w[3] = _mm256_unpackhi_epi32(z1, z3);
    for (int i = 0; i < 4; i++) {
        __m256i rows = _mm256_xor_si256(w[i], _mm256_set1_epi8((char)0x80));
        store_rows(out + 2 * i * stride, stride, _mm256_castsi256_si128(rows));
        store_rows(out_second + 2 * i * stride_second, stride_second, _mm256_extracti128_si256(rows, 1));
    }
}

INLINE __m256i load_row(const void *first, const void *second, int i) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)first + i)),
                                   _mm_loadu_si128((const __m128i *)second + i), 1);
}

/* All ones in the halves that are zero. */
INLINE __m256i zero_halves(__m256i a) {
    const __m256i zero = _mm256_cmpeq_epi64(a, _mm256_setzero_si256());
    return _mm256_and_si256(zero, _mm256_shuffle_epi32(zero, 0x4E));
}

AVX2 void img_idct_pair(const int16_t *first, const int16_t *second, const uint16_t *quant,
                        const uint16_t *quant_second, uint8_t *out, int64_t stride, uint8_t *out_second,
                        int64_t stride_second) {
    __m256i v[8], rest = _mm256_setzero_si256(); /* of coefficients: a product may wrap to zero */
    for (int i = 0; i < 8; i++) {
        const __m256i row = load_row(first, second, i);
        rest = i > 0 ? _mm256_or_si256(rest, row) : rest;
        v[i] = _mm256_mullo_epi16(row, load_row(quant, quant_second, i));
    }
    const __m256i is_flat = zero_halves(rest), passed = _mm256_slli_epi16(v[0], PASS1_BITS);
    pass(v, CONST_BITS - PASS1_BITS);
    for (int i = 0; i < 8; i++) /* as libjpeg-turbo does where rows 1 to 7 are zero: it differs where 16 bits overflow */
        v[i] = _mm256_blendv_epi8(v[i], passed, is_flat);
    transpose(v);
    pass(v, CONST_BITS + PASS1_BITS + 3);
    store(v, out, stride, out_second, stride_second);
}

/* ---- Chroma ---- */

INLINE __m256i load(const uint8_t *p) { return _mm256_loadu_si256((const __m256i *)p); }

INLINE void store_pairs(uint8_t *out, __m256i low, __m256i high) { /* samples 0-7 16-23, 8-15 24-31 */
    _mm256_storeu_si256((__m256i *)out, _mm256_permute2x128_si256(low, high, 0x20));
    _mm256_storeu_si256((__m256i *)(out + 32), _mm256_permute2x128_si256(low, high, 0x31));
}

/* 3 * this + other: of columns here, of the sums of columns below. */
#define THREE_AND_ONE _mm256_set1_epi16(3 | 1 << 8)

INLINE __m256i between(__m256i sum, __m256i left, __m256i right) {
    const __m256i three = _mm256_add_epi16(sum, _mm256_slli_epi16(sum, 1));
    const __m256i even = _mm256_add_epi16(_mm256_add_epi16(three, left), _mm256_set1_epi16(8));
    const __m256i odd = _mm256_add_epi16(_mm256_add_epi16(three, right), _mm256_set1_epi16(7));
    return _mm256_or_si256(_mm256_srli_epi16(even, 4), _mm256_slli_epi16(_mm256_srli_epi16(odd, 4), 8));
}

AVX2 void img_upsample_h2v2(uint8_t *out, const uint8_t *row, const uint8_t *near, int64_t count) {
    for (int64_t i = 0; i < count; i += 32) {
        __m256i low[3], high[3];
        for (int k = 0; k < 3; k++) {
            const __m256i here = load(row + i + k - 1), there = load(near + i + k - 1);
            low[k] = _mm256_maddubs_epi16(_mm256_unpacklo_epi8(here, there), THREE_AND_ONE);
            high[k] = _mm256_maddubs_epi16(_mm256_unpackhi_epi8(here, there), THREE_AND_ONE);
        }
        store_pairs(out + 2 * i, between(low[1], low[0], low[2]), between(high[1], high[0], high[2]));
    }
}

INLINE __m256i quarters(__m256i interleaved, int rounding) {
    const __m256i sum = _mm256_maddubs_epi16(interleaved, THREE_AND_ONE);
    return _mm256_srli_epi16(_mm256_add_epi16(sum, _mm256_set1_epi16((short)rounding)), 2);
}

AVX2 void img_upsample_h2v1(uint8_t *out, const uint8_t *row, int64_t count) {
    for (int64_t i = 0; i < count; i += 32) {
        const __m256i here = load(row + i), left = load(row + i - 1), right = load(row + i + 1);
        __m256i low = quarters(_mm256_unpacklo_epi8(here, left), 1);
        __m256i high = quarters(_mm256_unpackhi_epi8(here, left), 1);
        low = _mm256_or_si256(low, _mm256_slli_epi16(quarters(_mm256_unpacklo_epi8(here, right), 2), 8));
        high = _mm256_or_si256(high, _mm256_slli_epi16(quarters(_mm256_unpackhi_epi8(here, right), 2), 8));
        store_pairs(out + 2 * i, low, high);
    }
}

/* ---- Colours ---- */

/* round(x * 2^16) of 1.402 - 1, 1.772 - 2, -0.344136 and 1 - 0.714136 */
#define F_0_402 26345
#define F_0_228 (-14942)
#define F_0_344 (-22554)
#define F_0_285 18734

/* c * factor / 2^16, rounded. */
INLINE __m256i scaled(__m256i c, int factor) {
    const __m256i twice = _mm256_mulhi_epi16(_mm256_add_epi16(c, c), _mm256_set1_epi16((short)factor));
    return _mm256_srai_epi16(_mm256_add_epi16(twice, _mm256_set1_epi16(1)), 1);
}

INLINE __m256i green(__m256i cb, __m256i cr) {
    const __m256i factors = pair_of(F_0_344, F_0_285), half = _mm256_set1_epi32(1 << 15);
    __m256i low = _mm256_madd_epi16(_mm256_unpacklo_epi16(cb, cr), factors);
    __m256i high = _mm256_madd_epi16(_mm256_unpackhi_epi16(cb, cr), factors);
    low = _mm256_srai_epi32(_mm256_add_epi32(low, half), 16);
    high = _mm256_srai_epi32(_mm256_add_epi32(high, half), 16);
    return _mm256_sub_epi16(_mm256_packs_epi32(low, high), cr);
}

/* Eight pixels of each half from 16-bit channels, which are clamped: the first four of both halves, and the last four. */
INLINE void join(__m256i r, __m256i g, __m256i b, __m256i *low, __m256i *high) {
    const __m256i order = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15));
    const __m256i rg = _mm256_shuffle_epi8(_mm256_packus_epi16(r, g), order);
    const __m256i bx = _mm256_shuffle_epi8(_mm256_packus_epi16(b, _mm256_set1_epi16(255)), order);
    *low = _mm256_unpacklo_epi16(rg, bx);
    *high = _mm256_unpackhi_epi16(rg, bx);
}

INLINE void convert(__m256i y, __m256i cb, __m256i cr, __m256i *low, __m256i *high) {
    const __m256i centre = _mm256_set1_epi16(128);
    cb = _mm256_sub_epi16(cb, centre);
    cr = _mm256_sub_epi16(cr, centre);
    const __m256i r = _mm256_add_epi16(_mm256_add_epi16(y, cr), scaled(cr, F_0_402));
    const __m256i g = _mm256_add_epi16(y, green(cb, cr));
    const __m256i b = _mm256_add_epi16(_mm256_add_epi16(y, _mm256_add_epi16(cb, cb)), scaled(cb, F_0_228));
    join(r, g, b, low, high);
}

INLINE void store_pixels(uint8_t *out, __m256i low, __m256i high) {
    _mm256_storeu_si256((__m256i *)out, _mm256_permute2x128_si256(low, high, 0x20));
    _mm256_storeu_si256((__m256i *)(out + 32), _mm256_permute2x128_si256(low, high, 0x31));
}

INLINE __m256i sixteen(const uint8_t *p) { return _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)p)); }

AVX2 void img_ycc_to_rgbx(uint8_t *out, const uint8_t *y, const uint8_t *cb, const uint8_t *cr, int64_t count) {
    __m256i low, high;
    for (int64_t i = 0; i < count; i += 16) {
        convert(sixteen(y + i), sixteen(cb + i), sixteen(cr + i), &low, &high);
        store_pixels(out + 4 * i, low, high);
    }
}

AVX2 void img_y_to_rgbx(uint8_t *out, const uint8_t *y, int64_t count) {
    __m256i low, high;
    for (int64_t i = 0; i < count; i += 16) {
        const __m256i light = sixteen(y + i);
        join(light, light, light, &low, &high);
        store_pixels(out + 4 * i, low, high);
    }
}

/* ---- Colours converted late: pixels of Cb, Cr, Y, 255 ---- */

AVX2 void img_ycc_to_late(uint8_t *out, const uint8_t *y, const uint8_t *cb, const uint8_t *cr, int64_t count) {
    const __m256i full = _mm256_set1_epi16((short)0xFF00);
    for (int64_t i = 0; i < count; i += 16) {
        const __m256i light = _mm256_or_si256(sixteen(y + i), full);
        const __m256i colour = _mm256_or_si256(sixteen(cb + i), _mm256_slli_epi16(sixteen(cr + i), 8));
        store_pixels(out + 4 * i, _mm256_unpacklo_epi16(colour, light), _mm256_unpackhi_epi16(colour, light));
    }
}

AVX2 void img_ycc_to_late_doubled(uint8_t *out, const uint8_t *y, const uint8_t *cb, const uint8_t *cr, int64_t count) {
    const __m256i full = _mm256_set1_epi16((short)0xFF00);
    for (int64_t i = 0; i < count; i += 16, cb += 8, cr += 8) {
        const __m256i light = _mm256_or_si256(sixteen(y + i), full);
        const __m256i two = _mm256_cvtepu16_epi32(_mm_unpacklo_epi8(_mm_loadl_epi64((const __m128i *)cb),
                                                                    _mm_loadl_epi64((const __m128i *)cr)));
        const __m256i colour = _mm256_or_si256(two, _mm256_slli_epi32(two, 16));
        store_pixels(out + 4 * i, _mm256_unpacklo_epi16(colour, light), _mm256_unpackhi_epi16(colour, light));
    }
}

AVX2 void img_late_to_rgbx(uint8_t *pixels, int64_t count) {
    const __m256i byte = _mm256_set1_epi32(255);
    __m256i low, high;
    for (int64_t i = 0; i < count; i += 16) {
        __m256i *a = (__m256i *)(pixels + 4 * i);
        const __m256i one = _mm256_loadu_si256(a), two = _mm256_loadu_si256(a + 1);
        const __m256i cb = _mm256_packus_epi32(_mm256_and_si256(one, byte), _mm256_and_si256(two, byte));
        const __m256i cr = _mm256_packus_epi32(_mm256_and_si256(_mm256_srli_epi32(one, 8), byte),
                                               _mm256_and_si256(_mm256_srli_epi32(two, 8), byte));
        const __m256i y = _mm256_packus_epi32(_mm256_and_si256(_mm256_srli_epi32(one, 16), byte),
                                              _mm256_and_si256(_mm256_srli_epi32(two, 16), byte));
        convert(y, cb, cr, &low, &high); /* packing has put the first four of `one` and `two` into the first half ... */
        _mm256_storeu_si256(a, low);     /* ... so that these come out in order */
        _mm256_storeu_si256(a + 1, high);
    }
}
#else
void img_late_to_rgbx(uint8_t *pixels, int64_t count) {} /* no row is such a one */
#endif
