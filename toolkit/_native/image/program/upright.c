/* How a JPEG is decoded for the first stage of a plan, and turned upright. */
#include "upright.h"

#include <stdio.h>

#include "base.h"
#include "choice.h"
#include "colour.h"

/* ---- How much of its size, and which colours ---- */

/* Whether both sides of a stage shrink to at most `of` / `by` of their length. */
static int shrinks(const img_stage *stage, int64_t of, int64_t by) {
    return stage->resizes && stage->filter != IMG_NEAREST && stage->y.span * (double)of >= (double)(stage->y.resized * by) &&
           stage->x.span * (double)of >= (double)(stage->x.resized * by);
}

img_decoding img_choose_decoding(const img_program *program, const img_stage *stage, int components) {
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

/* ---- Upright ---- */

void img_upright_size(const img_header *header, int64_t *height, int64_t *width) {
    *height = header->orientation >= 5 ? header->width : header->height;
    *width = header->orientation >= 5 ? header->height : header->width;
}

img_upright img_see_upright(const img_header *header, const img_decoding *how) {
    const int orientation = header->orientation, eighths = how->eighths;
    img_upright seen = {.transposed = orientation >= 5,
                        .flip_x = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8,
                        .flip_y = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7,
                        .stored_height = (header->height * eighths + 7) / 8,
                        .stored_width = (header->width * eighths + 7) / 8};
    /* A picture that is no whole number of eighths ends inside the last decoded pixel; turned round, it begins there. */
    const double over_h = seen.flip_y ? (double)seen.stored_height - (double)header->height * eighths / 8 : 0.0;
    const double over_w = seen.flip_x ? (double)seen.stored_width - (double)header->width * eighths / 8 : 0.0;
    seen.height = seen.transposed ? seen.stored_width : seen.stored_height;
    seen.width = seen.transposed ? seen.stored_height : seen.stored_width;
    seen.shift_y = seen.transposed ? over_w : over_h;
    seen.shift_x = seen.transposed ? over_h : over_w;
    return seen;
}

img_window img_stored_window(const img_upright *seen, const img_window *window) {
    img_window stored = *window;
    if (seen->transposed)
        stored = (img_window){window->left, window->top, window->width, window->height};
    if (seen->flip_y)
        stored.top = seen->stored_height - stored.top - stored.height;
    if (seen->flip_x)
        stored.left = seen->stored_width - stored.left - stored.width;
    return stored;
}

img_window img_reach_upright(const img_stage *stage, const img_upright *seen, const img_decoding *how) {
    int64_t top, left, bottom, right;
    img_side_reach(stage, &stage->y, how, seen->shift_y, seen->height, &top, &bottom);
    img_side_reach(stage, &stage->x, how, seen->shift_x, seen->width, &left, &right);
    return (img_window){top, left, bottom - top, right - left};
}

int img_prepare_upright(const img_stage *stage, const img_upright *seen, const img_decoding *how, img_axes *made,
                        img_scratch *scratch, char *message) {
    int status = img_prepare_side(stage, &stage->x, how, seen->shift_x, seen->width, img_current_kernels()->lanes,
                                  &scratch->axes[0], &made->x, &made->resize_x);
    if (status == IMG_OK)
        status = img_prepare_side(stage, &stage->y, how, seen->shift_y, seen->height, 0, &scratch->axes[1], &made->y,
                                  &made->resize_y);
    if (status != IMG_OK)
        snprintf(message, IMG_MESSAGE, "no memory for resize coefficients");
    return status;
}

int img_decode_upright(const img_upright *seen, const img_decoding *how, const img_window *window, img_scratch *scratch,
                       img_buffer *into, img_source *from, char *message) {
    const img_window stored = img_stored_window(seen, window);
    const int64_t stride = 4 * stored.width;
    int status = img_reserve_or_say(into, (uint64_t)stored.height * (uint64_t)stride + IMG_PAD, message);
    if (status == IMG_OK)
        status = img_jpeg_start(scratch->jpeg, how, &stored, message);
    const uint8_t *row;
    for (int64_t y = 0; y < stored.height && status == IMG_OK; y++) {
        status = img_jpeg_row(scratch->jpeg, &row, message);
        if (status == IMG_OK)
            img_from_channels(into->data + y * stride, row, stored.width, how->channels);
    }
    const int64_t along_x = seen->flip_x ? -4 : 4, along_y = seen->flip_y ? -stride : stride;
    *from = (img_source){
        .base = into->data + (seen->flip_y ? (stored.height - 1) * stride : 0) + (seen->flip_x ? stride - 4 : 0),
        .end = into->data + stored.height * stride + IMG_PAD,
        .step_x = seen->transposed ? along_y : along_x, .step_y = seen->transposed ? along_x : along_y,
        .channels = 4, .columns = window->width, .late = img_jpeg_is_late(scratch->jpeg)};
    return status;
}
