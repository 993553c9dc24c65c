/* The filters of Pillow's Image.transform, in blocks of pixels whose channels lie side by side.
 *
 * Positions are in double, as Pillow's, so that the same pixels lie inside; colours are mixed in float, which differs from
 * Pillow's double by less than a thousandth of a level before both are cut off. Each loop is compiled once for any machine
 * and once for AVX2, which can gather; both give the same: no sum is reordered and nothing is fused.
 */
#include "sampler.h"

#include <string.h>

#include "choice.h"

#define BLOCK 64
#define INLINE static inline __attribute__((always_inline))

const char *const img_take_words[] = {"nearest", "bilinear", "bicubic", NULL};

typedef struct {
    int32_t inside[BLOCK]; /* 0 or -1 */
    int32_t x[BLOCK], y[BLOCK];
    float dx[BLOCK], dy[BLOCK];
} block;

INLINE uint32_t fill_of(const img_sampler *from) {
    uint32_t fill;
    memcpy(&fill, from->fill, 4);
    return fill;
}

/* ---- Positions ---- */

/* Where the pixels from (first, row) on come from, in Pillow's order of additions. */
INLINE void place(const img_map *map, int64_t first, int64_t row, double *x, double *y) {
    const double *a = map->matrix, v = (double)row + 0.5;
    const double at_x = a[1] * v, at_y = a[4] * v, at_z = a[7] * v;
    for (int i = 0; i < BLOCK; i++) {
        const double u = (double)((int32_t)first + i) + 0.5;
        x[i] = a[0] * u + at_x + a[2];
        y[i] = a[3] * u + at_y + a[5];
    }
    if (!map->perspective)
        return;
    for (int i = 0; i < BLOCK; i++) {
        const double z = a[6] * ((double)((int32_t)first + i) + 0.5) + at_z + 1.0;
        x[i] /= z;
        y[i] /= z;
    }
}

/* Which positions lie inside; returns whether any does. */
INLINE int find_inside(const img_sampler *from, const double *x, const double *y, block *b) {
    const double width = from->width, height = from->height;
    int32_t any = 0;
    for (int i = 0; i < BLOCK; i++) {
        b->inside[i] = -(int32_t)((x[i] >= 0.0) & (x[i] < width) & (y[i] >= 0.0) & (y[i] < height));
        any |= b->inside[i];
    }
    return any != 0;
}

/* The pixel that a position lies in, or 0. */
INLINE void find_pixels(const double *x, const double *y, block *b) {
    for (int i = 0; i < BLOCK; i++) {
        b->x[i] = (int32_t)(b->inside[i] ? x[i] : 0.0);
        b->y[i] = (int32_t)(b->inside[i] ? y[i] : 0.0);
    }
}

/* The last pixel whose middle lies before a position or at it, -1 at least, and how far behind. */
INLINE void find_middles(const double *x, const double *y, block *b) {
    for (int i = 0; i < BLOCK; i++) {
        const double u = (b->inside[i] ? x[i] : 0.5) - 0.5, v = (b->inside[i] ? y[i] : 0.5) - 0.5;
        b->x[i] = (int32_t)u - (u < 0.0);
        b->y[i] = (int32_t)v - (v < 0.0);
        b->dx[i] = (float)(u - (double)b->x[i]);
        b->dy[i] = (float)(v - (double)b->y[i]);
    }
}

INLINE int32_t clip(int32_t at, int32_t last) {
    at = at < last ? at : last;
    return at > 0 ? at : 0;
}

/* ---- Filters ---- */

INLINE void take_nearest(const img_sampler *from, const double *x, const double *y, block *b, uint32_t *out) {
    const uint32_t *pixels = (const uint32_t *)from->pixels, fill = fill_of(from);
    find_pixels(x, y, b);
    for (int i = 0; i < BLOCK; i++)
        b->x[i] += b->y[i] * from->width;
    for (int i = 0; i < BLOCK; i++) {
        const uint32_t pixel = pixels[b->x[i]];
        out[i] = b->inside[i] ? pixel : fill;
    }
}

INLINE float channel(uint32_t pixel, int c) { return (float)(int32_t)(pixel >> (8 * c) & 255); }
INLINE float between(float a, float b, float d) { return a + (b - a) * d; }

/* A pixel of its channels. */
INLINE uint32_t join(const int32_t *level, int channels) {
    const uint32_t pixel = (uint32_t)level[0] | (uint32_t)level[1] << 8 | (uint32_t)level[2] << 16;
    return pixel | (uint32_t)level[channels == 4 ? 3 : 0] << 24;
}

INLINE void take_bilinear(const img_sampler *from, int channels, const double *x, const double *y, block *b, uint32_t *out) {
    const uint32_t *pixels = (const uint32_t *)from->pixels, fill = fill_of(from);
    const int32_t width = from->width, right = width - 1, bottom = from->height - 1;
    int32_t at[4][BLOCK];
    find_middles(x, y, b);
    for (int i = 0; i < BLOCK; i++) {
        const int32_t left = clip(b->x[i], right), next = clip(b->x[i] + 1, right);
        const int32_t top = clip(b->y[i], bottom) * width, below = clip(b->y[i] + 1, bottom) * width;
        at[0][i] = top + left;
        at[1][i] = top + next;
        at[2][i] = below + left;
        at[3][i] = below + next;
    }
    for (int i = 0; i < BLOCK; i++) {
        const uint32_t p0 = pixels[at[0][i]], p1 = pixels[at[1][i]], p2 = pixels[at[2][i]], p3 = pixels[at[3][i]];
        int32_t level[4];
        for (int c = 0; c < channels; c++) {
            const float above = between(channel(p0, c), channel(p1, c), b->dx[i]);
            level[c] = (int32_t)between(above, between(channel(p2, c), channel(p3, c), b->dx[i]), b->dy[i]);
        }
        const uint32_t pixel = join(level, channels);
        out[i] = b->inside[i] ? pixel : fill;
    }
}

