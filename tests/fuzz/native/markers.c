/* Orientation and colour profile of any bytes: some answer, and nothing read outside them. */
#include <stdlib.h>
#include <string.h>

#include "image/program/markers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *exact = malloc(size + 1);
    memcpy(exact, data, size);
    exact = realloc(exact, size > 0 ? size : 1);
    int orientation = img_orientation(exact, (int64_t)size), profile = img_has_profile(exact, (int64_t)size);
    if (orientation < 1 || orientation > 8 || (profile != 0 && profile != 1))
        abort();
    free(exact);
    return 0;
}
