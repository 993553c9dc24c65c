/* Copies out of a memory map: under a SIGBUS guard, checked chunk by chunk.
 *
 * Reading a mapped page beyond a file's end raises SIGBUS, which kills the process: a truncated file, a failing disk.
 * The handler jumps back into tk_guarded_copy when the faulting address lies in the range that this thread is copying
 * right now; any other SIGBUS goes to the handler that was there before. */
#include "chunks.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>

typedef struct {
    sigjmp_buf env;
    const uint8_t *start;
    const uint8_t *end;
    volatile sig_atomic_t active;
} guard_state;

static __thread guard_state guard;
static __thread volatile sig_atomic_t chaining; /* this thread is in the handler that was there before ours */
static struct sigaction previous;
static pthread_mutex_t install_lock = PTHREAD_MUTEX_INITIALIZER;

/* Do what the signal does without a handler. A fault happens again when the handler returns; a sent signal doesn't. */
static void default_action(int sent)
{
    struct sigaction fallback;
    memset(&fallback, 0, sizeof fallback);
    fallback.sa_handler = SIG_DFL;
    sigemptyset(&fallback.sa_mask);
    sigaction(SIGBUS, &fallback, NULL);
    if (sent)
        raise(SIGBUS);
}

static void on_sigbus(int signal_number, siginfo_t *info, void *context)
{
    const uint8_t *address = (const uint8_t *)info->si_addr;
    int sent = info->si_code <= 0; /* by kill() or raise(), and then si_addr says nothing */
    if (!sent && guard.active && address >= guard.start && address < guard.end)
        siglongjmp(guard.env, 1);
    /* A handler that was put in front of this one (faulthandler) saw the fault first and passes it on by raise(), its
       own handler taken away: return, and the copy faults again, here. */
    if (info->si_code == SI_TKILL && guard.active)
        return;
    /* faulthandler both behind and in front of this handler would pass the signal round for ever. */
    if (sent && chaining) {
        default_action(sent);
    } else if ((previous.sa_flags & SA_SIGINFO) || (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN)) {
        chaining = 1;
        if (previous.sa_flags & SA_SIGINFO)
            previous.sa_sigaction(signal_number, info, context);
        else
            previous.sa_handler(signal_number);
        chaining = 0;
    } else if (!sent || previous.sa_handler == SIG_DFL) {
        default_action(sent);
    }
}

int tk_guard_install(void)
{
    struct sigaction current;
    int status = 0;
    if (sigaction(SIGBUS, NULL, &current) != 0)
        return errno;
    if ((current.sa_flags & SA_SIGINFO) && current.sa_sigaction == on_sigbus)
        return 0;
    pthread_mutex_lock(&install_lock);
    if (sigaction(SIGBUS, NULL, &current) != 0) {
        status = errno;
    } else if (!((current.sa_flags & SA_SIGINFO) && current.sa_sigaction == on_sigbus)) {
        struct sigaction ours;
        memset(&ours, 0, sizeof ours);
        ours.sa_sigaction = on_sigbus;
        /* SA_NODEFER: siglongjmp leaves the handler without restoring the mask, which saves a system call a copy. */
        ours.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
        sigemptyset(&ours.sa_mask);
        previous = current;
        if (sigaction(SIGBUS, &ours, NULL) != 0)
            status = errno;
    }
    pthread_mutex_unlock(&install_lock);
    return status;
}

int tk_guarded_copy(void *dst, const void *src, size_t n)
{
    guard.start = (const uint8_t *)src;
    guard.end = (const uint8_t *)src + n;
    if (sigsetjmp(guard.env, 0) != 0) {
        guard.active = 0;
        return -1;
    }
    guard.active = 1;
    __asm__ volatile("" ::: "memory");
    memcpy(dst, src, n);
    __asm__ volatile("" ::: "memory");
    guard.active = 0;
    return 0;
}

int tk_guarded_ids(void *dst, int dst_width, const void *src, int width, size_t count)
{
    guard.start = (const uint8_t *)src;
    guard.end = (const uint8_t *)src + count * (size_t)width;
    if (sigsetjmp(guard.env, 0) != 0) {
        guard.active = 0;
        return -1;
    }
    guard.active = 1;
    __asm__ volatile("" ::: "memory");
    tk_cast_ids(dst, dst_width, src, width, count);
    __asm__ volatile("" ::: "memory");
    guard.active = 0;
    return 0;
}

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
        uint8_t mask = (uint8_t)(1u << (chunk & 7));
        *bad_chunk = chunk;
        if (__atomic_load_n(&body->bits[chunk >> 3], __ATOMIC_RELAXED) & mask) {
            /* Checked before: take as many checked chunks as follow each other in one copy. */
            int64_t stop = chunk_end;
            while (stop < end) {
                int64_t next = stop / TK_CHUNK_BYTES;
                if (!(__atomic_load_n(&body->bits[next >> 3], __ATOMIC_RELAXED) & (1u << (next & 7))))
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
        __atomic_fetch_or(&body->bits[chunk >> 3], mask, __ATOMIC_RELAXED);
        dst += stop - start;
        start = stop;
    }
    return TK_READ_OK;
}

static int is_checked(const tk_body *body, int64_t start, int64_t end)
{
    for (int64_t chunk = start / TK_CHUNK_BYTES; chunk <= (end - 1) / TK_CHUNK_BYTES; chunk++)
        if (!(__atomic_load_n(&body->bits[chunk >> 3], __ATOMIC_RELAXED) & (1u << (chunk & 7))))
            return 0;
    return 1;
}

/* The rows of memory whose chunks were checked, under one guard. */
static int guarded_rows(uint8_t *dst, size_t dst_stride, const uint8_t *src, size_t stride, size_t n, size_t rows)
{
    const size_t ahead = 4096 / stride + 1;
    guard.start = src;
    guard.end = src + (rows - 1) * stride + n;
    if (sigsetjmp(guard.env, 0) != 0) {
        guard.active = 0;
        return -1;
    }
    guard.active = 1;
    __asm__ volatile("" ::: "memory");
    for (size_t row = 0; row < rows; row++) {
        /* The processor's own prefetching stops at the end of a page, and behind a row: ask for what is a page ahead. */
        for (size_t i = 0; i < n; i += 64)
            __builtin_prefetch(src + (row + ahead) * stride + i);
        memcpy(dst + row * dst_stride, src + row * stride, n);
    }
    __asm__ volatile("" ::: "memory");
    guard.active = 0;
    return 0;
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
    for (int64_t row = 0; row < rows; row++) {
        int status = tk_checked_copy(body, start + row * stride, n, dst + row * dst_stride, tmp, bad_chunk);
        if (status != TK_READ_OK)
            return status;
    }
    return TK_READ_OK;
}
