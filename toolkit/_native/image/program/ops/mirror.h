/* Pixels beyond the border: mirrored at the middle of the outermost one, to and fro: numpy.pad's "reflect". */
#ifndef TOOLKIT_IMAGE_OPS_MIRROR_H
#define TOOLKIT_IMAGE_OPS_MIRROR_H

#include <stdint.h>

/* The place of 0 .. length - 1 that stands for any place. */
static inline int64_t img_mirrored(int64_t at, int64_t length) {
    if (at >= 0 && at < length)
        return at;
    if (length == 1)
        return 0;
    const int64_t period = 2 * (length - 1);
    at %= period;
    at = at < 0 ? at + period : at;
    return at < length ? at : period - at;
}

#endif
