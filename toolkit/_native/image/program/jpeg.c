/* Reads a window of a JPEG: only the blocks it needs, bit for bit what a full decode gives, unless less is asked for:
 * fewer eighths of its size, repeated chroma, or luma only. libjpeg-turbo reads the header; baseline.c then decodes
 * what it takes, libjpeg-turbo the rest.
 *
 * Columns are cut with jpeg_crop_scanline, rows above the window with jpeg_skip_scanlines (Huffman decoding only), and
 * nothing below the window is decoded. The exact settings are libjpeg's defaults, as in Pillow: slow integer DCT, fancy upsampling.
 *
 * As libjpeg.h says, each function that calls libjpeg sets its own jump target and changes no local variable after that.
 */
#define _GNU_SOURCE
#include "jpeg.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base.h"
#include "baseline.h"
#include "libjpeg.h"
#include "markers.h"

#define MIN_CROP 64   /* narrower windows are read at full width: libjpeg upsamples tiny widths in another way */
#define ROWS 8        /* rows that one libjpeg call may return; few, so that they stay in the first cache */
#define LIBJPEG_ROWS 48 /* bytes of each column and component: rows before and after upsampling, and the slack around them */

struct img_jpeg {
    img_libjpeg lib;
    img_baseline *baseline; /* NULL until it is needed */
    img_room *room;
    int64_t own;      /* pictures that baseline.c has decoded */
    int plain;        /* all of it is libjpeg's work */
    int ours;         /* baseline.c gives the rows */
    int tolerant;     /* data that end too early are no error */
    int channels;     /* bytes of a decoded pixel */
    int64_t shift;    /* window column 0 in a decoded row */
    int64_t next, filled; /* rows of the buffer: next to hand out, how many there are */
    int64_t wanted;   /* rows of the window not yet handed out */
    img_buffer memory; /* of the rows */
    JSAMPROW rows[ROWS];
};

