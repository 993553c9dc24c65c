/* Runs a program on one picture: how a JPEG is decoded and turned upright for it, or pixels that are there already. */
#include "run.h"

#include <stdio.h>
#include <string.h>

#include "base.h"
#include "choice.h"
#include "colour.h"
#include "markers.h"
#include "rows.h"

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
                img_scratch *scratch, img_source *from, char *message) {
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
        status = img_jpeg_start(scratch->jpeg, how, &stored, message);
    const uint8_t *row;
    for (int64_t y = 0; y < stored.height && status == IMG_OK; y++) {
        status = img_jpeg_row(scratch->jpeg, &row, message);
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
    return stage->resizes && stage->filter != IMG_NEAREST && stage->y.span * (double)of >= (double)(stage->y.resized * by) &&
           stage->x.span * (double)of >= (double)(stage->x.resized * by);
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
    if (program->mode == IMG_ID) {
        snprintf(message, IMG_MESSAGE, "ids are not decoded here");
        return IMG_UNSUPPORTED;
    }
    int status = img_jpeg_open(scratch->jpeg, data, length, program->max_pixels, header, message);
    if (status != IMG_OK)
        return status;
    if (!program->exif)
        header->orientation = 1;
    if (program->tolerant)
        img_jpeg_tolerate(scratch->jpeg);
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
    img_axes a;
    status = img_prepare_side(stage, &stage->x, &how, t.transposed ? over_h : over_w, t.transposed ? stored_h : stored_w,
                          img_current_kernels()->lanes, &scratch->axes[0], &a.x, &a.resize_x);
    if (status == IMG_OK)
        status = img_prepare_side(stage, &stage->y, &how, t.transposed ? over_w : over_h,
                              t.transposed ? stored_w : stored_h, 0, &scratch->axes[1], &a.y, &a.resize_y);
    if (status != IMG_OK) {
        snprintf(message, IMG_MESSAGE, "no memory for resize coefficients");
        return status;
    }
    img_window window = {a.y.first, a.x.first, a.y.last - a.y.first, a.x.last - a.x.first};
    img_source from = {.streams = header->orientation == 1, .channels = how.channels, .columns = window.width,
                   .gray = gray && how.channels == 4};
    status = from.streams ? img_jpeg_start(scratch->jpeg, &how, &window, message)
                          : turn(t, &how, stored_h, stored_w, &window, scratch, &from, message);
    from.late = img_jpeg_is_late(scratch->jpeg);
    if (status == IMG_OK)
        status = img_run_stages(program, &a, &from, scratch, out, out_h, out_w, message);
    return status == IMG_OK ? img_jpeg_finish(scratch->jpeg, message) : status;
}

int img_run_open(const img_program *program, img_scratch *scratch, const img_header *header, uint64_t key, void *out,
                 int64_t out_h, int64_t out_w, char *message) {
    int status = run_open(program, scratch, header, key, out, out_h, out_w, message);
    if (status == IMG_AGAIN) {
        img_jpeg_again(scratch->jpeg);
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
    img_jpeg_close(scratch->jpeg);
    return status;
}

/* ---- Pixels ---- */

/* Whether a part of an axis is left as it is. */
static int is_part(const img_side *side) {
    return side->keep == side->out && !img_is_scaled(side) && !side->flip;
}

/* Whether the result is a part of the picture as it is: then rows are copied. */
static int is_copy(const img_program *program, const img_stage *stage, int channels) {
    const img_layout *layout = &program->layout;
    return is_part(&stage->y) && is_part(&stage->x) && !stage->blank && stage->change_count == 0 &&
           layout->dtype == IMG_U8 && !layout->normalise && channels == layout->channels &&
           channels == (program->mode == IMG_RGB ? 3 : program->mode == IMG_GRAY ? 1 : 4) &&
           (!layout->chw || channels == 1);
}

int img_run_pixels(const img_program *program, img_scratch *scratch, const img_pixels *pixels, uint64_t key, void *out,
                   int64_t out_h, int64_t out_w, char *message) {
    const img_plan *plan = &scratch->plan;
    int status = img_make_plan(program, pixels->height, pixels->width, key, &scratch->plan, message);
    img_axes a;
    if (status == IMG_OK)
        status = img_prepare(&plan->stages[0], &a, scratch, message);
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
    img_source from = {.base = base, .step_x = channels, .step_y = step_y, .channels = channels,
                   .end = pixels->data + pixels->height * step_y,
                   .gray = program->mode == IMG_GRAY && channels != 1, .columns = a.x.last - a.x.first};
    return img_run_stages(program, &a, &from, scratch, out, out_h, out_w, message);
}
