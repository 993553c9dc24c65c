"""Where rows are stored: row -> opened record batch and the row inside it, and whether a shard's file is still that file.

The numpy line that says the same, for bodies by number of their record batch, when all tables are read:
    batches = np.searchsorted(starts, rows, side="right") - 1
    inner = rows - starts[batches]; found = [bodies[batch] for batch in batches]
"""

from libc.stdint cimport int64_t, uint64_t

from toolkit._native.shards.body cimport Body, guard

cdef enum:
    LOOK_NS = 50_000  # between looks at a file whose samples are read one by one: a look costs half a sample


cdef class FileIdentity:
    """What a file was when it was opened (device, inode, size, times), to be compared with what its name gives now.

    Args:
        path: Its name.
        status: The os.stat_result of the open file.
    """

    def __cinit__(self, bytes path not None, status not None):
        cdef int64_t mtime_ns = status.st_mtime_ns, ctime_ns = status.st_ctime_ns
        self._path = path
        self._then.st_dev = status.st_dev
        self._then.st_ino = status.st_ino
        self._then.st_size = status.st_size
        self._then.st_mtim.tv_sec = mtime_ns // 1_000_000_000
        self._then.st_mtim.tv_nsec = mtime_ns % 1_000_000_000
        self._then.st_ctim.tv_sec = ctime_ns // 1_000_000_000
        self._then.st_ctim.tv_nsec = ctime_ns % 1_000_000_000

    cpdef bint changed(self):
        """Tell whether anything happened to the very file; one that was replaced or removed by name is another.

        Nobody can put the time of the last change of status (ctime) back, as mtime can be; a new link or owner moves it
        too, so it says that the file may have been written.
        """
        cdef stat_t now
        return self._look(&now) and (
            _differ(&now.st_ctim, &self._then.st_ctim)
            or now.st_size != self._then.st_size
            or _differ(&now.st_mtim, &self._then.st_mtim)
        )

    def rewritten(self):
        """Tell whether the very file surely was written or cut: it has another size or modification time."""
        cdef stat_t now
        return bool(self._look(&now)) and (
            now.st_size != self._then.st_size or bool(_differ(&now.st_mtim, &self._then.st_mtim))
        )

    cdef bint _look(self, stat_t *now):
        """Ask for the file of that name; False when it is another one, or none."""
        return (
            c_stat(self._path, now) == 0 and now.st_dev == self._then.st_dev and now.st_ino == self._then.st_ino
        )

    cdef int changed_lately(self) except -1:
        """The same for many calls in a row: looks again when some time has passed since, so it is late by that at most.

        Then, too, the guard of copies is put in place again.
        """
        cdef timespec_t now
        clock_gettime(CLOCK_MONOTONIC, &now)
        cdef int64_t ns = now.tv_sec * 1_000_000_000 + now.tv_nsec
        if ns - self._looked < LOOK_NS:
            return False
        guard()
        if self.changed():
            return True
        self._looked = ns
        return False


cdef bint _differ(const timespec_t *a, const timespec_t *b):
    return a.tv_sec != b.tv_sec or a.tv_nsec != b.tv_nsec


cdef class _Table:
    """The record batches of a shard table: the row of the table where each begins, and the number of the first."""


