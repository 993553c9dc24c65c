/* Token ids out of a record batch body: checked as tk_checked_copy checks, cast in the same pass. */
#include "body.h"

#include <string.h>

#include "crc32c.h"
#include "guard.h"

#define CAST(name, from, to)                                                                                           \
    static void name(to *restrict dst, const from *restrict src, size_t count)                                         \
    {                                                                                                                  \
        for (size_t i = 0; i < count; i++)                                                                             \
            dst[i] = (to)src[i];                                                                                       \
    }

CAST(cast_2_4, uint16_t, uint32_t)
CAST(cast_2_8, uint16_t, uint64_t)
CAST(cast_4_2, uint32_t, uint16_t)
CAST(cast_4_8, uint32_t, uint64_t)

/* Not inlined: guarded_ids calls it between its barriers. */
static __attribute__((noinline)) void cast_ids(void *dst, int dst_width, const void *src, int width, size_t count)
{
    if (width == dst_width)
        memcpy(dst, src, count * (size_t)width);
    else if (width == 2 && dst_width == 4)
        cast_2_4(dst, src, count);
    else if (width == 2)
        cast_2_8(dst, src, count);
    else if (dst_width == 2)
        cast_4_2(dst, src, count);
    else
        cast_4_8(dst, src, count);
}

/* tk_guarded_copy that casts. */
static int guarded_ids(void *dst, int dst_width, const void *src, int width, size_t count)
{
    TK_GUARDED(src, (const uint8_t *)src + count * (size_t)width, cast_ids(dst, dst_width, src, width, count));
}

int tk_checked_ids(const tk_body *body, int64_t start, int64_t count, int width, void *dst, int dst_width, uint8_t *tmp,
                   int64_t *bad_chunk)
{
    if (start < 0 || count < 0 || start > body->length || count > (body->length - start) / width)
        return TK_READ_RANGE;
    int64_t end = start + count * width;
    uint8_t *out = dst;
    while (start < end) {
        int64_t chunk = start / TK_CHUNK_BYTES;
        int64_t chunk_start = chunk * TK_CHUNK_BYTES;
        int64_t chunk_end = chunk_start + TK_CHUNK_BYTES < body->length ? chunk_start + TK_CHUNK_BYTES : body->length;
        int64_t stop = chunk_end < end ? chunk_end : end;
        *bad_chunk = chunk;
        if (tk_was_checked(body, chunk)) {
            /* Checked before: take as many checked chunks as follow each other in one go. */
            while (stop < end) {
                if (!tk_was_checked(body, stop / TK_CHUNK_BYTES))
                    break;
                stop = stop + TK_CHUNK_BYTES < end ? stop + TK_CHUNK_BYTES : end;
            }
            if (guarded_ids(out, dst_width, body->body + start, width, (size_t)(stop - start) / (size_t)width) != 0)
                return TK_READ_FAULT;
        } else {
            /* The ids that are handed on must come from the bytes that were summed: copy, check the copy, cast it. */
            size_t chunk_bytes = (size_t)(chunk_end - chunk_start);
            if (tk_guarded_copy(tmp, body->body + chunk_start, chunk_bytes) != 0)
                return TK_READ_FAULT;
            if (tk_crc32c(0, tmp, chunk_bytes) != body->crcs[chunk])
                return TK_READ_CRC;
            cast_ids(out, dst_width, tmp + (start - chunk_start), width, (size_t)(stop - start) / (size_t)width);
            tk_note_checked(body, chunk);
        }
        out += (stop - start) / width * dst_width;
        start = stop;
    }
    return TK_READ_OK;
}
