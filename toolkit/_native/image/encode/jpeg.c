/* Writes a JPEG with libjpeg-turbo. The bytes depend on the pixels, the quality and libjpeg-turbo's version alone.
 *
 * Baseline, YCbCr 4:2:0, quantisation tables of Annex K scaled by the quality as libjpeg does, slow integer DCT (its SIMD
 * gives the same bits as its C), Huffman tables made for the picture, a JFIF header without density, nothing else.
 *
 * libjpeg reports errors with a function that may not return, so enc_jpeg sets a jump target; what is read after a jump
 * lies in a struct behind a pointer, never in a local variable that could have changed.
 */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>

#include <jerror.h> /* after jpeglib.h: its list of codes depends on the version found there */

#include "encode.h"

#define ROWS 16          /* rows that one libjpeg call takes: one row of 4:2:0 blocks */
#define FIRST_BYTES 65536

typedef struct {
    struct jpeg_compress_struct info;
    struct jpeg_error_mgr errors;
    struct jpeg_destination_mgr destination;
    jmp_buf jump;
    enc_buffer *out;
} encoder;

static void fail(j_common_ptr info) { longjmp(((encoder *)info->client_data)->jump, 1); }

static void silent(j_common_ptr info) { (void)info; }

static void ignore(j_common_ptr info, int level) {
    (void)info;
    (void)level;
}

static void begin(j_compress_ptr info) {
    enc_buffer *out = ((encoder *)info->client_data)->out;
    info->dest->next_output_byte = out->data;
    info->dest->free_in_buffer = out->size;
}

/* The buffer is full: double it. libjpeg asks for this whatever it has left, so all of `size` counts as written. */
static boolean grow(j_compress_ptr info) {
    enc_buffer *out = ((encoder *)info->client_data)->out;
    size_t used = out->size;
    uint8_t *data = used > SIZE_MAX / 2 ? NULL : realloc(out->data, 2 * used);
    if (data == NULL)
        ERREXIT1(info, JERR_OUT_OF_MEMORY, 0);
    out->data = data;
    out->size = 2 * used;
    info->dest->next_output_byte = data + used;
    info->dest->free_in_buffer = used;
    return TRUE;
}

static void end(j_compress_ptr info) {
    enc_buffer *out = ((encoder *)info->client_data)->out;
    out->used = out->size - info->dest->free_in_buffer;
}

static int failure(encoder *jpeg, char *message) {
    char text[JMSG_LENGTH_MAX];
    jpeg->errors.format_message((j_common_ptr)&jpeg->info, text);
    snprintf(message, ENC_MESSAGE, "libjpeg: %s", text);
    return jpeg->errors.msg_code == JERR_OUT_OF_MEMORY ? ENC_NO_MEMORY : ENC_FAILED;
}

static int encode(encoder *jpeg, const uint8_t *rgb, int64_t height, int64_t width, int quality, char *message) {
    struct jpeg_compress_struct *info = &jpeg->info;
    if (setjmp(jpeg->jump))
        return failure(jpeg, message);
    jpeg_create_compress(info);
    info->dest = &jpeg->destination;
    info->image_width = (JDIMENSION)width;
    info->image_height = (JDIMENSION)height;
    info->input_components = 3;
    info->in_color_space = JCS_RGB;
    jpeg_set_defaults(info);
    jpeg_set_quality(info, quality, TRUE); /* TRUE: table entries stay below 256, as baseline asks for */
    info->dct_method = JDCT_ISLOW;
    info->optimize_coding = TRUE;
    for (int i = 0; i < 3; i++) /* the defaults of every version so far; a pin must not depend on the next one's */
        info->comp_info[i].h_samp_factor = info->comp_info[i].v_samp_factor = i == 0 ? 2 : 1;
    jpeg_start_compress(info, TRUE);
    JSAMPROW rows[ROWS];
    while (info->next_scanline < info->image_height) {
        JDIMENSION left = info->image_height - info->next_scanline, count = left < ROWS ? left : ROWS;
        for (JDIMENSION i = 0; i < count; i++) /* libjpeg takes a pointer that isn't const and only reads */
            rows[i] = (JSAMPROW)(uintptr_t)(rgb + ((int64_t)info->next_scanline + i) * width * 3);
        jpeg_write_scanlines(info, rows, count);
    }
    jpeg_finish_compress(info);
    return ENC_OK;
}

int enc_jpeg(enc_buffer *out, const uint8_t *rgb, int64_t height, int64_t width, int quality, char *message) {
    if (height > JPEG_MAX_DIMENSION || width > JPEG_MAX_DIMENSION) {
        snprintf(message, ENC_MESSAGE, "%lld x %lld pixels: a JPEG has at most %ld a side", (long long)width,
                 (long long)height, (long)JPEG_MAX_DIMENSION);
        return ENC_FAILED;
    }
    if (out->data == NULL) {
        out->data = malloc(FIRST_BYTES);
        out->size = out->data == NULL ? 0 : FIRST_BYTES;
    }
    encoder *jpeg = calloc(1, sizeof *jpeg);
    if (jpeg == NULL || out->data == NULL) {
        free(jpeg);
        snprintf(message, ENC_MESSAGE, "no memory for a JPEG encoder");
        return ENC_NO_MEMORY;
    }
    jpeg->out = out;
    jpeg->info.err = jpeg_std_error(&jpeg->errors);
    jpeg->errors.error_exit = fail;
    jpeg->errors.emit_message = ignore;
    jpeg->errors.output_message = silent;
    jpeg->info.client_data = jpeg;
    jpeg->destination.init_destination = begin;
    jpeg->destination.empty_output_buffer = grow;
    jpeg->destination.term_destination = end;
    int status = encode(jpeg, rgb, height, width, quality, message);
    jpeg_destroy_compress(&jpeg->info);
    free(jpeg);
    return status;
}

void enc_free(enc_buffer *buffer) {
    free(buffer->data);
    buffer->data = NULL;
    buffer->size = buffer->used = 0;
}
