"""What program.pyx uses of the C files; their headers say what it means."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

cdef extern from "image/program/base.h" nogil:
    enum:
        IMG_OK
        IMG_NOT_JPEG
        IMG_UNSUPPORTED
        IMG_TRUNCATED
        IMG_CORRUPT
        IMG_TOO_LARGE
        IMG_NO_MEMORY
        IMG_CUT
        IMG_AGAIN
        IMG_UNFIT
        IMG_MESSAGE
        IMG_MAX_PIXELS
        IMG_MAX_SIDE
        IMG_MAX_SCANS

cdef extern from "image/program/buffer.h" nogil:
    ctypedef struct img_room:
        int64_t used, most, wanted

    ctypedef struct img_buffer:
        uint8_t *data
        size_t size
        img_room *room

    int img_reserve(img_buffer *buffer, uint64_t size)
    void img_release(img_buffer *buffer)

cdef extern from "image/program/choice.h" nogil:
    ctypedef struct img_kernels:
        const char *name

    int img_choose_kernels(const char *name)
    const img_kernels *img_current_kernels()

cdef extern from "image/program/mix.h" nogil:
    enum:
        IMG_MAX_MIXED

cdef extern from "image/program/layout.h" nogil:
    enum:
        IMG_U8
        IMG_I16
        IMG_U16
        IMG_I32
        IMG_U32
        IMG_I64
        IMG_U64
        IMG_F16
        IMG_BF16
        IMG_F32
        IMG_F64

    ctypedef struct img_layout:
        int32_t dtype, chw, channels, normalise, words
        int64_t item, view_height, patch
        float scale[4]
        float bias[4]

cdef extern from "image/program/decoding.h" nogil:
    ctypedef struct img_window:
        int64_t top, left, height, width

    ctypedef struct img_decoding:
        int eighths, fast, channels

cdef extern from "image/program/jpeg.h" nogil:
    ctypedef struct img_jpeg

    ctypedef struct img_header:
        int64_t height, width
        int components, orientation, progressive

    int img_jpeg_open(img_jpeg *jpeg, const uint8_t *data, int64_t length, int64_t max_pixels,
                      img_header *header, char *message)
    int img_jpeg_start(img_jpeg *jpeg, const img_decoding *how, const img_window *window, char *message)
    int img_jpeg_row(img_jpeg *jpeg, const uint8_t **row, char *message)
    void img_jpeg_again(img_jpeg *jpeg)
    void img_jpeg_close(img_jpeg *jpeg)
    int64_t img_jpeg_own_decodes(const img_jpeg *jpeg)

cdef extern from "image/program/op.h" nogil:
    ctypedef enum img_form:
        IMG_AXIS
        IMG_POINT
        IMG_STATISTIC
        IMG_PICTURE

    ctypedef enum img_field_type:
        IMG_INTEGER
        IMG_NUMBER
        IMG_RANGE
        IMG_OPTIONAL_RANGE
        IMG_CHOICE
        IMG_NUMBERS

    ctypedef struct img_range:
        int64_t given
        double low, high

    ctypedef struct img_field:
        const char *name
        img_field_type type
        size_t offset
        double low, high
        const char *const *words
        int64_t count

    ctypedef struct img_shape:
        int64_t height, width
        int channels
        int64_t view_height

    ctypedef struct img_tensor

    ctypedef struct img_op_kind:
        const char *name
        img_form form
        size_t params_size
        const img_field *fields
        int draws, moves
        int (*fixed)(const void *params)
        const char *(*check)(const void *params)
        void (*follow)(const void *params, img_shape *shape)
        void (*on_tensor)(const img_tensor *tensor, const void *params, uint64_t key)

cdef extern from "image/program/ops.h" nogil:
    const img_op_kind *img_op_kind_at(int64_t i)
    const img_op_kind *img_find_op_kind(const char *name)

cdef extern from "image/program/program.h" nogil:
    enum:
        IMG_MAX_OPS
        IMG_MAX_DEPTH
        IMG_MAX_PARAMS
        IMG_RGB
        IMG_GRAY
        IMG_RGBA
        IMG_ID

    ctypedef struct img_chain

    ctypedef struct img_level:
        double mean, deviation, start, change
        int64_t whole
        size_t offset

    ctypedef struct img_op:
        const img_op_kind *kind
        const void *params
        uint64_t id
        img_level level
        const img_chain *ways
        const double *limits
        int64_t way_count
        double alpha

    ctypedef struct img_chain:
        const img_op *ops
        int64_t count

    ctypedef struct img_program:
        img_chain steps, tensor_steps
        img_layout layout
        int64_t max_pixels, max_bytes
        int32_t mode, exif, icc, fast, tolerant
        uint32_t ignore

cdef extern from "image/program/scratch.h" nogil:
    ctypedef struct img_scratch:
        img_room room
        img_jpeg *jpeg
        img_buffer shared

    img_scratch *img_scratch_new()
    void img_scratch_free(img_scratch *scratch)
    int64_t img_scratch_bytes(const img_scratch *scratch)

cdef extern from "image/program/run.h" nogil:
    ctypedef struct img_pixels:
        const uint8_t *data
        int64_t height, width
        int channels

    int img_open(const img_program *program, img_scratch *scratch, const uint8_t *data, int64_t length,
                 img_header *header, char *message)
    int img_result_size(const img_program *program, img_scratch *scratch, int64_t height, int64_t width, uint64_t key,
                        int64_t *out_h, int64_t *out_w, char *message)
    int img_run_open(const img_program *program, img_scratch *scratch, const img_header *header, uint64_t key,
                     void *out, int64_t out_h, int64_t out_w, char *message)
    int img_run_jpeg(const img_program *program, img_scratch *scratch, const uint8_t *data, int64_t length,
                     uint64_t key, void *out, int64_t out_h, int64_t out_w, char *message)
    int img_run_pixels(const img_program *program, img_scratch *scratch, const img_pixels *pixels, uint64_t key,
                       void *out, int64_t out_h, int64_t out_w, char *message)

cdef extern from "image/program/shared.h" nogil:
    ctypedef struct img_view:
        const img_program *program
        uint64_t key
        void *out
        int64_t out_h, out_w
        char *message
        int32_t status

    int img_run_together(img_view *views, int64_t count, img_scratch *scratch, const uint8_t *data, int64_t length)
    int64_t img_run_alone(img_view *views, int64_t count, int64_t first, img_scratch *scratch, const uint8_t *data,
                          int64_t length)
