/* Turning hues: what PIL's convert("HSV") and back give, bit for bit, in less.
 *
 * PIL works in float and double. Here are floats and integers whose results are the same for every colour and every turn
 * (test_hue_of_every_colour in tests/pipelines/image/test_tone.py compares all colours). That rests on float32 divisions
 * and on the order of operations: change nothing without that test.
 */
#include "hue.h"

#include <string.h>

#include "image/program/base.h"

#define SECTOR 85 /* a sixth of the circle, which is 510 halves of a step of hue */

static inline int larger(int a, int b) { return a > b ? a : b; }
static inline int smaller(int a, int b) { return a < b ? a : b; }
static inline int within(int low, int value, int high) { return smaller(larger(value, low), high); }
static inline int distance(int a, int b) { return larger(a - b, b - a); }

/* How far a channel is on its way from the highest value to the lowest, in 1 / SECTOR, where `away` is its distance from
 * the middle of the third of the circle in which it is highest. */
static inline int weight(int away) { return within(0, away - SECTOR, SECTOR); }

static inline uint32_t turn(uint32_t pixel, int shift) {
    const int r = pixel & 255, g = pixel >> 8 & 255, b = pixel >> 16 & 255;
    const int high = larger(r, larger(g, b)), low = smaller(r, smaller(g, b)), range = high - low;
    const int middle = r + g + b - high - low;
    const int red = r == high, green = (g == high) & !red, blue = !red & !green;

    /* Hue in sixths of the circle: -1, 1, 3 or 5, and t away from there. What lies before red is behind the end. */
    const int down = (red & (b == low)) | (green & (r == low)) | (blue & (g == low));
    const int before = red & !down & (middle > low);
    const float t = (float)(high - middle) / (float)larger(range, 1);
    const float hue = (float)(2 * (green + 2 * blue + down) - 1) + (float)(1 - 2 * down) * t;
    const float part = hue / 6.0f + (float)before;
    const int turned = ((int)(part * 255.0f) + shift) & 255;
    const int saturation = (int)((float)range / (float)larger(high, 1) * 255.0f);

    /* A channel is high - high * saturation / 255 * weight / SECTOR, rounded. Red is highest around 0, which is as far from
     * 255 as anything can be. Gray ones have saturation 0 and stay. */
    const int at = 2 * turned;
    const float start = (float)high + 0.5f, unit = (float)(high * saturation) * (1.0f / (255 * SECTOR));
    const uint32_t to_r = (uint32_t)(int)(start - unit * (float)weight(3 * SECTOR - distance(at, 3 * SECTOR)));
    const uint32_t to_g = (uint32_t)(int)(start - unit * (float)weight(distance(at, 2 * SECTOR)));
    const uint32_t to_b = (uint32_t)(int)(start - unit * (float)weight(distance(at, 4 * SECTOR)));
    return (pixel & 0xff000000u) | to_r | to_g << 8 | to_b << 16;
}

IMG_CLONES static void turn_row(uint8_t *rgbx, int64_t count, const img_change *change) {
    const int shift = change->level;
    for (int64_t i = 0; i < count; i++) {
        uint32_t pixel;
        memcpy(&pixel, rgbx + 4 * i, 4);
        pixel = turn(pixel, shift);
        memcpy(rgbx + 4 * i, &pixel, 4);
    }
}

int img_plan_hue(img_builder *b, double factor) {
    const img_change change = {.apply = turn_row, .level = (uint8_t)(int32_t)(factor * 255.0)};
    return img_plan_change(b, &change);
}
