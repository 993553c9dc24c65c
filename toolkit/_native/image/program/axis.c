/* Which source samples a resized sample is made of, and how much each weighs.
 *
 * Pillow's (src/libImaging/Resample.c, Geometry.c) bit for bit: filters as wide as the scale, coefficients of 22 bits,
 * columns first into bytes, then rows (Pillow 13 takes the rows first where a picture is more than twice as high as wide;
 * that moves single pixels by one level).
 */
#include "axis.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base.h"

/* ---- Filters ---- */

const char *const img_filter_names[] = {"nearest", "bilinear", "bicubic", "lanczos", NULL};

static double bilinear(double x) {
    x = fabs(x);
    return x < 1.0 ? 1.0 - x : 0.0;
}

static double bicubic(double x) { /* a = -0.5 */
    x = fabs(x);
    if (x < 1.0)
        return (1.5 * x - 2.5) * x * x + 1;
    return x < 2.0 ? (((x - 5) * x + 8) * x - 4) * -0.5 : 0.0;
}

static double sinc(double x) {
    if (x == 0.0)
        return 1.0;
    x *= 3.14159265358979323846;
    return sin(x) / x;
}

static double lanczos(double x) { return -3.0 <= x && x < 3.0 ? sinc(x) * sinc(x / 3) : 0.0; }

typedef struct {
    double (*weight)(double);
    double scale, support, inverse, from;
    int64_t in;
} kernel;

static kernel make_kernel(const img_resize *r) {
    kernel k = {.scale = r->length / (double)r->out, .in = r->in};
    k.weight = r->filter == IMG_BILINEAR ? bilinear : r->filter == IMG_BICUBIC ? bicubic : lanczos;
    double stretch = k.scale < 1.0 ? 1.0 : k.scale;
    k.support = stretch * (r->filter == IMG_BILINEAR ? 1.0 : r->filter == IMG_BICUBIC ? 2.0 : 3.0);
    k.inverse = 1.0 / stretch;
    k.from = r->mirrored ? (double)r->in - r->from - r->length : r->from;
    return k;
}

/* Source samples [*low, *high) of output i; the casts are Pillow's. */
static void reach(const kernel *k, int64_t i, double *center, int64_t *low, int64_t *high) {
    *center = k->from + ((double)i + 0.5) * k->scale;
    *low = (int64_t)(*center - k->support + 0.5);
    if (*low < 0)
        *low = 0;
    *high = (int64_t)(*center + k->support + 0.5);
    if (*high > k->in)
        *high = k->in;
}

/* The same of a mirrored resize: the taps then stand in reverse. */
static void reach_of(const kernel *k, const img_resize *r, int64_t i, double *center, int64_t *low, int64_t *high) {
    reach(k, r->mirrored ? r->out - 1 - i : i, center, low, high);
    if (r->mirrored) {
        int64_t first = k->in - *high;
        *high = k->in - *low;
        *low = first;
    }
}

static int32_t rounded(double weight) {
    return (int32_t)((weight < 0.0 ? -0.5 : 0.5) + weight * (double)(1 << IMG_PRECISION));
}

/* Leave only the high halves of coefficients, the rest of which goes to the largest one: a product less for each. */
static void coarsen(int32_t *coefficients, int64_t taps) {
    const int32_t one = 1 << IMG_SPLIT;
    int64_t largest = 0;
    int32_t rest = 1 << IMG_PRECISION;
    for (int64_t i = 0; i < taps; i++) {
        coefficients[i] = ((coefficients[i] + one / 2) >> IMG_SPLIT) * one;
        rest -= coefficients[i];
        largest = coefficients[i] > coefficients[largest] ? i : largest;
    }
    coefficients[largest] += rest;
}

/* ---- For SIMD ---- */

static void split(const img_axis *axis, int16_t *out) {
    for (int64_t i = 0; i < axis->padded * axis->pairs; i++)
        for (int tap = 0; tap < 2; tap++) {
            out[4 * i + tap] = (int16_t)(axis->coefficients[2 * i + tap] >> IMG_SPLIT);
            out[4 * i + 2 + tap] = (int16_t)(axis->coefficients[2 * i + tap] & ((1 << IMG_SPLIT) - 1));
        }
}

