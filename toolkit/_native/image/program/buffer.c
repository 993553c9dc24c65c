/* Buffers that grow, and how much all of them together may. */
#include "buffer.h"

#include <stdio.h>
#include <stdlib.h>

#include "base.h"

int img_ask(img_room *room, int64_t size) {
    if (size <= room->most - room->used)
        return IMG_OK;
    room->wanted = size < INT64_MAX - room->used ? room->used + size : INT64_MAX;
    return IMG_NO_MEMORY;
}

void img_release(img_buffer *buffer) {
    free(buffer->data);
    buffer->data = NULL;
    if (buffer->room != NULL)
        buffer->room->used -= (int64_t)buffer->size;
    buffer->size = 0;
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
    img_release(buffer); /* first: the old and the new one together are more than was asked for */
    if (posix_memalign(&data, 64, (size_t)grown) != 0)
        return IMG_NO_MEMORY;
    if (buffer->room != NULL)
        buffer->room->used += (int64_t)grown;
    buffer->data = data;
    buffer->size = (size_t)grown;
    return IMG_OK;
}

int img_reserve_or_say(img_buffer *buffer, uint64_t size, char *message) {
    int status = img_reserve(buffer, size);
    if (status != IMG_OK)
        snprintf(message, IMG_MESSAGE, "no memory for %llu bytes of scratch", (unsigned long long)size);
    return status;
}
