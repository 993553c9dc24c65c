/* Numbers of the normal distribution, drawn by counting: the same on every instruction set, and in any order. */
#ifndef TOOLKIT_IMAGE_NORMAL_H
#define TOOLKIT_IMAGE_NORMAL_H

#include <stdint.h>

#define IMG_NORMALS 64 /* that are drawn at a time */

/* Block number `block` of the numbers that `key` draws, mean 0 and variance 1.
 *
 * Number i and number i + 32 of a block, i < 32, are a pair of Box and Muller's. With b the 64 bits of
 * img_fold(key, 32 * block + i): the radius is sqrt(-2 log(u)), u being (upper 24 bits of b, plus 1) / 2^24, and the angle
 * follows from the lower 32 bits. Bits 0 to 29, less 2^29, times pi / 2^31, are an angle f within -pi/4 .. pi/4; bit 31
 * turns the sign of cos(f), and bit 30 says that sin(f) is the first of the pair and cos(f) the second, and not the other
 * way round. */
void img_draw_normals(float *out, uint64_t key, int64_t block);

#endif
