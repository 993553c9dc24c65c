/* A thread's reusable memory. */
#include "scratch.h"

#include <stdlib.h>

static img_buffer *buffer_of(const img_scratch *scratch, int i) {
    img_scratch *s = (img_scratch *)scratch;
    img_buffer *all[] = {&s->line, &s->ring,      &s->pointers,  &s->mixed,          &s->work,          &s->values,
                         &s->held, &s->pixels[0], &s->pixels[1], &s->axes[0].memory, &s->axes[1].memory,
                         &s->whole, &s->plan.tables, &s->pixels[2], &s->pixels[3], &s->sums, &s->plan.params,
                         &s->shared};
    return i < (int)(sizeof all / sizeof *all) ? all[i] : NULL;
}

img_scratch *img_scratch_new(void) {
    img_scratch *scratch = calloc(1, sizeof *scratch);
    if (scratch == NULL)
        return NULL;
    scratch->room = (img_room){.used = sizeof *scratch, .most = INT64_MAX};
    for (int i = 0; buffer_of(scratch, i) != NULL; i++)
        buffer_of(scratch, i)->room = &scratch->room;
    scratch->jpeg = img_jpeg_new(&scratch->room);
    if (scratch->jpeg == NULL) {
        free(scratch);
        return NULL;
    }
    return scratch;
}

void img_scratch_free(img_scratch *scratch) {
    if (scratch == NULL)
        return;
    for (int i = 0; buffer_of(scratch, i) != NULL; i++)
        free(buffer_of(scratch, i)->data);
    img_jpeg_free(scratch->jpeg);
    free(scratch);
}

int64_t img_scratch_bytes(const img_scratch *scratch) { return scratch->room.used; }
