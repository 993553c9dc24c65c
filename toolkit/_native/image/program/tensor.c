/* Steps on results: each changes a result in its batch, row by row, in float. */
#include "tensor.h"

#include "base.h"
#include "draws.h"

void img_load_values(const img_tensor *t, int64_t y, int64_t x, int64_t count) {
    img_read_span(t->layout, t->data, t->height, t->width, y, x, count, t->values, t->plane);
}

void img_store_values(const img_tensor *t, int64_t y, int64_t x, int64_t count) {
    img_write_span(t->layout, t->data, t->height, t->width, y, x, count, t->values, t->plane);
}

static void run_chain(const img_chain *steps, const img_tensor *tensor, uint64_t key);

/* Run the way of a branch that is drawn, if one is. */
static void run_way(const img_op *branch, const img_tensor *tensor, uint64_t key) {
    const double drawn = img_draw(img_fold(key, branch->id), 0);
    for (int64_t i = 0; i < branch->way_count; i++)
        if (drawn < branch->limits[i]) {
            run_chain(&branch->ways[i], tensor, key);
            return;
        }
}

static void run_chain(const img_chain *steps, const img_tensor *tensor, uint64_t key) {
    for (int64_t i = 0; i < steps->count; i++) {
        const img_op *op = &steps->ops[i];
        if (op->kind == NULL)
            run_way(op, tensor, key);
        else
            op->kind->on_tensor(tensor, op->params, img_fold(key, op->id));
    }
}

int img_run_tensor_steps(const img_program *program, img_scratch *scratch, uint64_t key, void *out, int64_t out_h,
                         int64_t out_w, char *message) {
    if (program->tensor_steps.count == 0)
        return IMG_OK;
    const int64_t plane = out_w + IMG_PAD;
    int status = img_reserve_or_say(&scratch->values, (uint64_t)plane * 4 * sizeof(float), message);
    if (status != IMG_OK)
        return status;
    const img_tensor tensor = {.layout = &program->layout, .data = out, .height = out_h, .width = out_w,
                               .values = (float *)scratch->values.data, .plane = plane};
    run_chain(&program->tensor_steps, &tensor, key);
    return IMG_OK;
}
