/* Samples of a batch, normalised channel by channel. */
#ifndef TOOLKIT_BATCH_NORMALIZE_H
#define TOOLKIT_BATCH_NORMALIZE_H

#include <stdint.h>

#define NORMALIZE_CHANNELS 4

typedef enum { NORMALIZE_F16, NORMALIZE_BF16, NORMALIZE_F32, NORMALIZE_F64, NORMALIZE_DTYPES } normalize_dtype;

/* Values lie as runs of `inner` values of one channel, channel after channel, again and again. */
typedef struct {
    int64_t channels, inner; /* at most NORMALIZE_CHANNELS, and at least 1 */
    float scale[NORMALIZE_CHANNELS], bias[NORMALIZE_CHANNELS]; /* of pixels */
    double mean[NORMALIZE_CHANNELS], std[NORMALIZE_CHANNELS]; /* of floats */
} normalize_plan;

int64_t normalize_width(int dtype); /* bytes of a value */

/* out = pixel * scale + bias in float32, of `count` values: that is how a slot's normalize computes it. */
void normalize_pixels(const normalize_plan *plan, const uint8_t *pixels, float *out, int64_t count);

/* value = (value - mean) / std, in place, in float32 but for float64. */
void normalize_floats(const normalize_plan *plan, void *values, int64_t count, int dtype);

#endif
