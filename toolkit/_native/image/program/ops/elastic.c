/* elastic: every pixel is moved by a smooth field of random displacements, as torchvision's ElasticTransform does it. */
#include <math.h>
#include <string.h>

#include "image/program/base.h"
#include "image/program/draws.h"
#include "image/program/op.h"
#include "image/program/plan.h"
#include "image/program/warp.h"

#define MAX_SIGMA 100.0
#define BLOCK 32 /* pixels whose sums stay in registers */

typedef float lanes __attribute__((vector_size(32)));
#define LANES 8

static const char *const filters[] = {"nearest", "bilinear", NULL};

typedef struct {
    double alpha[2]; /* of x and y */
    double sigma;
    int64_t filter;
    double fill[4];
} elastic;

static const img_field elastic_fields[] = {
    IMG_NUMBERS_FIELD(elastic, alpha, 0.0, 1e6),
    IMG_NUMBER_FIELD(elastic, sigma, 0.0, MAX_SIGMA),
    IMG_CHOICE_FIELD(elastic, filter, filters),
    IMG_NUMBERS_FIELD(elastic, fill, 0.0, 255.0),
    IMG_NO_FIELD,
};

/* ---- The field ---- */

/* Taps on each side of the middle: torchvision's kernel has int(8 sigma + 1), or one more where that is even. */
static int64_t radius_of(double sigma) { return sigma > 0.0 ? ((int64_t)(8.0 * sigma + 1.0) | 1) / 2 : 0; }

static int64_t reflect(int64_t at, int64_t size) {
    const int64_t period = size > 1 ? 2 * size - 2 : 1;
    at = (at % period + period) % period;
    return at < size ? at : period - at;
}

static void make_kernel(double sigma, int64_t radius, float *kernel) {
    double sum = 0.0;
    for (int64_t k = -radius; k <= radius; k++)
        sum += exp(-0.5 * ((double)k / sigma) * ((double)k / sigma));
    for (int64_t k = -radius; k <= radius; k++)
        kernel[k + radius] = radius > 0 ? (float)(exp(-0.5 * ((double)k / sigma) * ((double)k / sigma)) / sum) : 1.0f;
}

/* Pixel i moves by what its one draw holds: 24 bits for x, 24 for y, both even in -1 .. 1. */
IMG_CLONES static void draw_field(uint64_t key, int64_t first, int64_t count, float *restrict x, float *restrict y) {
    for (int64_t i = 0; i < count; i++) {
        const uint64_t drawn = img_fold(key, (uint64_t)(first + i));
        x[i] = (float)(int32_t)(drawn >> 40) * 0x1p-23f - 1.0f;
        y[i] = (float)(int32_t)(drawn >> 16 & 0xffffff) * 0x1p-23f - 1.0f;
    }
}

/* out[i] = the sum of kernel[k] * rows[k][i]; out and the rows have room up to a multiple of BLOCK. */
IMG_CLONES static void sum_rows(const float *const *rows, const float *kernel, int64_t taps, int64_t width, float *out) {
    for (int64_t i = 0; i < width; i += BLOCK) {
        lanes sum[BLOCK / LANES] = {{0}};
        for (int64_t k = 0; k < taps; k++) {
            lanes four[BLOCK / LANES];
            memcpy(four, rows[k] + i, sizeof four);
            for (int j = 0; j < BLOCK / LANES; j++)
                sum[j] += four[j] * kernel[k];
        }
        memcpy(out + i, sum, sizeof sum);
    }
}

/* ---- Pixels ---- */

typedef struct {
    const uint32_t *pixels;
    int32_t height, width;
    uint8_t fill[4];
} picture;

static inline int32_t clip(int32_t at, int32_t last) {
    at = at < last ? at : last;
    return at > 0 ? at : 0;
}

/* The share of a pixel beside a position, 0 where there is none. */
static inline float share(int32_t at, int32_t size, float weight) {
    return (float)((at >= 0) & (at < size)) * weight;
}

static inline int32_t to_floor(float v) {
    const int32_t cut = (int32_t)v;
    return cut - (v < (float)cut);
}

static inline float channel(uint32_t pixel, int c) { return (float)(int32_t)(pixel >> (8 * c) & 255); }

/* grid_sample with zeros outside, then its mask's fill, rounded to even. */
#define MIX(c) ((uint32_t)(int32_t)((((channel(p0, c) * w0 + channel(p1, c) * w1 + channel(p2, c) * w2 +                \
                                        channel(p3, c) * w3) * mask + (1.0f - mask) * fill[c]) + 0x1p23f) - 0x1p23f)     \
                << (8 * c))

IMG_CLONES static void take_bilinear(const picture *from, int32_t y, int64_t count, const float *restrict move_x,
                                     const float *restrict move_y, uint32_t *restrict out) {
    const uint32_t *restrict pixels = from->pixels;
    const int32_t width = from->width, height = from->height, right = width - 1, bottom = height - 1;
    const float fill[4] = {from->fill[0], from->fill[1], from->fill[2], from->fill[3]};
    for (int32_t i = 0; i < (int32_t)count; i++) {
        const int32_t whole_x = to_floor(move_x[i]), whole_y = to_floor(move_y[i]);
        const float dx = move_x[i] - (float)whole_x, dy = move_y[i] - (float)whole_y;
        const int32_t left = i + whole_x, top = y + whole_y;
        const float in_left = share(left, width, 1.0f - dx), in_right = share(left + 1, width, dx);
        const float in_top = share(top, height, 1.0f - dy), in_bottom = share(top + 1, height, dy);
        const float w0 = in_left * in_top, w1 = in_right * in_top, w2 = in_left * in_bottom, w3 = in_right * in_bottom;
        const float mask = w0 + w1 + w2 + w3;
        const int32_t above = clip(top, bottom) * width, below = clip(top + 1, bottom) * width;
        const uint32_t p0 = pixels[above + clip(left, right)], p1 = pixels[above + clip(left + 1, right)];
        const uint32_t p2 = pixels[below + clip(left, right)], p3 = pixels[below + clip(left + 1, right)];
        out[i] = MIX(0) | MIX(1) | MIX(2) | MIX(3);
    }
}

