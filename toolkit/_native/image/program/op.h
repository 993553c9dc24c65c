/* A step that transforms pixels: its parameters, and functions that say what it does. */
#ifndef TOOLKIT_IMAGE_OP_H
#define TOOLKIT_IMAGE_OP_H

#include <stddef.h>
#include <stdint.h>

#include "base.h"

/* ---- Fields of parameters ---- */

/* Two ends of what is drawn between. */
typedef struct {
    int64_t given; /* 0: None, where that may be */
    double low, high;
} img_range;

typedef struct {
    int64_t height, width;
} img_size;

typedef enum {
    IMG_INTEGER,        /* int64_t */
    IMG_NUMBER,         /* double */
    IMG_RANGE,          /* img_range */
    IMG_OPTIONAL_RANGE, /* img_range, or None */
    IMG_CHOICE,         /* int64_t: the place of a word among `words` */
    IMG_NUMBERS,        /* double[count] */
} img_field_type;

typedef struct {
    const char *name; /* NULL behind the last field */
    img_field_type type;
    size_t offset;
    double low, high; /* of the value, both ends of a range, or each of the numbers */
    const char *const *words; /* of a choice, NULL behind the last one */
    int64_t count; /* of numbers */
} img_field;

/* The offset of a field, which must have the type. */
#define IMG_OFFSET(params, name, type) _Generic(((params *)0)->name, type: offsetof(params, name))
#define IMG_INTEGER_FIELD(params, name, low, high)                                                                     \
    {#name, IMG_INTEGER, IMG_OFFSET(params, name, int64_t), low, high, NULL, 0}
#define IMG_NUMBER_FIELD(params, name, low, high)                                                                      \
    {#name, IMG_NUMBER, IMG_OFFSET(params, name, double), low, high, NULL, 0}
#define IMG_RANGE_FIELD(params, name, low, high)                                                                       \
    {#name, IMG_RANGE, IMG_OFFSET(params, name, img_range), low, high, NULL, 0}
#define IMG_OPTIONAL_RANGE_FIELD(params, name, low, high)                                                              \
    {#name, IMG_OPTIONAL_RANGE, IMG_OFFSET(params, name, img_range), low, high, NULL, 0}
#define IMG_CHOICE_FIELD(params, name, words)                                                                          \
    {#name, IMG_CHOICE, IMG_OFFSET(params, name, int64_t), 0, 0, words, 0}
#define IMG_NUMBERS_FIELD(params, name, low, high)                                                                     \
    {#name, IMG_NUMBERS, IMG_OFFSET(params, name[0], double), low, high, NULL, sizeof(((params *)0)->name) / sizeof(double)}
/* Of a struct whose first member is an img_size `size`: its two fields. */
#define IMG_SIZE_FIELDS(params)                                                                                        \
    {"height", IMG_INTEGER, IMG_OFFSET(params, size.height, int64_t), 1, IMG_MAX_SIDE, NULL, 0},                          \
    {"width", IMG_INTEGER, IMG_OFFSET(params, size.width, int64_t), 1, IMG_MAX_SIDE, NULL, 0}
#define IMG_NO_FIELD {NULL, IMG_INTEGER, 0, 0, 0, NULL, 0}

/* ---- A step ---- */

/* What a kernel needs at once. */
typedef enum {
    IMG_AXIS,      /* a stream of rows: it moves or mixes pixels along the axes */
    IMG_POINT,     /* a pixel: by a table, or by a function of its channels */
    IMG_STATISTIC, /* one pass over the picture, then a table */
    IMG_PICTURE,   /* the whole picture */
} img_form;

/* What is known of a result before there is a picture. */
typedef struct {
    int64_t height, width; /* 0: they depend on the picture */
    int channels;
    int64_t view_height; /* of several pictures below each other, that of one; 0: it is one */
} img_shape;

typedef struct img_builder img_builder; /* a plan that is being made: plan.h */
typedef struct img_tensor img_tensor;   /* a result in its batch: tensor.h */

/* `params` is the op's own struct. */
typedef struct {
    const char *name;
    img_form form;
    size_t params_size;
    const img_field *fields;
    int moves; /* it moves whole pixels, so that it takes ids: of a form but IMG_AXIS, which all do with the filter nearest */
    int draws; /* it is random: it has an `id` besides its fields, which its draws are named by */
    /* Whether parameters leave nothing to be drawn, so that no `id` is needed. Optional: something always is. */
    int (*fixed)(const void *params);
    /* Why the parameters do not go together, or NULL. Optional. */
    const char *(*check)(const void *params);
    /* What becomes of a shape. Optional: it stays as it is. */
    void (*follow)(const void *params, img_shape *shape);
    /* Say what is done to a picture. `key` is the sample's, folded with the op's id. */
    int (*plan)(img_builder *builder, const void *params, uint64_t key);
    /* Change a result in its batch, whose dtype is a float one. Optional: of steps that may stand behind normalize. */
    void (*on_tensor)(const img_tensor *tensor, const void *params, uint64_t key);
} img_op_kind;

/* For steps to an img_size, which is then the first member of their struct: its check, and what becomes of a shape. */
const char *img_check_size(const void *params);
void img_follow_size(const void *params, img_shape *shape);
#define IMG_TO_SIZE .check = img_check_size, .follow = img_follow_size

#define IMG_DEFINE_OP(word, its_form, params, its_fields, ...)                                                         \
    const img_op_kind img_op_##word = {                                                                                \
        .name = #word, .form = its_form, .params_size = sizeof(params), .fields = its_fields, __VA_ARGS__}

#endif
