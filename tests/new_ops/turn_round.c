/* Invert colours. */
#include "image/program/op.h"
#include "image/program/plan.h"

typedef struct {
    int64_t above;
} turn_round;

static const img_field turn_round_fields[] = {
    IMG_INTEGER_FIELD(turn_round, above, 0, 255),
    IMG_NO_FIELD,
};

static int plan_turn_round(img_builder *b, const void *params, uint64_t key) {
    img_table table;
    for (int c = 0; c < 3; c++)
        for (int v = 0; v < 256; v++)
            table.of[c][v] = (uint8_t)(v > ((const turn_round *)params)->above ? 255 - v : v);
    return img_plan_table(b, &table);
}

IMG_DEFINE_OP(turn_round, IMG_POINT, turn_round, turn_round_fields, .plan = plan_turn_round);
