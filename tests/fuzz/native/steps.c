/* Any steps on any pixels: every set of loops gives the same bytes, within the memory that it was given.
 *
 * Numbers of steps are those that image.pyx lets through. */
#include <stdlib.h>
#include <string.h>

#include "image/program/image.h"

#define MOST_PIXELS 60000

static img_scratch *scratch;
static const uint8_t *next, *end;

static uint32_t take(uint32_t below)
{
    uint32_t value = 0;
    for (int i = 0; i < 2; i++)
        value = value << 8 | (next < end ? *next++ : 0);
    return value % below;
}

static img_op step(void)
{
    img_op op;
    memset(&op, 0, sizeof op);
    op.kind = (int32_t)take(12);
    op.filter = (int32_t)take(4);
    op.height = 1 + take(op.kind == IMG_RESIZE_SHORT || op.kind == IMG_RESIZE_LONG ? 150 : 260);
    op.width = 1 + take(200);
    op.top = (int64_t)take(120) - 40;
    op.left = (int64_t)take(120) - 40;
    op.id = take(5);
    op.fill = (int32_t)take(256);
    op.channels = take(2) ? 3 : 1;
    if (op.kind == IMG_PAD_AROUND) {
        op.top = take(30), op.left = take(30), op.bottom = take(30), op.right = take(30);
        op.height = op.width = 0;
    } else if (op.kind == IMG_RANDOM_RESIZED_CROP) {
        op.low[0] = take(100) / 100.0, op.high[0] = op.low[0] + take(200) / 100.0;
        op.low[1] = (1 + take(300)) / 100.0, op.high[1] = op.low[1] * (1 + take(1000) / 100.0);
    } else if (op.kind == IMG_HFLIP || op.kind == IMG_VFLIP) {
        op.low[0] = take(3) / 2.0;
    } else if (op.kind == IMG_COLOR_JITTER) {
        for (int i = 0; i < 4; i++) {
            const double edges[] = {0.0, 1e6, 1e3, 2.0};
            op.used[i] = (int32_t)take(2);
            op.low[i] = i == 3 ? take(100) / 100.0 - 0.5 : take(200) / 100.0;
            op.high[i] = i == 3 ? 0.5 : take(4) == 0 ? edges[take(4)] : op.low[i];
            if (op.high[i] < op.low[i])
                op.high[i] = op.low[i];
        }
    }
    return op;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const sets[] = {"generic", "avx2", "avx512"};
    next = data, end = data + size;
    if (scratch == NULL)
        scratch = img_scratch_new();
    img_op ops[6];
    img_program program = {.ops = ops, .max_pixels = MOST_PIXELS, .mode = (int32_t)take(3)};
    const int channels = take(3) == 0 ? 1 : take(2) ? 3 : 4;
    const int64_t height = 1 + take(200), width = 1 + take(300);
    const uint64_t key = take(4);
    int wanted = program.mode == IMG_RGB ? 3 : program.mode == IMG_GRAY ? 1 : 4;
    program.op_count = take(6);
    for (int64_t i = 0; i < program.op_count; i++) {
        ops[i] = step();
        if (ops[i].kind == IMG_GRAYSCALE)
            wanted = ops[i].channels;
        if (ops[i].kind == IMG_GRAYSCALE && program.mode == IMG_RGBA)
            return 0;
    }
    static const int items[] = {1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8};
    program.layout.dtype = (int32_t)take(11);
    program.layout.item = items[program.layout.dtype];
    program.layout.chw = (int32_t)take(2);
    program.layout.channels = wanted;
    program.layout.normalise = (int32_t)take(2);
    for (int c = 0; c < 4; c++) {
        const float scales[] = {1.0f / 255, 0.0f, -3.0f, 1e30f, 3.4e38f};
        program.layout.scale[c] = scales[take(5)];
        program.layout.bias[c] = (float)take(600) - 300;
    }
    uint8_t *pixels = malloc((size_t)(height * width * channels));
    uint32_t state = take(65536) | 1;
    for (int64_t i = 0; i < height * width * channels; i++)
        pixels[i] = (uint8_t)((state = state * 1664525 + 1013904223) >> 24);
    const img_pixels from = {pixels, height, width, channels};
    char message[IMG_MESSAGE];
    int64_t out_h, out_w;
    img_choose_kernels("generic");
    int status = img_result_size(&program, scratch, height, width, key, &out_h, &out_w, message);
    if (status == IMG_OK && height * width <= MOST_PIXELS) {
        const size_t bytes = (size_t)(out_h * out_w * wanted * program.layout.item);
        uint8_t *first = malloc(bytes), *other = malloc(bytes);
        memset(first, 0x5A, bytes);
        status = img_run_pixels(&program, scratch, &from, key, first, out_h, out_w, message);
        for (int i = 1; i < 3; i++) {
            if (img_choose_kernels(sets[i]) != 0)
                continue;
            memset(other, 0xA5, bytes);
            if (img_run_pixels(&program, scratch, &from, key, other, out_h, out_w, message) != status)
                abort();
            if (status == IMG_OK && memcmp(first, other, bytes) != 0)
                abort();
        }
        free(first);
        free(other);
    }
    free(pixels);
    return 0;
}
