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
};

#define IMG_MESSAGE 256 /* bytes of one sample's message, with its final zero */
#define IMG_PAD 64
#define IMG_MAX_PIXELS 2147483647 /* offsets inside a picture fit in 32 bits */
#define IMG_MAX_SCANS 64 /* of a JPEG; a scan of a few bytes costs a pass over the whole picture, encoders write about ten */
#define IMG_MORE_PIXELS "; decode_image(max_pixels=) or --max-pixels allows more"
#define IMG_MAX_OPS 64
#define IMG_MAX_COLOURS (4 * IMG_MAX_OPS)

/* Loops that the compiler vectorises well; the machine picks its version when the library is loaded: too early for
 * ThreadSanitizer. */
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) && __GNUC__ >= 12 && !defined(__SANITIZE_THREAD__)
#define IMG_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define IMG_CLONES
#endif

/* ---- What is asked for ---- */

typedef enum { IMG_RGB, IMG_GRAY, IMG_RGBA } img_mode;
typedef enum { IMG_NEAREST, IMG_BILINEAR, IMG_BICUBIC, IMG_LANCZOS } img_filter;
typedef enum {
    IMG_RESIZE,
    IMG_RESIZE_SHORT,
    IMG_RESIZE_LONG,
    IMG_CROP,
    IMG_CENTER_CROP,
    IMG_RANDOM_CROP,
    IMG_RANDOM_RESIZED_CROP,
    IMG_PAD_AROUND,
    IMG_HFLIP,
    IMG_VFLIP,
    IMG_COLOR_JITTER,
    IMG_GRAYSCALE,
} img_kind;

/* One step; the fields that a kind uses are those of toolkit/pipelines/image/steps.py. */
typedef struct {
    int32_t kind, filter;
    int64_t top, left, height, width; /* of a resize to one length: height */
    int64_t bottom, right;            /* of a pad */
    int32_t fill, channels;
    int32_t used[4];                  /* of a jitter: whether each of its four is changed */
    double low[4], high[4];           /* of a jitter; [0] is scale, [1] is ratio of a random crop; low[0] is p of a flip */
    uint64_t id;                      /* folded into the sample's key */
} img_op;

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
    int64_t op_count;
    img_op *ops;
    img_layout layout;
    int64_t max_pixels, max_bytes;
    int32_t mode, exif, icc, fast, tolerant; /* icc: pictures with a profile are IMG_UNSUPPORTED */
} img_program;

/* ---- What that means for one picture: stages ---- */

typedef struct {
    int64_t top, left, height, width;
} img_window;

typedef enum { IMG_BRIGHTNESS, IMG_CONTRAST, IMG_SATURATION, IMG_HUE, IMG_TO_GRAY } img_colour_kind;

typedef struct {
    int32_t kind;
    float factor;
    uint8_t shift; /* of the hue */
    uint8_t mean;  /* of a contrast, once it is known */
} img_colour;

/* One axis of a stage. A part of the input is resized, a part of that kept, and the result padded: out samples, of which
 * [pad, pad + keep) are the resized samples from `first` on. Mirrored: the part of the input is turned round before the
 * resize and the resized samples after it, so that with a flip of the result the flip came first. */
typedef struct {
    int64_t in;             /* samples of the input */
    int64_t from, length;   /* the part that is resized */
    int64_t resized;        /* its new length */
    int64_t first, keep;
    int64_t out, pad;
    int mirrored, flip;     /* flip: of the result */
} img_side;

typedef struct {
    img_side y, x;
    int filter, resizes;    /* a resize is part of the stage, though perhaps to the same size */
    int blank;              /* nothing of the picture is left, only the fill */
    int fill;
    int alpha;              /* four channels: resized premultiplied */
    int64_t colour_first, colour_count;
} img_stage;

typedef struct {
    img_stage stages[IMG_MAX_OPS + 1];
    img_colour colours[IMG_MAX_COLOURS];
    int64_t stage_count, colour_count;
    int64_t out_h, out_w;
} img_plan;

