/* sharpness: PIL's ImageEnhance.Sharpness, which blends a picture with itself smoothed by ImageFilter.SMOOTH. */
#include "sharpness.h"

#include <string.h>

#include "image/program/base.h"
#include "image/program/draws.h"
#include "image/program/op.h"

#define BLOCK 1024 /* bytes of a row that are made at once, in the first cache */

/* Image.blend, in its own floats. */
static inline uint8_t blend(int start, int pixel, float factor) {
    float value = (float)start + factor * (float)(pixel - start);
    value = value < 0.0f ? 0.0f : value > 255.0f ? 255.0f : value;
    return (uint8_t)(int)value;
}

/* The middle of a row: bytes 4 .. bytes - 4. SMOOTH weighs the pixel 5 and its eight neighbours 1, and rounds a thirteenth;
 * a half doesn't occur, and 5042 / 2^16 is 1/13 for all sums. `keep` is what stays of the pixel: alpha or nothing. */
IMG_CLONES static void sharpen_row(uint8_t *restrict out, const uint8_t *above, const uint8_t *row, const uint8_t *below,
                                   int64_t bytes, float factor, uint32_t keep) {
    uint16_t columns[BLOCK + 8];
    uint8_t made[BLOCK];
    for (int64_t at = 4; at < bytes - 4; at += BLOCK) {
        const int64_t left = bytes - 4 - at, size = left < BLOCK ? left : BLOCK;
        for (int64_t i = 0; i < size + 8; i++) {
            const int64_t k = at - 4 + i;
            columns[i] = (uint16_t)(above[k] + row[k] + below[k]);
        }
        for (int64_t i = 0; i < size; i++) {
            const int pixel = row[at + i];
            const uint16_t sum = (uint16_t)(columns[i] + columns[i + 4] + columns[i + 8] + 4 * pixel + 6);
            const uint16_t smooth = (uint16_t)(((uint32_t)sum * 5042) >> 16);
            made[i] = blend(smooth, pixel, factor);
        }
        for (int64_t i = 0; i < size; i += 4) {
            uint32_t pixel, changed;
            memcpy(&pixel, row + at + i, 4);
            memcpy(&changed, made + i, 4);
            changed = (changed & ~keep) | (pixel & keep);
            memcpy(out + at + i, &changed, 4);
        }
    }
}

/* PIL copies the border, and all of a picture that has nothing else. */
static void sharpen(const img_whole *whole, const uint8_t *in, int64_t height, int64_t width, uint8_t *out, uint8_t *work) {
    const int64_t bytes = 4 * width;
    if (height < 3 || width < 3) {
        memcpy(out, in, (size_t)(height * bytes));
        return;
    }
    const uint8_t alpha[4] = {0, 0, 0, whole->drawn[1] != 0 ? 255 : 0};
    uint32_t keep;
    memcpy(&keep, alpha, 4);
    memcpy(out, in, (size_t)bytes);
    for (int64_t y = 1; y < height - 1; y++) {
        const uint8_t *row = in + y * bytes;
        uint8_t *made = out + y * bytes;
        memcpy(made, row, 4);
        memcpy(made + bytes - 4, row + bytes - 4, 4);
        sharpen_row(made, row - bytes, row, row + bytes, bytes, (float)whole->drawn[0], keep);
    }
    memcpy(out + (height - 1) * bytes, in + (height - 1) * bytes, (size_t)bytes);
}

int img_plan_sharpness(img_builder *b, double factor) {
    if (factor == 1.0)
        return IMG_OK;
    const img_whole whole = {.apply = sharpen, .out_height = img_plan_height(b), .out_width = img_plan_width(b),
                             .drawn = {factor, b->alpha}};
    return img_plan_whole(b, &whole, "sharpness");
}

typedef struct {
    img_range factor;
    int64_t mirror; /* of a factor f, f or 2 - f */
    double p;
} sharpness;

static const img_field sharpness_fields[] = {
    IMG_RANGE_FIELD(sharpness, factor, 0.0, 1e6),
    IMG_INTEGER_FIELD(sharpness, mirror, 0, 1),
    IMG_NUMBER_FIELD(sharpness, p, 0.0, 1.0),
    IMG_NO_FIELD,
};

static const char *check_sharpness(const void *params) {
    const sharpness *by = params;
    return by->mirror && by->factor.high > 2.0 ? "mirror needs factors of 0 to 2, so that 2 - factor is none below 0" : NULL;
}

static int sharpness_fixed(const void *params) {
    const sharpness *by = params;
    return by->p == 1.0 && by->factor.low == by->factor.high && !by->mirror;
}

static int plan_sharpness(img_builder *b, const void *params, uint64_t key) {
    const sharpness *by = params;
    if (!img_draw_whether(key, by->p))
        return IMG_OK;
    double factor = img_draw_range(key, 1, &by->factor);
    if (by->mirror && img_draw(key, 2) < 0.5)
        factor = 2.0 - factor;
    return img_plan_sharpness(b, factor);
}

IMG_DEFINE_OP(sharpness, IMG_PICTURE, sharpness, sharpness_fields, .draws = 1, .fixed = sharpness_fixed,
              .check = check_sharpness, .plan = plan_sharpness);
