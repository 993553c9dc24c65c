/* The plain-C loops: what every machine can run, and what the others have to agree with bit for bit. */
#include <string.h>

#include "kernels.h"

#define HALF (1 << (IMG_PRECISION - 1))

/* Bicubic and Lanczos overshoot, and rounded coefficients may add up to a little more than one. */
static uint8_t clip(int32_t sum) {
    int32_t value = sum >> IMG_PRECISION;
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

static void horizontal(uint8_t *out, const uint8_t *row, const img_axis *axis) {
    const int64_t taps = 2 * axis->pairs;
    for (int64_t i = 0; i < axis->count; i++) {
        const uint8_t *p = row + 4 * (int64_t)axis->start[i];
        const int32_t *c = axis->coefficients + i * taps;
        int32_t r = HALF, g = HALF, b = HALF, x = HALF;
        for (int64_t k = 0; k < taps; k++) {
            r += c[k] * p[4 * k];
            g += c[k] * p[4 * k + 1];
            b += c[k] * p[4 * k + 2];
            x += c[k] * p[4 * k + 3];
        }
        out[4 * i] = clip(r);
        out[4 * i + 1] = clip(g);
        out[4 * i + 2] = clip(b);
        out[4 * i + 3] = clip(x);
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
        rgbx[4 * i + 3] = 255;
    }
}

static void to_rgb(uint8_t *out, const uint8_t *rgbx, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        out[3 * i] = rgbx[4 * i];
        out[3 * i + 1] = rgbx[4 * i + 1];
        out[3 * i + 2] = rgbx[4 * i + 2];
    }
}

static void to_planes(float *out, int64_t plane, const uint8_t *rgbx, int64_t count, const float *scale,
                      const float *bias) {
    for (int c = 0; c < 3; c++)
        for (int64_t i = 0; i < count; i++)
            out[c * plane + i] = (float)rgbx[4 * i + c] * scale[c] + bias[c];
}

static void reverse(uint8_t *out, const uint8_t *rgbx, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        memcpy(out + 4 * i, rgbx + 4 * (count - 1 - i), 4);
}

void img_look_up(uint8_t *rgbx, int64_t count, const img_table *table) {
    for (uint8_t *p = rgbx; p < rgbx + 4 * count; p += 4) {
        p[0] = table->of[0][p[0]];
        p[1] = table->of[1][p[1]];
        p[2] = table->of[2][p[2]];
    }
}

const img_kernels img_generic_kernels = {"generic", 0,         horizontal, vertical,   from_rgb,
                                         to_rgb,    to_planes, reverse,    img_look_up};
