/* Stands between a program and libc: every call that changes files below one folder is counted, and can be traced,
 * killed or failed. Loaded with LD_PRELOAD; does nothing until fault_arm() is called.
 *
 * A write that is hit writes half of its bytes first. fsync is recorded and not done: a kill doesn't lose what the
 * page cache holds, and what a power cut would lose is worked out from the trace. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char root[PATH_MAX];
static size_t root_length;
static int trace = -1;
static long number, target = -1;
static int fault;

/* target: which call is hit, from 1 on; 0 for none. fault: an errno to fail with, or minus a signal to raise. */
void fault_arm(const char *folder, const char *trace_path, long which, int what) {
    if (*trace_path) trace = REAL(open)(trace_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    snprintf(root, sizeof root, "%s", folder);
    number = 0;
    target = which;
    fault = what;
    root_length = strlen(folder);
}

long fault_calls(void) { return number; }

static int below(const char *path) {
    return root_length && !strncmp(path, root, root_length) && (path[root_length] == '/' || !path[root_length]);
}

static int of_descriptor(int fd, char *out) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, out, PATH_MAX - 1);
    if (length < 0) return 0;
    out[length] = 0;
    return below(out);
}

static int of_path(int folder, const char *path, char *out) {
    if (!path) return 0;
    if (*path == '/') snprintf(out, PATH_MAX, "%s", path);
    else {
        if (folder != AT_FDCWD) of_descriptor(folder, out);
        else if (!getcwd(out, PATH_MAX)) return 0;
        size_t length = strlen(out);
        snprintf(out + length, PATH_MAX - length, "/%s", path);
    }
    return below(out);
}

/* Count a call; return an errno when it is to fail. Called with the lock held. */
static int hit(void) {
    if (++number != target) return 0;
    if (fault > 0) return fault;
    kill(getpid(), -fault);
    return 0;
}

struct record { int32_t path, path2; int64_t offset, length; char name[16]; };

static void note(const char *name, const char *path, const char *path2, int64_t offset, const void *data, size_t length) {
    if (trace < 0) return;
    struct record one = {(int32_t)strlen(path), (int32_t)strlen(path2), offset, (int64_t)length, {0}};
    strncpy(one.name, name, sizeof one.name - 1);
    struct iovec parts[] = {{&one, sizeof one}, {(void *)path, strlen(path)}, {(void *)path2, strlen(path2)},
                            {(void *)data, length}};
    if (syscall(SYS_writev, trace, parts, data ? 4 : 3) < 0) _exit(99);
}

#define FAULTY(seen, call, on_half, on_done)                                                                           \
    if (!(seen)) return call;                                                                                          \
    pthread_mutex_lock(&lock);                                                                                         \
    int why = 0;                                                                                                       \
    if (number + 1 == target && (fault > 0 || fault == -SIGKILL)) { on_half; }                                         \
    why = hit();                                                                                                       \
    __typeof__(call) result = -1;                                                                                      \
    int kept = why;                                                                                                    \
    if (!why) {                                                                                                        \
        result = call;                                                                                                 \
        kept = errno;                                                                                                  \
        if (result >= 0) { on_done; }                                                                                  \
    }                                                                                                                  \
    pthread_mutex_unlock(&lock);                                                                                       \
    errno = kept;                                                                                                      \
    return result

/* --- data ---------------------------------------------------------------------------------------------------- */

ssize_t write(int fd, const void *data, size_t size) {
    char path[PATH_MAX];
    FAULTY(root_length && of_descriptor(fd, path), REAL(write)(fd, data, size), REAL(write)(fd, data, size / 2),
           note("write", path, "", lseek(fd, 0, SEEK_CUR) - result, data, result));
}

static ssize_t at_offset(int fd, const void *data, size_t size, off_t offset) {
    char path[PATH_MAX];
    FAULTY(root_length && of_descriptor(fd, path), syscall(SYS_pwrite64, fd, data, size, offset),
           syscall(SYS_pwrite64, fd, data, size / 2, offset), note("write", path, "", offset, data, result));
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) { return at_offset(fd, data, size, offset); }
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset) { return at_offset(fd, data, size, offset); }

/* Piece by piece: the same bytes, and a fault between any two. */
ssize_t writev(int fd, const struct iovec *parts, int count) {
    char path[PATH_MAX];
    if (!root_length || !of_descriptor(fd, path)) return REAL(writev)(fd, parts, count);
    ssize_t total = 0;
    for (int i = 0; i < count; i++) {
        ssize_t wrote = write(fd, parts[i].iov_base, parts[i].iov_len);
        if (wrote < 0) return total ? total : -1;
        total += wrote;
        if ((size_t)wrote < parts[i].iov_len) break;
    }
    return total;
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset) {
    char path[PATH_MAX];
    if (!root_length || !of_descriptor(fd, path)) return REAL(pwritev)(fd, parts, count, offset);
    ssize_t total = 0;
    for (int i = 0; i < count; i++) {
        ssize_t wrote = at_offset(fd, parts[i].iov_base, parts[i].iov_len, offset + total);
        if (wrote < 0) return total ? total : -1;
        total += wrote;
        if ((size_t)wrote < parts[i].iov_len) break;
    }
    return total;
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t offset) {
    return pwritev(fd, parts, count, offset);
}

static int cut(int fd, off_t size) {
    char path[PATH_MAX];
    FAULTY(root_length && of_descriptor(fd, path), (int)syscall(SYS_ftruncate, fd, size), (void)0,
           note("truncate", path, "", size, NULL, 0));
}

int ftruncate(int fd, off_t size) { return cut(fd, size); }
int ftruncate64(int fd, off64_t size) { return cut(fd, size); }

