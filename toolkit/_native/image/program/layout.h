/* Writes finished rows into a batch: layouts and dtypes. */
#ifndef TOOLKIT_IMAGE_LAYOUT_H
#define TOOLKIT_IMAGE_LAYOUT_H

#include <stdint.h>

#include "kernels.h"

typedef enum {
    IMG_U8, IMG_I16, IMG_U16, IMG_I32, IMG_U32, IMG_I64, IMG_U64, IMG_F16, IMG_BF16, IMG_F32, IMG_F64
} img_dtype;

/* How finished pixels are written: value = pixel * scale + bias in float32 when normalised, then the dtype. */
typedef struct {
    int32_t dtype, chw, channels, normalise;
    int32_t words; /* a pixel is one number, a word: of one channel */
    int64_t item; /* bytes of a value */
    int64_t view_height; /* rows of each of several pictures, which are written one behind the other; 0: there is one */
    int64_t patch; /* squares of so many pixels are written one behind the other, each in its layout; 0: none */
    float scale[4], bias[4];
} img_layout;

/* Write row `i` of a picture of height x width; `values` has room for 4 * (width + IMG_PAD) floats. */
void img_pack_row(const img_layout *layout, const img_kernels *kernels, uint8_t *out, int64_t height, int64_t width,
                  int64_t i, const uint8_t *row, float *values);

/* Read and write `count` pixels of a result, from column x of row y on, as floats: channel c from values + c * plane on.
 * Only floating point is read. */
void img_read_span(const img_layout *layout, const uint8_t *data, int64_t height, int64_t width, int64_t y, int64_t x,
                   int64_t count, float *values, int64_t plane);
void img_write_span(const img_layout *layout, uint8_t *data, int64_t height, int64_t width, int64_t y, int64_t x,
                    int64_t count, const float *values, int64_t plane);

#endif
