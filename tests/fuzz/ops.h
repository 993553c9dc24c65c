/* Makes steps for C programs that test the image kernels, which know no struct of a step's parameters. */
#include <stdlib.h>
#include <string.h>

#include "image/program/ops.h"
#include "image/program/program.h"

#define OP_PARAMS 800 /* numbers of a step's parameters, at most */

/* Make `op` the step called `name`, all of whose fields are integers: `values`, in the order of its table. */
static inline void make_op(img_op *op, const char *name, int64_t *params, const int64_t *values)
{
    *op = (img_op){.kind = img_find_op_kind(name), .params = params};
    if (op->kind == NULL || op->kind->params_size > OP_PARAMS * sizeof *params)
        abort();
    for (int i = 0; op->kind->fields[i].name != NULL; i++)
        memcpy((uint8_t *)params + op->kind->fields[i].offset, &values[i], sizeof values[i]);
}
