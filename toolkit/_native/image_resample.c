/* Geometry and coefficients of resize and crop, and the plain-C loops.
 *
 * Resize is Pillow's (src/libImaging/Resample.c) bit for bit: a triangle filter as wide as the scale, coefficients of 22
 * bits, columns first into bytes, then rows (Pillow 13 takes the rows first where a picture is more than twice as high as
 * wide; that moves single pixels by one level). Sizes and crops follow torchvision's Resize(int) and CenterCrop.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image.h"

/* ---- Geometry ---- */

/* Python's round(difference / 2), which rounds halves to even. */
static int64_t half(int64_t difference) {
    int64_t down = difference / 2;
    return difference % 2 == 0 || down % 2 == 0 ? down : down + 1;
}

static void crop_axis(int64_t size, int64_t crop, int64_t *out, int64_t *first, int64_t *keep, int64_t *pad) {
    *first = *pad = 0;
    *keep = *out = crop == 0 ? size : crop;
    if (crop > size) {
        *pad = (crop - size) / 2;
        *keep = size;
    } else if (crop > 0) {
        *first = half(size - crop);
    }
}

int img_make_plan(const img_stage *stage, int64_t height, int64_t width, int64_t max_pixels, img_plan *plan,
                  char *message) {
    plan->resized_h = height;
    plan->resized_w = width;
    if (stage->resize > 0) {
        /* Both factors are below 2^31, so the product fits; it is int(size * long / short) of Python. */
        int64_t shorter = width <= height ? width : height, longer = width <= height ? height : width;
        int64_t grown = stage->resize * longer / shorter;
        plan->resized_h = width <= height ? grown : stage->resize;
        plan->resized_w = width <= height ? stage->resize : grown;
    }
    if (plan->resized_w > max_pixels / plan->resized_h) {
        snprintf(message, IMG_MESSAGE, "the picture has %lld x %lld pixels after its resize, more than max_pixels=%lld",
                 (long long)plan->resized_w, (long long)plan->resized_h, (long long)max_pixels);
        return IMG_TOO_LARGE;
    }
    crop_axis(plan->resized_h, stage->crop_h, &plan->out_h, &plan->top, &plan->keep_h, &plan->pad_top);
    crop_axis(plan->resized_w, stage->crop_w, &plan->out_w, &plan->left, &plan->keep_w, &plan->pad_left);
    return IMG_OK;
}

/* ---- Coefficients ---- */

typedef struct {
    double scale, support, inverse;
    int64_t in;
} triangle;

/* Source samples [*from, *to) of output i; the casts are Pillow's. */
static void reach(const triangle *t, int64_t i, double *center, int64_t *from, int64_t *to) {
    *center = ((double)i + 0.5) * t->scale;
    *from = (int64_t)(*center - t->support + 0.5);
    if (*from < 0)
        *from = 0;
    *to = (int64_t)(*center + t->support + 0.5);
    if (*to > t->in)
        *to = t->in;
}

static double weight(const triangle *t, double center, int64_t sample) {
    double x = ((double)sample - center + 0.5) * t->inverse;
    x = x < 0.0 ? -x : x;
    return x < 1.0 ? 1.0 - x : 0.0;
}

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

int img_make_axis(img_buffer *memory, int64_t in, int64_t out, int64_t from, int64_t count, int64_t lanes,
                  img_axis *axis) {
    triangle t = {.scale = (double)in / (double)out, .in = in};
    t.support = t.scale < 1.0 ? 1.0 : t.scale;
    t.inverse = 1.0 / t.support;
    double center;
    int64_t low, high, most = 0;
    for (int64_t i = from; i < from + count; i++) {
        reach(&t, i, &center, &low, &high);
        most = high - low > most ? high - low : most;
        if (i == from)
            axis->first = low;
        axis->last = high;
    }
    axis->count = count;
    axis->padded = (count + 3) / 4 * 4;
    axis->pairs = (most + 1) / 2;
    /* One block: wide, coefficients, split, weights, index, start; the first keeps the alignment of the block. */
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

    for (int64_t i = 0; i < count; i++) {
        reach(&t, from + i, &center, &low, &high);
        double sum = 0.0;
        for (int64_t k = low; k < high; k++)
            sum += weights[k - low] = weight(&t, center, k);
        /* All outputs have the same number of taps; near the end zeros stand in front, so that none is read behind it. */
        int64_t spare = axis->last - axis->first - (int64_t)taps, lead = low - axis->first - (spare > 0 ? spare : 0);
        lead = lead > 0 ? lead : 0;
        for (int64_t k = 0; k < high - low; k++)
            coefficients[i * (int64_t)taps + lead + k] =
                (int32_t)(0.5 + (sum != 0.0 ? weights[k] / sum : weights[k]) * (double)(1 << IMG_PRECISION));
        start[i] = (int32_t)(low - axis->first - lead);
    }
    for (int64_t i = count; i < axis->padded; i++)
        start[i] = start[count - 1];
    axis->start = start;
    axis->coefficients = coefficients;
    axis->split = halves;
    split(axis, halves);
    axis->lanes = lanes == 4 && !near(axis) ? 2 : lanes;
    axis->wide = lanes ? wide : NULL;
    axis->index = axis->lanes == 4 ? index : NULL;
    if (lanes)
        widen(axis, wide, axis->lanes == 4 ? index : NULL);
    return IMG_OK;
}

