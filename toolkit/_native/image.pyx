"""Decodes and transforms a part of a batch of pictures in one call without the GIL.

For one picture the call does what this says, bit for bit if PIL has the same libjpeg-turbo and filters columns first
(newer ones start with the rows of very high pictures: one level); the oracle is `tests/native/test_image_oracle.py`:

    picture = ImageOps.exif_transpose(PIL.Image.open(io.BytesIO(data)).convert("RGB"))
    for resize, height, width in stages: picture = center_crop(resize_short(picture, resize), height, width)
    numpy.asarray(picture)                                                       # without scale: uint8 HWC
    numpy.asarray(picture).transpose(2, 0, 1) * scale + bias                     # with scale: float32 CHW

Decoding is in image_jpeg.c (libjpeg-turbo) and image_exif.c, resize in image_resample.c and image_x86.c after Pillow and
Pillow-SIMD, the row by row flow in image_run.c. Pictures that are no JPEG get a status; the caller decodes them with PIL.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

import math

import numpy as np

cdef extern from "image.h" nogil:
    enum:
        IMG_OK
        IMG_NOT_JPEG
        IMG_UNSUPPORTED
        IMG_TRUNCATED
        IMG_CORRUPT
        IMG_TOO_LARGE
        IMG_NO_MEMORY
        IMG_MESSAGE
        IMG_MAX_PIXELS

    ctypedef struct img_buffer:
        uint8_t *data
        size_t size

    ctypedef struct img_scratch:
        pass

    ctypedef struct img_stage:
        int64_t resize, crop_h, crop_w

    ctypedef struct img_header:
        int64_t height, width
        int components, orientation, progressive

    ctypedef struct img_kernels:
        const char *name

    ctypedef struct img_program:
        int64_t stage_count
        img_stage *stages
        int64_t max_pixels
        int normalise
        float scale[3]
        float bias[3]

    img_scratch *img_scratch_new()
    void img_scratch_free(img_scratch *scratch)
    int64_t img_scratch_bytes(const img_scratch *scratch)
    int img_reserve(img_buffer *buffer, uint64_t size)
    int img_choose_kernels(const char *name)
    const img_kernels *img_current_kernels()
    int img_jpeg_open(img_scratch *scratch, const uint8_t *data, int64_t length, int64_t max_pixels,
                      img_header *header, char *message)
    void img_jpeg_close(img_scratch *scratch)
    int img_result_size(const img_program *program, int64_t height, int64_t width, int64_t *out_h, int64_t *out_w,
                        char *message)
    int img_run_jpeg(const img_program *program, img_scratch *scratch, const uint8_t *data, int64_t length, void *out,
                     int64_t out_h, int64_t out_w, char *message)
    int img_run_pixels(const img_program *program, img_scratch *scratch, const uint8_t *rgb, int64_t height,
                       int64_t width, void *out, int64_t out_h, int64_t out_w, char *message)

OK = IMG_OK
NOT_JPEG = IMG_NOT_JPEG
UNSUPPORTED = IMG_UNSUPPORTED
TRUNCATED = IMG_TRUNCATED
CORRUPT = IMG_CORRUPT
TOO_LARGE = IMG_TOO_LARGE
NO_MEMORY = IMG_NO_MEMORY

MAX_SIDE = 65535  # of a resize or crop: what a JPEG can hold
MAX_PIXELS = IMG_MAX_PIXELS  # of a picture, whatever `max_pixels` allows

if img_choose_kernels(b"") != 0:
    raise ImportError("toolkit._native.image: no set of loops runs on this machine")


class ImageError(ValueError):
    """A picture that could not be decoded or transformed.

    Attributes:
        status: NOT_JPEG, UNSUPPORTED, TRUNCATED, CORRUPT, TOO_LARGE or NO_MEMORY.
    """

    def __init__(self, status, message):
        super().__init__(status, message)
        self.status = status

    def __str__(self):
        return self.args[1]


cdef int _probe(const uint8_t *data, int64_t length, img_scratch *scratch, img_header *header, char *message) noexcept nogil:
    cdef int status = img_jpeg_open(scratch, data, length, IMG_MAX_PIXELS, header, message)
    img_jpeg_close(scratch)
    return status


cdef int64_t _run(const img_program *program, img_scratch *scratch, const uint64_t *addresses, const int64_t *lengths,
                  const uint64_t *outs, int64_t out_h, int64_t out_w, int32_t *statuses, char *messages,
                  int64_t count) noexcept nogil:
    cdef int64_t i, failed = 0
    for i in range(count):
        messages[i * IMG_MESSAGE] = 0
        statuses[i] = img_run_jpeg(program, scratch, <const uint8_t *><uintptr_t>addresses[i], lengths[i],
                                   <void *><uintptr_t>outs[i], out_h, out_w, messages + i * IMG_MESSAGE)
        failed += statuses[i] != IMG_OK
    return failed


cdef class Scratch:
    """The memory one thread decodes with: grows to what the largest picture needed, kept from call to call.

    Owns its memory until it is dropped. One call at a time may use it; a second one raises RuntimeError.

    Raises:
        MemoryError: There is no memory for it.
    """

    cdef img_scratch *memory
    cdef img_buffer messages
    cdef int64_t message_count
    cdef bint busy

    def __cinit__(self):
        self.memory = img_scratch_new()
        if self.memory == NULL:
            raise MemoryError("no memory for a Scratch")

    def __dealloc__(self):
        img_scratch_free(self.memory)
        free(self.messages.data)

    @property
    def nbytes(self):
        """Bytes it holds between calls. While a call runs, libjpeg holds some more (progressive: 6 bytes a pixel)."""
        return img_scratch_bytes(self.memory) + <int64_t>self.messages.size

    def message(self, int64_t index):
        """Return what went wrong with a sample of the latest `run` ("" when nothing did).

        Raises:
            IndexError: The latest `run` had no such sample.
        """
        if index < 0 or index >= self.message_count:
            raise IndexError(f"no sample {index} in a call of {self.message_count} samples")
        return (<bytes>(<const char *>self.messages.data + index * IMG_MESSAGE)).decode("utf-8", "replace")

    cdef int enter(self, int64_t message_count) except -1:
        if self.busy:
            raise RuntimeError("this Scratch is in use by another call; give each thread its own")
        if img_reserve(&self.messages, <uint64_t>message_count * IMG_MESSAGE) != IMG_OK:
            raise MemoryError("no memory for the messages of a Scratch")
        memset(self.messages.data, 0, <size_t>(message_count * IMG_MESSAGE))
        self.message_count = message_count
        self.busy = True
        return 0

    cdef void leave(self) noexcept:
        self.busy = False


cdef class ImageProgram:
    """A frozen list of resize and crop stages; any number of threads may run one, each with its own Scratch.

    Args:
        stages: (resize_short, crop_height, crop_width) each, 0 = absent. `resize_short` scales the shorter side to that
            length as torchvision's Resize(int) with antialiased bilinear (Pillow's) filtering; the crop is torchvision's
            CenterCrop, which puts black around a smaller picture. Without stages pictures are only decoded.
        scale: None for uint8 results of shape (height, width, 3), else three floats for float32 results of shape
            (3, height, width): pixel * scale[channel] + bias[channel], pixels being 0 .. 255.
        bias: Three floats when there is a scale.
        max_pixels: Pictures with more pixels, or that a resize would give more pixels, are refused as TOO_LARGE.

    Raises:
        ValueError: An argument is out of range.
    """

    cdef img_program program
    cdef readonly tuple stages
    cdef readonly object output_dtype
    cdef int64_t out_h, out_w

    def __cinit__(self, stages, *, scale=None, bias=None, max_pixels=178956970):
        self.stages = tuple(_checked_stage(stage) for stage in stages)
        if (scale is None) != (bias is None):
            raise ValueError("scale and bias go together: give both or neither")
        if not 1 <= max_pixels <= MAX_PIXELS:
            raise ValueError(f"max_pixels must be 1 to {MAX_PIXELS}, not {max_pixels}")
        self.program.max_pixels = max_pixels
        self.program.stages = <img_stage *>calloc(len(self.stages) + 1, sizeof(img_stage))
        if self.program.stages == NULL:
            raise MemoryError("no memory for an ImageProgram")
        self.program.stage_count = len(self.stages)
        for i, (resize, height, width) in enumerate(self.stages):
            self.program.stages[i] = img_stage(resize, height, width)
            self.out_h, self.out_w = height, width
        self.output_dtype = np.dtype(np.uint8)
        if scale is not None:
            self.program.normalise = 1
            self.output_dtype = np.dtype(np.float32)
            for c, (factor, offset) in enumerate(zip(_three(scale, "scale"), _three(bias, "bias"), strict=True)):
                self.program.scale[c] = factor
                self.program.bias[c] = offset

    def __dealloc__(self):
        free(self.program.stages)

    @property
    def output_shape(self):
        """(height, width, 3) or (3, height, width); None when the last stage does not crop, so that sizes differ."""
        if self.out_h == 0:
            return None
        return self._shape(self.out_h, self.out_w)

    def run(self, const uint64_t[::1] addresses not None, const int64_t[::1] lengths not None,
            const uint64_t[::1] out_addresses not None, int64_t out_size_bytes, Scratch scratch not None,
            int32_t[::1] statuses not None):
        """Decode and transform samples whose JPEG bytes lie in memory, each into its place in a batch.

        Borrows all memory for the length of the call; the caller keeps it alive and unmoved. A sample that fails gets
        its status and `scratch.message(i)`, what is in its place is then undefined, and the others go on.

        Args:
            addresses: uint64 (n,), first byte of each sample.
            lengths: int64 (n,), bytes of each sample.
            out_addresses: uint64 (n,), where each result goes; `out_size_bytes` are written there.
            out_size_bytes: Bytes of one result: output_shape times the item's size.
            scratch: Of the calling thread.
            statuses: int32 (n,), filled.

        Returns:
            The number of samples whose status is not OK.

        Raises:
            ValueError: The arrays do not fit together, or the program has no fixed output_shape.
            RuntimeError: Another call uses the scratch.
            MemoryError: There is no memory for messages.
        """
        cdef int64_t count = addresses.shape[0], i, failed
        if lengths.shape[0] != count or out_addresses.shape[0] != count or statuses.shape[0] != count:
            raise ValueError(
                f"addresses, lengths, out_addresses and statuses must be of one length, not {count}, "
                f"{lengths.shape[0]}, {out_addresses.shape[0]} and {statuses.shape[0]}"
            )
        self._check_out(out_size_bytes)
        if count == 0:
            return 0
        for i in range(count):
            if lengths[i] < 0 or (addresses[i] == 0 and lengths[i] > 0) or out_addresses[i] == 0:
                raise ValueError(f"sample {i} has no valid address or a negative length ({lengths[i]})")
        scratch.enter(count)
        with nogil:
            failed = _run(&self.program, scratch.memory, &addresses[0], &lengths[0], &out_addresses[0], self.out_h,
                          self.out_w, &statuses[0], <char *>scratch.messages.data, count)
        scratch.leave()
        return failed

    def run_pixels(self, const uint8_t[:, :, ::1] pixels not None, uint64_t out_address, int64_t out_size_bytes,
                   Scratch scratch not None):
        """Transform pixels that are already decoded into a place in a batch, as `run` does.

        Args:
            pixels: uint8 (height, width, 3), RGB, in the order to see them (no orientation is applied).
            out_address: Where the result goes.
            out_size_bytes: Bytes of the result: output_shape times the item's size.
            scratch: Of the calling thread.

        Raises:
            ImageError: The picture is too large, or there is no memory.
            ValueError: The sizes do not fit, or the program has no fixed output_shape.
            RuntimeError: Another call uses the scratch.
        """
        self._check_out(out_size_bytes)
        if out_address == 0:
            raise ValueError("out_address is 0")
        self._transform(pixels, <void *><uintptr_t>out_address, self.out_h, self.out_w, scratch)

    def decode(self, const uint8_t[::1] data not None, Scratch scratch not None):
        """Decode and transform one JPEG into a new array; its size may depend on the picture.

        Args:
            data: uint8 (n,), bytes of the JPEG (bytes, bytearray, memoryview, array).
            scratch: Of the calling thread.

        Returns:
            uint8 (height, width, 3) or float32 (3, height, width).

        Raises:
            ImageError: The bytes are no JPEG that can be decoded; see its status.
            RuntimeError: Another call uses the scratch.
        """
        cdef int64_t length = data.shape[0], out_h = 0, out_w = 0
        cdef const uint8_t *bytes_ = &data[0] if length > 0 else NULL
        cdef img_header header
        cdef char *message
        cdef int status
        cdef uintptr_t out_address
        scratch.enter(1)
        try:
            message = <char *>scratch.messages.data
            with nogil:
                status = img_jpeg_open(scratch.memory, bytes_, length, self.program.max_pixels, &header, message)
                img_jpeg_close(scratch.memory)
            if status == IMG_OK:
                if header.orientation >= 5:
                    header.height, header.width = header.width, header.height
                status = img_result_size(&self.program, header.height, header.width, &out_h, &out_w, message)
            _raise_for(status, message)
            out = np.empty(self._shape(out_h, out_w), self.output_dtype)
            out_address = out.ctypes.data
            with nogil:
                status = img_run_jpeg(&self.program, scratch.memory, bytes_, length, <void *>out_address, out_h, out_w,
                                      message)
            _raise_for(status, message)
        finally:
            scratch.leave()
        return out

    def apply(self, const uint8_t[:, :, ::1] pixels not None, Scratch scratch not None):
        """Transform pixels that are already decoded into a new array, as `decode` does.

        Args:
            pixels: uint8 (height, width, 3), RGB.
            scratch: Of the calling thread.

        Returns:
            uint8 (height, width, 3) or float32 (3, height, width).

        Raises:
            ImageError: The picture is too large, or there is no memory.
            ValueError: The pixels have another shape, or there are none.
            RuntimeError: Another call uses the scratch.
        """
        cdef int64_t out_h = 0, out_w = 0
        cdef char message[IMG_MESSAGE]
        cdef uintptr_t out_address
        _check_pixels(pixels)
        _raise_for(img_result_size(&self.program, pixels.shape[0], pixels.shape[1], &out_h, &out_w, message), message)
        out = np.empty(self._shape(out_h, out_w), self.output_dtype)
        out_address = out.ctypes.data
        self._transform(pixels, <void *>out_address, out_h, out_w, scratch)
        return out

    cdef int _transform(self, const uint8_t[:, :, ::1] pixels, void *out, int64_t out_h, int64_t out_w,
                        Scratch scratch) except -1:
        cdef int status
        cdef int64_t height = pixels.shape[0], width = pixels.shape[1]
        cdef const uint8_t *rgb
        cdef char *message
        _check_pixels(pixels)
        rgb = &pixels[0, 0, 0]
        scratch.enter(1)
        message = <char *>scratch.messages.data
        try:
            with nogil:
                status = img_result_size(&self.program, height, width, &out_h, &out_w, message)
                if status == IMG_OK:
                    status = img_run_pixels(&self.program, scratch.memory, rgb, height, width, out, out_h, out_w, message)
            _raise_for(status, message)
        finally:
            scratch.leave()
        return 0

    cdef tuple _shape(self, int64_t height, int64_t width):
        if self.program.normalise:
            return (3, height, width)
        return (height, width, 3)

    cdef int _check_out(self, int64_t out_size_bytes) except -1:
        if self.out_h == 0:
            raise ValueError("the last stage has no crop, so results have no fixed size; use decode or apply")
        expected = 3 * self.out_h * self.out_w * self.output_dtype.itemsize
        if out_size_bytes != expected:
            raise ValueError(f"a result has {expected} bytes, not {out_size_bytes}")
        return 0


def probe(const uint8_t[::1] data not None):
    """Read the header of a JPEG.

    Args:
        data: uint8 (n,), bytes of the JPEG, at least up to the first scan.

    Returns:
        (width, height, components, orientation, progressive): sizes as stored, before the orientation (1 .. 8, from EXIF
        or XMP as PIL reads it).

    Raises:
        ImageError: The bytes are no JPEG that can be decoded; see its status.
        MemoryError: There is no memory for a decoder.
    """
    cdef img_header header
    cdef char message[IMG_MESSAGE]
    cdef int status
    cdef Scratch scratch = Scratch()
    cdef int64_t length = data.shape[0]
    cdef const uint8_t *bytes_ = &data[0] if length > 0 else NULL
    with nogil:
        status = _probe(bytes_, length, scratch.memory, &header, message)
    _raise_for(status, message)
    return header.width, header.height, header.components, header.orientation, bool(header.progressive)


def simd_level():
    """Return the name of the loops in use: "avx512", "avx2" or "generic"."""
    return img_current_kernels().name.decode("ascii")


def _set_simd_level(str name not None):
    """Use other loops, for all threads ("" = the best); for tests. Raises ValueError when they cannot run here."""
    if img_choose_kernels(name.encode()) != 0:
        raise ValueError(f"no loops {name!r} on this machine")


cdef int _raise_for(int status, const char *message) except -1:
    if status != IMG_OK:
        raise ImageError(status, (<bytes>message).decode("utf-8", "replace"))
    return 0


cdef int _check_pixels(const uint8_t[:, :, ::1] pixels) except -1:
    if pixels.shape[0] == 0 or pixels.shape[1] == 0 or pixels.shape[2] != 3:
        raise ValueError(
            f"pixels must have shape (height, width, 3), not {(pixels.shape[0], pixels.shape[1], pixels.shape[2])}"
        )
    return 0


def _checked_stage(stage):
    resize, height, width = (int(value) for value in stage)
    if not all(0 <= value <= MAX_SIDE for value in (resize, height, width)):
        raise ValueError(f"stage {(resize, height, width)}: lengths must be 0 to {MAX_SIDE}")
    if (height == 0) != (width == 0):
        raise ValueError(f"stage {(resize, height, width)}: a crop needs both its height and its width")
    if height * width > MAX_PIXELS:
        raise ValueError(f"stage {(resize, height, width)}: the crop has more than {MAX_PIXELS} pixels")
    return resize, height, width


def _three(values, name):
    values = [float(value) for value in values]
    if len(values) != 3 or not all(math.isfinite(value) for value in values):
        raise ValueError(f"{name} must be three finite numbers, not {values}")
    return values
