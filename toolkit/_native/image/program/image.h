/* Decode, transform and lay out one picture: what image.pyx and the image_*.c files share.
 *
 * Pixels inside these files are RGBX, four bytes each: four pixels are one vector load. The fourth byte is alpha in a
 * program of four channels and anything else otherwise; a gray picture has its value in all of them.
 * Every row buffer has IMG_PAD readable bytes behind its last pixel, so that a load may run over its end.
 * Nothing here touches a Python object, prints, or keeps a pointer after it returned.
 */
#ifndef TOOLKIT_IMAGE_H
#define TOOLKIT_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "axis.h"
#include "base.h"
#include "buffer.h"
#include "colour.h"
#include "kernels.h"
#include "ops.h"
#include "stages.h"

#define IMG_MAX_SCANS 64 /* of a JPEG; a scan of a few bytes costs a pass over the whole picture, encoders write about ten */
#define IMG_MAX_OPS 64 /* that a picture may pass through */
#define IMG_MAX_DEPTH 8 /* of branches within branches */

/* ---- What is asked for ---- */

typedef enum { IMG_RGB, IMG_GRAY, IMG_RGBA } img_mode;
typedef struct img_op img_op;

/* Steps, one after the other. */
typedef struct {
    const img_op *ops;
    int64_t count;
} img_chain;

/* A step, or a branch of chains one of which is taken. */
struct img_op {
    const img_op_kind *kind; /* NULL: a branch */
    const void *params;      /* the kind's struct */
    uint64_t id;             /* folded into the sample's key, for what draws */
    /* Of a branch: way i is taken where draw 0 is below limits[i] and no earlier one; none where it is below no limit. */
    const img_chain *ways;
    const double *limits;
    int64_t way_count;
};

typedef enum {
    IMG_U8, IMG_I16, IMG_U16, IMG_I32, IMG_U32, IMG_I64, IMG_U64, IMG_F16, IMG_BF16, IMG_F32, IMG_F64
} img_dtype;

/* How finished pixels are written: value = pixel * scale + bias in float32 when normalised, then the dtype. */
typedef struct {
    int32_t dtype, chw, channels, normalise;
    int64_t item; /* bytes of a value */
    float scale[4], bias[4];
} img_layout;

typedef struct {
    img_chain steps;
    img_layout layout;
    int64_t max_pixels, max_bytes;
    int32_t mode, exif, icc, fast, tolerant; /* icc: pictures with a profile are IMG_UNSUPPORTED */
} img_program;

/* ---- What that means for one picture: stages ---- */

typedef struct {
    int64_t top, left, height, width;
} img_window;

/* Draw what is random from `key`, and fold the steps into as few stages as they allow. */
int img_make_plan(const img_program *program, int64_t height, int64_t width, uint64_t key, img_plan *plan,
                  char *message);

/* ---- Memory that a thread keeps from sample to sample ---- */

typedef struct img_jpeg img_jpeg;
typedef struct img_baseline img_baseline;

typedef struct {
    img_room room;
    img_jpeg *jpeg;
    img_baseline *baseline;
    int64_t own;            /* pictures that baseline.c has decoded */
    img_plan plan;
    img_buffer segment;     /* entropy-coded bytes of a JPEG, without stuffing */
    img_buffer planes;      /* components as decoded, two rows of MCUs of each */
    img_buffer rows;        /* rows fresh from the decoder */
    img_buffer line;        /* one source row brought into RGBX order */
    img_buffer ring;        /* horizontally resized rows that wait for the vertical pass */
    img_buffer pointers;    /* the rows of one vertical sum */
    img_buffer mixed;       /* one vertically resized row */
    img_buffer work;        /* one row of the result: padded, flipped, coloured */
    img_buffer values;      /* one row as float planes */
    img_buffer held;        /* a whole picture that waits for its mean */
    img_buffer pixels[2];   /* whole pictures between stages */
    img_axis_cache axes[2]; /* columns, rows */
} img_scratch;

