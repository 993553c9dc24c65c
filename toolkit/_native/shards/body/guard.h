/* Reads of a memory map that survive a truncated file: a page that isn't there becomes a status. */
#ifndef TOOLKIT_GUARD_H
#define TOOLKIT_GUARD_H

#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>

/* A copy that is running; it lies on the stack of its thread. */
typedef struct {
    sigjmp_buf env;
    const uint8_t *start;
    const uint8_t *end;
} tk_running_copy;

/* This thread's, or NULL. A thread's first use of ordinary thread-local memory allocates it, which a handler must not
   do. Of this kind there is little for all libraries of a process together: keep it small. */
extern __thread tk_running_copy *tk_running __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Run `work`, which reads [from, to), and return 0 from the function that this is the end of; -1 when a page of it isn't
   there. */
#define TK_GUARDED(from, to, work)                                                                                     \
    do {                                                                                                               \
        tk_running_copy copy;                                                                                          \
        copy.start = (const uint8_t *)(from);                                                                          \
        copy.end = (const uint8_t *)(to);                                                                              \
        if (sigsetjmp(copy.env, 0) != 0)                                                                               \
            return -1;                                                                                                 \
        tk_running = &copy;                                                                                            \
        __asm__ volatile("" ::: "memory");                                                                             \
        work;                                                                                                          \
        __asm__ volatile("" ::: "memory");                                                                             \
        tk_running = NULL;                                                                                             \
        return 0;                                                                                                      \
    } while (0)

/* memcpy that returns -1 instead of dying when src lies in a map whose file was truncated. */
int tk_guarded_copy(void *dst, const void *src, size_t n);

/* Put the SIGBUS handler in place (again, if somebody replaced it since); 0 or errno. */
int tk_guard_install(void);

#endif
