/* Channels, gray and alpha of rows, pixel by pixel, in the very arithmetic of PIL: convert("L") and premultiplied alpha. */
#include "colour.h"

#include <string.h>

#include "base.h"

void img_from_channels(uint8_t *rgbx, const uint8_t *pixels, int64_t count, int channels) {
    if (channels == 4) {
        memcpy(rgbx, pixels, 4 * (size_t)count);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        const uint8_t *p = pixels + i * channels;
        rgbx[4 * i] = p[0];
        rgbx[4 * i + 1] = p[channels == 1 ? 0 : 1];
        rgbx[4 * i + 2] = p[channels == 1 ? 0 : 2];
        rgbx[4 * i + 3] = 255;
    }
}

IMG_CLONES void img_to_gray(uint8_t *rgbx, const uint8_t *from, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        uint32_t gray = (uint32_t)img_gray_of(from + 4 * i) * 0x01010101u;
        memcpy(rgbx + 4 * i, &gray, 4);
    }
}

IMG_CLONES void img_premultiply(uint8_t *rgba, const uint8_t *from, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        uint32_t alpha = from[4 * i + 3];
        for (int c = 0; c < 3; c++) {
            uint32_t product = from[4 * i + c] * alpha + 128;
            rgba[4 * i + c] = (uint8_t)(((product >> 8) + product) >> 8);
        }
        rgba[4 * i + 3] = (uint8_t)alpha;
    }
}

void img_unpremultiply(uint8_t *rgba, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        uint32_t alpha = rgba[4 * i + 3];
        for (int c = 0; c < 3 && alpha != 0 && alpha != 255; c++) {
            uint32_t value = 255u * rgba[4 * i + c] / alpha;
            rgba[4 * i + c] = (uint8_t)(value > 255 ? 255 : value);
        }
    }
}
