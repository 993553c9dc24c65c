"""What TokenRun of run.pyx has gathered: pieces of a run of tokens out of the shards that are open."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from toolkit._native.shards.body cimport tk_body

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
    cdef list _bodies
    cdef shard_run _run
    cdef readonly int64_t tokens


cdef int gather_pieces(
    const open_view *table, const piece *plan, int64_t pieces, int width, const sink *out, walk *at
) noexcept nogil


cdef inline int64_t last_not_above(const int64_t *sorted_values, int64_t n, int64_t value) noexcept nogil:
    """Return the last i in [0, n) with sorted_values[i] <= value; sorted_values[0] is not above it."""
    cdef int64_t low = 0, high = n, middle
    while high - low > 1:
        middle = low + (high - low) // 2
        if sorted_values[middle] <= value:
            low = middle
        else:
            high = middle
    return low
