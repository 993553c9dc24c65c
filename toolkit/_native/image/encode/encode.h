/* Encode one picture as JPEG: what encode.pyx and jpeg.c share.
 *
 * Nothing here touches a Python object, prints, or keeps a pointer to the pixels after it returned.
 */
#ifndef TOOLKIT_ENCODE_H
#define TOOLKIT_ENCODE_H

#include <stddef.h>
#include <stdint.h>

enum {
    ENC_OK = 0,
    ENC_FAILED = 1,
    ENC_NO_MEMORY = 2,
};

#define ENC_MESSAGE 256 /* bytes of a message, with its final zero */

/* Memory that a thread keeps from picture to picture. All zero at first. */
typedef struct {
    uint8_t *data;
    size_t size; /* bytes allocated */
    size_t used; /* bytes of the latest JPEG */
} enc_buffer;

void enc_free(enc_buffer *buffer);
/* Encode height x width x 3 bytes of RGB into `out`. Sizes are at least 1; quality is 1 .. 100. */
int enc_jpeg(enc_buffer *out, const uint8_t *rgb, int64_t height, int64_t width, int quality, char *message);

#endif