img_scratch *img_scratch_new(void);
void img_scratch_free(img_scratch *scratch);
int64_t img_scratch_bytes(const img_scratch *scratch);
/* ---- Writing ---- */

/* Write row `i` of a picture of height x width; `values` has room for 4 * (width + IMG_PAD) floats. */
void img_pack_row(const img_layout *layout, const img_kernels *kernels, uint8_t *out, int64_t height, int64_t width,
                  int64_t i, const uint8_t *row, float *values);

/* ---- Markers of a JPEG ---- */

/* The Orientation (1 .. 8) that PIL.ImageOps.exif_transpose would honour; 1 when there is none or it is damaged. */
int img_orientation(const uint8_t *data, int64_t length);
/* Whether there is an ICC profile. */
int img_has_profile(const uint8_t *data, int64_t length);

/* ---- JPEG ---- */

typedef struct {
    int64_t height, width; /* as stored, before the orientation */
    int components, orientation, progressive;
} img_header;

typedef struct {
    int eighths;  /* decoded size: 8 is the full one */
    int fast;     /* chroma is repeated, the resize is coarse, and rows may be img_late_to_rgbx's */
    int channels; /* 1: luma only, 4: RGBX */
} img_decoding;

/* Read the header. After IMG_OK the picture is open until img_jpeg_close. */
int img_jpeg_open(img_scratch *scratch, const uint8_t *data, int64_t length, int64_t max_pixels, img_header *header,
                  char *message);
/* Prepare to read exactly the pixels of `window`, of the picture as decoded. */
int img_jpeg_start(img_scratch *scratch, const img_decoding *how, const img_window *window, char *message);
/* The next row of the window, valid until the next call; exactly window.height calls. IMG_AGAIN: call img_jpeg_again,
 * start anew, and take no row for good until the finish. */
int img_jpeg_row(img_scratch *scratch, const uint8_t **row, char *message);
/* Whether rows are Cb, Cr, Y, 255: colours are converted after a resize has left fewer pixels. */
int img_jpeg_is_late(const img_scratch *scratch);
void img_late_to_rgbx(uint8_t *pixels, int64_t count);
/* Check that nothing of the picture is missing, also below the window. */
int img_jpeg_finish(img_scratch *scratch, char *message);
/* From now on what is missing is gray: rows are given whatever the data, and finish says IMG_CUT. */
void img_jpeg_tolerate(img_scratch *scratch);
/* Back to the header, with libjpeg-turbo alone from here on. */
void img_jpeg_again(img_scratch *scratch);
void img_jpeg_close(img_scratch *scratch);
void img_jpeg_free(img_jpeg *jpeg);

/* ---- Running a program ---- */

/* A picture in memory: uint8 HWC of 1 (L), 3 (RGB) or 4 (RGBA) channels. */
typedef struct {
    const uint8_t *data;
    int64_t height, width;
    int channels;
} img_pixels;

/* Open a JPEG and refuse what the program does not take. */
int img_open(const img_program *program, img_scratch *scratch, const uint8_t *data, int64_t length, img_header *header,
             char *message);
/* Size of the result for a picture of height x width (after its orientation). */
int img_result_size(const img_program *program, img_scratch *scratch, int64_t height, int64_t width, uint64_t key,
                    int64_t *out_h, int64_t *out_w, char *message);
/* Decode and transform the open JPEG into `out`, which holds out_h x out_w x channels items. */
int img_run_open(const img_program *program, img_scratch *scratch, const img_header *header, uint64_t key, void *out,
                 int64_t out_h, int64_t out_w, char *message);
/* Open, run and close. */
int img_run_jpeg(const img_program *program, img_scratch *scratch, const uint8_t *data, int64_t length, uint64_t key,
                 void *out, int64_t out_h, int64_t out_w, char *message);
/* The same from pixels. */
int img_run_pixels(const img_program *program, img_scratch *scratch, const img_pixels *pixels, uint64_t key, void *out,
                   int64_t out_h, int64_t out_w, char *message);

#endif
