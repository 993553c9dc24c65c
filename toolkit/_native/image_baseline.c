/* Rows of a window of a sequential JPEG: rows of MCUs are decoded into planes two MCU rows high, from which pixel rows are
 * made one by one. Above and beside the window only Huffman codes are read; below it nothing is.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "image_baseline.h"

#if defined(__x86_64__)
#define LARGEST_SCAN (16 << 20) /* bytes that are copied out of their stuffing; above it, libjpeg-turbo takes no copy */
#define LEAST_WIDTH 16          /* libjpeg upsamples in another way where there are two chroma samples or less */
#define LARGEST_DC 11           /* bits of a value, at 8 bits a sample */
#define LARGEST_AC 10
#define SLACK IMG_PAD           /* around the rows of a plane: vectors run over, and the chroma of an edge is repeated */

struct img_baseline {
    img_huffman dc[3], ac[3];
    img_scan scan;
    int16_t blocks[IMG_MAX_BLOCKS * 64 + 1];
    uint16_t quant[3][64];
    int h, v, chroma;              /* sampling of luma; whether there is chroma */
    int planes;                    /* how many are decoded */
    int fast, channels;
    int64_t height, chroma_width;  /* of the picture */
    int64_t mcus_across, from, to; /* MCUs in a row; those decoded */
    int64_t above, ready;          /* MCU rows: first one that is decoded, behind the last one that is */
    uint8_t *plane[3];             /* of the MCU rows at hand, from MCU column `from` on */
    int64_t stride[3];
    int64_t left, width;           /* the window in the planes */
    int64_t next;                  /* row of the picture to give */
};

/* ---- Setting up ---- */

static int takes(const img_picture *p) {
    if (p->width < LEAST_WIDTH || p->length > LARGEST_SCAN)
        return 0;
    if (p->components == 1)
        return p->h == 1 && p->v == 1;
    return p->components == 3 && p->v <= p->h && p->h <= 2 && p->v <= 2;
}

static int make_tables(img_baseline *b, const img_picture *p) {
    for (int c = 0; c < p->components; c++) {
        /* Both chroma components have the same tables as a rule: the first one's is used then, which is in the cache. */
        const int same = c == 2 && p->dc_bits[2] == p->dc_bits[1] && p->ac_bits[2] == p->ac_bits[1];
        const int at = same ? 1 : c;
        if (!same && (img_huffman_make(&b->dc[c], p->dc_bits[c], p->dc_symbols[c], LARGEST_DC) != 0 ||
                      img_huffman_make(&b->ac[c], p->ac_bits[c], p->ac_symbols[c], LARGEST_AC) != 0))
            return -1;
        b->scan.dc[c] = &b->dc[at];
        b->scan.ac[c] = &b->ac[at];
        memcpy(b->quant[c], p->quant[c], sizeof b->quant[c]);
    }
    return 0;
}

static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Which MCUs the window needs: upsampling looks one chroma sample to each side. */
static void cut(img_baseline *b, const img_picture *p, const img_window *window) {
    const int64_t mcu_w = 8 * b->h, mcu_h = 8 * b->v, margin = 2;
    const int64_t left = window->left > margin ? window->left - margin : 0;
    const int64_t right = window->left + window->width + margin, top = window->top > margin ? window->top - margin : 0;
    b->mcus_across = divide_up(p->width, mcu_w);
    b->from = left / mcu_w;
    b->to = divide_up(right, mcu_w);
    b->to = b->to < b->mcus_across ? b->to : b->mcus_across;
    b->above = top / mcu_h;
    b->ready = 0;
    b->left = window->left - b->from * mcu_w;
    b->width = window->width;
    b->next = window->top;
    b->height = p->height;
    b->chroma_width = divide_up(p->width, b->h);
}

static int make_planes(img_baseline *b, img_scratch *scratch) {
    uint64_t total = 0, offset[3];
    for (int c = 0; c < b->planes; c++) {
        const int64_t h = c == 0 ? b->h : 1, v = c == 0 ? b->v : 1;
        b->stride[c] = (b->to - b->from) * 8 * h + 2 * SLACK;
        offset[c] = total + SLACK;
        total += (uint64_t)(b->stride[c] * 2 * 8 * v) + SLACK;
    }
    if (img_reserve(&scratch->planes, total) != IMG_OK)
        return -1;
    for (int c = 0; c < b->planes; c++)
        b->plane[c] = scratch->planes.data + offset[c];
    return 0;
}

