/* Decode, resize, crop and lay out one picture: what image.pyx and the image_*.c files share.
 *
 * Pixels inside these files are RGBX, four bytes each (the fourth is never read): four pixels are one vector load.
 * Every row buffer has IMG_PAD readable bytes behind its last pixel, so that a load may run over its end.
 * Nothing here touches a Python object, prints, or keeps a pointer after it returned.
 */
#ifndef TOOLKIT_IMAGE_H
#define TOOLKIT_IMAGE_H

#include <stddef.h>
#include <stdint.h>

enum {
    IMG_OK = 0,
    IMG_NOT_JPEG = 1,
    IMG_UNSUPPORTED = 2,
    IMG_TRUNCATED = 3,
    IMG_CORRUPT = 4,
    IMG_TOO_LARGE = 5,
    IMG_NO_MEMORY = 6,
};

#define IMG_MESSAGE 256 /* bytes of one sample's message, with its final zero */
#define IMG_PAD 64
#define IMG_MAX_PIXELS 2147483647 /* offsets inside a picture fit in 32 bits */

/* ---- Memory that a thread keeps from sample to sample ---- */

typedef struct {
    uint8_t *data; /* 64-byte aligned, NULL while size is 0 */
    size_t size;
} img_buffer;

typedef struct img_jpeg img_jpeg;

typedef struct {
    img_jpeg *jpeg;
    img_buffer rows;      /* rows fresh from the decoder */
    img_buffer line;      /* one source row brought into RGBX order */
    img_buffer ring;      /* horizontally resized rows that wait for the vertical pass */
    img_buffer pointers;  /* the rows of one vertical sum */
    img_buffer mixed;     /* one vertically resized row */
    img_buffer axes[2];   /* coefficients: columns, rows */
    img_buffer pixels[2]; /* whole pictures between stages */
} img_scratch;

img_scratch *img_scratch_new(void);
void img_scratch_free(img_scratch *scratch);
int64_t img_scratch_bytes(const img_scratch *scratch);
/* Make room for `size` bytes; the old content is lost. Returns IMG_OK or IMG_NO_MEMORY. */
int img_reserve(img_buffer *buffer, uint64_t size);

/* ---- Stages and their geometry ---- */

typedef struct {
    int64_t resize; /* length of the shorter side, 0 = keep the size */
    int64_t crop_h, crop_w; /* 0 = no crop */
} img_stage;

typedef struct {
    int64_t resized_h, resized_w;
    int64_t out_h, out_w;         /* after the crop */
    int64_t top, left;            /* first resized row and column that are kept */
    int64_t keep_h, keep_w;       /* how many are kept; less than out_* when the picture is padded */
    int64_t pad_top, pad_left;
} img_plan;

int img_make_plan(const img_stage *stage, int64_t height, int64_t width, int64_t max_pixels, img_plan *plan, char *message);

#define IMG_PRECISION 22 /* Pillow's: 32 bits less 8 of a pixel less 2 to spare */
#define IMG_SPLIT 11     /* halves of a coefficient fit the 16-bit multiplications of SIMD */

/* One axis of a resize: outputs i = 0 .. count-1 sum 2 * pairs source samples from `start[i]` on. The last of them may
 * lie one behind the source (its coefficient is zero); start[] never falls. */
typedef struct {
    int64_t count, padded;  /* padded: count rounded up to 4, with coefficients of zero */
    int64_t pairs;
    int64_t first, last;    /* source samples [first, last) are used; start[] counts from `first` */
    const int32_t *start;
    const int32_t *coefficients; /* [padded][2 * pairs], 1.0 is 1 << IMG_PRECISION */
    const int16_t *split;   /* [padded][pairs][high and low part][2 taps]: coefficient = high << IMG_SPLIT | low */
    const int16_t *wide;    /* [padded / lanes][pairs][high, low][lanes][4 channels][2 taps]; NULL without lanes */
    int64_t lanes;          /* outputs side by side in `wide`: 2 for AVX2, 4 for AVX-512, 0 */
    const uint8_t *index;   /* [padded / 4][64] with 4 lanes: which of 64 source bytes goes where; else NULL */
} img_axis;

