/* Steps on results where they lie in a batch, as numbers: behind normalize, cast and layout. */
#ifndef TOOLKIT_IMAGE_TENSOR_H
#define TOOLKIT_IMAGE_TENSOR_H

#include <stdint.h>

#include "layout.h"
#include "program.h"
#include "scratch.h"

/* A result in its batch. */
struct img_tensor {
    const img_layout *layout;
    void *data;
    int64_t height, width;
    float *values; /* room for a row: channel c begins at c * plane, and IMG_PAD values more than a row has may be written */
    int64_t plane;
};

/* Bring `count` pixels of row y, from column x on, into `values`, and back. */
void img_load_values(const img_tensor *tensor, int64_t y, int64_t x, int64_t count);
void img_store_values(const img_tensor *tensor, int64_t y, int64_t x, int64_t count);

/* Run the program's steps on a result. `key` is the sample's. Returns a status. */
int img_run_tensor_steps(const img_program *program, img_scratch *scratch, uint64_t key, void *out, int64_t out_h,
                         int64_t out_w, char *message);

#endif
