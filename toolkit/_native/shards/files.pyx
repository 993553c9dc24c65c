"""Files in one call: a list of them read into one buffer, what each is, or the start of writing one to disk.

The Python lines that say the same as read_files, for files that are all there and unchanged:
    b"".join(open(path, "rb").read() for path in paths)
and as stat_files, for files that are all there and regular:
    [os.stat(os.path.join(folder, name), follow_symlinks=False) for name in names]
A file is what it was when it was listed if size, modification time and inode are: looked at once it was read, so that
a change during the read is seen too.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc

cdef extern from "errno.h" nogil:
    int errno
    int EINTR

cdef extern from "fcntl.h" nogil:
    int open(const char *path, int flags)
    int O_RDONLY
    int O_CLOEXEC
    int O_NONBLOCK
    int O_DIRECTORY

cdef extern from "unistd.h" nogil:
    ssize_t c_read "read"(int fd, void *buffer, size_t n)
    int c_close "close"(int fd)

cdef extern from *:
    """
    #include <errno.h>
    #include <fcntl.h>
    #include <stdint.h>
    #include <sys/stat.h>

    /* 0, an errno, or -1 when the open file isn't the one that was listed. */
    static int tk_same_file(int fd, int64_t size, int64_t mtime_ns, uint64_t inode)
    {
        struct stat info;
        if (fstat(fd, &info) != 0)
            return errno;
    #ifdef __APPLE__
        int64_t nanoseconds = info.st_mtimespec.tv_nsec;
    #else
        int64_t nanoseconds = info.st_mtim.tv_nsec;
    #endif
        if (!S_ISREG(info.st_mode) || info.st_size != size || (uint64_t)info.st_ino != inode ||
            (int64_t)info.st_mtime * 1000000000 + nanoseconds != mtime_ns)
            return -1;
        return 0;
    }

    /* 0, an errno, or -2 when the name is that of no regular file; a link is none. */
    static int tk_stat_file(
        int folder, const char *name, int64_t *size, int64_t *mtime_ns, int64_t *ctime_ns, uint64_t *inode)
    {
        struct stat info;
        if (fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) != 0)
            return errno;
        if (!S_ISREG(info.st_mode))
            return -2;
    #ifdef __APPLE__
        int64_t modified = info.st_mtimespec.tv_nsec, changed = info.st_ctimespec.tv_nsec;
    #else
        int64_t modified = info.st_mtim.tv_nsec, changed = info.st_ctim.tv_nsec;
    #endif
        *size = info.st_size;
        *mtime_ns = (int64_t)info.st_mtime * 1000000000 + modified;
        *ctime_ns = (int64_t)info.st_ctime * 1000000000 + changed;
        *inode = (uint64_t)info.st_ino;
        return 0;
    }

    /* Advice: nothing that is lost when it fails, or where the system has no such call. */
    static void tk_start_writeback(int fd, int64_t offset, int64_t length)
    {
    #ifdef SYNC_FILE_RANGE_WRITE
        (void)sync_file_range(fd, offset, length, SYNC_FILE_RANGE_WRITE);
    #else
        (void)fd, (void)offset, (void)length;
    #endif
    }
    """
    int tk_same_file(int fd, int64_t size, int64_t mtime_ns, uint64_t inode) nogil
    int tk_stat_file(
        int folder, const char *name, int64_t *size, int64_t *mtime_ns, int64_t *ctime_ns, uint64_t *inode) nogil
    void tk_start_writeback(int fd, int64_t offset, int64_t length) nogil

READ_GOOD = 0
READ_CHANGED = -1
STAT_OTHER = -2


cdef int _read_file(
    const char *path, int64_t size, int64_t mtime_ns, uint64_t inode, uint8_t *out
) noexcept nogil:
    """Read the file to out[0, size). Returns 0, an errno, or -1 when it isn't the file that was listed."""
    cdef int64_t done = 0
    cdef ssize_t got
    cdef int status = 0
    # Without O_NONBLOCK a pipe that took the file's place would be waited for without end.
    cdef int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    if fd < 0:
        return errno
    while done < size:
        got = c_read(fd, out + done, <size_t>(size - done))
        if got == 0:
            break
        if got > 0:
            done += got
        elif errno != EINTR:
            status = errno
            break
    if status == 0:
        status = tk_same_file(fd, size, mtime_ns, inode)
        if status == 0 and done < size:
            status = -1
    c_close(fd)
    return status


