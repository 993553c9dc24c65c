/* Copies out of a memory map: under a SIGBUS guard, checked chunk by chunk.
 *
 * Reading a mapped page beyond a file's end raises SIGBUS, which kills the process: a truncated file, a failing disk.
 * The handler jumps back into the copy when the faulting address lies in the range that this thread is copying right
 * now; any other SIGBUS goes to the handlers that were there before. Others may put theirs in front at any time, and
 * some never call the one behind them, so each fetch puts this one in front again (tk_guard_install). */
#include "chunks.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>

/* ---- What a thread is doing ---- */

#define MOST_RETURNS 16 /* a handler that returned so often from one fault won't mend it */

/* A copy that is running; it lies on the stack of its thread. */
typedef struct {
    sigjmp_buf env;
    const uint8_t *start;
    const uint8_t *end;
} running_copy;

typedef struct {
    running_copy *copy;
    const siginfo_t *passed_on; /* the fault that another handler is looking at ... */
    const void *frame;          /* ... and where on the stack it was called */
    const void *returned_from;  /* the last fault that another handler came back from */
    int returns;                /* how often it did, one after the other */
    int depth;                  /* how many other handlers are looking at it */
    int unblocked;              /* this thread has been asked to take SIGBUS */
} thread_state;

/* A thread's first use of ordinary thread-local memory allocates it, which a handler must not do. Of this kind there is
 * little for all libraries of a process together: keep it small. */
static __thread thread_state self __attribute__((tls_model("initial-exec")));

/* ---- The other handlers ---- */

/* Those that stood in this one's place, the latest first: four bits each, from the lowest on, of their numbers in `known`;
 * 0 is the end. A handler may read this at any time, so it is one word, and what it leads to is not changed. */
static uint32_t others;
static struct sigaction known[16];
static pthread_mutex_t install_lock = PTHREAD_MUTEX_INITIALIZER;

static int is_same(const struct sigaction *a, const struct sigaction *b)
{
    return a->sa_handler == b->sa_handler && (a->sa_flags & SA_SIGINFO) == (b->sa_flags & SA_SIGINFO);
}

static int is_function(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) || (action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN);
}

/* Put a handler before the others; one that is among them moves. None is behind the default, which calls none. */
static void remember(const struct sigaction *action)
{
    uint32_t number = 0, used = 0, order = 0, was = __atomic_load_n(&others, __ATOMIC_ACQUIRE);
    int place = 4;
    for (uint32_t left = was; left != 0; left >>= 4) {
        if (is_same(&known[left & 15], action))
            number = left & 15;
        else if (is_function(action) && place < 32) {
            order |= (left & 15) << place;
            place += 4;
        }
        used |= 1u << (left & 15);
    }
    if (number == 0) { /* eight at most are in use */
        for (number = 1; used & (1u << number);)
            number++;
        known[number] = *action;
    }
    __atomic_store_n(&others, order | number, __ATOMIC_RELEASE);
}

/* ---- The handler ---- */

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

/* Whether this is the signal that another handler was given by this one, and gives back: by a call, or (faulthandler) by
 * raise(). One that jumped out of its call instead leaves what looks like it, but for the place on the stack. */
static int comes_back(const siginfo_t *info, int sent, const void *frame)
{
    return self.depth > 0 && (const char *)frame < (const char *)self.frame && (sent || info == self.passed_on);
}

static void pass_on(int signal_number, siginfo_t *info, void *context, int sent)
{
    const void *frame = __builtin_frame_address(0);
    const thread_state before = self;
    if (!comes_back(info, sent, frame)) {
        self.passed_on = info;
        self.frame = frame;
        self.depth = 0;
        if (sent || info->si_addr != self.returned_from)
            self.returns = 0;
    }
    const int place = self.depth + self.returns / MOST_RETURNS;
    const uint32_t number = place < 8 ? __atomic_load_n(&others, __ATOMIC_ACQUIRE) >> (4 * place) & 15 : 0;
    const struct sigaction *action = &known[number];
    if (number == 0 || !is_function(action)) {
        if (!sent || number == 0 || action->sa_handler == SIG_DFL)
            default_action(sent);
        return;
    }
    self.depth++;
    if (action->sa_flags & SA_SIGINFO)
        action->sa_sigaction(signal_number, info, context);
    else
        action->sa_handler(signal_number);
    self.passed_on = before.passed_on;
    self.frame = before.frame;
    self.depth = before.depth;
    if (!sent) {
        self.returned_from = info->si_addr;
        self.returns++;
    }
}

