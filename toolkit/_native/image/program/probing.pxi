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
