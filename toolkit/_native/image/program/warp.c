/* Affine and perspective maps, in the very arithmetic of Pillow's Image.transform.
 *
 * Pillow takes the nearest pixel of an affine map in three ways, which differ where a position lies at a pixel's edge: a map
 * that neither turns nor shears adds up doubles along each axis, one whose positions are all below 32768 adds up 16.16 fixed
 * point, and any other adds up doubles along rows. All other maps and filters work out each position from the pixel.
 */
#include "warp.h"

#include <math.h>
#include <string.h>

#include "base.h"
#include "colour.h"

static const img_map IDENTITY = {.matrix = {1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0}};

/* ---- What is drawn[] of the whole ---- */

enum { MATRIX = 0, PERSPECTIVE = 8, FILTER = 9, FILL = 10, ALPHA = 14 };

typedef struct {
    img_sampler from;
    img_map map;
    img_take how;
    int64_t height, width; /* of the result */
    uint8_t *out;
} warp;

static warp warp_of(const img_whole *whole, const uint8_t *in, int64_t height, int64_t width, uint8_t *out) {
    const double *drawn = whole->drawn;
    warp w = {.from = {.pixels = in, .height = (int32_t)height, .width = (int32_t)width, .alpha = drawn[ALPHA] != 0.0},
              .map = {.perspective = drawn[PERSPECTIVE] != 0.0},
              .how = (img_take)drawn[FILTER],
              .height = whole->out_height,
              .width = whole->out_width,
              .out = out};
    memcpy(w.map.matrix, drawn + MATRIX, sizeof w.map.matrix);
    for (int c = 0; c < 4; c++)
        w.from.fill[c] = (uint8_t)drawn[FILL + c];
    return w;
}

static uint8_t *row_of(const warp *w, int64_t y) { return w->out + 4 * y * w->width; }

/* ---- The nearest pixel by an affine map ---- */

/* Neither turned nor sheared. `columns` has a place for each of the result's. */
static void scale_nearest(const warp *w, int32_t *columns) {
    const double *a = w->map.matrix;
    double x = a[2] + a[0] * 0.5, y = a[5] + a[4] * 0.5;
    int64_t begin = w->width, end = 0;
    int in_order = 1;
    for (int64_t i = 0; i < w->width; i++, x += a[0])
        if (x >= 0.0 && x < (double)w->from.width) {
            columns[i] = (int32_t)x;
            begin = i < begin ? i : begin;
            end = i + 1;
            in_order &= columns[i] - columns[begin] == i - begin;
        }
    for (int64_t i = 0; i < w->height; i++, y += a[4]) {
        uint8_t *out = row_of(w, i);
        if (begin >= end || !(y >= 0.0 && y < (double)w->from.height)) {
            img_sample_fill(&w->from, w->width, out);
            continue;
        }
        const uint8_t *row = w->from.pixels + 4 * (int64_t)(int32_t)y * w->from.width;
        img_sample_fill(&w->from, begin, out);
        if (in_order)
            memcpy(out + 4 * begin, row + 4 * (int64_t)columns[begin], 4 * (size_t)(end - begin));
        else
            img_sample_columns(row, columns + begin, end - begin, out + 4 * begin);
        img_sample_fill(&w->from, w->width - end, out + 4 * end);
    }
}

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); } /* b > 0 */

/* Narrow [*begin, *end) to the i for which 0 <= at + i * step < limit. */
static void narrow(int64_t at, int64_t step, int64_t limit, int64_t *begin, int64_t *end) {
    const int64_t last = at + (*end - 1) * step;
    if (*begin == 0 && at >= 0 && at < limit && last >= 0 && last < limit)
        return;
    if (step < 0) { /* the same of limit - 1 - at, going up */
        at = limit - 1 - at;
        step = -step;
    }
    if (step == 0) {
        *end = at >= 0 && at < limit ? *end : *begin;
        return;
    }
    const int64_t low = -floor_div(at, step), high = floor_div(limit - 1 - at, step) + 1;
    *end = high < *end ? high : *end;
    *begin = low > *begin ? low : *begin;
    *begin = *begin < *end ? *begin : *end; /* none: an empty part of the row */
    *begin = *begin > 0 ? *begin : 0;
    *end = *end > *begin ? *end : *begin;
}

static double fix(double v) { return floor(v * 65536.0 + 0.5); }

