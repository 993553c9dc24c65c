/* The filters of Pillow's Image.transform, in blocks of pixels whose channels lie side by side.
 *
 * Positions are in double, as Pillow's, so that the same pixels lie inside; colours are mixed in float, which differs from
 * Pillow's double by less than a thousandth of a level before both are cut off. Each loop is compiled once for any machine
 * and once for AVX2; both give the same: no sum is reordered and nothing is fused.
 */
#include "sampler.h"

#include <string.h>

#include "choice.h"

#define BLOCK 64
#define INLINE static inline __attribute__((always_inline))

const char *const img_take_words[] = {"nearest", "bilinear", "bicubic", NULL};

typedef struct {
    uint32_t inside[BLOCK]; /* all bits or none */
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
    uint32_t any = 0;
    for (int i = 0; i < BLOCK; i++) {
        b->inside[i] = -(uint32_t)((x[i] >= 0.0) & (x[i] < width) & (y[i] >= 0.0) & (y[i] < height));
        any |= b->inside[i];
    }
    return any != 0;
}

/* A position within low .. high; whatever is no number becomes low. */
INLINE double within(double v, double low, double high) {
    v = v > low ? v : low;
    return v < high ? v : high;
}

/* The pixels that positions lie in, those outside at the edge. */
INLINE void find_pixels(const img_sampler *from, const double *x, const double *y, block *b) {
    const double right = from->width - 1, bottom = from->height - 1;
    for (int i = 0; i < BLOCK; i++) {
        b->x[i] = (int32_t)within(x[i], 0.0, right + 0.5);
        b->y[i] = (int32_t)within(y[i], 0.0, bottom + 0.5);
    }
}

/* The last pixels whose middles lie before positions or at them, -1 at least, and how far behind; positions are kept `edge`
 * from the edges. */
INLINE void find_middles(const img_sampler *from, double edge, const double *x, const double *y, block *b) {
    const double right = from->width - edge, bottom = from->height - edge;
    for (int i = 0; i < BLOCK; i++) {
        const double u = within(x[i], edge, right) - 0.5, v = within(y[i], edge, bottom) - 0.5;
        b->x[i] = (int32_t)(u + 1.0) - 1;
        b->y[i] = (int32_t)(v + 1.0) - 1;
        b->dx[i] = (float)(u - (double)b->x[i]);
        b->dy[i] = (float)(v - (double)b->y[i]);
    }
}

INLINE int32_t clip(int32_t at, int32_t last) {
    at = at < last ? at : last;
    return at > 0 ? at : 0;
}

/* ---- Filters ---- */

INLINE void take_nearest(const img_sampler *from, const double *x, const double *y, block *b, uint32_t *restrict out) {
    const uint32_t *restrict pixels = (const uint32_t *)from->pixels;
    const uint32_t fill = fill_of(from);
    const int32_t width = from->width;
    find_pixels(from, x, y, b);
    for (int i = 0; i < BLOCK; i++) {
        const uint32_t pixel = pixels[b->x[i] + b->y[i] * width];
        out[i] = (pixel & b->inside[i]) | (fill & ~b->inside[i]);
    }
}

INLINE float channel(uint32_t pixel, int c) { return (float)(int32_t)(pixel >> (8 * c) & 255); }
INLINE float between(float a, float b, float d) { return a + (b - a) * d; }

INLINE uint32_t join(int32_t red, int32_t green, int32_t blue, int32_t alpha) {
    return (uint32_t)red | (uint32_t)green << 8 | (uint32_t)blue << 16 | (uint32_t)alpha << 24;
}

/* One channel of four pixels. */
INLINE int32_t mix(uint32_t p0, uint32_t p1, uint32_t p2, uint32_t p3, int c, float dx, float dy) {
    const float above = between(channel(p0, c), channel(p1, c), dx), below = between(channel(p2, c), channel(p3, c), dx);
    return (int32_t)between(above, below, dy);
}

