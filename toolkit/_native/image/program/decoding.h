/* Which part of a JPEG is decoded, and how. */
#ifndef TOOLKIT_IMAGE_DECODING_H
#define TOOLKIT_IMAGE_DECODING_H

#include <stdint.h>

typedef struct {
    int64_t top, left, height, width;
} img_window;

typedef struct {
    int eighths;  /* decoded size: 8 is the full one */
    int fast;     /* chroma is repeated, the resize is coarse, and rows may be those of img_late_to_rgbx */
    int channels; /* 1: luma only, 4: RGBX */
} img_decoding;

#endif
