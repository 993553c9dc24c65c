"""Variable-length values into batches: where they lie first; then they, or windows of pictures, copied and checked.

The numpy line that says the same, for bodies that are known to be good and `data`, the start of the values' buffer:
    offsets = np.frombuffer(body, "<i4", offset=buffers[offsets][0])
    starts[i], lengths[i] = data + offsets[row], offsets[row + 1] - offsets[row]
    out[places[i] : places[i] + lengths[i]] = body[starts[i] : starts[i] + lengths[i]]
and for windows of pictures:
    out[i, top : top + height, left : left + width] = as_strided(body[starts[i] :], (height, width), (strides[i], 1))
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t, uintptr_t
from libc.string cimport memset

from toolkit._native.shards.body cimport (
    TK_CHUNK_BYTES, TK_READ_NULL, TK_READ_OK, UnpackedRows, checked_copy, checked_rows, highest_buffer, value_span,
)

cdef extern from *:
    """
    /* Prefetching touches nothing: a page of a map that is no longer there costs nothing, nor does a place that no check
       has seen yet. So places are numbers here, which may wrap, not pointers. */
    static void tk_prefetch(uintptr_t at)
    {
        __builtin_prefetch((const void *)at);
    }

    /* Ask for the first lines of each page of a value that is copied soon: the processor's own prefetching begins anew
       at every page. */
    static void tk_prefetch_value(uintptr_t at, uint64_t n)
    {
        const uintptr_t end = at + (n < 16384 ? n : 16384);
        while (at < end) {
            for (int line = 0; line < 8; line++)
                __builtin_prefetch((const void *)(at + 64 * line));
            at = (at | 4095) + 1;
        }
    }
    """
    void tk_prefetch(uintptr_t at) nogil
    void tk_prefetch_value(uintptr_t at, uint64_t n) nogil


cdef enum:
    AHEAD = 8  # offsets that are asked for before they are read


def find_values(
    list bodies not None, const int64_t[::1] rows not None, const int32_t[::1] validity not None, int32_t offsets,
    int32_t data, int64_t offset_width, int64_t[::1] starts not None, int64_t[::1] lengths not None,
    int32_t[::1] statuses not None, int64_t[::1] bad_chunks not None,
):
    """Find values in their bodies: start and length (both 0 when null or not readable), and a READ_ status each."""
    cdef int64_t n = rows.shape[0], i, levels = validity.shape[0]
    cdef uint8_t tmp[TK_CHUNK_BYTES]
    if offset_width != 4 and offset_width != 8:
        raise ValueError("offsets are 4 or 8 bytes wide")
    if starts.shape[0] != n or lengths.shape[0] != n or statuses.shape[0] != n or bad_chunks.shape[0] != n:
        raise ValueError("starts, lengths, statuses and bad_chunks must fit the rows")
    cdef UnpackedRows unpacked = UnpackedRows(bodies, rows, highest_buffer(validity, offsets, data))
    if n == 0:
        return
    cdef const int32_t *validity_p = &validity[0] if levels else NULL
    with nogil:
        for i in range(n):
            if i + AHEAD < n:
                tk_prefetch(
                    <uintptr_t>unpacked.bodies[i + AHEAD].body
                    + <uintptr_t>unpacked.buffers[i + AHEAD][2 * offsets]
                    + <uintptr_t>rows[i + AHEAD] * <uintptr_t>offset_width
                )
            bad_chunks[i] = -1
            starts[i] = lengths[i] = 0
            statuses[i] = value_span(
                unpacked.bodies[i], unpacked.buffers[i], rows[i], validity_p, levels, offsets, data, offset_width,
                &starts[i], &lengths[i], tmp, &bad_chunks[i],
            )


def gather_values(
    list bodies not None, const int64_t[::1] rows not None, const int64_t[::1] starts not None,
    const int64_t[::1] places not None, int32_t[::1] statuses not None, int64_t[::1] bad_chunks not None,
    uint8_t[::1] out not None,
):
    """Copy values that find_values found, and whose status is READ_OK, to out[places[i] : places[i + 1]].

    A value that is not readable becomes zeros. Returns how many are neither good nor null, those before included.
    """
    cdef int64_t n = rows.shape[0], i, length, failed = 0
    cdef uint8_t tmp[TK_CHUNK_BYTES]
    if starts.shape[0] != n or places.shape[0] != n + 1 or statuses.shape[0] != n or bad_chunks.shape[0] != n:
        raise ValueError("starts, places, statuses and bad_chunks must fit the rows")
    for i in range(n):
        if places[i] < 0 or places[i + 1] < places[i] or places[i + 1] > out.shape[0]:
            raise ValueError(f"value {i} has no place within out")
    cdef UnpackedRows unpacked = UnpackedRows(bodies, rows, -1)
    if n == 0 or out.shape[0] == 0:
        for i in range(n):
            failed += statuses[i] > TK_READ_NULL
        return failed
    cdef uint8_t *base = &out[0]
    with nogil:
        for i in range(n):
            length = places[i + 1] - places[i]
            if i + 1 < n and statuses[i + 1] == TK_READ_OK:
                tk_prefetch_value(
                    <uintptr_t>unpacked.bodies[i + 1].body + <uintptr_t>starts[i + 1],
                    <uint64_t>(places[i + 2] - places[i + 1]),
                )
            if statuses[i] == TK_READ_OK and length:
                statuses[i] = checked_copy(unpacked.bodies[i], starts[i], length, base + places[i], tmp, &bad_chunks[i])
            if statuses[i] > TK_READ_NULL:
                failed += 1
                memset(base + places[i], 0, <size_t>length)
    return failed


def gather_windows(
    list bodies not None, const int64_t[::1] rows not None, const int64_t[::1] starts not None,
    const int64_t[::1] strides not None, const int64_t[:, ::1] inside not None, int32_t[::1] statuses not None,
    int64_t[::1] bad_chunks not None, uint8_t[:, :, ::1] out not None,
):
    """Copy a window of each picture to `out` (n, height, row bytes): crops of pixels as they are stored.

    inside[i] says which part of out[i] lies in the picture: top, left, height, width, the second and last in bytes. Its
    row r begins at starts[i] + r * strides[i] of the body; the rest becomes zeros. Returns how many windows are not
    readable; `statuses` says which.
    """
    cdef int64_t n = rows.shape[0], i, failed = 0, height = out.shape[1], width = out.shape[2]
    cdef uint8_t tmp[TK_CHUNK_BYTES]
    if starts.shape[0] != n or strides.shape[0] != n or statuses.shape[0] != n or bad_chunks.shape[0] != n:
        raise ValueError("starts, strides, statuses and bad_chunks must fit the rows")
    if out.shape[0] != n or height < 1 or width < 1 or inside.shape[0] != n or inside.shape[1] != 4:
        raise ValueError("out and inside must fit the rows")
    for i in range(n):
        if (
            inside[i, 0] < 0 or inside[i, 2] < 0 or inside[i, 0] > height - inside[i, 2]
            or inside[i, 1] < 0 or inside[i, 3] < 0 or inside[i, 1] > width - inside[i, 3]
        ):
            raise ValueError(f"window {i} reaches beyond out")
    cdef UnpackedRows unpacked = UnpackedRows(bodies, rows, -1)
    if n == 0:
        return 0
    with nogil:
        for i in range(n):
            bad_chunks[i] = -1
            if inside[i, 2] < height or inside[i, 3] < width:
                memset(&out[i, 0, 0], 0, <size_t>(height * width))
            statuses[i] = TK_READ_OK
            if inside[i, 2] and inside[i, 3]:
                statuses[i] = checked_rows(
                    unpacked.bodies[i], starts[i], inside[i, 3], strides[i], inside[i, 2],
                    &out[i, 0, 0] + inside[i, 0] * width + inside[i, 1], width, tmp, &bad_chunks[i],
                )
            failed += statuses[i] != TK_READ_OK
    return failed
