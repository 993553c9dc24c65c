/* Kernels and guards used by eight threads at once, for ThreadSanitizer: what they share must be shared properly.
 *
 * One body that is checked while others read it, a file that is cut short and made whole again under the copies, handlers
 * that others put in front of the guard; one program that all run, each with its own scratch, on one JPEG. Prints how often
 * each was done. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "shards/body/body.h"
#include "shards/body/crc32c.h"
#include "shards/body/guard.h"
#include "image/encode/encode.h"
#include "../fuzz/ops.h"
#include "image/program/choice.h"
#include "image/program/run.h"

#define THREADS 8
#define LENGTH (5 * TK_CHUNK_BYTES + 100)
#define CHUNKS 6

static uint8_t good[LENGTH];
static uint32_t sums[CHUNKS];
static uint8_t bits[CHUNKS / 8 + 1], cut_bits[CHUNKS / 8 + 1];
static tk_body body, cut_body;
static int cut_file;
static enc_buffer jpeg;
static uint8_t expected[24 * 20 * 3];
static volatile int stop;
static long reads, faults, pictures, handlers;

static void expect(int is_true, const char *what)
{
    if (!is_true) {
        fprintf(stderr, "threads: %s\n", what);
        abort();
    }
}

static int map(const char *name, uint8_t **address)
{
    int file = memfd_create(name, 0);
    expect(file >= 0 && write(file, good, LENGTH) == LENGTH, "no file");
    *address = mmap(NULL, LENGTH, PROT_READ, MAP_SHARED, file, 0);
    expect(*address != MAP_FAILED, "no map");
    return file;
}

static uint32_t below(uint64_t *state, uint32_t count)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % count;
}

/* ThreadSanitizer calls handlers with all signals blocked, and the guard's jump leaves them so. */
static void unblock(void)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_UNBLOCK, &all, NULL);
}

static void read_some(uint64_t *state)
{
    uint8_t out[3 * TK_CHUNK_BYTES], tmp[TK_CHUNK_BYTES];
    int64_t bad, n = 1 + below(state, 3 * TK_CHUNK_BYTES - 1), start = below(state, (uint32_t)(LENGTH - n));
    expect(tk_guard_install() == 0, "no guard");
    expect(tk_checked_copy(&body, start, n, out, tmp, &bad) == TK_READ_OK, "a good read fails");
    expect(memcmp(out, good + start, (size_t)n) == 0, "other bytes");
    int64_t stride = 40 + below(state, 100), rows = 1 + n / 200;
    start = below(state, (uint32_t)(LENGTH - stride * rows));
    expect(tk_checked_rows(&body, start, 40, stride, rows, out, 40, tmp, &bad) == TK_READ_OK, "good rows fail");
    unblock();
    int status = tk_checked_copy(&cut_body, start, 40, out, tmp, &bad);
    expect(status == TK_READ_OK || status == TK_READ_FAULT || status == TK_READ_CRC, "another status of a cut file");
    uint64_t ids[TK_CHUNK_BYTES / 8];
    start = below(state, LENGTH - 30 * 4);
    expect(tk_checked_ids(&body, start & ~3, 30, 4, out, 8, (uint8_t *)ids, &bad) == TK_READ_OK, "good ids fail");
    __atomic_fetch_add(&reads, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&faults, status == TK_READ_FAULT, __ATOMIC_RELAXED);
}

static img_op op;
static img_program program = {
    .steps = {&op, 1}, .max_pixels = 1 << 20, .max_bytes = 1 << 20, .layout = {.channels = 3, .item = 1}};

static void decode(img_scratch *scratch, uint8_t *out)
{
    char message[IMG_MESSAGE];
    int status = img_run_jpeg(&program, scratch, jpeg.data, (int64_t)jpeg.used, 3, out, 20, 24, message);
    expect(status == IMG_OK, "a picture is not decoded");
}

static void *work(void *given)
{
    uint64_t state = (uint64_t)(uintptr_t)given;
    img_scratch *scratch = img_scratch_new();
    uint8_t out[sizeof expected];
    enc_buffer encoded = {0};
    char message[ENC_MESSAGE];
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        for (int i = 0; i < 20; i++)
            read_some(&state);
        decode(scratch, out);
        expect(memcmp(out, expected, sizeof expected) == 0, "other pixels");
        expect(enc_jpeg(&encoded, out, 20, 24, 80, message) == ENC_OK, "a picture is not encoded");
        __atomic_fetch_add(&pictures, 1, __ATOMIC_RELAXED);
    }
    enc_free(&encoded);
    img_scratch_free(scratch);
    return NULL;
}

static void on_other(int number) { (void)number; }

/* Put handlers in front of the guard and the guard in front of them, which is what several fetches at once do. A copy that
 * faults just when another handler stands in front can't be helped, so nothing is copied meanwhile. */
static void *take_turns(void *given)
{
    uint64_t state = (uint64_t)(uintptr_t)given;
    for (int i = 0; i < 3000; i++) {
        if (below(&state, 3) == 0)
            signal(SIGBUS, below(&state, 2) ? SIG_IGN : on_other);
        expect(tk_guard_install() == 0, "no guard");
        __atomic_fetch_add(&handlers, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

/* Cut the file short and make it whole again. */
static void *disturb(void *given)
{
    uint64_t state = (uint64_t)(uintptr_t)given;
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        expect(ftruncate(cut_file, below(&state, 2) ? 0 : 4096 * below(&state, 20)) == 0, "no truncate");
        usleep(200);
        expect(pwrite(cut_file, good, LENGTH, 0) == LENGTH, "no write");
        usleep(200);
    }
    return NULL;
}

int main(int count, char **arguments)
{
    const int seconds = count > 1 ? atoi(arguments[1]) : 5;
    pthread_t threads[THREADS + 1];
    char message[IMG_MESSAGE];
    uint8_t *address, *cut_address, picture[64 * 48 * 3];
    for (int i = 0; i < LENGTH; i++)
        good[i] = (uint8_t)((uint32_t)i * 2654435761u >> 20);
    map("body", &address);
    cut_file = map("cut", &cut_address);
    for (int i = 0; i < CHUNKS; i++)
        sums[i] = tk_crc32c_table(0, good + i * TK_CHUNK_BYTES, i + 1 < CHUNKS ? TK_CHUNK_BYTES : 100);
    body = (tk_body){address, LENGTH, sums, bits};
    cut_body = (tk_body){cut_address, LENGTH, sums, cut_bits};
    for (size_t i = 0; i < sizeof picture; i++)
        picture[i] = (uint8_t)(i * i / 3000);
    expect(enc_jpeg(&jpeg, picture, 48, 64, 90, message) == ENC_OK, "no picture");
    expect(img_choose_kernels("") == 0, "no loops");
    int64_t params[OP_PARAMS];
    make_op(&op, "resize", params, (int64_t[]){20, 24, 1}); /* height, width, bilinear */
    img_scratch *scratch = img_scratch_new();
    decode(scratch, expected);
    img_scratch_free(scratch);
    pthread_create(&threads[THREADS], NULL, disturb, (void *)7);
    for (intptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)(i + 1));
    sleep((unsigned)seconds);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i <= THREADS; i++)
        pthread_join(threads[i], NULL);
    for (intptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, take_turns, (void *)(i + 1));
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("threads: %ld reads, %ld of a file that was cut, %ld pictures, %ld turns of handlers\n", reads, faults, pictures,
           handlers);
    expect(reads > 0 && faults > 0 && pictures > 0, "something was never done");
    enc_free(&jpeg);
    return 0;
}
