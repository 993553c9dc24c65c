/* How a JPEG is decoded for the first stage of a plan, and seen upright. */
#ifndef TOOLKIT_IMAGE_UPRIGHT_H
#define TOOLKIT_IMAGE_UPRIGHT_H

#include <stdint.h>

#include "jpeg.h"
#include "program.h"
#include "rows.h"
#include "scratch.h"

/* A stored picture, decoded, and what turns it. */
typedef struct {
    int transposed, flip_x, flip_y;      /* of the stored axes */
    int64_t stored_height, stored_width; /* as it is decoded */
    int64_t height, width;               /* the same, upright */
    double shift_y, shift_x;             /* of what is decoded upright: where the picture begins in it */
} img_upright;

/* Size of a picture seen upright, before it is decoded at any scale. */
void img_upright_size(const img_header *header, int64_t *height, int64_t *width);
/* How to decode for a first stage. Fast keeps 40 dB on photographs: half as many pixels again as the resize needs, from
 * powers of two, which have SIMD in libjpeg-turbo; and chroma is repeated only where the resize averages it again. */
img_decoding img_choose_decoding(const img_program *program, const img_stage *stage, int components);
img_upright img_see_upright(const img_header *header, const img_decoding *how);
/* The stored rectangle of an upright one. */
img_window img_stored_window(const img_upright *seen, const img_window *window);
/* Which part a first stage takes. */
img_window img_reach_upright(const img_stage *stage, const img_upright *seen, const img_decoding *how);
/* Both sides of a first stage. */
int img_prepare_upright(const img_stage *stage, const img_upright *seen, const img_decoding *how, img_axes *made,
                        img_scratch *scratch, char *message);
/* Decode an upright rectangle of the open JPEG as a whole into a buffer of the scratch, and describe it as a source. */
int img_decode_upright(const img_upright *seen, const img_decoding *how, const img_window *window, img_scratch *scratch,
                       img_buffer *into, img_source *from, char *message);

#endif
