/* Channels, gray and alpha of rows. */
#ifndef TOOLKIT_IMAGE_COLOUR_H
#define TOOLKIT_IMAGE_COLOUR_H

#include <stdint.h>

/* Pillow's L of a pixel. */
static inline int img_gray_of(const uint8_t *p) { return (p[0] * 19595 + p[1] * 38470 + p[2] * 7471 + 0x8000) >> 16; }

void img_from_channels(uint8_t *rgbx, const uint8_t *pixels, int64_t count, int channels);
void img_to_gray(uint8_t *rgbx, const uint8_t *from, int64_t count);
void img_premultiply(uint8_t *rgba, const uint8_t *from, int64_t count);
void img_unpremultiply(uint8_t *rgba, int64_t count);

#endif
