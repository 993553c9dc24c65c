/* The loops that each instruction set has its own of. */
#ifndef TOOLKIT_IMAGE_KERNELS_H
#define TOOLKIT_IMAGE_KERNELS_H

#include <stdint.h>

#include "axis.h"
#include "table.h"

typedef struct {
    const char *name;
    int64_t lanes; /* of img_axis.wide that `horizontal` wants; it takes 2 where 4 do not fit */
    void (*horizontal)(uint8_t *out, const uint8_t *row, const img_axis *axis);
    /* Output i of the axis: the sum of 2 * pairs rows. `bytes` is rounded up to IMG_PAD inside. */
    void (*vertical)(uint8_t *out, const uint8_t *const *rows, const img_axis *axis, int64_t i, int64_t bytes);
    void (*from_rgb)(uint8_t *rgbx, const uint8_t *rgb, int64_t count);
    void (*to_rgb)(uint8_t *out, const uint8_t *rgbx, int64_t count);
    void (*to_planes)(float *out, int64_t plane, const uint8_t *rgbx, int64_t count, const float *scale,
                      const float *bias);
    void (*reverse)(uint8_t *out, const uint8_t *rgbx, int64_t count);
    void (*look_up)(uint8_t *rgbx, int64_t count, const img_table *table); /* in place */
} img_kernels;

extern const img_kernels img_generic_kernels;
#if defined(__x86_64__)
extern const img_kernels img_avx2_kernels, img_avx512_kernels;
#endif

#endif
