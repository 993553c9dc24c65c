/* Reads a window of a JPEG, row by row. */
#ifndef TOOLKIT_IMAGE_JPEG_H
#define TOOLKIT_IMAGE_JPEG_H

#include <stdint.h>

#include "buffer.h"
#include "decoding.h"

typedef struct img_jpeg img_jpeg; /* the decoders of one thread, and their memory */

typedef struct {
    int64_t height, width; /* as stored, before the orientation */
    int components, orientation, progressive;
} img_header;

/* NULL: there is no memory. What it takes later counts in `room`. */
img_jpeg *img_jpeg_new(img_room *room);
void img_jpeg_free(img_jpeg *jpeg);
/* Read the header. After IMG_OK the picture is open until img_jpeg_close. */
int img_jpeg_open(img_jpeg *jpeg, const uint8_t *data, int64_t length, int64_t max_pixels, img_header *header,
                  char *message);
/* Prepare to read exactly the pixels of `window`, of the picture as decoded. */
int img_jpeg_start(img_jpeg *jpeg, const img_decoding *how, const img_window *window, char *message);
/* The next row of the window, valid until the next call; exactly window.height calls. IMG_AGAIN: call img_jpeg_again,
 * start anew, and take no row for good until the finish. */
int img_jpeg_row(img_jpeg *jpeg, const uint8_t **row, char *message);
/* Whether rows are those of img_late_to_rgbx: colours are converted after a resize has left fewer pixels. */
int img_jpeg_is_late(const img_jpeg *jpeg);
/* Check that nothing of the picture is missing, also below the window. */
int img_jpeg_finish(img_jpeg *jpeg, char *message);
/* From now on what is missing is gray: rows are given whatever the data, and finish says IMG_CUT. */
void img_jpeg_tolerate(img_jpeg *jpeg);
/* Back to the header, with libjpeg-turbo alone from here on. */
void img_jpeg_again(img_jpeg *jpeg);
void img_jpeg_close(img_jpeg *jpeg);
/* Pictures that baseline.c has decoded; libjpeg-turbo has decoded the others. */
int64_t img_jpeg_own_decodes(const img_jpeg *jpeg);

#endif