int img_baseline_start(img_scratch *scratch, const img_picture *p, const img_decoding *how, const img_window *window) {
    if (how->eighths != 8 || img_current_kernels() == &img_generic_kernels || !takes(p))
        return IMG_UNSUPPORTED;
    if (scratch->baseline == NULL && (scratch->baseline = calloc(1, sizeof *scratch->baseline)) == NULL)
        return IMG_NO_MEMORY;
    img_baseline *b = scratch->baseline;
    if (make_tables(b, p) != 0)
        return IMG_UNSUPPORTED;
    b->chroma = p->components == 3;
    b->planes = how->channels == 1 ? 1 : p->components;
    b->h = b->chroma ? p->h : 1;
    b->v = b->chroma ? p->v : 1;
    b->fast = how->fast;
    b->channels = how->channels;
    cut(b, p, window);
    img_scan *scan = &b->scan;
    scan->blocks = b->chroma ? b->h * b->v + 2 : 1;
    memset(scan->component, 0, sizeof scan->component);
    if (b->chroma) {
        scan->component[scan->blocks - 2] = 1;
        scan->component[scan->blocks - 1] = 2;
    }
    scan->restart_interval = p->restart_interval;
    scan->data = p->data;
    scan->end = p->data + p->length;
    if (img_reserve(&scratch->segment, IMG_SEGMENT_ROOM(p->length)) != IMG_OK || make_planes(b, scratch) != 0 ||
        img_reserve(&scratch->rows, (uint64_t)(b->width + 2 * IMG_PAD) * 6 + IMG_PAD) != IMG_OK)
        return IMG_NO_MEMORY;
    scan->segment = scratch->segment.data;
    return img_scan_start(scan) == 0 ? IMG_OK : IMG_UNSUPPORTED;
}

/* ---- Rows of MCUs ---- */

static uint8_t *plane_row(const img_baseline *b, int c, int64_t y) {
    const int64_t rows = 2 * 8 * (c == 0 ? b->v : 1);
    return b->plane[c] + y % rows * b->stride[c];
}

/* Where block `i` of MCU `column` of MCU row `row` goes. */
static uint8_t *block_at(const img_baseline *b, int i, int64_t row, int64_t column) {
    const int c = b->scan.component[i];
    if (c > 0)
        return plane_row(b, c, 8 * row) + 8 * (column - b->from);
    return plane_row(b, 0, 8 * (row * b->v + i / b->h)) + 8 * ((column - b->from) * b->h + i % b->h);
}

/* The value of a block with nothing but its DC, as the DCT would make it. */
static void fill_block(const img_baseline *b, int i, uint8_t *out) {
    const int c = b->scan.component[i];
    const int16_t dc = (int16_t)((uint16_t)(uint16_t)(b->blocks[64 * i] * b->quant[c][0]) << 2);
    const int value = ((dc + 16) >> 5) + 128;
    const uint64_t eight = 0x0101010101010101u * (uint64_t)(value < 0 ? 0 : value > 255 ? 255 : value);
    for (int k = 0; k < 8; k++)
        memcpy(out + k * b->stride[c], &eight, 8);
}

static void make_pixels(const img_baseline *b, int64_t row, int64_t column, int flat) {
    const int count = b->planes == 1 && b->chroma ? b->h * b->v : b->scan.blocks;
    for (int i = 0; i < count; i += 2) {
        const int j = i + 1 < count ? i + 1 : i, c = b->scan.component[i], d = b->scan.component[j];
        uint8_t *first = block_at(b, i, row, column), *second = block_at(b, j, row, column);
        if (flat >> i & flat >> j & 1) {
            fill_block(b, i, first);
            fill_block(b, j, second);
        } else {
            img_idct_pair(b->blocks + 64 * i, b->blocks + 64 * j, b->quant[c], b->quant[d], first, b->stride[c], second,
                          b->stride[d]);
        }
    }
}

/* Upsampling finds the picture's first and last chroma samples once more beside them. */
static void repeat_edges(const img_baseline *b, int64_t row) {
    const int64_t last = b->chroma_width - 8 * b->from;
    for (int c = 1; c < b->planes && b->h == 2; c++)
        for (int k = 0; k < 8; k++) {
            uint8_t *samples = plane_row(b, c, 8 * row + k);
            samples[-1] = samples[0];
            if (b->to == b->mcus_across)
                samples[last] = samples[last - 1];
        }
}

