/* Steps that make several pictures of one: five_crop, ten_crop and tile. Their pictures lie below each other in the result,
 * each view_height rows high; what writes it to the batch takes them apart. */
#include <stdio.h>
#include <string.h>

#include "image/program/base.h"
#include "image/program/choice.h"
#include "image/program/op.h"
#include "image/program/plan.h"

/* Copy height x width pixels from (top, left) on of a picture that is `across` pixels wide. */
static void copy_part(uint8_t *out, const uint8_t *in, int64_t across, int64_t top, int64_t left, int64_t height,
                      int64_t width) {
    for (int64_t i = 0; i < height; i++)
        memcpy(out + 4 * i * width, in + 4 * ((top + i) * across + left), 4 * (size_t)width);
}

static int refuse(const img_builder *b, const char *what, const img_size *size) {
    snprintf(b->message, IMG_MESSAGE, "the picture has %lld x %lld pixels, %s %lld x %lld", (long long)img_plan_width(b),
             (long long)img_plan_height(b), what, (long long)size->width, (long long)size->height);
    return IMG_UNFIT;
}

static int plan_views(img_builder *b, const void *params, int64_t count, const img_size *size, const char *step,
                      void (*apply)(const img_whole *, const uint8_t *, int64_t, int64_t, uint8_t *, uint8_t *)) {
    const img_whole whole = {.apply = apply, .out_height = count * size->height, .out_width = size->width, .params = params};
    return img_plan_whole(b, &whole, step);
}

/* ---- five_crop, ten_crop ---- */

typedef struct {
    img_size size;
    int64_t vertical;
} crops;

static const img_field five_crop_fields[] = {
    IMG_SIZE_FIELDS(crops),
    IMG_NO_FIELD,
};

static const img_field ten_crop_fields[] = {
    IMG_SIZE_FIELDS(crops),
    IMG_INTEGER_FIELD(crops, vertical, 0, 1),
    IMG_NO_FIELD,
};

/* Python's round(difference / 2). */
static int64_t half(int64_t difference) {
    const int64_t down = difference / 2;
    return difference % 2 == 0 || down % 2 == 0 ? down : down + 1;
}

/* Top left, top right, bottom left, bottom right, middle. */
static void copy_five(uint8_t *out, const uint8_t *in, int64_t height, int64_t width, const img_size *size) {
    const int64_t down = height - size->height, right = width - size->width;
    const int64_t tops[] = {0, 0, down, down, half(down)}, lefts[] = {0, right, 0, right, half(right)};
    for (int k = 0; k < 5; k++, out += 4 * size->height * size->width)
        copy_part(out, in, width, tops[k], lefts[k], size->height, size->width);
}

static void apply_five(const img_whole *whole, const uint8_t *in, int64_t height, int64_t width, uint8_t *out,
                       uint8_t *work) {
    copy_five(out, in, height, width, &((const crops *)whole->params)->size);
}

/* Those of the picture, and those of the flipped picture. */
static void apply_ten(const img_whole *whole, const uint8_t *in, int64_t height, int64_t width, uint8_t *out,
                      uint8_t *work) {
    const crops *to = whole->params;
    copy_five(out, in, height, width, &to->size);
    for (int64_t i = 0; i < height; i++)
        if (to->vertical)
            memcpy(work + 4 * i * width, in + 4 * (height - 1 - i) * width, 4 * (size_t)width);
        else
            img_current_kernels()->reverse(work + 4 * i * width, in + 4 * i * width, width);
    copy_five(out + 5 * 4 * to->size.height * to->size.width, work, height, width, &to->size);
}

static int plan_crops(img_builder *b, const crops *to, int64_t count, const char *step) {
    if (to->size.height > img_plan_height(b) || to->size.width > img_plan_width(b))
        return refuse(b, "too few to cut out", &to->size);
    if (count == 5)
        return plan_views(b, to, count, &to->size, step, apply_five);
    const img_whole whole = {.apply = apply_ten, .out_height = count * to->size.height, .out_width = to->size.width,
                             .work_bytes = 4 * img_plan_height(b) * img_plan_width(b) + IMG_PAD, .params = to};
    return img_plan_whole(b, &whole, step);
}

static void follow_crops(const img_size *size, int64_t count, img_shape *shape) {
    shape->height = count * size->height;
    shape->width = size->width;
    shape->view_height = size->height;
}

static void follow_five(const void *params, img_shape *shape) { follow_crops(params, 5, shape); }

static int plan_five(img_builder *b, const void *params, uint64_t key) { return plan_crops(b, params, 5, "five_crop"); }

IMG_DEFINE_OP(five_crop, IMG_PICTURE, crops, five_crop_fields, .moves = 1, .check = img_check_size, .follow = follow_five,
              .plan = plan_five);

static void follow_ten(const void *params, img_shape *shape) { follow_crops(params, 10, shape); }

static int plan_ten(img_builder *b, const void *params, uint64_t key) { return plan_crops(b, params, 10, "ten_crop"); }

IMG_DEFINE_OP(ten_crop, IMG_PICTURE, crops, ten_crop_fields, .moves = 1, .check = img_check_size, .follow = follow_ten,
              .plan = plan_ten);

/* ---- tile ---- */

typedef struct {
    img_size size;
} tile;

static const img_field tile_fields[] = {
    IMG_SIZE_FIELDS(tile),
    IMG_NO_FIELD,
};

static void apply_tile(const img_whole *whole, const uint8_t *in, int64_t height, int64_t width, uint8_t *out,
                       uint8_t *work) {
    const img_size *size = &((const tile *)whole->params)->size;
    for (int64_t top = 0; top < height; top += size->height)
        for (int64_t left = 0; left < width; left += size->width, out += 4 * size->height * size->width)
            copy_part(out, in, width, top, left, size->height, size->width);
}

static int plan_tile(img_builder *b, const void *params, uint64_t key) {
    const img_size *size = &((const tile *)params)->size;
    const int64_t height = img_plan_height(b), width = img_plan_width(b);
    if (height % size->height != 0 || width % size->width != 0)
        return refuse(b, "no whole number of tiles of", size);
    return plan_views(b, params, height / size->height * (width / size->width), size, "tile", apply_tile);
}

static void follow_tile(const void *params, img_shape *shape) {
    const img_size *size = &((const tile *)params)->size;
    const int64_t count = shape->height / size->height * (shape->width / size->width);
    shape->height = count * size->height;
    shape->width = count > 0 ? size->width : 0;
    shape->view_height = size->height;
}

IMG_DEFINE_OP(tile, IMG_PICTURE, tile, tile_fields, .moves = 1, .check = img_check_size, .follow = follow_tile,
              .plan = plan_tile);
