"""Decodes and transforms a part of a batch of pictures in one call without the GIL.

For one picture the call does what this says, bit for bit if PIL has the same libjpeg-turbo and makes the horizontal pass
of a resize first, as Pillow does up to version 12 (13 begins with the vertical one where that is less work: one level with
bilinear, up to 50 at hard edges with bicubic and lanczos); the oracles are in `tests/native/`:

    picture = ImageOps.exif_transpose(PIL.Image.open(io.BytesIO(data))).convert("RGB")
    for step in steps: picture = step(picture)                                   # torchvision's, on PIL images
    numpy.asarray(picture)                                                       # without scale: uint8 HWC
    numpy.asarray(picture).transpose(2, 0, 1) * scale + bias                     # with scale: float32 CHW

Steps stand in the table of ops.h; plan.c folds them into stages, run.c runs these row by row. Decoding is in jpeg.c (libjpeg-turbo),
baseline.c and huffman.c (most JPEGs) and exif.c; resize in axis.c, resample.c and
x86.c after Pillow and Pillow-SIMD; layout and dtype in pack.c. Pictures that are no
JPEG get a status; the caller decodes them with PIL.
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
CUT = IMG_CUT  # truncated, and the program takes that: the result is there, gray where the data lack something

MAX_SIDE = IMG_MAX_SIDE  # of a resize or crop: what a JPEG can hold
MAX_PIXELS = IMG_MAX_PIXELS  # of a picture, whatever `max_pixels` allows
MAX_OPS = IMG_MAX_OPS  # that a picture passes through
MAX_DEPTH = IMG_MAX_DEPTH  # of branches within branches
MAX_SCANS = IMG_MAX_SCANS  # of a JPEG; more are CORRUPT

_MODES = {"rgb": (IMG_RGB, 3), "gray": (IMG_GRAY, 1), "rgba": (IMG_RGBA, 4)}
# bfloat16 has no numpy dtype: its bits are handed out as uint16.
_DTYPES = {
    "uint8": (IMG_U8, np.uint8), "int16": (IMG_I16, np.int16), "uint16": (IMG_U16, np.uint16),
    "int32": (IMG_I32, np.int32), "uint32": (IMG_U32, np.uint32), "int64": (IMG_I64, np.int64),
    "uint64": (IMG_U64, np.uint64), "float16": (IMG_F16, np.float16), "bfloat16": (IMG_BF16, np.uint16),
    "float32": (IMG_F32, np.float32), "float64": (IMG_F64, np.float64),
}

if img_choose_kernels(b"") != 0:
    raise ImportError("toolkit._native.image.program: no set of loops runs on this machine")


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


# Both return the sample that wants more memory than the scratch may take, or `count`.
cdef int64_t _run(const img_program *program, img_scratch *scratch, const uint64_t *addresses, const int64_t *lengths,
                  const uint64_t *keys, const uint64_t *outs, int64_t out_h, int64_t out_w, int32_t *statuses,
                  char *messages, int64_t first, int64_t count) noexcept nogil:
    cdef int64_t i
    for i in range(first, count):
        messages[i * IMG_MESSAGE] = 0
        statuses[i] = img_run_jpeg(program, scratch, <const uint8_t *><uintptr_t>addresses[i], lengths[i],
                                   keys[i] if keys != NULL else 0, <void *><uintptr_t>outs[i], out_h, out_w,
                                   messages + i * IMG_MESSAGE)
        if statuses[i] == IMG_NO_MEMORY and scratch.room.wanted > 0:
            return i
    return count


cdef int64_t _run_raw(const img_program *program, img_scratch *scratch, const uint64_t *addresses,
                      const int64_t *sizes, const uint64_t *keys, const uint64_t *outs, int64_t out_h, int64_t out_w,
                      int32_t *statuses, char *messages, int64_t first, int64_t count) noexcept nogil:
    cdef int64_t i
    cdef img_pixels pixels
    for i in range(first, count):
        messages[i * IMG_MESSAGE] = 0
        pixels.data = <const uint8_t *><uintptr_t>addresses[i]
        pixels.height, pixels.width, pixels.channels = sizes[3 * i], sizes[3 * i + 1], <int>sizes[3 * i + 2]
        statuses[i] = img_run_pixels(program, scratch, &pixels, keys[i] if keys != NULL else 0,
                                     <void *><uintptr_t>outs[i], out_h, out_w, messages + i * IMG_MESSAGE)
        if statuses[i] == IMG_NO_MEMORY and scratch.room.wanted > 0:
            return i
    return count


cdef class Scratch:
    """The memory one thread decodes with: grows to what the largest picture needed, kept from call to call.

    Owns its memory until it is dropped. One call at a time may use it; a second one raises RuntimeError.

    Attributes:
        room: None, or what is called before it grows above `limit`, with the bytes that it would have then, libjpeg's
            included. It returns None, and `limit` is that; or why not: the picture is then refused as TOO_LARGE.

    Raises:
        MemoryError: There is no memory for it.
    """

    cdef img_scratch *memory
    cdef img_buffer messages
    cdef int64_t message_count
    cdef bint busy
    cdef public object room

    def __cinit__(self):
        self.memory = img_scratch_new()
        if self.memory == NULL:
            raise MemoryError("no memory for a Scratch")
        self.messages.room = &self.memory.room

    def __dealloc__(self):
        img_scratch_free(self.memory)
        free(self.messages.data)

    @property
    def nbytes(self):
        """Bytes it holds between calls. While a call runs, libjpeg holds some more (progressive: 6 bytes a pixel)."""
        return img_scratch_bytes(self.memory)

    @property
    def limit(self):
        """Bytes that it may grow to without asking `room`."""
        return self.memory.room.most

    @limit.setter
    def limit(self, int64_t nbytes):
        self.memory.room.most = nbytes

    @property
    def own_decodes(self):
        """Pictures that toolkit's decoder for sequential JPEGs has decoded; libjpeg-turbo has decoded the others."""
        return self.memory.own

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
        while img_reserve(&self.messages, <uint64_t>message_count * IMG_MESSAGE) != IMG_OK:
            refused = self.ask() if self.wants_memory() else "no memory for the messages of a Scratch"
            if refused is not None:
                raise MemoryError(refused)
        memset(self.messages.data, 0, <size_t>(message_count * IMG_MESSAGE))
        self.message_count = message_count
        self.busy = True
        return 0

    cdef bint wants_memory(self) noexcept:
        return self.memory.room.wanted > 0

    cdef object ask(self):
        """Ask for the memory that is wanted; return why there is none."""
        cdef int64_t wanted = self.memory.room.wanted
        self.memory.room.wanted = 0
        refused = self.room(wanted) if self.room is not None else None
        if refused is None:
            self.memory.room.most = max(self.memory.room.most, wanted)
        return refused

    cdef bint is_granted(self, int64_t i) except -1:
        """Ask for the memory that sample `i` wants; where there is none, its message says why."""
        refused = self.ask()
        if refused is None:
            return True
        text = refused.encode()[: IMG_MESSAGE - 1]
        memcpy(self.messages.data + i * IMG_MESSAGE, <const char *>text, len(text) + 1)
        return False

    cdef void leave(self) noexcept:
        self.busy = False


