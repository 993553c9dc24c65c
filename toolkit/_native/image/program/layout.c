/* Writes finished rows into a batch: any layout, channels and dtype; the usual two have loops of their own. */
#include "layout.h"

#include <string.h>

#include "base.h"
#include "half.h"

/* Toward zero, and what a dtype cannot hold to the nearest that it can. */
static inline double within(float value, double low, double high) {
    return value <= low ? low : value >= high ? high : (double)value;
}

/* The same where float has all whole numbers of the range: then the loops below get short vectors. */
static inline int32_t within_24_bits(float value, float low, float high) {
    value = value < low ? low : value;
    return (int32_t)(value > high ? high : value);
}

#define TO_U8(v) ((uint8_t)within_24_bits(v, 0, 255))
#define TO_I16(v) ((int16_t)within_24_bits(v, -32768, 32767))
#define TO_U16(v) ((uint16_t)within_24_bits(v, 0, 65535))
#define TO_I32(v) ((int32_t)within(v, -0x1p31, 0x1p31 - 1))
#define TO_U32(v) ((uint32_t)within(v, 0, 0x1p32 - 1))
#define TO_I64(v) ((int64_t)within(v, -0x1p63, 0x1.fffffffffffffp62))
#define TO_U64(v) ((uint64_t)within(v, 0, 0x1.fffffffffffffp63))
#define SAME(v) (v)

/* Channel by channel: `step` is from pixel to pixel, `next` from channel to channel of the result. */
#define WRITER(name, type, convert)                                                                            \
    IMG_CLONES static void name(type *out, int64_t step, int64_t next, const float *values, int64_t plane,     \
                                int64_t count, int64_t channels) {                                             \
        for (int64_t c = 0; c < channels; c++, out += next, values += plane) {                                 \
            if (step == 1)                                                                                     \
                for (int64_t i = 0; i < count; i++)                                                            \
                    out[i] = convert(values[i]);                                                               \
            else                                                                                               \
                for (int64_t i = 0; i < count; i++)                                                            \
                    out[i * step] = convert(values[i]);                                                        \
        }                                                                                                      \
    }

WRITER(write_u8, uint8_t, TO_U8)
WRITER(write_i16, int16_t, TO_I16)
WRITER(write_u16, uint16_t, TO_U16)
WRITER(write_i32, int32_t, TO_I32)
WRITER(write_u32, uint32_t, TO_U32)
WRITER(write_i64, int64_t, TO_I64)
WRITER(write_u64, uint64_t, TO_U64)
WRITER(write_f16, uint16_t, to_f16)
WRITER(write_bf16, uint16_t, to_bf16)
WRITER(write_f32, float, SAME)
WRITER(write_f64, double, SAME)

static void write_values(const img_layout *layout, uint8_t *at, int64_t step, int64_t next, const float *values,
                         int64_t plane, int64_t count) {
    void *out = at;
    switch ((img_dtype)layout->dtype) {
    case IMG_U8:
        write_u8(out, step, next, values, plane, count, layout->channels);
        break;
    case IMG_I16:
        write_i16(out, step, next, values, plane, count, layout->channels);
        break;
    case IMG_U16:
        write_u16(out, step, next, values, plane, count, layout->channels);
        break;
    case IMG_I32:
        write_i32(out, step, next, values, plane, count, layout->channels);
        break;
    case IMG_U32:
        write_u32(out, step, next, values, plane, count, layout->channels);
        break;
    case IMG_I64:
        write_i64(out, step, next, values, plane, count, layout->channels);
        break;
    case IMG_U64:
        write_u64(out, step, next, values, plane, count, layout->channels);
        break;
    case IMG_F16:
        write_f16(out, step, next, values, plane, count, layout->channels);
        break;
    case IMG_BF16:
        write_bf16(out, step, next, values, plane, count, layout->channels);
        break;
    case IMG_F32:
        write_f32(out, step, next, values, plane, count, layout->channels);
        break;
    case IMG_F64:
        write_f64(out, step, next, values, plane, count, layout->channels);
        break;
    }
}

#define NARROW(v) ((float)(v))

/* The way back. */
#define READER(name, type, convert)                                                                            \
    IMG_CLONES static void name(float *values, int64_t plane, const type *in, int64_t step, int64_t next,      \
                                int64_t count, int64_t channels) {                                             \
        for (int64_t c = 0; c < channels; c++, in += next, values += plane)                                    \
            for (int64_t i = 0; i < count; i++)                                                                \
                values[i] = convert(in[i * step]);                                                             \
    }

