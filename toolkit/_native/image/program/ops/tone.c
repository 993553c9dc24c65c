/* Steps that change each value by a table made of their parameters: PIL's ImageOps.posterize, solarize and invert, timm's
 * solarize_add, torchvision's adjust_gamma, and any table. Alpha stays. */
#include <math.h>
#include <string.h>

#include "image/program/draws.h"
#include "image/program/op.h"
#include "image/program/plan.h"

/* Plan a table, of which the first channel's part is given. */
static int plan_for_all(img_builder *b, img_table *table) {
    memcpy(table->of[1], table->of[0], sizeof *table->of);
    memcpy(table->of[2], table->of[0], sizeof *table->of);
    return img_plan_table(b, table);
}

static int is_one(const img_range *range) { return range->low == range->high; }

/* ---- posterize ---- */

typedef struct {
    img_range bits; /* whole numbers */
    double p;
} posterize;

static const img_field posterize_fields[] = {
    IMG_RANGE_FIELD(posterize, bits, 0.0, 8.0),
    IMG_NUMBER_FIELD(posterize, p, 0.0, 1.0),
    IMG_NO_FIELD,
};

static int is_posterize_fixed(const void *params) {
    const posterize *by = params;
    return by->p == 1.0 && is_one(&by->bits);
}

static int plan_posterize(img_builder *b, const void *params, uint64_t key) {
    const posterize *by = params;
    if (!img_draw_whether(key, by->p))
        return IMG_OK;
    const int mask = 255 & 255 << (8 - img_draw_whole(key, 1, &by->bits));
    img_table table;
    for (int v = 0; v < 256; v++)
        table.of[0][v] = (uint8_t)(v & mask);
    return mask == 255 ? IMG_OK : plan_for_all(b, &table);
}

IMG_DEFINE_OP(posterize, IMG_POINT, posterize, posterize_fields, .draws = 1, .fixed = is_posterize_fixed,
              .plan = plan_posterize);

/* ---- solarize ---- */

typedef struct {
    img_range threshold;
    double p;
} solarize;

static const img_field solarize_fields[] = {
    IMG_RANGE_FIELD(solarize, threshold, 0.0, 256.0),
    IMG_NUMBER_FIELD(solarize, p, 0.0, 1.0),
    IMG_NO_FIELD,
};

static int is_solarize_fixed(const void *params) {
    const solarize *by = params;
    return by->p == 1.0 && is_one(&by->threshold);
}

static int plan_solarize(img_builder *b, const void *params, uint64_t key) {
    const solarize *by = params;
    if (!img_draw_whether(key, by->p))
        return IMG_OK;
    const double threshold = img_draw_range(key, 1, &by->threshold);
    img_table table;
    for (int v = 0; v < 256; v++)
        table.of[0][v] = (uint8_t)(v < threshold ? v : 255 - v);
    return threshold > 255.0 ? IMG_OK : plan_for_all(b, &table);
}

IMG_DEFINE_OP(solarize, IMG_POINT, solarize, solarize_fields, .draws = 1, .fixed = is_solarize_fixed,
              .plan = plan_solarize);

/* ---- solarize_add ---- */

typedef struct {
    img_range add; /* whole numbers */
    double threshold, p;
} solarize_add;

static const img_field solarize_add_fields[] = {
    IMG_RANGE_FIELD(solarize_add, add, -255.0, 255.0),
    IMG_NUMBER_FIELD(solarize_add, threshold, 0.0, 256.0),
    IMG_NUMBER_FIELD(solarize_add, p, 0.0, 1.0),
    IMG_NO_FIELD,
};

static int is_solarize_add_fixed(const void *params) {
    const solarize_add *by = params;
    return by->p == 1.0 && is_one(&by->add);
}

static int plan_solarize_add(img_builder *b, const void *params, uint64_t key) {
    const solarize_add *by = params;
    if (!img_draw_whether(key, by->p))
        return IMG_OK;
    const int add = (int)img_draw_whole(key, 1, &by->add);
    img_table table;
    for (int v = 0; v < 256; v++) {
        const int sum = v < by->threshold ? v + add : v;
        table.of[0][v] = (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
    }
    return plan_for_all(b, &table);
}

IMG_DEFINE_OP(solarize_add, IMG_POINT, solarize_add, solarize_add_fields, .draws = 1, .fixed = is_solarize_add_fixed,
              .plan = plan_solarize_add);

/* ---- invert ---- */

typedef struct {
    double p;
} invert;

static const img_field invert_fields[] = {
    IMG_NUMBER_FIELD(invert, p, 0.0, 1.0),
    IMG_NO_FIELD,
};

static int is_invert_fixed(const void *params) { return ((const invert *)params)->p == 1.0; }

static int plan_invert(img_builder *b, const void *params, uint64_t key) {
    if (!img_draw_whether(key, ((const invert *)params)->p))
        return IMG_OK;
    img_table table;
    for (int v = 0; v < 256; v++)
        table.of[0][v] = (uint8_t)(255 - v);
    return plan_for_all(b, &table);
}

IMG_DEFINE_OP(invert, IMG_POINT, invert, invert_fields, .draws = 1, .fixed = is_invert_fixed, .plan = plan_invert);

/* ---- gamma ---- */

typedef struct {
    img_range gamma;
    double gain, p;
} gamma_params;

static const img_field gamma_fields[] = {
    IMG_RANGE_FIELD(gamma_params, gamma, 0.0, 1e3),
    IMG_NUMBER_FIELD(gamma_params, gain, 0.0, 1e3),
    IMG_NUMBER_FIELD(gamma_params, p, 0.0, 1.0),
    IMG_NO_FIELD,
};

static int is_gamma_fixed(const void *params) {
    const gamma_params *by = params;
    return by->p == 1.0 && is_one(&by->gamma);
}

static int plan_gamma(img_builder *b, const void *params, uint64_t key) {
    const gamma_params *by = params;
    if (!img_draw_whether(key, by->p))
        return IMG_OK;
    const double gamma = img_draw_range(key, 1, &by->gamma);
    img_table table;
    for (int v = 0; v < 256; v++) {
        const double value = (255 + 1 - 1e-3) * by->gain * pow(v / 255.0, gamma); /* as torchvision writes it */
        table.of[0][v] = (uint8_t)(value > 255.0 ? 255.0 : value);
    }
    return plan_for_all(b, &table);
}

IMG_DEFINE_OP(gamma, IMG_POINT, gamma_params, gamma_fields, .draws = 1, .fixed = is_gamma_fixed, .plan = plan_gamma);

/* ---- lut ---- */

typedef struct {
    double table[3 * 256]; /* of red, of green and of blue */
    double p;
} lut;

static const img_field lut_fields[] = {
    IMG_NUMBERS_FIELD(lut, table, 0.0, 255.0),
    IMG_NUMBER_FIELD(lut, p, 0.0, 1.0),
    IMG_NO_FIELD,
};

static int is_lut_fixed(const void *params) { return ((const lut *)params)->p == 1.0; }

static int plan_lut(img_builder *b, const void *params, uint64_t key) {
    const lut *by = params;
    img_table table;
    for (int i = 0; i < 3 * 256; i++)
        table.of[i / 256][i % 256] = (uint8_t)by->table[i];
    return img_draw_whether(key, by->p) ? img_plan_table(b, &table) : IMG_OK;
}

IMG_DEFINE_OP(lut, IMG_POINT, lut, lut_fields, .draws = 1, .fixed = is_lut_fixed, .plan = plan_lut);
