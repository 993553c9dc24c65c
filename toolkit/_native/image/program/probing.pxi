"""What is asked of a JPEG and of the loops, without a program; included in program.pyx."""


cdef int _probe(const uint8_t *data, int64_t length, img_jpeg *jpeg, img_header *header, char *message) noexcept nogil:
    cdef int status = img_jpeg_open(jpeg, data, length, IMG_MAX_PIXELS, header, message)
    img_jpeg_close(jpeg)
    return status


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
        status = _probe(bytes_, length, scratch.memory.jpeg, &header, message)
    _raise_for(status, message)
    return header.width, header.height, header.components, header.orientation, bool(header.progressive)


cdef void _probe_all(const uint64_t *addresses, const int64_t *lengths, int64_t count, img_jpeg *jpeg,
                     int32_t *found) noexcept nogil:
    cdef img_header header
    cdef char message[IMG_MESSAGE]
    cdef int64_t i
    for i in range(count):
        memset(&found[4 * i], 0, 4 * sizeof(int32_t))
        found[4 * i] = _probe(<const uint8_t *><uintptr_t>addresses[i], lengths[i], jpeg, &header, message)
        if found[4 * i] == IMG_OK:
            found[4 * i + 1], found[4 * i + 2] = <int32_t>header.height, <int32_t>header.width
            found[4 * i + 3] = header.orientation


def probe_many(const uint64_t[::1] addresses not None, const int64_t[::1] lengths not None,
               int32_t[:, ::1] found not None):
    """Read the headers of files in memory, as `probe` does. Borrows the memory for the length of the call.

    Args:
        addresses: uint64 (n,), first byte of each file.
        lengths: int64 (n,), bytes of each file.
        found: int32 (n, 4), filled: status, and where that is OK height and width as stored, and orientation, else 0.

    Raises:
        ValueError: The arrays don't fit together.
        MemoryError: There is no memory for a decoder.
    """
    cdef int64_t count = addresses.shape[0], i
    cdef Scratch scratch = Scratch()
    if lengths.shape[0] != count or found.shape[0] != count or found.shape[1] != 4:
        raise ValueError(f"{count} addresses, {lengths.shape[0]} lengths and results of shape "
                         f"{(found.shape[0], found.shape[1])}: they must be (n,), (n,) and (n, 4)")
    if count == 0:
        return
    for i in range(count):
        if lengths[i] < 0 or (addresses[i] == 0 and lengths[i] > 0):
            raise ValueError(f"file {i} has no valid address or a negative length ({lengths[i]})")
    with nogil:
        _probe_all(&addresses[0], &lengths[0], count, scratch.memory.jpeg, &found[0, 0])


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
    cdef img_jpeg *jpeg = scratch.memory.jpeg
    how.eighths, how.fast, how.channels = 1, 0, 4
    scratch.enter(1)
    message = <char *>scratch.messages.data
    with nogil:
        status = img_jpeg_open(jpeg, bytes_, length, IMG_MAX_PIXELS, &header, message)
        if status == IMG_OK:
            img_jpeg_again(jpeg)
            window.top = window.left = 0
            window.height, window.width = (header.height + 7) // 8, (header.width + 7) // 8
            status = img_jpeg_start(jpeg, &how, &window, message)
        while status == IMG_OK and i < window.height:
            status = img_jpeg_row(jpeg, &row, message)
            i += 1
        img_jpeg_close(jpeg)
    scratch.leave()
    _raise_for(status, message)


def simd_level():
    """Return the name of the loops in use: "avx512", "avx2" or "generic"."""
    return img_current_kernels().name.decode("ascii")


def _set_simd_level(str name not None):
    """Use other loops, for all threads ("" = the best); for tests. Raises ValueError when they cannot run here."""
    if img_choose_kernels(name.encode()) != 0:
        raise ValueError(f"no loops {name!r} on this machine")