cdef class Locator:
    """Finds rows of a split, and keeps opened record batches at hand. Safe from any thread.

    Args:
        starts: int64 (tables + 1,): first row of each shard table, and the number of rows.
        open_table: Called with a table's number when a row of it is first looked for; returns int64 (batches + 1,), the
            row of the table where each of its record batches begins and how many there are, and the number of the
            first one; or raises.
        open_batch: Called with a record batch's number; returns its Body and its shard's FileIdentity, or raises.
        want_batches: Called with a list of numbers of record batches that are going to be opened; raises nothing.
        keep: Record batches that are kept at hand; those found first go first.
    """

    def __init__(self, const int64_t[::1] starts not None, open_table, open_batch, want_batches, Py_ssize_t keep):
        self._starts = starts
        self._tables = [None] * (starts.shape[0] - 1)
        self._open_table = open_table
        self._open_batch = open_batch
        self._want_batches = want_batches
        self._opened = {}
        self._keep = keep

    def locate(self, const int64_t[::1] rows not None, int64_t[::1] inner not None):
        """Return the body of each row as a list, and put the row inside it into `inner`.

        Every shard's file is looked at once. Raises IndexError, and what `open_batch` raises: when a file was changed,
        it is asked for the file's record batches again.
        """
        cdef int64_t n = rows.shape[0], i, where = 0, batch
        cdef bint asked = n < 2
        cdef list bodies = [None] * n
        cdef tuple opened
        cdef FileIdentity last = None, identity
        cdef dict looked = {}  # identity -> whether its file has changed
        cdef bint changed = False
        if inner.shape[0] != n:
            raise ValueError("inner must fit the rows")
        for i in range(n):
            batch = self._batch(rows[i], &where)
            if not asked and batch not in self._opened:
                asked = True
                self._ask(rows[i:])
            opened = self._found(batch, where)
            inner[i] = where
            identity = opened[1]
            if identity is not last:
                last = identity
                if identity not in looked:
                    looked[identity] = identity.changed()
                changed = looked[identity]
            if changed:  # nor is another record batch of that file what it was
                opened = self._open(batch)
            bodies[i] = opened[0]
        return bodies

    cdef tuple find(self, int64_t row, int64_t *inner):
        """Return (Body, FileIdentity) of a row's record batch, and put the row inside it into `inner`."""
        return self._found(self._batch(row, inner), inner[0])

    cdef _ask(self, const int64_t[::1] rows):
        """Say which record batches these rows need that aren't at hand, so that the disk gives them all at once."""
        cdef int64_t i, batch, where
        cdef dict missing = {}
        for i in range(rows.shape[0]):
            batch = self._batch(rows[i], &where)
            if batch not in self._opened:
                missing[batch] = None
        if len(missing) > 1:
            self._want_batches(list(missing))

    cdef tuple _found(self, int64_t batch, int64_t inner):
        cdef tuple opened
        found = self._opened.get(batch)
        if found is not None:
            opened = <tuple>found
        else:
            opened = self._open(batch)
        if inner >= (<Body?>opened[0]).rows:
            raise IndexError(f"row {inner} of a record batch of {(<Body>opened[0]).rows} rows")
        return opened

    cdef tuple _open(self, int64_t batch):
        cdef tuple opened = self._open_batch(batch)
        if len(self._opened) >= self._keep:
            self._opened.pop(next(iter(self._opened)), None)
        self._opened[batch] = opened
        return opened

    cdef int64_t _batch(self, int64_t row, int64_t *inner) except -1:
        """Return the number of a row's record batch, and put the row inside it into `inner`."""
        cdef int64_t tables = self._starts.shape[0] - 1, number, batch
        if row < 0 or row >= self._starts[tables]:
            raise IndexError(f"row {row} of {self._starts[tables]}")
        number = _last_not_above(self._starts, row)
        table = <_Table>self._tables[number]
        if table is None:
            table = self._read(number)
        row -= self._starts[number]
        batch = _last_not_above(table.starts, row)
        inner[0] = row - table.starts[batch]
        return table.first + batch

    cdef _Table _read(self, int64_t number):
        cdef _Table table = _Table()
        table.starts, table.first = self._open_table(number)
        if table.starts.shape[0] < 2 or table.starts[0] != 0:
            raise ValueError(f"table {number} has no record batches")
        self._tables[number] = table
        return table


cdef int64_t _last_not_above(const int64_t[::1] starts, int64_t row) noexcept:
    """Return the last of starts[:-1] that isn't above `row`."""
    cdef int64_t low = 0, high = starts.shape[0] - 1, middle
    while high - low > 1:
        middle = (low + high) >> 1
        if starts[middle] <= row:
            low = middle
        else:
            high = middle
    return low
