/* JPEGs of any bytes: our decoder gives what libjpeg-turbo gives, the same pixels or the same error, or hands over to it.
 *
 * The first byte says how: colours, tolerance, whole picture or a window. Without AVX2 there is nothing to compare. */
#include <stdlib.h>
#include <string.h>

#include "../ops.h"
#include "image/program/choice.h"
#include "image/program/run.h"

#define SIDE 4096
#define MOST_PIXELS 40000

static img_scratch *scratch;
static uint8_t first[MOST_PIXELS * 4], second[MOST_PIXELS * 4];

/* Decode into `out`; its size stands in *bytes, which is 0 after an error. */
static int decode(const img_program *program, const uint8_t *data, int64_t length, uint8_t *out, int64_t *bytes,
                  char *message)
{
    img_header header;
    int64_t height = 0, width = 0;
    message[0] = 0;
    *bytes = 0;
    int status = img_open(program, scratch, data, length, &header, message);
    if (status == IMG_OK) {
        int turned = header.orientation >= 5;
        status = img_result_size(program, scratch, turned ? header.width : header.height,
                                 turned ? header.height : header.width, 5, &height, &width, message);
    }
    if (status == IMG_OK) {
        *bytes = height * width * program->layout.channels;
        if (*bytes > (int64_t)sizeof first)
            abort(); /* max_pixels says otherwise */
        memset(out, 0xA5, (size_t)*bytes);
        status = img_run_open(program, scratch, &header, 5, out, height, width, message);
    }
    img_jpeg_close(scratch->jpeg);
    if (status != IMG_OK && status != IMG_CUT)
        *bytes = 0;
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char message[IMG_MESSAGE], other[IMG_MESSAGE];
    if (size < 4)
        return 0;
    if (scratch == NULL)
        scratch = img_scratch_new();
    const uint8_t how = data[0], where = data[1], what = data[2];
    data += 3;
    size -= 3;
    img_op ops[2];
    int64_t cropped[OP_PARAMS], resized[OP_PARAMS];
    img_program program = {.steps = {ops, 0}, .max_pixels = MOST_PIXELS, .max_bytes = 1 << 20, .mode = how & 3};
    if (program.mode == 3)
        program.mode = IMG_RGB;
    program.layout.channels = program.mode == IMG_RGB ? 3 : program.mode == IMG_GRAY ? 1 : 4;
    program.layout.item = 1;
    program.exif = how >> 2 & 1;
    program.tolerant = how >> 3 & 1;
    if (how & 16)
        make_op(&ops[program.steps.count++], "crop", cropped, (int64_t[]){where >> 4, where & 15, 1 + (what & 31), 1 + (what >> 3)});
    if (how & 32)
        make_op(&ops[program.steps.count++], "resize", resized, (int64_t[]){1 + (where & 31), 1 + (where >> 3), what & 3});
    uint8_t *exact = malloc(size);
    memcpy(exact, data, size);
    int64_t bytes = 0, others = 0;
    if (how & 64) { /* fast: nothing to compare with, but nothing may break */
        program.fast = 1;
        img_choose_kernels("");
        decode(&program, exact, (int64_t)size, first, &bytes, message);
    } else {
        img_choose_kernels("");
        int ours = decode(&program, exact, (int64_t)size, first, &bytes, message);
        img_choose_kernels("generic"); /* which leave every picture to libjpeg-turbo */
        int theirs = decode(&program, exact, (int64_t)size, second, &others, other);
        /* Of a window, libjpeg-turbo reads on behind what ours needs, and may meet damage there. */
        if ((how & 16) && ours == IMG_OK && theirs == IMG_CORRUPT)
            goto end;
        if (ours != theirs || bytes != others || strcmp(message, other) != 0 || memcmp(first, second, (size_t)bytes) != 0)
            abort();
    }
end:
    free(exact);
    return 0;
}
