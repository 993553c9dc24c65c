/* Takes pixels of a picture at positions between them, as the filters of Pillow's Image.transform do. */
#ifndef TOOLKIT_IMAGE_SAMPLER_H
#define TOOLKIT_IMAGE_SAMPLER_H

#include <stdint.h>

/* Pixel (x, y) covers [x, x + 1) and [y, y + 1). What lies outside the picture is `fill`; within half a pixel of its edge
 * the outermost pixels are repeated. */
typedef enum { IMG_TAKE_NEAREST, IMG_TAKE_BILINEAR, IMG_TAKE_BICUBIC } img_take;

/* Their words, for fields of ops. */
extern const char *const img_take_words[];

typedef struct {
    const uint8_t *pixels; /* RGBX, row behind row */
    int32_t height, width;
    uint8_t fill[4];
    int alpha; /* the fourth channel counts; else it becomes the first one's */
} img_sampler;

/* From a pixel's middle (x, y) in a result to its position in the picture: affine (a b c, d e f), divided by g x + h y + 1
 * in a perspective. */
typedef struct {
    double matrix[8];
    int perspective;
} img_map;

/* Sample the row `y` of a result of `width` pixels. */
void img_sample_row(const img_sampler *from, img_take how, const img_map *map, int64_t y, int64_t width, uint8_t *out);
/* Copy pixels from positions in 16.16 fixed point, all inside the picture. */
void img_sample_fixed(const img_sampler *from, int32_t x, int32_t y, int32_t step_x, int32_t step_y, int64_t count,
                      uint8_t *out);
/* Copy pixels at[0 .. count-1] of a row. */
void img_sample_columns(const uint8_t *row, const int32_t *at, int64_t count, uint8_t *out);
/* Write `count` pixels of fill. */
void img_sample_fill(const img_sampler *from, int64_t count, uint8_t *out);

#endif
