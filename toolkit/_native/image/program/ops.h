/* The table of the steps that transform pixels. Each stands in a file of the folder ops/, with all that is known of it.
 *
 * To add one: write its parameters as a struct, the table of its fields and its functions into such a file, define its
 * img_op_kind there with IMG_DEFINE_OP, and add its name to IMG_OPS. Nothing else names it: ImageProgram fills the struct by
 * the table of fields, and plan.c calls its functions.
 */
#ifndef TOOLKIT_IMAGE_OPS_H
#define TOOLKIT_IMAGE_OPS_H

#include <stdint.h>

#include "op.h"

/* Every step by its word in Python. */
#define IMG_OPS(OP)                                                                                                    \
    OP(random_erasing)                                                                                                 \
    OP(cutout)                                                                                                         \
    OP(gaussian_noise)                                                                                                 \
    OP(speckle_noise)                                                                                                  \
    OP(salt_and_pepper)                                                                                                \
    OP(clamp)                                                                                                          \
    OP(resize)                                                                                                         \
    OP(resize_short)                                                                                                   \
    OP(resize_long)                                                                                                    \
    OP(random_resized_crop)                                                                                            \
    OP(cover)                                                                                                          \
    OP(contain)                                                                                                        \
    OP(thumbnail)                                                                                                      \
    OP(scale_jitter)                                                                                                   \
    OP(five_crop)                                                                                                      \
    OP(ten_crop)                                                                                                       \
    OP(tile)                                                                                                           \
    OP(crop)                                                                                                           \
    OP(center_crop)                                                                                                    \
    OP(random_crop)                                                                                                    \
    OP(pad)                                                                                                            \
    OP(hflip)                                                                                                          \
    OP(vflip)                                                                                                          \
    OP(rotate)                                                                                                         \
    OP(affine)                                                                                                         \
    OP(perspective)                                                                                                    \
    OP(shear)                                                                                                          \
    OP(elastic)                                                                                                        \
    OP(shear_x)                                                                                                        \
    OP(shear_y)                                                                                                        \
    OP(translate_x)                                                                                                    \
    OP(translate_y)                                                                                                    \
    OP(color_jitter)                                                                                                   \
    OP(brightness)                                                                                                     \
    OP(contrast)                                                                                                       \
    OP(saturation)                                                                                                     \
    OP(posterize)                                                                                                      \
    OP(solarize)                                                                                                       \
    OP(solarize_add)                                                                                                   \
    OP(invert)                                                                                                         \
    OP(equalize)                                                                                                       \
    OP(autocontrast)                                                                                                   \
    OP(gamma)                                                                                                          \
    OP(lut)                                                                                                            \
    OP(channel_shuffle)                                                                                                \
    OP(channel_drop)                                                                                                   \
    OP(color_temperature)                                                                                              \
    OP(grayscale)                                                                                                      \
    OP(sharpness)                                                                                                      \
    OP(gaussian_blur)                                                                                                  \
    OP(motion_blur)                                                                                                    \
    OP(median_blur)                                                                                                    \
    OP(unsharp_mask)                                                                                                   \
    OP(clahe)                                                                                                          \
    OP(jpeg_compression)

#define IMG_DECLARE_OP(word) extern const img_op_kind img_op_##word;
IMG_OPS(IMG_DECLARE_OP)

/* The kinds in their order, NULL behind the last one. */
const img_op_kind *img_op_kind_at(int64_t i);
/* A kind by its name, or NULL. */
const img_op_kind *img_find_op_kind(const char *name);

#endif
