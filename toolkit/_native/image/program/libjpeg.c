/* What libjpeg-turbo calls: where it reads, how it reports errors and warnings; and what those mean. */
#include "libjpeg.h"

#include <string.h>

#include <jerror.h> /* after jpeglib.h: its list of codes depends on the version found there */

#include "base.h"

static const JOCTET fake_eoi[2] = {0xFF, IMG_JPEG_EOI};

static void no_operation(j_decompress_ptr info) { (void)info; }

static boolean fill(j_decompress_ptr info) {
    ((img_libjpeg *)info->client_data)->hit_end = 1;
    info->src->next_input_byte = fake_eoi;
    info->src->bytes_in_buffer = 2;
    return TRUE;
}

static void skip(j_decompress_ptr info, long count) {
    if (count <= 0)
        return;
    if ((size_t)count > info->src->bytes_in_buffer) {
        fill(info);
    } else {
        info->src->next_input_byte += count;
        info->src->bytes_in_buffer -= (size_t)count;
    }
}

/* libjpeg calls this several times a scan while it reads all of a picture's scans. */
static void watch(j_common_ptr info) {
    img_libjpeg *lib = info->client_data;
    if (((j_decompress_ptr)info)->input_scan_number > IMG_MAX_SCANS) {
        lib->scan_bomb = 1;
        longjmp(lib->jump, 1);
    }
}

static void fail(j_common_ptr info) { longjmp(((img_libjpeg *)info->client_data)->jump, 1); }

static void silent(j_common_ptr info) { (void)info; }

/* Level -1 is a warning. Those that mean wrong pixels are kept; the others (bytes before a marker ...) are harmless. */
static void note(j_common_ptr info, int level) {
    img_libjpeg *lib = info->client_data;
    if (level >= 0)
        return;
    info->err->num_warnings++;
    switch (info->err->msg_code) {
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_MUST_RESYNC:
#if JPEG_LIB_VERSION >= 70 || defined(C_ARITH_CODING_SUPPORTED) || defined(D_ARITH_CODING_SUPPORTED)
    case JWRN_ARITH_BAD_CODE:
#endif
        if (lib->damage == 0) {
            lib->damage = info->err->msg_code;
            info->err->format_message(info, lib->damage_text);
        }
    }
}

int img_libjpeg_failure(img_libjpeg *lib, char *message) {
    char text[JMSG_LENGTH_MAX];
    if (lib->scan_bomb) {
        snprintf(message, IMG_MESSAGE, "the JPEG has more than %d scans: write it anew with fewer", IMG_MAX_SCANS);
        return IMG_CORRUPT;
    }
    lib->errors.format_message((j_common_ptr)&lib->info, text);
    int status = IMG_CORRUPT;
    switch (lib->errors.msg_code) {
    case JERR_OUT_OF_MEMORY:
        status = IMG_NO_MEMORY;
        break;
    case JERR_IMAGE_TOO_BIG:
    case JERR_WIDTH_OVERFLOW:
        status = IMG_TOO_LARGE;
        break;
    case JERR_NO_SOI:
        status = IMG_NOT_JPEG;
        break;
    case JERR_BAD_PRECISION:
    case JERR_SOF_UNSUPPORTED:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_CCIR601_NOTIMPL:
    case JERR_FRACT_SAMPLE_NOTIMPL:
    case JERR_COMPONENT_COUNT:
    case JERR_NOT_COMPILED:
        status = IMG_UNSUPPORTED;
        break;
    default:
        if (lib->hit_end)
            status = IMG_TRUNCATED;
    }
    if (status == IMG_TRUNCATED)
        snprintf(message, IMG_MESSAGE, "the JPEG data end too early (%s)", text);
    else
        snprintf(message, IMG_MESSAGE, "libjpeg: %s", text);
    return status;
}

int img_libjpeg_damage(const img_libjpeg *lib, char *message) {
    if (lib->damage == 0)
        return IMG_OK;
    int truncated = lib->hit_end && lib->damage == JWRN_HIT_MARKER;
    snprintf(message, IMG_MESSAGE, truncated ? "the JPEG data end too early (%s)" : "libjpeg: %s", lib->damage_text);
    return truncated ? IMG_TRUNCATED : IMG_CORRUPT;
}

/* A fresh decompressor for each picture: libjpeg keeps quantisation and Huffman tables from picture to picture, and one
 * that lacks its own would silently be decoded with those of its predecessor. */
int img_libjpeg_open(img_libjpeg *lib, const uint8_t *data, int64_t length, char *message) {
    lib->hit_end = lib->damage = lib->scan_bomb = 0;
    lib->info.err = jpeg_std_error(&lib->errors);
    lib->errors.error_exit = fail;
    lib->errors.emit_message = note;
    lib->errors.output_message = silent;
    lib->info.client_data = lib;
    if (setjmp(lib->jump))
        return img_libjpeg_failure(lib, message);
    jpeg_create_decompress(&lib->info);
    lib->created = 1;
    lib->source.init_source = no_operation;
    lib->source.fill_input_buffer = fill;
    lib->source.skip_input_data = skip;
    lib->source.resync_to_restart = jpeg_resync_to_restart;
    lib->source.term_source = no_operation;
    lib->source.next_input_byte = data;
    lib->source.bytes_in_buffer = (size_t)length;
    lib->info.src = &lib->source;
    lib->progress.progress_monitor = watch;
    lib->info.progress = &lib->progress;
    jpeg_read_header(&lib->info, TRUE);
    return IMG_OK;
}

void img_libjpeg_close(img_libjpeg *lib) {
    if (lib->created) {
        lib->created = 0;
        jpeg_destroy_decompress(&lib->info);
    }
}
