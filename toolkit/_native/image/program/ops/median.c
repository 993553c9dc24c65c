/* median_blur: PIL's MedianFilter: the median of a square, borders repeated.
 *
 * A median is found bit by bit, from the highest: a bit is set while no more than half of the pixels lie below. That takes as
 * many comparisons for each block of bytes whatever they are, without a branch.
 */
#include <string.h>

#include "image/program/base.h"
#include "image/program/draws.h"
#include "image/program/op.h"
#include "image/program/plan.h"

#define MAX_RADIUS 7 /* its 225 pixels are counted in a byte */
#define BLOCK 64

typedef uint8_t bytes __attribute__((vector_size(BLOCK)));

/* A row of medians; `row` is the first of the square, at its first pixel, with BLOCK readable bytes behind the last row. */
IMG_CLONES static void median_row(uint8_t *out, const uint8_t *row, int64_t stride, int64_t size, int64_t count) {
    const uint8_t half = (uint8_t)(size * size / 2);
    for (int64_t at = 0; at < count; at += BLOCK) {
        bytes found = {0};
        for (int bit = 128; bit > 0; bit >>= 1) {
            const bytes tried = found | (uint8_t)bit;
            bytes below = {0};
            for (int64_t y = 0; y < size; y++)
                for (int64_t x = 0; x < size; x++) {
                    bytes here;
                    memcpy(&here, row + y * stride + 4 * x + at, BLOCK);
                    below -= (bytes)(here < tried);
                }
            found |= (bytes)(below <= half) & (uint8_t)bit;
        }
        memcpy(out + at, &found, (size_t)(count - at < BLOCK ? count - at : BLOCK));
    }
}

static void repeat_edges(uint8_t *row, const uint8_t *in, int64_t width, int64_t radius) {
    memcpy(row + 4 * radius, in, (size_t)(4 * width));
    for (int64_t k = 0; k < radius; k++) {
        memcpy(row + 4 * k, in, 4);
        memcpy(row + 4 * (radius + width + k), in + 4 * (width - 1), 4);
    }
}

static void median(const img_whole *whole, const uint8_t *in, int64_t height, int64_t width, uint8_t *out, uint8_t *work) {
    const int64_t radius = (int64_t)whole->drawn[0], stride = 4 * (width + 2 * radius);
    for (int64_t y = 0; y < height + 2 * radius; y++) {
        const int64_t from = y < radius ? 0 : y - radius < height ? y - radius : height - 1;
        repeat_edges(work + y * stride, in + 4 * from * width, width, radius);
    }
    for (int64_t y = 0; y < height; y++)
        median_row(out + 4 * y * width, work + y * stride, stride, 2 * radius + 1, 4 * width);
}

typedef struct {
    img_range radius;
    double p;
} median_blur;

static const img_field median_blur_fields[] = {
    IMG_RANGE_FIELD(median_blur, radius, 1, MAX_RADIUS),
    IMG_NUMBER_FIELD(median_blur, p, 0.0, 1.0),
    IMG_NO_FIELD,
};

static int median_blur_fixed(const void *params) {
    const median_blur *by = params;
    return by->p == 1.0 && by->radius.low == by->radius.high;
}

static int plan_median_blur(img_builder *b, const void *params, uint64_t key) {
    const median_blur *by = params;
    if (!img_draw_whether(key, by->p))
        return IMG_OK;
    const int64_t radius = img_draw_whole(key, 1, &by->radius), height = img_plan_height(b), width = img_plan_width(b);
    const img_whole whole = {.apply = median, .out_height = height, .out_width = width,
                             .work_bytes = 4 * (width + 2 * radius) * (height + 2 * radius) + BLOCK,
                             .drawn = {(double)radius}};
    return img_plan_whole(b, &whole, "median_blur");
}

IMG_DEFINE_OP(median_blur, IMG_PICTURE, median_blur, median_blur_fields, .draws = 1, .fixed = median_blur_fixed,
              .plan = plan_median_blur);