cdef class ImageProgram:
    """A frozen list of steps; any number of threads may run one, each with its own Scratch.

    Args:
        ops: The steps, in order, each
            (name, {field: value, ...}); op_table() lists them, and the files of program/ops/ say what each takes.
            ("maybe", {"p", "id"}, steps) takes its steps where draw 0 is below p; ("one_of", {"weights", "id"}, [steps, ...])
            those of one branch: the first whose share of the weights, with all before it, lies above draw 0.
            They mean what toolkit/pipelines/image/steps.py says. A range is (low, high), or None where a step may lack it;
            id is a random step's uint64, folded into the sample's key. Without steps pictures are only decoded.
        mode: "rgb", "gray" or "rgba": what pictures are decoded to.
        dtype: Of the results; "bfloat16" comes as uint16. Values out of its range become its nearest.
        layout: "hwc" or "chw".
        scale: None for pixels as they are, 0 .. 255, else a float for each channel: pixel * scale + bias in float32.
        bias: A float for each channel when there is a scale.
        max_pixels: Pictures with more pixels, or that a step would give more pixels, are refused as TOO_LARGE.
        max_bytes: Encoded pictures of more bytes are refused as TOO_LARGE.
        exif: Whether the orientation is applied.
        icc: Pictures with a colour profile are UNSUPPORTED, for the caller to decode.
        fast: May decode at a smaller size and repeat chroma instead of interpolating it.
        tolerant: Truncated data are no error: the status is CUT.

    Raises:
        ValueError: An argument is out of range; of a step, the message names its number and the field.
    """

    cdef img_program program
    cdef list blocks
    cdef readonly tuple ops
    cdef readonly object output_dtype
    cdef readonly bint random
    cdef int64_t out_h, out_w

    def __cinit__(self, ops, *, str mode="rgb", str dtype="uint8", str layout="hwc", scale=None, bias=None,
                  max_pixels=1 << 27, max_bytes=2**63 - 1, bint exif=True, bint icc=False, bint fast=False,
                  bint tolerant=False):
        self.ops, self.blocks = tuple(tuple(op) for op in ops), []
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
        self.program.layout.chw = layout == "chw"
        self._add_steps()
        self.program.layout.normalise = scale is not None
        channels = self.program.layout.channels
        for c, (factor, offset) in enumerate(zip(_floats(scale, channels, "scale", 1.0),
                                                 _floats(bias, channels, "bias", 0.0), strict=True)):
            self.program.layout.scale[c] = factor
            self.program.layout.bias[c] = offset

    cdef int _add_steps(self) except -1:
        """Fill the steps, and know the result's channels, and its size where it does not depend on the picture."""
        cdef img_shape shape
        shape.height, shape.width, shape.channels = 0, 0, self.program.layout.channels
        count = self._add_chain(&self.program.steps, self.ops, "", 0, &shape)
        if count > MAX_OPS:
            raise ValueError(f"{count} steps are more than {MAX_OPS}")
        self.out_h, self.out_w, self.program.layout.channels = shape.height, shape.width, shape.channels
        return 0

    cdef int _add_chain(self, img_chain *chain, object given, str where, int depth, img_shape *shape) except -1:
        """Fill a chain; return the most steps that a picture passes through."""
        cdef img_op *op
        if not isinstance(given, (tuple, list)):
            raise ValueError(f"{where}steps must be a list, not {given!r}")
        op = <img_op *>self._take(len(given) * sizeof(img_op))
        chain.ops, chain.count = op, len(given)
        passes = 0
        for i, one in enumerate(given):
            at = f"{where}step {i + 1}"
            one = tuple(one)
            if len(one) < 2 or not isinstance(one[0], str) or not isinstance(one[1], dict):
                raise ValueError(f"{at} must be (name, fields), not {one}")
            if one[0] in ("maybe", "one_of"):
                passes += self._add_branch(op, one, f"{at} ({one[0]})", depth, shape)
            else:
                self._add_op(op, one, at, shape)
                passes += 1
            op += 1
        return passes

    cdef int _add_op(self, img_op *op, tuple given, str where, img_shape *shape) except -1:
        if len(given) != 2:
            raise ValueError(f"{where} must be (name, fields), not {given}")
        name, fields = given
        op.kind = img_find_op_kind(name.encode())
        if op.kind == NULL:
            raise ValueError(f"{where}: no step is called {name!r}: there are {', '.join(op_table())}, maybe, one_of")
        try:
            _fill_op(op, <uint8_t *>self._take(op.kind.params_size), fields)
        except ValueError as error:
            raise ValueError(f"{where} ({name}): {error}") from error
        self.random |= op.kind.draws
        if op.kind.follow != NULL:
            op.kind.follow(op.params, shape)
        if shape.height * shape.width > self.program.max_pixels:
            raise ValueError(
                f"{where} ({name}): results of {shape.height}x{shape.width} have more than "
                f"max_pixels={self.program.max_pixels}"
            )
        return 0

    cdef int _add_branch(self, img_op *op, tuple given, str where, int depth, img_shape *shape) except -1:
        """Fill a branch; return the most steps of a way through it."""
        cdef img_chain *ways
        cdef double *limits
        cdef img_shape before = shape[0], after
        if depth == MAX_DEPTH:
            raise ValueError(f"{where}: branches lie within each other more than {MAX_DEPTH} deep")
        try:
            chains, bounds = _ways_of(given)
            op.id = _id_of(given[1])
        except (TypeError, ValueError) as error:
            raise ValueError(f"{where}: {error}") from error
        ways = <img_chain *>self._take(len(chains) * sizeof(img_chain))
        limits = <double *>self._take(len(chains) * sizeof(double))
        op.kind, op.ways, op.limits, op.way_count = NULL, ways, limits, len(chains)
        self.random = True
        most = 0
        for i, chain in enumerate(chains):
            limits[i] = bounds[i]
            after = before
            most = max(most, self._add_chain(&ways[i], chain, f"{where}, branch {i + 1}, ", depth + 1, &after))
            if i == 0 and given[0] == "one_of":
                shape[0] = after
            if after.channels != shape.channels:
                raise ValueError(f"{where}: results have {shape.channels} channels or {after.channels}, as it is drawn")
            if after.height != shape.height or after.width != shape.width:
                shape.height = shape.width = 0
        return most

    cdef void *_take(self, size_t size) except NULL:
        """Take zeroed memory that lives as long as the program."""
        cdef _Block block = _Block(max(size, 1))
        self.blocks.append(block)
        return block.data

    @property
    def output_shape(self):
        """(height, width, channels), or (channels, height, width); None when sizes depend on the picture."""
        if self.out_h == 0:
            return None
        return self._shape(self.out_h, self.out_w)

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
        cdef int64_t count = addresses.shape[0], i, at = 0
        self._check_call(count, lengths.shape[0], out_addresses, statuses, keys, out_size_bytes)
        if count == 0:
            return 0
        for i in range(count):
            if lengths[i] < 0 or (addresses[i] == 0 and lengths[i] > 0):
                raise ValueError(f"sample {i} has no valid address or a negative length ({lengths[i]})")
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
        cdef int status
        cdef uintptr_t out_address
        scratch.enter(1)
        try:
            message = <char *>scratch.messages.data
            with nogil:
                status = img_open(&self.program, scratch.memory, bytes_, length, &header, message)
                if status == IMG_OK:
                    if header.orientation >= 5:
                        status = img_result_size(&self.program, scratch.memory, header.width, header.height, drawn,
                                                 &out_h, &out_w, message)
                    else:
                        status = img_result_size(&self.program, scratch.memory, header.height, header.width, drawn,
                                                 &out_h, &out_w, message)
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
            img_jpeg_close(scratch.memory)
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
        cdef int64_t channels = self.program.layout.channels
        return (channels, height, width) if self.program.layout.chw else (height, width, channels)

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