def read_files(
    list paths not None, const int64_t[::1] sizes not None, const int64_t[::1] mtimes_ns not None,
    const uint64_t[::1] inodes not None, uint8_t[::1] out not None, int32_t[::1] statuses not None,
):
    """Read each of `paths` (bytes) whose size, modification time and inode are as given; one behind the other in `out`.

    Statuses: READ_GOOD, READ_CHANGED, or an errno; a file that isn't good leaves no gap. Returns the bytes read.
    """
    cdef int64_t n = len(paths), i, at = 0, total = 0
    if sizes.shape[0] != n or mtimes_ns.shape[0] != n or inodes.shape[0] != n or statuses.shape[0] != n:
        raise ValueError("sizes, mtimes_ns, inodes and statuses must fit the paths")
    for i in range(n):
        if sizes[i] < 0 or sizes[i] > out.shape[0] - total:
            raise ValueError(f"{n} files do not fit {out.shape[0]} bytes")
        total += sizes[i]
    if n == 0:
        return 0
    cdef uint8_t nothing
    cdef uint8_t *into = &out[0] if out.shape[0] else &nothing
    cdef const char **names = <const char **>malloc(<size_t>n * sizeof(char *))
    if names == NULL:
        raise MemoryError()
    try:
        for i in range(n):
            names[i] = <bytes?>paths[i]
        with nogil:
            for i in range(n):
                statuses[i] = _read_file(names[i], sizes[i], mtimes_ns[i], inodes[i], into + at)
                if statuses[i] == 0:
                    at += sizes[i]
    finally:
        free(names)
    return at


def stat_files(
    bytes folder not None, list names not None, int64_t[::1] sizes not None, int64_t[::1] mtimes_ns not None,
    int64_t[::1] ctimes_ns not None, uint64_t[::1] inodes not None, int32_t[::1] statuses not None,
):
    """Tell what each of `names` (bytes) in a folder is: its size, times and inode.

    Statuses: READ_GOOD, STAT_OTHER for what is no regular file, or an errno; of these nothing is told.
    """
    cdef int64_t n = len(names), i
    cdef int fd, status
    cdef const char *path = folder
    if sizes.shape[0] != n or mtimes_ns.shape[0] != n or ctimes_ns.shape[0] != n or inodes.shape[0] != n:
        raise ValueError("sizes, mtimes_ns, ctimes_ns and inodes must fit the names")
    if statuses.shape[0] != n:
        raise ValueError("statuses must fit the names")
    if n == 0:
        return
    cdef const char **of = <const char **>malloc(<size_t>n * sizeof(char *))
    if of == NULL:
        raise MemoryError()
    try:
        for i in range(n):
            of[i] = <bytes?>names[i]
        with nogil:
            fd = open(path, O_RDONLY | O_CLOEXEC | O_DIRECTORY)
            status = errno if fd < 0 else 0
            for i in range(n):
                if fd < 0:
                    statuses[i] = status
                else:
                    statuses[i] = tk_stat_file(fd, of[i], &sizes[i], &mtimes_ns[i], &ctimes_ns[i], &inodes[i])
            if fd >= 0:
                c_close(fd)
    finally:
        free(of)


def start_writeback(int fd, int64_t offset, int64_t length):
    """Begin to write bytes [offset, offset + length) of an open file to disk and don't wait: a later fsync is short."""
    with nogil:
        tk_start_writeback(fd, offset, length)
