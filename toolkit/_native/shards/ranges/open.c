/* Open below a root: by openat2, which the kernel keeps inside; without it part by part, following no link. */
#include "open.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/syscall.h>
#endif

#ifndef O_PATH
#define O_PATH O_RDONLY
#endif

enum { PART_BYTES = 256, TRIES = 8 };

/* A pipe that took a file's place would be waited for without end, and a terminal would become the process's own. */
static const int FLAGS = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

static int is_link(int folder, const char *name)
{
    struct stat info;
    return fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(info.st_mode);
}

static int walk_down(int root, const char *path)
{
    int folder = root, failed = 0, fd = -1;
    char part[PART_BYTES];
    while (fd < 0 && failed == 0) {
        const char *slash = strchr(path, '/');
        size_t n = slash == NULL ? strlen(path) : (size_t)(slash - path);
        if (n >= sizeof part) {
            failed = ENAMETOOLONG;
            break;
        }
        memcpy(part, path, n);
        part[n] = 0;
        if (n == 0 || strcmp(part, ".") == 0 || strcmp(part, "..") == 0) {
            failed = EXDEV;
            break;
        }
        int next = slash == NULL ? openat(folder, part, FLAGS | O_NOFOLLOW)
                                 : openat(folder, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (next < 0) {
            failed = errno;
            if (failed == EINTR) {
                failed = 0;
                continue;
            }
            if (failed == ELOOP || (failed == ENOTDIR && is_link(folder, part)))
                failed = EXDEV;
        }
        if (folder != root)
            close(folder);
        folder = root;
        if (next < 0)
            break;
        if (slash == NULL) {
            fd = next;
        } else {
            folder = next;
            path = slash + 1;
        }
    }
    if (folder != root)
        close(folder);
    return failed ? -failed : fd;
}

#if defined(__linux__) && defined(SYS_openat2)

/* As in linux/openat2.h, which older headers lack. */
struct tk_open_how {
    uint64_t flags;
    uint64_t mode;
    uint64_t resolve;
};

enum { TK_NO_MAGICLINKS = 0x02, TK_BENEATH = 0x08 };

int tk_open_beneath(int root, const char *path, int walk)
{
    static int missing; /* of the running kernel: asked once, whichever thread is first */
    if (walk || __atomic_load_n(&missing, __ATOMIC_RELAXED))
        return walk_down(root, path);
    struct tk_open_how how = {(uint64_t)FLAGS, 0, TK_BENEATH | TK_NO_MAGICLINKS};
    int failed = 0;
    for (int i = 0; i < TRIES; i++) {
        long fd = syscall(SYS_openat2, root, path, &how, sizeof how);
        if (fd >= 0)
            return (int)fd;
        failed = errno;
        if (failed != EAGAIN && failed != EINTR) /* EAGAIN: somebody renamed a folder meanwhile */
            break;
    }
    if (failed == ENOSYS)
        __atomic_store_n(&missing, 1, __ATOMIC_RELAXED);
    if (failed == ENOSYS || failed == EPERM || failed == EAGAIN) /* a sandbox says EPERM */
        return walk_down(root, path);
    return -(failed == ELOOP ? EXDEV : failed);
}

#else

int tk_open_beneath(int root, const char *path, int walk)
{
    (void)walk;
    return walk_down(root, path);
}

#endif
