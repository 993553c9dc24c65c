/* Which source samples a resized sample is made of, and how much each weighs. */
#ifndef TOOLKIT_IMAGE_AXIS_H
#define TOOLKIT_IMAGE_AXIS_H

#include <stdint.h>

#include "buffer.h"

typedef enum { IMG_NEAREST, IMG_BILINEAR, IMG_BICUBIC, IMG_LANCZOS } img_filter;
extern const char *const img_filter_names[]; /* in that order, NULL behind the last one */

#define IMG_PRECISION 22 /* Pillow's: 32 bits less 8 of a pixel less 2 to spare */
#define IMG_SPLIT 11     /* halves of a coefficient fit the 16-bit multiplications of SIMD */

/* Which output sums which inputs: i = 0 .. count-1 sums 2 * pairs source samples from `start[i]` on. The last of them may
 * lie one behind the source (its coefficient is zero); start[] never falls. */
typedef struct {
    int64_t count, padded;  /* padded: count rounded up to 4, with coefficients of zero */
    int64_t pairs;          /* 0: nearest, each output is its source sample */
    int64_t first, last;    /* source samples [first, last) are used; start[] counts from `first` */
    const int32_t *start;
    const int32_t *coefficients; /* [padded][2 * pairs], 1.0 is 1 << IMG_PRECISION */
    const int16_t *split;   /* [padded][pairs][high and low part][2 taps]: coefficient = high << IMG_SPLIT | low */
    const int16_t *wide;    /* [padded / lanes][pairs][high, low][lanes][4 channels][2 taps]; NULL without lanes */
    int64_t lanes;          /* outputs side by side in `wide`: 2 for AVX2, 4 for AVX-512, 0 */
    int coarse;             /* all low parts are zero */
    const uint8_t *index;   /* [padded / 4][64] with 4 lanes: which of 64 source bytes goes where; else NULL */
} img_axis;

/* A resize of `length` source samples from `from` on (which may lie between samples) into `out` samples, of which
 * [first, first + count) are wanted. */
typedef struct {
    int64_t in, out, first, count, lanes;
    double from, length;
    int filter, mirrored;
    int coarse; /* coefficients of 11 bits */
} img_resize;

typedef struct {
    img_buffer memory;
    img_resize of; /* what `axis` was made for */
    img_axis axis;
} img_axis_cache;

/* Which source samples, [*first, *last), the wanted outputs are made of. */
void img_axis_reach(const img_resize *resize, int64_t *first, int64_t *last);
/* Pillow's coefficients, kept until another resize is asked for. */
int img_make_axis(img_axis_cache *cache, const img_resize *resize, img_axis *axis);
/* The same shape for an axis that keeps its size: only first, last and count are set. */
void img_keep_axis(int64_t from, int64_t count, img_axis *axis);

#endif
