/* Steps that resize: to a size, to one length, and a random part of the picture. Sizes and places are torchvision's. */
#include <math.h>

#include "image/program/axis.h"
#include "image/program/base.h"
#include "image/program/draws.h"
#include "image/program/op.h"
#include "image/program/plan.h"

/* ---- resize ---- */

typedef struct {
    img_size size;
    int64_t filter;
} resize;

static const img_field resize_fields[] = {
    IMG_SIZE_FIELDS(resize),
    IMG_CHOICE_FIELD(resize, filter, img_filter_names),
    IMG_NO_FIELD,
};

static int plan_resize(img_builder *b, const void *params, uint64_t key) {
    const resize *to = params;
    return img_plan_resize(b, to->size.height, to->size.width, (int)to->filter);
}

IMG_DEFINE_OP(resize, IMG_AXIS, resize, resize_fields, IMG_TO_SIZE, .plan = plan_resize);

/* ---- resize_short, resize_long ---- */

typedef struct {
    int64_t size, filter;
} resize_one;

static const img_field resize_one_fields[] = {
    IMG_INTEGER_FIELD(resize_one, size, 1, IMG_MAX_SIDE),
    IMG_CHOICE_FIELD(resize_one, filter, img_filter_names),
    IMG_NO_FIELD,
};

/* The shape when its shorter (longer) side becomes `size`. All factors are below 2^31, so the products fit; the other side is
 * int(size * long / short) of Python, and its converse. */
static void scale_to(img_shape *shape, int64_t size, int to_shorter) {
    const int is_wide = shape->width > shape->height;
    const int64_t longer = is_wide ? shape->width : shape->height, shorter = is_wide ? shape->height : shape->width;
    int64_t other = to_shorter ? size * longer / shorter : size * shorter / longer;
    other = other > 0 ? other : 1;
    const int height_is_size = is_wide == to_shorter;
    shape->height = height_is_size ? size : other;
    shape->width = height_is_size ? other : size;
}

static int plan_one(img_builder *b, const resize_one *to, int to_shorter) {
    img_shape shape = {img_plan_height(b), img_plan_width(b), 0};
    scale_to(&shape, to->size, to_shorter);
    return img_plan_resize(b, shape.height, shape.width, (int)to->filter);
}

static void follow_short(const void *params, img_shape *shape) {
    if (shape->height > 0)
        scale_to(shape, ((const resize_one *)params)->size, 1);
}

static int plan_short(img_builder *b, const void *params, uint64_t key) { return plan_one(b, params, 1); }

IMG_DEFINE_OP(resize_short, IMG_AXIS, resize_one, resize_one_fields, .follow = follow_short, .plan = plan_short);

static void follow_long(const void *params, img_shape *shape) {
    if (shape->height > 0)
        scale_to(shape, ((const resize_one *)params)->size, 0);
}

static int plan_long(img_builder *b, const void *params, uint64_t key) { return plan_one(b, params, 0); }

IMG_DEFINE_OP(resize_long, IMG_AXIS, resize_one, resize_one_fields, .follow = follow_long, .plan = plan_long);

/* ---- random_resized_crop ---- */

#define TRIES 10

typedef struct {
    img_size size;
    img_range scale, ratio; /* of the area; width over height */
    int64_t filter;
} random_resized_crop;

static const img_field random_resized_crop_fields[] = {
    IMG_SIZE_FIELDS(random_resized_crop),
    IMG_RANGE_FIELD(random_resized_crop, scale, 0.0, 1e6),
    IMG_RANGE_FIELD(random_resized_crop, ratio, 1e-6, 1e6),
    IMG_CHOICE_FIELD(random_resized_crop, filter, img_filter_names),
    IMG_NO_FIELD,
};

static int plan_random_resized_crop(img_builder *b, const void *params, uint64_t key) {
    const random_resized_crop *to = params;
    const int64_t h = img_plan_height(b), w = img_plan_width(b);
    const double pixels = (double)(h * w), log_low = log(to->ratio.low), log_high = log(to->ratio.high);
    int64_t top = -1, left = 0, height = h, width = w;
    for (uint64_t k = 0; k < 4 * TRIES && top < 0; k += 4) {
        double area = pixels * (to->scale.low + (to->scale.high - to->scale.low) * img_draw(key, k));
        double ratio = exp(log_low + (log_high - log_low) * img_draw(key, k + 1));
        double cut_w = rint(sqrt(area * ratio)), cut_h = rint(sqrt(area / ratio));
        if (cut_w < 1.0 || cut_w > (double)w || cut_h < 1.0 || cut_h > (double)h)
            continue;
        width = (int64_t)cut_w;
        height = (int64_t)cut_h;
        top = img_draw_below(key, k + 2, h - height + 1);
        left = img_draw_below(key, k + 3, w - width + 1);
    }
    if (top < 0) { /* the largest part of the middle that has a permitted ratio */
        double ratio = (double)w / (double)h;
        if (ratio < to->ratio.low)
            height = (int64_t)rint((double)w / to->ratio.low);
        else if (ratio > to->ratio.high)
            width = (int64_t)rint((double)h * to->ratio.high);
        height = height < 1 ? 1 : height > h ? h : height;
        width = width < 1 ? 1 : width > w ? w : width;
        top = (h - height) / 2;
        left = (w - width) / 2;
    }
    int status = img_plan_cut(b, top, left, height, width, 0);
    return status == IMG_OK ? img_plan_resize(b, to->size.height, to->size.width, (int)to->filter) : status;
}

IMG_DEFINE_OP(random_resized_crop, IMG_AXIS, random_resized_crop, random_resized_crop_fields,
              IMG_TO_SIZE, .draws = 1, .plan = plan_random_resized_crop);
