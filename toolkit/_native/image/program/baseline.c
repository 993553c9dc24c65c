/* Rows of a window of a sequential JPEG: rows of MCUs are decoded into planes two MCU rows high, from which pixel rows are
 * made one by one. Above and beside the window only Huffman codes are read; below it nothing is.
 */
#define _GNU_SOURCE
#include "baseline.h"

#include <stdlib.h>
#include <string.h>

#include "base.h"
#include "baseline_x86.h"
#include "choice.h"
#include "huffman.h"
#include "kernels.h"
#include "scan.h"

#if defined(__x86_64__)
#define LARGEST_SCAN (16 << 20) /* bytes that are copied out of their stuffing; above it, libjpeg-turbo takes no copy */
#define LEAST_WIDTH 16          /* libjpeg upsamples in another way where there are two chroma samples or less */
#define SLACK IMG_PAD           /* around the rows of a plane: vectors run over, and the chroma of an edge is repeated */

struct img_baseline {
    img_huffman dc[2], ac[2];      /* of luma, of chroma */
    img_scan scan;
    int16_t blocks[IMG_MAX_BLOCKS * 64 + 1];
    uint16_t quant[3][64];
    int h, v, chroma;              /* blocks of luma in an MCU; whether there is chroma */
    int planes;                    /* how many are decoded */
    int side[3];                   /* pixels along a decoded block: 8, 4, 2 or 1 */
    int double_x, double_y;        /* chroma has half as many columns, rows */
    int fast, channels;
    int64_t height, chroma_width;  /* of the decoded picture */
    int64_t mcus_across, from, to; /* MCUs in a row; those decoded */
    int64_t above, ready;          /* MCU rows: first one that is decoded, behind the last one that is */
    uint8_t *plane[3];             /* of the MCU rows at hand, from MCU column `from` on */
    int64_t stride[3], step[3];    /* bytes to the next row, to the next MCU */
    uint8_t *place[IMG_MAX_BLOCKS]; /* of each block of the row's first MCU in its plane */
    int64_t left, width;           /* the window in the planes */
    int64_t next;                  /* row of the picture to give */
    img_buffer segment;            /* entropy-coded bytes, without stuffing */
    img_buffer planes_memory;      /* components as decoded, two rows of MCUs of each */
    img_buffer rows;               /* the row that is given */
};

/* ---- Setting up ---- */

static int takes(const img_picture *p) {
    if (p->width < LEAST_WIDTH || p->length > LARGEST_SCAN)
        return 0;
    if (p->components == 1)
        return 1;
    return p->components == 3 && p->v <= p->h && p->h <= 2 && p->v <= 2 && p->dc_bits[1] == p->dc_bits[2] &&
           p->ac_bits[1] == p->ac_bits[2];
}

static int make_tables(img_baseline *b, const img_picture *p) {
    for (int i = 0; i < 2 && i < p->components; i++)
        if (img_huffman_make(&b->dc[i], 0, p->dc_bits[i], p->dc_symbols[i]) != 0 ||
            img_huffman_make(&b->ac[i], 1, p->ac_bits[i], p->ac_symbols[i]) != 0)
            return -1;
    for (int c = 0; c < p->components; c++) {
        b->scan.dc[c] = &b->dc[c > 0];
        b->scan.ac[c] = &b->ac[c > 0];
        memcpy(b->quant[c], p->quant[c], sizeof b->quant[c]);
    }
    return 0;
}

static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* How large blocks become: of chroma as large as luma where that takes no more than the whole block. */
static void scale(img_baseline *b, int eighths) {
    const int chroma = b->h == 2 && b->v == 2 && eighths < 8 ? 2 * eighths : eighths;
    b->side[0] = eighths;
    b->side[1] = b->side[2] = chroma;
    b->double_x = b->h * eighths > chroma;
    b->double_y = b->v * eighths > chroma;
}

