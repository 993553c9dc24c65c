/* Reads a window of a JPEG: only the blocks it needs, bit for bit what a full decode gives, unless less is asked for:
 * fewer eighths of its size, repeated chroma, or luma only. libjpeg-turbo reads the header; baseline.c then decodes
 * what it takes, libjpeg-turbo the rest.
 *
 * Columns are cut with jpeg_crop_scanline, rows above the window with jpeg_skip_scanlines (Huffman decoding only), and
 * nothing below the window is decoded. The exact settings are libjpeg's defaults, as in Pillow: slow integer DCT, fancy upsampling.
 *
 * libjpeg reports errors with a function that may not return, so each img_jpeg_* function sets its own jump target;
 * none of them changes a local variable after that.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h> /* after jpeglib.h: its list of codes depends on the version found there */

#include "baseline.h"

#define ROWS 8        /* rows that one libjpeg call may return; few, so that they stay in the first cache */
#define MIN_CROP 64   /* narrower windows are read at full width: libjpeg upsamples tiny widths in another way */
#define LIBJPEG_ROWS 48 /* bytes of each column and component: rows before and after upsampling, and the slack around them */
#define EOI 0xD9

struct img_jpeg {
    struct jpeg_decompress_struct info;
    struct jpeg_error_mgr errors;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    jmp_buf jump;
    int created;
    int scan_bomb;    /* more scans than IMG_MAX_SCANS */
    int hit_end;      /* libjpeg wanted bytes behind the end of the data */
    int plain;        /* all of it is libjpeg's work */
    int ours;         /* baseline.c gives the rows */
    int tolerant;     /* data that end too early are no error */
    int channels;     /* bytes of a decoded pixel */
    int damage;       /* the first warning that means wrong pixels, a JWRN_ code */
    char damage_text[JMSG_LENGTH_MAX];
    int64_t shift;    /* window column 0 in a decoded row */
    int64_t next, filled; /* rows of the buffer: next to hand out, how many there are */
    int64_t wanted;   /* rows of the window not yet handed out */
    JSAMPROW rows[ROWS];
};

static const JOCTET fake_eoi[2] = {0xFF, EOI};

static void no_operation(j_decompress_ptr info) { (void)info; }

static boolean fill(j_decompress_ptr info) {
    ((img_jpeg *)info->client_data)->hit_end = 1;
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
    img_jpeg *jpeg = info->client_data;
    if (((j_decompress_ptr)info)->input_scan_number > IMG_MAX_SCANS) {
        jpeg->scan_bomb = 1;
        longjmp(jpeg->jump, 1);
    }
}

static void fail(j_common_ptr info) { longjmp(((img_jpeg *)info->client_data)->jump, 1); }

static void silent(j_common_ptr info) { (void)info; }

/* Level -1 is a warning. Those that mean wrong pixels are kept; the others (bytes before a marker ...) are harmless. */
static void note(j_common_ptr info, int level) {
    img_jpeg *jpeg = info->client_data;
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
        if (jpeg->damage == 0) {
            jpeg->damage = info->err->msg_code;
            info->err->format_message(info, jpeg->damage_text);
        }
    }
}

/* Status and message of the error that libjpeg has just raised. */
static int failure(img_jpeg *jpeg, char *message) {
    char text[JMSG_LENGTH_MAX];
    if (jpeg->scan_bomb) {
        snprintf(message, IMG_MESSAGE, "the JPEG has more than %d scans: write it anew with fewer", IMG_MAX_SCANS);
        return IMG_CORRUPT;
    }
    jpeg->errors.format_message((j_common_ptr)&jpeg->info, text);
    int status = IMG_CORRUPT;
    switch (jpeg->errors.msg_code) {
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
        if (jpeg->hit_end)
            status = IMG_TRUNCATED;
    }
    if (status == IMG_TRUNCATED)
        snprintf(message, IMG_MESSAGE, "the JPEG data end too early (%s)", text);
    else
        snprintf(message, IMG_MESSAGE, "libjpeg: %s", text);
    return status;
}