/* Put the taps into the order of the SIMD loops: `lanes` outputs in a vector, each tap pair for four channels. */
static void widen(const img_axis *axis, int16_t *wide, uint8_t *index) {
    const int64_t lanes = axis->lanes, pairs = axis->pairs;
    for (int64_t i = 0; i < axis->padded; i++) {
        for (int64_t p = 0; p < 2 * pairs; p++)
            for (int channel = 0; channel < 4; channel++)
                memcpy(wide + ((i / lanes * 2 * pairs + p) * lanes + i % lanes) * 8 + channel * 2,
                       axis->split + (i * 2 * pairs + p) * 2, 2 * sizeof(int16_t));
        for (int j = 0; index != NULL && j < 16; j += 2) { /* bytes 0 and 4 of channel 0, 1 and 5 of channel 1 ... */
            int64_t pixel = axis->start[i] - axis->start[i / 4 * 4];
            index[i * 16 + j] = (uint8_t)(4 * pixel + j / 4 + j % 4 * 2);
            index[i * 16 + j + 1] = 0; /* masked out by the loop */
        }
    }
}

/* Whether the sources of each four outputs lie within 16 pixels, one load of AVX-512. */
static int near(const img_axis *axis) {
    for (int64_t i = 0; i < axis->padded; i += 4)
        if (axis->start[i + 3] - axis->start[i] + 2 * axis->pairs > 16)
            return 0;
    return 1;
}

/* ---- Axes ---- */

static int make_nearest(img_buffer *memory, const img_resize *r, img_axis *axis) {
    const double scale = r->length / (double)r->out;
    if (img_reserve(memory, (uint64_t)axis->padded * 4) != IMG_OK)
        return IMG_NO_MEMORY;
    int32_t *start = (int32_t *)memory->data;
    double at = (r->mirrored ? (double)r->in - r->from - r->length : r->from) + scale * 0.5; /* added up, not multiplied: so does Pillow */
    int64_t begin = r->mirrored ? r->out - r->first - r->count : r->first;
    for (int64_t i = 0; i < begin + r->count; i++, at += scale)
        if (i >= begin) {
            int64_t sample = (int64_t)at < r->in ? (int64_t)at : r->in - 1;
            if (r->mirrored)
                start[r->count - 1 - (i - begin)] = (int32_t)(r->in - 1 - sample);
            else
                start[i - begin] = (int32_t)sample;
        }
    axis->first = start[0];
    axis->last = (int64_t)start[r->count - 1] + 1;
    for (int64_t i = 0; i < axis->padded; i++)
        start[i] = i < r->count ? start[i] - (int32_t)axis->first : start[r->count - 1];
    axis->start = start;
    return IMG_OK;
}

