/* Rows out of a record batch body, some bytes apart: those whose chunks were checked under one guard. */
#include "body.h"

#include <string.h>

#include "crc32c.h"
#include "guard.h"

static int is_checked(const tk_body *body, int64_t start, int64_t end)
{
    for (int64_t chunk = start / TK_CHUNK_BYTES; chunk <= (end - 1) / TK_CHUNK_BYTES; chunk++)
        if (!tk_was_checked(body, chunk))
            return 0;
    return 1;
}

/* Not inlined: guarded_rows calls it between its barriers. */
static __attribute__((noinline)) void copy_rows(uint8_t *dst, size_t dst_stride, const uint8_t *src, size_t stride,
                                                size_t n, size_t rows)
{
    const size_t ahead = 4096 / stride + 1;
    for (size_t row = 0; row < rows; row++) {
        /* The processor's own prefetching stops at the end of a page, and behind a row: ask for what is a page ahead. */
        for (size_t i = 0; i < n; i += 64)
            __builtin_prefetch((const void *)((uintptr_t)src + (row + ahead) * stride + i));
        memcpy(dst + row * dst_stride, src + row * stride, n);
    }
}

/* The rows of memory whose chunks were checked, under one guard. */
static int guarded_rows(uint8_t *dst, size_t dst_stride, const uint8_t *src, size_t stride, size_t n, size_t rows)
{
    TK_GUARDED(src, src + (rows - 1) * stride + n, copy_rows(dst, dst_stride, src, stride, n, rows));
}

/* Rows of a body that remembers no checks: each chunk is read and checked once for all rows in it. The range was looked
   at by tk_checked_rows. */
static int rows_by_chunk(const tk_body *body, int64_t start, int64_t n, int64_t stride, int64_t rows, uint8_t *dst,
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

int tk_checked_rows(const tk_body *body, int64_t start, int64_t n, int64_t stride, int64_t rows, uint8_t *dst,
                    int64_t dst_stride, uint8_t *tmp, int64_t *bad_chunk)
{
    if (n <= 0 || stride < n || rows <= 0)
        return n == 0 || rows == 0 ? TK_READ_OK : TK_READ_RANGE;
    if (start < 0 || start > body->length || n > body->length - start
        || rows - 1 > (body->length - start - n) / stride)
        return TK_READ_RANGE;
    int64_t end = start + (rows - 1) * stride + n;
    if (is_checked(body, start, end)) {
        *bad_chunk = start / TK_CHUNK_BYTES;
        int fault =
            guarded_rows(dst, (size_t)dst_stride, body->body + start, (size_t)stride, (size_t)n, (size_t)rows);
        return fault ? TK_READ_FAULT : TK_READ_OK;
    }
    if (body->bits == NULL)
        return rows_by_chunk(body, start, n, stride, rows, dst, dst_stride, tmp, bad_chunk);
    for (int64_t row = 0; row < rows; row++) {
        int status = tk_checked_copy(body, start + row * stride, n, dst + row * dst_stride, tmp, bad_chunk);
        if (status != TK_READ_OK)
            return status;
    }
    return TK_READ_OK;
}
