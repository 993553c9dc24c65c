"""What a program raises for a picture; included in program.pyx."""


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


cdef int _raise_for(int status, const char *message) except -1:
    if status != IMG_OK:
        raise ImageError(status, (<bytes>message).decode("utf-8", "replace"))
    return 0
