/* Turning hues, in the very arithmetic of PIL's convert("HSV") and back.
 *
 * What PIL does in float and in double is done in the same here; the build forbids the compiler to fuse multiplications
 * with additions.
 */
#include "hue.h"

#include "image/program/base.h"

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

static void turn_row(uint8_t *rgbx, int64_t count, const img_change *change) {
    int32_t red[BLOCK] = {0}, green[BLOCK] = {0}, blue[BLOCK] = {0};
    for (; count > 0; count -= BLOCK, rgbx += 4 * BLOCK) {
        const int size = count < BLOCK ? (int)count : BLOCK;
        for (int i = 0; i < size; i++) {
            red[i] = rgbx[4 * i];
            green[i] = rgbx[4 * i + 1];
            blue[i] = rgbx[4 * i + 2];
        }
        turn_hues(red, green, blue, change->level);
        for (int i = 0; i < size; i++) {
            rgbx[4 * i] = (uint8_t)red[i];
            rgbx[4 * i + 1] = (uint8_t)green[i];
            rgbx[4 * i + 2] = (uint8_t)blue[i];
        }
    }
}

int img_plan_hue(img_builder *b, double factor) {
    const img_change change = {.apply = turn_row, .level = (uint8_t)(int32_t)(factor * 255.0)};
    return img_plan_change(b, &change);
}