static int damaged(img_jpeg *jpeg, char *message) {
    if (jpeg->damage == 0)
        return IMG_OK;
    int truncated = jpeg->hit_end && jpeg->damage == JWRN_HIT_MARKER;
    snprintf(message, IMG_MESSAGE, truncated ? "the JPEG data end too early (%s)" : "libjpeg: %s", jpeg->damage_text);
    return truncated ? IMG_TRUNCATED : IMG_CORRUPT;
}

static img_jpeg *get(img_scratch *scratch) {
    if (scratch->jpeg == NULL)
        scratch->jpeg = calloc(1, sizeof *scratch->jpeg);
    return scratch->jpeg;
}

/* A fresh decompressor for each picture: libjpeg keeps quantisation and Huffman tables from picture to picture, and one
 * that lacks its own would silently be decoded with those of its predecessor. */
static int create(img_jpeg *jpeg, const uint8_t *data, int64_t length, char *message) {
    jpeg->hit_end = jpeg->damage = jpeg->scan_bomb = jpeg->tolerant = jpeg->plain = jpeg->ours = 0;
    jpeg->info.err = jpeg_std_error(&jpeg->errors);
    jpeg->errors.error_exit = fail;
    jpeg->errors.emit_message = note;
    jpeg->errors.output_message = silent;
    jpeg->info.client_data = jpeg;
    if (setjmp(jpeg->jump))
        return failure(jpeg, message);
    jpeg_create_decompress(&jpeg->info);
    jpeg->created = 1;
    jpeg->source.init_source = no_operation;
    jpeg->source.fill_input_buffer = fill;
    jpeg->source.skip_input_data = skip;
    jpeg->source.resync_to_restart = jpeg_resync_to_restart;
    jpeg->source.term_source = no_operation;
    jpeg->source.next_input_byte = data;
    jpeg->source.bytes_in_buffer = (size_t)length;
    jpeg->info.src = &jpeg->source;
    jpeg->progress.progress_monitor = watch;
    jpeg->info.progress = &jpeg->progress;
    jpeg_read_header(&jpeg->info, TRUE);
    return IMG_OK;
}

int img_jpeg_open(img_scratch *scratch, const uint8_t *data, int64_t length, int64_t max_pixels, img_header *header,
                  char *message) {
    if (length < 3 || data[0] != 0xFF || data[1] != 0xD8 || data[2] != 0xFF) {
        snprintf(message, IMG_MESSAGE, "not a JPEG: the data do not start with FF D8 FF");
        return IMG_NOT_JPEG;
    }
    img_jpeg *jpeg = get(scratch);
    if (jpeg == NULL) {
        snprintf(message, IMG_MESSAGE, "no memory for a JPEG decoder");
        return IMG_NO_MEMORY;
    }
    int status = create(jpeg, data, length, message);
    if (status != IMG_OK)
        return status;
    const struct jpeg_decompress_struct *info = &jpeg->info;
    header->height = info->image_height;
    header->width = info->image_width;
    header->components = info->num_components;
    header->progressive = info->progressive_mode;
    header->orientation = img_orientation(data, length);
    if (info->jpeg_color_space != JCS_GRAYSCALE && info->jpeg_color_space != JCS_YCbCr &&
        info->jpeg_color_space != JCS_RGB) {
        snprintf(message, IMG_MESSAGE, "a JPEG of %d components (CMYK, YCCK or unknown colours) is not supported",
                 info->num_components);
        return IMG_UNSUPPORTED;
    }
    if (header->width > max_pixels / header->height) {
        snprintf(message, IMG_MESSAGE, "the picture has %lld x %lld pixels, more than max_pixels=%lld" IMG_MORE_PIXELS,
                 (long long)header->width, (long long)header->height, (long long)max_pixels);
        return IMG_TOO_LARGE;
    }
    return IMG_OK;
}

