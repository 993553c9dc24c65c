/* Runs several programs on one JPEG, which is decoded once for all of them where that is less work. */
#ifndef TOOLKIT_IMAGE_SHARED_H
#define TOOLKIT_IMAGE_SHARED_H

#include <stdint.h>

#include "decoding.h"
#include "program.h"
#include "scratch.h"
#include "stages.h"

/* One program's work on the picture. All programs decode to the same, by the same limits. */
typedef struct {
    const img_program *program;
    uint64_t key;
    void *out;
    int64_t out_h, out_w;
    char *message;
    int32_t status;
    /* What its plan begins with. */
    img_stage first;
    img_window window;
} img_view;

/* Run all on one decoding. IMG_OK: each view has its status. IMG_AGAIN: each must run alone, because that is less work, or
 * the data are damaged, which may spare some of them. IMG_NO_MEMORY: the scratch wants memory; nothing is finished. */
int img_run_together(img_view *views, int64_t count, img_scratch *scratch, const uint8_t *data, int64_t length);
/* Run the views from `first` on by themselves; return the one that wants memory, or `count`. */
int64_t img_run_alone(img_view *views, int64_t count, int64_t first, img_scratch *scratch, const uint8_t *data,
                      int64_t length);

#endif
