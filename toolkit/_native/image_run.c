/* Runs a program on one picture: rows flow from the decoder through both resize passes into the result.
 *
 * A row is decoded, resized in width, kept in a ring of as many rows as the vertical filter is high, summed when the
 * last of them is there, and laid out: all of it stays in the first caches. Only a picture between two stages, or one
 * that has to be turned, is stored as a whole.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image.h"

/* ---- Scratch ---- */

img_scratch *img_scratch_new(void) { return calloc(1, sizeof(img_scratch)); }

static img_buffer *buffer_of(const img_scratch *scratch, int i) {
    img_scratch *s = (img_scratch *)scratch;
    img_buffer *all[] = {&s->rows,    &s->line,    &s->ring,      &s->pointers, &s->mixed,
                         &s->axes[0], &s->axes[1], &s->pixels[0], &s->pixels[1]};
    return i < (int)(sizeof all / sizeof *all) ? all[i] : NULL;
}

void img_scratch_free(img_scratch *scratch) {
    if (scratch == NULL)
        return;
    for (int i = 0; buffer_of(scratch, i) != NULL; i++)
        free(buffer_of(scratch, i)->data);
    img_jpeg_free(scratch->jpeg);
    free(scratch);
}

int64_t img_scratch_bytes(const img_scratch *scratch) {
    uint64_t bytes = sizeof *scratch;
    for (int i = 0; buffer_of(scratch, i) != NULL; i++)
        bytes += buffer_of(scratch, i)->size;
    return (int64_t)bytes;
}

int img_reserve(img_buffer *buffer, uint64_t size) {
    if (size <= buffer->size)
        return IMG_OK;
    void *data = NULL;
    uint64_t grown = (size + size / 4 + 4095) / 4096 * 4096; /* some room, so that similar pictures find it large enough */
    if (grown < size || grown > SIZE_MAX / 2 || posix_memalign(&data, 64, (size_t)grown) != 0)
        return IMG_NO_MEMORY;
    free(buffer->data);
    buffer->data = data;
    buffer->size = (size_t)grown;
    return IMG_OK;
}

static int reserve(img_buffer *buffer, uint64_t size, char *message) {
    int status = img_reserve(buffer, size);
    if (status != IMG_OK)
        snprintf(message, IMG_MESSAGE, "no memory for %llu bytes of scratch", (unsigned long long)size);
    return status;
}

/* ---- Choice of the loops ---- */

static const img_kernels *current;

int img_choose_kernels(const char *name) {
    const img_kernels *chosen = NULL;
#if defined(__x86_64__)
    __builtin_cpu_init();
    int avx2 = __builtin_cpu_supports("avx2");
    int avx512 = avx2 && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vbmi") &&
                 __builtin_cpu_supports("avx512vnni");
    if (avx512 && (name[0] == 0 || strcmp(name, "avx512") == 0))
        chosen = &img_avx512_kernels;
    else if (avx2 && (name[0] == 0 || strcmp(name, "avx2") == 0))
        chosen = &img_avx2_kernels;
#endif
    if (chosen == NULL && (name[0] == 0 || strcmp(name, "generic") == 0))
        chosen = &img_generic_kernels;
    if (chosen == NULL)
        return -1;
    __atomic_store_n(&current, chosen, __ATOMIC_RELEASE);
    return 0;
}

const img_kernels *img_current_kernels(void) { return __atomic_load_n(&current, __ATOMIC_ACQUIRE); }

/* ---- Where rows come from ---- */

/* Rows of the source window, in order. Either the open JPEG, or pixels in memory from `base` on. */
typedef struct {
    int streams;              /* the open JPEG gives the rows */
    const uint8_t *base;      /* window row 0, column 0 */
    int64_t step_x, step_y;   /* bytes to the next pixel and row; negative where the picture is turned */
    int rgb;                  /* three bytes a pixel, not four */
    int64_t height, width;    /* of the whole picture */
    int64_t columns;          /* of the window */
} source;

