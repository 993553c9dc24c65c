/* clahe: contrast limited adaptive histogram equalization, as OpenCV's createCLAHE does it: of a gray picture its values, of
 * any other its lightness, L* of CIE Lab, in 8 bits.
 *
 * A lightness is looked up by the whole number Y, so that it is exact; the other colours of Lab are floats and stay.
 */
#include <math.h>
#include <string.h>

#include "image/program/base.h"
#include "image/program/draws.h"
#include "image/program/op.h"
#include "image/program/plan.h"
#include "mirror.h"

#define MOST_TILES 64
#define ONE 65535 /* the whole number that stands for 1.0 of a linear colour */
#define BUCKET 16

/* ---- Curves of 8 bits over a linear colour ---- */

/* A curve that goes up: level k begins at from[k], and a bucket of BUCKET colours with a level. */
typedef struct {
    int32_t from[257];
    uint8_t start[ONE / BUCKET + 1];
} curve;

static void make_curve(curve *to, double (*linear)(double level)) {
    to->from[0] = 0;
    for (int k = 1; k < 256; k++)
        to->from[k] = (int32_t)ceil(linear(k - 0.5) * ONE);
    to->from[256] = ONE + 1;
    int level = 0;
    for (int32_t i = 0; i <= ONE / BUCKET; i++) {
        while (i * BUCKET >= to->from[level + 1])
            level++;
        to->start[i] = (uint8_t)level;
    }
}

static inline uint8_t level_of(const curve *by, int32_t colour) {
    int level = by->start[colour / BUCKET];
    while (colour >= by->from[level + 1])
        level++;
    return (uint8_t)level;
}

static double from_srgb(double level) {
    const double v = level / 255.0;
    return v <= 0.04045 ? v / 12.92 : pow((v + 0.055) / 1.055, 2.4);
}

/* Y of L* = level / 2.55. */
static double from_lightness(double level) {
    const double f = (level / 2.55 + 16.0) / 116.0;
    return f > 6.0 / 29.0 ? f * f * f : (f - 16.0 / 116.0) * 108.0 / 841.0;
}

/* ---- Lab ---- */

/* sRGB to XYZ by the white D65, rows divided by the white, in 65536ths that add up to 1; and back. */
static const uint32_t to_xyz[3][3] = {{28439, 24656, 12441}, {13938, 46868, 4730}, {1164, 7175, 57197}};
static const float to_rgb[3][3] = {{3.0800610f, -1.5372370f, -0.5428241f},
                                   {-0.9213123f, 1.8760603f, 0.0452521f},
                                   {0.0528913f, -0.2040560f, 1.1511646f}};

/* The cube root, to some 1e-7, of numbers above 0: two steps of Halley's from a guess by the exponent. */
static inline float cube_root(float x) {
    uint32_t bits;
    float y;
    memcpy(&bits, &x, 4);
    bits = bits / 3 + 709921077u;
    memcpy(&y, &bits, 4);
    float cube = y * y * y;
    y = y * ((cube + 2.0f * x) / (2.0f * cube + x));
    cube = y * y * y;
    return y * ((cube + 2.0f * x) / (2.0f * cube + x));
}

static inline float forth(float t) {
    const float root = cube_root(t > 0.008f ? t : 0.008f);
    return t > 216.0f / 24389.0f ? root : t * (841.0f / 108.0f) + 16.0f / 116.0f;
}

static inline float back(float f) {
    return f > 6.0f / 29.0f ? f * f * f : (f - 16.0f / 116.0f) * (108.0f / 841.0f);
}

static inline int32_t clipped(float colour) {
    const float whole = colour * (float)ONE + 0.5f;
    return (int32_t)(whole < 0.0f ? 0.0f : whole > (float)ONE ? (float)ONE : whole);
}

/* X, Y and Z of linear colours. */
static inline void xyz_of(const int32_t *linear, int32_t *xyz) {
    for (int k = 0; k < 3; k++)
        xyz[k] = (int32_t)((to_xyz[k][0] * (uint32_t)linear[0] + to_xyz[k][1] * (uint32_t)linear[1] +
                            to_xyz[k][2] * (uint32_t)linear[2] + 32768) >> 16);
}

#define BLOCK 64 /* pixels whose channels lie side by side, so that the compiler vectorises */

