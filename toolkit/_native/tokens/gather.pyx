"""Gather windows of tokens straight out of verified maps: many rows, targets and document marks in one call.

The documents of a split are one run of token ids, over record batches and shards. Position p of an order that permutes
blocks of B tokens is token permuted(p // B) * B + p % B of the run; what is left behind the last whole block stays at the
end. The numpy lines that say the same as TokenRun.gather, for a run that lies in an array:
    p = start + np.arange(count); whole = len(run) // B
    at = np.where(p < whole * B, order[np.minimum(p // B, whole - 1)] * B + p % B, p)
    tokens = run[at]; targets = np.append(run, -100)[at + 1]
Every byte comes through checked_ids of body.pyx: a flipped bit and a truncated file become a status.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

cdef extern from *:
    void __builtin_prefetch(const void *address) nogil

from toolkit._native.shards.body cimport TK_READ_OK, TK_READ_RANGE, Body, checked_copy, checked_ids, guard, tk_body
from toolkit._native.order.permute cimport key_permutation, permutation, permuted

IGNORED = -100  # the target where there is none, as in torch's cross_entropy

cdef enum:
    SCRATCH_WORDS = 2048  # a chunk, aligned for ids
    PREFETCHED_PIECES = 2  # ahead of the one that is copied
    PREFETCHED_BYTES = 2048

cdef struct shard_run:
    int64_t batches
    int64_t *first  # of each record batch and behind the last: tokens of the shard before it
    tk_body **bodies
    int64_t *ids  # where the ids begin in each body
    int64_t *ends  # where the list offsets begin in each body
    int64_t *rows

cdef struct piece:
    int64_t start  # token of the run
    int64_t count
    int64_t place  # in the output

cdef struct sink:
    uint8_t *tokens
    uint8_t *targets
    int32_t *segments
    int32_t *positions
    int width
    bint mask_junctions
    int64_t row_tokens

cdef struct walk:
    int64_t next  # token of the run that would go on where the last piece ended
    bint ended  # a document ended there
    int32_t segment
    int32_t position
    int64_t shard  # of what failed, with its record batch and chunk
    int64_t batch
    int64_t chunk


cdef struct open_view:
    shard_run **runs
    uint8_t *touched
    const int64_t *first
    int64_t shards


cdef class TokenShard:
    """One shard's record batches as a run of tokens. Holds the bodies it points into."""

    cdef list _bodies
    cdef shard_run _run
    cdef readonly int64_t tokens

    def __cinit__(self, list bodies not None, int64_t ids, int64_t ends, int width):
        """Take the bodies of a shard in order; `ids` and `ends` are the buffers of the ids and of the list offsets."""
        cdef int64_t n = len(bodies), i, start, length
        cdef Body body
        if width != 2 and width != 4:
            raise ValueError("ids are 2 or 4 bytes wide")
        self._bodies = bodies
        self._run.batches = n
        self._run.first = <int64_t *>malloc(<size_t>(n + 1) * sizeof(int64_t))
        self._run.bodies = <tk_body **>malloc(<size_t>(n + 1) * sizeof(tk_body *))
        self._run.ids = <int64_t *>malloc(<size_t>(n + 1) * sizeof(int64_t))
        self._run.ends = <int64_t *>malloc(<size_t>(n + 1) * sizeof(int64_t))
        self._run.rows = <int64_t *>malloc(<size_t>(n + 1) * sizeof(int64_t))
        if not (self._run.first and self._run.bodies and self._run.ids and self._run.ends and self._run.rows):
            raise MemoryError()
        self._run.first[0] = 0
        for i in range(n):
            body = bodies[i]
            start, length = body.buffer(ids)
            if start % width or length % width:
                raise ValueError(f"the ids of record batch {i} lie at no multiple of {width} bytes")
            self._run.bodies[i] = &body._body
            self._run.ids[i] = start
            if length // width > (1LL << 62) - self._run.first[i]:
                raise ValueError("more tokens than can be counted")
            self._run.first[i + 1] = self._run.first[i] + length // width
            start, length = body.buffer(ends)
            if length // 8 <= body.rows:
                raise ValueError(f"record batch {i} has not one offset more than rows")
            self._run.ends[i] = start
            self._run.rows[i] = body.rows
        self.tokens = self._run.first[n]

    def __dealloc__(self):
        free(self._run.first)
        free(self._run.bodies)
        free(self._run.ids)
        free(self._run.ends)
        free(self._run.rows)


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


