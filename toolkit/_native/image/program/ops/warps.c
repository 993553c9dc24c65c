/* Steps that shear, move and turn a picture by a number that is drawn, as the published policies do: torchvision's. */
#include <math.h>

#include "image/program/base.h"
#include "image/program/draws.h"
#include "image/program/op.h"
#include "image/program/plan.h"
#include "image/program/warp.h"

#define MAX_SHEAR 100.0
#define MAX_DEGREES 3600.0

/* What is drawn between two ends, and then perhaps turned round. */
typedef struct {
    img_range range;
    int64_t random_sign;
} magnitude;

static double draw_magnitude(const magnitude *by, uint64_t key) {
    const double drawn = by->range.low + (by->range.high - by->range.low) * img_draw(key, 0);
    return by->random_sign && img_draw(key, 1) < 0.5 ? -drawn : drawn;
}

static int is_magnitude_fixed(const magnitude *by) { return !by->random_sign && by->range.low == by->range.high; }

#define RANGE(params, name, field, low, high) {name, IMG_RANGE, IMG_OFFSET(params, field.range, img_range), low, high, NULL, 0}
#define SIGN(params, field) {"random_sign", IMG_INTEGER, IMG_OFFSET(params, field.random_sign, int64_t), 0, 1, NULL, 0}

/* ---- shear_x, shear_y: about the top left corner ---- */

typedef struct {
    magnitude magnitude;
    img_taking taking;
} shear_axis;

static const img_field shear_fields[] = {
    RANGE(shear_axis, "magnitude", magnitude, -MAX_SHEAR, MAX_SHEAR),
    SIGN(shear_axis, magnitude),
    IMG_TAKING_FIELDS(shear_axis),
    IMG_NO_FIELD,
};

static int is_shear_fixed(const void *params) { return is_magnitude_fixed(&((const shear_axis *)params)->magnitude); }

static int plan_shear(img_builder *b, const shear_axis *by, int axis, uint64_t key, const char *step) {
    const double corner[2] = {0.0, 0.0}, pixels[2] = {0.0, 0.0};
    const double degrees = atan(draw_magnitude(&by->magnitude, key)) * (180.0 / 3.14159265358979323846);
    const double shear[2] = {axis == 0 ? degrees : 0.0, axis == 1 ? degrees : 0.0};
    img_map map;
    img_affine_map(corner, 0.0, pixels, 1.0, shear, &map);
    return img_plan_warp(b, &map, img_plan_height(b), img_plan_width(b), &by->taking, step);
}

static int plan_shear_x(img_builder *b, const void *params, uint64_t key) {
    return plan_shear(b, params, 0, key, "shear_x");
}

static int plan_shear_y(img_builder *b, const void *params, uint64_t key) {
    return plan_shear(b, params, 1, key, "shear_y");
}

IMG_DEFINE_OP(shear_x, IMG_PICTURE, shear_axis, shear_fields,
              .draws = 1, .moves = 1, .fixed = is_shear_fixed, .plan = plan_shear_x);
IMG_DEFINE_OP(shear_y, IMG_PICTURE, shear_axis, shear_fields,
              .draws = 1, .moves = 1, .fixed = is_shear_fixed, .plan = plan_shear_y);

/* ---- translate_x, translate_y ---- */

static const char *const units[] = {"pixels", "fraction", NULL};

typedef struct {
    magnitude magnitude;
    int64_t unit;  /* 1: of the side */
    int64_t whole; /* what lies behind the point is cut off */
    img_taking taking;
} translate_axis;

static const img_field translate_fields[] = {
    RANGE(translate_axis, "magnitude", magnitude, -IMG_MAX_SIDE, IMG_MAX_SIDE),
    SIGN(translate_axis, magnitude),
    IMG_CHOICE_FIELD(translate_axis, unit, units),
    IMG_INTEGER_FIELD(translate_axis, whole, 0, 1),
    IMG_TAKING_FIELDS(translate_axis),
    IMG_NO_FIELD,
};

static int is_translate_fixed(const void *params) {
    return is_magnitude_fixed(&((const translate_axis *)params)->magnitude);
}

static int plan_translate(img_builder *b, const translate_axis *by, int axis, uint64_t key, const char *step) {
    const int64_t h = img_plan_height(b), w = img_plan_width(b);
    double pixels = draw_magnitude(&by->magnitude, key);
    pixels = by->unit == 1 ? pixels * (double)(axis == 0 ? w : h) : pixels;
    pixels = by->whole ? trunc(pixels) : pixels;
    const double center[2] = {(double)w * 0.5, (double)h * 0.5}, shear[2] = {0.0, 0.0};
    const double move[2] = {axis == 0 ? pixels : 0.0, axis == 1 ? pixels : 0.0};
    img_map map;
    img_affine_map(center, 0.0, move, 1.0, shear, &map);
    return img_plan_warp(b, &map, h, w, &by->taking, step);
}

static int plan_translate_x(img_builder *b, const void *params, uint64_t key) {
    return plan_translate(b, params, 0, key, "translate_x");
}

static int plan_translate_y(img_builder *b, const void *params, uint64_t key) {
    return plan_translate(b, params, 1, key, "translate_y");
}

IMG_DEFINE_OP(translate_x, IMG_PICTURE, translate_axis, translate_fields,
              .draws = 1, .moves = 1, .fixed = is_translate_fixed, .plan = plan_translate_x);
IMG_DEFINE_OP(translate_y, IMG_PICTURE, translate_axis, translate_fields,
              .draws = 1, .moves = 1, .fixed = is_translate_fixed, .plan = plan_translate_y);

/* ---- rotate ---- */

typedef struct {
    magnitude degrees;
    int64_t expand, centered; /* centered: about the picture's middle */
    double center[2];
    img_taking taking;
} rotate;

static const img_field rotate_fields[] = {
    RANGE(rotate, "degrees", degrees, -MAX_DEGREES, MAX_DEGREES),
    SIGN(rotate, degrees),
    IMG_INTEGER_FIELD(rotate, expand, 0, 1),
    IMG_INTEGER_FIELD(rotate, centered, 0, 1),
    IMG_NUMBERS_FIELD(rotate, center, -1e6, 1e6),
    IMG_TAKING_FIELDS(rotate),
    IMG_NO_FIELD,
};

static void follow_rotate(const void *params, img_shape *shape) {
    if (((const rotate *)params)->expand)
        shape->height = shape->width = 0;
}

static int is_rotate_fixed(const void *params) { return is_magnitude_fixed(&((const rotate *)params)->degrees); }

static int plan_rotate(img_builder *b, const void *params, uint64_t key) {
    const rotate *by = params;
    const double degrees = draw_magnitude(&by->degrees, key);
    int64_t height = img_plan_height(b), width = img_plan_width(b);
    const int is_square = height == width;
    img_taking taking = by->taking;
    img_map map;
    img_rotate_map(degrees, by->centered ? NULL : by->center, (int)by->expand, &height, &width, &map);
    if (by->centered && (fmod(degrees, 180.0) == 0.0 || ((by->expand || is_square) && fmod(degrees, 90.0) == 0.0)))
        taking.filter = IMG_TAKE_NEAREST; /* pixels are only moved */
    return img_plan_warp(b, &map, height, width, &taking, "rotate");
}

IMG_DEFINE_OP(rotate, IMG_PICTURE, rotate, rotate_fields,
              .draws = 1, .moves = 1, .fixed = is_rotate_fixed, .follow = follow_rotate, .plan = plan_rotate);
