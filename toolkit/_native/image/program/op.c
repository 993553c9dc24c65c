/* What steps to a size share. */
#include "op.h"

#include "base.h"

const char *img_check_size(const void *params) {
    const img_size *size = params;
    return size->height * size->width > IMG_MAX_PIXELS ? "height and width make more than 2147483647 pixels" : NULL;
}

void img_follow_size(const void *params, img_shape *shape) {
    const img_size *size = params;
    shape->height = size->height;
    shape->width = size->width;
}