/* Linear colours of a block, with the lightness that Y' = back(bright) has in place of Y. */
IMG_CLONES static void relight(int32_t (*xyz)[BLOCK], const float *bright) {
    for (int i = 0; i < BLOCK; i++) {
        const float fx = forth((float)xyz[0][i] / ONE), fy = forth((float)xyz[1][i] / ONE), fz = forth((float)xyz[2][i] / ONE);
        const float more = bright[i] - fy, x = back(fx + more), y = back(bright[i]), z = back(fz + more);
        for (int k = 0; k < 3; k++)
            xyz[k][i] = clipped(to_rgb[k][0] * x + to_rgb[k][1] * y + to_rgb[k][2] * z);
    }
}

/* ---- Equalization ---- */

typedef struct {
    int64_t rows, columns, height, width; /* tiles, and the size of one */
} grid;

/* OpenCV adds pixels to both sides where one can't be divided. */
static grid grid_of(int64_t height, int64_t width, int64_t rows, int64_t columns) {
    const int fits = height % rows == 0 && width % columns == 0;
    return (grid){rows, columns, (fits ? height : height + rows - height % rows) / rows,
                  (fits ? width : width + columns - width % columns) / columns};
}

static void make_table(uint8_t *table, int64_t *counts, int64_t pixels, double clip_limit) {
    if (clip_limit > 0.0) {
        const int64_t wanted = (int64_t)(clip_limit * (double)pixels / 256.0), limit = wanted > 1 ? wanted : 1;
        int64_t above = 0;
        for (int v = 0; v < 256; v++)
            if (counts[v] > limit) {
                above += counts[v] - limit;
                counts[v] = limit;
            }
        for (int v = 0; v < 256; v++)
            counts[v] += above / 256;
        int64_t left = above % 256;
        const int64_t step = left > 0 && 256 / left > 1 ? 256 / left : 1;
        for (int64_t v = 0; v < 256 && left > 0; v += step, left--)
            counts[v]++;
    }
    const float scale = 255.0f / (float)pixels;
    int64_t sum = 0;
    for (int v = 0; v < 256; v++) {
        sum += counts[v];
        const float level = rintf((float)sum * scale);
        table[v] = (uint8_t)(level > 255.0f ? 255.0f : level);
    }
}

static void make_tables(uint8_t *tables, const uint8_t *light, int64_t height, int64_t width, const grid *by, double clip_limit) {
    for (int64_t row = 0; row < by->rows; row++)
        for (int64_t column = 0; column < by->columns; column++, tables += 256) {
            int64_t counts[256] = {0};
            for (int64_t y = row * by->height; y < (row + 1) * by->height; y++) {
                const uint8_t *line = light + img_mirrored(y, height) * width;
                const int64_t first = column * by->width, end = first + by->width, inside = end < width ? end : width;
                int64_t x = first;
                for (; x < inside; x++)
                    counts[line[x]]++;
                for (; x < end; x++)
                    counts[line[img_mirrored(x, width)]]++;
            }
            make_table(tables, counts, by->height * by->width, clip_limit);
        }
}

/* Between which two tiles a pixel lies, and how far. */
typedef struct {
    int32_t low, high;
    float share;
} between;

static between tiles_at(int64_t at, int64_t size, int64_t tiles) {
    const float place = (float)at * (1.0f / (float)size) - 0.5f, low = floorf(place);
    return (between){low < 0.0f ? 0 : (int32_t)low, (int64_t)low + 1 < tiles ? (int32_t)low + 1 : (int32_t)tiles - 1,
                     place - low};
}

/* `places` are those of the columns. */
IMG_CLONES static void equalize_row(uint8_t *light, const uint8_t *tables, const between *places, int64_t y, int64_t width,
                                    const grid *by) {
    const between rows = tiles_at(y, by->height, by->rows);
    const uint8_t *above = tables + 256 * rows.low * by->columns, *below = tables + 256 * rows.high * by->columns;
    const float down = rows.share, up = 1.0f - down;
    for (int64_t x = 0; x < width; x++) {
        const int64_t first = 256 * places[x].low + light[x], second = 256 * places[x].high + light[x];
        const float right = places[x].share, left = 1.0f - right;
        const float made = ((float)above[first] * left + (float)above[second] * right) * up +
                           ((float)below[first] * left + (float)below[second] * right) * down;
        light[x] = (uint8_t)(int)rintf(made);
    }
}

/* ---- The picture ---- */

typedef struct {
    int32_t linear[256]; /* of a level of sRGB */
    float bright[256];   /* f of a lightness */
    curve srgb, lightness;
} lab;

