/* What a program means for one picture: stages, each done row by row, with changes of colour on its finished rows. */
#ifndef TOOLKIT_IMAGE_STAGES_H
#define TOOLKIT_IMAGE_STAGES_H

#include <stdint.h>

#define IMG_MAX_STAGES 65
#define IMG_MAX_CHANGES 256

/* One axis of a stage. A part of the input is resized, a part of that kept, and the result padded: out samples, of which
 * [pad, pad + keep) are the resized samples from `first` on. Mirrored: the part of the input is turned round before the
 * resize and the resized samples after it, so that with a flip of the result the flip came first. */
typedef struct {
    int64_t in;             /* samples of the input */
    int64_t from, length;   /* the part that is resized */
    int64_t resized;        /* its new length */
    int64_t first, keep;
    int64_t out, pad;
    int mirrored, flip;     /* flip: of the result */
} img_side;

/* What becomes of the pixels of finished rows. */
typedef struct img_change img_change;
struct img_change {
    void (*apply)(uint8_t *rgbx, int64_t count, const img_change *change); /* to a row, in place */
    /* A statistic: added up over all rows before the change is applied. NULL where none is needed. */
    int64_t (*measure)(const uint8_t *rgbx, int64_t count);
    void (*settle)(img_change *change, int64_t sum, int64_t pixels);
    float factor; /* of a blend */
    int32_t level; /* that a blend starts from; or how far a hue is turned */
};

typedef struct {
    img_side y, x;
    int filter, resizes;    /* a resize is part of the stage, though perhaps to the same size */
    int blank;              /* nothing of the picture is left, only the fill */
    int fill;
    int alpha;              /* four channels: resized premultiplied */
    int64_t change_first, change_count;
} img_stage;

typedef struct {
    img_stage stages[IMG_MAX_STAGES];
    img_change changes[IMG_MAX_CHANGES];
    int64_t stage_count, change_count;
    int64_t out_h, out_w;
} img_plan;

#endif
