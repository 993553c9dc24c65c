/* Normalises values with what stands for their channels side by side, as the values do: so compilers make vectors of
 * it whether channels are planes or neighbours. */
#include "normalize.h"

#include "image/program/base.h"
#include "image/program/half.h"

#define PATTERN 1024 /* values of it */

static const int64_t widths[NORMALIZE_DTYPES] = {2, 2, 4, 8};

int64_t normalize_width(int dtype) { return widths[dtype]; }

/* How far a pattern goes that fits the values from the start of a channel on, and how many values it is for. */
typedef struct {
    int64_t length, covered, step; /* channels that it steps on */
} stretch;

static stretch plan_stretch(const normalize_plan *plan) {
    const int64_t turn = plan->channels * plan->inner;
    if (turn <= PATTERN)
        return (stretch){.length = PATTERN / turn * turn, .covered = PATTERN / turn * turn, .step = 0};
    return (stretch){.length = PATTERN, .covered = plan->inner, .step = 1};
}

/* Which channel value i of the pattern has, if the first value has `channel`. */
static inline int64_t channel_at(const normalize_plan *plan, stretch of, int64_t channel, int64_t i) {
    return of.step ? channel : i / plan->inner % plan->channels;
}

/* Fill two patterns whenever the channel changes, and call `body` with the values they are for: `at` and `now`. */
#define WALK(real, one, other, body)                                                                           \
    const stretch of = plan_stretch(plan);                                                                     \
    real first[PATTERN], second[PATTERN];                                                                      \
    int64_t filled = -1, channel = 0;                                                                          \
    for (int64_t start = 0; start < count; start += of.covered, channel = (channel + of.step) % plan->channels) { \
        const int64_t stop = start + of.covered < count ? start + of.covered : count;                          \
        if (filled != channel)                                                                                 \
            for (int64_t i = 0; i < of.length; i++) {                                                          \
                first[i] = (real)plan->one[channel_at(plan, of, channel, i)];                                  \
                second[i] = (real)plan->other[channel_at(plan, of, channel, i)];                               \
            }                                                                                                  \
        filled = channel;                                                                                      \
        for (int64_t at = start; at < stop; at += of.length) {                                                 \
            const int64_t now = stop - at < of.length ? stop - at : of.length;                                 \
            body;                                                                                              \
        }                                                                                                      \
    }

IMG_CLONES static void scale(const uint8_t *restrict pixels, float *restrict out, int64_t count,
                             const float *restrict scales, const float *restrict biases) {
    for (int64_t i = 0; i < count; i++)
        out[i] = (float)pixels[i] * scales[i] + biases[i];
}

void normalize_pixels(const normalize_plan *plan, const uint8_t *pixels, float *out, int64_t count) {
    WALK(float, scale, bias, scale(pixels + at, out + at, now, first, second))
}

#define SAME(v) (v)

#define FLOATS(name, type, real, load, store)                                                                  \
    IMG_CLONES static void shift_##name(type *restrict values, int64_t count, const real *restrict means,      \
                                        const real *restrict stds) {                                           \
        for (int64_t i = 0; i < count; i++)                                                                    \
            values[i] = store((load(values[i]) - means[i]) / stds[i]);                                         \
    }                                                                                                          \
    static void walk_##name(const normalize_plan *plan, type *values, int64_t count) {                         \
        WALK(real, mean, std, shift_##name(values + at, now, first, second))                                   \
    }

FLOATS(f16, uint16_t, float, from_f16, to_f16)
FLOATS(bf16, uint16_t, float, from_bf16, to_bf16)
FLOATS(f32, float, float, SAME, SAME)
FLOATS(f64, double, double, SAME, SAME)

void normalize_floats(const normalize_plan *plan, void *values, int64_t count, int dtype) {
    switch ((normalize_dtype)dtype) {
    case NORMALIZE_F16:
        walk_f16(plan, values, count);
        break;
    case NORMALIZE_BF16:
        walk_bf16(plan, values, count);
        break;
    case NORMALIZE_F32:
        walk_f32(plan, values, count);
        break;
    case NORMALIZE_F64:
        walk_f64(plan, values, count);
        break;
    case NORMALIZE_DTYPES:
        break;
    }
}
