/* Ranges of files below a root folder, read and checked in one pass; no link leads out of the root. */
#ifndef TOOLKIT_RANGES_H
#define TOOLKIT_RANGES_H

#include <stddef.h>
#include <stdint.h>

/* Status of one range. They stand beside the TK_READ_ statuses of shards/body/body.h, and are none of those. */
enum {
    TK_RANGE_GONE = 16,   /* nothing has the path */
    TK_RANGE_KIND = 17,   /* what has it is no regular file */
    TK_RANGE_LINK = 18,   /* a link on its way leads out of the root, or isn't followed here */
    TK_RANGE_SHORT = 19,  /* the file ends before the range does */
    TK_RANGE_SUM = 20,    /* a chunk of the range has another CRC32C */
    TK_RANGE_STAT = 21,   /* the file has another size or modification time */
    TK_RANGE_PLACE = 22,  /* the range contradicts itself: no path below a root, a number below 0, sums
                             that don't fit it, or nothing to check it by */
    TK_RANGE_ROOT = 23,   /* no folder is known for its root; for callers */
    TK_RANGE_ERRNO = 256, /* and above: the system's errno, added to it */
};

/* CRC32C of n bytes, continuing from crc. */
typedef uint32_t (*tk_range_sum)(uint32_t crc, const uint8_t *data, size_t n);

/* A range and where it goes. sums NULL: none are compared. size below 0: neither it nor mtime_ns is compared. One of the
   two there must be. */
typedef struct {
    const char *path; /* ends with a NUL */
    int64_t path_bytes;
    int32_t root;     /* descriptor of a folder */
    int64_t offset;
    int64_t length;
    const uint8_t *sums; /* a little-endian uint32 for each 16 KiB */
    int64_t sums_bytes;
    int64_t size;
    int64_t mtime_ns;
    uint8_t *out;
} tk_range;

/* Say what is wrong with a range before anything is opened: 0 or TK_RANGE_PLACE. */
int tk_range_fault(const tk_range *range);

/* Read each range whose status is 0 to its `out`, and set its status; one that fails is left zeroed. Ranges of one file
   that stand beside each other share one open. `sum` NULL: look at the files alone, and write nothing. `walk`: open
   them as where the system has no openat2. *bad is set with TK_RANGE_SUM, to the chunk of the range. */
void tk_read_ranges(const tk_range *ranges, int64_t n, tk_range_sum sum, int walk, int32_t *statuses, int64_t *bad);

#endif