static int next_row(source *from, img_scratch *scratch, const uint8_t **row, char *message) {
    if (from->streams)
        return img_jpeg_row(scratch, row, message);
    const uint8_t *p = from->base;
    from->base += from->step_y;
    if (!from->rgb && from->step_x == 4) {
        *row = p;
        return IMG_OK;
    }
    uint8_t *line = scratch->line.data;
    *row = line;
    if (from->rgb) {
        img_current_kernels()->from_rgb(line, p, from->columns);
    } else {
        for (int64_t i = 0; i < from->columns; i++, p += from->step_x)
            memcpy(line + 4 * i, p, 4);
    }
    return IMG_OK;
}

/* ---- Where rows go ---- */

typedef struct {
    const img_program *program; /* NULL: RGBX pixels for the next stage */
    const img_kernels *kernels;
    uint8_t *out;
    const img_plan *plan;
} sink;

/* Black where the picture is smaller than the crop. */
static void put_padding(const sink *to) {
    const img_plan *plan = to->plan;
    uint64_t area = (uint64_t)plan->out_h * (uint64_t)plan->out_w;
    if (plan->keep_h == plan->out_h && plan->keep_w == plan->out_w)
        return;
    if (to->program == NULL || !to->program->normalise) {
        memset(to->out, 0, area * (to->program == NULL ? 4 : 3));
        return;
    }
    for (int c = 0; c < 3; c++)
        for (uint64_t i = 0; i < area; i++)
            ((float *)to->out)[(uint64_t)c * area + i] = to->program->bias[c];
}

static void put_row(const sink *to, int64_t i, const uint8_t *row) {
    const img_plan *plan = to->plan;
    int64_t at = (plan->pad_top + i) * plan->out_w + plan->pad_left;
    if (to->program == NULL)
        memcpy(to->out + 4 * at, row, 4 * (size_t)plan->keep_w);
    else if (to->program->normalise)
        to->kernels->to_planes((float *)to->out + at, plan->out_h * plan->out_w, row, plan->keep_w, to->program->scale,
                               to->program->bias);
    else
        to->kernels->to_rgb(to->out + 3 * at, row, plan->keep_w);
}

/* ---- One stage ---- */

typedef struct {
    img_plan plan;
    img_axis x, y;
    int resize_x, resize_y;
} stage;

static int prepare(stage *st, const img_stage *spec, int64_t height, int64_t width, int64_t max_pixels, int64_t lanes,
                   img_scratch *scratch, char *message) {
    int status = img_make_plan(spec, height, width, max_pixels, &st->plan, message);
    if (status != IMG_OK)
        return status;
    const img_plan *plan = &st->plan;
    st->resize_x = plan->resized_w != width;
    st->resize_y = plan->resized_h != height;
    if (st->resize_x)
        status = img_make_axis(&scratch->axes[0], width, plan->resized_w, plan->left, plan->keep_w, lanes, &st->x);
    else
        img_keep_axis(plan->left, plan->keep_w, &st->x);
    if (status == IMG_OK && st->resize_y)
        status = img_make_axis(&scratch->axes[1], height, plan->resized_h, plan->top, plan->keep_h, 0, &st->y);
    else
        img_keep_axis(plan->top, plan->keep_h, &st->y);
    if (status != IMG_OK)
        snprintf(message, IMG_MESSAGE, "no memory for resize coefficients");
    return status;
}

