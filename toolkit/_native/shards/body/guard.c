/* The SIGBUS guard of copies out of a memory map.
 *
 * Reading a mapped page beyond a file's end raises SIGBUS, which kills the process: a truncated file, a failing disk.
 * The handler jumps back into the copy when the faulting address lies in the range that this thread is copying right
 * now; any other SIGBUS goes to the handlers that were there before. Others may put theirs in front at any time, and
 * some never call the one behind them, so each fetch puts this one in front again (tk_guard_install). */
#include "guard.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

/* ---- What a thread is doing ---- */

#define MOST_RETURNS 16 /* a handler that returned so often from one fault won't mend it */

typedef struct {
    const siginfo_t *passed_on; /* the fault that another handler is looking at ... */
    const void *frame;          /* ... and where on the stack it was called */
    const void *returned_from;  /* the last fault that another handler came back from */
    int returns;                /* how often it did, one after the other */
    int depth;                  /* how many other handlers are looking at it */
    int unblocked;              /* this thread has been asked to take SIGBUS */
} thread_state;

__thread tk_running_copy *tk_running __attribute__((tls_model("initial-exec"), visibility("hidden")));
static __thread thread_state self __attribute__((tls_model("initial-exec"))); /* of that kind for the same reason */

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
    tk_running_copy *copy = tk_running;
    int sent = info->si_code <= 0; /* by kill() or raise(), and then si_addr says nothing */
    if (!sent && copy != NULL && address >= copy->start && address < copy->end) {
        tk_running = NULL;
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

int tk_guarded_copy(void *dst, const void *src, size_t n)
{
    TK_GUARDED(src, (const uint8_t *)src + n, memcpy(dst, src, n));
}