INLINE void take_bilinear(const img_sampler *from, int alpha, const double *x, const double *y, block *b,
                          uint32_t *restrict out) {
    const uint32_t *restrict pixels = (const uint32_t *)from->pixels;
    const uint32_t fill = fill_of(from);
    const int32_t width = from->width, right = width - 1, bottom = from->height - 1;
    find_middles(from, 0.5, x, y, b); /* half a pixel from the edge there is one colour */
    for (int i = 0; i < BLOCK; i++) {
        const int32_t left = b->x[i], next = left < right ? left + 1 : right;
        const int32_t top = b->y[i] * width, below = (b->y[i] < bottom ? b->y[i] + 1 : bottom) * width;
        const uint32_t p0 = pixels[top + left], p1 = pixels[top + next], p2 = pixels[below + left], p3 = pixels[below + next];
        const float dx = b->dx[i], dy = b->dy[i];
        const int32_t red = mix(p0, p1, p2, p3, 0, dx, dy), green = mix(p0, p1, p2, p3, 1, dx, dy);
        const int32_t blue = mix(p0, p1, p2, p3, 2, dx, dy);
        const uint32_t pixel = join(red, green, blue, alpha ? mix(p0, p1, p2, p3, 3, dx, dy) : red);
        out[i] = (pixel & b->inside[i]) | (fill & ~b->inside[i]);
    }
}

INLINE float cubic(float a, float b, float c, float d, float at) {
    const float p2 = c - a, p3 = 2.0f * (a - b) + c - d, p4 = b - a - c + d;
    return b + at * (p2 + at * (p3 + at * p4));
}

INLINE float mix_row(uint32_t p0, uint32_t p1, uint32_t p2, uint32_t p3, int c, float dx) {
    return cubic(channel(p0, c), channel(p1, c), channel(p2, c), channel(p3, c), dx);
}

typedef struct {
    float of[4][BLOCK];
} mixed_rows;

INLINE int32_t mix_rows(const mixed_rows *rows, int i, float dy) {
    const float v = cubic(rows->of[0][i], rows->of[1][i], rows->of[2][i], rows->of[3][i], dy);
    const float low = v > 0.0f ? v : 0.0f;
    return (int32_t)(low < 255.0f ? low : 255.0f);
}

INLINE void take_bicubic(const img_sampler *from, int alpha, const double *x, const double *y, block *b,
                         uint32_t *restrict out) {
    const uint32_t *restrict pixels = (const uint32_t *)from->pixels;
    const uint32_t fill = fill_of(from);
    const int32_t width = from->width, right = width - 1, bottom = from->height - 1;
    mixed_rows reds, greens, blues, alphas;
    find_middles(from, 0.0, x, y, b);
    for (int k = 0; k < 4; k++) {
        float *red = reds.of[k], *green = greens.of[k], *blue = blues.of[k], *opacity = alphas.of[k];
        for (int i = 0; i < BLOCK; i++) {
            const int32_t row = clip(b->y[i] - 1 + k, bottom) * width, at = b->x[i];
            const uint32_t p0 = pixels[row + clip(at - 1, right)], p1 = pixels[row + clip(at, right)];
            const uint32_t p2 = pixels[row + clip(at + 1, right)], p3 = pixels[row + clip(at + 2, right)];
            const float dx = b->dx[i];
            red[i] = mix_row(p0, p1, p2, p3, 0, dx);
            green[i] = mix_row(p0, p1, p2, p3, 1, dx);
            blue[i] = mix_row(p0, p1, p2, p3, 2, dx);
            if (alpha)
                opacity[i] = mix_row(p0, p1, p2, p3, 3, dx);
        }
    }
    for (int i = 0; i < BLOCK; i++) {
        const int32_t red = mix_rows(&reds, i, b->dy[i]);
        const uint32_t pixel = join(red, mix_rows(&greens, i, b->dy[i]), mix_rows(&blues, i, b->dy[i]),
                                    alpha ? mix_rows(&alphas, i, b->dy[i]) : red);
        out[i] = (pixel & b->inside[i]) | (fill & ~b->inside[i]);
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
        take_bilinear(from, 1, x, y, &b, out);
    else if (how == IMG_TAKE_BILINEAR)
        take_bilinear(from, 0, x, y, &b, out);
    else if (from->alpha)
        take_bicubic(from, 1, x, y, &b, out);
    else
        take_bicubic(from, 0, x, y, &b, out);
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
    const uint32_t *restrict pixels = (const uint32_t *)from->pixels;
    const int32_t width = from->width;
    uint32_t *restrict to = (uint32_t *)out;
    for (int32_t i = 0; i < (int32_t)count; i++)
        to[i] = pixels[((y + i * step_y) >> 16) * width + ((x + i * step_x) >> 16)];
}

INLINE void sample_columns(const uint8_t *row, const int32_t *at, int64_t count, uint8_t *out) {
    const uint32_t *restrict pixels = (const uint32_t *)row;
    uint32_t *restrict to = (uint32_t *)out;
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