/* Which MCUs the window needs: upsampling looks one chroma sample to each side. */
static void cut(img_baseline *b, const img_picture *p, const img_window *window) {
    const int64_t mcu_w = b->side[0] * b->h, mcu_h = b->side[0] * b->v, margin = 2;
    const int64_t left = window->left > margin ? window->left - margin : 0;
    const int64_t right = window->left + window->width + margin, top = window->top > margin ? window->top - margin : 0;
    b->mcus_across = divide_up(p->width, 8 * b->h);
    b->from = left / mcu_w;
    b->to = divide_up(right, mcu_w);
    b->to = b->to < b->mcus_across ? b->to : b->mcus_across;
    b->above = top / mcu_h;
    b->ready = 0;
    b->left = window->left - b->from * mcu_w;
    b->width = window->width;
    b->next = window->top;
    b->height = divide_up(p->height * b->side[0], 8);
    b->chroma_width = divide_up(divide_up(p->width * b->side[0], 8), 1 + b->double_x);
}

static int64_t plane_rows(const img_baseline *b, int c) { return 2 * b->side[c] * (c == 0 ? b->v : 1); }

static int make_planes(img_baseline *b) {
    uint64_t total = 0, offset[3];
    for (int c = 0; c < b->planes; c++) {
        b->step[c] = b->side[c] * (c == 0 ? b->h : 1);
        b->stride[c] = (b->to - b->from) * b->step[c] + 2 * SLACK;
        offset[c] = total + SLACK;
        total += (uint64_t)(b->stride[c] * plane_rows(b, c)) + SLACK;
    }
    if (img_reserve(&b->planes_memory, total) != IMG_OK)
        return -1;
    for (int c = 0; c < b->planes; c++)
        b->plane[c] = b->planes_memory.data + offset[c];
    return 0;
}

static img_baseline *make(img_room *room) {
    img_baseline *b = img_ask(room, sizeof *b) == IMG_OK ? calloc(1, sizeof *b) : NULL;
    if (b != NULL) {
        room->used += sizeof *b;
        b->segment.room = b->planes_memory.room = b->rows.room = room;
    }
    return b;
}

int img_baseline_start(img_baseline **held, img_room *room, const img_picture *p, const img_decoding *how,
                       const img_window *window) {
    if (img_current_kernels() == &img_generic_kernels || !takes(p))
        return IMG_UNSUPPORTED;
    if (*held == NULL && (*held = make(room)) == NULL)
        return IMG_NO_MEMORY;
    img_baseline *b = *held;
    if (make_tables(b, p) != 0)
        return IMG_UNSUPPORTED;
    b->chroma = p->components == 3;
    b->planes = how->channels == 1 ? 1 : p->components;
    b->h = b->chroma ? p->h : 1;
    b->v = b->chroma ? p->v : 1;
    b->fast = how->fast;
    b->channels = how->channels;
    scale(b, how->eighths);
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
    if (img_reserve(&b->segment, IMG_SEGMENT_ROOM(p->length)) != IMG_OK || make_planes(b) != 0 ||
        img_reserve(&b->rows, (uint64_t)(b->width + 2 * IMG_PAD) * 6 + IMG_PAD) != IMG_OK)
        return IMG_NO_MEMORY;
    scan->segment = b->segment.data;
    return img_scan_start(scan) == 0 ? IMG_OK : IMG_UNSUPPORTED;
}

/* ---- Rows of MCUs ---- */

static uint8_t *plane_row(const img_baseline *b, int c, int64_t y) {
    return b->plane[c] + y % plane_rows(b, c) * b->stride[c];
}

/* Where the blocks of MCU row `row` go, those of MCU column `from`. */
static void place_blocks(img_baseline *b, int64_t row) {
    for (int i = 0; i < b->scan.blocks; i++) {
        const int c = b->scan.component[i];
        const int64_t side = b->side[c], h = c == 0 ? b->h : 1, v = c == 0 ? b->v : 1, place = c == 0 ? i : 0;
        if (c < b->planes)
            b->place[i] = plane_row(b, c, side * (row * v + place / h)) + side * (place % h);
    }
}

