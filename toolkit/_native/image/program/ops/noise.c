/* Steps that add noise: to pixels, or to a result's numbers. What a value gets follows from its place and the step's key.
 *
 * Number x of row y of channel c is drawn by the key fold(fold(v, c), y), v being fold(the step's, 2^33); of a gray picture
 * there is channel 0 alone. Alpha stays.
 */
#include <string.h>

#include "image/program/base.h"
#include "image/program/draws.h"
#include "image/program/normal.h"
#include "image/program/op.h"
#include "image/program/plan.h"
#include "image/program/tensor.h"

#define VALUES ((uint64_t)1 << 33)
#define COLOURS 3

/* ---- Normal numbers on pixels ---- */

/* A channel of a pixel with its noise; times: that is multiplied with the value. */
static inline uint32_t level_of(uint32_t pixel, int channel, float noise, int times) {
    const float before = (float)(int32_t)(pixel >> 8 * channel & 255);
    float value = before + (times ? before * noise : noise);
    value = value < 0.0f ? 0.0f : value > 255.0f ? 255.0f : value;
    return (uint32_t)(int32_t)(value + 0.5f);
}

static inline void add_normals(uint32_t *pixels, float (*normals)[IMG_NORMALS], float mean, float deviation, int times) {
    for (int i = 0; i < IMG_NORMALS; i++) {
        uint32_t changed = pixels[i] & 0xFF000000; /* little-endian: alpha is the highest byte */
        for (int c = 0; c < COLOURS; c++)
            changed |= level_of(pixels[i], c, mean + deviation * normals[c][i], times) << 8 * c;
        pixels[i] = changed;
    }
}

IMG_CLONES static void add_noise(uint32_t *pixels, float (*normals)[IMG_NORMALS], float mean, float deviation) {
    add_normals(pixels, normals, mean, deviation, 0);
}

IMG_CLONES static void add_speckles(uint32_t *pixels, float (*normals)[IMG_NORMALS], float mean, float deviation) {
    add_normals(pixels, normals, mean, deviation, 1);
}

/* numbers: mean and standard deviation; level: whether the noise is multiplied with the value. */
static void change_row(uint8_t *rgbx, int64_t count, int64_t y, const img_change *change) {
    uint32_t pixels[IMG_NORMALS] = {0};
    float normals[COLOURS][IMG_NORMALS];
    uint64_t keys[COLOURS];
    for (uint64_t c = 0; c < COLOURS; c++)
        keys[c] = img_fold(img_fold(change->key, c), (uint64_t)y);
    for (int64_t x = 0; x < count; x += IMG_NORMALS, rgbx += 4 * IMG_NORMALS) {
        const size_t size = 4 * (size_t)(count - x < IMG_NORMALS ? count - x : IMG_NORMALS);
        memcpy(pixels, rgbx, size);
        for (int c = 0; c < COLOURS; c++)
            if (c == 0 || !change->gray)
                img_draw_normals(normals[c], keys[c], x / IMG_NORMALS);
            else
                memcpy(normals[c], normals[0], sizeof normals[c]);
        (change->level ? add_speckles : add_noise)(pixels, normals, change->numbers[0], change->numbers[1]);
        memcpy(rgbx, pixels, size);
        for (size_t i = 3; change->gray && i < size; i += 4)
            rgbx[i] = rgbx[i - 1];
    }
}

/* ---- gaussian_noise ---- */

typedef struct {
    img_range std;
    double mean, p;
} gaussian_noise;

static const img_field gaussian_noise_fields[] = {
    IMG_RANGE_FIELD(gaussian_noise, std, 0.0, 1e6),
    IMG_NUMBER_FIELD(gaussian_noise, mean, -1e6, 1e6),
    IMG_NUMBER_FIELD(gaussian_noise, p, 0.0, 1.0),
    IMG_NO_FIELD,
};

static int plan_gaussian_noise(img_builder *b, const void *params, uint64_t key) {
    const gaussian_noise *by = params;
    if (!img_draw_whether(key, by->p))
        return IMG_OK;
    const img_change change = {.apply_at = change_row, .gray = b->gray, .key = img_fold(key, VALUES),
                               .numbers = {(float)by->mean, (float)img_draw_range(key, 1, &by->std)}};
    return img_plan_change(b, &change);
}

IMG_CLONES static void add_to_numbers(float *values, const float *normals, int64_t count, float mean, float deviation) {
    for (int64_t i = 0; i < count; i++)
        values[i] += mean + deviation * normals[i];
}