/* Whether cropping and skipping give the pixels of a full decode. They do for the samplings that the tests cover;
 * block smoothing of unfinished progressive pictures looks at neighbours that would be missing. */
static int may_cut(const struct jpeg_decompress_struct *info) {
    const jpeg_component_info *c = info->comp_info;
    if (info->num_components == 3) {
        if (c[0].h_samp_factor > 2 || c[0].v_samp_factor > 2 || c[0].v_samp_factor > c[0].h_samp_factor)
            return 0;
        for (int i = 1; i < 3; i++)
            if (c[i].h_samp_factor != 1 || c[i].v_samp_factor != 1)
                return 0;
    } else if (c[0].h_samp_factor != 1 || c[0].v_samp_factor != 1) {
        return 0;
    }
    for (int i = 0; info->coef_bits != NULL && i < info->num_components; i++)
        for (int k = 0; k < DCTSIZE2; k++)
            if (info->coef_bits[i][k] != 0)
                return 0;
    return 1;
}

/* What baseline.c wants to know of a picture, if its header is one of those it takes. */
static int describe(const struct jpeg_decompress_struct *info, img_picture *picture) {
    const int gray = info->jpeg_color_space == JCS_GRAYSCALE && info->num_components == 1;
    const int colour = info->jpeg_color_space == JCS_YCbCr && info->num_components == 3;
    if (info->progressive_mode || info->arith_code || info->data_precision != 8 || !(gray || colour) ||
        info->comps_in_scan != info->num_components)
        return 0;
    *picture = (img_picture){.height = info->image_height, .width = info->image_width,
                             .components = info->num_components, .h = info->comp_info[0].h_samp_factor,
                             .v = info->comp_info[0].v_samp_factor, .restart_interval = (int)info->restart_interval,
                             .data = info->src->next_input_byte, .length = (int64_t)info->src->bytes_in_buffer};
    for (int c = 0; c < info->num_components; c++) {
        const jpeg_component_info *component = info->cur_comp_info[c];
        if (component != &info->comp_info[c] || (c > 0 && (component->h_samp_factor != 1 || component->v_samp_factor != 1)))
            return 0;
        if ((unsigned)component->quant_tbl_no >= NUM_QUANT_TBLS || (unsigned)component->dc_tbl_no >= NUM_HUFF_TBLS ||
            (unsigned)component->ac_tbl_no >= NUM_HUFF_TBLS)
            return 0;
        const JQUANT_TBL *quant = info->quant_tbl_ptrs[component->quant_tbl_no];
        const JHUFF_TBL *dc = info->dc_huff_tbl_ptrs[component->dc_tbl_no];
        const JHUFF_TBL *ac = info->ac_huff_tbl_ptrs[component->ac_tbl_no];
        if (quant == NULL || dc == NULL || ac == NULL)
            return 0;
        picture->quant[c] = quant->quantval;
        picture->dc_bits[c] = dc->bits;
        picture->dc_symbols[c] = dc->huffval;
        picture->ac_bits[c] = ac->bits;
        picture->ac_symbols[c] = ac->huffval;
    }
    return 1;
}

/* What libjpeg-turbo takes to decode: rows of each component, and of several scans all coefficients. */
static int64_t libjpeg_bytes(struct jpeg_decompress_struct *info) {
    int64_t bytes = (int64_t)info->image_width * info->num_components * LIBJPEG_ROWS;
    for (int i = 0; i < info->num_components && jpeg_has_multiple_scans(info); i++) {
        const jpeg_component_info *c = &info->comp_info[i];
        /* Whole MCUs, and five rows of blocks besides for smoothing. */
        bytes += ((int64_t)c->width_in_blocks + 4) * ((int64_t)c->height_in_blocks + 8) * DCTSIZE2 * (int64_t)sizeof(JCOEF);
    }
    return bytes;
}

