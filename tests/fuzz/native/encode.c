/* Pictures of any size and quality as JPEG: what comes out is read again, with the size that went in. */
#include <stdlib.h>
#include <string.h>

#include "image/encode/encode.h"
#include "image/program/jpeg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static enc_buffer out;
    static img_jpeg *jpeg;
    static img_room room = {.most = INT64_MAX};
    if (size < 4)
        return 0;
    if (jpeg == NULL)
        jpeg = img_jpeg_new(&room);
    const int64_t height = 1 + data[0] % 80, width = 1 + data[1] % 80;
    const int quality = 1 + data[2] % 100;
    uint8_t *pixels = malloc((size_t)(height * width * 3));
    for (int64_t i = 0; i < height * width * 3; i++)
        pixels[i] = data[3 + (size_t)i % (size - 3)];
    char message[256];
    img_header header;
    if (enc_jpeg(&out, pixels, height, width, quality, message) != ENC_OK)
        abort();
    if (img_jpeg_open(jpeg, out.data, (int64_t)out.used, 6400, &header, message) != 0)
        abort();
    img_jpeg_close(jpeg);
    if (header.height != height || header.width != width)
        abort();
    free(pixels);
    return 0;
}
