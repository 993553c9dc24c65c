/* Steps that say which pixels stay, and where: crops, pad and flips. Places are torchvision's. */
#include "image/program/base.h"
#include "image/program/draws.h"
#include "image/program/op.h"
#include "image/program/plan.h"

/* ---- crop ---- */

typedef struct {
    img_size size;
    int64_t top, left;
} crop;

static const img_field crop_fields[] = {
    IMG_INTEGER_FIELD(crop, top, -IMG_MAX_SIDE, IMG_MAX_SIDE),
    IMG_INTEGER_FIELD(crop, left, -IMG_MAX_SIDE, IMG_MAX_SIDE),
    IMG_SIZE_FIELDS(crop),
    IMG_NO_FIELD,
};

static int plan_crop(img_builder *b, const void *params, uint64_t key) {
    const crop *to = params;
    return img_plan_cut(b, to->top, to->left, to->size.height, to->size.width, 0);
}

IMG_DEFINE_OP(crop, IMG_AXIS, crop, crop_fields, IMG_TO_SIZE, .plan = plan_crop);

/* ---- center_crop, random_crop ---- */

/* Python's round(difference / 2), which rounds halves to even. */
static int64_t half(int64_t difference) {
    int64_t down = difference / 2;
    return difference % 2 == 0 || down % 2 == 0 ? down : down + 1;
}

/* Where a crop in the middle starts; below 0 when the picture is smaller. */
static int64_t middle(int64_t size, int64_t cut) { return cut > size ? -((cut - size) / 2) : half(size - cut); }

typedef struct {
    img_size size;
    int64_t halves; /* 1: down */
} center_crop;

static const char *const halves_names[] = {"even", "down", NULL};

static const img_field center_crop_fields[] = {
    IMG_SIZE_FIELDS(center_crop),
    IMG_CHOICE_FIELD(center_crop, halves, halves_names),
    IMG_NO_FIELD,
};

static int plan_center_crop(img_builder *b, const void *params, uint64_t key) {
    const center_crop *to = params;
    const int64_t height = to->size.height, width = to->size.width;
    const int64_t more_h = img_plan_height(b) - height, more_w = img_plan_width(b) - width;
    const int64_t top = to->halves && more_h > 0 ? more_h / 2 : middle(img_plan_height(b), height);
    const int64_t left = to->halves && more_w > 0 ? more_w / 2 : middle(img_plan_width(b), width);
    return img_plan_cut(b, top, left, height, width, 0);
}

IMG_DEFINE_OP(center_crop, IMG_AXIS, center_crop, center_crop_fields, IMG_TO_SIZE, .plan = plan_center_crop);

typedef struct {
    img_size size;
} sized;

static const img_field size_fields[] = {
    IMG_SIZE_FIELDS(sized),
    IMG_NO_FIELD,
};

static int64_t somewhere(uint64_t key, uint64_t k, int64_t size, int64_t cut) {
    return cut > size ? middle(size, cut) : img_draw_below(key, k, size - cut + 1);
}

static int plan_random_crop(img_builder *b, const void *params, uint64_t key) {
    const sized *to = params;
    const int64_t top = somewhere(key, 0, img_plan_height(b), to->size.height);
    const int64_t left = somewhere(key, 1, img_plan_width(b), to->size.width);
    return img_plan_cut(b, top, left, to->size.height, to->size.width, 0);
}

IMG_DEFINE_OP(random_crop, IMG_AXIS, sized, size_fields, IMG_TO_SIZE, .draws = 1, .plan = plan_random_crop);

/* ---- pad ---- */

typedef struct {
    int64_t top, left, bottom, right, fill;
} pad;

static const img_field pad_fields[] = {
    IMG_INTEGER_FIELD(pad, top, 0, IMG_MAX_SIDE),
    IMG_INTEGER_FIELD(pad, left, 0, IMG_MAX_SIDE),
    IMG_INTEGER_FIELD(pad, bottom, 0, IMG_MAX_SIDE),
    IMG_INTEGER_FIELD(pad, right, 0, IMG_MAX_SIDE),
    IMG_INTEGER_FIELD(pad, fill, 0, 255),
    IMG_NO_FIELD,
};

static void follow_pad(const void *params, img_shape *shape) {
    const pad *by = params;
    if (shape->height > 0) {
        shape->height += by->top + by->bottom;
        shape->width += by->left + by->right;
    }
}

static int plan_pad(img_builder *b, const void *params, uint64_t key) {
    const pad *by = params;
    const int64_t h = img_plan_height(b) + by->top + by->bottom, w = img_plan_width(b) + by->left + by->right;
    int status = img_plan_cut(b, -by->top, -by->left, h, w, (int)by->fill);
    return status == IMG_OK ? img_plan_check_size(b, "pad") : status;
}

IMG_DEFINE_OP(pad, IMG_AXIS, pad, pad_fields, .follow = follow_pad, .plan = plan_pad);

/* ---- hflip, vflip ---- */

typedef struct {
    double p;
} flip;

static const img_field flip_fields[] = {
    IMG_NUMBER_FIELD(flip, p, 0.0, 1.0),
    IMG_NO_FIELD,
};

static int plan_hflip(img_builder *b, const void *params, uint64_t key) {
    return img_plan_flip(b, img_draw(key, 0) < ((const flip *)params)->p, 0);
}

IMG_DEFINE_OP(hflip, IMG_AXIS, flip, flip_fields, .draws = 1, .plan = plan_hflip);

static int plan_vflip(img_builder *b, const void *params, uint64_t key) {
    return img_plan_flip(b, 0, img_draw(key, 0) < ((const flip *)params)->p);
}

IMG_DEFINE_OP(vflip, IMG_AXIS, flip, flip_fields, .draws = 1, .plan = plan_vflip);
