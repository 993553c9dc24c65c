"""Runs several programs on the samples of a batch, each decoded once where that is less work; included in program.pyx."""


def run_together(programs, const uint64_t[::1] addresses not None, const int64_t[::1] lengths not None,
                 const uint64_t[:, ::1] out_addresses not None, const int64_t[::1] out_sizes_bytes not None,
                 Scratch scratch not None, int32_t[:, ::1] statuses not None, keys):
    """Do what `run` of each program does, to the same bytes, and decode a JPEG once for all where that is less work.

    Only with `fast` may results be others, as far as `fast` lets them: all are made of the finest scale that one needs.

    Args:
        programs: k ImagePrograms, which open and decode alike: mode, limits, exif, icc, fast and tolerant are the same.
        addresses: As in `run`.
        lengths: As in `run`.
        out_addresses: uint64 (k, n), where each program's results go.
        out_sizes_bytes: int64 (k,), bytes of one result of each program.
        scratch: As in `run`; scratch.message(program * n + sample) says what went wrong.
        statuses: int32 (k, n), filled.
        keys: For each program uint64 (n,), or None where no step of it draws.

    Returns:
        The number of statuses that are not OK.

    Raises:
        ValueError: As in `run`, or the programs don't decode alike.
        RuntimeError: Another call uses the scratch.
        MemoryError: There is no memory for messages.
    """
    cdef int64_t count = addresses.shape[0], views_count = len(programs), at = 0, alone = -1, i, k
    cdef ImageProgram program, first = programs[0]
    cdef const uint64_t[::1] own
    cdef const uint64_t **keys_of = NULL
    cdef img_view *views = NULL
    if not len(keys) == out_addresses.shape[0] == out_sizes_bytes.shape[0] == statuses.shape[0] == views_count:
        raise ValueError(f"there must be keys, places, sizes and statuses for each of {views_count} programs")
    for k in range(views_count):
        program = programs[k]
        if not _opens_alike(&first.program, &program.program):
            raise ValueError("the programs must have the same mode, limits, exif, icc, fast and tolerant")
        program._check_call(count, lengths.shape[0], out_addresses[k], statuses[k], keys[k], out_sizes_bytes[k])
    if count == 0:
        return 0
    _check_samples(addresses, lengths)
    scratch.enter(views_count * count)
    try:
        views = <img_view *>calloc(<size_t>views_count, sizeof(img_view))
        keys_of = <const uint64_t **>calloc(<size_t>views_count, sizeof(uint64_t *))
        if views == NULL or keys_of == NULL:
            raise MemoryError("no memory for the programs of a call")
        for k in range(views_count):
            program = programs[k]
            views[k].program = &program.program
            views[k].out_h, views[k].out_w = program.out_h, program.out_w
            if keys[k] is not None:
                own = keys[k]
                keys_of[k] = &own[0]
        while True:
            with nogil:
                at = _run_together(views, views_count, scratch.memory, &addresses[0], &lengths[0], keys_of,
                                   &out_addresses[0, 0], &statuses[0, 0], <char *>scratch.messages.data, at, count,
                                   &alone)
            if at == count:
                return sum(_failed(statuses[k]) for k in range(views_count))
            if scratch.is_granted(max(alone, 0) * count + at):
                continue
            if alone >= 0 and scratch.memory.shared.size == 0:
                statuses[alone, at] = IMG_TOO_LARGE
                alone += 1
            alone = max(alone, 0)  # without the memory to share, each by itself, which takes less
            img_release(&scratch.memory.shared)
    finally:
        free(views)
        free(keys_of)
        scratch.leave()


cdef bint _opens_alike(const img_program *a, const img_program *b) noexcept:
    return (a.mode == b.mode and a.max_pixels == b.max_pixels and a.max_bytes == b.max_bytes and a.exif == b.exif
            and a.icc == b.icc and a.fast == b.fast and a.tolerant == b.tolerant)


# Returns the sample that wants more memory than the scratch may take, or `count`; *alone is then the program that wants
# it by itself, or -1 for all of them. It goes on there, or with the program that *alone says.
cdef int64_t _run_together(img_view *views, int64_t views_count, img_scratch *scratch, const uint64_t *addresses,
                           const int64_t *lengths, const uint64_t **keys, const uint64_t *outs, int32_t *statuses,
                           char *messages, int64_t first, int64_t count, int64_t *alone) noexcept nogil:
    cdef int64_t i, k
    cdef int status
    cdef const uint8_t *data
    for i in range(first, count):
        data = <const uint8_t *><uintptr_t>addresses[i]
        for k in range(views_count):
            views[k].key = keys[k][i] if keys[k] != NULL else 0
            views[k].out = <void *><uintptr_t>outs[k * count + i]
            views[k].message = messages + (k * count + i) * IMG_MESSAGE
        if alone[0] < 0:
            status = img_run_together(views, views_count, scratch, data, lengths[i])
            if status == IMG_NO_MEMORY:
                return i
            if status == IMG_AGAIN:
                alone[0] = 0
            else:
                for k in range(views_count):
                    statuses[k * count + i] = views[k].status
        if alone[0] >= 0:
            k = alone[0]
            alone[0] = img_run_alone(views, views_count, k, scratch, data, lengths[i])
            while k < views_count and k <= alone[0]:
                statuses[k * count + i] = views[k].status
                k += 1
            if alone[0] < views_count:
                return i
            alone[0] = -1
    return count
