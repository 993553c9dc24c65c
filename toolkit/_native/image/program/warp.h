/* How an op moves pixels by an affine or perspective map: Pillow's Image.transform. */
#ifndef TOOLKIT_IMAGE_WARP_H
#define TOOLKIT_IMAGE_WARP_H

#include <stdint.h>

#include "plan.h"
#include "sampler.h"

/* What all such ops have among their parameters. */
typedef struct {
    int64_t filter; /* an img_take */
    double fill[4]; /* of red, green, blue and alpha */
} img_taking;

#define IMG_TAKING_FIELDS(params)                                                                                      \
    {"filter", IMG_CHOICE, IMG_OFFSET(params, taking.filter, int64_t), 0, 0, img_take_words, 0},                       \
    {"fill", IMG_NUMBERS, IMG_OFFSET(params, taking.fill[0], double), 0, 255, NULL, 4}

/* The pixel that lies outside: what is given for each channel, or of ids `ignore`. */
void img_warp_fill(const img_builder *b, const double given[4], uint8_t fill[4]);
/* Make a picture of height x width pixels, each of which is taken from where the map says. */
int img_plan_warp(img_builder *b, const img_map *map, int64_t height, int64_t width, const img_taking *taking,
                  const char *step);

/* The inverse map of torchvision's affine: turned by `angle` degrees clockwise, sheared, scaled about the centre, and then
 * moved. */
void img_affine_map(const double center[2], double angle, const double translate[2], double scale, const double shear[2],
                    img_map *map);
/* The map of Pillow's Image.rotate: counterclockwise about the centre, or where `center` is NULL the picture's middle.
 * With `expand` the result is as large as the turned picture, which *height and *width then say. */
void img_rotate_map(double angle, const double *center, int expand, int64_t *height, int64_t *width, img_map *map);

#endif
