/* libjpeg-turbo as the decoder uses it: from memory, with errors that jump back.
 *
 * libjpeg reports errors with a function that may not return, so each function that calls it sets its own jump target; none
 * of them changes a local variable after that.
 */
#ifndef TOOLKIT_IMAGE_LIBJPEG_H
#define TOOLKIT_IMAGE_LIBJPEG_H

#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>

#include <jpeglib.h>

#define IMG_JPEG_EOI 0xD9

/* A decompressor. Whoever calls libjpeg with it sets `jump` before. */
typedef struct {
    struct jpeg_decompress_struct info;
    struct jpeg_error_mgr errors;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    jmp_buf jump;
    int created;
    int scan_bomb; /* more scans than IMG_MAX_SCANS */
    int hit_end;   /* libjpeg wanted bytes behind the end of the data */
    int damage;    /* the first warning that means wrong pixels, a JWRN_ code */
    char damage_text[JMSG_LENGTH_MAX];
} img_libjpeg;

/* Begin a picture with a fresh decompressor, and read its header. */
int img_libjpeg_open(img_libjpeg *lib, const uint8_t *data, int64_t length, char *message);
/* Status and message of the error that libjpeg has just raised. */
int img_libjpeg_failure(img_libjpeg *lib, char *message);
/* Status and message of the damage that libjpeg has warned of, IMG_OK without any. */
int img_libjpeg_damage(const img_libjpeg *lib, char *message);
void img_libjpeg_close(img_libjpeg *lib);

#endif
