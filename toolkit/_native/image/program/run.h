/* Runs a program on one picture. */
#ifndef TOOLKIT_IMAGE_RUN_H
#define TOOLKIT_IMAGE_RUN_H

#include <stdint.h>

#include "jpeg.h"
#include "program.h"
#include "scratch.h"

/* A picture in memory: uint8 HWC of 1 (L), 3 (RGB) or 4 (RGBA) channels. */
typedef struct {
    const uint8_t *data;
    int64_t height, width;
    int channels;
} img_pixels;

/* Open a JPEG and refuse what the program does not take. */
int img_open(const img_program *program, img_scratch *scratch, const uint8_t *data, int64_t length, img_header *header,
             char *message);
/* Size of the result for a picture of height x width (after its orientation). */
int img_result_size(const img_program *program, img_scratch *scratch, int64_t height, int64_t width, uint64_t key,
                    int64_t *out_h, int64_t *out_w, char *message);
/* Decode and transform the open JPEG into `out`, which holds out_h x out_w x channels items. */
int img_run_open(const img_program *program, img_scratch *scratch, const img_header *header, uint64_t key, void *out,
                 int64_t out_h, int64_t out_w, char *message);
/* Open, run and close. */
int img_run_jpeg(const img_program *program, img_scratch *scratch, const uint8_t *data, int64_t length, uint64_t key,
                 void *out, int64_t out_h, int64_t out_w, char *message);
/* The same from pixels. */
int img_run_pixels(const img_program *program, img_scratch *scratch, const img_pixels *pixels, uint64_t key, void *out,
                   int64_t out_h, int64_t out_w, char *message);

#endif
