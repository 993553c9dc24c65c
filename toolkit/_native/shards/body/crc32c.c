/* CRC32C (polynomial 0x1EDC6F41, reflected 0x82F63B78; RFC 3720, appendix B.4).
 *
 * x86-64 with SSE4.2 and arm64 with the CRC extension use the instruction on three interleaved streams, because one
 * stream waits three cycles for each result; the partial sums are joined by multiplying with x^(8n) modulo the
 * polynomial through small tables (Mark Adler's method, crc32c.c, zlib licence, described at
 * stackoverflow.com/a/17646775; written anew here). Others use the slicing-by-8 table method. */
#include "crc32c.h"

#include <pthread.h>
#include <string.h>

#define POLY 0x82F63B78u
#define STREAM 2048 /* bytes of each of the three streams: a 16 KiB chunk is two rounds and a tail */

static uint32_t slice[8][256];
static uint32_t shift_one[4][256]; /* crc of (crc, then STREAM zero bytes), by byte of crc */
static uint32_t shift_two[4][256]; /* the same for 2 * STREAM */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int use_instruction = 0;

static uint32_t zeros(uint32_t crc, size_t n)
{
    while (n--)
        crc = slice[0][crc & 255] ^ (crc >> 8);
    return crc;
}

static void fill_shift(uint32_t table[4][256], size_t n)
{
    uint32_t bit[32];
    for (int i = 0; i < 32; i++)
        bit[i] = zeros(1u << i, n);
    for (int k = 0; k < 4; k++)
        for (int v = 0; v < 256; v++) {
            uint32_t sum = 0;
            for (int i = 0; i < 8; i++)
                if (v >> i & 1)
                    sum ^= bit[8 * k + i];
            table[k][v] = sum;
        }
}

static inline uint32_t shifted(uint32_t table[4][256], uint32_t crc)
{
    return table[0][crc & 255] ^ table[1][crc >> 8 & 255] ^ table[2][crc >> 16 & 255] ^ table[3][crc >> 24];
}

#if defined(__x86_64__)
#define HAVE_INSTRUCTION 1
#define INSTRUCTION_NAME "sse4.2"
#define TARGET __attribute__((target("sse4.2")))
#define CRC_U64(crc, v) ((uint32_t)__builtin_ia32_crc32di((crc), (v)))
#define CRC_U8(crc, v) ((uint32_t)__builtin_ia32_crc32qi((crc), (v)))
static int instruction_present(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("sse4.2");
}
#elif defined(__aarch64__) && defined(__linux__)
#include <arm_acle.h>
#include <sys/auxv.h>
#define HAVE_INSTRUCTION 1
#define INSTRUCTION_NAME "armv8-crc"
#define TARGET __attribute__((target("+crc")))
#define CRC_U64(crc, v) __crc32cd((crc), (v))
#define CRC_U8(crc, v) __crc32cb((crc), (v))
static int instruction_present(void)
{
    return (getauxval(AT_HWCAP) >> 7) & 1; /* HWCAP_CRC32 */
}
#else
#define HAVE_INSTRUCTION 0
#define INSTRUCTION_NAME "none"
#endif

static void initialise(void)
{
    for (uint32_t v = 0; v < 256; v++) {
        uint32_t crc = v;
        for (int i = 0; i < 8; i++)
            crc = crc & 1 ? crc >> 1 ^ POLY : crc >> 1;
        slice[0][v] = crc;
    }
    for (int k = 1; k < 8; k++)
        for (int v = 0; v < 256; v++)
            slice[k][v] = slice[0][slice[k - 1][v] & 255] ^ slice[k - 1][v] >> 8;
    fill_shift(shift_one, STREAM);
    fill_shift(shift_two, 2 * STREAM);
#if HAVE_INSTRUCTION
    use_instruction = instruction_present();
#endif
}

static inline uint64_t load64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

#if HAVE_INSTRUCTION
TARGET static uint32_t crc_instruction(uint32_t crc, const uint8_t *p, size_t n)
{
    while (n >= 3 * STREAM) {
        uint32_t a = crc, b = 0, c = 0;
        for (size_t i = 0; i < STREAM; i += 8) {
            a = CRC_U64(a, load64(p + i));
            b = CRC_U64(b, load64(p + STREAM + i));
            c = CRC_U64(c, load64(p + 2 * STREAM + i));
        }
        crc = shifted(shift_two, a) ^ shifted(shift_one, b) ^ c;
        p += 3 * STREAM;
        n -= 3 * STREAM;
    }
    for (; n >= 8; p += 8, n -= 8)
        crc = CRC_U64(crc, load64(p));
    for (; n; p++, n--)
        crc = CRC_U8(crc, *p);
    return crc;
}
#endif

static uint32_t crc_table(uint32_t crc, const uint8_t *p, size_t n)
{
    for (; n >= 8; p += 8, n -= 8) {
        uint64_t v = load64(p); /* every platform supported here is little-endian */
        v ^= crc;
        crc = slice[7][v & 255] ^ slice[6][v >> 8 & 255] ^ slice[5][v >> 16 & 255] ^ slice[4][v >> 24 & 255] ^
              slice[3][v >> 32 & 255] ^ slice[2][v >> 40 & 255] ^ slice[1][v >> 48 & 255] ^ slice[0][v >> 56];
    }
    for (; n; p++, n--)
        crc = slice[0][(crc ^ *p) & 255] ^ crc >> 8;
    return crc;
}

uint32_t tk_crc32c(uint32_t crc, const uint8_t *data, size_t n)
{
    pthread_once(&once, initialise);
    crc = ~crc;
#if HAVE_INSTRUCTION
    if (use_instruction)
        return ~crc_instruction(crc, data, n);
#endif
    return ~crc_table(crc, data, n);
}

uint32_t tk_crc32c_table(uint32_t crc, const uint8_t *data, size_t n)
{
    pthread_once(&once, initialise);
    return ~crc_table(~crc, data, n);
}

const char *tk_crc32c_backend(void)
{
    pthread_once(&once, initialise);
    return use_instruction ? INSTRUCTION_NAME : "table";
}
