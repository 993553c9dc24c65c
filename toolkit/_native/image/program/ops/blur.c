/* gaussian_blur: torchvision's kernel, separable, with reflected borders.
 *
 * Weights are whole 32768ths whose sum is exactly 32768; a kernel is symmetric, so two pixels are added before they are
 * weighed. Between and within the passes values are 64ths in 16 bits, and each product is rounded as pmulhrsw rounds: that is
 * what the compiler makes of `weighed`; all instruction sets give the same. Rows flow through a ring.
 */
#include <math.h>
#include <string.h>

#include "image/program/base.h"
#include "image/program/draws.h"
#include "image/program/op.h"
#include "image/program/plan.h"
#include "mirror.h"

#define MAX_RADIUS 127
#define FRACTION 6 /* bits */
#define TAPS 4     /* pairs of pixels that one loop weighs */
#define FEW 16     /* pixels to each side whose rounding errors don't matter */

/* ---- The kernel ---- */

/* Of a distance 0 .. radius; behind them zeros, so that loops may take TAPS at once. */
typedef struct {
    int64_t radius;
    int16_t weights[MAX_RADIUS + 1 + TAPS];
} kernel;

/* Fill in a kernel of at most so many pixels to each side; weights that round to zero are left out. With radius 0 the picture
 * stays as it is. Rounding errors go on to the next weight, from the outermost to the middle. */
static void make_kernel(kernel *to, int64_t radius, double sigma) {
    double exact[MAX_RADIUS + 1], sum = 0.0, carried = 0.0;
    for (int64_t k = radius; k >= 0; k--) {
        const double x = (double)k / sigma;
        exact[k] = exp(-0.5 * x * x);
        sum += k > 0 ? 2.0 * exact[k] : exact[k];
    }
    memset(to, 0, sizeof *to);
    int64_t left = 32768;
    for (int64_t k = radius; k > 0; k--) {
        const double wanted = exact[k] / sum * 32768.0 + carried;
        const double whole = floor(wanted + 0.5);
        carried = wanted - whole;
        to->weights[k] = (int16_t)whole;
        left -= 2 * (int64_t)whole;
        if (to->radius == 0 && whole > 0)
            to->radius = k;
    }
    to->weights[0] = (int16_t)(to->radius > 0 ? left : 0);
}

/* ---- One pass ---- */

/* Rows of values whose weighed sum is a row: `before` and `after` by their distance, which is 1 or more. */
typedef struct {
    const int16_t *middle, *before[MAX_RADIUS + TAPS], *after[MAX_RADIUS + TAPS];
} neighbours;

static inline int16_t weighed(int16_t value, int16_t weight) {
    return (int16_t)((((int32_t)value * weight >> 14) + 1) >> 1);
}

/* Add TAPS pairs from a distance of k on. */
IMG_CLONES static void add_taps(int16_t *restrict sums, const neighbours *of, const int16_t *weights, int64_t k, int64_t count) {
    const int16_t *b0 = of->before[k], *b1 = of->before[k + 1], *b2 = of->before[k + 2], *b3 = of->before[k + 3];
    const int16_t *a0 = of->after[k], *a1 = of->after[k + 1], *a2 = of->after[k + 2], *a3 = of->after[k + 3];
    const int16_t w0 = weights[k], w1 = weights[k + 1], w2 = weights[k + 2], w3 = weights[k + 3];
    for (int64_t i = 0; i < count; i++) {
        const int16_t first = (int16_t)(weighed((int16_t)(b0[i] + a0[i]), w0) + weighed((int16_t)(b1[i] + a1[i]), w1));
        const int16_t second = (int16_t)(weighed((int16_t)(b2[i] + a2[i]), w2) + weighed((int16_t)(b3[i] + a3[i]), w3));
        sums[i] = (int16_t)(sums[i] + (int16_t)(first + second));
    }
}

IMG_CLONES static void weigh_middle(int16_t *restrict sums, const int16_t *row, int16_t weight, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        sums[i] = weighed(row[i], weight);
}

#define BLOCK 256 /* values that are summed in 32 bits at once */

/* The same for many taps, whose rounding errors would add up: they are rounded once. */
IMG_CLONES static void weigh_many(int16_t *restrict sums, const neighbours *of, const kernel *by, int64_t count) {
    for (int64_t at = 0; at < count; at += BLOCK) {
        const int64_t size = count - at < BLOCK ? count - at : BLOCK;
        int32_t exact[BLOCK];
        for (int64_t i = 0; i < size; i++)
            exact[i] = of->middle[at + i] * by->weights[0] + (1 << 14);
        for (int64_t k = 1; k <= by->radius; k++) {
            const int16_t *before = of->before[k] + at, *after = of->after[k] + at;
            const int32_t weight = by->weights[k];
            for (int64_t i = 0; i < size; i++)
                exact[i] += (before[i] + after[i]) * weight;
        }
        for (int64_t i = 0; i < size; i++)
            sums[at + i] = (int16_t)(exact[i] >> 15);
    }
}

static void weigh(int16_t *sums, const neighbours *of, const kernel *by, int64_t count) {
    if (by->radius > FEW) {
        weigh_many(sums, of, by, count);
        return;
    }
    weigh_middle(sums, of->middle, by->weights[0], count);
    for (int64_t k = 1; k <= by->radius; k += TAPS)
        add_taps(sums, of, by->weights, k, count);
}

