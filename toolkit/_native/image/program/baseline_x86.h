/* Pixels from the coefficients of a JPEG, for AVX2. */
#ifndef TOOLKIT_IMAGE_BASELINE_X86_H
#define TOOLKIT_IMAGE_BASELINE_X86_H

#include <stdint.h>

/* Two blocks to pixels: coefficients times quant (that of the first, that of the second), 8 rows of 8 each. */
void img_idct_pair(const int16_t *first, const int16_t *second, const uint16_t *quant, const uint16_t *quant_second,
                   uint8_t *out, int64_t stride, uint8_t *out_second, int64_t stride_second);
/* Double `count` chroma samples of a row; `near` is the row next to it, or the row itself. Reads one sample to each side,
 * and up to IMG_PAD behind; writes up to 2 * IMG_PAD behind. */
void img_upsample_h2v2(uint8_t *out, const uint8_t *row, const uint8_t *near, int64_t count);
void img_upsample_h2v1(uint8_t *out, const uint8_t *row, int64_t count);
/* YCbCr to RGBX; reads and writes up to IMG_PAD and 4 * IMG_PAD bytes behind. */
void img_ycc_to_rgbx(uint8_t *out, const uint8_t *y, const uint8_t *cb, const uint8_t *cr, int64_t count);
void img_y_to_rgbx(uint8_t *out, const uint8_t *y, int64_t count);
/* The same to pixels for img_late_to_rgbx: Cb, Cr, Y, 255, from chroma as wide as luma or half as wide. */
void img_ycc_to_late(uint8_t *out, const uint8_t *y, const uint8_t *cb, const uint8_t *cr, int64_t count);
void img_ycc_to_late_doubled(uint8_t *out, const uint8_t *y, const uint8_t *cb, const uint8_t *cr, int64_t count);
/* Cb, Cr, Y, 255 to RGBX, in place. */
void img_late_to_rgbx(uint8_t *pixels, int64_t count);

#endif
