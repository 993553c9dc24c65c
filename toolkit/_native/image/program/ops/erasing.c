/* Steps that put values in place of rectangles: of pixels, or of a result's numbers. */
#include <math.h>
#include <string.h>

#include "image/program/base.h"
#include "image/program/draws.h"
#include "image/program/normal.h"
#include "image/program/op.h"
#include "image/program/plan.h"
#include "image/program/tensor.h"

/* What comes in place of a rectangle. */
typedef enum { CONSTANT, RANDOM, RANDOM_COLOR } erasing_mode;
static const char *const modes[] = {"constant", "random", "random_color", NULL};

#define VALUES ((uint64_t)1 << 33) /* what rectangle r is filled with is drawn by the key VALUES + r of the step's */

/* ---- Pixels ---- */

static void fill_row(uint8_t *rgbx, int64_t count, int64_t y, const img_change *change) {
    const img_rectangle *box = &change->box;
    if (y < box->top || y >= box->top + box->height)
        return;
    rgbx += 4 * box->left;
    for (int64_t x = 0; x < box->width; x++)
        memcpy(rgbx + 4 * x, &change->level, 4);
}

/* Each pixel by the lower 32 bits of its draw. */
IMG_CLONES static void draw_row(uint8_t *rgbx, int64_t count, int64_t y, const img_change *change) {
    const img_rectangle *box = &change->box;
    if (y < box->top || y >= box->top + box->height)
        return;
    const uint64_t key = img_fold(change->key, (uint64_t)(y - box->top));
    const uint32_t kept = change->gray ? 0xFF : 0xFFFFFFFF, times = change->gray ? 0x01010101 : 1;
    rgbx += 4 * box->left;
    for (int64_t x = 0; x < box->width; x++) {
        const uint32_t pixel = ((uint32_t)img_fold(key, (uint64_t)x) & kept) * times;
        memcpy(rgbx + 4 * x, &pixel, 4);
    }
}

static int erase_pixels(img_builder *b, const img_rectangle *box, int64_t mode, const double *value, uint64_t key) {
    img_change change = {.apply_at = mode == RANDOM ? draw_row : fill_row, .box = *box, .key = key, .gray = b->gray};
    uint8_t pixel[4];
    const uint64_t drawn = img_fold(key, 0);
    for (int c = 0; c < 4; c++) {
        const int from = b->gray ? 0 : c;
        const double level = value[from] < 0.0 ? 0.0 : value[from] > 255.0 ? 255.0 : value[from];
        pixel[c] = mode == RANDOM_COLOR ? (uint8_t)(drawn >> 8 * from) : (uint8_t)level;
    }
    memcpy(&change.level, pixel, 4);
    return img_plan_change(b, &change);
}

/* ---- Numbers ---- */

static void erase_numbers(const img_tensor *t, const img_rectangle *box, int64_t mode, const double *value, uint64_t key) {
    const int64_t channels = t->layout->channels;
    float drawn[IMG_NORMALS];
    img_draw_normals(drawn, key, 0);
    for (int64_t c = 0; c < channels && mode != RANDOM; c++)
        for (int64_t x = 0; x < box->width; x++)
            t->values[c * t->plane + x] = mode == CONSTANT ? (float)value[c] : drawn[c];
    for (int64_t y = 0; y < box->height; y++) {
        for (int64_t c = 0; c < channels && mode == RANDOM; c++) {
            const uint64_t row = img_fold(img_fold(key, (uint64_t)c), (uint64_t)y);
            for (int64_t x = 0; x < box->width; x += IMG_NORMALS)
                img_draw_normals(t->values + c * t->plane + x, row, x / IMG_NORMALS);
        }
        img_store_values(t, box->top + y, box->left, box->width);
    }
}

/* ---- random_erasing ---- */

typedef struct {
    double p;
    img_range scale, ratio, count;
    double value[4];
    int64_t mode;
} random_erasing;

static const img_field random_erasing_fields[] = {
    IMG_NUMBER_FIELD(random_erasing, p, 0.0, 1.0),
    IMG_RANGE_FIELD(random_erasing, scale, 0.0, 1.0),
    IMG_RANGE_FIELD(random_erasing, ratio, 1e-3, 1e3),
    IMG_RANGE_FIELD(random_erasing, count, 1.0, 64.0),
    IMG_NUMBERS_FIELD(random_erasing, value, -1e6, 1e6),
    IMG_CHOICE_FIELD(random_erasing, mode, modes),
    IMG_NO_FIELD,
};

/* How many rectangles there are. */
static int64_t draw_count(const random_erasing *by, uint64_t key) {
    if (img_draw(key, 0) >= by->p)
        return 0;
    const int64_t fewest = (int64_t)by->count.low;
    return fewest + img_draw_below(key, 1, (int64_t)by->count.high - fewest + 1);
}

