/* The decoder for sequential Huffman JPEGs of one scan, 8 bits a sample: what nearly all photographs are.
 *
 * libjpeg-turbo reads the header and whatever is rarer or damaged; what this decoder gives equals it bit for bit (slow integer
 * DCT, fancy upsampling, its colour conversion), from the same numbers in its SIMD code.
 * baseline.c cuts out the window, scan.c reads coefficients, baseline_x86.c makes pixels of them.
 */
#ifndef TOOLKIT_IMAGE_BASELINE_H
#define TOOLKIT_IMAGE_BASELINE_H

#include <stdint.h>

#include "buffer.h"
#include "decoding.h"

typedef struct img_baseline img_baseline;

/* A picture whose header libjpeg-turbo has read: one scan, sequential, Huffman, 8 bits. */
typedef struct {
    int64_t height, width;
    int components;             /* 1, or 3: YCbCr, one block of each chroma in an MCU */
    int h, v;                   /* blocks of luma in an MCU of three components */
    int restart_interval;
    const uint16_t *quant[3];   /* in natural order */
    const uint8_t *dc_bits[3], *dc_symbols[3], *ac_bits[3], *ac_symbols[3]; /* as in a DHT; bits[0] is nothing */
    const uint8_t *data;        /* behind the scan's header */
    int64_t length;
} img_picture;

/* As img_jpeg_start, _row and _finish; *held is made where it is NULL. IMG_UNSUPPORTED: not one for this decoder; IMG_AGAIN:
 * it turned out to be none. */
int img_baseline_start(img_baseline **held, img_room *room, const img_picture *picture, const img_decoding *how,
                       const img_window *window);
int img_baseline_row(img_baseline *b, const uint8_t **row);
int img_baseline_finish(const img_baseline *b);
/* Whether rows are those of img_late_to_rgbx. */
int img_baseline_is_late(const img_baseline *b);
void img_baseline_free(img_baseline *b);

#endif
