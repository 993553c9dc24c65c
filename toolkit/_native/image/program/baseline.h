/* The decoder for sequential Huffman JPEGs of one scan, 8 bits a sample: what nearly all photographs are.
 *
 * libjpeg-turbo reads the header and whatever is rarer or damaged; what this decoder gives equals it bit for bit (slow integer
 * DCT, fancy upsampling, its colour conversion), from the same numbers in its SIMD code.
 * baseline.c cuts out the window, huffman.c reads coefficients, baseline_x86.c makes pixels of them.
 */
#ifndef TOOLKIT_IMAGE_BASELINE_H
#define TOOLKIT_IMAGE_BASELINE_H

#include "image.h"

#define IMG_HUFFMAN_LOOK 10
#define IMG_MAX_BLOCKS 6 /* of an MCU: four of luma, one of each chroma */

/* ---- The decoder ---- */

/* A Huffman table, and what it was made from. */
typedef struct {
    uint64_t look[1 << IMG_HUFFMAN_LOOK]; /* by the next bits: one code, of AC a second one where it fits; 0: longer */
    int32_t end[17];                      /* behind the last code of a length, as 16 bits */
    int32_t offset[17];                   /* from a code of a length to the place of its symbol */
    uint8_t bits[17], symbols[256];
    int made;                             /* 1: of DC, 2: of AC, 0: nothing there */
} img_huffman;

/* Make a table from a DHT's counts and symbols, if it isn't that already. -1: not one that this decoder takes. */
int img_huffman_make(img_huffman *table, int ac, const uint8_t *bits, const uint8_t *symbols);

/* Where the decoder is in a scan. */
typedef struct {
    const img_huffman *dc[3], *ac[3];     /* of each component */
    uint8_t component[IMG_MAX_BLOCKS];    /* of each block of an MCU */
    int blocks;
    int restart_interval, until_restart;  /* MCUs; interval 0: no restarts */
    int restarts;                         /* how many there were */
    int marker;                           /* the one that ended the segment at hand */
    uint32_t predicted[3];                /* the last DC, modulo 2^32: a crafted picture overflows it */
    const uint8_t *data, *end;            /* what has not been copied into the segment yet */
    uint8_t *segment;                     /* the entropy-coded bytes up to a marker, without stuffing */
    int64_t segment_length;
    uint64_t bits;                        /* the next ones, from the top ... */
    int64_t count;                        /* ... this many ... */
    const uint8_t *next;                  /* ... and those behind them */
} img_scan;

/* Room a segment of `length` stuffed bytes needs: an MCU of damaged data may be read far behind its end. */
#define IMG_SEGMENT_ROOM(length) ((uint64_t)(length) + 4096)

/* Begin with the scan's first segment. -1: it doesn't end as it should. */
int img_scan_start(img_scan *scan);
/* Decode the next MCU into blocks of 64 coefficients in natural order, with a place behind the last one (NULL: pass the MCU
 * over). Bit i of *flat says that block i has nothing but its DC. -1: damaged. */
int img_scan_mcu(img_scan *scan, int16_t *blocks, int *flat);

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

/* As img_jpeg_start, _row and _finish. IMG_UNSUPPORTED: not one for this decoder; IMG_AGAIN: it turned out to be none. */
int img_baseline_start(img_scratch *scratch, const img_picture *picture, const img_decoding *how,
                       const img_window *window);
int img_baseline_row(img_scratch *scratch, const uint8_t **row);
int img_baseline_finish(const img_scratch *scratch);
/* Whether rows are Cb, Cr, Y, 255. */
int img_baseline_is_late(const img_scratch *scratch);
void img_baseline_free(img_baseline *baseline);

/* ---- Coefficients ---- */

/* Two blocks to pixels: coefficients times quant (that of the first, that of the second), 8 rows of 8 each. */
void img_idct_pair(const int16_t *first, const int16_t *second, const uint16_t *quant, const uint16_t *quant_second,
                   uint8_t *out, int64_t stride, uint8_t *out_second, int64_t stride_second);
/* Double `count` chroma samples of a row; `near` is the row next to it, or the row itself. Reads one sample to each side,
 * and up to IMG_PAD behind; writes up to 2 * IMG_PAD behind. */
void img_upsample_h2v2(uint8_t *out, const uint8_t *row, const uint8_t *near, int64_t count);
void img_upsample_h2v1(uint8_t *out, const uint8_t *row, int64_t count);
/* YCbCr to RGBX; reads and writes up to IMG_PAD and 4 * IMG_PAD bytes behind. */
void img_ycc_to_rgbx(uint8_t *out, const uint8_t *y, const uint8_t *cb, const uint8_t *cr, int64_t count);
void img_y_to_rgbx(uint8_t *out, const uint8_t *y, int64_t count);
/* The same to pixels for img_late_to_rgbx, from chroma as wide as luma or half as wide. */
void img_ycc_to_late(uint8_t *out, const uint8_t *y, const uint8_t *cb, const uint8_t *cr, int64_t count);
void img_ycc_to_late_doubled(uint8_t *out, const uint8_t *y, const uint8_t *cb, const uint8_t *cr, int64_t count);

#endif
