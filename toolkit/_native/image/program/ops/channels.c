/* Steps that treat channels differently: grayscale, channel_shuffle, channel_drop, color_temperature. Alpha stays, but for
 * grayscale. */
#include <math.h>
#include <string.h>

#include "image/program/base.h"
#include "image/program/colour.h"
#include "image/program/draws.h"
#include "image/program/op.h"
#include "image/program/plan.h"

/* ---- grayscale ---- */

typedef struct {
    int64_t channels;
    double p;
} grayscale;

static const img_field grayscale_fields[] = {
    IMG_INTEGER_FIELD(grayscale, channels, 1, 3),
    IMG_NUMBER_FIELD(grayscale, p, 0.0, 1.0),
    IMG_NO_FIELD,
};

static const char *check_grayscale(const void *params) {
    const grayscale *by = params;
    if (by->channels == 2)
        return "channels must be 1 or 3, not 2";
    return by->p < 1.0 && by->channels == 1 ? "p below 1 needs channels=3, which all pictures then have" : NULL;
}

static int is_always_gray(const void *params) { return ((const grayscale *)params)->p == 1.0; }

static void follow_grayscale(const void *params, img_shape *shape) {
    shape->channels = (int)((const grayscale *)params)->channels;
}

static void make_gray(uint8_t *rgbx, int64_t count, const img_change *change) { img_to_gray(rgbx, rgbx, count); }

static int plan_grayscale(img_builder *b, const void *params, uint64_t key) {
    const img_change change = {.apply = make_gray};
    b->alpha = 0; /* of the result, gray or not */
    b->gray |= ((const grayscale *)params)->channels == 1;
    return img_draw_whether(key, ((const grayscale *)params)->p) ? img_plan_change(b, &change) : IMG_OK;
}

IMG_DEFINE_OP(grayscale, IMG_POINT, grayscale, grayscale_fields, .draws = 1, .fixed = is_always_gray,
              .follow = follow_grayscale, .check = check_grayscale, .plan = plan_grayscale);

/* ---- channel_shuffle ---- */

typedef struct {
    double p;
} channel_shuffle;

static const img_field channel_shuffle_fields[] = {
    IMG_NUMBER_FIELD(channel_shuffle, p, 0.0, 1.0),
    IMG_NO_FIELD,
};

static const uint8_t orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

IMG_CLONES static void put_in_order(uint8_t *rgbx, int64_t count, const img_change *change) {
    const uint8_t *order = orders[change->level];
    const uint32_t r = 8 * order[0], g = 8 * order[1], b = 8 * order[2];
    for (int64_t i = 0; i < count; i++) {
        uint32_t pixel;
        memcpy(&pixel, rgbx + 4 * i, 4);
        pixel = (pixel & 0xff000000u) | (pixel >> r & 255) | (pixel >> g & 255) << 8 | (pixel >> b & 255) << 16;
        memcpy(rgbx + 4 * i, &pixel, 4);
    }
}

static int plan_channel_shuffle(img_builder *b, const void *params, uint64_t key) {
    const img_change change = {.apply = put_in_order, .level = (int32_t)img_draw_below(key, 1, 6)};
    const int happens = img_draw_whether(key, ((const channel_shuffle *)params)->p) && change.level != 0;
    return happens ? img_plan_change(b, &change) : IMG_OK;
}

IMG_DEFINE_OP(channel_shuffle, IMG_POINT, channel_shuffle, channel_shuffle_fields, .draws = 1,
              .plan = plan_channel_shuffle);

/* ---- Tables of single channels ---- */

static void leave_all(img_table *table) {
    for (int c = 0; c < 3; c++)
        for (int v = 0; v < 256; v++)
            table->of[c][v] = (uint8_t)v;
}

/* ---- channel_drop ---- */

typedef struct {
    img_range channels; /* whole numbers */
    int64_t fill;
    double p;
} channel_drop;

static const img_field channel_drop_fields[] = {
    IMG_RANGE_FIELD(channel_drop, channels, 1.0, 2.0),
    IMG_INTEGER_FIELD(channel_drop, fill, 0, 255),
    IMG_NUMBER_FIELD(channel_drop, p, 0.0, 1.0),
    IMG_NO_FIELD,
};

static int plan_channel_drop(img_builder *b, const void *params, uint64_t key) {
    static const uint8_t pairs[3][2] = {{0, 1}, {0, 2}, {1, 2}};
    const channel_drop *by = params;
    if (!img_draw_whether(key, by->p))
        return IMG_OK;
    const int64_t count = img_draw_whole(key, 1, &by->channels), which = img_draw_below(key, 2, 3);
    img_table table;
    leave_all(&table);
    for (int64_t i = 0; i < count; i++)
        memset(table.of[count == 1 ? which : pairs[which][i]], (int)by->fill, sizeof *table.of);
    return img_plan_table(b, &table);
}

IMG_DEFINE_OP(channel_drop, IMG_POINT, channel_drop, channel_drop_fields, .draws = 1, .plan = plan_channel_drop);

/* ---- color_temperature ---- */

typedef struct {
    img_range kelvin;
    double p;
} color_temperature;

static const img_field color_temperature_fields[] = {
    IMG_RANGE_FIELD(color_temperature, kelvin, 1000.0, 40000.0),
    IMG_NUMBER_FIELD(color_temperature, p, 0.0, 1.0),
    IMG_NO_FIELD,
};

static int is_temperature_fixed(const void *params) {
    const color_temperature *by = params;
    return by->p == 1.0 && by->kelvin.low == by->kelvin.high;
}

/* Red, green and blue of a black body, 0 .. 255: Tanner Helland's fit (2012) to Mitchell Charity's table of sRGB values. */
static void glow(double kelvin, double rgb[3]) {
    const double t = kelvin / 100.0;
    rgb[0] = t <= 66.0 ? 255.0 : 329.698727446 * pow(t - 60.0, -0.1332047592);
    rgb[1] = t <= 66.0 ? 99.4708025861 * log(t) - 161.1195681661 : 288.1221695283 * pow(t - 60.0, -0.0755148492);
    rgb[2] = t >= 66.0 ? 255.0 : t <= 19.0 ? 0.0 : 138.5177312231 * log(t - 10.0) - 305.0447927307;
    for (int c = 0; c < 3; c++)
        rgb[c] = rgb[c] < 0.0 ? 0.0 : rgb[c] > 255.0 ? 255.0 : rgb[c];
}

static int plan_color_temperature(img_builder *b, const void *params, uint64_t key) {
    const color_temperature *by = params;
    if (!img_draw_whether(key, by->p))
        return IMG_OK;
    double rgb[3];
    glow(img_draw_range(key, 1, &by->kelvin), rgb);
    img_table table;
    for (int c = 0; c < 3; c++)
        for (int v = 0; v < 256; v++)
            table.of[c][v] = (uint8_t)(v * rgb[c] / 255.0 + 0.5);
    return img_plan_table(b, &table);
}

IMG_DEFINE_OP(color_temperature, IMG_POINT, color_temperature, color_temperature_fields, .draws = 1,
              .fixed = is_temperature_fixed, .plan = plan_color_temperature);
