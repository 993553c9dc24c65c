/* Runs several programs on one JPEG, which is decoded once for all of them where that is less work.
 *
 * The rectangle around all of their windows is decoded as a whole, and each program takes its part of those pixels: a window
 * of a JPEG has the pixels of a full decoding, however large it is. What is damaged, or truncated, is no case for this: each
 * program then runs alone, and says what it says alone.
 */
#include "shared.h"

#include "base.h"
#include "run.h"
#include "tensor.h"
#include "upright.h"

#define MOST_PIXELS (1 << 23) /* that are held at once, 32 MiB: alone, a program holds few rows */

/* What a pixel costs on photographs, relative to each other. */
#define BEGIN_COST 1  /* of the whole picture: to begin a decoding */
#define SCAN_COST 3   /* to read its coefficients, in all rows above the window and beside it, too */
#define SCANS_COST 40 /* the same of several scans, of the whole picture, and by libjpeg-turbo */
#define PIXEL_COST 5  /* to make it of them */
#define STORE_COST 1  /* to hold it */

/* Whether a view can't go on before the scratch has more memory. */
static int wants_memory(const img_view *v, const img_scratch *scratch) {
    return v->status == IMG_NO_MEMORY && scratch->room.wanted > 0;
}

int64_t img_run_alone(img_view *views, int64_t count, int64_t first, img_scratch *scratch, const uint8_t *data,
                      int64_t length) {
    for (int64_t i = first; i < count; i++) {
        img_view *v = &views[i];
        v->message[0] = 0;
        v->status = img_run_jpeg(v->program, scratch, data, length, v->key, v->out, v->out_h, v->out_w, v->message);
        if (wants_memory(v, scratch))
            return i;
    }
    return count;
}

/* ---- Plans ---- */

/* Plan all, and say how to decode for those that can be: at the finest scale that one of them needs. */
static int plan_all(img_view *views, int64_t count, img_scratch *scratch, const img_header *header, img_decoding *shared) {
    *shared = (img_decoding){.eighths = 1, .fast = 1, .channels = 1};
    int64_t height, width;
    img_upright_size(header, &height, &width);
    for (int64_t i = 0; i < count; i++) {
        img_view *v = &views[i];
        v->status = img_make_plan(v->program, height, width, v->key, &scratch->plan, v->message);
        if (wants_memory(v, scratch))
            return IMG_NO_MEMORY;
        if (v->status != IMG_OK)
            continue;
        v->first = scratch->plan.stages[0];
        const img_decoding how = img_choose_decoding(v->program, &v->first, header->components);
        shared->eighths = how.eighths > shared->eighths ? how.eighths : shared->eighths;
        shared->fast = shared->fast && how.fast;
        shared->channels = how.channels;
    }
    return IMG_OK;
}

/* Find the window of each, and the one around them all; return how many there are. */
static int64_t find_windows(img_view *views, int64_t count, const img_upright *seen, const img_decoding *how,
                            img_window *all) {
    int64_t found = 0, bottom = 0, right = 0;
    for (int64_t i = 0; i < count; i++) {
        if (views[i].status != IMG_OK)
            continue;
        const img_window w = views[i].window = img_reach_upright(&views[i].first, seen, how);
        all->top = found == 0 || w.top < all->top ? w.top : all->top;
        all->left = found == 0 || w.left < all->left ? w.left : all->left;
        bottom = w.top + w.height > bottom ? w.top + w.height : bottom;
        right = w.left + w.width > right ? w.left + w.width : right;
        found++;
    }
    all->height = bottom - all->top;
    all->width = right - all->left;
    return found;
}

/* ---- Whether it is less work ---- */

static int64_t cost_of(const img_upright *seen, const img_decoding *how, const img_header *header, const img_window *window,
                       int stored) {
    const img_window w = img_stored_window(seen, window);
    const int64_t picture = header->height * header->width, scanned = (w.top + w.height) * header->width * 8 / how->eighths;
    return picture * (BEGIN_COST + (header->progressive ? SCANS_COST : 0)) + scanned * (header->progressive ? 0 : SCAN_COST) +
           w.height * w.width * (PIXEL_COST + (stored ? STORE_COST : 0));
}

