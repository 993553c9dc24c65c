/* Reads a JPEG's markers. */
#ifndef TOOLKIT_IMAGE_MARKERS_H
#define TOOLKIT_IMAGE_MARKERS_H

#include <stdint.h>

/* The Orientation (1 .. 8) that PIL.ImageOps.exif_transpose would honour; 1 when there is none or it is damaged. */
int img_orientation(const uint8_t *data, int64_t length);
/* Whether there is an ICC profile. */
int img_has_profile(const uint8_t *data, int64_t length);

#endif