static void make_lab(lab *to) {
    for (int v = 0; v < 256; v++) {
        to->linear[v] = (int32_t)rint(from_srgb(v) * ONE);
        to->bright[v] = (float)((v / 2.55 + 16.0) / 116.0);
    }
    make_curve(&to->srgb, from_srgb);
    make_curve(&to->lightness, from_lightness);
}

static void xyz_at(const lab *by, const uint8_t *rgbx, int32_t *xyz) {
    const int32_t linear[3] = {by->linear[rgbx[0]], by->linear[rgbx[1]], by->linear[rgbx[2]]};
    xyz_of(linear, xyz);
}

static void relight_row(uint8_t *out, const uint8_t *in, const uint8_t *light, int64_t width, const lab *by) {
    int32_t xyz[3][BLOCK] = {{0}}, one[3];
    float bright[BLOCK] = {0};
    for (int64_t at = 0; at < width; at += BLOCK) {
        const int64_t size = width - at < BLOCK ? width - at : BLOCK;
        for (int64_t i = 0; i < size; i++) {
            xyz_at(by, in + 4 * (at + i), one);
            for (int k = 0; k < 3; k++)
                xyz[k][i] = one[k];
            bright[i] = by->bright[light[at + i]];
        }
        relight(xyz, bright);
        for (int64_t i = 0; i < size; i++) {
            for (int k = 0; k < 3; k++)
                out[4 * (at + i) + k] = level_of(&by->srgb, xyz[k][i]);
            out[4 * (at + i) + 3] = in[4 * (at + i) + 3];
        }
    }
}

static void adapt(const img_whole *whole, const uint8_t *in, int64_t height, int64_t width, uint8_t *out, uint8_t *work) {
    const int gray = whole->drawn[3] != 0;
    const grid by = grid_of(height, width, (int64_t)whole->drawn[1], (int64_t)whole->drawn[2]);
    lab *colours = (lab *)work;
    between *places = (between *)(work + sizeof(lab));
    uint8_t *tables = (uint8_t *)(places + width), *light = tables + 256 * by.rows * by.columns;
    int32_t xyz[3];
    if (!gray)
        make_lab(colours);
    for (int64_t i = 0; i < height * width; i++) {
        if (!gray)
            xyz_at(colours, in + 4 * i, xyz);
        light[i] = gray ? in[4 * i] : level_of(&colours->lightness, xyz[1]);
    }
    make_tables(tables, light, height, width, &by, whole->drawn[0]);
    for (int64_t x = 0; x < width; x++)
        places[x] = tiles_at(x, by.width, by.columns);
    for (int64_t y = 0; y < height; y++) {
        equalize_row(light + y * width, tables, places, y, width, &by);
        if (gray)
            for (int64_t x = 0; x < width; x++)
                memset(out + 4 * (y * width + x), light[y * width + x], 4);
        else
            relight_row(out + 4 * y * width, in + 4 * y * width, light + y * width, width, colours);
    }
}

typedef struct {
    img_range clip_limit;
    int64_t rows, columns;
    double p;
} clahe;

static const img_field clahe_fields[] = {
    IMG_RANGE_FIELD(clahe, clip_limit, 0.0, 1e6),
    IMG_INTEGER_FIELD(clahe, rows, 1, MOST_TILES),
    IMG_INTEGER_FIELD(clahe, columns, 1, MOST_TILES),
    IMG_NUMBER_FIELD(clahe, p, 0.0, 1.0),
    IMG_NO_FIELD,
};

static int clahe_fixed(const void *params) {
    const clahe *by = params;
    return by->p == 1.0 && by->clip_limit.low == by->clip_limit.high;
}

static int plan_clahe(img_builder *b, const void *params, uint64_t key) {
    const clahe *by = params;
    if (!img_draw_whether(key, by->p))
        return IMG_OK;
    const int64_t height = img_plan_height(b), width = img_plan_width(b);
    const img_whole whole = {.apply = adapt, .out_height = height, .out_width = width,
                             .work_bytes = (int64_t)sizeof(lab) + width * (int64_t)sizeof(between) +
                                           256 * by->rows * by->columns + height * width,
                             .drawn = {img_draw_range(key, 1, &by->clip_limit), (double)by->rows, (double)by->columns,
                                       b->gray}};
    return img_plan_whole(b, &whole, "clahe");
}

IMG_DEFINE_OP(clahe, IMG_PICTURE, clahe, clahe_fields, .draws = 1, .fixed = clahe_fixed, .plan = plan_clahe);
