/* What a program means for one picture: branches and ops draw what is random, and what they do is folded into stages.
 *
 * A stage is one part of its input, resized, cut or padded, flipped and coloured: what can be done row by row. A step opens
 * a new stage only when it needs pixels that the present one has yet to make. Sizes and places are torchvision's.
 */
#include "plan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base.h"
#include "draws.h"
#include "program.h"
#include "variates.h"

/* ---- The stage that is being built ---- */

static void begin_side(img_side *side, int64_t length) {
    *side = (img_side){.in = length, .length = length, .span = (double)length, .resized = length, .keep = length,
                       .out = length};
}

static int begin_stage(img_builder *b, int64_t height, int64_t width) {
    img_plan *plan = b->plan;
    if (plan->stage_count == IMG_MAX_STAGES) {
        snprintf(b->message, IMG_MESSAGE, "the steps need more than %d passes over the picture", IMG_MAX_STAGES);
        return IMG_TOO_LARGE;
    }
    b->stage = &plan->stages[plan->stage_count++];
    memset(b->stage, 0, sizeof *b->stage);
    begin_side(&b->stage->y, height);
    begin_side(&b->stage->x, width);
    b->stage->alpha = b->alpha;
    b->stage->change_first = plan->change_count;
    return IMG_OK;
}

