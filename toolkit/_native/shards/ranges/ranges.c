/* Ranges read by pread, each chunk's CRC32C checked while it is still in the cache. */
#include "ranges.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "open.h"

enum { CHUNK = 16384, PIECE = 8 * CHUNK, MOST_PATH = 4096 };

/* The file that is open, and whose it is. */
typedef struct {
    int fd;
    int status;
    const tk_range *of;
    int64_t size;
} tk_open_file;

static int is_path_below(const char *path, int64_t n)
{
    if (n <= 0 || n >= MOST_PATH || memchr(path, 0, (size_t)n) != NULL)
        return 0;
    for (int64_t start = 0; start <= n;) {
        const char *slash = memchr(path + start, '/', (size_t)(n - start));
        int64_t part = slash == NULL ? n - start : slash - (path + start);
        if (part == 0 || (part == 1 && path[start] == '.') ||
            (part == 2 && path[start] == '.' && path[start + 1] == '.'))
            return 0;
        start += part + 1;
    }
    return 1;
}

int tk_range_fault(const tk_range *range)
{
    if (range->offset < 0 || range->length < 0 || range->offset > INT64_MAX - range->length)
        return TK_RANGE_PLACE;
    if (range->sums == NULL ? range->size < 0 : range->sums_bytes % 4 != 0 ||
                                           range->sums_bytes / 4 != range->length / CHUNK + (range->length % CHUNK != 0))
        return TK_RANGE_PLACE;
    return is_path_below(range->path, range->path_bytes) ? 0 : TK_RANGE_PLACE;
}

static int status_of(int failed)
{
    switch (failed) {
    case ENOENT:
    case ENOTDIR:
        return TK_RANGE_GONE;
    case EXDEV:
    case ELOOP:
        return TK_RANGE_LINK;
    case ENXIO: /* a socket */
    case EISDIR:
        return TK_RANGE_KIND;
    default:
        return TK_RANGE_ERRNO + failed;
    }
}

/* Return what a look at the open file says of a range, and its size. */
static int looked(int fd, const tk_range *range, int64_t *size)
{
    struct stat info;
    if (fstat(fd, &info) != 0)
        return status_of(errno);
    if (!S_ISREG(info.st_mode))
        return TK_RANGE_KIND;
    *size = info.st_size;
    if (range->size < 0)
        return 0;
#ifdef __APPLE__
    int64_t nanoseconds = info.st_mtimespec.tv_nsec;
#else
    int64_t nanoseconds = info.st_mtim.tv_nsec;
#endif
    int same = info.st_size == range->size && (int64_t)info.st_mtime * 1000000000 + nanoseconds == range->mtime_ns;
    return same ? 0 : TK_RANGE_STAT;
}

static int is_same_file(const tk_range *a, const tk_range *b)
{
    return a->root == b->root && a->path_bytes == b->path_bytes && a->size == b->size && a->mtime_ns == b->mtime_ns &&
           memcmp(a->path, b->path, (size_t)a->path_bytes) == 0;
}

static void close_file(tk_open_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
    file->of = NULL;
}

static void open_file(tk_open_file *file, const tk_range *range, int walk)
{
    close_file(file);
    file->of = range;
    file->size = 0;
    file->fd = tk_open_beneath(range->root, range->path, walk);
    file->status = file->fd < 0 ? status_of(-file->fd) : looked(file->fd, range, &file->size);
}

static uint32_t little_endian(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static int read_range(int fd, const tk_range *range, tk_range_sum sum, int64_t *bad)
{
    for (int64_t at = 0; at < range->length;) {
        int64_t piece = range->length - at < PIECE ? range->length - at : PIECE;
        for (int64_t done = 0; done < piece;) {
            ssize_t got = pread(fd, range->out + at + done, (size_t)(piece - done), range->offset + at + done);
            if (got == 0)
                return TK_RANGE_SHORT;
            if (got > 0)
                done += got;
            else if (errno != EINTR)
                return status_of(errno);
        }
        for (int64_t in = 0; range->sums != NULL && in < piece; in += CHUNK) {
            size_t n = (size_t)(piece - in < CHUNK ? piece - in : CHUNK);
            *bad = (at + in) / CHUNK;
            if (sum(0, range->out + at + in, n) != little_endian(range->sums + 4 * *bad))
                return TK_RANGE_SUM;
        }
        at += piece;
    }
    *bad = -1;
    return 0;
}

void tk_read_ranges(const tk_range *ranges, int64_t n, tk_range_sum sum, int walk, int32_t *statuses, int64_t *bad)
{
    tk_open_file file = {-1, 0, NULL, 0};
    for (int64_t i = 0; i < n; i++) {
        const tk_range *range = &ranges[i];
        int64_t size;
        if (statuses[i] != 0)
            continue;
        if (file.of == NULL || !is_same_file(file.of, range))
            open_file(&file, range, walk);
        int status = file.status;
        if (status == 0 && (range->offset > file.size || range->length > file.size - range->offset))
            status = TK_RANGE_SHORT;
        if (sum != NULL) {
            if (status == 0)
                status = read_range(file.fd, range, sum, &bad[i]);
            if (status == 0 && range->size >= 0) /* it may have been written while it was read */
                status = looked(file.fd, range, &size);
            if (status != 0 && range->length > 0)
                memset(range->out, 0, (size_t)range->length);
            if (status != TK_RANGE_SUM)
                bad[i] = -1;
        }
        statuses[i] = status;
    }
    close_file(&file);
}
