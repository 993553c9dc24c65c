/* Rows out of a record batch body that remembers no checks: chunk by chunk, so that none is summed once a row. */
#include "chunks.h"

#include <string.h>

int tk_rows_by_chunk(const tk_body *body, int64_t start, int64_t n, int64_t stride, int64_t rows, uint8_t *dst,
                     int64_t dst_stride, uint8_t *tmp, int64_t *bad_chunk)
{
    int64_t row = 0; /* the first that isn't wholly copied */
    while (row < rows) {
        int64_t chunk = (start + row * stride) / TK_CHUNK_BYTES;
        for (int64_t copied = 0; copied < n;) { /* the row's chunks; the last of them may hold more rows */
            int64_t from = chunk * TK_CHUNK_BYTES;
            int64_t to = from + TK_CHUNK_BYTES < body->length ? from + TK_CHUNK_BYTES : body->length;
            *bad_chunk = chunk;
            if (tk_guarded_copy(tmp, body->body + from, (size_t)(to - from)) != 0)
                return TK_READ_FAULT;
            if (tk_crc32c(0, tmp, (size_t)(to - from)) != body->crcs[chunk])
                return TK_READ_CRC;
            for (;;) {
                int64_t at = start + row * stride + copied, left = n - copied;
                int64_t here = to - at < left ? to - at : left;
                memcpy(dst + row * dst_stride + copied, tmp + (at - from), (size_t)here);
                copied += here;
                if (copied < n || row + 1 == rows || start + (row + 1) * stride >= to)
                    break;
                row++;
                copied = 0;
            }
            chunk++;
        }
        row++;
    }
    return TK_READ_OK;
}