static uint8_t clamp(int value) { return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value); }

/* The value of a block with nothing but its DC, as the DCT would make it. */
static uint8_t flat_value(const img_baseline *b, int i) {
    const int16_t dc = (int16_t)((uint16_t)(b->blocks[64 * i] * b->quant[b->scan.component[i]][0]) << 2);
    return clamp(((dc + 16) >> 5) + 128);
}

static void fill_block(const img_baseline *b, int i, uint8_t *out) {
    const uint64_t eight = 0x0101010101010101u * (uint64_t)flat_value(b, i);
    const int c = b->scan.component[i];
    for (int k = 0; k < 8; k++)
        memcpy(out + k * b->stride[c], &eight, 8);
}

/* Four points from the first four coefficients of eight, times 2^14; modulo 2^32, as a crafted block overflows it. */
static void four_points(const int *x, int step, int *out, int out_step) {
    const uint32_t a = (uint32_t)x[0], b = (uint32_t)x[step], c = (uint32_t)x[2 * step], d = (uint32_t)x[3 * step];
    const uint32_t even = 5793 * (a + c), odd = 5793 * (a - c);                         /* sqrt(1/8) */
    const uint32_t outer = 7568 * b + 3135 * d, inner = 3135 * b - 7568 * d; /* cos, sin(pi/8) / 2 */
    out[0] = (int)(even + outer);
    out[out_step] = (int)(odd + inner);
    out[2 * out_step] = (int)(odd - inner);
    out[3 * out_step] = (int)(even - outer);
}

/* A block of half, a quarter or an eighth of its size: the inverse DCT of as many points of its lowest coefficients. */
static void shrink_block(const img_baseline *b, int i, uint8_t *out) {
    const int c = b->scan.component[i], side = b->side[c];
    const int64_t stride = b->stride[c];
    const int16_t *block = b->blocks + 64 * i;
    int x[16], columns[16], rows[16];
    for (int y = 0; y < side; y++)
        for (int k = 0; k < side; k++)
            x[4 * y + k] = (int16_t)(block[8 * y + k] * b->quant[c][8 * y + k]);
    if (side == 1) {
        out[0] = flat_value(b, i);
    } else if (side == 2) {
        for (int y = 0; y < 2; y++)
            for (int k = 0; k < 2; k++) {
                const int left = x[0] + (y ? -x[4] : x[4]), right = x[1] + (y ? -x[5] : x[5]);
                out[y * stride + k] = clamp((((k ? left - right : left + right) + 4) >> 3) + 128);
            }
    } else {
        for (int k = 0; k < 4; k++)
            four_points(x + k, 4, columns + k, 4);
        for (int k = 0; k < 16; k++)
            columns[k] = (columns[k] + (1 << 10)) >> 11;
        for (int y = 0; y < 4; y++)
            four_points(columns + 4 * y, 1, rows + 4 * y, 1);
        for (int k = 0; k < 16; k++)
            out[k / 4 * stride + k % 4] = clamp(((int)((uint32_t)rows[k] + (1 << 16)) >> 17) + 128);
    }
}

