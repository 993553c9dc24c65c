/* Runs the stages of a plan: rows flow from a source through both passes of a resize into the result. */
#ifndef TOOLKIT_IMAGE_ROWS_H
#define TOOLKIT_IMAGE_ROWS_H

#include <stdint.h>

#include "decoding.h"
#include "program.h"
#include "scratch.h"

/* Rows of the source window, in order. Either the open JPEG, or pixels in memory from `base` on. */
typedef struct {
    int streams;              /* the open JPEG gives the rows */
    const uint8_t *base;      /* window row 0, column 0 */
    int64_t step_x, step_y;   /* bytes to the next pixel and row; negative where the picture is turned */
    int channels;             /* bytes of a pixel: 1, 3 or 4 */
    int gray, premultiply;    /* what becomes of a row before anything else */
    int late;                 /* and of a resized one: img_late_to_rgbx */
    int64_t columns;          /* of the window */
    const uint8_t *end;       /* of the memory from which rows may be read where they lie */
} img_source;

/* Both axes of a stage, prepared. */
typedef struct {
    img_axis x, y;
    int resize_x, resize_y;
} img_axes;

/* A side of a stage whose input was decoded as `how` says; sample 0 of that lies `shift` behind its edge. */
int img_prepare_side(const img_stage *stage, const img_side *side, const img_decoding *how, double shift,
                        int64_t decoded, int64_t lanes, img_axis_cache *cache, img_axis *axis, int *resizes);
/* Which samples, [*first, *last), of the input such a side takes. */
void img_side_reach(const img_stage *stage, const img_side *side, const img_decoding *how, double shift, int64_t decoded,
                    int64_t *first, int64_t *last);
/* Both sides of a stage whose input is whole. */
int img_prepare(const img_stage *stage, img_axes *made, img_scratch *scratch, char *message);
/* All stages of the plan in `scratch`, the source of the first one being ready. */
int img_run_stages(const img_program *program, img_axes *a, img_source *from, img_scratch *scratch, void *out, int64_t out_h,
                      int64_t out_w, char *message);

#endif
