/* Any steps on any pixels, and on their results: every set of loops gives the same bytes, within the memory that it was given.
 *
 * Steps are those of the table, with values within the bounds of their fields, in branches and mixes now and then. */
#include <stdlib.h>
#include <string.h>

#include "../ops.h"
#include "image/program/choice.h"
#include "image/program/run.h"

#define MOST_PIXELS 60000
#define MOST_OPS 24

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
    case IMG_NUMBERS:
        for (int64_t i = 0; i < field->count; i++) {
            number = between(field->low, field->high);
            memcpy(place + i * (int64_t)sizeof number, &number, sizeof number);
        }
        break;
    default:
        range.given = field->type == IMG_RANGE || take(2);
        const double high = take(2) && field->high > 4 ? 4 : field->high;
        range.low = between(field->low, high);
        range.high = between(range.low, high);
        memcpy(place, &range, sizeof range);
    }
}

/* What a program is made of. */
static struct {
    img_op ops[MOST_OPS];
    int64_t params[MOST_OPS][OP_PARAMS];
    img_chain ways[2 * MOST_OPS];
    double limits[2 * MOST_OPS];
    int64_t op_count, way_count;
    int in_mix;
    int on_tensor; /* of steps on results */
} made;

static int chain(img_chain *steps, int depth, img_shape *shape);

/* Up to two ways, one of which is taken or, perhaps, none. */
static int branch(img_op *op, int depth, img_shape *shape)
{
    const img_shape before = *shape;
    if (made.way_count + 2 > 2 * MOST_OPS)
        return 0;
    op->kind = NULL;
    op->way_count = 1 + take(2);
    op->ways = made.ways + made.way_count;
    op->limits = made.limits + made.way_count;
    made.way_count += op->way_count;
    for (int64_t i = 0; i < op->way_count; i++) {
        img_shape after = before;
        ((double *)op->limits)[i] = i + 1 < op->way_count ? 0.5 : take(2) ? 1.0 : 0.75;
        if (!chain((img_chain *)&op->ways[i], depth + 1, &after) || after.channels != before.channels)
            return 0;
    }
    return 1;
}

/* Up to two chains, which leave the channels; a size that they change is an error of the picture. */
static int mix(img_op *op, int depth, img_shape *shape)
{
    if (made.on_tensor || made.in_mix || made.way_count + 2 > 2 * MOST_OPS)
        return 0;
    op->kind = NULL;
    op->limits = NULL;
    op->alpha = between(1e-3, 1e3);
    op->way_count = 1 + take(2);
    op->ways = made.ways + made.way_count;
    made.way_count += op->way_count;
    made.in_mix = 1;
    for (int64_t i = 0; i < op->way_count; i++) {
        img_shape after = *shape;
        if (!chain((img_chain *)&op->ways[i], depth + 1, &after) || after.channels != shape->channels)
            return 0;
    }
    made.in_mix = 0;
    return 1;
}

/* Any step of the table. */
static int step(img_op *op, int64_t *params, img_shape *shape)
{
    const img_op_kind *kinds[256];
    uint32_t count = 0;
    for (int64_t i = 0; img_op_kind_at(i) != NULL && count < 256; i++)
        if (!made.on_tensor || img_op_kind_at(i)->on_tensor != NULL)
            kinds[count++] = img_op_kind_at(i);
    op->kind = kinds[take(count)];
    op->params = params;
    if (op->kind->params_size > OP_PARAMS * sizeof *params)
        abort();
    for (const img_field *field = op->kind->fields; field->name != NULL; field++)
        fill(field, (uint8_t *)params + field->offset);
    if (op->kind->follow != NULL)
        op->kind->follow(params, shape);
    return op->kind->check == NULL || op->kind->check(params) == NULL;
}

/* Whether it is one that ImageProgram takes. */
static int chain(img_chain *steps, int depth, img_shape *shape)
{
    const int64_t count = take(depth == 0 ? 6 : 3), first = made.op_count;
    if (first + count > MOST_OPS)
        return 0;
    *steps = (img_chain){made.ops + first, count};
    made.op_count += count;
    for (int64_t i = first; i < first + count; i++) {
        img_op *op = &made.ops[i];
        op->id = take(5);
        const uint32_t kind = depth < 3 ? take(8) : 7;
        if (!(kind == 0 ? mix(op, depth, shape) : kind < 3 ? branch(op, depth, shape) : step(op, made.params[i], shape)))
            return 0;
    }
    return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const sets[] = {"generic", "avx2", "avx512"};
    next = data, end = data + size;
    if (scratch == NULL)
        scratch = img_scratch_new();
    img_program program = {.max_pixels = MOST_PIXELS, .mode = (int32_t)take(4), .ignore = 40000};
    const int ids = program.mode == IMG_ID, channels = ids ? 4 : take(3) == 0 ? 1 : take(2) ? 3 : 4;
    const int64_t height = 1 + take(200), width = 1 + take(300);
    const uint64_t key = take(4);
    img_shape shape = {0, 0, program.mode == IMG_RGB ? 3 : program.mode == IMG_RGBA ? 4 : 1};
    made.op_count = made.way_count = made.in_mix = made.on_tensor = 0;
    if (!chain(&program.steps, 0, &shape))
        return 0;
    const int wanted = ids ? 1 : shape.channels;
    program.layout.words = ids;
    static const int items[] = {1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8};
    program.layout.dtype = (int32_t)take(11);
    program.layout.item = items[program.layout.dtype];
    made.on_tensor = 1;
    const int patched = take(3) == 0;
    program.layout.patch = patched && !ids ? 1 + take(9) : 0;
    if (program.layout.dtype >= IMG_F16 && !patched && !ids && !chain(&program.tensor_steps, 0, &shape))
        return 0;
    program.layout.chw = (int32_t)take(2);
    program.layout.channels = wanted;
    program.layout.normalise = !ids && take(2);
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
    if (status == IMG_OK && patched && shape.view_height > 0 && out_h % shape.view_height == 0) { /* several pictures */
        program.layout.view_height = shape.view_height;
        status = img_result_size(&program, scratch, height, width, key, &out_h, &out_w, message);
    }
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
