/* A step of each form that is not an axis, as simple as it can be: for test_new_op.py. */
#include <string.h>

#include "image/program/base.h"
#include "image/program/draws.h"
#include "image/program/op.h"
#include "image/program/plan.h"

/* ---- A table: each channel by its own factor ---- */

typedef struct {
    double factors[3];
} scale_channels;

static const img_field scale_channels_fields[] = {
    IMG_NUMBERS_FIELD(scale_channels, factors, 0.0, 8.0),
    IMG_NO_FIELD,
};

static int plan_scale_channels(img_builder *b, const void *params, uint64_t key) {
    img_table table;
    for (int c = 0; c < 3; c++)
        for (int v = 0; v < 256; v++) {
            const double scaled = v * ((const scale_channels *)params)->factors[c];
            table.of[c][v] = (uint8_t)(scaled > 255 ? 255 : scaled);
        }
    return img_plan_table(b, &table);
}

IMG_DEFINE_OP(scale_channels, IMG_POINT, scale_channels, scale_channels_fields, .plan = plan_scale_channels);

/* ---- A statistic: PIL's ImageOps.equalize ---- */

typedef struct {
    int64_t unused;
} even_out;

static const img_field even_out_fields[] = {IMG_NO_FIELD};

static void count_values(const uint8_t *rgbx, int64_t count, img_statistic *found) {
    for (int64_t i = 0; i < count; i++)
        for (int c = 0; c < 3; c++)
            found->counts[c][rgbx[4 * i + c]]++;
}

static void make_even(const img_change *change, const img_statistic *found, int64_t pixels, img_table *table) {
    for (int c = 0; c < 3; c++) {
        const int64_t *counts = found->counts[c];
        int64_t different = 0, last = 0;
        for (int v = 0; v < 256; v++)
            if (counts[v] > 0) {
                different++;
                last = counts[v];
            }
        const int64_t step = different > 1 ? (pixels - last) / 255 : 0;
        int64_t n = step / 2;
        for (int v = 0; v < 256; v++) {
            const int64_t even = step > 0 ? n / step : v;
            table->of[c][v] = (uint8_t)(even > 255 ? 255 : even);
            n += counts[v];
        }
    }
}

static int plan_even_out(img_builder *b, const void *params, uint64_t key) {
    const img_change change = {.measure = count_values, .settle = make_even};
    return img_plan_statistic(b, &change);
}

IMG_DEFINE_OP(even_out, IMG_STATISTIC, even_out, even_out_fields, .plan = plan_even_out);

/* ---- A whole picture: rows become columns, and red is moved by a draw ---- */

typedef struct {
    int64_t most;
} transpose;

static const img_field transpose_fields[] = {
    IMG_INTEGER_FIELD(transpose, most, 0, 255),
    IMG_NO_FIELD,
};

static void follow_transpose(const void *params, img_shape *shape) {
    const int64_t height = shape->height;
    shape->height = shape->width;
    shape->width = height;
}

static void turn(const img_whole *whole, const uint8_t *in, int64_t height, int64_t width, uint8_t *out, uint8_t *work) {
    memcpy(work, in, (size_t)(4 * height * width));
    for (int64_t y = 0; y < height; y++)
        for (int64_t x = 0; x < width; x++) {
            uint8_t *p = out + 4 * (x * height + y);
            memcpy(p, work + 4 * (y * width + x), 4);
            p[0] = (uint8_t)(p[0] + (int)whole->drawn[0]);
        }
}

static int plan_transpose(img_builder *b, const void *params, uint64_t key) {
    const int64_t h = img_plan_height(b), w = img_plan_width(b);
    const img_whole whole = {.apply = turn, .out_height = w, .out_width = h, .work_bytes = 4 * h * w, .params = params,
                             .drawn = {(double)img_draw_below(key, 0, ((const transpose *)params)->most + 1)}};
    return img_plan_whole(b, &whole, "transpose");
}

IMG_DEFINE_OP(transpose, IMG_PICTURE, transpose, transpose_fields, .draws = 1, .follow = follow_transpose,
              .plan = plan_transpose);
