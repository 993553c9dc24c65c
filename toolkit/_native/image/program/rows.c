/* Runs the stages of a plan: rows flow from the decoder through both resize passes into the result.
 *
 * A row is decoded, resized in width, kept in a ring of as many rows as the vertical filter is high, summed when the
 * last of them is there, flipped, coloured and laid out: all of it stays in the first caches. Only a picture between two
 * stages, one that has to be turned, or one that a statistic or a step needs as a whole is stored as such.
 */
#include "rows.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base.h"
#include "baseline_x86.h"
#include "choice.h"
#include "colour.h"
#include "jpeg.h"

/* ---- Where rows come from ---- */

static int next_row(img_source *from, img_scratch *scratch, const uint8_t **row, char *message) {
    if (from->streams) {
        int status = img_jpeg_row(scratch->jpeg, row, message);
        if (status != IMG_OK)
            return status;
    } else {
        *row = from->base;
        from->base += from->step_y;
    }
    uint8_t *line = scratch->line.data;
    const uint8_t *p = *row;
    if (!from->streams && from->step_x != from->channels) { /* a turned picture: four channels */
        for (int64_t i = 0; i < from->columns; i++, p += from->step_x)
            memcpy(line + 4 * i, p, 4);
        *row = line;
    } else if (from->channels != 4) {
        if (from->channels == 3)
            img_current_kernels()->from_rgb(line, p, from->columns);
        else
            img_from_channels(line, p, from->columns, from->channels);
        *row = line;
    } else if (!from->streams && p + 4 * from->columns + IMG_PAD > from->end) { /* loads may run over a row's end */
        memcpy(line, p, 4 * (size_t)from->columns);
        *row = line;
    }
    if (from->gray || from->premultiply) {
        (from->gray ? img_to_gray : img_premultiply)(line, *row, from->columns);
        *row = line;
    }
    return IMG_OK;
}

/* ---- Where rows go ---- */

typedef struct {
    const img_stage *stage;
    const img_layout *layout; /* NULL: RGBX pixels for later */
    const img_kernels *kernels;
    uint8_t *out, *work;
    float *values;
    const img_change *changes;
    int64_t change_count;
    const img_change *next; /* a change that measures what comes of these; else NULL */
    img_statistic *found;
} sink;

/* Change and write row `i` of the result. With changes, they are made in the row itself. */
static void put(const sink *to, int64_t i, const uint8_t *row) {
    const int64_t width = to->stage->x.out;
    for (int64_t k = 0; k < to->change_count; k++) {
        const img_change *change = &to->changes[k];
        if (change->table != NULL)
            to->kernels->look_up((uint8_t *)row, width, change->table);
        else if (change->apply_at != NULL)
            change->apply_at((uint8_t *)row, width, i, change);
        else
            change->apply((uint8_t *)row, width, change);
    }
    if (to->next != NULL)
        to->next->measure(row, width, to->found);
    if (to->layout != NULL)
        img_pack_row(to->layout, to->kernels, to->out, to->stage->y.out, width, i, row, to->values);
    else if (row != to->out + 4 * i * width)
        memcpy(to->out + 4 * i * width, row, 4 * (size_t)width);
}

static void fill_row(uint8_t *row, uint32_t pixel, int64_t count) {
    if (pixel == (pixel & 0xFF) * 0x01010101u)
        memset(row, (int)(pixel & 0xFF), 4 * (size_t)count);
    else
        for (int64_t i = 0; i < count; i++)
            memcpy(row + 4 * i, &pixel, 4);
}

/* Finish row `i` of the rows that are kept: pad and flip it. NULL is a row of fill at place `i` of the result. */
static void emit(const sink *to, int64_t i, const uint8_t *row) {
    const img_side *x = &to->stage->x, *y = &to->stage->y;
    int64_t place = row == NULL ? i : y->pad + i;
    place = y->flip ? y->out - 1 - place : place;
    if (row != NULL && x->keep == x->out && !x->flip && to->change_count == 0) {
        put(to, place, row);
        return;
    }
    if (row == NULL || x->keep < x->out)
        fill_row(to->work, to->stage->fill, x->out);
    if (row != NULL && x->flip)
        to->kernels->reverse(to->work + 4 * (x->out - x->pad - x->keep), row, x->keep);
    else if (row != NULL)
        memcpy(to->work + 4 * x->pad, row, 4 * (size_t)x->keep);
    put(to, place, to->work);
}

static void emit_fill(const sink *to) {
    const img_side *y = &to->stage->y;
    for (int64_t i = 0; i < y->out; i++)
        if (to->stage->blank || i < y->pad || i >= y->pad + y->keep)
            emit(to, i, NULL);
}