def _decode_eighth(const uint8_t[::1] data not None, Scratch scratch not None):
    """Decode a whole JPEG at an eighth of its size with libjpeg-turbo and drop the pixels: what benchmarks call the floor,
    since Huffman decoding can't be skipped. Raises ImageError.
    """
    cdef char *message
    cdef int status
    cdef img_header header
    cdef img_decoding how
    cdef img_window window
    cdef const uint8_t *row
    cdef int64_t i = 0, length = data.shape[0]
    cdef const uint8_t *bytes_ = &data[0] if length > 0 else NULL
    how.eighths, how.fast, how.channels = 1, 0, 4
    scratch.enter(1)
    message = <char *>scratch.messages.data
    with nogil:
        status = img_jpeg_open(scratch.memory, bytes_, length, IMG_MAX_PIXELS, &header, message)
        if status == IMG_OK:
            img_jpeg_again(scratch.memory)
            window.top = window.left = 0
            window.height, window.width = (header.height + 7) // 8, (header.width + 7) // 8
            status = img_jpeg_start(scratch.memory, &how, &window, message)
        while status == IMG_OK and i < window.height:
            status = img_jpeg_row(scratch.memory, &row, message)
            i += 1
        img_jpeg_close(scratch.memory)
    scratch.leave()
    _raise_for(status, message)