static int run_stage(const stage *st, source *from, const sink *to, img_scratch *scratch, char *message) {
    const img_kernels *kernels = to->kernels;
    const int64_t taps = 2 * st->y.pairs, rows = st->y.last - st->y.first, row_bytes = 4 * st->plan.keep_w;
    const uint64_t stride = ((uint64_t)row_bytes + 2 * IMG_PAD - 1) / IMG_PAD * IMG_PAD;
    int status = reserve(&scratch->mixed, stride + IMG_PAD, message);
    if (status == IMG_OK)
        status = reserve(&scratch->line, (uint64_t)from->columns * 4 + IMG_PAD, message);
    if (status == IMG_OK && st->resize_y)
        status = reserve(&scratch->ring, (uint64_t)taps * stride + IMG_PAD, message);
    if (status == IMG_OK && st->resize_y)
        status = reserve(&scratch->pointers, (uint64_t)taps * sizeof(uint8_t *), message);
    if (status != IMG_OK)
        return status;
    put_padding(to);

    uint8_t *ring = scratch->ring.data, *mixed = scratch->mixed.data;
    const uint8_t **window = (const uint8_t **)scratch->pointers.data, *row;
    int64_t fetched = 0;
    for (int64_t i = 0; i < st->y.count; i++) {
        int64_t first = st->resize_y ? st->y.start[i] : i;
        int64_t end = st->resize_y ? (first + taps < rows ? first + taps : rows) : i + 1;
        for (; fetched < end; fetched++) {
            status = next_row(from, scratch, &row, message);
            if (status != IMG_OK)
                return status;
            uint8_t *target = st->resize_y ? ring + (uint64_t)(fetched % taps) * stride : mixed;
            if (st->resize_x)
                kernels->horizontal(target, row, &st->x);
            else if (st->resize_y)
                memcpy(target, row, (size_t)row_bytes);
            if (!st->resize_y && st->resize_x)
                row = mixed;
        }
        if (st->resize_y) {
            for (int64_t k = 0; k < taps; k++) /* behind the last row: any row, its coefficient is zero */
                window[k] = ring + (uint64_t)((first + k < rows ? first + k : first) % taps) * stride;
            kernels->vertical(mixed, window, &st->y, i, row_bytes);
            row = mixed;
        }
        put_row(to, i, row);
    }
    return IMG_OK;
}

/* All stages from `first` on, the source of that one being ready. */
static int run_stages(const img_program *program, stage *st, source *from, img_scratch *scratch, void *out,
                      int64_t out_h, int64_t out_w, char *message) {
    const img_kernels *kernels = img_current_kernels();
    static const img_stage nothing = {0, 0, 0};
    int64_t count = program->stage_count > 0 ? program->stage_count : 1;
    for (int64_t k = 0;; k++) {
        const img_plan *plan = &st->plan;
        int last = k == count - 1, status;
        sink to = {last ? program : NULL, kernels, out, plan};
        if (last && (plan->out_h != out_h || plan->out_w != out_w)) {
            snprintf(message, IMG_MESSAGE, "the picture's size changed while it was decoded");
            return IMG_CORRUPT;
        }
        if (!last) {
            img_buffer *buffer = &scratch->pixels[(k + 1) % 2];
            status = reserve(buffer, (uint64_t)plan->out_h * (uint64_t)plan->out_w * 4 + IMG_PAD, message);
            if (status != IMG_OK)
                return status;
            to.out = buffer->data;
        }
        status = run_stage(st, from, &to, scratch, message);
        if (status != IMG_OK || last)
            return status;
        source next = {.base = to.out, .step_x = 4, .step_y = 4 * plan->out_w, .height = plan->out_h, .width = plan->out_w};
        status = prepare(st, program->stage_count > 0 ? &program->stages[k + 1] : &nothing, next.height, next.width,
                         program->max_pixels, kernels->lanes, scratch, message);
        if (status != IMG_OK)
            return status;
        next.base += st->y.first * next.step_y + st->x.first * next.step_x;
        next.columns = st->x.last - st->x.first;
        *from = next;
    }
}

static int prepare_first(const img_program *program, stage *st, int64_t height, int64_t width, img_scratch *scratch,
                         char *message) {
    static const img_stage nothing = {0, 0, 0};
    return prepare(st, program->stage_count > 0 ? &program->stages[0] : &nothing, height, width, program->max_pixels,
                   img_current_kernels()->lanes, scratch, message);
}

