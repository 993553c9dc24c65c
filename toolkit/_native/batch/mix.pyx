"""Mix samples of a batch in pairs, in place: blend(), and swap_boxes() and paste_boxes() of pictures.

blend() is first, second = first * share + second * rest, second * share + first * rest in numpy, of float32 arrays,
and swap_boxes() is first[box], second[box] = second[box].copy(), first[box].copy(). paste_boxes() puts all of the
partner there, resized: resized() in tests/native/batch/test_paste.py says the same in numpy.
"""

from libc.stdint cimport int64_t, uint8_t

cdef extern from "batch/mix/mix.h" nogil:
    enum:
        MIX_DTYPES
    int64_t mix_width(int dtype)
    void mix_blend(void *first, void *second, int64_t count, int dtype, float share, float rest)
    void mix_swap(
        uint8_t *first, uint8_t *second, int64_t planes, int64_t plane, int64_t rows, int64_t stride, int64_t bytes
    )
    ctypedef struct mix_picture:
        int64_t planes, height, width, channels
        int dtype
    int mix_paste(const mix_picture *of, uint8_t *first, uint8_t *second, const int64_t *box)

# Dtypes that can be blended, in the order of mix_dtype.
BLENDED = ("uint8", "float16", "bfloat16", "float32", "float64")


def blend(
    uint8_t[::1] values not None, int64_t item, str dtype not None, const int64_t[:, ::1] pairs not None,
    const float[::1] shares not None,
):
    """Blend each two samples of `pairs`: the first keeps its share of itself, and so does the second.

    `values` are the bytes of samples of `item` bytes each. Pairs should have no sample in common.
    """
    if dtype not in BLENDED:
        raise ValueError(f"{dtype} can't be blended")
    cdef int kind = BLENDED.index(dtype)
    cdef int64_t samples = _samples(values, item, pairs), i, count = pairs.shape[0]
    cdef uint8_t *first
    if item % mix_width(kind):
        raise ValueError(f"{item} bytes are no whole number of {dtype}")
    if shares.shape[0] != count:
        raise ValueError(f"{shares.shape[0]} shares for {count} pairs")
    if count == 0 or samples == 0:
        return
    first = &values[0]
    with nogil:
        for i in range(count):
            mix_blend(
                first + pairs[i, 0] * item, first + pairs[i, 1] * item, item // mix_width(kind), kind, shares[i],
                1 - shares[i],
            )


def swap_boxes(
    uint8_t[::1] values not None, int64_t planes, int64_t height, int64_t width, int64_t pixel,
    const int64_t[:, ::1] pairs not None, const int64_t[:, ::1] boxes not None,
):
    """Swap boxes[i], (top, bottom, left, right), between the two samples of pairs[i].

    A sample is `planes` planes of height x width pixels of `pixel` bytes.
    """
    cdef int64_t item = _picture(planes, height, width, pixel), row = width * pixel, plane = height * row, offset
    cdef int64_t samples = _samples(values, item, pairs), i, count = pairs.shape[0]
    cdef uint8_t *first
    _check_boxes(boxes, count, height, width)
    if count == 0 or samples == 0:
        return
    first = &values[0]
    with nogil:
        for i in range(count):
            offset = boxes[i, 0] * row + boxes[i, 2] * pixel
            mix_swap(
                first + pairs[i, 0] * item + offset, first + pairs[i, 1] * item + offset, planes, plane,
                boxes[i, 1] - boxes[i, 0], row, (boxes[i, 3] - boxes[i, 2]) * pixel,
            )


def paste_boxes(
    uint8_t[::1] values not None, int64_t planes, int64_t height, int64_t width, int64_t channels, str dtype not None,
    const int64_t[:, ::1] pairs not None, const int64_t[:, ::1] boxes not None,
):
    """Put each sample of pairs[i], made smaller, into boxes[i] of the other; boxes aren't empty.

    A sample is `planes` planes of height x width pixels of `channels` values.
    """
    if dtype not in BLENDED:
        raise ValueError(f"{dtype} can't be resized")
    cdef mix_picture of
    of.planes, of.height, of.width, of.channels, of.dtype = planes, height, width, channels, BLENDED.index(dtype)
    if channels > 1 << 20:
        raise ValueError(f"no picture has {channels} channels")
    cdef int64_t item = _picture(planes, height, width, channels * mix_width(of.dtype))
    cdef int64_t samples = _samples(values, item, pairs), i, count = pairs.shape[0]
    cdef uint8_t *first
    cdef int made = 1
    _check_boxes(boxes, count, height, width)
    for i in range(count):
        if boxes[i, 0] == boxes[i, 1] or boxes[i, 2] == boxes[i, 3]:
            raise ValueError(f"box {i} is empty")
    if count == 0 or samples == 0:
        return
    first = &values[0]
    with nogil:
        for i in range(count):
            made = mix_paste(&of, first + pairs[i, 0] * item, first + pairs[i, 1] * item, &boxes[i, 0])
            if not made:
                break
    if not made:
        raise MemoryError("no memory to resize a picture")


cdef int64_t _picture(int64_t planes, int64_t height, int64_t width, int64_t pixel) except -1:
    """Return the bytes of a picture. Raises ValueError: there is none like that."""
    if min(planes, height, width, pixel) < 1 or max(planes, height, width, pixel) > 1 << 31:
        raise ValueError(f"no picture has {planes} planes of {height} x {width} pixels of {pixel} bytes")
    if planes * height > (1LL << 62) // (width * pixel):
        raise ValueError("a picture is too large")
    return planes * height * width * pixel


cdef int _check_boxes(const int64_t[:, ::1] boxes, int64_t count, int64_t height, int64_t width) except -1:
    cdef int64_t i
    if boxes.shape[0] != count or boxes.shape[1] != 4:
        raise ValueError(f"{count} pairs need as many boxes of four sides")
    for i in range(count):
        if not (0 <= boxes[i, 0] <= boxes[i, 1] <= height and 0 <= boxes[i, 2] <= boxes[i, 3] <= width):
            raise ValueError(f"box {i} doesn't lie in {height} x {width}")
    return 0


cdef int64_t _samples(const uint8_t[::1] values, int64_t item, const int64_t[:, ::1] pairs) except -1:
    """Return how many samples of `item` bytes there are. Raises ValueError: a pair is none of two of them."""
    cdef int64_t i, samples
    if item < 1 or values.shape[0] % item:
        raise ValueError(f"{values.shape[0]} bytes are no samples of {item}")
    samples = values.shape[0] // item
    if pairs.shape[1] != 2:
        raise ValueError("a pair is two samples")
    for i in range(pairs.shape[0]):
        if not (0 <= pairs[i, 0] < samples and 0 <= pairs[i, 1] < samples and pairs[i, 0] != pairs[i, 1]):
            raise ValueError(f"pair {i} is not two of {samples} samples")
    return samples