static void add_to_tensor(const img_tensor *t, const void *params, uint64_t key) {
    const gaussian_noise *by = params;
    if (!img_draw_whether(key, by->p))
        return;
    const float deviation = (float)img_draw_range(key, 1, &by->std);
    const uint64_t drawn = img_fold(key, VALUES);
    float normals[IMG_NORMALS];
    for (int64_t y = 0; y < t->height; y++) {
        img_load_values(t, y, 0, t->width);
        for (int64_t c = 0; c < t->layout->channels; c++) {
            const uint64_t row = img_fold(img_fold(drawn, (uint64_t)c), (uint64_t)y);
            for (int64_t x = 0; x < t->width; x += IMG_NORMALS) {
                img_draw_normals(normals, row, x / IMG_NORMALS);
                add_to_numbers(t->values + c * t->plane + x, normals,
                               t->width - x < IMG_NORMALS ? t->width - x : IMG_NORMALS, (float)by->mean, deviation);
            }
        }
        img_store_values(t, y, 0, t->width);
    }
}

IMG_DEFINE_OP(gaussian_noise, IMG_POINT, gaussian_noise, gaussian_noise_fields, .draws = 1, .plan = plan_gaussian_noise,
              .on_tensor = add_to_tensor);

/* ---- speckle_noise ---- */

typedef struct {
    img_range std;
    double p;
} speckle_noise;

static const img_field speckle_noise_fields[] = {
    IMG_RANGE_FIELD(speckle_noise, std, 0.0, 1e3),
    IMG_NUMBER_FIELD(speckle_noise, p, 0.0, 1.0),
    IMG_NO_FIELD,
};

static int plan_speckle_noise(img_builder *b, const void *params, uint64_t key) {
    const speckle_noise *by = params;
    if (!img_draw_whether(key, by->p))
        return IMG_OK;
    const img_change change = {.apply_at = change_row, .gray = b->gray, .level = 1, .key = img_fold(key, VALUES),
                               .numbers = {0.0f, (float)img_draw_range(key, 1, &by->std)}};
    return img_plan_change(b, &change);
}

IMG_DEFINE_OP(speckle_noise, IMG_POINT, speckle_noise, speckle_noise_fields, .draws = 1, .plan = plan_speckle_noise);

/* ---- salt_and_pepper ---- */

typedef struct {
    img_range amount;
    double salt, p;
} salt_and_pepper;

static const img_field salt_and_pepper_fields[] = {
    IMG_RANGE_FIELD(salt_and_pepper, amount, 0.0, 1.0),
    IMG_NUMBER_FIELD(salt_and_pepper, salt, 0.0, 1.0),
    IMG_NUMBER_FIELD(salt_and_pepper, p, 0.0, 1.0),
    IMG_NO_FIELD,
};

/* numbers: the amount, and the share of salt in it. */
IMG_CLONES static void strew_row(uint8_t *rgbx, int64_t count, int64_t y, const img_change *change) {
    const uint64_t key = img_fold(change->key, (uint64_t)y);
    const uint64_t some = (uint64_t)((double)change->numbers[0] * 0x1p32), white = (uint64_t)((double)change->numbers[1] * 0x1p32);
    const uint32_t rest = change->gray ? 0xFFFFFFFF : 0x00FFFFFF; /* little-endian: alpha is the highest byte */
    for (int64_t x = 0; x < count; x++) {
        const uint64_t bits = img_fold(key, (uint64_t)x);
        const uint32_t changed = (bits >> 32) < some ? rest : 0, salt = (bits & 0xFFFFFFFF) < white ? changed : 0;
        uint32_t pixel;
        memcpy(&pixel, rgbx + 4 * x, 4);
        pixel = (pixel & ~changed) | salt;
        memcpy(rgbx + 4 * x, &pixel, 4);
    }
}

static int plan_salt_and_pepper(img_builder *b, const void *params, uint64_t key) {
    const salt_and_pepper *by = params;
    if (!img_draw_whether(key, by->p))
        return IMG_OK;
    const img_change change = {.apply_at = strew_row, .gray = b->gray, .key = img_fold(key, VALUES),
                               .numbers = {(float)img_draw_range(key, 1, &by->amount), (float)by->salt}};
    return img_plan_change(b, &change);
}

IMG_DEFINE_OP(salt_and_pepper, IMG_POINT, salt_and_pepper, salt_and_pepper_fields, .draws = 1,
              .plan = plan_salt_and_pepper);
