/* Reads the coefficients of a sequential JPEG's only scan, MCU by MCU. */
#ifndef TOOLKIT_IMAGE_SCAN_H
#define TOOLKIT_IMAGE_SCAN_H

#include <stdint.h>

#include "huffman.h"

#define IMG_MAX_BLOCKS 6 /* of an MCU: four of luma, one of each chroma */

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

#endif