/* The pixels of MCU `column` behind the first one that is decoded. */
static void make_pixels(const img_baseline *b, int64_t column, int flat) {
    const int count = b->planes == 1 && b->chroma ? b->h * b->v : b->scan.blocks;
    for (int i = 0, j; i < count; i = j + 1) {
        const int c = b->scan.component[i];
        uint8_t *first = b->place[i] + column * b->step[c];
        j = i;
        if (b->side[c] < 8) {
            shrink_block(b, i, first);
            continue;
        }
        j += i + 1 < count; /* another one of side 8 */
        const int d = b->scan.component[j];
        uint8_t *second = b->place[j] + column * b->step[d];
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
    const int64_t last = b->chroma_width - b->side[1] * b->from;
    for (int c = 1; c < b->planes && b->double_x && !b->fast; c++)
        for (int k = 0; k < b->side[c]; k++) {
            uint8_t *samples = plane_row(b, c, b->side[c] * row + k);
            samples[-1] = samples[0];
            if (b->to == b->mcus_across)
                samples[last] = samples[last - 1];
        }
}

static int decode_row(img_baseline *b) {
    int flat;
    place_blocks(b, b->ready);
    for (int64_t column = 0; column < b->mcus_across; column++) {
        const int wanted = b->ready >= b->above && column >= b->from && column < b->to;
        if (img_scan_mcu(&b->scan, wanted ? b->blocks : NULL, &flat) != 0)
            return -1;
        if (wanted)
            make_pixels(b, column - b->from, flat);
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
static void upsample(const img_baseline *b, int c, int64_t y, int64_t at, int64_t count, uint8_t *out) {
    const uint8_t *row = plane_row(b, c, y / (1 + b->double_y)) + at;
    if (b->double_y)
        img_upsample_h2v2(out, row, plane_row(b, c, row_beside(b, y)) + at, count);
    else
        img_upsample_h2v1(out, row, count);
}

static const uint8_t *make_row(const img_baseline *b, int64_t y, uint8_t *out) {
    const uint8_t *light = plane_row(b, 0, y) + b->left;
    if (b->channels == 1)
        return light;
    if (!b->chroma) {
        img_y_to_rgbx(out, light, b->width);
        return out;
    }
    const int64_t at = b->left / (1 + b->double_x), over = b->double_x ? b->left % 2 : 0;
    const uint8_t *cb = plane_row(b, 1, y / (1 + b->double_y)) + at, *cr = plane_row(b, 2, y / (1 + b->double_y)) + at;
    if (b->fast && b->double_x) {
        img_ycc_to_late_doubled(out, light - over, cb, cr, b->width + over);
    } else if (b->fast) {
        img_ycc_to_late(out, light, cb, cr, b->width);
    } else if (!b->double_x) {
        img_ycc_to_rgbx(out, light, cb, cr, b->width);
    } else {
        uint8_t *doubled = out + 4 * (b->width + 2 * IMG_PAD), *second = doubled + b->width + 2 * IMG_PAD;
        const int64_t count = (b->width + over + 1) / 2;
        upsample(b, 1, y, at, count, doubled);
        upsample(b, 2, y, at, count, second);
        img_ycc_to_rgbx(out, light - over, doubled, second, 2 * count);
    }
    return out + 4 * over;
}

int img_baseline_row(img_baseline *b, const uint8_t **row) {
    const int64_t y = b->next++;
    int64_t lowest = y;
    if (b->chroma && b->double_y && !b->fast && 2 * row_beside(b, y) > lowest)
        lowest = 2 * row_beside(b, y);
    for (; b->ready <= lowest / (b->side[0] * b->v); b->ready++) {
        if (decode_row(b) != 0)
            return IMG_AGAIN;
        if (b->ready >= b->above)
            repeat_edges(b, b->ready);
    }
    *row = make_row(b, y, b->rows.data);
    return IMG_OK;
}

int img_baseline_is_late(const img_baseline *b) { return b->fast && b->chroma && b->channels == 4; }

/* Without restarts the scan's end has been seen at the start; else the marker is looked for from the end backwards. */
int img_baseline_finish(const img_baseline *b) {
    const img_scan *scan = &b->scan;
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

void img_baseline_free(img_baseline *b) {
    if (b == NULL)
        return;
    free(b->segment.data);
    free(b->planes_memory.data);
    free(b->rows.data);
    free(b);
}
#else
int img_baseline_start(img_baseline **held, img_room *room, const img_picture *p, const img_decoding *how,
                       const img_window *window) {
    return IMG_UNSUPPORTED;
}
int img_baseline_row(img_baseline *b, const uint8_t **row) { return IMG_AGAIN; }
int img_baseline_finish(const img_baseline *b) { return IMG_AGAIN; }
int img_baseline_is_late(const img_baseline *b) { return 0; }
void img_baseline_free(img_baseline *b) {}
#endif