READER(read_f16, uint16_t, from_f16)
READER(read_bf16, uint16_t, from_bf16)
READER(read_f32, float, SAME)
READER(read_f64, double, NARROW)

/* Where pixel x of row y lies, and how far it is to the next pixel and the next channel, in values. */
static int64_t find(const img_layout *layout, int64_t height, int64_t width, int64_t y, int64_t x, int64_t *step,
                    int64_t *next) {
    *step = layout->chw ? 1 : layout->channels;
    *next = layout->chw ? height * width : 1;
    return layout->item * (y * width + x) * *step;
}

void img_read_span(const img_layout *layout, const uint8_t *data, int64_t height, int64_t width, int64_t y, int64_t x,
                   int64_t count, float *values, int64_t plane) {
    int64_t step, next;
    const void *in = data + find(layout, height, width, y, x, &step, &next);
    if (layout->dtype == IMG_F32)
        read_f32(values, plane, in, step, next, count, layout->channels);
    else if (layout->dtype == IMG_F16)
        read_f16(values, plane, in, step, next, count, layout->channels);
    else if (layout->dtype == IMG_BF16)
        read_bf16(values, plane, in, step, next, count, layout->channels);
    else
        read_f64(values, plane, in, step, next, count, layout->channels);
}

void img_write_span(const img_layout *layout, uint8_t *data, int64_t height, int64_t width, int64_t y, int64_t x,
                    int64_t count, const float *values, int64_t plane) {
    int64_t step, next;
    uint8_t *out = data + find(layout, height, width, y, x, &step, &next);
    write_values(layout, out, step, next, values, plane, count);
}

IMG_CLONES static void spread_words(float *values, const uint8_t *words, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        uint32_t word;
        memcpy(&word, words + 4 * i, 4);
        values[i] = (float)word;
    }
}

IMG_CLONES static void spread(float *values, int64_t plane, const uint8_t *rgbx, int64_t count, const img_layout *layout) {
    for (int64_t c = 0; c < layout->channels; c++)
        for (int64_t i = 0; i < count; i++)
            values[c * plane + i] = (float)rgbx[4 * i + c] * layout->scale[c] + layout->bias[c];
}

/* Write row `i` of each of the patches that lie side by side. */
static void write_patches(const img_layout *layout, uint8_t *out, int64_t width, int64_t i, const float *values,
                          int64_t plane) {
    const int64_t side = layout->patch, channels = layout->channels, step = layout->chw ? 1 : channels;
    const int64_t patch = layout->item * channels * side * side;
    out += i / side * (width / side) * patch + layout->item * (i % side) * side * step;
    for (int64_t j = 0; j < width; j += side, out += patch)
        write_values(layout, out, step, layout->chw ? side * side : 1, values + j, plane, side);
}

void img_pack_row(const img_layout *layout, const img_kernels *kernels, uint8_t *out, int64_t height, int64_t width,
                  int64_t i, const uint8_t *row, float *values) {
    const int64_t channels = layout->channels, plane = width + IMG_PAD;
    if (layout->view_height > 0) {
        height = layout->view_height;
        out += layout->item * (i / height) * height * width * channels;
        i %= height;
    }
    if (layout->patch == 0)
        out += layout->item * i * width * (layout->chw ? 1 : channels);
    if (layout->words && layout->item == 4 && layout->dtype != IMG_F32) {
        memcpy(out, row, 4 * (size_t)width);
    } else if (layout->words) {
        spread_words(values, row, width);
        write_values(layout, out, 1, 1, values, width, width);
    } else if (layout->dtype == IMG_U8 && !layout->normalise && !layout->chw && channels == 3 && layout->patch == 0) {
        kernels->to_rgb(out, row, width);
    } else if (layout->dtype == IMG_U8 && !layout->normalise && !layout->chw && channels == 4 && layout->patch == 0) {
        memcpy(out, row, 4 * (size_t)width);
    } else if (layout->dtype == IMG_F32 && layout->chw && channels == 3 && layout->patch == 0) {
        kernels->to_planes((float *)out, height * width, row, width, layout->scale, layout->bias);
    } else {
        if (channels == 3)
            kernels->to_planes(values, plane, row, width, layout->scale, layout->bias);
        else
            spread(values, plane, row, width, layout);
        if (layout->patch > 0)
            write_patches(layout, out, width, i, values, plane);
        else
            write_values(layout, out, layout->chw ? 1 : channels, layout->chw ? height * width : 1, values, plane, width);
    }
}
