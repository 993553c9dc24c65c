/* Geometry and coefficients of resize and crop, and the plain-C loops.
 *
 * Resize is Pillow's (src/libImaging/Resample.c): a triangle filter as wide as the scale, columns first into bytes, then
 * rows. Coefficients have 15 bits as in Pillow-SIMD, and add up to exactly one, so results differ from Pillow's 22-bit
 * coefficients by at most one level. Sizes and crops follow torchvision's Resize(int) and CenterCrop.
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

/* Put the taps into the order of the SIMD loops: `lanes` outputs in a vector, each tap pair for four channels. */
static void widen(const img_axis *axis, int16_t *wide, uint8_t *index) {
    const int64_t lanes = axis->lanes, pairs = axis->pairs;
    for (int64_t i = 0; i < axis->padded; i++) {
        for (int64_t p = 0; p < pairs; p++)
            for (int channel = 0; channel < 4; channel++)
                memcpy(wide + ((i / lanes * pairs + p) * lanes + i % lanes) * 8 + channel * 2,
                       axis->coefficients + (i * pairs + p) * 2, 2 * sizeof(int16_t));
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
    double center, largest = 0.0;
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
    uint64_t padded = (uint64_t)axis->padded, taps = 2 * (uint64_t)axis->pairs;
    uint64_t start_bytes = (padded * 4 + 63) / 64 * 64, weight_bytes = (taps * 8 + 63) / 64 * 64;
    uint64_t tap_bytes = (padded * taps * 2 + 63) / 64 * 64, wide_bytes = lanes ? padded * taps * 8 : 0;
    uint64_t index_bytes = lanes == 4 ? padded * 16 : 0;
    if (img_reserve(memory, start_bytes + weight_bytes + tap_bytes + wide_bytes + index_bytes) != IMG_OK)
        return IMG_NO_MEMORY;
    int32_t *start = (int32_t *)memory->data;
    double *weights = (double *)(memory->data + start_bytes);
    int16_t *coefficients = (int16_t *)(memory->data + start_bytes + weight_bytes);
    memset(coefficients, 0, tap_bytes);

    /* The largest weight is that of the sample nearest to a centre, over the sum of its weights. An upper bound for all
     * outputs: one when samples are spread, and 2 / (2 * scale - 1) when they are gathered, borders included. */
    largest = t.scale < 2.0 ? 1.0 : 2.0 / (t.scale - 1.0);
    if (largest > 1.0)
        largest = 1.0;
    axis->precision = 14;
    while (axis->precision < 22 && largest * (double)(1 << (axis->precision + 1)) < 32766.0)
        axis->precision++;
    double one = (double)(1 << axis->precision);
    for (int64_t i = 0; i < count; i++) {
        reach(&t, from + i, &center, &low, &high);
        double sum = 0.0;
        for (int64_t k = low; k < high; k++)
            sum += weights[k - low] = weight(&t, center, k);
        /* All outputs have the same number of taps; near the end zeros stand in front, so that none is read behind it. */
        int64_t spare = axis->last - axis->first - (int64_t)taps, lead = low - axis->first - (spare > 0 ? spare : 0);
        lead = lead > 0 ? lead : 0;
        /* Rounding the running sum makes the coefficients add up to exactly one. */
        double factor = sum > 0.0 ? one / sum : 0.0, running = 0.0;
        int64_t before = 0;
        for (int64_t k = 0; k < high - low; k++) {
            running += weights[k] * factor;
            int64_t now = (int64_t)(running + 0.5);
            coefficients[i * (int64_t)taps + lead + k] = (int16_t)(now - before);
            before = now;
        }
        start[i] = (int32_t)(low - axis->first - lead);
    }
    axis->start = start;
    axis->coefficients = coefficients;
    for (int64_t i = count; i < axis->padded; i++)
        start[i] = start[count - 1];
    axis->lanes = lanes == 4 && !near(axis) ? 2 : lanes;
    axis->wide = NULL;
    axis->index = NULL;
    if (lanes) {
        uint8_t *place = memory->data + start_bytes + weight_bytes + tap_bytes;
        axis->wide = (int16_t *)place;
        axis->index = axis->lanes == 4 ? place + wide_bytes : NULL;
        widen(axis, (int16_t *)place, axis->lanes == 4 ? place + wide_bytes : NULL);
    }
    return IMG_OK;
}

void img_keep_axis(int64_t from, int64_t count, img_axis *axis) {
    memset(axis, 0, sizeof *axis);
    axis->first = from;
    axis->last = from + count;
    axis->count = count;
}

/* ---- Plain C ---- */

static void horizontal(uint8_t *out, const uint8_t *row, const img_axis *axis) {
    const int64_t taps = 2 * axis->pairs;
    for (int64_t i = 0; i < axis->count; i++) {
        const uint8_t *p = row + 4 * (int64_t)axis->start[i];
        const int16_t *c = axis->coefficients + i * taps;
        int32_t r = 1 << (axis->precision - 1), g = r, b = r;
        for (int64_t k = 0; k < taps; k++) {
            r += c[k] * p[4 * k];
            g += c[k] * p[4 * k + 1];
            b += c[k] * p[4 * k + 2];
        }
        /* The coefficients are not negative and add up to one: no clipping. */
        out[4 * i] = (uint8_t)(r >> axis->precision);
        out[4 * i + 1] = (uint8_t)(g >> axis->precision);
        out[4 * i + 2] = (uint8_t)(b >> axis->precision);
        out[4 * i + 3] = 0;
    }
}

static void vertical(uint8_t *out, const uint8_t *const *rows, const int16_t *coefficients, int64_t pairs, int precision,
                     int64_t bytes) {
    int32_t sums[64];
    for (int64_t at = 0; at < bytes; at += 64) {
        for (int j = 0; j < 64; j++)
            sums[j] = 1 << (precision - 1);
        for (int64_t k = 0; k < 2 * pairs; k++) {
            const uint8_t *row = rows[k] + at;
            const int32_t c = coefficients[k];
            for (int j = 0; j < 64; j++)
                sums[j] += c * row[j];
        }
        for (int j = 0; j < 64; j++)
            out[at + j] = (uint8_t)(sums[j] >> precision);
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
    for (int c = 0; c < 3; c++)
        for (int64_t i = 0; i < count; i++)
            out[c * plane + i] = (float)rgbx[4 * i + c] * scale[c] + bias[c];
}

const img_kernels img_generic_kernels = {"generic", 0, horizontal, vertical, to_rgb, to_planes};
