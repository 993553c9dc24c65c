/* Steps that change colours, pixel by pixel, in the very arithmetic of PIL: Image.blend, convert("L") and convert("HSV").
 *
 * What PIL does in float and in double is done in the same here; the build forbids the compiler to fuse multiplications
 * with additions.
 */
#include <string.h>

#include "image/program/base.h"
#include "image/program/colour.h"
#include "image/program/draws.h"
#include "image/program/op.h"
#include "image/program/plan.h"

/* ---- Blending with what an enhancement starts from ---- */

static inline uint8_t blend(int start, int pixel, float factor) {
    float value = (float)start + factor * (float)(pixel - start);
    value = value < 0.0f ? 0.0f : value > 255.0f ? 255.0f : value;
    return (uint8_t)(int)value;
}

static void from_constant(img_table *table, int start, float factor) {
    for (int v = 0; v < 256; v++)
        table->of[0][v] = table->of[1][v] = table->of[2][v] = blend(start, v, factor);
}

IMG_CLONES static void from_gray(uint8_t *rgbx, int64_t count, const img_change *change) {
    const float factor = change->factor;
    for (int64_t i = 0; i < count; i++) {
        uint8_t *p = rgbx + 4 * i;
        int gray = img_gray_of(p);
        p[0] = blend(gray, p[0], factor);
        p[1] = blend(gray, p[1], factor);
        p[2] = blend(gray, p[2], factor);
    }
}

/* ---- Hue ---- */

#define BLOCK 64 /* pixels whose channels lie side by side, so that the compiler vectorises */

static inline int larger(int a, int b) { return a > b ? a : b; }
static inline int smaller(int a, int b) { return a < b ? a : b; }
/* `value` or 0, without a branch. */
static inline int when(int condition, int value) { return -condition & value; }

/* To PIL's HSV of 8 bits, the hue moved round, and back, for a block of pixels. Gray ones come out as they are: their
 * saturation is 0, and then all three values are the highest channel. */
IMG_CLONES static void turn_hues(int32_t *red, int32_t *green, int32_t *blue, int32_t shift) {
    for (int i = 0; i < BLOCK; i++) {
        const int r = red[i], g = green[i], b = blue[i];
        const int high = larger(r, larger(g, b)), low = smaller(r, smaller(g, b));
        const int is_red = r == high, is_green = (g == high) & !is_red, is_blue = !is_red & !is_green;
        /* PIL: bc - gc where red is highest, 2.0 + rc - bc where green is, 4.0 + gc - rc; rc being (high - r) / range. */
        const int plus = when(is_red, high - b) | when(is_green, high - r) | when(is_blue, high - g);
        const int minus = when(is_red, high - g) | when(is_green, high - b) | when(is_blue, high - r);
        const float range = (float)larger(high - low, 1), top = (float)high;
        const double sixth = (double)(2 * is_green + 4 * is_blue);
        float hue = (float)(sixth + (double)((float)plus / range) - (double)((float)minus / range));
        const double turned = (double)hue / 6.0 + 1.0;
        hue = (float)(turned - (double)(int)turned); /* fmod(turned, 1), turned being 5/6 .. 11/6 */
        const int saturation = (int)((double)((float)(high - low) / (float)larger(high, 1)) * 255.0);
        const int moved = ((int)((double)hue * 255.0) + shift) & 255;

        const double sixths = (double)((float)moved * 6.0f) / 255.0;
        const int sector = (int)sixths;
        const float f = (float)(sixths - (double)sector), fs = (float)saturation / 255.0f;
        /* PIL's round(), which is the same for all values that occur. */
        const int x = (int)((double)top * (1.0 - (double)fs) + 0.5);
        const int y = (int)((double)top * (1.0 - (double)(fs * f)) + 0.5);
        const int z = (int)((double)top * (1.0 - (double)fs * (1.0 - (double)f)) + 0.5);
        /* Sectors 0 .. 5: (high, z, x), (y, high, x), (x, high, z), (x, y, high), (z, x, high), (high, x, y); 6 is 0. */
        const int s0 = (sector == 0) | (sector == 6), s1 = sector == 1, s2 = sector == 2, s3 = sector == 3;
        const int s4 = sector == 4, s5 = sector == 5;
        red[i] = when(s0 | s5, high) | when(s1, y) | when(s2 | s3, x) | when(s4, z);
        green[i] = when(s1 | s2, high) | when(s0, z) | when(s3, y) | when(s4 | s5, x);
        blue[i] = when(s3 | s4, high) | when(s2, z) | when(s5, y) | when(s0 | s1, x);
    }
}

