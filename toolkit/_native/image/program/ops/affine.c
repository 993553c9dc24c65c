/* Steps that move pixels by an affine or perspective map whose parts are all drawn: torchvision's. */
#include <math.h>

#include "image/program/base.h"
#include "image/program/draws.h"
#include "image/program/op.h"
#include "image/program/plan.h"
#include "image/program/warp.h"

#define MAX_DEGREES 3600.0

static double draw_between(double low, double high, uint64_t key, uint64_t k) {
    return low + (high - low) * img_draw(key, k);
}

static int is_one(const img_range *range) { return range->low == range->high; }

/* ---- affine ---- */

typedef struct {
    img_range degrees, scale, shear_x, shear_y;
    double translate[2]; /* at most, as shares of width and height */
    int64_t centered;    /* about the picture's middle */
    double center[2];
    img_taking taking;
} affine;

static const img_field affine_fields[] = {
    IMG_RANGE_FIELD(affine, degrees, -MAX_DEGREES, MAX_DEGREES),
    IMG_NUMBERS_FIELD(affine, translate, 0.0, 1.0),
    IMG_RANGE_FIELD(affine, scale, 1e-3, 1e3),
    IMG_RANGE_FIELD(affine, shear_x, -MAX_DEGREES, MAX_DEGREES),
    IMG_RANGE_FIELD(affine, shear_y, -MAX_DEGREES, MAX_DEGREES),
    IMG_INTEGER_FIELD(affine, centered, 0, 1),
    IMG_NUMBERS_FIELD(affine, center, -1e6, 1e6),
    IMG_TAKING_FIELDS(affine),
    IMG_NO_FIELD,
};

static int is_affine_fixed(const void *params) {
    const affine *by = params;
    return is_one(&by->degrees) && is_one(&by->scale) && is_one(&by->shear_x) && is_one(&by->shear_y) &&
           by->translate[0] == 0.0 && by->translate[1] == 0.0;
}

static int plan_affine(img_builder *b, const void *params, uint64_t key) {
    const affine *by = params;
    const int64_t h = img_plan_height(b), w = img_plan_width(b);
    const double far_x = by->translate[0] * (double)w, far_y = by->translate[1] * (double)h;
    const double middle[2] = {(double)w * 0.5, (double)h * 0.5};
    const double move[2] = {nearbyint(draw_between(-far_x, far_x, key, 1)), nearbyint(draw_between(-far_y, far_y, key, 2))};
    const double shear[2] = {draw_between(by->shear_x.low, by->shear_x.high, key, 4),
                             draw_between(by->shear_y.low, by->shear_y.high, key, 5)};
    img_map map;
    img_affine_map(by->centered ? middle : by->center, draw_between(by->degrees.low, by->degrees.high, key, 0), move,
                   draw_between(by->scale.low, by->scale.high, key, 3), shear, &map);
    return img_plan_warp(b, &map, h, w, &by->taking, "affine");
}

IMG_DEFINE_OP(affine, IMG_PICTURE, affine, affine_fields, .draws = 1, .moves = 1, .fixed = is_affine_fixed,
              .plan = plan_affine);

/* ---- shear ---- */

typedef struct {
    img_range x, y;
    int64_t centered;
    double center[2];
    img_taking taking;
} shear;

static const img_field shear_fields[] = {
    IMG_RANGE_FIELD(shear, x, -MAX_DEGREES, MAX_DEGREES),
    IMG_RANGE_FIELD(shear, y, -MAX_DEGREES, MAX_DEGREES),
    IMG_INTEGER_FIELD(shear, centered, 0, 1),
    IMG_NUMBERS_FIELD(shear, center, -1e6, 1e6),
    IMG_TAKING_FIELDS(shear),
    IMG_NO_FIELD,
};

static int is_shear_fixed(const void *params) {
    return is_one(&((const shear *)params)->x) && is_one(&((const shear *)params)->y);
}

