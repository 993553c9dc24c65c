"""What libtiff says of a damaged file, by thread: PIL lets it print that to stderr, where no file is named."""

cdef extern from "image/libtiff/libtiff.h":
    enum:
        LIBTIFF_SAID
    int libtiff_attach(const char *module_path)
    void libtiff_listen(int on)
    void libtiff_take(char *text)


def attach(bytes module_path not None):
    """Hear the libtiff that a loaded extension module calls; from then on only listening threads keep anything.

    Returns:
        Whether there is one: False for a module that isn't loaded, or that holds its libtiff inside.
    """
    return bool(libtiff_attach(module_path))


def listen(bint on):
    """Keep what libtiff says on this thread, or leave it to the handler that was there before."""
    libtiff_listen(on)


def take():
    """Return the first message that this thread kept, and forget it; b"" when there is none."""
    cdef char text[LIBTIFF_SAID]
    libtiff_take(text)
    return <bytes>text
