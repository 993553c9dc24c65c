/* Bodies of record batches in a memory map, and copies out of them that are checked chunk by chunk. */
#ifndef TOOLKIT_BODY_H
#define TOOLKIT_BODY_H

#include <stddef.h>
#include <stdint.h>

enum { TK_CHUNK_BYTES = 16384 };

/* Status of one checked read. */
enum {
    TK_READ_OK = 0,
    TK_READ_NULL = 1,     /* the row is null: not an error */
    TK_READ_CRC = 2,      /* a chunk's bytes have another CRC32C than the shard's metadata says */
    TK_READ_FAULT = 3,    /* the map has no bytes there: the file was cut short while open */
    TK_READ_RANGE = 4,    /* offsets that lie outside their buffer */
    TK_READ_TEXT = 5,     /* text that is not UTF-8; no chunk is to blame */
    TK_READ_ITEMS = 6,    /* a list of more items than can be, of a type that takes no bytes */
};

/* One record batch body inside a map. bits has one bit a chunk: set once the chunk was checked. It is NULL where nothing
   is remembered, and every chunk is checked at every read. */
typedef struct {
    const uint8_t *body;
    int64_t length;
    const uint32_t *crcs;
    uint8_t *bits;
} tk_body;

static inline int tk_was_checked(const tk_body *body, int64_t chunk)
{
    return body->bits != NULL && (__atomic_load_n(&body->bits[chunk >> 3], __ATOMIC_RELAXED) >> (chunk & 7) & 1);
}

static inline void tk_note_checked(const tk_body *body, int64_t chunk)
{
    if (body->bits != NULL)
        __atomic_fetch_or(&body->bits[chunk >> 3], (uint8_t)(1u << (chunk & 7)), __ATOMIC_RELAXED);
}

/* Copy body[start, start + n) to dst, checking every chunk it touches that wasn't checked before.
   tmp is TK_CHUNK_BYTES of scratch. Returns a TK_READ_ status; *bad_chunk is set with TK_READ_CRC and _FAULT. */
int tk_checked_copy(const tk_body *body, int64_t start, int64_t n, uint8_t *dst, uint8_t *tmp, int64_t *bad_chunk);

/* The same for `rows` stretches of n bytes, `stride` (n or more) apart, which come to lie dst_stride apart. */
int tk_checked_rows(const tk_body *body, int64_t start, int64_t n, int64_t stride, int64_t rows, uint8_t *dst,
                    int64_t dst_stride, uint8_t *tmp, int64_t *bad_chunk);

/* The same as tk_checked_copy for `count` unsigned integers of `width` (2 or 4) bytes from body[start] on, a multiple of
   width, widened or narrowed to dst_width (2, 4 or 8) on the way: no value may need more bytes than it gets. */
int tk_checked_ids(const tk_body *body, int64_t start, int64_t count, int width, void *dst, int dst_width, uint8_t *tmp,
                   int64_t *bad_chunk);

#endif