int img_result_size(const img_program *program, int64_t height, int64_t width, int64_t *out_h, int64_t *out_w,
                    char *message) {
    if (width > program->max_pixels / height) {
        snprintf(message, IMG_MESSAGE, "the picture has %lld x %lld pixels, more than max_pixels=%lld", (long long)width,
                 (long long)height, (long long)program->max_pixels);
        return IMG_TOO_LARGE;
    }
    *out_h = height;
    *out_w = width;
    for (int64_t k = 0; k < program->stage_count; k++) {
        img_plan plan;
        int status = img_make_plan(&program->stages[k], *out_h, *out_w, program->max_pixels, &plan, message);
        if (status != IMG_OK)
            return status;
        *out_h = plan.out_h;
        *out_w = plan.out_w;
    }
    return IMG_OK;
}

/* ---- One picture ---- */

/* Decode the stored rectangle of a turned window as a whole and describe it as a source in upright order. */
static int turn(int orientation, const img_header *header, const img_window *upright, img_scratch *scratch, source *from,
                char *message) {
    int transposed = orientation >= 5;
    int flip_x = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
    int flip_y = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
    img_window stored = *upright;
    if (transposed)
        stored = (img_window){upright->left, upright->top, upright->width, upright->height};
    if (flip_y)
        stored.top = header->height - stored.top - stored.height;
    if (flip_x)
        stored.left = header->width - stored.left - stored.width;
    int64_t stride = 4 * stored.width;
    int status = reserve(&scratch->pixels[0], (uint64_t)stored.height * (uint64_t)stride + IMG_PAD, message);
    if (status == IMG_OK)
        status = img_jpeg_start(scratch, &stored, message);
    const uint8_t *row;
    for (int64_t y = 0; y < stored.height && status == IMG_OK; y++) {
        status = img_jpeg_row(scratch, &row, message);
        if (status == IMG_OK)
            memcpy(scratch->pixels[0].data + y * stride, row, (size_t)stride);
    }
    int64_t along_x = flip_x ? -4 : 4, along_y = flip_y ? -stride : stride;
    from->base = scratch->pixels[0].data + (flip_y ? (stored.height - 1) * stride : 0) + (flip_x ? stride - 4 : 0);
    from->step_x = transposed ? along_y : along_x;
    from->step_y = transposed ? along_x : along_y;
    return status;
}

static int run_open_jpeg(const img_program *program, img_scratch *scratch, const img_header *header, void *out,
                         int64_t out_h, int64_t out_w, char *message) {
    int swapped = header->orientation >= 5;
    source from = {.height = swapped ? header->width : header->height, .width = swapped ? header->height : header->width};
    stage st;
    int status = prepare_first(program, &st, from.height, from.width, scratch, message);
    if (status != IMG_OK)
        return status;
    img_window window = {st.y.first, st.x.first, st.y.last - st.y.first, st.x.last - st.x.first};
    from.columns = window.width;
    from.streams = header->orientation == 1;
    status = from.streams ? img_jpeg_start(scratch, &window, message)
                          : turn(header->orientation, header, &window, scratch, &from, message);
    if (status == IMG_OK)
        status = run_stages(program, &st, &from, scratch, out, out_h, out_w, message);
    if (status == IMG_OK)
        status = img_jpeg_finish(scratch, message);
    return status;
}

int img_run_jpeg(const img_program *program, img_scratch *scratch, const uint8_t *data, int64_t length, void *out,
                 int64_t out_h, int64_t out_w, char *message) {
    img_header header;
    int status = img_jpeg_open(scratch, data, length, program->max_pixels, &header, message);
    if (status == IMG_OK)
        status = run_open_jpeg(program, scratch, &header, out, out_h, out_w, message);
    img_jpeg_close(scratch);
    return status;
}

int img_run_pixels(const img_program *program, img_scratch *scratch, const uint8_t *rgb, int64_t height, int64_t width,
                   void *out, int64_t out_h, int64_t out_w, char *message) {
    source from = {.base = rgb, .step_x = 3, .step_y = 3 * width, .rgb = 1, .height = height, .width = width};
    stage st;
    int status = prepare_first(program, &st, height, width, scratch, message);
    if (status != IMG_OK)
        return status;
    from.base += st.y.first * from.step_y + st.x.first * from.step_x;
    from.columns = st.x.last - st.x.first;
    return run_stages(program, &st, &from, scratch, out, out_h, out_w, message);
}
