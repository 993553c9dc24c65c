/* How an op says what it does to a picture: cut, resize, flip, change colours or the whole, folded into stages as they come. */
#ifndef TOOLKIT_IMAGE_PLAN_H
#define TOOLKIT_IMAGE_PLAN_H

#include <stdint.h>

#include "op.h"
#include "stages.h"

struct img_builder {
    img_plan *plan;
    img_stage *stage; /* the present one */
    int64_t max_pixels;
    int alpha; /* the picture has an alpha channel */
    int gray;  /* it has one channel, whose value is in all four bytes */
    int ids; /* its pixels are words; `ignore` is that of what it has no pixels for */
    uint32_t ignore;
    char *message;
};

typedef struct {
    double top, left, height, width;
} img_box;

/* The picture's size as the ops so far have left it. */
static inline int64_t img_plan_height(const img_builder *b) { return b->stage->y.out; }
static inline int64_t img_plan_width(const img_builder *b) { return b->stage->x.out; }

/* All return a status. */

/* Keep height x width pixels from (top, left) on; where the picture has none, `fill` in each channel, or `ignore`. */
int img_plan_cut(img_builder *b, int64_t top, int64_t left, int64_t height, int64_t width, int fill);
/* IMG_TOO_LARGE when the picture has more than max_pixels after the step. */
int img_plan_check_size(const img_builder *b, const char *step);
int img_plan_resize(img_builder *b, int64_t height, int64_t width, int filter);
/* Resize a box of the picture, whose sides may lie between pixels, as Pillow does: the filter sees what is outside of it. */
int img_plan_resize_box(img_builder *b, const img_box *box, int64_t height, int64_t width, int filter);
/* Swap left and right, and top and bottom. */
int img_plan_flip(img_builder *b, int across, int down);
/* Change finished pixels by a function of them; the change is copied. */
int img_plan_change(img_builder *b, const img_change *change);
/* Change finished pixels by a table, which is joined with a table right before it. */
int img_plan_table(img_builder *b, const img_table *table);
/* The same by a table that change->settle makes of what change->measure finds. */
int img_plan_statistic(img_builder *b, const img_change *change);
/* Make a new picture of the whole one; it is copied. IMG_TOO_LARGE as in img_plan_check_size. */
int img_plan_whole(img_builder *b, const img_whole *whole, const char *step);

#endif
