/* Memory that a thread keeps from sample to sample. */
#ifndef TOOLKIT_IMAGE_SCRATCH_H
#define TOOLKIT_IMAGE_SCRATCH_H

#include <stdint.h>

#include "axis.h"
#include "buffer.h"
#include "jpeg.h"
#include "stages.h"

typedef struct {
    img_room room;
    img_jpeg *jpeg;
    img_plan plan;
    img_buffer line;        /* one source row brought into RGBX order */
    img_buffer ring;        /* horizontally resized rows that wait for the vertical pass */
    img_buffer pointers;    /* the rows of one vertical sum */
    img_buffer mixed;       /* one vertically resized row */
    img_buffer work;        /* one row of the result: padded, flipped, coloured */
    img_buffer values;      /* one row as float planes */
    img_buffer held;        /* a whole picture that waits for its mean */
    img_buffer pixels[4];   /* whole pictures between stages, the last two for those of a mix */
    img_buffer sums;        /* of a mix */
    img_buffer shared;      /* what several programs run on */
    img_buffer whole;       /* what a step on a whole picture works in */
    img_axis_cache axes[2]; /* columns, rows */
} img_scratch;

img_scratch *img_scratch_new(void);
void img_scratch_free(img_scratch *scratch);
int64_t img_scratch_bytes(const img_scratch *scratch);

#endif