/* ---- One stage ---- */

static void nearest(uint8_t *out, const uint8_t *row, const img_axis *axis) {
    for (int64_t i = 0; i < axis->count; i++)
        memcpy(out + 4 * i, row + 4 * (int64_t)axis->start[i], 4);
}

/* The resize of a side, whose source samples count from sample *begin of the input on; 0: there is none. */
static int side_resize(const img_stage *stage, const img_side *side, const img_decoding *how, double shift, int64_t decoded,
                       int64_t lanes, img_resize *resize, int64_t *begin) {
    if (!img_is_scaled(side) && how->eighths == 8)
        return 0;
    double scale = how->eighths / 8.0, from = (double)side->from * scale + shift, length = (double)side->length * scale;
    int64_t end = (int64_t)ceil(from + length);
    end = end < decoded ? end : decoded;
    *begin = (int64_t)from;
    const double at = side->mirrored ? (double)side->length - side->at - side->span : side->at;
    *resize = (img_resize){.in = end - *begin, .out = side->resized, .first = side->first, .count = side->keep,
                           .lanes = lanes, .from = from - (double)*begin + at * scale, .length = side->span * scale,
                           .filter = stage->filter, .mirrored = side->mirrored, .coarse = how->fast};
    return 1;
}

int img_prepare_side(const img_stage *stage, const img_side *side, const img_decoding *how, double shift,
                        int64_t decoded, int64_t lanes, img_axis_cache *cache, img_axis *axis, int *resizes) {
    img_resize resize;
    int64_t begin;
    *resizes = side_resize(stage, side, how, shift, decoded, lanes, &resize, &begin);
    if (!*resizes) {
        img_keep_axis(side->from + side->first, side->keep, axis);
        return IMG_OK;
    }
    int status = img_make_axis(cache, &resize, axis);
    axis->first += begin;
    axis->last += begin;
    return status;
}

void img_side_reach(const img_stage *stage, const img_side *side, const img_decoding *how, double shift, int64_t decoded,
                    int64_t *first, int64_t *last) {
    img_resize resize;
    int64_t begin = 0;
    if (side_resize(stage, side, how, shift, decoded, 0, &resize, &begin)) {
        img_axis_reach(&resize, first, last);
    } else {
        *first = side->from + side->first;
        *last = *first + side->keep;
    }
    *first += begin;
    *last += begin;
}

int img_prepare(const img_stage *stage, img_axes *made, img_scratch *scratch, char *message) {
    const img_decoding whole = {.eighths = 8};
    int status = img_prepare_side(stage, &stage->x, &whole, 0.0, stage->x.in, img_current_kernels()->lanes,
                              &scratch->axes[0], &made->x, &made->resize_x);
    if (status == IMG_OK)
        status = img_prepare_side(stage, &stage->y, &whole, 0.0, stage->y.in, 0, &scratch->axes[1], &made->y,
                              &made->resize_y);
    if (status != IMG_OK)
        snprintf(message, IMG_MESSAGE, "no memory for resize coefficients");
    return status;
}

static int run_rows(const img_axes *a, img_source *from, const sink *to, img_scratch *scratch, char *message) {
    const img_kernels *kernels = to->kernels;
    const img_axis *y = &a->y;
    const int64_t taps = a->resize_y && y->pairs > 0 ? 2 * y->pairs : 1;
    const int64_t rows = y->last - y->first, row_bytes = 4 * to->stage->x.keep;
    const uint64_t stride = ((uint64_t)row_bytes + 2 * IMG_PAD - 1) / IMG_PAD * IMG_PAD;
    int status = img_reserve_or_say(&scratch->mixed, stride + IMG_PAD, message);
    if (status == IMG_OK)
        status = img_reserve_or_say(&scratch->line, (uint64_t)from->columns * 4 + IMG_PAD, message);
    if (status == IMG_OK)
        status = img_reserve_or_say(&scratch->ring, (uint64_t)taps * stride + IMG_PAD, message);
    if (status == IMG_OK)
        status = img_reserve_or_say(&scratch->pointers, (uint64_t)taps * sizeof(uint8_t *), message);
    if (status != IMG_OK)
        return status;
    emit_fill(to);
    if (to->stage->blank)
        return IMG_OK;

    uint8_t *ring = scratch->ring.data, *mixed = scratch->mixed.data;
    const uint8_t **window = (const uint8_t **)scratch->pointers.data, *row = NULL;
    int64_t fetched = 0;
    for (int64_t i = 0; i < y->count; i++) {
        const int64_t first = a->resize_y ? y->start[i] : i, end = first + taps < rows ? first + taps : rows;
        for (; fetched < end; fetched++) {
            status = next_row(from, scratch, &row, message);
            if (status != IMG_OK)
                return status;
            uint8_t *target = ring + (uint64_t)(fetched % taps) * stride;
            if (a->resize_x && a->x.pairs > 0)
                kernels->horizontal(target, row, &a->x);
            else if (a->resize_x)
                nearest(target, row, &a->x);
            else if (taps > 1 || from->premultiply)
                memcpy(target, row, (size_t)row_bytes);
            if (a->resize_x || from->premultiply)
                row = target;
        }
        if (taps > 1) {
            for (int64_t k = 0; k < taps; k++) /* behind the last row: any row, its coefficient is zero */
                window[k] = ring + (uint64_t)((first + k < rows ? first + k : first) % taps) * stride;
            kernels->vertical(mixed, window, y, i, row_bytes);
            row = mixed;
        }
        if (from->premultiply)
            img_unpremultiply((uint8_t *)row, to->stage->x.keep);
        if (from->late)
            img_late_to_rgbx((uint8_t *)row, to->stage->x.keep);
        emit(to, i, row);
    }
    return IMG_OK;
}

