/* Runs a program on one picture: rows flow from the decoder through both resize passes into the result.
 *
 * A row is decoded, resized in width, kept in a ring of as many rows as the vertical filter is high, summed when the
 * last of them is there, flipped, coloured and laid out: all of it stays in the first caches. Only a picture between two
 * stages, one that has to be turned, or one whose mean a contrast needs is stored as a whole.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "image.h"

/* ---- Where rows come from ---- */

/* Rows of the source window, in order. Either the open JPEG, or pixels in memory from `base` on. */
typedef struct {
    int streams;              /* the open JPEG gives the rows */
    const uint8_t *base;      /* window row 0, column 0 */
    int64_t step_x, step_y;   /* bytes to the next pixel and row; negative where the picture is turned */
    int channels;             /* bytes of a pixel: 1, 3 or 4 */
    int gray, premultiply;    /* what becomes of a row before anything else */
    int late;                 /* and of a resized one: img_late_to_rgbx */
    int64_t columns;          /* of the window */
    const uint8_t *end;       /* of the memory from which rows may be read where they lie */
} source;

static int next_row(source *from, img_scratch *scratch, const uint8_t **row, char *message) {
    if (from->streams) {
        int status = img_jpeg_row(scratch, row, message);
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
    const img_change *next; /* a change that measures what comes of these, into its sum; else NULL */
    int64_t *sum;
} sink;

/* Change and write row `i` of the result. With changes, they are made in the row itself. */
static void put(const sink *to, int64_t i, const uint8_t *row) {
    const int64_t width = to->stage->x.out;
    for (int64_t k = 0; k < to->change_count; k++)
        to->changes[k].apply((uint8_t *)row, width, &to->changes[k]);
    if (to->next != NULL)
        *to->sum += to->next->measure(row, width);
    if (to->layout != NULL)
        img_pack_row(to->layout, to->kernels, to->out, to->stage->y.out, width, i, row, to->values);
    else if (row != to->out + 4 * i * width)
        memcpy(to->out + 4 * i * width, row, 4 * (size_t)width);
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
        memset(to->work, to->stage->fill, 4 * (size_t)x->out);
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

typedef struct {
    img_axis x, y;
    int resize_x, resize_y;
} axes;

static void nearest(uint8_t *out, const uint8_t *row, const img_axis *axis) {
    for (int64_t i = 0; i < axis->count; i++)
        memcpy(out + 4 * i, row + 4 * (int64_t)axis->start[i], 4);
}

/* A side of a stage whose input was decoded as `how` says; sample 0 of that lies `shift` behind its edge. */
static int prepare_side(const img_stage *stage, const img_side *side, const img_decoding *how, double shift,
                        int64_t decoded, int64_t lanes, img_axis_cache *cache, img_axis *axis, int *resizes) {
    *resizes = side->resized != side->length || how->eighths != 8;
    if (!*resizes) {
        img_keep_axis(side->from + side->first, side->keep, axis);
        return IMG_OK;
    }
    double scale = how->eighths / 8.0, from = (double)side->from * scale + shift, length = (double)side->length * scale;
    int64_t begin = (int64_t)from, end = (int64_t)ceil(from + length);
    end = end < decoded ? end : decoded;
    img_resize resize = {.in = end - begin, .out = side->resized, .first = side->first, .count = side->keep,
                         .lanes = lanes, .from = from - (double)begin, .length = length, .filter = stage->filter,
                         .mirrored = side->mirrored, .coarse = how->fast};
    int status = img_make_axis(cache, &resize, axis);
    axis->first += begin;
    axis->last += begin;
    return status;
}

static int prepare(const img_stage *stage, axes *made, img_scratch *scratch, char *message) {
    const img_decoding whole = {.eighths = 8};
    int status = prepare_side(stage, &stage->x, &whole, 0.0, stage->x.in, img_current_kernels()->lanes,
                              &scratch->axes[0], &made->x, &made->resize_x);
    if (status == IMG_OK)
        status = prepare_side(stage, &stage->y, &whole, 0.0, stage->y.in, 0, &scratch->axes[1], &made->y,
                              &made->resize_y);
    if (status != IMG_OK)
        snprintf(message, IMG_MESSAGE, "no memory for resize coefficients");
    return status;
}

static int run_rows(const axes *a, source *from, const sink *to, img_scratch *scratch, char *message) {
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

/* Run a stage with all its changes. A statistic needs all that is before it, so the picture is held there. */
static int run_stage(const img_stage *stage, const axes *a, source *from, const img_layout *layout, uint8_t *out,
                     img_scratch *scratch, char *message) {
    const int64_t height = stage->y.out, width = stage->x.out, count = stage->change_count;
    img_change *changes = scratch->plan.changes + stage->change_first;
    int64_t next = find_statistic(changes, 0, count), sum = 0;
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

    uint8_t *held = layout == NULL ? out : scratch->held.data;
    sink hold = to;
    hold.layout = NULL;
    hold.out = held;
    hold.next = &changes[next];
    hold.sum = &sum;
    status = run_rows(a, from, &hold, scratch, message);
    while (status == IMG_OK && next < count) {
        int64_t at = next;
        next = find_statistic(changes, at + 1, count);
        changes[at].settle(&changes[at], sum, height * width);
        sum = 0;
        sink pass = next < count ? hold : to;
        pass.changes = changes + at;
        pass.change_count = next - at;
        pass.next = next < count ? &changes[next] : NULL;
        for (int64_t i = 0; i < height; i++)
            put(&pass, i, held + 4 * i * width);
    }
    return status;
}

/* All stages, the source of the first one being ready. */
static int run_stages(const img_program *program, axes *a, source *from, img_scratch *scratch, void *out, int64_t out_h,
                      int64_t out_w, char *message) {
    const img_plan *plan = &scratch->plan;
    if (plan->out_h != out_h || plan->out_w != out_w) {
        snprintf(message, IMG_MESSAGE, "the result has %lld x %lld pixels, not %lld x %lld", (long long)plan->out_w,
                 (long long)plan->out_h, (long long)out_w, (long long)out_h);
        return IMG_CORRUPT;
    }
    for (int64_t k = 0;; k++) {
        const img_stage *stage = &plan->stages[k];
        if (k == plan->stage_count - 1)
            return run_stage(stage, a, from, &program->layout, out, scratch, message);
        const int64_t height = stage->y.out, width = stage->x.out;
        img_buffer *buffer = &scratch->pixels[(k + 1) % 2];
        int status = img_reserve_or_say(buffer, (uint64_t)height * (uint64_t)width * 4 + IMG_PAD, message);
        if (status == IMG_OK)
            status = run_stage(stage, a, from, NULL, buffer->data, scratch, message);
        if (status == IMG_OK)
            status = prepare(&plan->stages[k + 1], a, scratch, message);
        if (status != IMG_OK)
            return status;
        *from = (source){.base = buffer->data + 4 * (a->y.first * width + a->x.first), .step_x = 4, .step_y = 4 * width,
                         .end = buffer->data + 4 * height * width + IMG_PAD, .channels = 4, .columns = a->x.last - a->x.first};
    }
}

int img_result_size(const img_program *program, img_scratch *scratch, int64_t height, int64_t width, uint64_t key,
                    int64_t *out_h, int64_t *out_w, char *message) {
    int status = img_make_plan(program, height, width, key, &scratch->plan, message);
    *out_h = scratch->plan.out_h;
    *out_w = scratch->plan.out_w;
    return status;
}

/* ---- JPEG ---- */

/* How to see a stored picture upright. */
typedef struct {
    int transposed, flip_x, flip_y; /* of the stored axes */
} turning;

static turning turning_of(int orientation) {
    return (turning){.transposed = orientation >= 5,
                     .flip_x = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8,
                     .flip_y = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7};
}

/* Decode the stored rectangle of a turned window as a whole and describe it as a source in upright order. */
static int turn(turning t, const img_decoding *how, int64_t decoded_h, int64_t decoded_w, const img_window *upright,
                img_scratch *scratch, source *from, char *message) {
    img_window stored = *upright;
    if (t.transposed)
        stored = (img_window){upright->left, upright->top, upright->width, upright->height};
    if (t.flip_y)
        stored.top = decoded_h - stored.top - stored.height;
    if (t.flip_x)
        stored.left = decoded_w - stored.left - stored.width;
    int64_t stride = 4 * stored.width;
    int status = img_reserve_or_say(&scratch->pixels[0], (uint64_t)stored.height * (uint64_t)stride + IMG_PAD, message);
    if (status == IMG_OK)
        status = img_jpeg_start(scratch, how, &stored, message);
    const uint8_t *row;
    for (int64_t y = 0; y < stored.height && status == IMG_OK; y++) {
        status = img_jpeg_row(scratch, &row, message);
        if (status == IMG_OK)
            img_from_channels(scratch->pixels[0].data + y * stride, row, stored.width, how->channels);
    }
    int64_t along_x = t.flip_x ? -4 : 4, along_y = t.flip_y ? -stride : stride;
    from->base = scratch->pixels[0].data + (t.flip_y ? (stored.height - 1) * stride : 0) + (t.flip_x ? stride - 4 : 0);
    from->end = scratch->pixels[0].data + stored.height * stride + IMG_PAD;
    from->step_x = t.transposed ? along_y : along_x;
    from->step_y = t.transposed ? along_x : along_y;
    from->channels = 4;
    return status;
}

/* Whether both sides of a stage shrink to at most `of` / `by` of their length. */
static int shrinks(const img_stage *stage, int64_t of, int64_t by) {
    return stage->resizes && stage->filter != IMG_NEAREST && stage->y.length * of >= stage->y.resized * by &&
           stage->x.length * of >= stage->x.resized * by;
}

/* How to decode for a first stage. Fast keeps 40 dB on photographs: half as many pixels again as the resize needs, from
 * powers of two, which have SIMD in libjpeg-turbo; and chroma is repeated only where the resize averages it again. */
static img_decoding choose_decoding(const img_program *program, const img_stage *stage, int components) {
    const int gray = program->mode == IMG_GRAY;
    img_decoding how = {.eighths = 8, .channels = gray && (program->fast || components == 1) ? 1 : 4};
    if (!program->fast)
        return how;
    how.fast = shrinks(stage, 4, 5);
    for (int eighths = 1; eighths < 8 && how.eighths == 8; eighths *= 2)
        if (shrinks(stage, 2 * eighths, 3 * 8))
            how.eighths = eighths;
    return how;
}

int img_open(const img_program *program, img_scratch *scratch, const uint8_t *data, int64_t length, img_header *header,
             char *message) {
    if (length > program->max_bytes) {
        snprintf(message, IMG_MESSAGE, "the image has %lld bytes, more than max_bytes=%lld", (long long)length,
                 (long long)program->max_bytes);
        return IMG_TOO_LARGE;
    }
    int status = img_jpeg_open(scratch, data, length, program->max_pixels, header, message);
    if (status != IMG_OK)
        return status;
    if (!program->exif)
        header->orientation = 1;
    if (program->tolerant)
        img_jpeg_tolerate(scratch);
    if (program->icc && img_has_profile(data, length)) {
        snprintf(message, IMG_MESSAGE, "a JPEG with a colour profile");
        return IMG_UNSUPPORTED;
    }
    return IMG_OK;
}

static int run_open(const img_program *program, img_scratch *scratch, const img_header *header, uint64_t key, void *out,
                    int64_t out_h, int64_t out_w, char *message) {
    const turning t = turning_of(header->orientation);
    const int64_t height = t.transposed ? header->width : header->height;
    const int64_t width = t.transposed ? header->height : header->width;
    int status = img_make_plan(program, height, width, key, &scratch->plan, message);
    if (status != IMG_OK)
        return status;
    const img_stage *stage = &scratch->plan.stages[0];
    const img_decoding how = choose_decoding(program, stage, header->components);
    const int eighths = how.eighths, gray = program->mode == IMG_GRAY;
    /* A picture that is no whole number of eighths ends inside the last decoded pixel; turned round, it begins there. */
    const int64_t stored_h = (header->height * eighths + 7) / 8, stored_w = (header->width * eighths + 7) / 8;
    const double over_h = t.flip_y ? (double)stored_h - (double)header->height * eighths / 8 : 0.0;
    const double over_w = t.flip_x ? (double)stored_w - (double)header->width * eighths / 8 : 0.0;
    axes a;
    status = prepare_side(stage, &stage->x, &how, t.transposed ? over_h : over_w, t.transposed ? stored_h : stored_w,
                          img_current_kernels()->lanes, &scratch->axes[0], &a.x, &a.resize_x);
    if (status == IMG_OK)
        status = prepare_side(stage, &stage->y, &how, t.transposed ? over_w : over_h,
                              t.transposed ? stored_w : stored_h, 0, &scratch->axes[1], &a.y, &a.resize_y);
    if (status != IMG_OK) {
        snprintf(message, IMG_MESSAGE, "no memory for resize coefficients");
        return status;
    }
    img_window window = {a.y.first, a.x.first, a.y.last - a.y.first, a.x.last - a.x.first};
    source from = {.streams = header->orientation == 1, .channels = how.channels, .columns = window.width,
                   .gray = gray && how.channels == 4};
    status = from.streams ? img_jpeg_start(scratch, &how, &window, message)
                          : turn(t, &how, stored_h, stored_w, &window, scratch, &from, message);
    from.late = img_jpeg_is_late(scratch);
    if (status == IMG_OK)
        status = run_stages(program, &a, &from, scratch, out, out_h, out_w, message);
    return status == IMG_OK ? img_jpeg_finish(scratch, message) : status;
}

int img_run_open(const img_program *program, img_scratch *scratch, const img_header *header, uint64_t key, void *out,
                 int64_t out_h, int64_t out_w, char *message) {
    int status = run_open(program, scratch, header, key, out, out_h, out_w, message);
    if (status == IMG_AGAIN) {
        img_jpeg_again(scratch);
        status = run_open(program, scratch, header, key, out, out_h, out_w, message);
    }
    return status;
}

int img_run_jpeg(const img_program *program, img_scratch *scratch, const uint8_t *data, int64_t length, uint64_t key,
                 void *out, int64_t out_h, int64_t out_w, char *message) {
    img_header header;
    int status = img_open(program, scratch, data, length, &header, message);
    if (status == IMG_OK)
        status = img_run_open(program, scratch, &header, key, out, out_h, out_w, message);
    img_jpeg_close(scratch);
    return status;
}

/* ---- Pixels ---- */

static int is_kept(const img_side *side) {
    return side->keep == side->out && side->resized == side->length && !side->flip;
}

/* Whether the result is a part of the picture as it is: then rows are copied. */
static int is_copy(const img_program *program, const img_stage *stage, int channels) {
    const img_layout *layout = &program->layout;
    return is_kept(&stage->y) && is_kept(&stage->x) && !stage->blank && stage->change_count == 0 &&
           layout->dtype == IMG_U8 && !layout->normalise && channels == layout->channels &&
           channels == (program->mode == IMG_RGB ? 3 : program->mode == IMG_GRAY ? 1 : 4) &&
           (!layout->chw || channels == 1);
}

int img_run_pixels(const img_program *program, img_scratch *scratch, const img_pixels *pixels, uint64_t key, void *out,
                   int64_t out_h, int64_t out_w, char *message) {
    const img_plan *plan = &scratch->plan;
    int status = img_make_plan(program, pixels->height, pixels->width, key, &scratch->plan, message);
    axes a;
    if (status == IMG_OK)
        status = prepare(&plan->stages[0], &a, scratch, message);
    if (status != IMG_OK)
        return status;
    const int channels = pixels->channels;
    const int64_t step_y = channels * pixels->width;
    const uint8_t *base = pixels->data + a.y.first * step_y + a.x.first * channels;
    if (plan->stage_count == 1 && plan->out_h == out_h && plan->out_w == out_w && is_copy(program, &plan->stages[0], channels)) {
        const size_t bytes = (size_t)(channels * out_w);
        if ((int64_t)bytes == step_y)
            memcpy(out, base, bytes * (size_t)out_h);
        else
            for (int64_t i = 0; i < out_h; i++)
                memcpy((uint8_t *)out + (size_t)i * bytes, base + i * step_y, bytes);
        return IMG_OK;
    }
    source from = {.base = base, .step_x = channels, .step_y = step_y, .channels = channels,
                   .end = pixels->data + pixels->height * step_y,
                   .gray = program->mode == IMG_GRAY && channels != 1, .columns = a.x.last - a.x.first};
    return run_stages(program, &a, &from, scratch, out, out_h, out_w, message);
}
