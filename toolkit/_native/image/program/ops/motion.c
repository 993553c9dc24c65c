/* motion_blur: pixels along a line, each taken bilinearly, borders mirrored.
 *
 * What is taken of whom is a small kernel of whole 32768ths. Values are 128ths in 16 bits, and each product is rounded as
 * pmulhrsw rounds.
 */
#include <math.h>
#include <string.h>

#include "image/program/base.h"
#include "image/program/draws.h"
#include "image/program/op.h"
#include "image/program/plan.h"
#include "mirror.h"

#define MAX_RADIUS 31
#define SIDE (2 * MAX_RADIUS + 3) /* a pixel more on each side, which weighs nothing but by an error of rounding */
#define FRACTION 7                /* bits */
#define TAPS 4                    /* pixels that one loop weighs */

typedef struct {
    int64_t count; /* with zeros up to a multiple of TAPS */
    int16_t weights[4 * SIDE], down[4 * SIDE], right[4 * SIDE];
} line;

/* Spread the pixels of a line over those around each; rounding errors go on to the next. */
static void make_line(line *to, int64_t radius, double degrees, double direction) {
    static const double turn = 3.14159265358979323846 / 180.0;
    const double along_x = cos(degrees * turn), along_y = -sin(degrees * turn), first = (1.0 - direction) / 2.0;
    const int64_t size = 2 * radius + 1, middle = MAX_RADIUS + 1;
    double exact[SIDE][SIDE] = {{0}}, carried = 0.0;
    for (int64_t i = 0; i < size; i++) {
        const double share = first + (1.0 - 2.0 * first) * (double)i / (double)(size - 1);
        const double weight = share * 2.0 / (double)size, x = (double)(i - radius) * along_x, y = (double)(i - radius) * along_y;
        const double left = floor(x), top = floor(y), right = x - left, down = y - top;
        double *place = &exact[middle + (int64_t)top][middle + (int64_t)left];
        place[0] += weight * (1.0 - down) * (1.0 - right);
        place[1] += weight * (1.0 - down) * right;
        if (down > 0.0) {
            place[SIDE] += weight * down * (1.0 - right);
            place[SIDE + 1] += weight * down * right;
        }
    }
    memset(to, 0, sizeof *to);
    for (int64_t y = -radius; y <= radius; y++)
        for (int64_t x = -radius; x <= radius; x++) {
            const double wanted = exact[middle + y][middle + x] * 32768.0 + carried, whole = floor(wanted + 0.5);
            carried = wanted - whole;
            if (whole > 0.0) {
                to->weights[to->count] = (int16_t)whole;
                to->down[to->count] = (int16_t)y;
                to->right[to->count++] = (int16_t)x;
            }
        }
    while (to->count % TAPS > 0)
        to->count++;
}

static inline int16_t weighed(int16_t value, int16_t weight) {
    return (int16_t)((((int32_t)value * weight >> 14) + 1) >> 1);
}

IMG_CLONES static void add_taps(int16_t *restrict sums, const int16_t *const *from, const int16_t *weights, int64_t count) {
    const int16_t *p0 = from[0], *p1 = from[1], *p2 = from[2], *p3 = from[3];
    const int16_t w0 = weights[0], w1 = weights[1], w2 = weights[2], w3 = weights[3];
    for (int64_t i = 0; i < count; i++) {
        const int16_t first = (int16_t)(weighed(p0[i], w0) + weighed(p1[i], w1));
        const int16_t second = (int16_t)(weighed(p2[i], w2) + weighed(p3[i], w3));
        sums[i] = (int16_t)(sums[i] + (int16_t)(first + second));
    }
}

IMG_CLONES static void to_values(int16_t *restrict values, const uint8_t *row, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        values[i] = (int16_t)(row[i] << FRACTION);
}

IMG_CLONES static void to_bytes(uint8_t *restrict out, const int16_t *sums, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        const uint16_t value = (uint16_t)((uint16_t)sums[i] + (1 << (FRACTION - 1))) >> FRACTION;
        out[i] = (uint8_t)(value > 255 ? 255 : value);
    }
}

static inline int64_t rows_in(int64_t height, int64_t radius) { return height < 2 * radius + 1 ? height : 2 * radius + 1; }

static void blur(const img_whole *whole, const uint8_t *in, int64_t height, int64_t width, uint8_t *out, uint8_t *work) {
    line by;
    const int64_t radius = (int64_t)whole->drawn[0], rows = rows_in(height, radius), count = 4 * width;
    const int64_t stride = count + 8 * radius;
    make_line(&by, radius, whole->drawn[1], whole->drawn[2]);
    int16_t *ring = (int16_t *)work, *sums = ring + rows * stride;
    int64_t filled = 0;
    for (int64_t y = 0; y < height; y++) {
        for (; filled < height && filled <= y + radius; filled++) {
            int16_t *row = ring + filled % rows * stride + 4 * radius;
            to_values(row, in + filled * count, count);
            for (int64_t k = 1; k <= radius; k++) {
                memcpy(row - 4 * k, row + 4 * img_mirrored(-k, width), 8);
                memcpy(row + 4 * (width - 1 + k), row + 4 * img_mirrored(width - 1 + k, width), 8);
            }
        }
        memset(sums, 0, (size_t)count * sizeof *sums);
        for (int64_t k = 0; k < by.count; k += TAPS) {
            const int16_t *from[TAPS];
            for (int64_t t = 0; t < TAPS; t++)
                from[t] = ring + img_mirrored(y + by.down[k + t], height) % rows * stride + 4 * (radius + by.right[k + t]);
            add_taps(sums, from, by.weights + k, count);
        }
        to_bytes(out + y * count, sums, count);
    }
}

typedef struct {
    int64_t kernel_size;
    img_range angle, direction;
    double p;
} motion_blur;

static const img_field motion_blur_fields[] = {
    IMG_INTEGER_FIELD(motion_blur, kernel_size, 3, 2 * MAX_RADIUS + 1),
    IMG_RANGE_FIELD(motion_blur, angle, -3600.0, 3600.0),
    IMG_RANGE_FIELD(motion_blur, direction, -1.0, 1.0),
    IMG_NUMBER_FIELD(motion_blur, p, 0.0, 1.0),
    IMG_NO_FIELD,
};

static const char *check_motion_blur(const void *params) {
    return ((const motion_blur *)params)->kernel_size % 2 == 0 ? "kernel_size must be odd" : NULL;
}

static int motion_blur_fixed(const void *params) {
    const motion_blur *by = params;
    return by->p == 1.0 && by->angle.low == by->angle.high && by->direction.low == by->direction.high;
}

static int plan_motion_blur(img_builder *b, const void *params, uint64_t key) {
    const motion_blur *by = params;
    if (!img_draw_whether(key, by->p))
        return IMG_OK;
    const int64_t radius = by->kernel_size / 2, height = img_plan_height(b), width = img_plan_width(b);
    const int64_t values = rows_in(height, radius) * (4 * width + 8 * radius) + 4 * width + IMG_PAD;
    const img_whole whole = {
        .apply = blur, .out_height = height, .out_width = width, .work_bytes = values * (int64_t)sizeof(int16_t),
        .drawn = {(double)radius, img_draw_range(key, 1, &by->angle), img_draw_range(key, 2, &by->direction)}};
    return img_plan_whole(b, &whole, "motion_blur");
}

IMG_DEFINE_OP(motion_blur, IMG_PICTURE, motion_blur, motion_blur_fields, .draws = 1, .fixed = motion_blur_fixed,
              .check = check_motion_blur, .plan = plan_motion_blur);