/* The first change from `at` on that measures, or `count`. */
static int64_t find_statistic(const img_change *changes, int64_t at, int64_t count) {
    while (at < count && changes[at].measure == NULL)
        at++;
    return at;
}

/* Settle the change at `at` by what was found, and join it with a table right behind it; return which change does both. */
static int64_t settle(img_change *changes, int64_t at, int64_t next, const img_statistic *found, int64_t pixels) {
    img_change *change = &changes[at];
    change->settle(change, found, pixels, change->table);
    if (at + 1 == next || changes[at + 1].table == NULL)
        return at;
    img_join_tables(change->table, changes[at + 1].table);
    changes[at + 1].table = change->table;
    return at + 1;
}

/* Run a stage with all its changes. A statistic needs all that is before it, so the picture is held there. */
static int run_stage(const img_stage *stage, const img_axes *a, img_source *from, const img_layout *layout, uint8_t *out,
                     img_scratch *scratch, char *message) {
    const int64_t height = stage->y.out, width = stage->x.out, count = stage->change_count;
    img_change *changes = scratch->plan.changes + stage->change_first;
    int64_t next = find_statistic(changes, 0, count);
    int status = img_reserve_or_say(&scratch->work, (uint64_t)width * 4 + IMG_PAD, message);
    if (status == IMG_OK && layout != NULL)
        status = img_reserve_or_say(&scratch->values, ((uint64_t)width + IMG_PAD) * 4 * sizeof(float), message);
    if (status == IMG_OK && layout != NULL && next < count)
        status = img_reserve_or_say(&scratch->held, (uint64_t)height * (uint64_t)width * 4 + IMG_PAD, message);
    if (status != IMG_OK)
        return status;
    from->premultiply = stage->alpha && stage->resizes && stage->filter != IMG_NEAREST;
    sink to = {.stage = stage, .layout = layout, .kernels = img_current_kernels(), .out = out,
               .work = scratch->work.data, .values = (float *)scratch->values.data,
               .changes = changes, .change_count = next};
    if (next == count)
        return run_rows(a, from, &to, scratch, message);

    img_statistic found;
    memset(&found, 0, sizeof found);
    uint8_t *held = layout == NULL ? out : scratch->held.data;
    sink hold = to;
    hold.layout = NULL;
    hold.out = held;
    hold.next = &changes[next];
    hold.found = &found;
    status = run_rows(a, from, &hold, scratch, message);
    while (status == IMG_OK && next < count) {
        const int64_t measured = next;
        next = find_statistic(changes, measured + 1, count);
        const int64_t at = settle(changes, measured, next, &found, height * width);
        memset(&found, 0, sizeof found);
        sink pass = next < count ? hold : to;
        pass.changes = changes + at;
        pass.change_count = next - at;
        pass.next = next < count ? &changes[next] : NULL;
        for (int64_t i = 0; i < height; i++)
            put(&pass, i, held + 4 * i * width);
    }
    return status;
}

/* The other one of two buffers than that which holds the pixels; a turned JPEG lies in the first, too. */
static img_buffer *other(img_buffer *pair, const uint8_t *pixels) {
    return pixels != NULL && pixels == pair[1].data ? &pair[0] : &pair[1];
}

/* Make the picture that the stage makes, up to its whole. `*pixels` are the RGBX pixels that are its source, or NULL where it
 * is another one; then they are what was made, in one of the pair unless nothing was to be done. */