static int is_padded(const img_stage *stage) {
    return stage->blank || stage->y.keep < stage->y.out || stage->x.keep < stage->x.out;
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

int img_plan_cut(img_builder *b, int64_t top, int64_t left, int64_t height, int64_t width, int fill) {
    const int64_t h = b->stage->y.out, w = b->stage->x.out;
    int beyond = top < 0 || left < 0 || top + height > h || left + width > w;
    const uint32_t pixel = b->ids ? b->ignore : (uint32_t)fill * 0x01010101u;
    int status = IMG_OK;
    if (b->stage->change_count > 0 || (beyond && is_padded(b->stage) && pixel != b->stage->fill))
        status = begin_stage(b, h, w);
    if (status != IMG_OK)
        return status;
    if (beyond)
        b->stage->fill = pixel;
    cut_side(b->stage, &b->stage->y, top, height);
    cut_side(b->stage, &b->stage->x, left, width);
    return IMG_OK;
}

int img_plan_check_size(const img_builder *b, const char *step) {
    const int64_t height = b->stage->y.out, width = b->stage->x.out;
    if (width <= b->max_pixels / height)
        return IMG_OK;
    snprintf(b->message, IMG_MESSAGE, "the picture has %lld x %lld pixels after its %s, more than max_pixels=%lld",
             (long long)width, (long long)height, step, (long long)b->max_pixels);
    return IMG_TOO_LARGE;
}

/* ---- Resizing ---- */

static void resize_side(img_side *side, double at, double span, int64_t size) {
    side->at = at;
    side->span = span;
    side->from = side->first;
    side->length = side->keep;
    side->first = side->pad = 0;
    side->resized = side->keep = side->out = size;
    side->mirrored = side->flip;
}

int img_plan_resize(img_builder *b, int64_t height, int64_t width, int filter) {
    const img_box whole = {.height = (double)b->stage->y.out, .width = (double)b->stage->x.out};
    return img_plan_resize_box(b, &whole, height, width, filter);
}

int img_plan_resize_box(img_builder *b, const img_box *box, int64_t height, int64_t width, int filter) {
    const int64_t h = b->stage->y.out, w = b->stage->x.out;
    if (height == h && width == w && box->height == (double)h && box->width == (double)w)
        return IMG_OK;
    int status = IMG_OK;
    if (b->stage->resizes || b->stage->change_count > 0 || is_padded(b->stage))
        status = begin_stage(b, h, w);
    if (status != IMG_OK)
        return status;
    resize_side(&b->stage->y, box->top, box->height, height);
    resize_side(&b->stage->x, box->left, box->width, width);
    b->stage->resizes = 1;
    b->stage->filter = filter;
    return img_plan_check_size(b, "resize");
}

/* ---- Flipping ---- */

int img_plan_flip(img_builder *b, int across, int down) {
    int status = IMG_OK;
    if (b->stage->placed && (across || down))
        status = begin_stage(b, b->stage->y.out, b->stage->x.out);
    if (status != IMG_OK)
        return status;
    b->stage->x.flip ^= across;
    b->stage->y.flip ^= down;
    return IMG_OK;
}

/* ---- Colours ---- */

int img_plan_change(img_builder *b, const img_change *change) {
    if (b->plan->change_count == IMG_MAX_CHANGES) {
        snprintf(b->message, IMG_MESSAGE, "the steps change colours more than %d times", IMG_MAX_CHANGES);
        return IMG_TOO_LARGE;
    }
    b->plan->changes[b->plan->change_count++] = *change;
    b->stage->change_count++;
    b->stage->placed |= change->apply_at != NULL;
    return IMG_OK;
}

static int plan_by_table(img_builder *b, img_change change) {
    img_plan *plan = b->plan;
    if (plan->table_count == IMG_MAX_TABLES) {
        snprintf(b->message, IMG_MESSAGE, "the steps need more than %d tables of colours", IMG_MAX_TABLES);
        return IMG_TOO_LARGE;
    }
    int status = img_reserve_or_say(&plan->tables, IMG_MAX_TABLES * sizeof(img_table), b->message);
    if (status != IMG_OK)
        return status;
    change.table = (img_table *)plan->tables.data + plan->table_count++;
    return img_plan_change(b, &change);
}

int img_plan_table(img_builder *b, const img_table *table) {
    img_change *last = b->stage->change_count > 0 ? &b->plan->changes[b->plan->change_count - 1] : NULL;
    if (last != NULL && last->table != NULL && last->measure == NULL) {
        img_join_tables(last->table, table);
        return IMG_OK;
    }
    int status = plan_by_table(b, (img_change){0});
    if (status == IMG_OK)
        *b->plan->changes[b->plan->change_count - 1].table = *table;
    return status;
}

int img_plan_statistic(img_builder *b, const img_change *change) { return plan_by_table(b, *change); }

/* ---- Whole pictures ---- */

int img_plan_whole(img_builder *b, const img_whole *whole, const char *step) {
    b->stage->whole = *whole;
    int status = begin_stage(b, whole->out_height, whole->out_width);
    return status == IMG_OK ? img_plan_check_size(b, step) : status;
}

/* ---- All steps ---- */

static int add_chain(img_builder *b, const img_chain *steps, uint64_t key);

/* End the stage with a mix: the stages of its chains come behind it, each of them beginning with the picture as it is, and
 * then one that goes on with the mixed picture. */
static int add_mix(img_builder *b, const img_op *op, uint64_t key) {
    img_plan *plan = b->plan;
    const int64_t height = b->stage->y.out, width = b->stage->x.out;
    const int alpha = b->alpha;
    if (plan->mix_count == IMG_MAX_MIXES) {
        snprintf(b->message, IMG_MESSAGE, "the steps mix pictures more than %d times", IMG_MAX_MIXES);
        return IMG_TOO_LARGE;
    }
    img_mix *mix = &plan->mixes[plan->mix_count++];
    *mix = (img_mix){.first = plan->stage_count, .count = op->way_count};
    img_draw_mix(img_fold(key, op->id), op->alpha, mix);
    b->stage->mix = mix;
    for (int64_t i = 0; i < op->way_count; i++) {
        b->alpha = alpha;
        int status = begin_stage(b, height, width);
        if (status == IMG_OK)
            status = add_chain(b, &op->ways[i], key);
        if (status != IMG_OK)
            return status;
        if (b->stage->y.out != height || b->stage->x.out != width) {
            snprintf(b->message, IMG_MESSAGE, "a chain of a mix makes %lld x %lld pixels of %lld x %lld",
                     (long long)b->stage->x.out, (long long)b->stage->y.out, (long long)width, (long long)height);
            return IMG_TOO_LARGE;
        }
        mix->ends[i] = plan->stage_count;
    }
    return begin_stage(b, height, width);
}

/* Add the way of a branch that is drawn, if one is. */
static int add_way(img_builder *b, const img_op *branch, uint64_t key) {
    const double drawn = img_draw(img_fold(key, branch->id), 0);
    for (int64_t i = 0; i < branch->way_count; i++)
        if (drawn < branch->limits[i])
            return add_chain(b, &branch->ways[i], key);
    return IMG_OK;
}

#define LEVEL_DRAW (1ull << 32) /* the draws of a level: behind all that an op draws itself */

/* Add an op whose level is drawn: its parameters are copied, for what it plans may point to them. */
static int add_with_level(img_builder *b, const img_op *op, uint64_t key) {
    img_plan *plan = b->plan;
    if (plan->params_count == IMG_MAX_OPS) {
        snprintf(b->message, IMG_MESSAGE, "the steps draw more than %d levels", IMG_MAX_OPS);
        return IMG_TOO_LARGE;
    }
    int status = img_reserve_or_say(&plan->params, IMG_MAX_OPS * IMG_MAX_PARAMS, b->message);
    if (status != IMG_OK)
        return status;
    uint8_t *params = plan->params.data + IMG_MAX_PARAMS * plan->params_count++;
    const img_level *by = &op->level;
    double level = by->mean + by->deviation * img_draw_normal(key, LEVEL_DRAW);
    level = level < 0.0 ? 0.0 : level > 10.0 ? 10.0 : level;
    const double change = by->change * (level / 10.0), value = by->start + (by->whole ? trunc(change) : change);
    const img_range range = {.given = 1, .low = value, .high = value};
    memcpy(params, op->params, op->kind->params_size);
    memcpy(params + by->offset, &range, sizeof range);
    return op->kind->plan(b, params, key);
}

/* `key` is the sample's. */
static int add_chain(img_builder *b, const img_chain *steps, uint64_t key) {
    int status = IMG_OK;
    for (int64_t i = 0; i < steps->count && status == IMG_OK; i++) {
        const img_op *op = &steps->ops[i];
        if (op->kind != NULL)
            status = op->level.deviation > 0.0 ? add_with_level(b, op, img_fold(key, op->id))
                                               : op->kind->plan(b, op->params, img_fold(key, op->id));
        else
            status = op->limits != NULL ? add_way(b, op, key) : add_mix(b, op, key);
    }
    return status;
}

static int check_patches(const img_layout *layout, const img_plan *plan, char *message) {
    const int64_t height = layout->view_height > 0 ? layout->view_height : plan->out_h, side = layout->patch;
    if (side == 0 || (height % side == 0 && plan->out_w % side == 0))
        return IMG_OK;
    snprintf(message, IMG_MESSAGE, "the result has %lld x %lld pixels, no whole number of patches of %lld x %lld",
             (long long)plan->out_w, (long long)height, (long long)side, (long long)side);
    return IMG_UNFIT;
}

int img_make_plan(const img_program *program, int64_t height, int64_t width, uint64_t key, img_plan *plan,
                  char *message) {
    if (width > program->max_pixels / height) {
        snprintf(message, IMG_MESSAGE, "the picture has %lld x %lld pixels, more than max_pixels=%lld" IMG_MORE_PIXELS,
                 (long long)width, (long long)height, (long long)program->max_pixels);
        return IMG_TOO_LARGE;
    }
    img_builder b = {.plan = plan, .max_pixels = program->max_pixels, .alpha = program->mode == IMG_RGBA,
                     .gray = program->mode == IMG_GRAY, .ids = program->mode == IMG_ID, .ignore = program->ignore,
                     .message = message};
    plan->stage_count = plan->change_count = plan->table_count = plan->mix_count = plan->params_count = 0;
    int status = begin_stage(&b, height, width);
    if (status == IMG_OK)
        status = add_chain(&b, &program->steps, key);
    plan->out_h = b.stage->y.out;
    plan->out_w = b.stage->x.out;
    return status == IMG_OK ? check_patches(&program->layout, plan, message) : status;
}
