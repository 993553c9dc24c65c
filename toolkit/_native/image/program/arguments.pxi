"""Checks of what a program is made with; included in program.pyx."""

# bfloat16 has no numpy dtype: its bits are handed out as uint16.
_DTYPES = {
    "uint8": (IMG_U8, np.uint8), "int16": (IMG_I16, np.int16), "uint16": (IMG_U16, np.uint16),
    "int32": (IMG_I32, np.int32), "uint32": (IMG_U32, np.uint32), "int64": (IMG_I64, np.int64),
    "uint64": (IMG_U64, np.uint64), "float16": (IMG_F16, np.float16), "bfloat16": (IMG_BF16, np.uint16),
    "float32": (IMG_F32, np.float32), "float64": (IMG_F64, np.float64),
}
DTYPES = tuple(_DTYPES)
FLOATS = ("float16", "bfloat16", "float32", "float64")  # of which results can be changed in their batch


def _one_of(known, name, what):
    if name not in known:
        raise ValueError(f"{what} must be one of {', '.join(known)}, not {name!r}")
    return known[name]


def _floats(values, count, name, default):
    values = [default] * count if values is None else [float(value) for value in values]
    if len(values) != count or not all(math.isfinite(value) for value in values):
        raise ValueError(f"{name} must be {count} finite numbers, not {values}")
    return values


def _patch_of(patch, mode):
    if not 0 <= patch <= IMG_MAX_SIDE or (patch > 0 and mode == "id"):
        raise ValueError(f"patch must be 0 to {IMG_MAX_SIDE}, and ids have none, not {patch}")
    return patch


cdef tuple _result_shape(const img_layout *layout, int64_t height, int64_t width):
    """Return the shape of a result of height x width pixels."""
    cdef int64_t channels = layout.channels, side = layout.patch
    views = ()
    if layout.view_height > 0:
        views, height = (height // layout.view_height,), layout.view_height
    if layout.words:
        return *views, height, width
    if side > 0:
        return *views, height // side * (width // side), channels * side * side
    return (*views, channels, height, width) if layout.chw else (*views, height, width, channels)
