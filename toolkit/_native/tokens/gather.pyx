"""Pieces of a run of tokens, gathered out of verified maps: ids, the targets that follow them, and document marks.

The documents of a split are one run of token ids, over record batches and shards. The numpy lines that say the same as
gather_pieces, for a run that lies in an array and a piece of it:
    tokens[place : place + count] = run[start : start + count]
    targets[place : place + count] = np.append(run, -100)[start + 1 : start + count + 1]
Every byte comes through checked_ids and checked_copy of shards/body.pyx: a flipped bit and a truncated file become a
status.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from toolkit._native.shards.body cimport TK_READ_OK, TK_READ_RANGE, Body, checked_copy, checked_ids, tk_body

cdef extern from *:
    void __builtin_prefetch(const void *address) nogil

cdef enum:
    IGNORED = -100  # the target where there is none, as in torch's cross_entropy
    SCRATCH_WORDS = 2048  # a chunk, aligned for ids
    PREFETCHED_PIECES = 2  # ahead of the one that is copied
    PREFETCHED_BYTES = 2048


cdef class TokenShard:
    """One shard's record batches as a run of tokens. Holds the bodies it points into."""

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
            if body.rows and length // 8 <= body.rows:  # one without rows needs no offsets
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
    # Locals: for all that a compiler knows, each number that is written may change what a pointer leads to.
    cdef int32_t *segments = out.segments
    cdef int32_t *positions = out.positions
    cdef int32_t segment = at.segment, position = at.position
    cdef int64_t row_tokens = out.row_tokens, end = place + count, stop, i
    cdef bint begins = junction
    while place < end:
        if place % row_tokens == 0:
            segment = 0
            begins = True
        if begins:
            segment += 1
            position = 0
            begins = False
        stop = (place // row_tokens + 1) * row_tokens
        if stop > end:
            stop = end
        for i in range(stop - place):
            segments[place + i] = segment
            positions[place + i] = position + <int32_t>i
        position += <int32_t>(stop - place)
        place = stop
    at.segment = segment
    at.position = position


cdef inline void _ignore(const sink *out, int64_t place) noexcept nogil:
    if out.width == 4:
        (<int32_t *>out.targets)[place] = IGNORED
    else:
        (<int64_t *>out.targets)[place] = IGNORED


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
    cdef int64_t shard = last_not_above(table.first, table.shards, one.start)
    cdef const shard_run *run = table.runs[shard]
    cdef int64_t inner = one.start - table.first[shard]
    cdef int64_t batch = last_not_above(run.first, run.batches, inner)
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
        shard = last_not_above(table.first, table.shards, token)
        run = table.runs[shard]
        table.touched[shard] = 1
        batch = last_not_above(run.first, run.batches, token - table.first[shard])
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
    shard = last_not_above(table.first, table.shards, following)
    run = table.runs[shard]
    table.touched[shard] = 1
    batch = last_not_above(run.first, run.batches, following - table.first[shard])
    at.shard = shard
    at.batch = batch
    return _copy(
        run, batch, following - table.first[shard] - run.first[batch], 1, width, out.targets + last * out.width,
        out.width, at, tmp,
    )


cdef int gather_pieces(
    const open_view *table, const piece *plan, int64_t pieces, int width, const sink *out, walk *at
) noexcept nogil:
    """Copy `pieces` of the run, each to its place; all lie in open shards. `at` says which record batch failed."""
    cdef uint64_t tmp[SCRATCH_WORDS]
    cdef int status
    cdef int64_t i
    at.next = -1
    at.ended = True
    at.segment = at.position = 0
    at.shard = at.batch = at.chunk = -1
    for i in range(pieces):
        if i + PREFETCHED_PIECES < pieces:
            _prefetch(table, &plan[i + PREFETCHED_PIECES], width)
        status = _fill(table, &plan[i], width, out, at, <uint8_t *>tmp)
        if status != TK_READ_OK:
            return status
    return TK_READ_OK