INLINE float cubic(float a, float b, float c, float d, float at) {
    const float p2 = c - a, p3 = 2.0f * (a - b) + c - d, p4 = b - a - c + d;
    return b + at * (p2 + at * (p3 + at * p4));
}

INLINE void take_bicubic(const img_sampler *from, int channels, const double *x, const double *y, block *b, uint32_t *out) {
    const uint32_t *pixels = (const uint32_t *)from->pixels, fill = fill_of(from);
    const int32_t width = from->width, right = width - 1, bottom = from->height - 1;
    int32_t column[4][BLOCK];
    float rows[4][4][BLOCK]; /* by row and channel */
    find_middles(x, y, b);
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < BLOCK; i++)
            column[k][i] = clip(b->x[i] - 1 + k, right);
    for (int k = 0; k < 4; k++) {
        int32_t at[4][BLOCK];
        for (int j = 0; j < 4; j++)
            for (int i = 0; i < BLOCK; i++)
                at[j][i] = column[j][i] + clip(b->y[i] - 1 + k, bottom) * width;
        for (int i = 0; i < BLOCK; i++) {
            const uint32_t p0 = pixels[at[0][i]], p1 = pixels[at[1][i]], p2 = pixels[at[2][i]], p3 = pixels[at[3][i]];
            for (int c = 0; c < channels; c++)
                rows[k][c][i] = cubic(channel(p0, c), channel(p1, c), channel(p2, c), channel(p3, c), b->dx[i]);
        }
    }
    for (int i = 0; i < BLOCK; i++) {
        int32_t level[4];
        for (int c = 0; c < channels; c++) {
            float v = cubic(rows[0][c][i], rows[1][c][i], rows[2][c][i], rows[3][c][i], b->dy[i]);
            v = v > 0.0f ? v : 0.0f;
            level[c] = (int32_t)(v < 255.0f ? v : 255.0f);
        }
        const uint32_t pixel = join(level, channels);
        out[i] = b->inside[i] ? pixel : fill;
    }
}

INLINE void take(const img_sampler *from, img_take how, const double *x, const double *y, uint32_t *out) {
    block b;
    if (!find_inside(from, x, y, &b)) {
        for (int i = 0; i < BLOCK; i++)
            out[i] = fill_of(from);
        return;
    }
    if (how == IMG_TAKE_NEAREST)
        take_nearest(from, x, y, &b, out);
    else if (how == IMG_TAKE_BILINEAR && from->alpha)
        take_bilinear(from, 4, x, y, &b, out);
    else if (how == IMG_TAKE_BILINEAR)
        take_bilinear(from, 3, x, y, &b, out);
    else if (from->alpha)
        take_bicubic(from, 4, x, y, &b, out);
    else
        take_bicubic(from, 3, x, y, &b, out);
}

/* ---- Rows ---- */

INLINE void sample_row(const img_sampler *from, img_take how, const img_map *map, int64_t row, int64_t width, uint8_t *out) {
    double x[BLOCK], y[BLOCK];
    uint32_t made[BLOCK];
    for (int64_t i = 0; i < width; i += BLOCK) {
        place(map, i, row, x, y);
        take(from, how, x, y, made);
        memcpy(out + 4 * i, made, 4 * (size_t)(width - i < BLOCK ? width - i : BLOCK));
    }
}

INLINE void sample_fixed(const img_sampler *from, int32_t x, int32_t y, int32_t step_x, int32_t step_y, int64_t count,
                         uint8_t *out) {
    const uint32_t *pixels = (const uint32_t *)from->pixels;
    const int32_t width = from->width;
    uint32_t *to = (uint32_t *)out;
    for (int32_t i = 0; i < (int32_t)count; i++)
        to[i] = pixels[((y + i * step_y) >> 16) * width + ((x + i * step_x) >> 16)];
}

INLINE void sample_columns(const uint8_t *row, const int32_t *at, int64_t count, uint8_t *out) {
    const uint32_t *pixels = (const uint32_t *)row;
    uint32_t *to = (uint32_t *)out;
    for (int64_t i = 0; i < count; i++)
        to[i] = pixels[at[i]];
}

/* ---- For each instruction set ---- */

#if defined(__x86_64__)
#define BY_SET(word, params, ...)                                                                                      \
    static void word##_anywhere params { word(__VA_ARGS__); }                                                          \
    __attribute__((target("avx2"))) static void word##_avx2 params { word(__VA_ARGS__); }                              \
    void img_##word params {                                                                                           \
        if (img_current_kernels() == &img_generic_kernels)                                                             \
            word##_anywhere(__VA_ARGS__);                                                                              \
        else                                                                                                           \
            word##_avx2(__VA_ARGS__);                                                                                  \
    }
#else
#define BY_SET(word, params, ...)                                                                                      \
    void img_##word params { word(__VA_ARGS__); }
#endif

BY_SET(sample_row, (const img_sampler *from, img_take how, const img_map *map, int64_t row, int64_t width, uint8_t *out),
       from, how, map, row, width, out)
BY_SET(sample_fixed,
       (const img_sampler *from, int32_t x, int32_t y, int32_t step_x, int32_t step_y, int64_t count, uint8_t *out), from,
       x, y, step_x, step_y, count, out)
BY_SET(sample_columns, (const uint8_t *row, const int32_t *at, int64_t count, uint8_t *out), row, at, count, out)

void img_sample_fill(const img_sampler *from, int64_t count, uint8_t *out) {
    for (int64_t i = 0; i < count; i++)
        memcpy(out + 4 * i, from->fill, 4);
}
