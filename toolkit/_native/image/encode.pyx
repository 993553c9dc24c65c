"""Encodes pixels as JPEG without the GIL, always to the same bytes.

    encoder.encode(pixels, 90)   # the same bytes, if PIL has the same libjpeg-turbo, as:
    PIL.Image.fromarray(pixels).save(file, "JPEG", quality=90, subsampling="4:2:0", optimize=True)

Encoding is in jpeg.c (libjpeg-turbo).
"""

from libc.stdint cimport int64_t, uint8_t

cdef extern from "image/encode/encode.h" nogil:
    enum:
        ENC_OK
        ENC_FAILED
        ENC_NO_MEMORY
        ENC_MESSAGE

    ctypedef struct enc_buffer:
        uint8_t *data
        size_t size
        size_t used

    void enc_free(enc_buffer *buffer)
    int enc_jpeg(enc_buffer *out, const uint8_t *rgb, int64_t height, int64_t width, int quality, char *message)


class EncodeError(ValueError):
    """A picture that no JPEG can hold."""


cdef class JpegEncoder:
    """Encodes one picture after another; its memory grows to the largest JPEG so far.

    Owns its memory until it is dropped. One call at a time may use it; a second one raises RuntimeError.
    """

    cdef enc_buffer out
    cdef bint busy

    def __dealloc__(self):
        enc_free(&self.out)

    def encode(self, const uint8_t[:, :, ::1] pixels not None, int quality):
        """Return pixels as a baseline JPEG, 4:2:0.

        Args:
            pixels: uint8 (height, width, 3), RGB.
            quality: 1 to 100, libjpeg's scale.

        Returns:
            The JPEG as bytes.

        Raises:
            EncodeError: A side has more than 65500 pixels.
            ValueError: The pixels have another shape, there are none, or the quality is out of range.
            MemoryError: There is no memory.
            RuntimeError: Another call uses the encoder.
        """
        cdef int64_t height = pixels.shape[0], width = pixels.shape[1]
        cdef const uint8_t *rgb
        cdef char message[ENC_MESSAGE]
        cdef int status
        if height == 0 or width == 0 or pixels.shape[2] != 3:
            raise ValueError(f"pixels must have shape (height, width, 3), not {(height, width, pixels.shape[2])}")
        if not 1 <= quality <= 100:
            raise ValueError(f"quality must be 1 to 100, not {quality}")
        if self.busy:
            raise RuntimeError("this JpegEncoder is in use by another call; give each thread its own")
        rgb = &pixels[0, 0, 0]
        self.busy = True
        try:
            with nogil:
                status = enc_jpeg(&self.out, rgb, height, width, quality, message)
            if status == ENC_NO_MEMORY:
                raise MemoryError((<bytes>message).decode("utf-8", "replace"))
            if status != ENC_OK:
                raise EncodeError((<bytes>message).decode("utf-8", "replace"))
            return (<const char *>self.out.data)[:self.out.used]
        finally:
            self.busy = False
