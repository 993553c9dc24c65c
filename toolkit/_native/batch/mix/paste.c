/* A partner's picture, made smaller and pasted: a triangle filter over what an output pixel covers, as Pillow's BILINEAR,
 * in float32. Rows first, for they are many values side by side. */
#include <stdlib.h>
#include <string.h>

#include "image/program/base.h"
#include "image/program/half.h"
#include "mix.h"

/* Output i is the sum of weights[i * taps + k] * input[start[i] + k]. */
typedef struct {
    int64_t taps, *start, *count;
    float *weights;
} reduction;

static int make_reduction(reduction *made, int64_t in, int64_t out) {
    const double scale = (double)in / (double)out;
    made->taps = (int64_t)(2 * scale) + 3;
    made->start = malloc((size_t)out * sizeof(int64_t));
    made->count = malloc((size_t)out * sizeof(int64_t));
    made->weights = malloc((size_t)(out * made->taps) * sizeof(float));
    if (!made->start || !made->count || !made->weights)
        return 0;
    for (int64_t i = 0; i < out; i++) {
        const double middle = ((double)i + 0.5) * scale;
        int64_t low = (int64_t)(middle - scale + 0.5), high = (int64_t)(middle + scale + 0.5);
        double sum = 0;
        low = low < 0 ? 0 : low;
        high = high > in ? in : high;
        for (int pass = 0; pass < 2; pass++)
            for (int64_t k = low; k < high; k++) {
                const double away = ((double)k - middle + 0.5) / scale, weight = away < 0 ? 1 + away : 1 - away;
                if (pass)
                    made->weights[i * made->taps + k - low] = (float)((weight > 0 ? weight : 0) / sum);
                else
                    sum += weight > 0 ? weight : 0;
            }
        made->start[i] = low;
        made->count[i] = high - low;
    }
    return 1;
}

static void free_reduction(reduction *made) {
    free(made->start);
    free(made->count);
    free(made->weights);
}

#define SAME(v) (v)
#define TO_F32(v) ((float)(v))
#define TO_U8(v) ((uint8_t)((v) < 0 ? 0 : (v) > 255 ? 255 : (v) + 0.5f))

#define ROWS(name, type, load, store)                                                                          \
    IMG_CLONES static void add_##name(float *sums, const void *row, int64_t count, float weight) {             \
        const type *values = row;                                                                              \
        for (int64_t i = 0; i < count; i++)                                                                    \
            sums[i] += weight * load(values[i]);                                                               \
    }                                                                                                          \
    IMG_CLONES static void store_##name(void *row, const float *values, int64_t count) {                       \
        type *out = row;                                                                                       \
        for (int64_t i = 0; i < count; i++)                                                                    \
            out[i] = store(values[i]);                                                                         \
    }

ROWS(u8, uint8_t, TO_F32, TO_U8)
ROWS(f16, uint16_t, from_f16, to_f16)
ROWS(bf16, uint16_t, from_bf16, to_bf16)
ROWS(f32, float, SAME, SAME)
ROWS(f64, double, TO_F32, SAME)

typedef void adder(float *sums, const void *row, int64_t count, float weight);
typedef void storer(void *row, const float *values, int64_t count);
static adder *const adders[MIX_DTYPES] = {add_u8, add_f16, add_bf16, add_f32, add_f64};
static storer *const storers[MIX_DTYPES] = {store_u8, store_f16, store_bf16, store_f32, store_f64};

/* Make `of` smaller, into `out`: planes of rows x columns pixels without gaps. */
static void reduce(const mix_picture *of, const uint8_t *in, uint8_t *out, int64_t rows, int64_t columns,
                   const reduction *down, const reduction *across, float *sums, float *line) {
    const int64_t item = mix_width(of->dtype), channels = of->channels, wide = of->width * channels;
    for (int64_t p = 0; p < of->planes; p++)
        for (int64_t j = 0; j < rows; j++) {
            memset(sums, 0, (size_t)wide * sizeof(float));
            for (int64_t k = 0; k < down->count[j]; k++)
                adders[of->dtype](sums, in + ((p * of->height + down->start[j] + k) * wide) * item, wide,
                                  down->weights[j * down->taps + k]);
            for (int64_t i = 0; i < columns; i++)
                for (int64_t c = 0; c < channels; c++) {
                    float sum = 0;
                    for (int64_t k = 0; k < across->count[i]; k++)
                        sum += across->weights[i * across->taps + k] * sums[(across->start[i] + k) * channels + c];
                    line[i * channels + c] = sum;
                }
            storers[of->dtype](out + (p * rows + j) * columns * channels * item, line, columns * channels);
        }
}

static void put(const mix_picture *of, uint8_t *to, const uint8_t *patch, const int64_t *box) {
    const int64_t pixel = of->channels * mix_width(of->dtype), run = (box[3] - box[2]) * pixel, rows = box[1] - box[0];
    for (int64_t p = 0; p < of->planes; p++)
        for (int64_t j = 0; j < rows; j++)
            memcpy(to + ((p * of->height + box[0] + j) * of->width + box[2]) * pixel, patch + (p * rows + j) * run,
                   (size_t)run);
}

int mix_paste(const mix_picture *of, uint8_t *first, uint8_t *second, const int64_t *box) {
    const int64_t rows = box[1] - box[0], columns = box[3] - box[2];
    const size_t size = (size_t)(of->planes * rows * columns * of->channels * mix_width(of->dtype));
    reduction down = {0}, across = {0};
    uint8_t *patches = malloc(2 * size);
    float *sums = malloc((size_t)(2 * of->width * of->channels) * sizeof(float));
    const int made = patches && sums && make_reduction(&down, of->height, rows) &&
                     make_reduction(&across, of->width, columns);
    if (made) {
        float *line = sums + of->width * of->channels;
        reduce(of, second, patches, rows, columns, &down, &across, sums, line);
        reduce(of, first, patches + size, rows, columns, &down, &across, sums, line);
        put(of, first, patches, box);
        put(of, second, patches + size, box);
    }
    free_reduction(&down);
    free_reduction(&across);
    free(patches);
    free(sums);
    return made;
}