static int is_less_work(const img_view *views, int64_t count, const img_header *header, const img_upright *seen,
                        const img_decoding *how, const img_window *all) {
    if (all->width > MOST_PIXELS / all->height)
        return 0;
    int64_t alone = 0;
    for (int64_t i = 0; i < count; i++) {
        if (views[i].status != IMG_OK)
            continue;
        const img_decoding own = img_choose_decoding(views[i].program, &views[i].first, header->components);
        const img_upright mine = img_see_upright(header, &own);
        const img_window window = img_reach_upright(&views[i].first, &mine, &own);
        alone += cost_of(&mine, &own, header, &window, header->orientation != 1);
    }
    return cost_of(seen, how, header, all, 1) < alone;
}

/* ---- All on one decoding ---- */

/* Run one on its part of the pixels that `all` describes. */
static int run_part(img_view *v, const img_upright *seen, const img_decoding *how, const img_window *all,
                    const img_source *pixels, img_scratch *scratch) {
    img_axes a;
    /* Planned again: a plan is large, and a scratch has one. */
    int status = img_make_plan(v->program, v->first.y.in, v->first.x.in, v->key, &scratch->plan, v->message);
    if (status == IMG_OK)
        status = img_prepare_upright(&scratch->plan.stages[0], seen, how, &a, scratch, v->message);
    if (status != IMG_OK)
        return status;
    img_source from = *pixels;
    from.base += (v->window.top - all->top) * from.step_y + (v->window.left - all->left) * from.step_x;
    from.columns = v->window.width;
    from.gray = v->program->mode == IMG_GRAY && how->channels == 4;
    status = img_run_stages(v->program, &a, &from, scratch, v->out, v->out_h, v->out_w, v->message);
    if (status != IMG_OK)
        return status;
    return img_run_tensor_steps(v->program, scratch, v->key, v->out, v->out_h, v->out_w, v->message);
}

static int run_open(img_view *views, int64_t count, img_scratch *scratch, const img_header *header) {
    img_decoding how;
    if (plan_all(views, count, scratch, header, &how) != IMG_OK)
        return IMG_NO_MEMORY;
    const img_upright seen = img_see_upright(header, &how);
    img_window all = {0, 0, 0, 0};
    const int64_t found = find_windows(views, count, &seen, &how, &all);
    if (found == 0)
        return IMG_OK;
    if (found == 1 || !is_less_work(views, count, header, &seen, &how, &all))
        return IMG_AGAIN;
    char message[IMG_MESSAGE];
    img_source pixels;
    int status = img_decode_upright(&seen, &how, &all, scratch, &scratch->shared, &pixels, message);
    if (status == IMG_OK)
        status = img_jpeg_finish(scratch->jpeg, message);
    if (status != IMG_OK)
        return status == IMG_NO_MEMORY && scratch->room.wanted > 0 ? IMG_NO_MEMORY : IMG_AGAIN;
    for (int64_t i = 0; i < count; i++)
        if (views[i].status == IMG_OK) {
            views[i].status = run_part(&views[i], &seen, &how, &all, &pixels, scratch);
            if (wants_memory(&views[i], scratch))
                return IMG_NO_MEMORY;
        }
    return IMG_OK;
}

int img_run_together(img_view *views, int64_t count, img_scratch *scratch, const uint8_t *data, int64_t length) {
    img_header header;
    for (int64_t i = 0; i < count; i++)
        views[i].message[0] = 0;
    int status = img_open(views[0].program, scratch, data, length, &header, views[0].message);
    if (status == IMG_OK)
        status = run_open(views, count, scratch, &header);
    else if (status != IMG_NO_MEMORY || scratch->room.wanted == 0)
        status = IMG_AGAIN; /* each says it */
    img_jpeg_close(scratch->jpeg);
    return status;
}
