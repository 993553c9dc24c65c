"""A split's tokens as one run: windows of it, many rows in one call, in an order that permutes blocks.

Position p of an order that permutes blocks of B tokens is token permuted(p // B) * B + p % B of the run; what is left
behind the last whole block stays at the end. The numpy lines that say the same as TokenRun.gather, for a run that lies
in an array:
    p = start + np.arange(count); whole = len(run) // B
    at = np.where(p < whole * B, order[np.minimum(p // B, whole - 1)] * B + p % B, p)
    tokens = run[at]; targets = np.append(run, -100)[at + 1]
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc

from toolkit._native.order.permute cimport key_permutation, permutation, permuted
from toolkit._native.shards.body cimport TK_READ_OK, guard
from toolkit._native.tokens.gather cimport (
    TokenShard, gather_pieces, last_not_above, open_view, piece, shard_run, sink, walk,
)


cdef class _Open:
    """The shards that are open, by number. Only ever added to; a gather that runs holds the one it began with."""

    cdef shard_run **runs
    cdef uint8_t *touched
    cdef list shards

    def __cinit__(self, int64_t count):
        self.runs = <shard_run **>calloc(<size_t>(count + 1), sizeof(shard_run *))
        self.touched = <uint8_t *>calloc(<size_t>(count + 1), 1)
        self.shards = []
        if self.runs == NULL or self.touched == NULL:
            raise MemoryError()

    def __dealloc__(self):
        free(self.runs)
        free(self.touched)


cdef int64_t _plan_stretch(
    int64_t start, int64_t count, int64_t place, int64_t total, int64_t block, const permutation *order, piece *out
) noexcept nogil:
    """Cut a stretch of the order into pieces of the run; return how many. `order` NULL: the run's own order."""
    cdef int64_t whole = total // block, n = 0, into, take, at
    while count > 0:
        if order == NULL or start >= whole * block:
            at, take = start, count
        else:
            into = start % block
            at = permuted(order, start // block) * block + into
            take = block - into if block - into < count else count
        if n > 0 and out[n - 1].start + out[n - 1].count == at:
            out[n - 1].count += take
        else:
            out[n].start, out[n].count, out[n].place = at, take, place
            n += 1
        start += take
        place += take
        count -= take
    return n


cdef class TokenRun:
    """A split's tokens as one run over its shards, those that are open. Safe from any thread."""

    cdef int64_t *_first
    cdef _Open _open
    cdef readonly int64_t shards
    cdef readonly int64_t tokens
    cdef readonly int width

    def __cinit__(self, const int64_t[::1] shard_tokens not None, int width):
        """Take the number of tokens of each shard in order; ids are `width` bytes wide, 2 or 4."""
        cdef int64_t i
        if width != 2 and width != 4:
            raise ValueError("ids are 2 or 4 bytes wide")
        self.shards = shard_tokens.shape[0]
        self.width = width
        self._first = <int64_t *>malloc(<size_t>(self.shards + 1) * sizeof(int64_t))
        if self._first == NULL:
            raise MemoryError()
        self._first[0] = 0
        for i in range(self.shards):
            if shard_tokens[i] < 0:
                raise ValueError(f"shard {i} has {shard_tokens[i]} tokens")
            if shard_tokens[i] > (1LL << 62) - self._first[i]:
                raise ValueError(f"shards 0 to {i} have more than 2**62 tokens, which is what a permutation takes")
            self._first[i + 1] = self._first[i] + shard_tokens[i]
        self.tokens = self._first[self.shards]
        self._open = _Open(self.shards)

    def __dealloc__(self):
        free(self._first)

    @property
    def open_shards(self):
        """How many shards are open."""
        return len(self._open.shards)

    def close_shards(self):
        """Let go of every shard; one that a running gather reads stays until it is done."""
        self._open = _Open(self.shards)

    def attach(self, int64_t shard, TokenShard run not None):
        """Add an open shard. Raises ValueError when it has another number of tokens than the table says."""
        if shard < 0 or shard >= self.shards:
            raise ValueError(f"shard {shard} of {self.shards}")
        if run.tokens != self._first[shard + 1] - self._first[shard]:
            raise ValueError(f"it holds {run.tokens} tokens, the shard table says "
                             f"{self._first[shard + 1] - self._first[shard]}")
        self._open.shards.append(run)
        self._open.runs[shard] = &run._run

    def take_touched(self):
        """Return the numbers of the shards that were read since the last call."""
        cdef _Open table = self._open
        cdef int64_t i
        cdef list found = []
        for i in range(self.shards):
            if table.touched[i]:
                table.touched[i] = 0
                found.append(i)
        return found

    def gather(
        self, const int64_t[::1] starts not None, const int64_t[::1] counts not None, const int64_t[::1] places not None,
        uint8_t[::1] tokens not None, int out_width, int64_t row_tokens, *, int64_t block=0, uint64_t key=0,
        uint8_t[::1] targets=None, int32_t[::1] segments=None, int32_t[::1] positions=None, bint mask_junctions=False,
    ):
        """Copy stretches of an order to `tokens` (ids of `out_width` bytes), each to its place, rows of `row_tokens`.

        Args:
            starts, counts, places: int64 (n,): first position, length, and place in the output of each stretch.
            tokens, targets: uint8 of one length, a multiple of out_width.
            out_width: 2, 4 or 8; 4 or 8 with targets, which are signed then.
            row_tokens: Tokens of a row: where documents are numbered anew.
            block, key: Permute blocks of that many tokens under that key; 0 leaves the run as it lies.
            segments, positions: int32, one a token: number of the document in its row, from 1; place in that.
            mask_junctions: Write -100 to targets where a document ends.

        Returns:
            (shards that must be attached first, None), and nothing is copied; or ([], None); or ([], failure):
            READ_ status, shard, record batch in the shard, chunk.
        """
        cdef _Open table = self._open
        cdef int64_t n = starts.shape[0], room = tokens.shape[0] // out_width if out_width > 0 else 0
        cdef int64_t i, capacity = 0, pieces = 0, shard, last
        cdef permutation order
        cdef const permutation *ordered = NULL
        cdef piece *plan = NULL
        cdef sink out
        cdef walk at
        cdef open_view view
        cdef int status
        if out_width not in (2, 4, 8) or (targets is not None and out_width == 2):
            raise ValueError(f"tokens of {out_width} bytes{' with targets' if targets is not None else ''}")
        if tokens.shape[0] % out_width or counts.shape[0] != n or places.shape[0] != n or row_tokens < 1 or block < 0:
            raise ValueError("starts, counts, places and tokens don't fit each other")
        if (targets is not None and targets.shape[0] != tokens.shape[0]) or (segments is None) != (positions is None):
            raise ValueError("targets must be as long as tokens; segments and positions come together")
        if segments is not None and (segments.shape[0] != room or positions.shape[0] != room):
            raise ValueError("segments and positions must have one number a token")
        for i in range(n):
            if starts[i] < 0 or counts[i] < 0 or starts[i] > self.tokens or counts[i] > self.tokens - starts[i]:
                raise ValueError(f"tokens [{starts[i]}, {starts[i]} + {counts[i]}) of {self.tokens}")
            if places[i] < 0 or places[i] > room or counts[i] > room - places[i]:
                raise ValueError(f"place {places[i]} for {counts[i]} tokens in an output of {room}")
            capacity += counts[i] // block + 3 if block else 1
        if n == 0 or room == 0:
            return [], None
        guard()
        if block and self.tokens >= block:
            key_permutation(&order, self.tokens // block, key)
            ordered = &order
        plan = <piece *>malloc(<size_t>(capacity + 1) * sizeof(piece))
        if plan == NULL:
            raise MemoryError()
        try:
            with nogil:
                for i in range(n):
                    pieces += _plan_stretch(
                        starts[i], counts[i], places[i], self.tokens, block if block else 1, ordered, plan + pieces
                    )
            missing = set()
            for i in range(pieces):
                if plan[i].count == 0:
                    continue
                shard = last_not_above(self._first, self.shards, plan[i].start)
                last = plan[i].start + plan[i].count - (targets is None)
                last = last if last < self.tokens else self.tokens - 1
                while shard < self.shards and self._first[shard] <= last:
                    if table.runs[shard] == NULL and self._first[shard + 1] > self._first[shard]:
                        missing.add(shard)
                    shard += 1
            if missing:
                return sorted(missing), None
            view.runs = table.runs
            view.touched = table.touched
            view.first = self._first
            view.shards = self.shards
            out.tokens = &tokens[0]
            out.targets = &targets[0] if targets is not None else NULL
            out.segments = &segments[0] if segments is not None else NULL
            out.positions = &positions[0] if positions is not None else NULL
            out.width = out_width
            out.mask_junctions = mask_junctions and targets is not None
            out.row_tokens = row_tokens
            with nogil:
                status = gather_pieces(&view, plan, pieces, self.width, &out, &at)
        finally:
            free(plan)
        return [], None if status == TK_READ_OK else (status, at.shard, at.batch, at.chunk)
