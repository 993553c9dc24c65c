/* What a program means for one picture: draws what is random and folds the steps into stages.
 *
 * A stage is one part of its input, resized, cut or padded, flipped and coloured: what can be done row by row. A step opens
 * a new stage only when it needs pixels that the present one has yet to make. Sizes and places are torchvision's.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "image.h"

/* ---- Randomness: generator version 1, splitmix64's finaliser over folded integers ---- */

static uint64_t fold(uint64_t state, uint64_t part) {
    uint64_t x = state + part + 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

/* Draw number `k` of a step, in [0, 1). */
static double draw(uint64_t key, uint64_t k) { return (double)(fold(key, k) >> 11) * 0x1p-53; }

/* One of 0 .. count-1. */
static int64_t draw_below(uint64_t key, uint64_t k, int64_t count) { return (int64_t)(draw(key, k) * (double)count); }

/* ---- The stage that is being built ---- */

typedef struct {
    const img_program *program;
    img_plan *plan;
    img_stage *stage;
    char *message;
    int alpha;
} builder;

static void begin_side(img_side *side, int64_t length) {
    *side = (img_side){.in = length, .length = length, .resized = length, .keep = length, .out = length};
}

static void begin_stage(builder *b, int64_t height, int64_t width) {
    img_plan *plan = b->plan;
    b->stage = &plan->stages[plan->stage_count++];
    memset(b->stage, 0, sizeof *b->stage);
    begin_side(&b->stage->y, height);
    begin_side(&b->stage->x, width);
    b->stage->alpha = b->alpha;
    b->stage->colour_first = plan->colour_count;
}

static int is_padded(const img_stage *stage) {
    return stage->blank || stage->y.keep < stage->y.out || stage->x.keep < stage->x.out;
}

static int check_size(const builder *b, int64_t height, int64_t width, const char *step) {
    if (width <= b->program->max_pixels / height)
        return IMG_OK;
    snprintf(b->message, IMG_MESSAGE, "the picture has %lld x %lld pixels after its %s, more than max_pixels=%lld",
             (long long)width, (long long)height, step, (long long)b->program->max_pixels);
    return IMG_TOO_LARGE;
}

/* ---- Cutting and padding ---- */

static void cut_side(img_stage *stage, img_side *side, int64_t at, int64_t size) {
    if (side->flip)
        at = side->out - at - size;
    int64_t low = at > side->pad ? at : side->pad, end = side->pad + side->keep;
    int64_t high = at + size < end ? at + size : end;
    side->out = size;
    if (low >= high || stage->blank) { /* one sample stays, so that there is something to read */
        stage->blank = 1;
        side->keep = 1;
        side->pad = 0;
        return;
    }
    side->first += low - side->pad;
    side->keep = high - low;
    side->pad = low - at;
}

/* Keep height x width pixels from (top, left) on; `fill` where the picture has none. */
static void cut(builder *b, int64_t top, int64_t left, int64_t height, int64_t width, int fill) {
    const int64_t h = b->stage->y.out, w = b->stage->x.out;
    int beyond = top < 0 || left < 0 || top + height > h || left + width > w;
    if (b->stage->colour_count > 0 || (beyond && is_padded(b->stage) && fill != b->stage->fill))
        begin_stage(b, h, w);
    if (beyond)
        b->stage->fill = fill;
    cut_side(b->stage, &b->stage->y, top, height);
    cut_side(b->stage, &b->stage->x, left, width);
}

/* Python's round(difference / 2), which rounds halves to even. */
static int64_t half(int64_t difference) {
    int64_t down = difference / 2;
    return difference % 2 == 0 || down % 2 == 0 ? down : down + 1;
}

/* Where a crop in the middle starts; below 0 when the picture is smaller. */
static int64_t middle(int64_t size, int64_t crop) { return crop > size ? -((crop - size) / 2) : half(size - crop); }

static int64_t somewhere(uint64_t key, uint64_t k, int64_t size, int64_t crop) {
    return crop > size ? middle(size, crop) : draw_below(key, k, size - crop + 1);
}

/* ---- Resizing ---- */

static void resize_side(img_side *side, int64_t size) {
    side->from = side->first;
    side->length = side->keep;
    side->first = side->pad = 0;
    side->resized = side->keep = side->out = size;
    side->mirrored = side->flip;
}

static int resize(builder *b, int64_t height, int64_t width, int filter) {
    const int64_t h = b->stage->y.out, w = b->stage->x.out;
    if (height == h && width == w)
        return IMG_OK;
    if (b->stage->resizes || b->stage->colour_count > 0 || is_padded(b->stage))
        begin_stage(b, h, w);
    resize_side(&b->stage->y, height);
    resize_side(&b->stage->x, width);
    b->stage->resizes = 1;
    b->stage->filter = filter;
    return check_size(b, height, width, "resize");
}

static int resize_one_side(builder *b, const img_op *op) {
    const int64_t h = b->stage->y.out, w = b->stage->x.out, size = op->height;
    const int64_t shorter = w <= h ? w : h, longer = w <= h ? h : w;
    /* Both factors are below 2^31, so the products fit; they are int(size * long / short) of Python, and its converse. */
    int64_t other = op->kind == IMG_RESIZE_SHORT ? size * longer / shorter : size * shorter / longer;
    other = other > 0 ? other : 1;
    int height_is_size = op->kind == IMG_RESIZE_SHORT ? w > h : w <= h;
    return resize(b, height_is_size ? size : other, height_is_size ? other : size, op->filter);
}

static int random_resized_crop(builder *b, const img_op *op, uint64_t key) {
    const int64_t h = b->stage->y.out, w = b->stage->x.out;
    const double pixels = (double)(h * w), log_low = log(op->low[1]), log_high = log(op->high[1]);
    int64_t top = -1, left = 0, height = h, width = w;
    for (uint64_t k = 0; k < 40 && top < 0; k += 4) {
        double area = pixels * (op->low[0] + (op->high[0] - op->low[0]) * draw(key, k));
        double ratio = exp(log_low + (log_high - log_low) * draw(key, k + 1));
        double cut_w = rint(sqrt(area * ratio)), cut_h = rint(sqrt(area / ratio));
        if (cut_w < 1.0 || cut_w > (double)w || cut_h < 1.0 || cut_h > (double)h)
            continue;
        width = (int64_t)cut_w;
        height = (int64_t)cut_h;
        top = draw_below(key, k + 2, h - height + 1);
        left = draw_below(key, k + 3, w - width + 1);
    }
    if (top < 0) { /* the largest part of the middle that has a permitted ratio */
        double ratio = (double)w / (double)h;
        if (ratio < op->low[1])
            height = (int64_t)rint((double)w / op->low[1]);
        else if (ratio > op->high[1])
            width = (int64_t)rint((double)h * op->high[1]);
        height = height < 1 ? 1 : height > h ? h : height;
        width = width < 1 ? 1 : width > w ? w : width;
        top = (h - height) / 2;
        left = (w - width) / 2;
    }
    cut(b, top, left, height, width, 0);
    return resize(b, op->height, op->width, op->filter);
}

/* ---- Colours ---- */

static void add_colour(builder *b, img_colour colour) {
    b->plan->colours[b->plan->colour_count++] = colour;
    b->stage->colour_count++;
}

static void jitter(builder *b, const img_op *op, uint64_t key) {
    int left[4] = {IMG_BRIGHTNESS, IMG_CONTRAST, IMG_SATURATION, IMG_HUE};
    int64_t order = draw_below(key, 4, 24);
    for (int place = 0, ways = 6; place < 4; place++) { /* the order-th permutation of four */
        int64_t at = order / ways;
        order %= ways;
        ways = place < 2 ? ways / (3 - place) : 1;
        int kind = left[at];
        memmove(left + at, left + at + 1, (size_t)(3 - at) * sizeof *left);
        if (!op->used[kind])
            continue;
        double factor = op->low[kind] + (op->high[kind] - op->low[kind]) * draw(key, (uint64_t)kind);
        img_colour colour = {.kind = kind, .factor = (float)factor};
        if (kind == IMG_HUE)
            colour.shift = (uint8_t)(int32_t)(factor * 255.0);
        add_colour(b, colour);
    }
}

/* ---- All steps ---- */

static int add(builder *b, const img_op *op, uint64_t key) {
    const int64_t h = b->stage->y.out, w = b->stage->x.out;
    switch (op->kind) {
    case IMG_RESIZE:
        return resize(b, op->height, op->width, op->filter);
    case IMG_RESIZE_SHORT:
    case IMG_RESIZE_LONG:
        return resize_one_side(b, op);
    case IMG_CROP:
        cut(b, op->top, op->left, op->height, op->width, 0);
        return IMG_OK;
    case IMG_CENTER_CROP:
        cut(b, middle(h, op->height), middle(w, op->width), op->height, op->width, 0);
        return IMG_OK;
    case IMG_RANDOM_CROP:
        cut(b, somewhere(key, 0, h, op->height), somewhere(key, 1, w, op->width), op->height, op->width, 0);
        return IMG_OK;
    case IMG_RANDOM_RESIZED_CROP:
        return random_resized_crop(b, op, key);
    case IMG_PAD_AROUND:
        cut(b, -op->top, -op->left, h + op->top + op->bottom, w + op->left + op->right, op->fill);
        return check_size(b, b->stage->y.out, b->stage->x.out, "pad");
    case IMG_HFLIP:
        b->stage->x.flip ^= draw(key, 0) < op->low[0];
        return IMG_OK;
    case IMG_VFLIP:
        b->stage->y.flip ^= draw(key, 0) < op->low[0];
        return IMG_OK;
    case IMG_COLOR_JITTER:
        jitter(b, op, key);
        return IMG_OK;
    default: /* IMG_GRAYSCALE */
        add_colour(b, (img_colour){.kind = IMG_TO_GRAY});
        b->alpha = 0;
        return IMG_OK;
    }
}

int img_make_plan(const img_program *program, int64_t height, int64_t width, uint64_t key, img_plan *plan,
                  char *message) {
    if (width > program->max_pixels / height) {
        snprintf(message, IMG_MESSAGE, "the picture has %lld x %lld pixels, more than max_pixels=%lld" IMG_MORE_PIXELS,
                 (long long)width, (long long)height, (long long)program->max_pixels);
        return IMG_TOO_LARGE;
    }
    builder b = {.program = program, .plan = plan, .message = message, .alpha = program->mode == IMG_RGBA};
    plan->stage_count = plan->colour_count = 0;
    begin_stage(&b, height, width);
    for (int64_t i = 0; i < program->op_count; i++) {
        int status = add(&b, &program->ops[i], fold(key, program->ops[i].id));
        if (status != IMG_OK)
            return status;
    }
    plan->out_h = b.stage->y.out;
    plan->out_w = b.stage->x.out;
    return IMG_OK;
}
