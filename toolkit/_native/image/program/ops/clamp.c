/* Bring values that are out of a range to its nearest end: of pixels, or of a result's numbers. */
#include <math.h>

#include "image/program/base.h"
#include "image/program/op.h"
#include "image/program/plan.h"
#include "image/program/tensor.h"

typedef struct {
    double low, high;
} clamp;

static const img_field clamp_fields[] = {
    IMG_NUMBER_FIELD(clamp, low, -1e6, 1e6),
    IMG_NUMBER_FIELD(clamp, high, -1e6, 1e6),
    IMG_NO_FIELD,
};

static const char *check_clamp(const void *params) {
    const clamp *by = params;
    return by->low > by->high ? "low must not be above high" : NULL;
}

static double within(double value, const clamp *by) { return value < by->low ? by->low : value > by->high ? by->high : value; }

static int plan_clamp(img_builder *b, const void *params, uint64_t key) {
    img_table table;
    for (int v = 0; v < 256; v++) {
        const double value = within(v, params);
        table.of[0][v] = table.of[1][v] = table.of[2][v] = (uint8_t)(value < 0.0 ? 0.0 : value > 255.0 ? 255.0 : value);
    }
    return img_plan_table(b, &table);
}

IMG_CLONES static void clamp_numbers(float *values, int64_t count, float low, float high) {
    for (int64_t i = 0; i < count; i++) {
        const float value = values[i] < low ? low : values[i];
        values[i] = value > high ? high : value;
    }
}

static void clamp_tensor(const img_tensor *t, const void *params, uint64_t key) {
    const clamp *by = params;
    for (int64_t y = 0; y < t->height; y++) {
        img_load_values(t, y, 0, t->width);
        for (int64_t c = 0; c < t->layout->channels; c++)
            clamp_numbers(t->values + c * t->plane, t->width, (float)by->low, (float)by->high);
        img_store_values(t, y, 0, t->width);
    }
}

IMG_DEFINE_OP(clamp, IMG_POINT, clamp, clamp_fields, .check = check_clamp, .plan = plan_clamp, .on_tensor = clamp_tensor);