static int plan_shear(img_builder *b, const void *params, uint64_t key) {
    const shear *by = params;
    const int64_t h = img_plan_height(b), w = img_plan_width(b);
    const double middle[2] = {(double)w * 0.5, (double)h * 0.5}, move[2] = {0.0, 0.0};
    const double degrees[2] = {draw_between(by->x.low, by->x.high, key, 0), draw_between(by->y.low, by->y.high, key, 1)};
    img_map map;
    img_affine_map(by->centered ? middle : by->center, 0.0, move, 1.0, degrees, &map);
    return img_plan_warp(b, &map, h, w, &by->taking, "shear");
}

IMG_DEFINE_OP(shear, IMG_PICTURE, shear, shear_fields, .draws = 1, .moves = 1, .fixed = is_shear_fixed,
              .plan = plan_shear);

/* ---- perspective ---- */

typedef struct {
    double distortion_scale, p;
    img_taking taking;
} perspective;

static const img_field perspective_fields[] = {
    IMG_NUMBER_FIELD(perspective, distortion_scale, 0.0, 1.0),
    IMG_NUMBER_FIELD(perspective, p, 0.0, 1.0),
    IMG_TAKING_FIELDS(perspective),
    IMG_NO_FIELD,
};

/* Solve eight equations by Gaussian elimination with pivots: each row is eight factors and the sum. Returns whether they
 * have a solution. */
static int solve(double rows[8][9], double *x) {
    for (int k = 0; k < 8; k++) {
        int pivot = k;
        for (int i = k + 1; i < 8; i++)
            pivot = fabs(rows[i][k]) > fabs(rows[pivot][k]) ? i : pivot;
        if (fabs(rows[pivot][k]) < 1e-9)
            return 0;
        for (int j = 0; j < 9; j++) {
            const double moved = rows[k][j];
            rows[k][j] = rows[pivot][j];
            rows[pivot][j] = moved;
        }
        for (int i = 0; i < 8; i++) {
            const double factor = i == k ? 0.0 : rows[i][k] / rows[k][k];
            for (int j = k; j < 9; j++)
                rows[i][j] -= factor * rows[k][j];
        }
    }
    for (int k = 0; k < 8; k++)
        x[k] = rows[k][8] / rows[k][k];
    return 1;
}

static int plan_perspective(img_builder *b, const void *params, uint64_t key) {
    const perspective *by = params;
    const int64_t h = img_plan_height(b), w = img_plan_width(b);
    if (!(img_draw(key, 0) < by->p))
        return IMG_OK;
    const int64_t far_x = (int64_t)(by->distortion_scale * (double)(w / 2)), far_y = (int64_t)(by->distortion_scale * (double)(h / 2));
    double rows[8][9] = {{0}};
    for (int corner = 0; corner < 4; corner++) { /* top left, top right, bottom right, bottom left */
        const int is_right = corner == 1 || corner == 2, is_bottom = corner >= 2;
        const double from_x = is_right ? (double)(w - 1) : 0.0, from_y = is_bottom ? (double)(h - 1) : 0.0;
        const int64_t in_x = img_draw_below(key, (uint64_t)(1 + 2 * corner), far_x + 1);
        const int64_t in_y = img_draw_below(key, (uint64_t)(2 + 2 * corner), far_y + 1);
        const double x = (double)(is_right ? w - far_x - 1 + in_x : in_x), y = (double)(is_bottom ? h - far_y - 1 + in_y : in_y);
        const double for_x[9] = {x, y, 1, 0, 0, 0, -from_x * x, -from_x * y, from_x};
        const double for_y[9] = {0, 0, 0, x, y, 1, -from_y * x, -from_y * y, from_y};
        for (int j = 0; j < 9; j++) {
            rows[2 * corner][j] = for_x[j];
            rows[2 * corner + 1][j] = for_y[j];
        }
    }
    img_map map = {.perspective = 1};
    if (!solve(rows, map.matrix))
        return IMG_OK; /* the corners lie on a line: nothing of the picture would be left */
    for (int k = 0; k < 8; k++)
        map.matrix[k] = (double)(float)map.matrix[k]; /* as torchvision */
    return img_plan_warp(b, &map, h, w, &by->taking, "perspective");
}

IMG_DEFINE_OP(perspective, IMG_PICTURE, perspective, perspective_fields, .draws = 1, .moves = 1, .plan = plan_perspective);
