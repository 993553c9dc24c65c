/* jpeg_compression: a picture written as a JPEG and read again, by libjpeg-turbo, as PIL does it: YCbCr 4:2:0, the tables of
 * Annex K scaled by the quality, slow integer DCT both ways. How it is Huffman coded doesn't change a pixel.
 *
 * libjpeg reports errors with a function that may not return, so `encode` and `decode` set a jump target each; neither changes
 * a local variable after that.
 */
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h> /* after jpeglib.h: its list of codes depends on the version found there */

#include "image/program/base.h"
#include "image/program/draws.h"
#include "image/program/libjpeg.h"
#include "image/program/op.h"
#include "image/program/plan.h"

/* More than a JPEG ever has: a block of 64 values takes 208 bytes at most, twice that where all are stuffed, and 1.5 of them
 * stand for 64 pixels of a picture whose sides are rounded up to 16. */
#define BYTES_PER_PIXEL 10
#define HEADER_BYTES 4096

typedef struct {
    struct jpeg_compress_struct info;
    struct jpeg_error_mgr errors;
    struct jpeg_destination_mgr destination;
    jmp_buf jump;
    uint8_t *data;
    size_t size, used;
} encoder;

static int64_t most_bytes(int64_t height, int64_t width) {
    return BYTES_PER_PIXEL * ((height + 15) / 16 * 16) * ((width + 15) / 16 * 16) + HEADER_BYTES;
}

static void fail(j_common_ptr info) { longjmp(((encoder *)info->client_data)->jump, 1); }

static void silent(j_common_ptr info) { (void)info; }

static void ignore(j_common_ptr info, int level) {
    (void)info;
    (void)level;
}

static void begin(j_compress_ptr info) {
    info->dest->next_output_byte = ((encoder *)info->client_data)->data;
    info->dest->free_in_buffer = ((encoder *)info->client_data)->size;
}

static boolean is_full(j_compress_ptr info) {
    ERREXIT(info, JERR_CANT_SUSPEND);
    return FALSE;
}

static void end(j_compress_ptr info) {
    encoder *to = info->client_data;
    to->used = to->size - info->dest->free_in_buffer;
}

static int failure(encoder *to, char *message) {
    char text[JMSG_LENGTH_MAX];
    to->errors.format_message((j_common_ptr)&to->info, text);
    snprintf(message, IMG_MESSAGE, "libjpeg: %s", text);
    return to->errors.msg_code == JERR_OUT_OF_MEMORY ? IMG_NO_MEMORY : IMG_CORRUPT;
}

static int encode(encoder *to, const uint8_t *rgbx, int64_t height, int64_t width, int quality, char *message) {
    struct jpeg_compress_struct *info = &to->info;
    if (setjmp(to->jump))
        return failure(to, message);
    jpeg_create_compress(info);
    info->dest = &to->destination;
    info->image_width = (JDIMENSION)width;
    info->image_height = (JDIMENSION)height;
    info->input_components = 4;
    info->in_color_space = JCS_EXT_RGBX;
    jpeg_set_defaults(info);
    jpeg_set_quality(info, quality, TRUE); /* TRUE: table entries stay below 256, as baseline asks for */
    info->dct_method = JDCT_ISLOW;
    jpeg_start_compress(info, TRUE);
    while (info->next_scanline < info->image_height) { /* libjpeg takes a pointer that isn't const and only reads */
        JSAMPROW row = (JSAMPROW)(uintptr_t)(rgbx + 4 * width * (int64_t)info->next_scanline);
        jpeg_write_scanlines(info, &row, 1);
    }
    jpeg_finish_compress(info);
    return IMG_OK;
}

static int decode(img_libjpeg *from, uint8_t *rgbx, int64_t width, char *message) {
    struct jpeg_decompress_struct *info = &from->info;
    if (setjmp(from->jump))
        return img_libjpeg_failure(from, message);
    info->out_color_space = JCS_EXT_RGBX;
    jpeg_start_decompress(info);
    while (info->output_scanline < info->output_height) {
        JSAMPROW row = rgbx + 4 * width * (int64_t)info->output_scanline;
        jpeg_read_scanlines(info, &row, 1);
    }
    jpeg_finish_decompress(info);
    return IMG_OK;
}

/* The fourth byte: alpha stays; elsewhere it is a gray picture's value. */
IMG_CLONES static void set_fourth(uint8_t *out, const uint8_t *in, int64_t count, int alpha) {
    for (int64_t i = 0; i < count; i++)
        out[4 * i + 3] = alpha ? in[4 * i + 3] : out[4 * i];
}

static int recompress(const img_whole *whole, const uint8_t *in, int64_t height, int64_t width, uint8_t *out, uint8_t *work,
                      char *message) {
    encoder to = {.data = work, .size = (size_t)whole->work_bytes};
    to.info.err = jpeg_std_error(&to.errors);
    to.errors.error_exit = fail;
    to.errors.emit_message = ignore;
    to.errors.output_message = silent;
    to.info.client_data = &to;
    to.destination.init_destination = begin;
    to.destination.empty_output_buffer = is_full;
    to.destination.term_destination = end;
    int status = encode(&to, in, height, width, (int)whole->drawn[0], message);
    jpeg_destroy_compress(&to.info);
    if (status != IMG_OK)
        return status;
    img_libjpeg from = {.created = 0};
    status = img_libjpeg_open(&from, work, (int64_t)to.used, message);
    if (status == IMG_OK)
        status = decode(&from, out, width, message);
    img_libjpeg_close(&from);
    set_fourth(out, in, height * width, whole->drawn[1] != 0);
    return status;
}

typedef struct {
    img_range quality;
    double p;
} jpeg_compression;

static const img_field jpeg_compression_fields[] = {
    IMG_RANGE_FIELD(jpeg_compression, quality, 1, 100),
    IMG_NUMBER_FIELD(jpeg_compression, p, 0.0, 1.0),
    IMG_NO_FIELD,
};

static int jpeg_compression_fixed(const void *params) {
    const jpeg_compression *by = params;
    return by->p == 1.0 && by->quality.low == by->quality.high;
}

static int plan_jpeg_compression(img_builder *b, const void *params, uint64_t key) {
    const jpeg_compression *by = params;
    if (!img_draw_whether(key, by->p))
        return IMG_OK;
    const int64_t height = img_plan_height(b), width = img_plan_width(b);
    if (height > JPEG_MAX_DIMENSION || width > JPEG_MAX_DIMENSION) {
        snprintf(b->message, IMG_MESSAGE, "the picture has %lld x %lld pixels, and a JPEG at most %ld a side",
                 (long long)width, (long long)height, (long)JPEG_MAX_DIMENSION);
        return IMG_TOO_LARGE;
    }
    const img_whole whole = {.apply_or_say = recompress, .out_height = height, .out_width = width,
                             .work_bytes = most_bytes(height, width),
                             .drawn = {(double)img_draw_whole(key, 1, &by->quality), b->alpha}};
    return img_plan_whole(b, &whole, "jpeg_compression");
}

IMG_DEFINE_OP(jpeg_compression, IMG_PICTURE, jpeg_compression, jpeg_compression_fields, .draws = 1,
              .fixed = jpeg_compression_fixed, .plan = plan_jpeg_compression);
