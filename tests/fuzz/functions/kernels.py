"""The kernels over record batches, given crafted offsets, lengths, rows and buffers: right values, or a clear refusal.

What an input means is read off its bytes, number by number, so that any bytes mean something.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import numpy as np

from toolkit._native.order.permute import permute
from toolkit._native.shards.body import CHUNK_BYTES, READ_NULL, READ_OK, READ_RANGE, Body, ShardMap
from toolkit._native.shards.fetch import FetchBuffer, fetch_binary, fetch_bytes, fetch_fixed
from toolkit._native.shards.gather import find_values, gather_values, gather_windows
from toolkit._native.shards.locate import FileIdentity, Locator
from toolkit._native.shards.samples import BINARY, BOOL, OTHER, TEXT, SampleReader
from toolkit._native.shards.sums import ChunkSums
from toolkit._native.tokens.fit import fit_rows
from toolkit._native.tokens.gather import TokenShard
from toolkit._native.tokens.run import TokenRun

SANITIZED = True

EDGES = [
    sign * (1 << bits) + step
    for bits in (0, 4, 8, 14, 16, 31, 32, 60, 61, 62, 63)
    for sign in (1, -1)
    for step in (-1, 0, 1)
]
LOW, HIGH = -(1 << 63), (1 << 63) - 1
REFUSED = (ValueError, IndexError, OverflowError, MemoryError)
NO_ROWS = np.empty(0, np.int32)


class Numbers:
    """Reads numbers off the input; zeros when it has ended."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1] if self.at <= len(self.data) else 0

    def below(self, count: int) -> int:
        return (self.byte() << 8 | self.byte()) % count

    def any(self, usual: int = 64) -> int:
        """Return a small number mostly, else one that is likely to wrap."""
        kind = self.byte()
        if kind < 200:
            return kind % usual
        return min(max(EDGES[self.byte() % len(EDGES)], LOW), HIGH)

    def many(self, count: int, usual: int = 64) -> list[int]:
        return [self.any(usual) for _ in range(count)]


def body_of(data: bytes, buffers: Sequence[tuple[int, int]], rows: int) -> Body:
    file = os.memfd_create("body")
    try:
        os.write(file, data + b"#")
        sums = ChunkSums()
        sums.update(data)
        places = np.array(buffers, np.int64).reshape(-1, 2)
        return Body(ShardMap(file, len(data) + 1), 0, len(data), rows, sums.digest(), places)
    finally:
        os.close(file)


