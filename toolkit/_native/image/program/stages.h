/* What a program means for one picture: stages, each done row by row, with changes of colour on its finished rows, and
 * then, where a step needs that, on the whole picture. */
#ifndef TOOLKIT_IMAGE_STAGES_H
#define TOOLKIT_IMAGE_STAGES_H

#include <stdint.h>

#include "buffer.h"
#include "mix.h"
#include "table.h"

#define IMG_MAX_STAGES 65
#define IMG_MAX_CHANGES 256
#define IMG_MAX_TABLES 128 /* two for each step that a picture may pass through */
#define IMG_MAX_DRAWN 16
#define IMG_MAX_MIXES 32 /* each counts as two steps at least */
#define IMG_PARTS 4

/* One axis of a stage. A part of the input is resized, a part of that kept, and the result padded: out samples, of which
 * [pad, pad + keep) are the resized samples from `first` on. Mirrored: the part of the input is turned round before the
 * resize and the resized samples after it, so that with a flip of the result the flip came first. */
typedef struct {
    int64_t in;             /* samples of the input */
    int64_t from, length;   /* the part that is resized */
    double at, span;        /* what of it the result shows: from `at` on, which may lie between samples, as its filter sees
                             * the whole part */
    int64_t resized;        /* its new length */
    int64_t first, keep;
    int64_t out, pad;
    int mirrored, flip;     /* flip: of the result */
} img_side;

/* A part of a picture. */
typedef struct {
    int64_t top, left, height, width;
} img_rectangle;

/* What one pass over a picture finds, all zero before: whatever a change takes of it. */
typedef union {
    int64_t sum;
    int64_t counts[3][256];
    uint32_t parts[IMG_PARTS][3][256]; /* counts, to be summed */
    struct {
        uint8_t high[4], from_255_down[4];
    } ends;
} img_statistic;

/* What becomes of the pixels of finished rows: a function of them, or a table, which may need a statistic first. */
typedef struct img_change img_change;
struct img_change {
    void (*apply)(uint8_t *rgbx, int64_t count, const img_change *change); /* to a row, in place; NULL: one of those below */
    /* The same, where it matters which row of the picture it is. */
    void (*apply_at)(uint8_t *rgbx, int64_t count, int64_t y, const img_change *change);
    img_table *table; /* one of the plan's */
    /* Adds a row to the statistic; NULL where none is needed. Then the table is made of it. */
    void (*measure)(const uint8_t *rgbx, int64_t count, img_statistic *found);
    void (*settle)(const img_change *change, const img_statistic *found, int64_t pixels, img_table *table);
    float factor; /* of a blend */
    int32_t level; /* how far a hue is turned */
    const void *params; /* the op's, where it needs them */
    int gray; /* the picture is gray: all four bytes of a pixel are to stay alike */
    img_rectangle box; /* what is changed, for what changes a part */
    float numbers[4]; /* whatever it drew, or worked out */
    uint64_t key; /* for what it draws a pixel */
};

/* What makes a new picture of a whole one. */
typedef struct img_whole img_whole;
struct img_whole {
    /* `in` has height x width pixels and `out` out_height x out_width, row behind row, with IMG_PAD bytes more; `work` has
     * work_bytes. None of them overlap. */
    void (*apply)(const img_whole *whole, const uint8_t *in, int64_t height, int64_t width, uint8_t *out, uint8_t *work);
    /* The same in its place, of what may fail: returns a status. */
    int (*apply_or_say)(const img_whole *whole, const uint8_t *in, int64_t height, int64_t width, uint8_t *out,
                        uint8_t *work, char *message);
    int64_t out_height, out_width, work_bytes;
    const void *params;          /* the op's */
    double drawn[IMG_MAX_DRAWN]; /* whatever it drew, or worked out */
    uint64_t key;                /* for what it draws a pixel */
};

typedef struct {
    img_side y, x;
    int filter, resizes;    /* a resize is part of the stage, though perhaps to the same size */
    int blank;              /* nothing of the picture is left, only the fill */
    uint32_t fill;          /* a pixel, where the picture has none */
    int alpha;              /* four channels: resized premultiplied */
    int placed;             /* a change depends on where a pixel is */
    int64_t change_first, change_count;
    img_whole whole;        /* what is done then; neither apply nor apply_or_say where nothing is */
    const img_mix *mix;     /* or the stages of its chains, which come next, are run on it; NULL where there are none */
} img_stage;

typedef struct {
    img_stage stages[IMG_MAX_STAGES];
    img_change changes[IMG_MAX_CHANGES];
    img_mix mixes[IMG_MAX_MIXES];
    img_buffer tables; /* IMG_MAX_TABLES, once there is one */
    img_buffer params; /* of ops that have a level, once there is one */
    int64_t stage_count, change_count, table_count, mix_count, params_count;
    int64_t out_h, out_w;
} img_plan;

/* Whether samples of a side are mixed. */
static inline int img_is_scaled(const img_side *side) {
    return side->resized != side->length || side->at != 0.0 || side->span != (double)side->length;
}

/* Whether a stage leaves an axis as it is. */
static inline int img_is_kept(const img_side *side) {
    return side->out == side->in && side->keep == side->out && !img_is_scaled(side) && side->length == side->in && !side->flip;
}

#endif
