"""Runs a program on the samples of a batch without the GIL; included in program.pyx."""


# Both return the sample that wants more memory than the scratch may take, or `count`.
cdef int64_t _run(const img_program *program, img_scratch *scratch, const uint64_t *addresses, const int64_t *lengths,
                  const uint64_t *keys, const uint64_t *outs, int64_t out_h, int64_t out_w, int32_t *statuses,
                  char *messages, int64_t first, int64_t count) noexcept nogil:
    cdef int64_t i
    for i in range(first, count):
        messages[i * IMG_MESSAGE] = 0
        statuses[i] = img_run_jpeg(program, scratch, <const uint8_t *><uintptr_t>addresses[i], lengths[i],
                                   keys[i] if keys != NULL else 0, <void *><uintptr_t>outs[i], out_h, out_w,
                                   messages + i * IMG_MESSAGE)
        if statuses[i] == IMG_NO_MEMORY and scratch.room.wanted > 0:
            return i
    return count


cdef int64_t _run_raw(const img_program *program, img_scratch *scratch, const uint64_t *addresses,
                      const int64_t *sizes, const uint64_t *keys, const uint64_t *outs, int64_t out_h, int64_t out_w,
                      int32_t *statuses, char *messages, int64_t first, int64_t count) noexcept nogil:
    cdef int64_t i
    cdef img_pixels pixels
    for i in range(first, count):
        messages[i * IMG_MESSAGE] = 0
        pixels.data = <const uint8_t *><uintptr_t>addresses[i]
        pixels.height, pixels.width, pixels.channels = sizes[3 * i], sizes[3 * i + 1], <int>sizes[3 * i + 2]
        statuses[i] = img_run_pixels(program, scratch, &pixels, keys[i] if keys != NULL else 0,
                                     <void *><uintptr_t>outs[i], out_h, out_w, messages + i * IMG_MESSAGE)
        if statuses[i] == IMG_NO_MEMORY and scratch.room.wanted > 0:
            return i
    return count


cdef int _check_samples(const uint64_t[::1] addresses, const int64_t[::1] lengths) except -1:
    cdef int64_t i
    for i in range(addresses.shape[0]):
        if lengths[i] < 0 or (addresses[i] == 0 and lengths[i] > 0):
            raise ValueError(f"sample {i} has no valid address or a negative length ({lengths[i]})")
    return 0


cdef int64_t _failed(int32_t[::1] statuses) noexcept:
    cdef int64_t i, failed = 0
    for i in range(statuses.shape[0]):
        failed += statuses[i] != IMG_OK
    return failed
