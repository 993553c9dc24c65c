/* A program: steps, branches of them, and what is done before and after. */
#ifndef TOOLKIT_IMAGE_PROGRAM_H
#define TOOLKIT_IMAGE_PROGRAM_H

#include <stdint.h>

#include "layout.h"
#include "op.h"
#include "stages.h"

#define IMG_MAX_OPS 64 /* that a picture may pass through */
#define IMG_MAX_DEPTH 8 /* of branches within branches */
#define IMG_MAX_PARAMS 256 /* bytes of the parameters of an op that has a level */

/* IMG_ID: pixels are words, uint32_t of which only those below 2^24 are written as they are. They are moved, never mixed. */
typedef enum { IMG_RGB, IMG_GRAY, IMG_RGBA, IMG_ID } img_mode;

typedef struct img_op img_op;

/* A range of an op that is drawn anew for each picture, as one number: start + change * level / 10, where the level is normal
 * and cut off at 0 and 10. */
typedef struct {
    double mean, deviation; /* of the level; no deviation: the range is as it is given */
    double start, change;
    int64_t whole; /* change * level / 10 is cut off to a whole number */
    size_t offset; /* of the range in the parameters */
} img_level;

/* Steps, one after the other. */
typedef struct {
    const img_op *ops;
    int64_t count;
} img_chain;

/* A step; or a branch of chains one of which is taken, or a mix of what they all make. */
struct img_op {
    const img_op_kind *kind; /* NULL: a branch or a mix */
    const void *params;      /* the kind's struct */
    uint64_t id;             /* folded into the sample's key, for what draws */
    img_level level;
    /* Of a branch: way i is taken where draw 0 is below limits[i] and no earlier one; none where it is below no limit. */
    const img_chain *ways;
    const double *limits; /* NULL: a mix */
    int64_t way_count;
    double alpha; /* of a mix: what its shares are drawn by */
};

typedef struct {
    img_chain steps;
    img_chain tensor_steps; /* on results, whose dtype is a float one */
    img_layout layout;
    int64_t max_pixels, max_bytes;
    int32_t mode, exif, icc, fast, tolerant; /* icc: pictures with a profile are IMG_UNSUPPORTED */
    uint32_t ignore; /* with IMG_ID, what stands where a picture has no pixels */
} img_program;

/* Draw what is random from `key`, and fold the steps into as few stages as they allow. */
int img_make_plan(const img_program *program, int64_t height, int64_t width, uint64_t key, img_plan *plan,
                  char *message);

#endif