int img_jpeg_open(img_jpeg *jpeg, const uint8_t *data, int64_t length, int64_t max_pixels, img_header *header,
                  char *message) {
    if (length < 3 || data[0] != 0xFF || data[1] != 0xD8 || data[2] != 0xFF) {
        snprintf(message, IMG_MESSAGE, "not a JPEG: the data do not start with FF D8 FF");
        return IMG_NOT_JPEG;
    }
    jpeg->plain = jpeg->ours = jpeg->tolerant = 0;
    int status = img_libjpeg_open(&jpeg->lib, data, length, message);
    if (status != IMG_OK)
        return status;
    const struct jpeg_decompress_struct *info = &jpeg->lib.info;
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

int img_jpeg_start(img_jpeg *jpeg, const img_decoding *how, const img_window *window, char *message) {
    struct jpeg_decompress_struct *info = &jpeg->lib.info;
    img_picture picture;
    if (!jpeg->plain && describe(info, &picture)) {
        int status = img_baseline_start(&jpeg->baseline, jpeg->room, &picture, how, window);
        if (status == IMG_NO_MEMORY)
            snprintf(message, IMG_MESSAGE, "no memory to decode a JPEG of %lld bytes", (long long)picture.length);
        jpeg->ours = status == IMG_OK;
        if (status != IMG_UNSUPPORTED)
            return status;
    }
    if (img_ask(jpeg->room, libjpeg_bytes(info)) != IMG_OK) {
        snprintf(message, IMG_MESSAGE, "no memory for the coefficients of a JPEG");
        return IMG_NO_MEMORY;
    }
    if (setjmp(jpeg->lib.jump))
        return img_libjpeg_failure(&jpeg->lib, message);
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
    if (img_reserve(&jpeg->memory, stride * ROWS + IMG_PAD) != IMG_OK) {
        snprintf(message, IMG_MESSAGE, "no memory for %lld bytes of rows", (long long)(stride * ROWS));
        return IMG_NO_MEMORY;
    }
    for (int i = 0; i < ROWS; i++)
        jpeg->rows[i] = jpeg->memory.data + stride * (uint64_t)i + offset;
    jpeg->next = jpeg->filled = 0;
    jpeg->wanted = window->height;
    if (window->top > 0 && cut)
        jpeg_skip_scanlines(info, (JDIMENSION)window->top);
    while ((int64_t)info->output_scanline < window->top)
        jpeg_read_scanlines(info, jpeg->rows, 1);
    return IMG_OK;
}

int img_jpeg_row(img_jpeg *jpeg, const uint8_t **row, char *message) {
    if (jpeg->ours)
        return img_baseline_row(jpeg->baseline, row);
    if (jpeg->next == jpeg->filled) {
        if (setjmp(jpeg->lib.jump))
            return img_libjpeg_failure(&jpeg->lib, message);
        jpeg->next = 0;
        jpeg->filled =
            jpeg_read_scanlines(&jpeg->lib.info, jpeg->rows, (JDIMENSION)(jpeg->wanted < ROWS ? jpeg->wanted : ROWS));
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
    if (jpeg->lib.hit_end)
        return 0;
    if (jpeg->lib.info.unread_marker == IMG_JPEG_EOI)
        return 1;
    const uint8_t *data = jpeg->lib.source.next_input_byte, *p;
    size_t length = jpeg->lib.source.bytes_in_buffer;
    while (length >= 2 && (p = memrchr(data + 1, IMG_JPEG_EOI, length - 1)) != NULL) {
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
    if (setjmp(jpeg->lib.jump))
        return img_libjpeg_failure(&jpeg->lib, message);
    while (jpeg->lib.info.output_scanline < jpeg->lib.info.output_height && jpeg->lib.damage == 0)
        jpeg_read_scanlines(&jpeg->lib.info, jpeg->rows, ROWS);
    return IMG_OK;
}

static int check_complete(img_jpeg *jpeg, char *message) {
    int complete, status = img_libjpeg_damage(&jpeg->lib, message);
    if (status != IMG_OK)
        return status;
    if (jpeg_has_multiple_scans(&jpeg->lib.info)) { /* libjpeg has read all of them at the start */
        complete = !jpeg->lib.hit_end || (has_all_scans(&jpeg->lib.info) && !jpeg->lib.info.arith_code);
    } else if (has_end(jpeg)) {
        complete = 1;
    } else { /* only the marker may be missing: decode what is below the window to know */
        status = read_rest(jpeg, message);
        if (status == IMG_OK)
            status = img_libjpeg_damage(&jpeg->lib, message);
        if (status != IMG_OK)
            return status;
        complete = !jpeg->lib.info.arith_code;
    }
    if (complete)
        return IMG_OK;
    snprintf(message, IMG_MESSAGE, "the JPEG data end too early (no end-of-image marker, parts of the picture are missing)");
    return IMG_TRUNCATED;
}

int img_jpeg_finish(img_jpeg *jpeg, char *message) {
    if (jpeg->ours) {
        int found = img_baseline_finish(jpeg->baseline);
        jpeg->own += found == IMG_OK;
        return found;
    }
    int status = check_complete(jpeg, message);
    return status == IMG_TRUNCATED && jpeg->tolerant ? IMG_CUT : status;
}

void img_jpeg_tolerate(img_jpeg *jpeg) { jpeg->tolerant = 1; }

int img_jpeg_is_late(const img_jpeg *jpeg) { return jpeg->ours && img_baseline_is_late(jpeg->baseline); }

void img_jpeg_again(img_jpeg *jpeg) {
    jpeg->plain = 1;
    jpeg->ours = 0;
}

void img_jpeg_close(img_jpeg *jpeg) { img_libjpeg_close(&jpeg->lib); }

int64_t img_jpeg_own_decodes(const img_jpeg *jpeg) { return jpeg->own; }

img_jpeg *img_jpeg_new(img_room *room) {
    img_jpeg *jpeg = calloc(1, sizeof *jpeg);
    if (jpeg != NULL)
        jpeg->room = jpeg->memory.room = room;
    return jpeg;
}

void img_jpeg_free(img_jpeg *jpeg) {
    img_jpeg_close(jpeg);
    img_baseline_free(jpeg->baseline);
    free(jpeg->memory.data);
    free(jpeg);
}
