/* CRC32C and copies out of a memory map that survive a truncated file. Shared by the chunks_*.c files. */
#ifndef TOOLKIT_CHUNKS_H
#define TOOLKIT_CHUNKS_H

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

/* CRC32C (Castagnoli) of n bytes, continuing from crc (0 to start). Safe from any thread. */
uint32_t tk_crc32c(uint32_t crc, const uint8_t *data, size_t n);

/* The same by tables, whatever the processor has: the portable path, for tests. */
uint32_t tk_crc32c_table(uint32_t crc, const uint8_t *data, size_t n);

/* Name of the implementation that tk_crc32c picked on this processor. */
const char *tk_crc32c_backend(void);

/* memcpy that returns -1 instead of dying when src lies in a map whose file was truncated. */
int tk_guarded_copy(void *dst, const void *src, size_t n);

/* Put the SIGBUS handler in place (again, if somebody replaced it since); 0 or errno. */
int tk_guard_install(void);

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

/* The same for rows of a body that remembers nothing: each chunk is read and checked once for all rows in it. The range
   was looked at by tk_checked_rows. */
int tk_rows_by_chunk(const tk_body *body, int64_t start, int64_t n, int64_t stride, int64_t rows, uint8_t *dst,
                     int64_t dst_stride, uint8_t *tmp, int64_t *bad_chunk);

/* The same as tk_checked_copy for `count` unsigned integers of `width` (2 or 4) bytes from body[start] on, widened or narrowed to dst_width
   (2, 4 or 8) on the way: no value may need more bytes than it gets. start is a multiple of width. */
int tk_checked_ids(const tk_body *body, int64_t start, int64_t count, int width, void *dst, int dst_width, uint8_t *tmp,
                   int64_t *bad_chunk);

/* tk_guarded_copy that casts as tk_checked_ids does. */
int tk_guarded_ids(void *dst, int dst_width, const void *src, int width, size_t count);

/* The cast itself, for memory that is no map. */
void tk_cast_ids(void *dst, int dst_width, const void *src, int width, size_t count);

#endif
