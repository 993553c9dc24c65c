/* Two samples mixed with each other, in place. */
#ifndef TOOLKIT_BATCH_MIX_H
#define TOOLKIT_BATCH_MIX_H

#include <stdint.h>

typedef enum { MIX_U8, MIX_F16, MIX_BF16, MIX_F32, MIX_F64, MIX_DTYPES } mix_dtype;

int64_t mix_width(int dtype); /* bytes of a value */

/* first = first * share + second * rest, and second = second * share + first * rest, of `count` values; in float32 but
 * for float64, without fused operations. uint8 is rounded to nearest, halves to even. */
void mix_blend(void *first, void *second, int64_t count, int dtype, float share, float rest);

/* Swap `rows` runs of `bytes`, each `stride` behind the one before, in each of `planes`, which lie `plane` apart. */
void mix_swap(uint8_t *first, uint8_t *second, int64_t planes, int64_t plane, int64_t rows, int64_t stride,
              int64_t bytes);

typedef struct {
    int64_t planes, height, width, channels; /* channels of a pixel side by side */
    int dtype;
} mix_picture;

/* Put the second picture, made as small as `box` (top, bottom, left, right; not empty), there into the first, and the
 * first into the second. Returns 0 without memory. */
int mix_paste(const mix_picture *of, uint8_t *first, uint8_t *second, const int64_t *box);

#endif