static void turn_row(uint8_t *rgbx, int64_t count, const img_change *change) {
    int32_t red[BLOCK] = {0}, green[BLOCK] = {0}, blue[BLOCK] = {0};
    for (; count > 0; count -= BLOCK, rgbx += 4 * BLOCK) {
        const int size = count < BLOCK ? (int)count : BLOCK;
        for (int i = 0; i < size; i++) {
            red[i] = rgbx[4 * i];
            green[i] = rgbx[4 * i + 1];
            blue[i] = rgbx[4 * i + 2];
        }
        turn_hues(red, green, blue, change->level);
        for (int i = 0; i < size; i++) {
            rgbx[4 * i] = (uint8_t)red[i];
            rgbx[4 * i + 1] = (uint8_t)green[i];
            rgbx[4 * i + 2] = (uint8_t)blue[i];
        }
    }
}

/* ---- color_jitter ---- */

typedef struct {
    img_range brightness, contrast, saturation, hue;
} color_jitter;

static const img_field color_jitter_fields[] = {
    IMG_OPTIONAL_RANGE_FIELD(color_jitter, brightness, 0.0, 1e6),
    IMG_OPTIONAL_RANGE_FIELD(color_jitter, contrast, 0.0, 1e6),
    IMG_OPTIONAL_RANGE_FIELD(color_jitter, saturation, 0.0, 1e6),
    IMG_OPTIONAL_RANGE_FIELD(color_jitter, hue, -0.5, 0.5),
    IMG_NO_FIELD,
};

IMG_CLONES static void sum_of_gray(const uint8_t *rgbx, int64_t count, img_statistic *found) {
    int64_t sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += img_gray_of(rgbx + 4 * i);
    found->sum += sum;
}

static void blend_with_mean(const img_change *change, const img_statistic *found, int64_t pixels, img_table *table) {
    from_constant(table, (uint8_t)((double)found->sum / (double)pixels + 0.5), change->factor);
}

/* One of the four changes, by its number in torchvision's draws. */
static int plan_one(img_builder *b, int which, double factor) {
    img_change change = {.factor = (float)factor};
    img_table table;
    switch (which) {
    case 0:
        from_constant(&table, 0, (float)factor);
        return img_plan_table(b, &table);
    case 1:
        change.measure = sum_of_gray;
        change.settle = blend_with_mean;
        return img_plan_statistic(b, &change);
    case 2:
        change.apply = from_gray;
        return img_plan_change(b, &change);
    default:
        change.apply = turn_row;
        change.level = (uint8_t)(int32_t)(factor * 255.0);
        return img_plan_change(b, &change);
    }
}

static int plan_color_jitter(img_builder *b, const void *params, uint64_t key) {
    const color_jitter *by = params;
    const img_range *const ranges[4] = {&by->brightness, &by->contrast, &by->saturation, &by->hue};
    int left[4] = {0, 1, 2, 3}, status = IMG_OK;
    int64_t order = img_draw_below(key, 4, 24);
    for (int place = 0, ways = 6; place < 4 && status == IMG_OK; place++) { /* the order-th permutation of four */
        int64_t at = order / ways;
        order %= ways;
        ways = place < 2 ? ways / (3 - place) : 1;
        const int which = left[at];
        memmove(left + at, left + at + 1, (size_t)(3 - at) * sizeof *left);
        const img_range *range = ranges[which];
        if (range->given)
            status = plan_one(b, which, range->low + (range->high - range->low) * img_draw(key, (uint64_t)which));
    }
    return status;
}

IMG_DEFINE_OP(color_jitter, IMG_STATISTIC, color_jitter, color_jitter_fields, .draws = 1, .plan = plan_color_jitter);

/* ---- grayscale ---- */

typedef struct {
    int64_t channels;
} grayscale;

static const img_field grayscale_fields[] = {
    IMG_INTEGER_FIELD(grayscale, channels, 1, 3),
    IMG_NO_FIELD,
};

static const char *check_grayscale(const void *params) {
    return ((const grayscale *)params)->channels == 2 ? "channels must be 1 or 3, not 2" : NULL;
}

static void follow_grayscale(const void *params, img_shape *shape) {
    shape->channels = (int)((const grayscale *)params)->channels;
}

static void make_gray(uint8_t *rgbx, int64_t count, const img_change *change) { img_to_gray(rgbx, rgbx, count); }

static int plan_grayscale(img_builder *b, const void *params, uint64_t key) {
    const img_change change = {.apply = make_gray};
    b->alpha = 0;
    return img_plan_change(b, &change);
}

IMG_DEFINE_OP(grayscale, IMG_POINT, grayscale, grayscale_fields, .follow = follow_grayscale, .check = check_grayscale,
              .plan = plan_grayscale);