cdef int64_t _last_not_above(const int64_t *sorted_values, int64_t n, int64_t value) noexcept nogil:
    """Return the last i in [0, n) with sorted_values[i] <= value; sorted_values[0] is not above it."""
    cdef int64_t low = 0, high = n, middle
    while high - low > 1:
        middle = low + (high - low) // 2
        if sorted_values[middle] <= value:
            low = middle
        else:
            high = middle
    return low


cdef int _offset(const tk_body *body, int64_t ends, int64_t row, int64_t *value, walk *at, uint8_t *tmp) noexcept nogil:
    return checked_copy(body, ends + row * 8, 8, <uint8_t *>value, tmp, &at.chunk)


cdef int _copy(
    const shard_run *run, int64_t batch, int64_t inner, int64_t count, int width, uint8_t *out, int out_width, walk *at,
    uint8_t *tmp,
) noexcept nogil:
    return checked_ids(
        run.bodies[batch], run.ids[batch] + inner * width, count, width, out, out_width, tmp, &at.chunk
    )


cdef void _mark(const sink *out, walk *at, int64_t place, int64_t count, bint junction) noexcept nogil:
    """Number `count` tokens of one document at `place` of the output; `junction` when they don't follow the last."""
    cdef int64_t i, row_end
    cdef bint begins = junction
    while count > 0:
        row_end = (place // out.row_tokens + 1) * out.row_tokens
        if place % out.row_tokens == 0:
            at.segment = 0
            begins = True
        if begins:
            at.segment += 1
            at.position = 0
            begins = False
        i = place
        while i < row_end and count > 0:
            out.segments[i] = at.segment
            out.positions[i] = at.position
            at.position += 1
            i += 1
            count -= 1
        place = i


cdef inline void _ignore(const sink *out, int64_t place) noexcept nogil:
    if out.width == 4:
        (<int32_t *>out.targets)[place] = -100
    else:
        (<int64_t *>out.targets)[place] = -100


cdef int _documents(
    const shard_run *run, int64_t batch, int64_t inner, int64_t count, int64_t global_start, int64_t place,
    const sink *out, walk *at, uint8_t *tmp,
) noexcept nogil:
    """Number the documents of [inner, inner + count) of a record batch, and mask the targets where they end."""
    cdef const tk_body *body = run.bodies[batch]
    cdef int64_t low = 0, high = run.rows[batch], middle, value = 0, end = 0, taken, stop = inner + count
    cdef int64_t total = run.first[batch + 1] - run.first[batch]
    cdef int status
    while high - low > 1:
        middle = low + (high - low) // 2
        status = _offset(body, run.ends[batch], middle, &value, at, tmp)
        if status != TK_READ_OK:
            return status
        if value <= inner:
            low = middle
        else:
            high = middle
    while inner < stop:
        if low >= run.rows[batch]:
            return TK_READ_RANGE
        status = _offset(body, run.ends[batch], low + 1, &end, at, tmp)
        if status != TK_READ_OK:
            return status
        if end > total:
            return TK_READ_RANGE
        low += 1
        if end <= inner:
            continue
        taken = (end if end < stop else stop) - inner
        if out.segments != NULL:
            _mark(out, at, place, taken, at.ended or at.next != global_start)
        inner += taken
        global_start += taken
        place += taken
        at.next = global_start
        at.ended = inner == end
        if at.ended and out.mask_junctions and out.targets != NULL:
            _ignore(out, place - 1)
    return TK_READ_OK


cdef void _prefetch(const open_view *table, const piece *one, int width) noexcept nogil:
    """Ask for the beginning of a piece that is copied soon: pieces lie far apart, and the first lines come late."""
    cdef int64_t shard = _last_not_above(table.first, table.shards, one.start)
    cdef const shard_run *run = table.runs[shard]
    cdef int64_t inner = one.start - table.first[shard]
    cdef int64_t batch = _last_not_above(run.first, run.batches, inner)
    cdef int64_t start = run.ids[batch] + (inner - run.first[batch]) * width, offset = 0
    cdef const tk_body *body = run.bodies[batch]
    while offset < PREFETCHED_BYTES and start + offset < body.length:
        __builtin_prefetch(body.body + start + offset)
        offset += 64


cdef int _fill(
    const open_view *table, const piece *one, int width, const sink *out, walk *at, uint8_t *tmp
) noexcept nogil:
    """Copy one piece of the run."""
    cdef int64_t token = one.start, left = one.count, place = one.place, shard, batch, inner, count, stop
    cdef const shard_run *run
    cdef int status
    while left > 0:
        shard = _last_not_above(table.first, table.shards, token)
        run = table.runs[shard]
        table.touched[shard] = 1
        batch = _last_not_above(run.first, run.batches, token - table.first[shard])
        inner = token - table.first[shard] - run.first[batch]
        stop = run.first[batch + 1] - run.first[batch]
        count = stop - inner if stop - inner < left else left
        at.shard = shard
        at.batch = batch
        at.chunk = -1
        status = _copy(run, batch, inner, count, width, out.tokens + place * out.width, out.width, at, tmp)
        if status == TK_READ_OK and out.targets != NULL:
            status = _targets(table, token, count, place, width, out, at, tmp)
        if status == TK_READ_OK and (out.segments != NULL or out.mask_junctions):
            at.shard = shard
            at.batch = batch
            status = _documents(run, batch, inner, count, token, place, out, at, tmp)
        if status != TK_READ_OK:
            return status
        token += count
        place += count
        left -= count
    return TK_READ_OK


cdef int _targets(
    const open_view *table, int64_t token, int64_t count, int64_t place, int width, const sink *out, walk *at,
    uint8_t *tmp,
) noexcept nogil:
    """Write the tokens that follow in the run: those just copied, moved by one, and the one behind them."""
    cdef int64_t last = place + count - 1, following = token + count, shard, batch
    cdef const shard_run *run
    memcpy(
        out.targets + place * out.width, out.tokens + (place + 1) * out.width, <size_t>(count - 1) * <size_t>out.width
    )
    if following >= table.first[table.shards]:
        _ignore(out, last)
        return TK_READ_OK
    shard = _last_not_above(table.first, table.shards, following)
    run = table.runs[shard]
    table.touched[shard] = 1
    batch = _last_not_above(run.first, run.batches, following - table.first[shard])
    at.shard = shard
    at.batch = batch
    return _copy(
        run, batch, following - table.first[shard] - run.first[batch], 1, width, out.targets + last * out.width,
        out.width, at, tmp,
    )


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
            mask_junctions: Write IGNORED where a document ends.

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
        cdef int status = TK_READ_OK
        cdef uint64_t tmp[SCRATCH_WORDS]
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
                shard = _last_not_above(self._first, self.shards, plan[i].start)
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
            at.next = -1
            at.ended = True
            at.segment = at.position = 0
            at.shard = at.batch = at.chunk = -1
            with nogil:
                for i in range(pieces):
                    if i + PREFETCHED_PIECES < pieces:
                        _prefetch(&view, &plan[i + PREFETCHED_PIECES], self.width)
                    status = _fill(&view, &plan[i], self.width, &out, &at, <uint8_t *>tmp)
                    if status != TK_READ_OK:
                        break
        finally:
            free(plan)
        return [], None if status == TK_READ_OK else (status, at.shard, at.batch, at.chunk)