static void fixed_nearest(const warp *w) {
    const double *a = w->map.matrix;
    const int64_t step_x = (int64_t)fix(a[0]), step_y = (int64_t)fix(a[3]);
    const int64_t down_x = (int64_t)fix(a[1]), down_y = (int64_t)fix(a[4]);
    int64_t x = (int64_t)fix(a[2] + a[0] * 0.5 + a[1] * 0.5), y = (int64_t)fix(a[5] + a[3] * 0.5 + a[4] * 0.5);
    for (int64_t i = 0; i < w->height; i++, x += down_x, y += down_y) {
        uint8_t *out = row_of(w, i);
        int64_t begin = 0, end = w->width;
        narrow(x, step_x, (int64_t)w->from.width << 16, &begin, &end);
        narrow(y, step_y, (int64_t)w->from.height << 16, &begin, &end);
        const int64_t from_x = x + begin * step_x, from_y = y + begin * step_y;
        img_sample_fill(&w->from, begin, out);
        if (step_x == 65536 && step_y == 0 && begin < end)
            memcpy(out + 4 * begin, w->from.pixels + 4 * ((from_y >> 16) * w->from.width + (from_x >> 16)),
                   4 * (size_t)(end - begin));
        else
            img_sample_fixed(&w->from, (int32_t)from_x, (int32_t)from_y, (int32_t)step_x, (int32_t)step_y, end - begin,
                             out + 4 * begin);
        img_sample_fill(&w->from, w->width - end, out + 4 * end);
    }
}

static void float_nearest(const warp *w) {
    const double *a = w->map.matrix;
    double first_x = a[2] + a[1] * 0.5 + a[0] * 0.5, first_y = a[5] + a[4] * 0.5 + a[3] * 0.5;
    for (int64_t i = 0; i < w->height; i++, first_x += a[1], first_y += a[4]) {
        uint8_t *out = row_of(w, i);
        double x = first_x, y = first_y;
        img_sample_fill(&w->from, w->width, out);
        for (int64_t j = 0; j < w->width; j++, x += a[0], y += a[3])
            if (x >= 0.0 && x < (double)w->from.width && y >= 0.0 && y < (double)w->from.height)
                memcpy(out + 4 * j, w->from.pixels + 4 * ((int64_t)y * w->from.width + (int64_t)x), 4);
    }
}

static int is_small(const double *a, double x, double y) {
    return fabs(x * a[0] + y * a[1] + a[2]) < 32768.0 && fabs(x * a[3] + y * a[4] + a[5]) < 32768.0;
}

static void affine_nearest(const warp *w, int32_t *columns) {
    const double *a = w->map.matrix, width = (double)w->width, height = (double)w->height;
    if (a[1] == 0.0 && a[3] == 0.0)
        scale_nearest(w, columns);
    else if (is_small(a, 0.0, 0.0) && is_small(a, width, height) && is_small(a, 0.0, height) && is_small(a, width, 0.0))
        fixed_nearest(w);
    else
        float_nearest(w);
}

/* ---- Any map ---- */

static void apply_warp(const img_whole *whole, const uint8_t *in, int64_t height, int64_t width, uint8_t *out, uint8_t *work) {
    warp w = warp_of(whole, in, height, width, out);
    if (w.how == IMG_TAKE_NEAREST && !w.map.perspective) {
        affine_nearest(&w, (int32_t *)work);
        return;
    }
    const int mixes = w.from.alpha && w.how != IMG_TAKE_NEAREST; /* then colours count as much as they are opaque */
    if (mixes) {
        for (int64_t y = 0; y < height; y++)
            img_premultiply(work + 4 * y * width, in + 4 * y * width, width);
        w.from.pixels = work;
    }
    for (int64_t y = 0; y < w.height; y++) {
        img_sample_row(&w.from, w.how, &w.map, y, w.width, row_of(&w, y));
        if (mixes)
            img_unpremultiply(row_of(&w, y), w.width);
    }
}

void img_warp_fill(const img_builder *b, const double given[4], uint8_t fill[4]) {
    for (int c = 0; c < 4; c++)
        fill[c] = (uint8_t)given[c];
    if (b->ids)
        memcpy(fill, &b->ignore, 4);
}