/* Draw what is random from `key`, and fold the steps into as few stages as they allow. */
int img_make_plan(const img_program *program, int64_t height, int64_t width, uint64_t key, img_plan *plan,
                  char *message);

/* ---- Memory that a thread keeps from sample to sample ---- */

/* What a thread's memory may grow to: whoever needs more than `most` gets IMG_NO_MEMORY, and `wanted` says how much in all. */
typedef struct {
    int64_t used, most, wanted;
} img_room;

typedef struct {
    uint8_t *data; /* 64-byte aligned, NULL while size is 0 */
    size_t size;
    img_room *room; /* that it counts in; NULL: in none */
} img_buffer;

#define IMG_PRECISION 22 /* Pillow's: 32 bits less 8 of a pixel less 2 to spare */
#define IMG_SPLIT 11     /* halves of a coefficient fit the 16-bit multiplications of SIMD */

/* Which output sums which inputs: i = 0 .. count-1 sums 2 * pairs source samples from `start[i]` on. The last of them may
 * lie one behind the source (its coefficient is zero); start[] never falls. */
typedef struct {
    int64_t count, padded;  /* padded: count rounded up to 4, with coefficients of zero */
    int64_t pairs;          /* 0: nearest, each output is its source sample */
    int64_t first, last;    /* source samples [first, last) are used; start[] counts from `first` */
    const int32_t *start;
    const int32_t *coefficients; /* [padded][2 * pairs], 1.0 is 1 << IMG_PRECISION */
    const int16_t *split;   /* [padded][pairs][high and low part][2 taps]: coefficient = high << IMG_SPLIT | low */
    const int16_t *wide;    /* [padded / lanes][pairs][high, low][lanes][4 channels][2 taps]; NULL without lanes */
    int64_t lanes;          /* outputs side by side in `wide`: 2 for AVX2, 4 for AVX-512, 0 */
    int coarse;             /* all low parts are zero */
    const uint8_t *index;   /* [padded / 4][64] with 4 lanes: which of 64 source bytes goes where; else NULL */
} img_axis;

/* A resize of `length` source samples from `from` on (which may lie between samples) into `out` samples, of which
 * [first, first + count) are wanted. */
typedef struct {
    int64_t in, out, first, count, lanes;
    double from, length;
    int filter, mirrored;
    int coarse; /* coefficients of 11 bits */
} img_resize;

typedef struct {
    img_buffer memory;
    img_resize of; /* what `axis` was made for */
    img_axis axis;
} img_axis_cache;

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
/* Whether `size` bytes more may be taken: IMG_OK or IMG_NO_MEMORY. */
int img_ask(img_room *room, int64_t size);
/* Make room for `size` bytes; the old content is lost. Returns IMG_OK or IMG_NO_MEMORY. */
int img_reserve(img_buffer *buffer, uint64_t size);

/* Pillow's coefficients, kept until another resize is asked for. */
int img_make_axis(img_axis_cache *cache, const img_resize *resize, img_axis *axis);
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
    void (*reverse)(uint8_t *out, const uint8_t *rgbx, int64_t count);
} img_kernels;

extern const img_kernels img_generic_kernels;
#if defined(__x86_64__)
extern const img_kernels img_avx2_kernels, img_avx512_kernels;
#endif
const img_kernels *img_current_kernels(void);
/* Chooses a set by name, "" = the best of this machine. Returns 0, or -1 when it is unknown or cannot run here. */
int img_choose_kernels(const char *name);

/* ---- Colours ---- */

void img_from_channels(uint8_t *rgbx, const uint8_t *pixels, int64_t count, int channels);
void img_to_gray(uint8_t *rgbx, const uint8_t *from, int64_t count);
void img_premultiply(uint8_t *rgba, const uint8_t *from, int64_t count);
void img_unpremultiply(uint8_t *rgba, int64_t count);
/* Change a row in place; a contrast has its mean. */
void img_apply_colour(uint8_t *rgbx, int64_t count, const img_colour *colour);
/* The sum of Pillow's L over a row. */
int64_t img_sum_of_gray(const uint8_t *rgbx, int64_t count);

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
