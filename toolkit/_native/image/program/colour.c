/* Colours, pixel by pixel, in the very arithmetic of PIL: Image.blend, convert("L"), convert("HSV") and premultiplied alpha.
 *
 * What PIL does in float and in double is done in the same here; the build forbids the compiler to fuse multiplications
 * with additions.
 */
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

#define BLOCK 64 /* pixels whose channels lie side by side, so that the compiler vectorises */

static inline int larger(int a, int b) { return a > b ? a : b; }
static inline int smaller(int a, int b) { return a < b ? a : b; }
/* `value` or 0, without a branch. */
static inline int when(int condition, int value) { return -condition & value; }

/* To PIL's HSV of 8 bits, the hue moved round, and back, for a block of pixels. Gray ones come out as they are: their
 * saturation is 0, and then all three values are the highest channel. */
IMG_CLONES static void turn_hues(int32_t *red, int32_t *green, int32_t *blue, int32_t shift) {
    for (int i = 0; i < BLOCK; i++) {
        const int r = red[i], g = green[i], b = blue[i];
        const int high = larger(r, larger(g, b)), low = smaller(r, smaller(g, b));
        const int is_red = r == high, is_green = (g == high) & !is_red, is_blue = !is_red & !is_green;
        /* PIL: bc - gc where red is highest, 2.0 + rc - bc where green is, 4.0 + gc - rc; rc being (high - r) / range. */
        const int plus = when(is_red, high - b) | when(is_green, high - r) | when(is_blue, high - g);
        const int minus = when(is_red, high - g) | when(is_green, high - b) | when(is_blue, high - r);
        const float range = (float)larger(high - low, 1), top = (float)high;
        const double sixth = (double)(2 * is_green + 4 * is_blue);
        float hue = (float)(sixth + (double)((float)plus / range) - (double)((float)minus / range));
        const double turned = (double)hue / 6.0 + 1.0;
        hue = (float)(turned - (double)(int)turned); /* fmod(turned, 1), turned being 5/6 .. 11/6 */
        const int saturation = (int)((double)((float)(high - low) / (float)larger(high, 1)) * 255.0);
        const int moved = ((int)((double)hue * 255.0) + shift) & 255;

        const double sixths = (double)((float)moved * 6.0f) / 255.0;
        const int sector = (int)sixths;
        const float f = (float)(sixths - (double)sector), fs = (float)saturation / 255.0f;
        /* PIL's round(), which is the same for all values that occur. */
        const int x = (int)((double)top * (1.0 - (double)fs) + 0.5);
        const int y = (int)((double)top * (1.0 - (double)(fs * f)) + 0.5);
        const int z = (int)((double)top * (1.0 - (double)fs * (1.0 - (double)f)) + 0.5);
        /* Sectors 0 .. 5: (high, z, x), (y, high, x), (x, high, z), (x, y, high), (z, x, high), (high, x, y); 6 is 0. */
        const int s0 = (sector == 0) | (sector == 6), s1 = sector == 1, s2 = sector == 2, s3 = sector == 3;
        const int s4 = sector == 4, s5 = sector == 5;
        red[i] = when(s0 | s5, high) | when(s1, y) | when(s2 | s3, x) | when(s4, z);
        green[i] = when(s1 | s2, high) | when(s0, z) | when(s3, y) | when(s4 | s5, x);
        blue[i] = when(s3 | s4, high) | when(s2, z) | when(s5, y) | when(s0 | s1, x);
    }
}

static void turn_row(uint8_t *rgbx, int64_t count, int32_t shift) {
    int32_t red[BLOCK] = {0}, green[BLOCK] = {0}, blue[BLOCK] = {0};
    for (; count > 0; count -= BLOCK, rgbx += 4 * BLOCK) {
        const int size = count < BLOCK ? (int)count : BLOCK;
        for (int i = 0; i < size; i++) {
            red[i] = rgbx[4 * i];
            green[i] = rgbx[4 * i + 1];
            blue[i] = rgbx[4 * i + 2];
        }
        turn_hues(red, green, blue, shift);
        for (int i = 0; i < size; i++) {
            rgbx[4 * i] = (uint8_t)red[i];
            rgbx[4 * i + 1] = (uint8_t)green[i];
            rgbx[4 * i + 2] = (uint8_t)blue[i];
        }
    }
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
        turn_row(rgbx, count, colour->shift);
        break;
    default: /* IMG_TO_GRAY */
        img_to_gray(rgbx, rgbx, count);
    }
}
