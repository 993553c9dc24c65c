/* Normal numbers, and gamma ones after Marsaglia and Tsang (2000), whose parts of their sum are the shares. */
#include "variates.h"

#include <math.h>

#include "draws.h"

#define TURN 6.283185307179586 /* 2 pi */

double img_draw_normal(uint64_t key, uint64_t k) {
    return sqrt(-2.0 * log(1.0 - img_draw(key, k))) * cos(TURN * img_draw(key, k + 1));
}

/* The logarithm of a gamma number of shape `alpha` and scale 1: of shapes near 0 the numbers themselves are too small. */
static double draw_log_gamma(uint64_t key, double alpha) {
    const double shape = alpha < 1.0 ? alpha + 1.0 : alpha, d = shape - 1.0 / 3.0, c = 1.0 / sqrt(9.0 * d);
    const double less = alpha < 1.0 ? log(1.0 - img_draw(key, 0)) / alpha : 0.0;
    for (uint64_t k = 1;; k += 3) { /* 95 of 100 are taken at once */
        const double normal = img_draw_normal(key, k), root = 1.0 + c * normal, v = root * root * root;
        if (v > 0.0 && log(1.0 - img_draw(key, k + 2)) < 0.5 * normal * normal + d - d * v + d * log(v))
            return log(d * v) + less;
    }
}

void img_draw_shares(uint64_t key, double alpha, int64_t count, double *shares) {
    double largest = -INFINITY, sum = 0.0;
    for (int64_t i = 0; i < count; i++) {
        shares[i] = draw_log_gamma(img_fold(key, (uint64_t)i), alpha);
        largest = shares[i] > largest ? shares[i] : largest;
    }
    for (int64_t i = 0; i < count; i++) {
        shares[i] = exp(shares[i] - largest);
        sum += shares[i];
    }
    for (int64_t i = 0; i < count; i++)
        shares[i] /= sum;
}
