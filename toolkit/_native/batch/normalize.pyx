"""Normalise samples of a batch channel by channel.

normalize_floats() is values[there] = (values[there] - mean) / std in numpy, and normalize_pixels() is
out[there] = pixels[there].astype(numpy.float32) * scale + bias, with mean, std, scale and bias of a value's channel.
"""

from libc.stdint cimport int64_t, uint8_t

cdef extern from "batch/normalize/normalize.h" nogil:
    enum:
        NORMALIZE_CHANNELS
    ctypedef struct normalize_plan:
        int64_t channels, inner
        float *scale
        float *bias
        double *mean
        double *std
    int64_t normalize_width(int dtype)
    void normalize_pixels_c "normalize_pixels"(
        const normalize_plan *plan, const uint8_t *pixels, float *out, int64_t count
    )
    void normalize_floats_c "normalize_floats"(const normalize_plan *plan, void *values, int64_t count, int dtype)

MAX_CHANNELS = NORMALIZE_CHANNELS
# Dtypes that are normalised in place, in the order of normalize_dtype.
FLOATS = ("float16", "bfloat16", "float32", "float64")


def normalize_pixels(
    const uint8_t[::1] pixels not None, float[::1] out not None, const uint8_t[::1] there not None, int64_t inner,
    const float[::1] scale not None, const float[::1] bias not None,
):
    """Normalise the pixels of samples that are `there` into `out`; runs of `inner` values are of one channel."""
    cdef normalize_plan plan
    cdef int64_t count = _item(pixels.shape[0], there.shape[0]), i
    _check_runs(count, scale.shape[0], bias.shape[0], inner)
    if out.shape[0] != pixels.shape[0]:
        raise ValueError(f"{pixels.shape[0]} pixels don't fit {out.shape[0]} values")
    plan.channels, plan.inner = scale.shape[0], inner
    for i in range(plan.channels):
        plan.scale[i], plan.bias[i] = scale[i], bias[i]
    if count == 0:
        return
    with nogil:
        for i in range(there.shape[0]):
            if there[i]:
                normalize_pixels_c(&plan, &pixels[i * count], &out[i * count], count)


def normalize_floats(
    uint8_t[::1] values not None, str dtype not None, const uint8_t[::1] there not None, int64_t inner,
    const double[::1] mean not None, const double[::1] std not None,
):
    """Normalise the samples that are `there` in place; `values` are their bytes."""
    if dtype not in FLOATS:
        raise ValueError(f"{dtype} isn't normalised in place")
    cdef int kind = FLOATS.index(dtype)
    cdef normalize_plan plan
    cdef int64_t width = normalize_width(kind), count = _item(values.shape[0], there.shape[0] * width), i
    _check_runs(count, mean.shape[0], std.shape[0], inner)
    plan.channels, plan.inner = mean.shape[0], inner
    for i in range(plan.channels):
        plan.mean[i], plan.std[i] = mean[i], std[i]
    if count == 0:
        return
    with nogil:
        for i in range(there.shape[0]):
            if there[i]:
                normalize_floats_c(&plan, &values[i * count * width], count, kind)


cdef int64_t _item(int64_t size, int64_t samples) except -1:
    """Return the values of a sample. Raises ValueError: these are no samples."""
    if samples == 0:
        if size:
            raise ValueError(f"{size} values of no samples")
        return 0
    if size % samples:
        raise ValueError(f"{size} can't be dealt out to {samples}")
    return size // samples


cdef int _check_runs(int64_t count, int64_t channels, int64_t others, int64_t inner) except -1:
    if not 1 <= channels <= NORMALIZE_CHANNELS or others != channels:
        raise ValueError(f"{channels} and {others} values are not one a channel, of 1..{NORMALIZE_CHANNELS}")
    if inner < 1 or inner > (1LL << 60) or count % (channels * inner):
        raise ValueError(f"{count} values are no runs of {inner} of {channels} channels")
    return 0
