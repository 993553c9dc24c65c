/* Steps that fit a picture into a size and keep its proportions. Sizes and places are Pillow's, and scale_jitter's are
 * torchvision's. */
#include <math.h>

#include "image/program/axis.h"
#include "image/program/base.h"
#include "image/program/draws.h"
#include "image/program/op.h"
#include "image/program/plan.h"

typedef struct {
    img_size size;
    int64_t filter;
} fit;

static const img_field fit_fields[] = {
    IMG_SIZE_FIELDS(fit),
    IMG_CHOICE_FIELD(fit, filter, img_filter_names),
    IMG_NO_FIELD,
};

/* ---- cover ---- */

/* Pillow passes the ends of a box as floats. */
static void put_side(double whole, double part, double *at, double *span) {
    const double place = (whole - part) * 0.5;
    const float begin = (float)place, end = (float)(place + part);
    *at = (double)begin;
    *span = (double)(end - begin);
}

static int plan_cover(img_builder *b, const void *params, uint64_t key) {
    const fit *to = params;
    const double h = (double)img_plan_height(b), w = (double)img_plan_width(b);
    const double ratio = (double)to->size.width / (double)to->size.height;
    img_box box = {.height = h, .width = w};
    if (w / h > ratio)
        put_side(w, ratio * h, &box.left, &box.width);
    else if (w / h < ratio)
        put_side(h, w / ratio, &box.top, &box.height);
    return img_plan_resize_box(b, &box, to->size.height, to->size.width, (int)to->filter);
}

IMG_DEFINE_OP(cover, IMG_AXIS, fit, fit_fields, IMG_TO_SIZE, .plan = plan_cover);

/* ---- contain ---- */

typedef struct {
    img_size size;
    int64_t filter, pad, fill;
} contain;

static const img_field contain_fields[] = {
    IMG_SIZE_FIELDS(contain),
    IMG_CHOICE_FIELD(contain, filter, img_filter_names),
    IMG_INTEGER_FIELD(contain, pad, 0, 1),
    IMG_INTEGER_FIELD(contain, fill, 0, 255),
    IMG_NO_FIELD,
};

static int64_t at_least_one(double size) { return size < 1.0 ? 1 : (int64_t)size; }

/* The largest size within `most` that a picture of `shape` has. */
static img_size contained(const img_size *most, const img_shape *shape) {
    const double h = (double)shape->height, w = (double)shape->width;
    const double ratio = (double)most->width / (double)most->height;
    img_size size = *most;
    if (w / h > ratio)
        size.height = at_least_one(rint(h / w * (double)most->width));
    else if (w / h < ratio)
        size.width = at_least_one(rint(w / h * (double)most->height));
    return size;
}

static void follow_contain(const void *params, img_shape *shape) {
    const contain *to = params;
    if (to->pad || shape->height == 0) {
        shape->height = to->pad ? to->size.height : 0;
        shape->width = to->pad ? to->size.width : 0;
        return;
    }
    const img_size size = contained(&to->size, shape);
    shape->height = size.height;
    shape->width = size.width;
}

static int plan_contain(img_builder *b, const void *params, uint64_t key) {
    const contain *to = params;
    const img_shape shape = {img_plan_height(b), img_plan_width(b), 0};
    const img_size size = contained(&to->size, &shape);
    int status = img_plan_resize(b, size.height, size.width, (int)to->filter);
    if (status != IMG_OK || !to->pad)
        return status;
    /* Python's round() of the half. */
    const int64_t top = (int64_t)rint((double)(to->size.height - size.height) * 0.5);
    const int64_t left = (int64_t)rint((double)(to->size.width - size.width) * 0.5);
    return img_plan_cut(b, -top, -left, to->size.height, to->size.width, (int)to->fill);
}

/* Without padding the size is a bound, which may be wide; what comes of a picture is checked with it. */
static const char *check_contain(const void *params) {
    return ((const contain *)params)->pad ? img_check_size(params) : NULL;
}

IMG_DEFINE_OP(contain, IMG_AXIS, contain, contain_fields, .check = check_contain, .follow = follow_contain,
              .plan = plan_contain);

/* ---- thumbnail ---- */

/* The one next to `number` that leaves the ratio of the sides closest to `aspect`; of two the smaller. */
static int64_t nearer(double number, double aspect, double other, int is_width) {
    const double low = floor(number), high = ceil(number);
    const double off_low = low == 0.0 && !is_width ? 0.0 : fabs(aspect - (is_width ? low / other : other / low));
    const double off_high = fabs(aspect - (is_width ? high / other : other / high));
    return at_least_one(off_high < off_low ? high : low);
}

/* The size of a picture that is no larger than `most`. */
static img_size no_larger(const img_size *most, const img_shape *shape) {
    img_size size = *most;
    if (most->width >= shape->width && most->height >= shape->height)
        return (img_size){shape->height, shape->width};
    const double aspect = (double)shape->width / (double)shape->height;
    const double x = (double)most->width, y = (double)most->height;
    if (x / y >= aspect)
        size.width = nearer(y * aspect, aspect, y, 1);
    else
        size.height = nearer(x / aspect, aspect, x, 0);
    return size;
}

static void follow_thumbnail(const void *params, img_shape *shape) {
    if (shape->height == 0)
        return;
    const img_size size = no_larger(&((const fit *)params)->size, shape);
    shape->height = size.height;
    shape->width = size.width;
}

static int plan_thumbnail(img_builder *b, const void *params, uint64_t key) {
    const fit *to = params;
    const img_shape shape = {img_plan_height(b), img_plan_width(b), 0};
    const img_size size = no_larger(&to->size, &shape);
    return img_plan_resize(b, size.height, size.width, (int)to->filter);
}

IMG_DEFINE_OP(thumbnail, IMG_AXIS, fit, fit_fields, .follow = follow_thumbnail, .plan = plan_thumbnail);

/* ---- scale_jitter ---- */

typedef struct {
    img_size size;
    img_range scale_range;
    int64_t filter;
} scale_jitter;

static const img_field scale_jitter_fields[] = {
    IMG_SIZE_FIELDS(scale_jitter),
    IMG_RANGE_FIELD(scale_jitter, scale_range, 1e-3, 1e3),
    IMG_CHOICE_FIELD(scale_jitter, filter, img_filter_names),
    IMG_NO_FIELD,
};

static void follow_scale_jitter(const void *params, img_shape *shape) { shape->height = shape->width = 0; }

static int plan_scale_jitter(img_builder *b, const void *params, uint64_t key) {
    const scale_jitter *to = params;
    const double h = (double)img_plan_height(b), w = (double)img_plan_width(b);
    const double scale = to->scale_range.low + img_draw(key, 0) * (to->scale_range.high - to->scale_range.low);
    const double by_height = (double)to->size.height / h, by_width = (double)to->size.width / w;
    const double r = (by_height < by_width ? by_height : by_width) * scale;
    return img_plan_resize(b, at_least_one(h * r), at_least_one(w * r), (int)to->filter);
}

IMG_DEFINE_OP(scale_jitter, IMG_AXIS, scale_jitter, scale_jitter_fields, .draws = 1,
              .follow = follow_scale_jitter, .plan = plan_scale_jitter);