/* Rectangle r of `count`; whether one of ten attempts fits. */
static int draw_box(const random_erasing *by, uint64_t key, int64_t r, int64_t count, int64_t height, int64_t width,
                    img_rectangle *box) {
    const double log_low = log(by->ratio.low), log_high = log(by->ratio.high);
    for (uint64_t a = 0, k = 2 + 40 * (uint64_t)r; a < 10; a++, k += 4) {
        const double share = by->scale.low + (by->scale.high - by->scale.low) * img_draw(key, k);
        const double area = (double)(height * width) * share / (double)count;
        const double ratio = exp(log_low + (log_high - log_low) * img_draw(key, k + 1));
        box->height = (int64_t)rint(sqrt(area * ratio));
        box->width = (int64_t)rint(sqrt(area / ratio));
        if (box->height < height && box->width < width) {
            box->top = img_draw_below(key, k + 2, height - box->height + 1);
            box->left = img_draw_below(key, k + 3, width - box->width + 1);
            return 1;
        }
    }
    return 0;
}

static int plan_random_erasing(img_builder *b, const void *params, uint64_t key) {
    const random_erasing *by = params;
    const int64_t count = draw_count(by, key), height = img_plan_height(b), width = img_plan_width(b);
    int status = IMG_OK;
    img_rectangle box;
    for (int64_t r = 0; r < count && status == IMG_OK; r++)
        if (draw_box(by, key, r, count, height, width, &box))
            status = erase_pixels(b, &box, by->mode, by->value, img_fold(key, VALUES + (uint64_t)r));
    return status;
}

static void erase_tensor(const img_tensor *tensor, const void *params, uint64_t key) {
    const random_erasing *by = params;
    const int64_t count = draw_count(by, key);
    img_rectangle box;
    for (int64_t r = 0; r < count; r++)
        if (draw_box(by, key, r, count, tensor->height, tensor->width, &box))
            erase_numbers(tensor, &box, by->mode, by->value, img_fold(key, VALUES + (uint64_t)r));
}

IMG_DEFINE_OP(random_erasing, IMG_POINT, random_erasing, random_erasing_fields, .draws = 1, .plan = plan_random_erasing,
              .on_tensor = erase_tensor);

/* ---- cutout ---- */

typedef struct {
    img_size size;
    int64_t holes;
    double value[4], p;
} cutout;

static const img_field cutout_fields[] = {
    IMG_SIZE_FIELDS(cutout),
    IMG_INTEGER_FIELD(cutout, holes, 1, 64),
    IMG_NUMBERS_FIELD(cutout, value, -1e6, 1e6),
    IMG_NUMBER_FIELD(cutout, p, 0.0, 1.0),
    IMG_NO_FIELD,
};

/* What a side of `length`, whose middle is drawn among `size` pixels, has of them. */
static int64_t draw_side(uint64_t key, uint64_t k, int64_t size, int64_t length, int64_t *first) {
    const int64_t begin = img_draw_below(key, k, size) - length / 2, end = begin + length;
    *first = begin < 0 ? 0 : begin;
    return (end > size ? size : end) - *first;
}

static img_rectangle draw_hole(const cutout *by, uint64_t key, int64_t hole, int64_t height, int64_t width) {
    img_rectangle box;
    box.height = draw_side(key, (uint64_t)(1 + 2 * hole), height, by->size.height, &box.top);
    box.width = draw_side(key, (uint64_t)(2 + 2 * hole), width, by->size.width, &box.left);
    return box;
}

static int plan_cutout(img_builder *b, const void *params, uint64_t key) {
    const cutout *by = params;
    const int64_t holes = img_draw_whether(key, by->p) ? by->holes : 0;
    int status = IMG_OK;
    for (int64_t i = 0; i < holes && status == IMG_OK; i++) {
        const img_rectangle box = draw_hole(by, key, i, img_plan_height(b), img_plan_width(b));
        status = erase_pixels(b, &box, CONSTANT, by->value, key);
    }
    return status;
}

static void cut_out_of_tensor(const img_tensor *tensor, const void *params, uint64_t key) {
    const cutout *by = params;
    const int64_t holes = img_draw_whether(key, by->p) ? by->holes : 0;
    for (int64_t i = 0; i < holes; i++) {
        const img_rectangle box = draw_hole(by, key, i, tensor->height, tensor->width);
        erase_numbers(tensor, &box, CONSTANT, by->value, key);
    }
}

IMG_DEFINE_OP(cutout, IMG_POINT, cutout, cutout_fields, .draws = 1, .plan = plan_cutout, .on_tensor = cut_out_of_tensor);
