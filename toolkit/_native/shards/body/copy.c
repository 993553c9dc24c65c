/* A stretch of a record batch body, checked chunk by chunk as it is copied. */
#include "body.h"

#include <string.h>

#include "crc32c.h"
#include "guard.h"

int tk_checked_copy(const tk_body *body, int64_t start, int64_t n, uint8_t *dst, uint8_t *tmp, int64_t *bad_chunk)
{
    if (start < 0 || n < 0 || start > body->length || n > body->length - start)
        return TK_READ_RANGE;
    int64_t end = start + n;
    while (start < end) {
        int64_t chunk = start / TK_CHUNK_BYTES;
        int64_t chunk_start = chunk * TK_CHUNK_BYTES;
        int64_t chunk_end = chunk_start + TK_CHUNK_BYTES;
        if (chunk_end > body->length)
            chunk_end = body->length;
        *bad_chunk = chunk;
        if (tk_was_checked(body, chunk)) {
            /* Checked before: take as many checked chunks as follow each other in one copy. */
            int64_t stop = chunk_end;
            while (stop < end) {
                if (!tk_was_checked(body, stop / TK_CHUNK_BYTES))
                    break;
                stop = stop + TK_CHUNK_BYTES < body->length ? stop + TK_CHUNK_BYTES : body->length;
            }
            if (stop > end)
                stop = end;
            if (tk_guarded_copy(dst, body->body + start, (size_t)(stop - start)) != 0)
                return TK_READ_FAULT;
            dst += stop - start;
            start = stop;
            continue;
        }
        /* The bytes that are handed on must be the bytes that were summed: copy first, then check the copy. */
        int64_t stop = chunk_end < end ? chunk_end : end;
        int whole = start == chunk_start && stop == chunk_end;
        uint8_t *target = whole ? dst : tmp;
        size_t chunk_bytes = (size_t)(chunk_end - chunk_start);
        if (tk_guarded_copy(target, body->body + chunk_start, chunk_bytes) != 0)
            return TK_READ_FAULT;
        if (tk_crc32c(0, target, chunk_bytes) != body->crcs[chunk])
            return TK_READ_CRC;
        if (!whole)
            memcpy(dst, tmp + (start - chunk_start), (size_t)(stop - start));
        tk_note_checked(body, chunk);
        dst += stop - start;
        start = stop;
    }
    return TK_READ_OK;
}
