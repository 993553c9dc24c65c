/* What all files of the image kernels share: statuses, limits, and how pixels lie in memory.
 *
 * Pixels inside these files are RGBX, four bytes each: four pixels are one vector load. The fourth byte is alpha in a
 * program of four channels and anything else otherwise; a gray picture has its value in all of them.
 * Every row buffer has IMG_PAD readable bytes behind its last pixel, so that a load may run over its end.
 * Nothing here touches a Python object, prints, or keeps a pointer after it returned.
 */
#ifndef TOOLKIT_IMAGE_BASE_H
#define TOOLKIT_IMAGE_BASE_H

#include <stddef.h>
#include <stdint.h>

enum {
    IMG_OK = 0,
    IMG_NOT_JPEG = 1,
    IMG_UNSUPPORTED = 2, /* by these files, though perhaps not by PIL */
    IMG_TRUNCATED = 3,
    IMG_CORRUPT = 4,
    IMG_TOO_LARGE = 5,
    IMG_NO_MEMORY = 6,
    IMG_CUT = 7, /* truncated, and the program takes that: the result is there */
    IMG_AGAIN = 8, /* damaged or rare: to be decoded once more, by libjpeg-turbo, which says what it is */
    IMG_UNFIT = 9, /* a step can't be done with a picture of this size */
};

#define IMG_MESSAGE 256 /* bytes of one sample's message, with its final zero */
#define IMG_PAD 64
#define IMG_MAX_SIDE 65535 /* of a resize or crop: what a JPEG can hold */
#define IMG_MAX_PIXELS 2147483647 /* offsets inside a picture fit in 32 bits */
#define IMG_MAX_SCANS 64 /* of a JPEG; a scan of a few bytes costs a pass over the whole picture, encoders write about ten */
#define IMG_MORE_PIXELS "; decode_image(max_pixels=) or --max-pixels allows more"

/* Loops that the compiler vectorises well; the machine picks its version when the library is loaded: too early for
 * ThreadSanitizer. */
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) && __GNUC__ >= 12 && !defined(__SANITIZE_THREAD__)
#define IMG_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define IMG_CLONES
#endif

#endif