int img_plan_warp(img_builder *b, const img_map *map, int64_t height, int64_t width, const img_taking *taking,
                  const char *step) {
    const int64_t h = img_plan_height(b), w = img_plan_width(b);
    const int mixes = b->alpha && taking->filter != IMG_TAKE_NEAREST;
    if (memcmp(map, &IDENTITY, sizeof IDENTITY) == 0 && height == h && width == w && !mixes)
        return IMG_OK;
    img_whole whole = {.apply = apply_warp, .out_height = height, .out_width = width,
                       .work_bytes = mixes ? 4 * h * w + IMG_PAD : 4 * width};
    memcpy(whole.drawn + MATRIX, map->matrix, sizeof map->matrix);
    whole.drawn[PERSPECTIVE] = map->perspective;
    whole.drawn[FILTER] = (double)taking->filter;
    uint8_t fill[4];
    img_warp_fill(b, taking->fill, fill);
    for (int c = 0; c < 4; c++)
        whole.drawn[FILL + c] = fill[c];
    whole.drawn[ALPHA] = b->alpha;
    return img_plan_whole(b, &whole, step);
}

/* ---- Maps ---- */

static double radians(double degrees) { return degrees * (3.14159265358979323846 / 180.0); }

void img_affine_map(const double center[2], double angle, const double translate[2], double scale, const double shear[2],
                    img_map *map) {
    const double turn = radians(angle), shear_x = radians(shear[0]), shear_y = radians(shear[1]);
    const double a = cos(turn - shear_y) / cos(shear_y);
    const double b = -cos(turn - shear_y) * tan(shear_x) / cos(shear_y) - sin(turn);
    const double c = sin(turn - shear_y) / cos(shear_y);
    const double d = -sin(turn - shear_y) * tan(shear_x) / cos(shear_y) + cos(turn);
    const double x = -center[0] - translate[0], y = -center[1] - translate[1];
    double *m = map->matrix;
    *map = (img_map){.matrix = {d / scale, -b / scale, 0.0, -c / scale, a / scale, 0.0}};
    m[2] = m[0] * x + m[1] * y + center[0];
    m[5] = m[3] * x + m[4] * y + center[1];
    for (int i = 0; i < 6; i++)
        m[i] += 0.0; /* no -0, so that the identity is one */
}

/* Python's round(v, 15), for |v| <= 1. */
static double round_15(double v) {
    const double scaled = v * 1e15, lost = fma(v, 1e15, -scaled), rest = scaled - nearbyint(scaled);
    double whole = nearbyint(scaled);
    if (rest == 0.5 && lost > 0.0)
        whole += 1.0;
    if (rest == -0.5 && lost < 0.0)
        whole -= 1.0;
    return whole / 1e15;
}

void img_rotate_map(double angle, const double *center, int expand, int64_t *height, int64_t *width, img_map *map) {
    const double w = (double)*width, h = (double)*height;
    const double about[2] = {center == NULL ? w / 2.0 : center[0], center == NULL ? h / 2.0 : center[1]};
    double turn = fmod(angle, 360.0);
    turn = -radians(turn < 0.0 ? turn + 360.0 : turn);
    const double cosine = round_15(cos(turn)), sine = round_15(sin(turn));
    double *m = map->matrix;
    *map = (img_map){.matrix = {cosine, sine, 0.0, round_15(-sin(turn)), cosine, 0.0}};
    m[2] = cosine * -about[0] + sine * -about[1] + 0.0;
    m[5] = m[3] * -about[0] + cosine * -about[1] + 0.0;
    m[2] += about[0];
    m[5] += about[1];
    if (expand) {
        const double corners[4][2] = {{0.0, 0.0}, {w, 0.0}, {w, h}, {0.0, h}};
        double low[2] = {INFINITY, INFINITY}, high[2] = {-INFINITY, -INFINITY};
        for (int i = 0; i < 4; i++)
            for (int k = 0; k < 2; k++) {
                const double at = m[3 * k] * corners[i][0] + m[3 * k + 1] * corners[i][1] + m[3 * k + 2];
                low[k] = at < low[k] ? at : low[k];
                high[k] = at > high[k] ? at : high[k];
            }
        /* By quarters the picture keeps its pixels, though its corners may lie at halves. */
        const int quarters = center == NULL && fmod(angle, 90.0) == 0.0;
        *width = (int64_t)(quarters ? high[0] - low[0] : ceil(high[0]) - floor(low[0]));
        *height = (int64_t)(quarters ? high[1] - low[1] : ceil(high[1]) - floor(low[1]));
        const double x = -((double)*width - w) / 2.0, y = -((double)*height - h) / 2.0;
        const double to_x = m[0] * x + m[1] * y + m[2], to_y = m[3] * x + m[4] * y + m[5];
        m[2] = to_x;
        m[5] = to_y;
    }
    for (int i = 0; i < 6; i++)
        m[i] += 0.0;
}
