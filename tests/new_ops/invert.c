/* Invert colours. */
#include "image/program/op.h"
#include "image/program/plan.h"

typedef struct {
    int64_t above;
} invert;

static const img_field invert_fields[] = {
    IMG_INTEGER_FIELD(invert, above, 0, 255),
    IMG_NO_FIELD,
};

static int plan_invert(img_builder *b, const void *params, uint64_t key) {
    img_table table;
    for (int c = 0; c < 3; c++)
        for (int v = 0; v < 256; v++)
            table.of[c][v] = (uint8_t)(v > ((const invert *)params)->above ? 255 - v : v);
    return img_plan_table(b, &table);
}

IMG_DEFINE_OP(invert, IMG_POINT, invert, invert_fields, .plan = plan_invert);
