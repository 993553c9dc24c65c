/* Steps that mix or choose channels. */
#include "image/program/colour.h"
#include "image/program/draws.h"
#include "image/program/op.h"
#include "image/program/plan.h"

/* ---- grayscale ---- */

typedef struct {
    int64_t channels;
    double p;
} grayscale;

static const img_field grayscale_fields[] = {
    IMG_INTEGER_FIELD(grayscale, channels, 1, 3),
    IMG_NUMBER_FIELD(grayscale, p, 0.0, 1.0),
    IMG_NO_FIELD,
};

static const char *check_grayscale(const void *params) {
    const grayscale *by = params;
    if (by->channels == 2)
        return "channels must be 1 or 3, not 2";
    return by->p < 1.0 && by->channels == 1 ? "p below 1 needs channels=3, which all pictures then have" : NULL;
}

static int is_always_gray(const void *params) { return ((const grayscale *)params)->p == 1.0; }

static void follow_grayscale(const void *params, img_shape *shape) {
    shape->channels = (int)((const grayscale *)params)->channels;
}

static void make_gray(uint8_t *rgbx, int64_t count, const img_change *change) { img_to_gray(rgbx, rgbx, count); }

static int plan_grayscale(img_builder *b, const void *params, uint64_t key) {
    const img_change change = {.apply = make_gray};
    b->alpha = 0; /* of the result, gray or not */
    b->gray |= ((const grayscale *)params)->channels == 1;
    return img_draw_whether(key, ((const grayscale *)params)->p) ? img_plan_change(b, &change) : IMG_OK;
}

IMG_DEFINE_OP(grayscale, IMG_POINT, grayscale, grayscale_fields, .draws = 1, .fixed = is_always_gray,
              .follow = follow_grayscale, .check = check_grayscale, .plan = plan_grayscale);