static int decode_row(img_baseline *b) {
    int flat;
    for (int64_t column = 0; column < b->mcus_across; column++) {
        const int wanted = b->ready >= b->above && column >= b->from && column < b->to;
        if (img_scan_mcu(&b->scan, wanted ? b->blocks : NULL, &flat) != 0)
            return -1;
        if (wanted)
            make_pixels(b, b->ready, column, flat);
    }
    return 0;
}

/* ---- Rows of pixels ---- */

/* The chroma row beside row `y` that upsampling takes a quarter of; the one that y is in at the edges. */
static int64_t row_beside(const img_baseline *b, int64_t y) {
    const int64_t row = y / 2, last = divide_up(b->height, 2) - 1, near = y % 2 ? row + 1 : row - 1;
    return near < 0 ? 0 : near > last ? last : near;
}

/* Double chroma samples from `at` on. */
static const uint8_t *upsample(const img_baseline *b, int c, int64_t y, int64_t at, int64_t count, uint8_t *out) {
    const uint8_t *row = plane_row(b, c, y / b->v) + at;
    if (b->fast)
        img_upsample_repeat(out, row, count);
    else if (b->v == 2)
        img_upsample_h2v2(out, row, plane_row(b, c, row_beside(b, y)) + at, count);
    else
        img_upsample_h2v1(out, row, count);
    return out;
}

static const uint8_t *make_row(const img_baseline *b, int64_t y, uint8_t *out) {
    const uint8_t *light = plane_row(b, 0, y);
    if (b->channels == 1)
        return light + b->left;
    if (!b->chroma) {
        img_y_to_rgbx(out, light + b->left, b->width);
        return out;
    }
    if (b->h == 1) {
        img_ycc_to_rgbx(out, light + b->left, plane_row(b, 1, y) + b->left, plane_row(b, 2, y) + b->left, b->width);
        return out;
    }
    const int64_t at = b->left / 2, count = (b->left + b->width + 1) / 2 - at;
    uint8_t *doubled = out + 4 * (b->width + 2 * IMG_PAD);
    const uint8_t *cb = upsample(b, 1, y, at, count, doubled);
    const uint8_t *cr = upsample(b, 2, y, at, count, doubled + b->width + 2 * IMG_PAD);
    img_ycc_to_rgbx(out, light + 2 * at, cb, cr, 2 * count);
    return out + 4 * (b->left - 2 * at);
}

int img_baseline_row(img_scratch *scratch, const uint8_t **row) {
    img_baseline *b = scratch->baseline;
    const int64_t y = b->next++;
    int64_t lowest = y;
    if (b->chroma && b->v == 2 && !b->fast && 2 * row_beside(b, y) > lowest)
        lowest = 2 * row_beside(b, y);
    for (; b->ready <= lowest / (8 * b->v); b->ready++) {
        if (decode_row(b) != 0)
            return IMG_AGAIN;
        if (b->ready >= b->above)
            repeat_edges(b, b->ready);
    }
    *row = make_row(b, y, scratch->rows.data);
    return IMG_OK;
}

/* Without restarts the scan's end has been seen at the start; else the marker is looked for from the end backwards. */
int img_baseline_finish(const img_scratch *scratch) {
    const img_scan *scan = &scratch->baseline->scan;
    const uint8_t *p;
    int64_t length = scan->end - scan->data;
    if (scan->marker == 0xD9)
        return IMG_OK;
    while (length >= 2 && (p = memrchr(scan->data + 1, 0xD9, (size_t)length - 1)) != NULL) {
        if (p[-1] == 0xFF)
            return IMG_OK;
        length = p - scan->data;
    }
    return IMG_AGAIN;
}

void img_baseline_free(img_baseline *b) { free(b); }
#else
int img_baseline_start(img_scratch *scratch, const img_picture *p, const img_decoding *how, const img_window *window) {
    return IMG_UNSUPPORTED;
}
int img_baseline_row(img_scratch *scratch, const uint8_t **row) { return IMG_AGAIN; }
int img_baseline_finish(const img_scratch *scratch) { return IMG_AGAIN; }
void img_baseline_free(img_baseline *b) {}
#endif
