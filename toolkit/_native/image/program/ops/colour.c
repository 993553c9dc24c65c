/* color_jitter: torchvision's, four changes in random order. */
#include <string.h>

#include "enhance.h"
#include "hue.h"
#include "image/program/draws.h"
#include "image/program/op.h"
#include "image/program/plan.h"

typedef struct {
    img_range brightness, contrast, saturation, hue;
} color_jitter;

static const img_field color_jitter_fields[] = {
    IMG_OPTIONAL_RANGE_FIELD(color_jitter, brightness, 0.0, 1e6),
    IMG_OPTIONAL_RANGE_FIELD(color_jitter, contrast, 0.0, 1e6),
    IMG_OPTIONAL_RANGE_FIELD(color_jitter, saturation, 0.0, 1e6),
    IMG_OPTIONAL_RANGE_FIELD(color_jitter, hue, -0.5, 0.5),
    IMG_NO_FIELD,
};

/* The four changes, by their number in torchvision's draws. */
static int (*const changes[4])(img_builder *, double) = {img_plan_brightness, img_plan_contrast, img_plan_saturation,
                                                         img_plan_hue};

static int plan_color_jitter(img_builder *b, const void *params, uint64_t key) {
    const color_jitter *by = params;
    const img_range *const ranges[4] = {&by->brightness, &by->contrast, &by->saturation, &by->hue};
    int left[4] = {0, 1, 2, 3}, status = IMG_OK;
    int64_t order = img_draw_below(key, 4, 24);
    for (int place = 0, ways = 6; place < 4 && status == IMG_OK; place++) { /* the order-th permutation of four */
        int64_t at = order / ways;
        order %= ways;
        ways = place < 2 ? ways / (3 - place) : 1;
        const int which = left[at];
        memmove(left + at, left + at + 1, (size_t)(3 - at) * sizeof *left);
        const img_range *range = ranges[which];
        if (range->given)
            status = changes[which](b, img_draw_range(key, (uint64_t)which, range));
    }
    return status;
}

IMG_DEFINE_OP(color_jitter, IMG_STATISTIC, color_jitter, color_jitter_fields, .draws = 1, .plan = plan_color_jitter);
