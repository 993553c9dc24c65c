/* brightness, contrast and saturation: PIL's ImageEnhance, which blends with black, with the mean of gray, and with gray.
 *
 * What Image.blend does in float is done in the same here; the build forbids the compiler to fuse multiplications with
 * additions. A factor of 1 leaves every value as it is.
 */
#include "enhance.h"

#include <string.h>

#include "image/program/base.h"
#include "image/program/colour.h"
#include "image/program/draws.h"
#include "image/program/op.h"

#define PIXELS 65536 /* whose gray levels have a sum of 32 bits */

/* Image.blend; a factor of at most 1e6 takes nothing out of the range of int. */
static inline int blend(int start, int pixel, float factor) {
    const int value = (int)((float)start + factor * (float)(pixel - start));
    return value < 0 ? 0 : value > 255 ? 255 : value;
}

static void from_constant(img_table *table, int start, float factor) {
    for (int v = 0; v < 256; v++)
        table->of[0][v] = table->of[1][v] = table->of[2][v] = (uint8_t)blend(start, v, factor);
}

IMG_CLONES static void from_gray(uint8_t *rgbx, int64_t count, const img_change *change) {
    const float factor = change->factor;
    for (int64_t i = 0; i < count; i++) {
        uint32_t pixel;
        memcpy(&pixel, rgbx + 4 * i, 4);
        const int red = pixel & 255, green = pixel >> 8 & 255, blue = pixel >> 16 & 255;
        const int gray = (red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16; /* img_gray_of */
        const int r = blend(gray, red, factor), g = blend(gray, green, factor), b = blend(gray, blue, factor);
        pixel = (pixel & 0xff000000u) | (uint32_t)(r | g << 8 | b << 16);
        memcpy(rgbx + 4 * i, &pixel, 4);
    }
}

IMG_CLONES static uint32_t sum_of(const uint8_t *rgbx, int64_t count) {
    uint32_t sum = 0;
    for (int64_t i = 0; i < count; i++) {
        uint32_t pixel;
        memcpy(&pixel, rgbx + 4 * i, 4);
        sum += ((pixel & 255) * 19595 + (pixel >> 8 & 255) * 38470 + (pixel >> 16 & 255) * 7471 + 0x8000) >> 16;
    }
    return sum;
}

static void sum_of_gray(const uint8_t *rgbx, int64_t count, img_statistic *found) {
    for (int64_t i = 0; i < count; i += PIXELS)
        found->sum += sum_of(rgbx + 4 * i, count - i < PIXELS ? count - i : PIXELS);
}

static void blend_with_mean(const img_change *change, const img_statistic *found, int64_t pixels, img_table *table) {
    from_constant(table, (uint8_t)((double)found->sum / (double)pixels + 0.5), change->factor);
}

int img_plan_brightness(img_builder *b, double factor) {
    img_table table;
    if (factor == 1.0)
        return IMG_OK;
    from_constant(&table, 0, (float)factor);
    return img_plan_table(b, &table);
}

int img_plan_contrast(img_builder *b, double factor) {
    const img_change change = {.measure = sum_of_gray, .settle = blend_with_mean, .factor = (float)factor};
    return factor == 1.0 ? IMG_OK : img_plan_statistic(b, &change);
}

int img_plan_saturation(img_builder *b, double factor) {
    const img_change change = {.apply = from_gray, .factor = (float)factor};
    return factor == 1.0 ? IMG_OK : img_plan_change(b, &change);
}

/* ---- The steps ---- */

typedef struct {
    img_range factor;
    int64_t mirror; /* of a factor f, f or 2 - f */
    double p;
} enhancement;

static const img_field enhancement_fields[] = {
    IMG_RANGE_FIELD(enhancement, factor, 0.0, 1e6),
    IMG_INTEGER_FIELD(enhancement, mirror, 0, 1),
    IMG_NUMBER_FIELD(enhancement, p, 0.0, 1.0),
    IMG_NO_FIELD,
};

static const char *check_enhancement(const void *params) {
    const enhancement *by = params;
    return by->mirror && by->factor.high > 2.0 ? "mirror needs factors of 0 to 2, so that 2 - factor is none below 0" : NULL;
}

static int is_fixed(const void *params) {
    const enhancement *by = params;
    return by->p == 1.0 && !by->mirror && by->factor.low == by->factor.high;
}

static int plan_by(int (*plan)(img_builder *, double), img_builder *b, const enhancement *by, uint64_t key) {
    if (!img_draw_whether(key, by->p))
        return IMG_OK;
    double factor = img_draw_range(key, 1, &by->factor);
    if (by->mirror && img_draw(key, 2) < 0.5)
        factor = 2.0 - factor;
    return plan(b, factor);
}

static int plan_brightness(img_builder *b, const void *params, uint64_t key) {
    return plan_by(img_plan_brightness, b, params, key);
}

static int plan_contrast(img_builder *b, const void *params, uint64_t key) {
    return plan_by(img_plan_contrast, b, params, key);
}

static int plan_saturation(img_builder *b, const void *params, uint64_t key) {
    return plan_by(img_plan_saturation, b, params, key);
}

#define ENHANCEMENT .check = check_enhancement, .draws = 1, .fixed = is_fixed

IMG_DEFINE_OP(brightness, IMG_POINT, enhancement, enhancement_fields, ENHANCEMENT, .plan = plan_brightness);
IMG_DEFINE_OP(contrast, IMG_STATISTIC, enhancement, enhancement_fields, ENHANCEMENT, .plan = plan_contrast);
IMG_DEFINE_OP(saturation, IMG_POINT, enhancement, enhancement_fields, ENHANCEMENT, .plan = plan_saturation);