def simd_level():
    """Return the name of the loops in use: "avx512", "avx2" or "generic"."""
    return img_current_kernels().name.decode("ascii")


def _set_simd_level(str name not None):
    """Use other loops, for all threads ("" = the best); for tests. Raises ValueError when they cannot run here."""
    if img_choose_kernels(name.encode()) != 0:
        raise ValueError(f"no loops {name!r} on this machine")


cdef int64_t _failed(int32_t[::1] statuses) noexcept:
    cdef int64_t i, failed = 0
    for i in range(statuses.shape[0]):
        failed += statuses[i] != IMG_OK
    return failed


cdef int _raise_for(int status, const char *message) except -1:
    if status != IMG_OK:
        raise ImageError(status, (<bytes>message).decode("utf-8", "replace"))
    return 0


cdef class _Block:
    """Zeroed memory that is freed with it."""

    cdef void *data

    def __cinit__(self, size_t size):
        self.data = calloc(1, size)
        if self.data == NULL:
            raise MemoryError("no memory for an ImageProgram")

    def __dealloc__(self):
        free(self.data)


cdef int _fill_op(img_op *op, uint8_t *params, dict given) except -1:
    """Fill the parameters of an op, whose kind is known, with what was given."""
    cdef const img_field *field = op.kind.fields
    cdef const char *refused = NULL
    names = set()
    while field.name != NULL:
        name = field.name.decode()
        if name not in given:
            raise ValueError(f"{name} is missing")
        try:
            _fill_field(field, params + field.offset, given[name])
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"{name} {error}") from error
        names.add(name)
        field += 1
    if op.kind.draws:
        names.add("id")
        op.id = _id_of(given)
    for name in given:
        if name not in names:
            raise ValueError(f"no field is called {name!r}: there are {', '.join(sorted(names))}")
    if op.kind.check != NULL:
        refused = op.kind.check(params)
    if refused != NULL:
        raise ValueError(refused.decode())
    op.params = params
    return 0


