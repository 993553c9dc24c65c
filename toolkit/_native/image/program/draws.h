/* What random steps draw: generator version 2, splitmix64's finaliser over folded integers. */
#ifndef TOOLKIT_IMAGE_DRAWS_H
#define TOOLKIT_IMAGE_DRAWS_H

#include <stdint.h>

#include "op.h"

/* The key of a part of what `state` is the key of. */
static inline uint64_t img_fold(uint64_t state, uint64_t part) {
    uint64_t x = state + part + 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

/* Draw number `k` of a step, in [0, 1). */
static inline double img_draw(uint64_t key, uint64_t k) { return (double)(img_fold(key, k) >> 11) * 0x1p-53; }

/* One of 0 .. count-1. */
static inline int64_t img_draw_below(uint64_t key, uint64_t k, int64_t count) {
    return (int64_t)(img_draw(key, k) * (double)count);
}

/* Whether what happens with probability p does, by draw 0. */
static inline int img_draw_whether(uint64_t key, double p) { return img_draw(key, 0) < p; }

/* Uniform between the ends of a range; the low end itself where both are the same. */
static inline double img_draw_range(uint64_t key, uint64_t k, const img_range *range) {
    return range->low + (range->high - range->low) * img_draw(key, k);
}

/* One of the whole numbers of a range, both ends among them. */
static inline int64_t img_draw_whole(uint64_t key, uint64_t k, const img_range *range) {
    return (int64_t)range->low + img_draw_below(key, k, (int64_t)range->high - (int64_t)range->low + 1);
}

#endif
