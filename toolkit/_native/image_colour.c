/* Colours, pixel by pixel, in the very arithmetic of PIL: Image.blend, convert("L"), convert("HSV") and premultiplied alpha.
 *
 * What PIL does in float and in double is done in the same here; the build forbids the compiler to fuse multiplications
 * with additions.
 */
#include <math.h>
#include <string.h>

#include "image.h"

static inline int gray_of(const uint8_t *p) { return (p[0] * 19595 + p[1] * 38470 + p[2] * 7471 + 0x8000) >> 16; }

void img_from_channels(uint8_t *rgbx, const uint8_t *pixels, int64_t count, int channels) {
    if (channels == 4) {
        memcpy(rgbx, pixels, 4 * (size_t)count);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        const uint8_t *p = pixels + i * channels;
        rgbx[4 * i] = p[0];
        rgbx[4 * i + 1] = p[channels == 1 ? 0 : 1];
        rgbx[4 * i + 2] = p[channels == 1 ? 0 : 2];
        rgbx[4 * i + 3] = 255;
    }
}

IMG_CLONES void img_to_gray(uint8_t *rgbx, const uint8_t *from, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        uint32_t gray = (uint32_t)gray_of(from + 4 * i) * 0x01010101u;
        memcpy(rgbx + 4 * i, &gray, 4);
    }
}

IMG_CLONES int64_t img_sum_of_gray(const uint8_t *rgbx, int64_t count) {
    int64_t sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += gray_of(rgbx + 4 * i);
    return sum;
}

IMG_CLONES void img_premultiply(uint8_t *rgba, const uint8_t *from, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        uint32_t alpha = from[4 * i + 3];
        for (int c = 0; c < 3; c++) {
            uint32_t product = from[4 * i + c] * alpha + 128;
            rgba[4 * i + c] = (uint8_t)(((product >> 8) + product) >> 8);
        }
        rgba[4 * i + 3] = (uint8_t)alpha;
    }
}

void img_unpremultiply(uint8_t *rgba, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        uint32_t alpha = rgba[4 * i + 3];
        for (int c = 0; c < 3 && alpha != 0 && alpha != 255; c++) {
            uint32_t value = 255u * rgba[4 * i + c] / alpha;
            rgba[4 * i + c] = (uint8_t)(value > 255 ? 255 : value);
        }
    }
}

/* ---- Blending with what an enhancement starts from ---- */

static inline uint8_t blend(int start, int pixel, float factor) {
    float value = (float)start + factor * (float)(pixel - start);
    value = value < 0.0f ? 0.0f : value > 255.0f ? 255.0f : value;
    return (uint8_t)(int)value;
}

IMG_CLONES static void from_constant(uint8_t *rgbx, int64_t count, int start, float factor) {
    for (int64_t i = 0; i < 4 * count; i++) {
        uint8_t changed = blend(start, rgbx[i], factor);
        rgbx[i] = i % 4 == 3 ? rgbx[i] : changed;
    }
}

IMG_CLONES static void from_gray(uint8_t *rgbx, int64_t count, float factor) {
    for (int64_t i = 0; i < count; i++) {
        uint8_t *p = rgbx + 4 * i;
        int gray = gray_of(p);
        p[0] = blend(gray, p[0], factor);
        p[1] = blend(gray, p[1], factor);
        p[2] = blend(gray, p[2], factor);
    }
}

/* ---- Hue ---- */

/* To PIL's HSV of 8 bits, the hue moved round, and back. */
static inline void turn_hue(uint8_t *p, uint8_t shift) {
    const int r = p[0], g = p[1], b = p[2];
    const int high = r > g ? (r > b ? r : b) : (g > b ? g : b), low = r < g ? (r < b ? r : b) : (g < b ? g : b);
    if (high == low)
        return;
    const float range = (float)(high - low), top = (float)high;
    const float rc = (float)(high - r) / range, gc = (float)(high - g) / range, bc = (float)(high - b) / range;
    float hue = r == high ? bc - gc : g == high ? (float)(2.0 + (double)rc - (double)bc) : (float)(4.0 + (double)gc - (double)rc);
    double turned = (double)hue / 6.0 + 1.0;
    hue = (float)(turned >= 1.0 ? turned - 1.0 : turned); /* fmod(turned, 1), turned being 5/6 .. 11/6 */
    const uint8_t saturation = (uint8_t)(int)((double)(range / top) * 255.0);
    const uint8_t moved = (uint8_t)((uint8_t)(int)((double)hue * 255.0) + shift);
    if (saturation == 0) {
        p[0] = p[1] = p[2] = (uint8_t)high;
        return;
    }
    const double sixths = (double)((float)moved * 6.0f) / 255.0;
    const int sector = (int)sixths;
    const float f = (float)(sixths - (double)(float)sector), fs = (float)saturation / 255.0f;
    const uint8_t v = (uint8_t)high;
    const uint8_t x = (uint8_t)(int)round((double)top * (1.0 - (double)fs));
    const uint8_t y = (uint8_t)(int)round((double)top * (1.0 - (double)(fs * f)));
    const uint8_t z = (uint8_t)(int)round((double)top * (1.0 - (double)fs * (1.0 - (double)f)));
    const uint8_t table[6][3] = {{v, z, x}, {y, v, x}, {x, v, z}, {x, y, v}, {z, x, v}, {v, x, y}};
    memcpy(p, table[sector % 6], 3);
}

void img_apply_colour(uint8_t *rgbx, int64_t count, const img_colour *colour) {
    switch (colour->kind) {
    case IMG_BRIGHTNESS:
        from_constant(rgbx, count, 0, colour->factor);
        break;
    case IMG_CONTRAST:
        from_constant(rgbx, count, colour->mean, colour->factor);
        break;
    case IMG_SATURATION:
        from_gray(rgbx, count, colour->factor);
        break;
    case IMG_HUE:
        for (int64_t i = 0; i < count; i++)
            turn_hue(rgbx + 4 * i, colour->shift);
        break;
    default: /* IMG_TO_GRAY */
        img_to_gray(rgbx, rgbx, count);
    }
}
