/* Buffers that grow, and how much all of them together may. */
#ifndef TOOLKIT_IMAGE_BUFFER_H
#define TOOLKIT_IMAGE_BUFFER_H

#include <stddef.h>
#include <stdint.h>

/* What a thread's memory may grow to: whoever needs more than `most` gets IMG_NO_MEMORY, and `wanted` says how much in all. */
typedef struct {
    int64_t used, most, wanted;
} img_room;

typedef struct {
    uint8_t *data; /* 64-byte aligned, NULL while size is 0 */
    size_t size;
    img_room *room; /* that it counts in; NULL: in none */
} img_buffer;

/* Whether `size` bytes more may be taken: IMG_OK or IMG_NO_MEMORY. */
int img_ask(img_room *room, int64_t size);
/* Make room for `size` bytes; the old content is lost. Returns IMG_OK or IMG_NO_MEMORY. */
int img_reserve(img_buffer *buffer, uint64_t size);
/* Let go of it. */
void img_release(img_buffer *buffer);
/* The same as img_reserve, with a message where there is none. */
int img_reserve_or_say(img_buffer *buffer, uint64_t size, char *message);

#endif
