/* Runs a program on one picture: how a JPEG is decoded and turned upright for it, or pixels that are there already. */
#include "run.h"

#include <stdio.h>
#include <string.h>

#include "base.h"
#include "markers.h"
#include "rows.h"
#include "tensor.h"
#include "upright.h"

int img_result_size(const img_program *program, img_scratch *scratch, int64_t height, int64_t width, uint64_t key,
                    int64_t *out_h, int64_t *out_w, char *message) {
    int status = img_make_plan(program, height, width, key, &scratch->plan, message);
    *out_h = scratch->plan.out_h;
    *out_w = scratch->plan.out_w;
    return status;
}

/* ---- JPEG ---- */

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
    int64_t height, width;
    img_upright_size(header, &height, &width);
    int status = img_make_plan(program, height, width, key, &scratch->plan, message);
    if (status != IMG_OK)
        return status;
    const img_stage *stage = &scratch->plan.stages[0];
    const img_decoding how = img_choose_decoding(program, stage, header->components);
    const img_upright seen = img_see_upright(header, &how);
    img_axes a;
    status = img_prepare_upright(stage, &seen, &how, &a, scratch, message);
    if (status != IMG_OK)
        return status;
    const img_window window = {a.y.first, a.x.first, a.y.last - a.y.first, a.x.last - a.x.first};
    img_source from = {.streams = 1, .channels = how.channels, .columns = window.width};
    if (header->orientation == 1) {
        status = img_jpeg_start(scratch->jpeg, &how, &window, message);
        from.late = img_jpeg_is_late(scratch->jpeg);
    } else {
        status = img_decode_upright(&seen, &how, &window, scratch, &scratch->pixels[0], &from, message);
    }
    from.gray = program->mode == IMG_GRAY && how.channels == 4;
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
    if (status != IMG_OK && status != IMG_CUT)
        return status;
    const int done = img_run_tensor_steps(program, scratch, key, out, out_h, out_w, message);
    return done == IMG_OK ? status : done;
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
           (!layout->chw || channels == 1) && layout->patch == 0;
}

static int run_pixels(const img_program *program, img_scratch *scratch, const img_pixels *pixels, uint64_t key, void *out,
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

int img_run_pixels(const img_program *program, img_scratch *scratch, const img_pixels *pixels, uint64_t key, void *out,
                   int64_t out_h, int64_t out_w, char *message) {
    const int status = run_pixels(program, scratch, pixels, key, out, out_h, out_w, message);
    return status == IMG_OK ? img_run_tensor_steps(program, scratch, key, out, out_h, out_w, message) : status;
}
