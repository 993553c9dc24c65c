"""Decodes and transforms a part of a batch of pictures in one call without the GIL.

For one picture the call does what this says, bit for bit if PIL has the same libjpeg-turbo and makes the horizontal pass
of a resize first, as Pillow does up to version 12 (13 begins with the vertical one where that is less work: one level with
bilinear, up to 50 at hard edges with bicubic and lanczos); the oracles are in `tests/native/`:

    picture = ImageOps.exif_transpose(PIL.Image.open(io.BytesIO(data))).convert("RGB")
    for step in steps: picture = step(picture)                                   # torchvision's, on PIL images
    numpy.asarray(picture)                                                       # without scale: uint8 HWC
    numpy.asarray(picture).transpose(2, 0, 1) * scale + bias                     # with scale: float32 CHW

Steps stand in the table of ops.h; plan.c folds them into stages, rows.c runs these row by row. Decoding is in jpeg.c
(libjpeg-turbo), baseline.c and scan.c (most JPEGs) and markers.c; resize in axis.c, resample.c and x86.c after Pillow and
Pillow-SIMD; layout and dtype in layout.c. Pictures that are no JPEG get a status; the caller decodes them with PIL.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

import itertools
import math
import operator

import numpy as np

OK = IMG_OK
NOT_JPEG = IMG_NOT_JPEG
UNSUPPORTED = IMG_UNSUPPORTED
TRUNCATED = IMG_TRUNCATED
CORRUPT = IMG_CORRUPT
TOO_LARGE = IMG_TOO_LARGE
NO_MEMORY = IMG_NO_MEMORY
UNFIT = IMG_UNFIT  # a step can't be done with a picture of this size
CUT = IMG_CUT  # truncated, and the program takes that: the result is there, gray where the data lack something

MAX_SIDE = IMG_MAX_SIDE  # of a resize or crop: what a JPEG can hold
MAX_PIXELS = IMG_MAX_PIXELS  # of a picture, whatever `max_pixels` allows
MAX_SCANS = IMG_MAX_SCANS  # of a JPEG; more are CORRUPT

_MODES = {"rgb": (IMG_RGB, 3), "gray": (IMG_GRAY, 1), "rgba": (IMG_RGBA, 4), "id": (IMG_ID, 1)}

if img_choose_kernels(b"") != 0:
    raise ImportError("toolkit._native.image.program: no set of loops runs on this machine")


include "program/errors.pxi"
include "program/arguments.pxi"
include "program/scratch.pxi"
include "program/steps.pxi"
include "program/probing.pxi"
include "program/batches.pxi"


cdef class ImageProgram:
    """A frozen list of steps; any number of threads may run one, each with its own Scratch.

    Args:
        ops: The steps, in order, each (name, {field: value}): op_table() lists them, and the files of program/ops/ say what
            each takes. A range is (low, high) or a DrawnLevel, or None where a step may lack it; `id` is a random step's uint64, folded into
            the sample's key. Without steps pictures are only decoded.
            ("maybe" or "one_of", {"limits": .., "id": ..}, [steps, ...]) takes the first of its branches whose limit is above
            draw 0, and with "maybe" perhaps none.
            ("mix", {"alpha": .., "id": ..}, [steps, ...]) runs each of its chains on the picture as it is there, and adds what
            they make to it by shares: of the picture and all chains by Beta(alpha, alpha), of the chains by Dirichlet.
        mode: "rgb", "gray" or "rgba": what pictures are decoded to. "id": they are UNSUPPORTED, and pixels are numbers below
            2^24, given as the four bytes of a little-endian uint32. Steps move them only. Results have no channels.
        tensor_ops: Steps on the results, as `ops`: in the batch, when they are written in their dtype, which is a floating one.
        dtype: Of the results; "bfloat16" comes as uint16. Values out of its range become its nearest.
        layout: "hwc" or "chw".
        patch: Pixels of a square's side, if results are squares, row by row: (squares, values), each in the layout; 0: not.
        scale: None for pixels as they are, 0 .. 255, else a float for each channel: pixel * scale + bias in float32.
        bias: A float for each channel when there is a scale.
        max_pixels: Pictures with more pixels, or that a step would give more pixels, are refused as TOO_LARGE.
        max_bytes: Encoded pictures of more bytes are refused as TOO_LARGE.
        exif: Whether the orientation is applied.
        icc: Pictures with a colour profile are UNSUPPORTED, for the caller to decode.
        fast: May decode at a smaller size and repeat chroma instead of interpolating it.
        tolerant: Truncated data are no error: the status is CUT.
        ignore: In mode "id", the number where a step finds no pixels.
        first_step: What messages call the first step.

    Raises:
        ValueError: An argument is out of range; of a step, the message names its number and the field.
    """

    cdef img_program program
    cdef _Steps steps, tensor_steps
    cdef readonly tuple ops, tensor_ops
    cdef readonly object output_dtype
    cdef int64_t out_h, out_w

    def __cinit__(self, ops, *, tensor_ops=(), str mode="rgb", str dtype="uint8", str layout="hwc", scale=None, bias=None,
                  max_pixels=1 << 27, max_bytes=2**63 - 1, bint exif=True, bint icc=False, bint fast=False,
                  bint tolerant=False, ignore=0, int patch=0, int first_step=1):
        self.ops = tuple(tuple(op) for op in ops)
        self.tensor_ops = tuple(tuple(op) for op in tensor_ops)
        if (scale is None) != (bias is None):
            raise ValueError("scale and bias go together: give both or neither")
        if not 1 <= max_pixels <= MAX_PIXELS:
            raise ValueError(f"max_pixels must be 1 to {MAX_PIXELS}, not {max_pixels}")
        if not 1 <= max_bytes < 2**63:
            raise ValueError(f"max_bytes must be 1 to {2**63 - 1}, not {max_bytes}")
        if layout not in ("hwc", "chw"):
            raise ValueError(f"layout must be 'hwc' or 'chw', not {layout!r}")
        self.program.max_pixels, self.program.max_bytes = max_pixels, max_bytes
        self.program.exif, self.program.icc, self.program.fast, self.program.tolerant = exif, icc, fast, tolerant
        self.program.mode, self.program.layout.channels = _one_of(_MODES, mode, "mode")
        self.program.layout.dtype, item = _one_of(_DTYPES, dtype, "dtype")
        self.output_dtype = np.dtype(item)
        self.program.layout.item = self.output_dtype.itemsize
        self.program.layout.chw, self.program.layout.patch = layout == "chw", _patch_of(patch, mode)
        if not 0 <= ignore < 1 << 24 or (mode == "id" and scale is not None):
            raise ValueError("ignore must be 0 to 2**24 - 1, and ids have no scale")
        self.program.ignore, self.program.layout.words = ignore, mode == "id"
        self.steps = _Steps(self.ops, self.program.layout.channels, mode == "id", max_pixels, first_step, False)
        self.program.steps = self.steps.chain
        self.program.layout.channels = self.steps.shape.channels
        self.program.layout.view_height = self.steps.shape.view_height
        self.out_h, self.out_w = self.steps.shape.height, self.steps.shape.width
        self.tensor_steps = _Steps(self.tensor_ops, self.program.layout.channels, mode == "id", max_pixels,
                                   first_step + len(self.ops), True)
        self.program.tensor_steps = self.tensor_steps.chain
        if self.tensor_ops and (dtype not in FLOATS or patch or self.steps.shape.view_height):
            raise ValueError(f"tensor_ops are for results of {', '.join(FLOATS)}, not {dtype}, and of one picture")
        self.program.layout.normalise = scale is not None
        channels = self.program.layout.channels
        for c, (factor, offset) in enumerate(zip(_floats(scale, channels, "scale", 1.0),
                                                 _floats(bias, channels, "bias", 0.0), strict=True)):
            self.program.layout.scale[c] = factor
            self.program.layout.bias[c] = offset

    @property
    def random(self):
        """Whether a step draws, so that every sample needs a key."""
        return self.steps.random or self.tensor_steps.random

    @property
    def output_shape(self):
        """(height, width, channels), (channels, height, width), or (height, width) of ids; with several pictures their
        number in front; None when sizes depend on the picture.
        """
        if self.out_h == 0:
            return None
        return self._shape(self.out_h, self.out_w)

    def result_size(self, int64_t height, int64_t width, key=None):
        """Return (height, width) of what becomes of an upright picture of that size. Raises as `apply` does."""
        cdef int64_t out_h = 0, out_w = 0
        cdef char message[IMG_MESSAGE]
        cdef Scratch scratch = Scratch()
        if height < 1 or width < 1:
            raise ValueError(f"a picture has pixels, not {(height, width)}")
        _raise_for(img_result_size(&self.program, scratch.memory, height, width, self._key(key), &out_h, &out_w, message),
                   message)
        return out_h, out_w

    def run(self, const uint64_t[::1] addresses not None, const int64_t[::1] lengths not None,
            const uint64_t[::1] out_addresses not None, int64_t out_size_bytes, Scratch scratch not None,
            int32_t[::1] statuses not None, const uint64_t[::1] keys=None):
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
            keys: uint64 (n,), what each sample's random steps draw from; needed when there are any.

        Returns:
            The number of samples whose status is not OK.

        Raises:
            ValueError: The arrays do not fit together, or the program has no fixed output_shape.
            RuntimeError: Another call uses the scratch.
            MemoryError: There is no memory for messages.
        """
        cdef int64_t count = addresses.shape[0], at = 0
        self._check_call(count, lengths.shape[0], out_addresses, statuses, keys, out_size_bytes)
        if count == 0:
            return 0
        _check_samples(addresses, lengths)
        scratch.enter(count)
        try:
            while True:
                with nogil:
                    at = _run(&self.program, scratch.memory, &addresses[0], &lengths[0],
                              &keys[0] if keys is not None else NULL, &out_addresses[0], self.out_h, self.out_w,
                              &statuses[0], <char *>scratch.messages.data, at, count)
                if at == count:
                    return _failed(statuses)
                if not scratch.is_granted(at):
                    statuses[at] = IMG_TOO_LARGE
                    at += 1
        finally:
            scratch.leave()

    def run_raw(self, const uint64_t[::1] addresses not None, const int64_t[:, ::1] sizes not None,
                const uint64_t[::1] out_addresses not None, int64_t out_size_bytes, Scratch scratch not None,
                int32_t[::1] statuses not None, const uint64_t[::1] keys=None):
        """Transform pictures that are already decoded, as `run` does; no orientation is applied.

        Args:
            addresses: uint64 (n,), first byte of each picture: uint8 HWC, rows without gaps.
            sizes: int64 (n, 3), height, width and channels of each: 1 (L), 3 (RGB) or 4 (RGBA).
            out_addresses: As in `run`.
            out_size_bytes: As in `run`.
            scratch: As in `run`.
            statuses: As in `run`.
            keys: As in `run`.

        Returns:
            The number of pictures whose status is not OK.

        Raises:
            ValueError: As in `run`, or a picture has no pixels or other channels.
            RuntimeError: Another call uses the scratch.
            MemoryError: There is no memory for messages.
        """
        cdef int64_t count = addresses.shape[0], i, at = 0
        self._check_call(count, sizes.shape[0], out_addresses, statuses, keys, out_size_bytes)
        if sizes.shape[1] != 3:
            raise ValueError(f"sizes must have shape (n, 3), not {(sizes.shape[0], sizes.shape[1])}")
        if count == 0:
            return 0
        for i in range(count):
            if addresses[i] == 0 or min(sizes[i, 0], sizes[i, 1]) < 1 or sizes[i, 2] not in (1, 3, 4):
                raise ValueError(
                    f"picture {i} has no address, or no pixels, or other than 1, 3 or 4 channels: "
                    f"{(sizes[i, 0], sizes[i, 1], sizes[i, 2])}"
                )
        scratch.enter(count)
        try:
            while True:
                with nogil:
                    at = _run_raw(&self.program, scratch.memory, &addresses[0], &sizes[0, 0],
                                  &keys[0] if keys is not None else NULL, &out_addresses[0], self.out_h, self.out_w,
                                  &statuses[0], <char *>scratch.messages.data, at, count)
                if at == count:
                    return _failed(statuses)
                if not scratch.is_granted(at):
                    statuses[at] = IMG_TOO_LARGE
                    at += 1
        finally:
            scratch.leave()

    def decode(self, const uint8_t[::1] data not None, Scratch scratch not None, key=None, warn=None):
        """Decode and transform one JPEG into a new array; its size may depend on the picture.

        Args:
            data: uint8 (n,), bytes of the JPEG (bytes, bytearray, memoryview, array).
            scratch: Of the calling thread.
            key: What random steps draw from; needed when there are any.
            warn: Called with a message when the picture is truncated and the program tolerates it.

        Returns:
            The result, of output_dtype.

        Raises:
            ImageError: The bytes are no JPEG that can be decoded; see its status.
            ValueError: A step is random and there is no key.
            RuntimeError: Another call uses the scratch.
        """
        while True:
            try:
                return self._decode(data, scratch, self._key(key), warn)
            except ImageError as error:
                if error.status != NO_MEMORY or not scratch.wants_memory():
                    raise
            if not scratch.is_granted(0):
                raise ImageError(TOO_LARGE, scratch.message(0))

    cdef object _decode(self, const uint8_t[::1] data, Scratch scratch, uint64_t drawn, object warn):
        cdef int64_t length = data.shape[0], out_h = 0, out_w = 0
        cdef const uint8_t *bytes_ = &data[0] if length > 0 else NULL
        cdef img_header header
        cdef char *message
        cdef int status, is_turned
        cdef uintptr_t out_address
        scratch.enter(1)
        try:
            message = <char *>scratch.messages.data
            with nogil:
                status = img_open(&self.program, scratch.memory, bytes_, length, &header, message)
                if status == IMG_OK:
                    is_turned = header.orientation >= 5
                    status = img_result_size(&self.program, scratch.memory, header.width if is_turned else header.height,
                                             header.height if is_turned else header.width, drawn, &out_h, &out_w, message)
            _raise_for(status, message)
            out = np.empty(self._shape(out_h, out_w), self.output_dtype)
            out_address = out.ctypes.data
            with nogil:
                status = img_run_open(&self.program, scratch.memory, &header, drawn, <void *>out_address, out_h, out_w,
                                      message)
            if status != IMG_CUT:
                _raise_for(status, message)
            text = (<bytes>message).decode("utf-8", "replace")
        finally:
            img_jpeg_close(scratch.memory.jpeg)
            scratch.leave()
        if status == IMG_CUT and warn is not None:
            warn(text)
        return out

    def apply(self, const uint8_t[:, :, ::1] pixels not None, Scratch scratch not None, key=None):
        """Transform pixels that are already decoded into a new array, as `decode` does.

        Args:
            pixels: uint8 (height, width, channels): 1 (L), 3 (RGB) or 4 (RGBA).
            scratch: Of the calling thread.
            key: As in `decode`.

        Returns:
            The result, of output_dtype.

        Raises:
            ImageError: The picture is too large, or there is no memory.
            ValueError: The pixels have another shape, or there are none; or there is no key.
            RuntimeError: Another call uses the scratch.
        """
        while True:
            try:
                return self._apply(pixels, scratch, self._key(key))
            except ImageError as error:
                if error.status != NO_MEMORY or not scratch.wants_memory():
                    raise
            if not scratch.is_granted(0):
                raise ImageError(TOO_LARGE, scratch.message(0))

    cdef object _apply(self, const uint8_t[:, :, ::1] pixels, Scratch scratch, uint64_t drawn):
        cdef int64_t out_h = 0, out_w = 0
        cdef img_pixels picture
        cdef char *message
        cdef int status
        cdef uintptr_t out_address
        if pixels.shape[0] == 0 or pixels.shape[1] == 0 or pixels.shape[2] not in (1, 3, 4):
            raise ValueError(
                f"pixels must have shape (height, width, 1, 3 or 4), not "
                f"{(pixels.shape[0], pixels.shape[1], pixels.shape[2])}"
            )
        picture.data = &pixels[0, 0, 0]
        picture.height, picture.width, picture.channels = pixels.shape[0], pixels.shape[1], <int>pixels.shape[2]
        scratch.enter(1)
        try:
            message = <char *>scratch.messages.data
            with nogil:
                status = img_result_size(&self.program, scratch.memory, picture.height, picture.width, drawn, &out_h,
                                         &out_w, message)
            _raise_for(status, message)
            out = np.empty(self._shape(out_h, out_w), self.output_dtype)
            out_address = out.ctypes.data
            with nogil:
                status = img_run_pixels(&self.program, scratch.memory, &picture, drawn, <void *>out_address, out_h,
                                        out_w, message)
            _raise_for(status, message)
        finally:
            scratch.leave()
        return out

    cdef uint64_t _key(self, key) except? 0:
        if key is None and self.random:
            raise ValueError("a step is random: give the sample's key")
        return 0 if key is None else key

    cdef tuple _shape(self, int64_t height, int64_t width):
        return _result_shape(&self.program.layout, height, width)

    cdef int _check_call(self, int64_t count, int64_t inputs, const uint64_t[::1] outs, int32_t[::1] statuses,
                         const uint64_t[::1] keys, int64_t out_size_bytes) except -1:
        cdef int64_t i
        if inputs != count or outs.shape[0] != count or statuses.shape[0] != count or (
            keys is not None and keys.shape[0] != count
        ):
            raise ValueError(
                f"all arrays must be of one length, not {count}, {inputs}, {outs.shape[0]}, {statuses.shape[0]}"
                + (f" and {keys.shape[0]}" if keys is not None else "")
            )
        if keys is None and self.random:
            raise ValueError("a step is random: give the samples' keys")
        if self.out_h == 0:
            raise ValueError("sizes depend on the picture, so results have no fixed size; use decode or apply")
        expected = self.program.layout.channels * self.out_h * self.out_w * self.program.layout.item
        if out_size_bytes != expected:
            raise ValueError(f"a result has {expected} bytes, not {out_size_bytes}")
        for i in range(count):
            if outs[i] == 0:
                raise ValueError(f"sample {i} has no valid place")
        return 0


include "program/together.pxi"