void img_keep_axis(int64_t from, int64_t count, img_axis *axis) {
    memset(axis, 0, sizeof *axis);
    axis->first = from;
    axis->last = from + count;
    axis->count = count;
}

/* ---- Plain C ---- */

#define HALF (1 << (IMG_PRECISION - 1))

/* Rounded coefficients may add up to a little more than one. */
static uint8_t clip(int32_t sum) {
    int32_t value = sum >> IMG_PRECISION;
    return (uint8_t)(value > 255 ? 255 : value);
}

static void horizontal(uint8_t *out, const uint8_t *row, const img_axis *axis) {
    const int64_t taps = 2 * axis->pairs;
    for (int64_t i = 0; i < axis->count; i++) {
        const uint8_t *p = row + 4 * (int64_t)axis->start[i];
        const int32_t *c = axis->coefficients + i * taps;
        int32_t r = HALF, g = HALF, b = HALF;
        for (int64_t k = 0; k < taps; k++) {
            r += c[k] * p[4 * k];
            g += c[k] * p[4 * k + 1];
            b += c[k] * p[4 * k + 2];
        }
        out[4 * i] = clip(r);
        out[4 * i + 1] = clip(g);
        out[4 * i + 2] = clip(b);
        out[4 * i + 3] = 0;
    }
}

static void vertical(uint8_t *out, const uint8_t *const *rows, const img_axis *axis, int64_t i, int64_t bytes) {
    const int64_t taps = 2 * axis->pairs;
    const int32_t *coefficients = axis->coefficients + i * taps;
    int32_t sums[64];
    for (int64_t at = 0; at < bytes; at += 64) {
        for (int j = 0; j < 64; j++)
            sums[j] = HALF;
        for (int64_t k = 0; k < taps; k++) {
            const uint8_t *row = rows[k] + at;
            const int32_t c = coefficients[k];
            for (int j = 0; j < 64; j++)
                sums[j] += c * row[j];
        }
        for (int j = 0; j < 64; j++)
            out[at + j] = clip(sums[j]);
    }
}

static void from_rgb(uint8_t *rgbx, const uint8_t *rgb, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        rgbx[4 * i] = rgb[3 * i];
        rgbx[4 * i + 1] = rgb[3 * i + 1];
        rgbx[4 * i + 2] = rgb[3 * i + 2];
        rgbx[4 * i + 3] = 0;
    }
}

static void to_rgb(uint8_t *out, const uint8_t *rgbx, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        out[3 * i] = rgbx[4 * i];
        out[3 * i + 1] = rgbx[4 * i + 1];
        out[3 * i + 2] = rgbx[4 * i + 2];
    }
}

/* Multiplication and addition stay two roundings, as in numpy, also where the machine could fuse them. */
__attribute__((optimize("fp-contract=off"))) static void to_planes(float *out, int64_t plane, const uint8_t *rgbx,
                                                                   int64_t count, const float *scale,
                                                                   const float *bias) {
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif
    for (int c = 0; c < 3; c++)
        for (int64_t i = 0; i < count; i++)
            out[c * plane + i] = (float)rgbx[4 * i + c] * scale[c] + bias[c];
}

const img_kernels img_generic_kernels = {"generic", 0, horizontal, vertical, from_rgb, to_rgb, to_planes};