/* ---- The picture ---- */

static inline int64_t values_in(int64_t bytes) { return (bytes + IMG_PAD - 1) / IMG_PAD * IMG_PAD; }

static inline int64_t rows_in(int64_t height, int64_t radius) { return height < 2 * radius + 1 ? height : 2 * radius + 1; }

IMG_CLONES static void to_values(int16_t *restrict values, const uint8_t *row, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        values[i] = (int16_t)(row[i] << FRACTION);
}

IMG_CLONES static void to_bytes(uint8_t *restrict out, const int16_t *sums, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        const int16_t value = (int16_t)((sums[i] + (1 << (FRACTION - 1))) >> FRACTION);
        out[i] = (uint8_t)(value > 255 ? 255 : value);
    }
}

/* Values of a row, with `radius` pixels more on either side. */
static void to_mirrored_row(int16_t *row, const uint8_t *in, int64_t width, int64_t radius) {
    to_values(row, in, 4 * width);
    for (int64_t k = 1; k <= radius; k++) {
        memcpy(row - 4 * k, row + 4 * img_mirrored(-k, width), 8);
        memcpy(row + 4 * (width - 1 + k), row + 4 * img_mirrored(width - 1 + k, width), 8);
    }
}

static void blur(const img_whole *whole, const uint8_t *in, int64_t height, int64_t width, uint8_t *out, uint8_t *work) {
    kernel by;
    make_kernel(&by, (int64_t)whole->drawn[0], whole->drawn[1]);
    const int64_t radius = by.radius, count = 4 * width, stride = values_in(count), rows = rows_in(height, radius);
    int16_t *ring = (int16_t *)work, *sums = ring + rows * stride, *row = sums + stride + 4 * radius;
    neighbours along, across;
    for (int64_t k = 0; k < radius + TAPS; k++) { /* those behind the last one weigh nothing */
        const int64_t distance = k <= radius ? k : 0;
        along.before[k] = row - 4 * distance;
        along.after[k] = row + 4 * distance;
    }
    along.middle = row;
    int64_t filled = 0;
    for (int64_t y = 0; y < height; y++) {
        for (; filled < height && filled <= y + radius; filled++) {
            to_mirrored_row(row, in + filled * count, width, radius);
            weigh(ring + filled % rows * stride, &along, &by, count);
        }
        for (int64_t k = 0; k < radius + TAPS; k++) {
            const int64_t distance = k <= radius ? k : 0;
            across.before[k] = ring + img_mirrored(y - distance, height) % rows * stride;
            across.after[k] = ring + img_mirrored(y + distance, height) % rows * stride;
        }
        across.middle = across.before[0];
        weigh(sums, &across, &by, count);
        to_bytes(out + y * count, sums, count);
    }
}

typedef struct {
    int64_t kernel_size; /* 0: by sigma */
    img_range sigma;
    double p;
} gaussian_blur;

static const img_field gaussian_blur_fields[] = {
    IMG_INTEGER_FIELD(gaussian_blur, kernel_size, 0, 2 * MAX_RADIUS + 1),
    IMG_RANGE_FIELD(gaussian_blur, sigma, 1e-6, 1e6),
    IMG_NUMBER_FIELD(gaussian_blur, p, 0.0, 1.0),
    IMG_NO_FIELD,
};

static const char *check_gaussian_blur(const void *params) {
    const gaussian_blur *by = params;
    if (by->kernel_size == 0 && by->sigma.high > 31.0)
        return "sigma is 31 at most where it says the kernel's size";
    return by->kernel_size > 0 && by->kernel_size % 2 == 0 ? "kernel_size must be odd" : NULL;
}

static int gaussian_blur_fixed(const void *params) {
    const gaussian_blur *by = params;
    return by->p == 1.0 && by->sigma.low == by->sigma.high;
}

static int plan_gaussian_blur(img_builder *b, const void *params, uint64_t key) {
    const gaussian_blur *by = params;
    if (!img_draw_whether(key, by->p))
        return IMG_OK;
    const double sigma = img_draw_range(key, 1, &by->sigma);
    const int64_t radius = by->kernel_size > 0 ? by->kernel_size / 2 : (int64_t)(4.0 * sigma + 0.5);
    kernel made;
    make_kernel(&made, radius, sigma);
    if (made.radius == 0)
        return IMG_OK;
    const int64_t height = img_plan_height(b), width = img_plan_width(b), stride = values_in(4 * width);
    const int64_t values = (rows_in(height, made.radius) + 2) * stride + 8 * made.radius + IMG_PAD;
    const img_whole whole = {.apply = blur, .out_height = height, .out_width = width,
                             .work_bytes = values * (int64_t)sizeof(int16_t), .drawn = {(double)radius, sigma}};
    return img_plan_whole(b, &whole, "gaussian_blur");
}

IMG_DEFINE_OP(gaussian_blur, IMG_PICTURE, gaussian_blur, gaussian_blur_fields, .draws = 1, .fixed = gaussian_blur_fixed,
              .check = check_gaussian_blur, .plan = plan_gaussian_blur);
