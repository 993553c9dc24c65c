/* The table of steps, made of their list. */
#include "ops.h"

#include <string.h>

#define PLACE(word) &img_op_##word,
static const img_op_kind *const kinds[] = {IMG_OPS(PLACE) NULL};

const img_op_kind *img_op_kind_at(int64_t i) { return kinds[i]; }

const img_op_kind *img_find_op_kind(const char *name) {
    for (int i = 0; kinds[i] != NULL; i++)
        if (strcmp(kinds[i]->name, name) == 0)
            return kinds[i];
    return NULL;
}