int img_jpeg_start(img_scratch *scratch, const img_decoding *how, const img_window *window, char *message) {
    img_jpeg *jpeg = scratch->jpeg;
    struct jpeg_decompress_struct *info = &jpeg->info;
    img_picture picture;
    if (!jpeg->plain && describe(info, &picture)) {
        int status = img_baseline_start(scratch, &picture, how, window);
        if (status == IMG_NO_MEMORY)
            snprintf(message, IMG_MESSAGE, "no memory to decode a JPEG of %lld bytes", (long long)picture.length);
        jpeg->ours = status == IMG_OK;
        if (status != IMG_UNSUPPORTED)
            return status;
    }
    if (img_ask(&scratch->room, libjpeg_bytes(info)) != IMG_OK) {
        snprintf(message, IMG_MESSAGE, "no memory for the coefficients of a JPEG");
        return IMG_NO_MEMORY;
    }
    if (setjmp(jpeg->jump))
        return failure(jpeg, message);
    jpeg->channels = how->channels;
    info->out_color_space = how->channels == 1 ? JCS_GRAYSCALE : JCS_EXT_RGBA; /* A is 255 */
    info->dct_method = JDCT_ISLOW;
    info->do_fancy_upsampling = !how->fast;
    info->scale_num = (unsigned)how->eighths;
    info->scale_denom = 8;
    jpeg_start_decompress(info);

    JDIMENSION left = 0, width = info->output_width;
    int cut = may_cut(info);
    if (cut && window->width < (int64_t)width) {
        /* Upsampling looks one chroma sample to each side; two are kept. The right edge is a whole block. */
        int64_t margin = 2 * info->max_h_samp_factor, block = how->eighths * info->max_h_samp_factor;
        int64_t from = window->left > margin ? (window->left - margin) / block * block : 0;
        int64_t to = (window->left + window->width + margin + block - 1) / block * block;
        if (to - from < MIN_CROP)
            to = from + MIN_CROP;
        if (to > (int64_t)width) {
            to = width;
            from = to - from < MIN_CROP ? to - MIN_CROP : from;
        }
        if (from >= 0 && to - from < (int64_t)width) {
            left = (JDIMENSION)from;
            width = (JDIMENSION)(to - from);
            jpeg_crop_scanline(info, &left, &width);
        }
    }
    jpeg->shift = window->left - (int64_t)left;
    /* On purpose not aligned: into aligned rows libjpeg-turbo writes past the caches, and the resize would wait for them. */
    uint64_t stride = ((uint64_t)info->output_width * 4 + 2 * IMG_PAD - 1) / IMG_PAD * IMG_PAD, offset = 4;
    if (img_reserve(&scratch->rows, stride * ROWS + IMG_PAD) != IMG_OK) {
        snprintf(message, IMG_MESSAGE, "no memory for %lld bytes of rows", (long long)(stride * ROWS));
        return IMG_NO_MEMORY;
    }
    for (int i = 0; i < ROWS; i++)
        jpeg->rows[i] = scratch->rows.data + stride * (uint64_t)i + offset;
    jpeg->next = jpeg->filled = 0;
    jpeg->wanted = window->height;
    if (window->top > 0 && cut)
        jpeg_skip_scanlines(info, (JDIMENSION)window->top);
    while ((int64_t)info->output_scanline < window->top)
        jpeg_read_scanlines(info, jpeg->rows, 1);
    return IMG_OK;
}

int img_jpeg_row(img_scratch *scratch, const uint8_t **row, char *message) {
    img_jpeg *jpeg = scratch->jpeg;
    if (jpeg->ours)
        return img_baseline_row(scratch, row);
    if (jpeg->next == jpeg->filled) {
        if (setjmp(jpeg->jump))
            return failure(jpeg, message);
        jpeg->next = 0;
        jpeg->filled =
            jpeg_read_scanlines(&jpeg->info, jpeg->rows, (JDIMENSION)(jpeg->wanted < ROWS ? jpeg->wanted : ROWS));
        if (jpeg->filled == 0) {
            snprintf(message, IMG_MESSAGE, "libjpeg gave no row");
            return IMG_CORRUPT;
        }
    }
    *row = jpeg->rows[jpeg->next++] + jpeg->channels * jpeg->shift;
    jpeg->wanted--;
    return IMG_OK;
}

