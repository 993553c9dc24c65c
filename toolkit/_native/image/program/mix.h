/* Mixes pictures that chains of steps have made of one, with what they were made of. */
#ifndef TOOLKIT_IMAGE_MIX_H
#define TOOLKIT_IMAGE_MIX_H

#include <stdint.h>

#define IMG_MAX_MIXED 16 /* chains of a mix */

/* The stages of chain i end before stage ends[i], and begin where those of the one before end. */
typedef struct {
    int64_t first, count;
    int64_t ends[IMG_MAX_MIXED];
    float share, shares[IMG_MAX_MIXED]; /* of the picture as it was, and of what each chain makes of it */
} img_mix;

/* Shares as AugMix draws them: of the picture as it was and all chains by Beta(alpha, alpha), of the chains by Dirichlet. */
void img_draw_mix(uint64_t key, double alpha, img_mix *mix);

/* sums = share * values, or sums += share * values, in float32. */
void img_begin_mix(float *sums, const uint8_t *values, int64_t count, float share);
void img_add_to_mix(float *sums, const uint8_t *values, int64_t count, float share);
/* The sums, cut off to whole numbers. */
void img_end_mix(uint8_t *values, const float *sums, int64_t count);

#endif
