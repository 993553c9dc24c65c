/* A thread's reusable memory, and the choice of the loops. */
#include <stdlib.h>
#include <string.h>

#include "baseline.h"

static img_buffer *buffer_of(const img_scratch *scratch, int i) {
    img_scratch *s = (img_scratch *)scratch;
    img_buffer *all[] = {&s->rows,   &s->line, &s->ring,      &s->pointers,  &s->mixed,          &s->work,
                         &s->values, &s->held, &s->pixels[0], &s->pixels[1], &s->axes[0].memory, &s->axes[1].memory,
                         &s->segment, &s->planes};
    return i < (int)(sizeof all / sizeof *all) ? all[i] : NULL;
}

img_scratch *img_scratch_new(void) {
    img_scratch *scratch = calloc(1, sizeof *scratch);
    if (scratch == NULL)
        return NULL;
    scratch->room = (img_room){.used = sizeof *scratch, .most = INT64_MAX};
    for (int i = 0; buffer_of(scratch, i) != NULL; i++)
        buffer_of(scratch, i)->room = &scratch->room;
    return scratch;
}

void img_scratch_free(img_scratch *scratch) {
    if (scratch == NULL)
        return;
    for (int i = 0; buffer_of(scratch, i) != NULL; i++)
        free(buffer_of(scratch, i)->data);
    img_jpeg_free(scratch->jpeg);
    img_baseline_free(scratch->baseline);
    free(scratch);
}

int64_t img_scratch_bytes(const img_scratch *scratch) { return scratch->room.used; }

int img_ask(img_room *room, int64_t size) {
    if (size <= room->most - room->used)
        return IMG_OK;
    room->wanted = size < INT64_MAX - room->used ? room->used + size : INT64_MAX;
    return IMG_NO_MEMORY;
}

int img_reserve(img_buffer *buffer, uint64_t size) {
    if (size <= buffer->size)
        return IMG_OK;
    void *data = NULL;
    uint64_t grown = (size + size / 4 + 4095) / 4096 * 4096; /* some room, so that similar pictures find it large enough */
    if (grown < size || grown > SIZE_MAX / 2)
        return IMG_NO_MEMORY;
    const int64_t more = (int64_t)(grown - buffer->size);
    if (buffer->room != NULL && img_ask(buffer->room, more) != IMG_OK)
        return IMG_NO_MEMORY;
    free(buffer->data); /* first: the old and the new one together are more than was asked for */
    buffer->data = NULL;
    if (buffer->room != NULL)
        buffer->room->used -= (int64_t)buffer->size;
    buffer->size = 0;
    if (posix_memalign(&data, 64, (size_t)grown) != 0)
        return IMG_NO_MEMORY;
    if (buffer->room != NULL)
        buffer->room->used += (int64_t)grown;
    buffer->data = data;
    buffer->size = (size_t)grown;
    return IMG_OK;
}

static const img_kernels *current;

int img_choose_kernels(const char *name) {
    const img_kernels *chosen = NULL;
#if defined(__x86_64__)
    __builtin_cpu_init();
    int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
    int avx512 = avx2 && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vbmi") &&
                 __builtin_cpu_supports("avx512vnni");
    if (avx512 && (name[0] == 0 || strcmp(name, "avx512") == 0))
        chosen = &img_avx512_kernels;
    else if (avx2 && (name[0] == 0 || strcmp(name, "avx2") == 0))
        chosen = &img_avx2_kernels;
#endif
    if (chosen == NULL && (name[0] == 0 || strcmp(name, "generic") == 0))
        chosen = &img_generic_kernels;
    if (chosen == NULL)
        return -1;
    __atomic_store_n(&current, chosen, __ATOMIC_RELEASE);
    return 0;
}

const img_kernels *img_current_kernels(void) { return __atomic_load_n(&current, __ATOMIC_ACQUIRE); }