static int make_filtered(img_buffer *memory, const img_resize *r, img_axis *axis) {
    const kernel k = make_kernel(r);
    double center;
    int64_t low, high, most = 0;
    for (int64_t i = r->first; i < r->first + r->count; i++) {
        reach_of(&k, r, i, &center, &low, &high);
        most = high - low > most ? high - low : most;
        if (i == r->first)
            axis->first = low;
        axis->last = high;
    }
    axis->pairs = (most + 1) / 2;
    /* One block: wide, index, coefficients, split, weights, start; the first keeps the alignment of the block. */
    const int64_t lanes = r->lanes;
    uint64_t padded = (uint64_t)axis->padded, taps = 2 * (uint64_t)axis->pairs;
    uint64_t wide_bytes = lanes ? padded * taps * 16 : 0, tap_bytes = padded * taps * 4;
    uint64_t index_bytes = lanes == 4 ? padded * 16 : 0;
    if (img_reserve(memory, wide_bytes + 2 * tap_bytes + taps * 8 + index_bytes + padded * 4 + 2 * 64) != IMG_OK)
        return IMG_NO_MEMORY;
    uint8_t *place = memory->data;
    int16_t *wide = (int16_t *)place;
    uint8_t *index = place += wide_bytes; /* whole vectors too */
    int32_t *coefficients = (int32_t *)(place += index_bytes);
    int16_t *halves = (int16_t *)(place += tap_bytes);
    double *weights = (double *)(place += tap_bytes);
    int32_t *start = (int32_t *)(place + taps * 8);
    memset(coefficients, 0, tap_bytes);

    for (int64_t i = 0; i < r->count; i++) {
        reach_of(&k, r, r->first + i, &center, &low, &high);
        double sum = 0.0;
        int64_t count = high - low, from = r->mirrored ? k.in - high : low;
        for (int64_t j = 0; j < count; j++)
            sum += weights[j] = k.weight(((double)(from + j) - center + 0.5) * k.inverse);
        /* All outputs have the same number of taps; near the end zeros stand in front, so that none is read behind it. */
        int64_t spare = axis->last - axis->first - (int64_t)taps, lead = low - axis->first - (spare > 0 ? spare : 0);
        lead = lead > 0 ? lead : 0;
        for (int64_t j = 0; j < count; j++)
            coefficients[i * (int64_t)taps + lead + (r->mirrored ? count - 1 - j : j)] =
                rounded(sum != 0.0 ? weights[j] / sum : weights[j]);
        start[i] = (int32_t)(low - axis->first - lead);
        if (r->coarse)
            coarsen(coefficients + i * (int64_t)taps, (int64_t)taps);
    }
    for (int64_t i = r->count; i < axis->padded; i++)
        start[i] = start[r->count - 1];
    axis->start = start;
    axis->coefficients = coefficients;
    axis->split = halves;
    split(axis, halves);
    axis->coarse = r->coarse;
    axis->lanes = lanes == 4 && !near(axis) ? 2 : lanes;
    axis->wide = lanes ? wide : NULL;
    axis->index = axis->lanes == 4 ? index : NULL;
    if (lanes)
        widen(axis, wide, axis->lanes == 4 ? index : NULL);
    return IMG_OK;
}

/* The source sample of output `i`, counted before it is mirrored: the steps are added up, so it takes them all. */
static int64_t nearest_sample(const img_resize *r, int64_t i) {
    const double scale = r->length / (double)r->out;
    double at = r->from + scale * 0.5;
    while (i-- > 0)
        at += scale;
    return (int64_t)at < r->in ? (int64_t)at : r->in - 1;
}

void img_axis_reach(const img_resize *r, int64_t *first, int64_t *last) {
    const int64_t end = r->first + r->count - 1;
    if (r->filter == IMG_NEAREST) {
        const int64_t low = nearest_sample(r, r->mirrored ? r->out - 1 - end : r->first);
        const int64_t high = nearest_sample(r, r->mirrored ? r->out - 1 - r->first : end);
        *first = r->mirrored ? r->in - 1 - high : low;
        *last = 1 + (r->mirrored ? r->in - 1 - low : high);
        return;
    }
    const kernel k = make_kernel(r);
    double center;
    int64_t low, high;
    reach_of(&k, r, r->first, &center, first, &high);
    reach_of(&k, r, end, &center, &low, last);
}

static int same(const img_resize *a, const img_resize *b) {
    return a->in == b->in && a->out == b->out && a->first == b->first && a->count == b->count && a->lanes == b->lanes &&
           a->from == b->from && a->length == b->length && a->filter == b->filter && a->mirrored == b->mirrored &&
           a->coarse == b->coarse;
}

int img_make_axis(img_axis_cache *cache, const img_resize *resize, img_axis *axis) {
    if (cache->axis.count == 0 || !same(&cache->of, resize)) {
        img_axis made = {.count = resize->count, .padded = (resize->count + 3) / 4 * 4};
        cache->axis.count = 0; /* nothing is there while it is made */
        int status = resize->filter == IMG_NEAREST ? make_nearest(&cache->memory, resize, &made)
                                                   : make_filtered(&cache->memory, resize, &made);
        if (status != IMG_OK)
            return status;
        cache->of = *resize;
        cache->axis = made;
    }
    *axis = cache->axis;
    return IMG_OK;
}

void img_keep_axis(int64_t from, int64_t count, img_axis *axis) {
    memset(axis, 0, sizeof *axis);
    axis->first = from;
    axis->last = from + count;
    axis->count = count;
}
