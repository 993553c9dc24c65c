/* Mixes pictures in float32 and cuts the sums off, as torchvision's AugMix does with tensors of uint8. */
#include "mix.h"

#include "base.h"
#include "draws.h"
#include "variates.h"

void img_draw_mix(uint64_t key, double alpha, img_mix *mix) {
    double halves[2], shares[IMG_MAX_MIXED];
    img_draw_shares(img_fold(key, 0), alpha, 2, halves);
    img_draw_shares(img_fold(key, 1), alpha, mix->count, shares);
    mix->share = (float)halves[0];
    for (int64_t i = 0; i < mix->count; i++)
        mix->shares[i] = (float)shares[i] * (float)halves[1];
}

IMG_CLONES void img_begin_mix(float *sums, const uint8_t *values, int64_t count, float share) {
    for (int64_t i = 0; i < count; i++)
        sums[i] = share * (float)values[i];
}

IMG_CLONES void img_add_to_mix(float *sums, const uint8_t *values, int64_t count, float share) {
    for (int64_t i = 0; i < count; i++)
        sums[i] += share * (float)values[i];
}

IMG_CLONES void img_end_mix(uint8_t *values, const float *sums, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        values[i] = (uint8_t)(int)(sums[i] < 255.0f ? sums[i] : 255.0f); /* the shares' sum is 1 but for their rounding */
}