static void on_sigbus(int signal_number, siginfo_t *info, void *context)
{
    const uint8_t *address = (const uint8_t *)info->si_addr;
    running_copy *copy = self.copy;
    int sent = info->si_code <= 0; /* by kill() or raise(), and then si_addr says nothing */
    if (!sent && copy != NULL && address >= copy->start && address < copy->end) {
        self.copy = NULL;
        siglongjmp(copy->env, 1);
    }
    /* A handler that was put in front of this one (faulthandler) saw the fault first and passes it on by raise(), its
       own handler taken away: return, and the copy faults again, here. */
    if (info->si_code == SI_TKILL && copy != NULL)
        return;
    pass_on(signal_number, info, context, sent);
}

static int is_ours(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) && action->sa_sigaction == on_sigbus;
}

static int put_in_front(void)
{
    struct sigaction ours, current;
    memset(&ours, 0, sizeof ours);
    ours.sa_sigaction = on_sigbus;
    /* SA_NODEFER: siglongjmp leaves the handler without restoring the mask, which saves a system call a copy. */
    ours.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    sigemptyset(&ours.sa_mask);
    if (sigaction(SIGBUS, NULL, &current) != 0)
        return errno;
    if (is_ours(&current))
        return 0;
    remember(&current); /* before anything can be passed on to it */
    if (sigaction(SIGBUS, &ours, &current) != 0)
        return errno;
    if (!is_ours(&current))
        remember(&current); /* another one, if somebody was quicker */
    return 0;
}

int tk_guard_install(void)
{
    struct sigaction current;
    if (!self.unblocked) { /* a thread that blocks SIGBUS dies of a fault whatever the handler */
        sigset_t only;
        sigemptyset(&only);
        sigaddset(&only, SIGBUS);
        pthread_sigmask(SIG_UNBLOCK, &only, NULL);
        self.unblocked = 1;
    }
    if (sigaction(SIGBUS, NULL, &current) != 0)
        return errno;
    if (is_ours(&current))
        return 0;
    pthread_mutex_lock(&install_lock);
    int status = put_in_front();
    pthread_mutex_unlock(&install_lock);
    return status;
}

/* ---- Copies ---- */

/* Run `work`, which reads [from, to); -1 when a page of it isn't there. */
#define GUARDED(from, to, work)                                                                                        \
    do {                                                                                                               \
        running_copy copy;                                                                                             \
        copy.start = (const uint8_t *)(from);                                                                          \
        copy.end = (const uint8_t *)(to);                                                                              \
        if (sigsetjmp(copy.env, 0) != 0)                                                                               \
            return -1;                                                                                                 \
        self.copy = &copy;                                                                                             \
        __asm__ volatile("" ::: "memory");                                                                             \
        work;                                                                                                          \
        __asm__ volatile("" ::: "memory");                                                                             \
        self.copy = NULL;                                                                                              \
        return 0;                                                                                                      \
    } while (0)

int tk_guarded_copy(void *dst, const void *src, size_t n)
{
    GUARDED(src, (const uint8_t *)src + n, memcpy(dst, src, n));
}

int tk_guarded_ids(void *dst, int dst_width, const void *src, int width, size_t count)
{
    GUARDED(src, (const uint8_t *)src + count * (size_t)width, tk_cast_ids(dst, dst_width, src, width, count));
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
    GUARDED(src, src + (rows - 1) * stride + n, copy_rows(dst, dst_stride, src, stride, n, rows));
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
        return tk_rows_by_chunk(body, start, n, stride, rows, dst, dst_stride, tmp, bad_chunk);
    for (int64_t row = 0; row < rows; row++) {
        int status = tk_checked_copy(body, start + row * stride, n, dst + row * dst_stride, tmp, bad_chunk);
        if (status != TK_READ_OK)
            return status;
    }
    return TK_READ_OK;
}