def crafted(numbers: Numbers) -> tuple[Body, bytes, list[tuple[int, int]], int]:
    """Return a body of validity, offsets, data and ids, which may overlap; its bytes, buffers and width of offsets."""
    width = (4, 8)[numbers.byte() & 1]
    offsets = np.array(
        [min(max(n, -(1 << 8 * width - 1)), (1 << 8 * width - 1) - 1) for n in numbers.many(9)], f"<i{width}"
    )
    values = bytes(numbers.byte() for _ in range(40)) + bytes(CHUNK_BYTES if numbers.byte() & 1 else 0)
    data = bytes([numbers.byte(), 255]) + bytes(6) + offsets.tobytes() + values
    start = 8 + offsets.nbytes
    buffers = [(0, 2), (8, offsets.nbytes), (start, len(values)), (start, len(values) // 8 * 8)]
    if numbers.byte() & 1:
        buffers[numbers.byte() % 4] = (numbers.any(), numbers.any())
    rows = 8 if numbers.byte() & 1 else max(numbers.any(), 1)
    return body_of(data, buffers, rows), data, buffers, width


def integer(data: bytes, at: int, width: int) -> int:
    return int.from_bytes(data[at : at + width], "little", signed=True)


def is_there(data: bytes, validity: tuple[int, int], row: int) -> int:
    start, length = validity
    if length == 0:
        return READ_OK
    if row >> 3 >= length:
        return READ_RANGE
    return READ_OK if data[start + (row >> 3)] >> (row & 7) & 1 else READ_NULL


def expected(
    data: bytes, buffers: Sequence[tuple[int, int]], width: int, row: int, nullable: bool
) -> tuple[int, bytes]:
    """Return the status and the bytes of a value, in Python's numbers, which don't wrap."""
    status = is_there(data, buffers[0], row) if nullable else READ_OK
    if status != READ_OK:
        return status, b""
    (start, length), (first, room) = buffers[1], buffers[2]
    if (row + 2) * width > length:
        return READ_RANGE, b""
    low, high = (integer(data, start + (row + k) * width, width) for k in (0, 1))
    if low < 0 or high < low or high > room:
        return READ_RANGE, b""
    return READ_OK, data[first + low : first + high]


def values(numbers: Numbers) -> object:
    body, data, buffers, width = crafted(numbers)
    rows = np.array([row for row in numbers.many(6, 9) if 0 <= row < body.rows] or [0], np.int64)
    nullable = bool(numbers.byte() & 1)
    validity = np.zeros(int(nullable), np.int32)
    n = len(rows)
    wanted = [expected(data, buffers, width, int(row), nullable) for row in rows]
    statuses, chunks, starts, lengths = (
        np.zeros(n, np.int32),
        np.zeros(n, np.int64),
        np.zeros(n, np.int64),
        np.zeros(n, np.int64),
    )
    bodies = [body] * n
    find_values(bodies, rows, validity, 1, 2, width, starts, lengths, statuses, chunks)
    assert statuses.tolist() == [status for status, _ in wanted], (statuses, wanted)
    assert lengths.tolist() == [len(value) for _, value in wanted]
    places = np.concatenate([[0], np.cumsum(lengths)])
    out = np.full(int(places[-1]), 0xAA, np.uint8)
    gather_values(bodies, rows, starts, places, statuses, chunks, out)
    assert out.tobytes() == b"".join(value for _, value in wanted)
    found, failed = fetch_bytes(bodies, rows, validity, 1, 2, width, statuses, chunks)
    assert found == [value if status == READ_OK else None for status, value in wanted]
    assert failed == sum(status > READ_NULL for status, _ in wanted)
    into, addresses = FetchBuffer(), np.zeros(n, np.uint64)
    fetch_binary(bodies, rows, validity, 1, 2, width, into, addresses, lengths, statuses, chunks)
    for address, length, (status, value) in zip(addresses.tolist(), lengths.tolist(), wanted, strict=True):
        assert length == (len(value) if status == READ_OK else -1)
        assert status != READ_OK or into.take(address, length) == value
    return tuple(statuses.tolist())


def fixed(numbers: Numbers) -> object:
    body, data, buffers, _ = crafted(numbers)
    rows = np.array([row for row in numbers.many(4, 9) if 0 <= row < body.rows] or [0], np.int64)
    width, buffer = numbers.any(20), numbers.below(4)
    n = len(rows)
    out = np.zeros(n * width if 0 < width < 100 else numbers.any(8) % 64, np.uint8)
    statuses, chunks = np.zeros(n, np.int32), np.zeros(n, np.int64)
    fetch_fixed([body] * n, rows, NO_ROWS, buffer, width, out, statuses, chunks)
    start, length = buffers[buffer]
    for i, row in enumerate(rows.tolist()):
        good = (row + 1) * width <= length
        assert statuses[i] == (READ_OK if good else READ_RANGE)
        value = data[start + row * width : start + (row + 1) * width] if good else bytes(width)
        assert out[i * width : (i + 1) * width].tobytes() == value
    return tuple(statuses.tolist())


def windows(numbers: Numbers) -> object:
    body, data, _, _ = crafted(numbers)
    height, width = 1 + numbers.below(6), 1 + numbers.below(9)
    start, stride, inside = numbers.any(), numbers.any(20), numbers.many(4, 6)
    out = np.full((1, height, width), 0xAA, np.uint8)
    statuses, chunks = np.zeros(1, np.int32), np.zeros(1, np.int64)
    starts, strides = np.array([start], np.int64), np.array([stride], np.int64)
    gather_windows([body], np.zeros(1, np.int64), starts, strides, np.array([inside], np.int64), statuses, chunks, out)
    top, left, rows, length = inside
    wanted = np.zeros((height, width), np.uint8)
    if statuses[0] == READ_OK and rows and length:
        for row in range(rows):
            at = start + row * stride
            assert 0 <= at <= len(data) - length
            wanted[top + row, left : left + length] = np.frombuffer(data[at : at + length], np.uint8)
        assert (out[0] == wanted).all()
    return int(statuses[0])


def tokens(numbers: Numbers) -> object:
    body, data, buffers, _ = crafted(numbers)
    width = (2, 4)[numbers.byte() & 1]
    shard = TokenShard([body] * (1 + numbers.below(3)), 3, 1, width)
    counts = [shard.tokens if numbers.byte() < 250 else numbers.any() for _ in range(1 + numbers.below(3))]
    run = TokenRun(np.array(counts, np.int64), width)
    for i in range(len(counts)):
        run.attach(i, shard)
    stretches = 1 + numbers.below(3)
    starts, lengths, places = (np.array(numbers.many(stretches), np.int64) for _ in range(3))
    out_width, room = (2, 4, 8)[numbers.below(3)], numbers.below(200)
    out = np.zeros(room * out_width, np.uint8)
    extra = numbers.byte()
    targets = np.zeros(room * out_width, np.uint8) if extra & 1 else None
    segments, positions = (np.zeros(room, np.int32) if extra & 2 else None for _ in range(2))
    block = numbers.any() if extra & 4 else 0
    row_tokens = numbers.any(50)
    missing, failure = run.gather(
        starts, lengths, places, out, out_width, row_tokens, block=block, key=numbers.any() % (1 << 64),
        targets=targets, segments=segments, positions=positions, mask_junctions=bool(extra & 8),
    )  # fmt: skip
    assert missing == []
    if failure is None and not block and room:
        start, length = buffers[3]
        one = data[start : start + length]
        stored = np.frombuffer(one * (run.tokens * width // max(len(one), 1)), f"<u{width}")
        wanted = np.zeros(room, f"<u{out_width}")
        for first, count, place in zip(starts.tolist(), lengths.tolist(), places.tolist(), strict=True):
            wanted[place : place + count] = stored[first : first + count].astype(wanted.dtype)
        assert (out.view(wanted.dtype) == wanted).all()
    return failure and failure[0]


def samples(numbers: Numbers) -> object:
    body, _, _, width = crafted(numbers)
    first = numbers.any()
    starts = np.array([0, max(first, 1), min(max(first, 1) + 8, HIGH)], np.int64)
    tables = starts[[0, 2]] if numbers.below(2) else starts  # both record batches in one table, or one in each
    identity = FileIdentity(b"/nowhere", os.stat("/"))
    begins = [starts] if len(tables) == 2 else [starts[:2], starts[1:] - starts[1]]
    locator = Locator(tables, lambda i: (begins[i], i), lambda _: (body, identity), len, 1 + numbers.below(2))
    reader = SampleReader(locator)
    for i in range(1 + numbers.below(3)):
        code = (OTHER, BINARY, TEXT, BOOL, *b"bBhHiIqQfd")[numbers.below(14)]
        sizes = dict(zip(b"bBhHiIqQfd", (1, 1, 2, 2, 4, 4, 8, 8, 4, 8), strict=True))
        validity = np.array([numbers.any(5) % 6 for _ in range(numbers.below(3))], np.int32)
        reader.add(f"c{i}", code, validity, numbers.any(5) % 6, numbers.any(5) % 6, sizes.get(code, width))
    outcome: list[object] = []
    for row in numbers.many(4, 10):
        try:
            found = reader.read(row)
        except UnicodeDecodeError:
            outcome.append("text")
        else:
            outcome.append(found[:2] if isinstance(found, tuple) else len(found))
    return tuple(outcome)


def orders(numbers: Numbers) -> object:
    n = numbers.any()
    at = np.array([min(max(number, 0), max(n - 1, 0)) for number in numbers.many(4)] or [0], np.int64)
    out = np.full(len(at), -1, np.int64)
    permute(n, numbers.any() % (1 << 64), at, out)
    assert ((out >= 0) & (out < n)).all()
    lengths = np.array(numbers.many(8, 20), np.int64)
    rows, places = np.full(8, -1, np.int64), np.full(8, -1, np.int64)
    capacity = numbers.any(40)
    count = fit_rows(lengths, capacity, bool(numbers.byte() & 1), rows, places)
    assert 1 <= count <= 8
    assert (places + lengths <= capacity).all()
    return count


KINDS: list[Callable[[Numbers], object]] = [values, fixed, windows, tokens, samples, orders]


def fuzz(data: bytes) -> object:
    """Use one input."""
    numbers = Numbers(data)
    kind = KINDS[numbers.byte() % len(KINDS)]
    try:
        return kind.__name__, kind(numbers)
    except REFUSED as error:
        return kind.__name__, type(error).__name__, str(error)[:12]


def seeds() -> list[bytes]:
    """Return some inputs of each kind."""
    draw = np.random.default_rng(1)
    return [bytes([i]) + draw.integers(0, top, 160, np.uint8).tobytes() for i in range(len(KINDS)) for top in (60, 250)]