static int cut_named(const char *name, off_t size) {
    char path[PATH_MAX];
    FAULTY(root_length && of_path(AT_FDCWD, name, path), (int)syscall(SYS_truncate, name, size), (void)0,
           note("truncate", path, "", size, NULL, 0));
}

int truncate(const char *name, off_t size) { return cut_named(name, size); }
int truncate64(const char *name, off64_t size) { return cut_named(name, size); }

/* What this shim can't replay: refused, so that a program that begins to use it has to be thought about here. */
static ssize_t refuse(const char *name) {
    dprintf(2, "shim.c: %s below the folder is not traced\n", name);
    _exit(98);
}

ssize_t copy_file_range(int in, off64_t *from, int out, off64_t *to, size_t size, unsigned flags) {
    char path[PATH_MAX];
    return root_length && of_descriptor(out, path) ? refuse("copy_file_range")
                                                   : REAL(copy_file_range)(in, from, out, to, size, flags);
}

ssize_t splice(int in, off64_t *from, int out, off64_t *to, size_t size, unsigned flags) {
    char path[PATH_MAX];
    return root_length && of_descriptor(out, path) ? refuse("splice") : REAL(splice)(in, from, out, to, size, flags);
}

ssize_t sendfile(int out, int in, off_t *from, size_t size) {
    char path[PATH_MAX];
    return root_length && of_descriptor(out, path) ? refuse("sendfile")
                                                   : syscall(SYS_sendfile, out, in, from, size);
}

ssize_t sendfile64(int out, int in, off64_t *from, size_t size) { return sendfile(out, in, from, size); }

/* --- durability ---------------------------------------------------------------------------------------------- */

static int synced(int fd) {
    char path[PATH_MAX];
    FAULTY(root_length && of_descriptor(fd, path), 0, (void)0, note("fsync", path, "", 0, NULL, 0));
}

int fsync(int fd) {
    char path[PATH_MAX];
    return root_length && of_descriptor(fd, path) ? synced(fd) : REAL(fsync)(fd);
}

int fdatasync(int fd) {
    char path[PATH_MAX];
    return root_length && of_descriptor(fd, path) ? synced(fd) : REAL(fdatasync)(fd);
}

/* --- names ---------------------------------------------------------------------------------------------------- */

static int opened(int folder, const char *name, int flags, mode_t mode) {
    char path[PATH_MAX];
    int changes = flags & (O_CREAT | O_TRUNC) && (flags & O_TMPFILE) != O_TMPFILE;
    FAULTY(root_length && changes && of_path(folder, name, path),
           (int)syscall(SYS_openat, folder, name, flags | O_LARGEFILE, mode), (void)0,
           note("open", path, "", (flags & O_TRUNC) != 0, NULL, 0));
}

#define MODE(flags, mode)                                                                                              \
    mode_t mode = 0;                                                                                                   \
    if ((flags) & (O_CREAT | O_TMPFILE)) {                                                                             \
        va_list rest;                                                                                                  \
        va_start(rest, flags);                                                                                         \
        mode = va_arg(rest, mode_t);                                                                                   \
        va_end(rest);                                                                                                  \
    }

int open(const char *name, int flags, ...) { MODE(flags, mode) return opened(AT_FDCWD, name, flags, mode); }
int open64(const char *name, int flags, ...) { MODE(flags, mode) return opened(AT_FDCWD, name, flags, mode); }
int openat(int folder, const char *name, int flags, ...) { MODE(flags, mode) return opened(folder, name, flags, mode); }
int openat64(int folder, const char *name, int flags, ...) { MODE(flags, mode) return opened(folder, name, flags, mode); }
int creat(const char *name, mode_t mode) { return opened(AT_FDCWD, name, O_WRONLY | O_CREAT | O_TRUNC, mode); }
int creat64(const char *name, mode_t mode) { return creat(name, mode); }

static int moved(int from_folder, const char *from, int to_folder, const char *to, unsigned flags) {
    char path[PATH_MAX], path2[PATH_MAX];
    int seen = root_length && of_path(to_folder, to, path2) | of_path(from_folder, from, path);
    FAULTY(seen, (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, flags), (void)0,
           note("rename", path, path2, flags, NULL, 0));
}

int rename(const char *from, const char *to) { return moved(AT_FDCWD, from, AT_FDCWD, to, 0); }
int renameat(int a, const char *from, int b, const char *to) { return moved(a, from, b, to, 0); }
int renameat2(int a, const char *from, int b, const char *to, unsigned flags) { return moved(a, from, b, to, flags); }

int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags) {
    char path[PATH_MAX], path2[PATH_MAX];
    int seen = root_length && of_path(to_folder, to, path2) | of_path(from_folder, from, path);
    FAULTY(seen, (int)syscall(SYS_linkat, from_folder, from, to_folder, to, flags), (void)0,
           note("link", path, path2, 0, NULL, 0));
}

int link(const char *from, const char *to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }

int unlinkat(int folder, const char *name, int flags) {
    char path[PATH_MAX];
    FAULTY(root_length && of_path(folder, name, path), (int)syscall(SYS_unlinkat, folder, name, flags), (void)0,
           note(flags & AT_REMOVEDIR ? "rmdir" : "unlink", path, "", 0, NULL, 0));
}

int unlink(const char *name) { return unlinkat(AT_FDCWD, name, 0); }
int rmdir(const char *name) { return unlinkat(AT_FDCWD, name, AT_REMOVEDIR); }

int mkdirat(int folder, const char *name, mode_t mode) {
    char path[PATH_MAX];
    FAULTY(root_length && of_path(folder, name, path), (int)syscall(SYS_mkdirat, folder, name, mode), (void)0,
           note("mkdir", path, "", 0, NULL, 0));
}

int mkdir(const char *name, mode_t mode) { return mkdirat(AT_FDCWD, name, mode); }
