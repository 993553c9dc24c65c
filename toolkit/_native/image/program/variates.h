/* Draws that aren't even: normal ones, and shares of a whole. What a draw is follows from the key alone. */
#ifndef TOOLKIT_IMAGE_VARIATES_H
#define TOOLKIT_IMAGE_VARIATES_H

#include <stdint.h>

/* A normal number of mean 0 and deviation 1, by Box and Muller from draws `k` and `k` + 1. */
double img_draw_normal(uint64_t key, uint64_t k);

/* Shares of a symmetric Dirichlet distribution, whose sum is 1; of two they are Beta. Share i is drawn from a key of its own,
 * img_fold(key, i). */
void img_draw_shares(uint64_t key, double alpha, int64_t count, double *shares);

#endif
