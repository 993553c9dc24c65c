/* CRC32C: the sums of chunks. */
#ifndef TOOLKIT_CRC32C_H
#define TOOLKIT_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* CRC32C (Castagnoli) of n bytes, continuing from crc (0 to start). Safe from any thread. */
uint32_t tk_crc32c(uint32_t crc, const uint8_t *data, size_t n);

/* The same by tables, whatever the processor has: the portable path, for tests. */
uint32_t tk_crc32c_table(uint32_t crc, const uint8_t *data, size_t n);

/* Name of the implementation that tk_crc32c picked on this processor. */
const char *tk_crc32c_backend(void);

#endif
