/* equalize and autocontrast: PIL's ImageOps, each channel by its own histogram; alpha stays. */
#include <math.h>
#include <string.h>

#include "image/program/base.h"
#include "image/program/draws.h"
#include "image/program/op.h"
#include "image/program/plan.h"

/* Counts are kept in parts that neighbours in a row don't share: one count need not wait for the one before. */
static void count_values(const uint8_t *rgbx, int64_t count, img_statistic *found) {
    uint32_t(*parts)[3][256] = found->parts;
    int64_t i = 0;
    for (; i + IMG_PARTS <= count; i += IMG_PARTS)
        for (int k = 0; k < IMG_PARTS; k++) {
            uint32_t pixel;
            memcpy(&pixel, rgbx + 4 * (i + k), 4);
            parts[k][0][pixel & 255]++;
            parts[k][1][pixel >> 8 & 255]++;
            parts[k][2][pixel >> 16 & 255]++;
        }
    for (; i < count; i++)
        for (int c = 0; c < 3; c++)
            parts[0][c][rgbx[4 * i + c]]++;
}

static void sum_parts(const img_statistic *found, int channel, int64_t counts[256]) {
    for (int v = 0; v < 256; v++) {
        counts[v] = 0;
        for (int k = 0; k < IMG_PARTS; k++)
            counts[v] += found->parts[k][channel][v];
    }
}

static void leave(uint8_t table[256]) {
    for (int v = 0; v < 256; v++)
        table[v] = (uint8_t)v;
}

/* ---- equalize ---- */

typedef struct {
    double p;
} equalize;

static const img_field equalize_fields[] = {
    IMG_NUMBER_FIELD(equalize, p, 0.0, 1.0),
    IMG_NO_FIELD,
};

static int is_equalize_fixed(const void *params) { return ((const equalize *)params)->p == 1.0; }

static void make_even(const img_change *change, const img_statistic *found, int64_t pixels, img_table *table) {
    int64_t counts[256];
    for (int c = 0; c < 3; c++) {
        sum_parts(found, c, counts);
        int64_t last = 0; /* how many have the highest value */
        for (int v = 0; v < 256; v++)
            last = counts[v] > 0 ? counts[v] : last;
        const int64_t step = (pixels - last) / 255; /* 0 where there is only one value, too */
        int64_t n = step / 2;
        if (step == 0) {
            leave(table->of[c]);
            continue;
        }
        for (int v = 0; v < 256; v++) {
            const int64_t even = n / step;
            table->of[c][v] = (uint8_t)(even > 255 ? 255 : even);
            n += counts[v];
        }
    }
}

static int plan_equalize(img_builder *b, const void *params, uint64_t key) {
    const img_change change = {.measure = count_values, .settle = make_even};
    return img_draw_whether(key, ((const equalize *)params)->p) ? img_plan_statistic(b, &change) : IMG_OK;
}

IMG_DEFINE_OP(equalize, IMG_STATISTIC, equalize, equalize_fields, .draws = 1, .fixed = is_equalize_fixed,
              .plan = plan_equalize);

/* ---- autocontrast ---- */

typedef struct {
    double cutoff[2]; /* percent of the pixels: the darkest and the lightest */
    double p;
} autocontrast;

static const img_field autocontrast_fields[] = {
    IMG_NUMBERS_FIELD(autocontrast, cutoff, 0.0, 100.0),
    IMG_NUMBER_FIELD(autocontrast, p, 0.0, 1.0),
    IMG_NO_FIELD,
};

static int is_autocontrast_fixed(const void *params) { return ((const autocontrast *)params)->p == 1.0; }

/* Spread low .. high over all values. */
static void spread(uint8_t table[256], int low, int high) {
    if (high <= low) {
        leave(table);
        return;
    }
    const double scale = 255.0 / (double)(high - low), offset = -low * scale;
    for (int v = 0; v < 256; v++) {
        const double value = v * scale + offset;
        table[v] = (uint8_t)(value < 0.0 ? 0.0 : value > 255.0 ? 255.0 : value);
    }
}

#define BLOCK 16 /* pixels whose channels lie side by side, so that the compiler vectorises */

IMG_CLONES static void find_ends(const uint8_t *rgbx, int64_t count, img_statistic *found) {
    uint8_t high[4 * BLOCK] = {0}, low[4 * BLOCK] = {0}; /* low ones from 255 down */
    int64_t i = 0;
    for (; i + BLOCK <= count; i += BLOCK)
        for (int k = 0; k < 4 * BLOCK; k++) {
            const uint8_t value = rgbx[4 * i + k], turned = (uint8_t)~value;
            high[k] = high[k] > value ? high[k] : value;
            low[k] = low[k] > turned ? low[k] : turned;
        }
    for (; i < count; i++)
        for (int k = 0; k < 4; k++) {
            const uint8_t value = rgbx[4 * i + k], turned = (uint8_t)~value;
            high[k] = high[k] > value ? high[k] : value;
            low[k] = low[k] > turned ? low[k] : turned;
        }
    for (int k = 0; k < 4 * BLOCK; k++) {
        uint8_t *highest = &found->ends.high[k % 4], *lowest = &found->ends.from_255_down[k % 4];
        *highest = *highest > high[k] ? *highest : high[k];
        *lowest = *lowest > low[k] ? *lowest : low[k];
    }
}

static void spread_ends(const img_change *change, const img_statistic *found, int64_t pixels, img_table *table) {
    for (int c = 0; c < 3; c++)
        spread(table->of[c], 255 - found->ends.from_255_down[c], found->ends.high[c]);
}

/* Python's int(pixels * percent // 100). */
static int64_t part_of(int64_t pixels, double percent) {
    const double product = (double)pixels * percent;
    return (int64_t)round((product - fmod(product, 100.0)) / 100.0);
}

/* Take `cut` pixels away, from value `at` on by `step`, as PIL does; the last value that it comes to is not taken whole. */
static void take_away(int64_t counts[256], int at, int step, int64_t cut) {
    for (; at >= 0 && at < 256; at += step) {
        const int64_t taken = cut < counts[at] ? cut : counts[at];
        counts[at] -= taken;
        cut -= taken;
        if (cut == 0)
            return;
    }
}

static void spread_most(const img_change *change, const img_statistic *found, int64_t pixels, img_table *table) {
    const autocontrast *by = change->params;
    int64_t counts[256];
    for (int c = 0; c < 3; c++) {
        int low = 0, high = 255;
        sum_parts(found, c, counts);
        take_away(counts, 0, 1, part_of(pixels, by->cutoff[0]));
        take_away(counts, 255, -1, part_of(pixels, by->cutoff[1]));
        while (low < 255 && counts[low] == 0)
            low++;
        while (high > 0 && counts[high] == 0)
            high--;
        spread(table->of[c], low, high);
    }
}

static int plan_autocontrast(img_builder *b, const void *params, uint64_t key) {
    const autocontrast *by = params;
    const int whole = by->cutoff[0] == 0.0 && by->cutoff[1] == 0.0;
    const img_change change = {.measure = whole ? find_ends : count_values, .settle = whole ? spread_ends : spread_most,
                               .params = params};
    return img_draw_whether(key, by->p) ? img_plan_statistic(b, &change) : IMG_OK;
}

IMG_DEFINE_OP(autocontrast, IMG_STATISTIC, autocontrast, autocontrast_fields, .draws = 1, .fixed = is_autocontrast_fixed,
              .plan = plan_autocontrast);