/* Pillow's bilinear coefficients for outputs [from, from + count) of a resize from `in` to `out` samples. */
int img_make_axis(img_buffer *memory, int64_t in, int64_t out, int64_t from, int64_t count, int64_t lanes,
                  img_axis *axis);
/* The same shape for an axis that keeps its size: only first, last and count are set. */
void img_keep_axis(int64_t from, int64_t count, img_axis *axis);

/* ---- Loops, one set for each instruction set ---- */

typedef struct {
    const char *name;
    int64_t lanes; /* of img_axis.wide that `horizontal` wants; it takes 2 where 4 do not fit */
    void (*horizontal)(uint8_t *out, const uint8_t *row, const img_axis *axis);
    /* Output i of the axis: the sum of 2 * pairs rows. `bytes` is rounded up to IMG_PAD inside. */
    void (*vertical)(uint8_t *out, const uint8_t *const *rows, const img_axis *axis, int64_t i, int64_t bytes);
    void (*from_rgb)(uint8_t *rgbx, const uint8_t *rgb, int64_t count);
    void (*to_rgb)(uint8_t *out, const uint8_t *rgbx, int64_t count);
    void (*to_planes)(float *out, int64_t plane, const uint8_t *rgbx, int64_t count, const float *scale,
                      const float *bias);
} img_kernels;

extern const img_kernels img_generic_kernels;
#if defined(__x86_64__)
extern const img_kernels img_avx2_kernels, img_avx512_kernels;
#endif
const img_kernels *img_current_kernels(void);
/* Chooses a set by name, "" = the best of this machine. Returns 0, or -1 when it is unknown or cannot run here. */
int img_choose_kernels(const char *name);

/* ---- Orientation ---- */

/* The Orientation (1 .. 8) that PIL.ImageOps.exif_transpose would honour; 1 when there is none or it is damaged. */
int img_orientation(const uint8_t *data, int64_t length);

/* ---- JPEG ---- */

typedef struct {
    int64_t height, width; /* as stored, before the orientation */
    int components, orientation, progressive;
} img_header;

typedef struct {
    int64_t top, left, height, width;
} img_window;

/* Read the header. After IMG_OK the picture is open until img_jpeg_close. */
int img_jpeg_open(img_scratch *scratch, const uint8_t *data, int64_t length, int64_t max_pixels, img_header *header,
                  char *message);
/* Prepare to read exactly the pixels of `window`. */
int img_jpeg_start(img_scratch *scratch, const img_window *window, char *message);
/* The next row of the window, valid until the next call; exactly window.height calls. */
int img_jpeg_row(img_scratch *scratch, const uint8_t **row, char *message);
/* Check that nothing of the picture is missing, also below the window. */
int img_jpeg_finish(img_scratch *scratch, char *message);
void img_jpeg_close(img_scratch *scratch);
void img_jpeg_free(img_jpeg *jpeg);

/* ---- Running a program ---- */

typedef struct {
    int64_t stage_count;
    img_stage *stages;
    int64_t max_pixels;
    int normalise; /* 1: float32 CHW, 0: uint8 HWC */
    float scale[3], bias[3];
} img_program;

/* Size of the result for a picture of height x width (after its orientation). */
int img_result_size(const img_program *program, int64_t height, int64_t width, int64_t *out_h, int64_t *out_w,
                    char *message);
/* Decode and transform one JPEG into `out`, which holds out_h x out_w x 3 items. */
int img_run_jpeg(const img_program *program, img_scratch *scratch, const uint8_t *data, int64_t length, void *out,
                 int64_t out_h, int64_t out_w, char *message);
/* The same from RGB pixels. */
int img_run_pixels(const img_program *program, img_scratch *scratch, const uint8_t *rgb, int64_t height, int64_t width,
                   void *out, int64_t out_h, int64_t out_w, char *message);

#endif
