/* unsharp_mask: PIL's UnsharpMask, whose Gaussian blur is three box blurs along each axis, in PIL's own whole numbers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "image/program/base.h"
#include "image/program/draws.h"
#include "image/program/op.h"
#include "image/program/plan.h"

#define PASSES 3

/* A box that reaches `radius` whole pixels to each side, and takes a part of the next ones. Weights are 2^24ths. */
typedef struct {
    int64_t radius;
    uint32_t whole, part;
} box;

/* PIL's boxes for a Gaussian: Gwosdek, Grewenig, Bruhn, Weickert, "Theoretical foundations of Gaussian convolution by extended
 * box filtering", 2011. It reckons in float. */
static box box_of(float gaussian) {
    const float sigma2 = gaussian * gaussian / PASSES;
    const float length = (float)sqrt(12.0 * sigma2 + 1.0);
    const float l = (float)floor((length - 1.0) / 2.0);
    float a = (2 * l + 1) * (l * (l + 1) - 3 * sigma2);
    a /= 6 * (sigma2 - (l + 1) * (l + 1));
    const float radius = l + a;
    box made = {.radius = (int64_t)radius};
    made.whole = (uint32_t)((1 << 24) / (radius * 2 + 1));
    made.part = ((1 << 24) - (uint32_t)(made.radius * 2 + 1) * made.whole) / 2;
    return made;
}

static inline int64_t clamped(int64_t at, int64_t length) { return at < 0 ? 0 : at < length ? at : length - 1; }

/* One byte of each channel, or of each value of a row: sums of the box, moved on by one pixel. */
static inline uint8_t boxed(uint32_t sum, uint8_t before, uint8_t after, const box *by) {
    return (uint8_t)((sum * by->whole + (uint32_t)(before + after) * by->part + (1 << 23)) >> 24);
}

static void box_along(uint8_t *restrict out, const uint8_t *row, int64_t width, const box *by) {
    const int64_t radius = by->radius;
    uint32_t sums[4] = {0};
    for (int64_t k = -radius; k <= radius; k++)
        for (int c = 0; c < 4; c++)
            sums[c] += row[4 * clamped(k, width) + c];
    for (int64_t x = 0; x < width; x++) {
        const uint8_t *before = row + 4 * clamped(x - radius - 1, width), *after = row + 4 * clamped(x + radius + 1, width);
        const uint8_t *first = row + 4 * clamped(x - radius, width);
        for (int c = 0; c < 4; c++) {
            out[4 * x + c] = boxed(sums[c], before[c], after[c], by);
            sums[c] += (uint32_t)(after[c] - first[c]);
        }
    }
}

IMG_CLONES static void add_row(uint32_t *restrict sums, const uint8_t *row, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        sums[i] += row[i];
}

IMG_CLONES static void box_row(uint8_t *restrict out, uint32_t *restrict sums, const uint8_t *before, const uint8_t *first,
                               const uint8_t *after, int64_t count, const box *by) {
    const box of = *by;
    for (int64_t i = 0; i < count; i++) {
        out[i] = boxed(sums[i], before[i], after[i], &of);
        sums[i] += (uint32_t)(after[i] - first[i]);
    }
}

static void box_across(uint8_t *out, const uint8_t *in, int64_t height, int64_t count, const box *by, uint32_t *sums) {
    const int64_t radius = by->radius;
    memset(sums, 0, (size_t)count * sizeof *sums);
    for (int64_t k = -radius; k <= radius; k++)
        add_row(sums, in + clamped(k, height) * count, count);
    for (int64_t y = 0; y < height; y++)
        box_row(out + y * count, sums, in + clamped(y - radius - 1, height) * count, in + clamped(y - radius, height) * count,
                in + clamped(y + radius + 1, height) * count, count, by);
}

IMG_CLONES static void sharpen(uint8_t *restrict out, const uint8_t *in, int64_t count, int32_t percent, int32_t threshold) {
    for (int64_t i = 0; i < count; i++) {
        const int32_t apart = in[i] - out[i], sharper = in[i] + apart * percent / 100;
        const int32_t made = sharper < 0 ? 0 : sharper > 255 ? 255 : sharper;
        out[i] = (uint8_t)(abs(apart) > threshold ? made : in[i]);
    }
}

static void mask(const img_whole *whole, const uint8_t *in, int64_t height, int64_t width, uint8_t *out, uint8_t *work) {
    const int64_t count = 4 * width;
    const float radius = (float)whole->drawn[0];
    if (radius > 0.0f) {
        const box by = box_of(radius);
        uint32_t *sums = (uint32_t *)work;
        uint8_t *other = work + (size_t)count * sizeof *sums, *line = other + height * count;
        for (int64_t y = 0; y < height; y++) {
            box_along(out + y * count, in + y * count, width, &by);
            box_along(line, out + y * count, width, &by);
            box_along(out + y * count, line, width, &by);
        }
        box_across(other, out, height, count, &by, sums);
        box_across(out, other, height, count, &by, sums);
        box_across(other, out, height, count, &by, sums);
        memcpy(out, other, (size_t)(height * count));
    } else {
        memcpy(out, in, (size_t)(height * count));
    }
    sharpen(out, in, height * count, (int32_t)whole->drawn[1], (int32_t)whole->drawn[2]);
}

typedef struct {
    img_range radius, percent;
    int64_t threshold;
    double p;
} unsharp_mask;

static const img_field unsharp_mask_fields[] = {
    IMG_RANGE_FIELD(unsharp_mask, radius, 0.0, 1000.0),
    IMG_RANGE_FIELD(unsharp_mask, percent, 0, 100000),
    IMG_INTEGER_FIELD(unsharp_mask, threshold, 0, 255),
    IMG_NUMBER_FIELD(unsharp_mask, p, 0.0, 1.0),
    IMG_NO_FIELD,
};

static int unsharp_mask_fixed(const void *params) {
    const unsharp_mask *by = params;
    return by->p == 1.0 && by->radius.low == by->radius.high && by->percent.low == by->percent.high;
}

static int plan_unsharp_mask(img_builder *b, const void *params, uint64_t key) {
    const unsharp_mask *by = params;
    if (!img_draw_whether(key, by->p))
        return IMG_OK;
    const int64_t height = img_plan_height(b), width = img_plan_width(b);
    const img_whole whole = {.apply = mask, .out_height = height, .out_width = width,
                             .work_bytes = 4 * width * (height + 1 + (int64_t)sizeof(uint32_t)) + IMG_PAD,
                             .drawn = {img_draw_range(key, 1, &by->radius), (double)img_draw_whole(key, 2, &by->percent),
                                       (double)by->threshold}};
    return img_plan_whole(b, &whole, "unsharp_mask");
}

IMG_DEFINE_OP(unsharp_mask, IMG_PICTURE, unsharp_mask, unsharp_mask_fields, .draws = 1, .fixed = unsharp_mask_fixed,
              .plan = plan_unsharp_mask);