def _ways_of(given):
    """Return the chains of a branch, and the limit below which a draw must be for each."""
    if len(given) != 3:
        raise ValueError("it must be (name, fields, steps)")
    name, fields, chains = given
    known = {"id", "p" if name == "maybe" else "weights"}
    if set(fields) != known:
        raise ValueError(f"its fields must be {', '.join(sorted(known))}, not {', '.join(sorted(fields))}")
    if name == "maybe":
        p = float(fields["p"])
        if not 0 <= p <= 1:
            raise ValueError(f"p must be 0 to 1, not {p}")
        return [chains], [p]
    weights = [float(weight) for weight in fields["weights"]]
    sums = list(itertools.accumulate(weights))
    if len(weights) != len(chains) or not weights:
        raise ValueError(f"weights must be one for each of one branch or more, not {len(weights)} for {len(chains)}")
    if not (all(weight >= 0 for weight in weights) and 0 < sums[-1] < math.inf):
        raise ValueError(f"weights must be finite, 0 or more, and not all 0, not {weights}")
    return list(chains), [below / sums[-1] for below in sums]


cdef uint64_t _id_of(dict given) except? 0:
    if "id" not in given:
        raise ValueError("id is missing")
    try:
        return operator.index(given["id"])
    except (TypeError, OverflowError):
        raise ValueError(f"id must be 0 to 2**64 - 1, not {given['id']!r}") from None


cdef int _fill_field(const img_field *field, uint8_t *place, object value) except -1:
    cdef img_range *ends
    if field.type == IMG_INTEGER:
        whole = operator.index(value)
        if not field.low <= whole <= field.high:
            raise ValueError(f"must be {field.low:.0f} to {field.high:.0f}, not {whole}")
        (<int64_t *>place)[0] = whole
    elif field.type == IMG_NUMBER:
        number = float(value)
        if not field.low <= number <= field.high:
            raise ValueError(f"must be {field.low:g} to {field.high:g}, not {number}")
        (<double *>place)[0] = number
    elif field.type == IMG_CHOICE:
        (<int64_t *>place)[0] = _word(field, value)
    elif value is not None or field.type != IMG_OPTIONAL_RANGE:
        ends = <img_range *>place
        low, high = (float(end) for end in value)
        if not field.low <= low <= high <= field.high:
            raise ValueError(f"must be a range that goes up, within {field.low:g} to {field.high:g}, not {low} to {high}")
        ends.given, ends.low, ends.high = 1, low, high
    return 0


cdef int64_t _word(const img_field *field, object value) except -1:
    words = []
    while field.words[len(words)] != NULL:
        words.append(field.words[len(words)].decode())
    if value not in words:
        raise ValueError(f"must be one of {', '.join(words)}, not {value!r}")
    return words.index(value)


def op_table():
    """Return what ImageProgram takes: {name: (form, names of the fields)}; a random op's last field is its id."""
    table, i = {}, 0
    while img_op_kind_at(i) != NULL:
        kind = img_op_kind_at(i)
        fields = []
        while kind.fields[len(fields)].name != NULL:
            fields.append(kind.fields[len(fields)].name.decode())
        forms = {IMG_AXIS: "axis", IMG_POINT: "point", IMG_STATISTIC: "statistic", IMG_PICTURE: "picture"}
        table[kind.name.decode()] = (forms[kind.form], (*fields, "id") if kind.draws else tuple(fields))
        i += 1
    return table


def _one_of(known, name, what):
    if name not in known:
        raise ValueError(f"{what} must be one of {', '.join(known)}, not {name!r}")
    return known[name]


def _floats(values, count, name, default):
    values = [default] * count if values is None else [float(value) for value in values]
    if len(values) != count or not all(math.isfinite(value) for value in values):
        raise ValueError(f"{name} must be {count} finite numbers, not {values}")
    return values