static void take_nearest(const picture *from, int32_t y, int64_t count, const float *move_x, const float *move_y,
                         uint32_t *out) {
    for (int32_t i = 0; i < (int32_t)count; i++) {
        const int32_t at_x = i + (int32_t)nearbyintf(move_x[i]), at_y = y + (int32_t)nearbyintf(move_y[i]);
        if (at_x >= 0 && at_x < from->width && at_y >= 0 && at_y < from->height)
            out[i] = from->pixels[at_y * from->width + at_x];
        else
            memcpy(out + i, from->fill, 4);
    }
}

/* ---- The step ---- */

/* What the work memory holds, in this order; each row of it has room up to a multiple of BLOCK. */
typedef struct {
    const float **rows;
    float *kernel, *field[2], *mixed, *moves[2];
} layout;

static int64_t padded(int64_t count) { return (count + 2 * BLOCK - 1) / BLOCK * BLOCK; }

/* Lay it out from `work` on; returns its bytes. */
static int64_t lay_out(uint8_t *work, int64_t height, int64_t width, int64_t radius, layout *to) {
    const int64_t taps = 2 * radius + 1, wide = padded(width), places = padded(taps);
    *to = (layout){.rows = (const float **)work};
    float *at = work == NULL ? NULL : (float *)(void *)(work + (size_t)places * sizeof(float *));
    const int64_t sizes[] = {places, height * wide, height * wide, wide + 2 * radius, wide, wide};
    float **const parts[] = {&to->kernel, &to->field[0], &to->field[1], &to->mixed, &to->moves[0], &to->moves[1]};
    int64_t floats = 0;
    for (int i = 0; i < 6; i++) {
        *parts[i] = at == NULL ? NULL : at + floats;
        floats += sizes[i];
    }
    return places * (int64_t)sizeof(float *) + floats * (int64_t)sizeof(float);
}

/* One row of a field, smooth and scaled. */
static void smooth(const layout *to, int axis, int64_t y, int64_t height, int64_t width, int64_t radius, float scale) {
    const int64_t taps = 2 * radius + 1, wide = padded(width);
    for (int64_t k = 0; k < taps; k++)
        to->rows[k] = to->field[axis] + reflect(y + k - radius, height) * wide;
    sum_rows(to->rows, to->kernel, taps, width, to->mixed + radius);
    for (int64_t k = 0; k < radius; k++) {
        to->mixed[k] = to->mixed[radius + reflect(k - radius, width)];
        to->mixed[radius + width + k] = to->mixed[radius + reflect(width + k, width)];
    }
    for (int64_t k = 0; k < taps; k++)
        to->rows[k] = to->mixed + k;
    sum_rows(to->rows, to->kernel, taps, width, to->moves[axis]);
    for (int64_t i = 0; i < width; i++)
        to->moves[axis][i] *= scale;
}

static void apply_elastic(const img_whole *whole, const uint8_t *in, int64_t height, int64_t width, uint8_t *out, uint8_t *work) {
    const elastic *by = whole->params;
    const int64_t radius = radius_of(by->sigma), wide = padded(width);
    picture from = {.pixels = (const uint32_t *)(const void *)in, .height = (int32_t)height, .width = (int32_t)width};
    for (int c = 0; c < 4; c++)
        from.fill[c] = (uint8_t)whole->drawn[c];
    layout to;
    memset(work, 0, (size_t)lay_out(work, height, width, radius, &to));
    make_kernel(by->sigma, radius, to.kernel);
    for (int64_t y = 0; y < height; y++)
        draw_field(whole->key, y * width, width, to.field[0] + y * wide, to.field[1] + y * wide);
    for (int64_t y = 0; y < height; y++) {
        /* torchvision's displacements are shares of half a side. */
        for (int axis = 0; axis < 2; axis++)
            smooth(&to, axis, y, height, width, radius, (float)(by->alpha[axis] * 0.5));
        uint32_t *row = (uint32_t *)(void *)(out + 4 * y * width);
        (by->filter == 0 ? take_nearest : take_bilinear)(&from, (int32_t)y, width, to.moves[0], to.moves[1], row);
    }
}

static int plan_elastic(img_builder *b, const void *params, uint64_t key) {
    const elastic *by = params;
    const int64_t h = img_plan_height(b), w = img_plan_width(b);
    if (by->alpha[0] == 0.0 && by->alpha[1] == 0.0)
        return IMG_OK;
    layout none;
    uint8_t fill[4];
    img_warp_fill(b, by->fill, fill);
    const img_whole whole = {.apply = apply_elastic, .out_height = h, .out_width = w, .params = params, .key = key,
                             .drawn = {fill[0], fill[1], fill[2], fill[3]},
                             .work_bytes = lay_out(NULL, h, w, radius_of(by->sigma), &none) + IMG_PAD};
    return img_plan_whole(b, &whole, "elastic");
}

IMG_DEFINE_OP(elastic, IMG_PICTURE, elastic, elastic_fields, .draws = 1, .moves = 1, .plan = plan_elastic);
