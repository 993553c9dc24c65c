"""The memory that a thread decodes with; included in program.pyx."""


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
        return img_jpeg_own_decodes(self.memory.jpeg)

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
