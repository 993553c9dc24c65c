"""Give memory back when its last user is gone, in C alone: no signal is handled on the way.

A finalizer in Python is code that a KeyboardInterrupt can hit; Python prints such an error and goes on, and whoever
pressed Ctrl-C presses it again. What stands here runs no bytecode as long as what it calls is built in, or stands here.
"""

from cpython.weakref cimport PyWeakref_NewRef

cdef dict _watched = {}  # the references by their callbacks' ids: one that is gone itself tells nothing


cdef class _Gone:
    """What is called, once, with a reference to an object that is gone."""

    cdef object done

    def __cinit__(self, done):
        self.done = done

    def __call__(self, reference):
        _watched.pop(id(self), None)
        self.done()


def when_gone(thing not None, done not None):
    """Call `done()` when `thing` is gone: from any thread, at any instruction. Not at the interpreter's end."""
    gone = _Gone(done)
    _watched[id(gone)] = PyWeakref_NewRef(thing, gone)


cdef class GiveBack:
    """Gives a lent block back to its pool, or to the budget where the pool is gone or keeps enough.

    Calls `returned` before, if it is there. `pool` is a weak reference; a pool's `_keep` says how many free blocks of a
    size it keeps, and `_keep_idle` how many bytes while it is `_idle`. `puts` count bytes that came back.
    """

    cdef object pool, free, block, returned
    cdef tuple puts

    def __cinit__(self, pool not None, free not None, block not None, returned, tuple puts not None):
        self.pool, self.free, self.block, self.returned, self.puts = pool, free, block, returned, puts

    def __call__(self):
        cdef object owner, put
        if self.returned is not None:
            self.returned()
        owner = self.pool()
        if owner is not None and len(self.free) < owner._keep and (not owner._idle or self.fits_idle(owner)):
            self.free.append(self.block)
        else:
            for put in self.puts:
                put(self.block.nbytes)

    cdef bint fits_idle(self, owner):
        cdef object nbytes, blocks, kept = self.block.nbytes
        for nbytes, blocks in list(owner._free.items()):
            kept += nbytes * len(blocks)
        return kept <= owner._keep_idle


cdef class Held:
    """What one batch holds: blocks by column, and bytes that lie in none of them.

    It takes itself out of `table`, where it stands under `number`, when it holds nothing and its batch is gone.

    Attributes:
        other: Bytes of what lies in no block.
        blocks: Bytes by column.
    """

    cdef public object other
    cdef public dict blocks
    cdef dict table
    cdef object number
    cdef tuple puts
    cdef bint ended

    def __cinit__(self, *args, **kwargs):
        self.blocks = {}
        self.ended = False

    def _stand_in(self, dict table not None, number, tuple puts not None):
        """Say where it stands, and what counts bytes that come back."""
        self.table, self.number, self.puts = table, number, puts
        table[number] = self

    def drop_block(self, str column not None):
        """Note that the last array over a block is gone."""
        self.blocks.pop(column, None)
        self._leave()

    def end(self):
        """Note that the batch is gone, and with it what lies in no block."""
        cdef object put
        if self.other:
            for put in self.puts:
                put(self.other)
        self.other = 0
        self.ended = True
        self._leave()

    cdef _leave(self):
        if self.ended and not self.blocks:
            self.table.pop(self.number, None)