static int make_picture(const img_stage *stage, const img_axes *a, img_source *from, img_scratch *scratch, img_buffer *pair,
                        const uint8_t **pixels, char *message) {
    const int64_t height = stage->y.out, width = stage->x.out;
    const img_whole *whole = &stage->whole;
    int status = IMG_OK;
    if (*pixels == NULL || stage->change_count > 0 || !img_is_kept(&stage->y) || !img_is_kept(&stage->x) || stage->blank) {
        img_buffer *made = other(pair, *pixels);
        status = img_reserve_or_say(made, (uint64_t)height * (uint64_t)width * 4 + IMG_PAD, message);
        if (status == IMG_OK)
            status = run_stage(stage, a, from, NULL, made->data, scratch, message);
        *pixels = made->data;
    }
    if (status != IMG_OK || (whole->apply == NULL && whole->apply_or_say == NULL))
        return status;
    img_buffer *made = other(pair, *pixels);
    status = img_reserve_or_say(made, (uint64_t)whole->out_height * (uint64_t)whole->out_width * 4 + IMG_PAD, message);
    if (status == IMG_OK)
        status = img_reserve_or_say(&scratch->whole, (uint64_t)whole->work_bytes, message);
    if (status == IMG_OK && whole->apply != NULL)
        whole->apply(whole, *pixels, height, width, made->data, scratch->whole.data);
    else if (status == IMG_OK)
        status = whole->apply_or_say(whole, *pixels, height, width, made->data, scratch->whole.data, message);
    *pixels = made->data;
    return status;
}

/* Prepare a stage whose source are pixels of the stage before it. */
static int prepare_next(const img_stage *stage, const uint8_t *pixels, img_axes *a, img_source *from, img_scratch *scratch,
                        char *message) {
    const int64_t width = stage->x.in;
    int status = img_prepare(stage, a, scratch, message);
    if (status == IMG_OK)
        *from = (img_source){.base = pixels + 4 * (a->y.first * width + a->x.first), .step_x = 4, .step_y = 4 * width,
                             .end = pixels + 4 * stage->y.in * width + IMG_PAD, .channels = 4,
                             .columns = a->x.last - a->x.first};
    return status;
}

/* Run each chain of a mix on the pixels, and put what comes of all into their place. */
static int run_mix(const img_mix *mix, uint8_t *pixels, int64_t count, img_axes *a, img_source *from, img_scratch *scratch,
                   char *message) {
    int status = img_reserve_or_say(&scratch->sums, (uint64_t)count * 4 * sizeof(float), message);
    if (status != IMG_OK)
        return status;
    float *sums = (float *)scratch->sums.data;
    img_begin_mix(sums, pixels, 4 * count, mix->share);
    int64_t k = mix->first;
    for (int64_t i = 0; i < mix->count; i++) {
        const uint8_t *made = pixels;
        for (; k < mix->ends[i] && status == IMG_OK; k++) {
            const img_stage *stage = &scratch->plan.stages[k];
            status = prepare_next(stage, made, a, from, scratch, message);
            if (status == IMG_OK)
                status = make_picture(stage, a, from, scratch, &scratch->pixels[2], &made, message);
        }
        if (status != IMG_OK)
            return status;
        img_add_to_mix(sums, made, 4 * count, mix->shares[i]);
    }
    img_end_mix(pixels, sums, 4 * count);
    return IMG_OK;
}

int img_run_stages(const img_program *program, img_axes *a, img_source *from, img_scratch *scratch, void *out, int64_t out_h,
                      int64_t out_w, char *message) {
    const img_plan *plan = &scratch->plan;
    if (plan->out_h != out_h || plan->out_w != out_w) {
        snprintf(message, IMG_MESSAGE, "the result has %lld x %lld pixels, not %lld x %lld", (long long)plan->out_w,
                 (long long)plan->out_h, (long long)out_w, (long long)out_h);
        return IMG_CORRUPT;
    }
    const uint8_t *pixels = NULL;
    for (int64_t k = 0, next; k < plan->stage_count - 1; k = next) {
        const img_stage *stage = &plan->stages[k];
        const img_mix *mix = stage->mix;
        int status = make_picture(stage, a, from, scratch, scratch->pixels, &pixels, message);
        if (status == IMG_OK && mix != NULL) /* the pixels lie in one of the first two buffers */
            status = run_mix(mix, (uint8_t *)pixels, stage->y.out * stage->x.out, a, from, scratch, message);
        next = mix != NULL ? mix->ends[mix->count - 1] : k + 1;
        if (status == IMG_OK)
            status = prepare_next(&plan->stages[next], pixels, a, from, scratch, message);
        if (status != IMG_OK)
            return status;
    }
    return run_stage(&plan->stages[plan->stage_count - 1], a, from, &program->layout, out, scratch, message);
}