/* Whether the data that libjpeg has not consumed hold the end-of-image marker; looked for from the end backwards. */
static int has_end(const img_jpeg *jpeg) {
    if (jpeg->hit_end)
        return 0;
    if (jpeg->info.unread_marker == EOI)
        return 1;
    const uint8_t *data = jpeg->source.next_input_byte, *p;
    size_t length = jpeg->source.bytes_in_buffer;
    while (length >= 2 && (p = memrchr(data + 1, EOI, length - 1)) != NULL) {
        if (p[-1] == 0xFF)
            return 1;
        length = (size_t)(p - data);
    }
    return 0;
}

/* Whether all scans of a picture of several scans were there. */
static int has_all_scans(const struct jpeg_decompress_struct *info) {
    for (int i = 0; i < info->num_components; i++) {
        if (info->comp_info[i].quant_table == NULL)
            return 0;
        for (int k = 0; info->coef_bits != NULL && k < DCTSIZE2; k++)
            if (info->coef_bits[i][k] != 0)
                return 0;
    }
    return 1;
}

static int read_rest(img_jpeg *jpeg, char *message) {
    if (setjmp(jpeg->jump))
        return failure(jpeg, message);
    while (jpeg->info.output_scanline < jpeg->info.output_height && jpeg->damage == 0)
        jpeg_read_scanlines(&jpeg->info, jpeg->rows, ROWS);
    return IMG_OK;
}

static int check_complete(img_jpeg *jpeg, char *message) {
    int complete, status = damaged(jpeg, message);
    if (status != IMG_OK)
        return status;
    if (jpeg_has_multiple_scans(&jpeg->info)) { /* libjpeg has read all of them at the start */
        complete = !jpeg->hit_end || (has_all_scans(&jpeg->info) && !jpeg->info.arith_code);
    } else if (has_end(jpeg)) {
        complete = 1;
    } else { /* only the marker may be missing: decode what is below the window to know */
        status = read_rest(jpeg, message);
        if (status == IMG_OK)
            status = damaged(jpeg, message);
        if (status != IMG_OK)
            return status;
        complete = !jpeg->info.arith_code;
    }
    if (complete)
        return IMG_OK;
    snprintf(message, IMG_MESSAGE, "the JPEG data end too early (no end-of-image marker, parts of the picture are missing)");
    return IMG_TRUNCATED;
}

int img_jpeg_finish(img_scratch *scratch, char *message) {
    if (scratch->jpeg->ours) {
        int found = img_baseline_finish(scratch);
        scratch->own += found == IMG_OK;
        return found;
    }
    int status = check_complete(scratch->jpeg, message);
    return status == IMG_TRUNCATED && scratch->jpeg->tolerant ? IMG_CUT : status;
}

void img_jpeg_tolerate(img_scratch *scratch) { scratch->jpeg->tolerant = 1; }

int img_jpeg_is_late(const img_scratch *scratch) { return scratch->jpeg->ours && img_baseline_is_late(scratch); }

void img_jpeg_again(img_scratch *scratch) {
    scratch->jpeg->plain = 1;
    scratch->jpeg->ours = 0;
}

void img_jpeg_close(img_scratch *scratch) {
    img_jpeg *jpeg = scratch->jpeg;
    if (jpeg != NULL && jpeg->created) {
        jpeg->created = 0;
        jpeg_destroy_decompress(&jpeg->info);
    }
}

void img_jpeg_free(img_jpeg *jpeg) {
    if (jpeg == NULL)
        return;
    if (jpeg->created)
        jpeg_destroy_decompress(&jpeg->info);
    free(jpeg);
}
