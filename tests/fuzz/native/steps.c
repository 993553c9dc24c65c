/* Any steps on any pixels: every set of loops gives the same bytes, within the memory that it was given.
 *
 * Steps are those of the table, with values within the bounds of their fields. */
#include <stdlib.h>
#include <string.h>

#include "../ops.h"

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

static double between(double low, double high)
{
    static const double parts[] = {0.0, 1.0, 0.5, 0.25, 1e-3};
    return take(3) ? low + (high - low) * parts[take(5)] : low + (high - low) * take(65536) / 65535.0;
}

/* A value within the bounds of a field; sizes small ones, so that most pictures are within MOST_PIXELS. */
static void fill(const img_field *field, uint8_t *place)
{
    img_range range = {0};
    int64_t whole = 0;
    double number;
    switch (field->type) {
    case IMG_INTEGER:
        whole = (int64_t)(field->high <= 300 ? field->high : 260);
        whole = (int64_t)(field->low > -40 ? field->low : -40) + take((uint32_t)whole);
        whole = whole > (int64_t)field->high ? (int64_t)field->high : whole;
        memcpy(place, &whole, sizeof whole);
        break;
    case IMG_CHOICE:
        while (field->words[whole] != NULL)
            whole++;
        whole = take((uint32_t)whole);
        memcpy(place, &whole, sizeof whole);
        break;
    case IMG_NUMBER:
        number = between(field->low, field->high);
        memcpy(place, &number, sizeof number);
        break;
    default:
        range.given = field->type == IMG_RANGE || take(2);
        const double high = take(2) && field->high > 4 ? 4 : field->high;
        range.low = between(field->low, high);
        range.high = between(range.low, high);
        memcpy(place, &range, sizeof range);
    }
}

/* Any step of the table. */
static int step(img_op *op, void *params)
{
    int64_t count = 0;
    while (img_op_kind_at(count) != NULL)
        count++;
    op->kind = img_op_kind_at(take((uint32_t)count));
    op->params = params;
    op->id = take(5);
    if (op->kind->params_size > OP_PARAMS * sizeof(int64_t))
        abort();
    for (const img_field *field = op->kind->fields; field->name != NULL; field++)
        fill(field, (uint8_t *)params + field->offset);
    return op->kind->check == NULL || op->kind->check(params) == NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const sets[] = {"generic", "avx2", "avx512"};
    next = data, end = data + size;
    if (scratch == NULL)
        scratch = img_scratch_new();
    img_op ops[6];
    int64_t params[6][OP_PARAMS];
    img_program program = {.ops = ops, .max_pixels = MOST_PIXELS, .mode = (int32_t)take(3)};
    const int channels = take(3) == 0 ? 1 : take(2) ? 3 : 4;
    const int64_t height = 1 + take(200), width = 1 + take(300);
    const uint64_t key = take(4);
    img_shape shape = {0, 0, program.mode == IMG_RGB ? 3 : program.mode == IMG_GRAY ? 1 : 4};
    program.op_count = take(6);
    for (int64_t i = 0; i < program.op_count; i++) {
        if (!step(&ops[i], params[i]))
            return 0;
        if (ops[i].kind->follow != NULL)
            ops[i].kind->follow(ops[i].params, &shape);
    }
    const int wanted = shape.channels;
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
