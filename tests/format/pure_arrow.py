"""Arrow's own part of a format 1 reader: messages, types, and values by the places of their buffers.

Written from Message.fbs, Schema.fbs and docs/format.md; the standard library only. `pure_reader` is the rest.
"""

import itertools
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SCHEMA, RECORD_BATCH = 1, 3  # Message.fbs: the header types that occur in format 1
VERSION_5 = 4  # Schema.fbs, MetadataVersion
MAGIC = b"ARROW1"
MOST_EMPTY_ITEMS, MOST_DEPTH = 2**20, 64  # docs/format.md


class Damaged(Exception):
    """The first word of the message names the layer that found it."""


def need(good: bool, layer: str, what: str) -> None:
    if not good:
        raise Damaged(f"{layer}: {what}")


@contextmanager
def decoding(layer: str, where: str) -> Iterator[None]:
    """Whatever goes wrong in here does so because bytes, though their hash agrees, are not what they should be."""
    try:
        yield
    except Damaged as error:
        raise error if where in str(error) else Damaged(f"{error}: {where}") from error
    except (struct.error, ValueError, LookupError, TypeError, RecursionError) as error:
        raise Damaged(f"{layer}: {where} can't be read: {type(error).__name__}: {error}") from error


# --- flatbuffers and messages ---------------------------------------------------------------------------------------


class Flat:
    """A table of a flatbuffer: fields by their number in the .fbs file, an absent one gives 0 or []."""

    def __init__(self, data: bytes, at: int | None = None) -> None:
        self.data = data
        self.at = struct.unpack_from("<I", data, 0)[0] if at is None else at
        self.vtable = self.at - struct.unpack_from("<i", data, self.at)[0]
        self.slots = (struct.unpack_from("<H", data, self.vtable)[0] - 4) // 2

    def _where(self, field: int) -> int | None:
        if field >= self.slots:
            return None
        offset = struct.unpack_from("<H", self.data, self.vtable + 4 + 2 * field)[0]
        return self.at + offset if offset else None

    def _follow(self, at: int) -> int:
        return at + struct.unpack_from("<I", self.data, at)[0]

    def has(self, field: int) -> bool:
        return self._where(field) is not None

    def number(self, field: int, code: str, absent: int = 0) -> int:
        at = self._where(field)
        return absent if at is None else struct.unpack_from("<" + code, self.data, at)[0]

    def table(self, field: int) -> "Flat":
        return Flat(self.data, self._follow(self._where(field)))

    def text(self, field: int) -> str:
        at = self._follow(self._where(field))
        return self.data[at + 4 : at + 4 + struct.unpack_from("<I", self.data, at)[0]].decode()

    def _vector(self, field: int) -> tuple[int, int]:
        at = self._where(field)
        if at is None:
            return 0, 0
        at = self._follow(at)
        return at + 4, struct.unpack_from("<I", self.data, at)[0]

    def structs(self, field: int, layout: str) -> list[tuple[int, ...]]:
        at, count = self._vector(field)
        size = struct.calcsize("<" + layout)
        return [struct.unpack_from("<" + layout, self.data, at + i * size) for i in range(count)]

    def tables(self, field: int) -> list["Flat"]:
        at, count = self._vector(field)
        return [Flat(self.data, self._follow(at + 4 * i)) for i in range(count)]


def message(data: bytes, header_type: int) -> tuple[Flat, Flat]:
    """The Message in `data` (prefix, metadata and padding) and its header."""
    marker, length = struct.unpack_from("<Ii", data, 0)
    need(marker == 0xFFFFFFFF and length == len(data) - 8, "arrow", "message prefix")
    found = Flat(data[8:])
    need(found.number(0, "h") == VERSION_5, "arrow", "metadata version")
    need(found.number(1, "B") == header_type, "arrow", "message type")
    return found, found.table(2)


def arrow_footer(data: bytes) -> Flat:
    need(data[:6] == MAGIC and data[-6:] == MAGIC, "arrow", "magic")
    length = struct.unpack("<i", data[-10:-6])[0]
    return Flat(data[-10 - length : -10])


def places(batch: Flat, body_bytes: int, count: int) -> list[tuple[int, int]]:
    """Offset and length of each buffer in the body."""
    need(not batch.has(3), "arrow", "compressed")
    buffers = batch.structs(2, "qq")
    need(len(buffers) == count, "arrow", f"{len(buffers)} buffers, the schema has {count}")
    for i, (offset, length) in enumerate(buffers):
        inside = offset >= 0 and length >= 0 and offset + length <= body_bytes
        need(inside and offset % 8 == 0, "arrow", f"buffer {i} at {offset}, {length} bytes, in a body of {body_bytes}")
    return buffers


# --- types and values -----------------------------------------------------------------------------------------------

# Type of Schema.fbs
NULL, INT, FLOAT, BINARY, UTF8, BOOL, DECIMAL, DATE, TIME, TIMESTAMP, INTERVAL, LIST, STRUCT = range(1, 14)
FIXED_BINARY, FIXED_LIST, DURATION, LARGE_BINARY, LARGE_UTF8, LARGE_LIST = 15, 16, 18, 19, 20, 21
BYTES = {BINARY: "binary", UTF8: "utf8", LARGE_BINARY: "large_binary", LARGE_UTF8: "large_utf8"}
LISTS = {LIST: "list", LARGE_LIST: "large_list", FIXED_LIST: "fixed_size_list"}
OFFSETS = {BINARY: "i", UTF8: "i", LIST: "i", LARGE_BINARY: "q", LARGE_UTF8: "q", LARGE_LIST: "q"}


class Type:
    """A field of an Arrow schema.

    `kind` is its number in Schema.fbs, `width` the bytes of a fixed-width value, `size` the items of a fixed list.
    `validity`, `offsets` and `data` are the numbers of its own buffers: `numbers` counts them, depth first.
    """

    def __init__(self, field: Flat, numbers: Iterator[int], depth: int = 1) -> None:
        need(depth <= MOST_DEPTH, "arrow", "types too deep in each other")
        self.name, self.kind, self.nullable = field.text(0), field.number(2, "B"), bool(field.number(1, "B"))
        self.word, self.width, self.signed, self.size = "other", 0, True, 0
        self.empty = False  # whether a value takes no bytes
        need(not field.has(4), "arrow", f"{self.name} is a dictionary")
        self._read(field.table(3))
        leaf = self.kind not in (NULL, STRUCT, *LISTS)
        self.validity = None if self.kind == NULL else next(numbers)
        self.offsets = next(numbers) if self.kind in OFFSETS else None
        self.children = [Type(child, numbers, depth + 1) for child in field.tables(5)]
        self.data = next(numbers) if leaf else None
        need(self.kind not in LISTS or len(self.children) == 1, "arrow", f"{self.name} is a list without an item")
        names = [child.name for child in self.children]
        need(len(set(names)) == len(names), "arrow", f"two fields of {self.name} have one name")
        if self.kind in (NULL, STRUCT, FIXED_BINARY):
            self.empty = self.width == 0 and all(child.empty for child in self.children)
        elif self.kind == FIXED_LIST:
            self.empty = self.size == 0 or self.children[0].empty

    def _read(self, own: Flat) -> None:
        match self.kind:
            case n if n == INT:
                self.width, self.signed = own.number(0, "i") // 8, bool(own.number(1, "B"))
                self.word = f"{'' if self.signed else 'u'}int{8 * self.width}"
            case n if n == FLOAT:
                self.width = (2, 4, 8)[own.number(0, "h")]
                self.word = f"float{8 * self.width}"
            case n if n == BOOL:
                self.word = "bool"
            case n if n == DECIMAL:
                self.width = own.number(2, "i", 128) // 8
            case n if n == DATE:
                self.width = (4, 8)[own.number(0, "h", 1)]
            case n if n == TIME:
                self.width = own.number(1, "i", 32) // 8
            case n if n in (TIMESTAMP, DURATION):
                self.width = 8
            case n if n == INTERVAL:
                self.width = (4, 8, 16)[own.number(0, "h")]
            case n if n == FIXED_BINARY:
                self.width = own.number(0, "i")
                self.word = f"fixed_size_binary({self.width})"
            case n if n == FIXED_LIST:
                self.size = own.number(0, "i")
            case _:
                need(self.kind in (NULL, STRUCT, *BYTES, *LISTS), "arrow", f"type {self.kind} of {self.name}")
        need(self.width >= 0 and self.size >= 0, "arrow", f"size of {self.name}")

    def __str__(self) -> str:
        """The type in the words of docs/format.md, as far as it needs them."""
        if self.kind == STRUCT:
            return f"struct<{', '.join(f'{child.name}: {child}' for child in self.children)}>"
        if self.kind in LISTS:
            return f"{LISTS[self.kind]}<{self.children[0]}>"
        return BYTES.get(self.kind, self.word)

    def first_data(self) -> int | None:
        """The number of its first buffer, depth first, that holds neither validity nor offsets."""
        found = (child.first_data() for child in self.children)
        return self.data if self.data is not None else next((n for n in found if n is not None), None)

    def plain(self, value: object) -> object:
        """The value as people know it: numbers, text, lists and dicts; other fixed-width types stay bytes."""
        if value is None:
            return None
        if self.kind == INT:
            return int.from_bytes(value, "little", signed=self.signed)
        if self.kind == FLOAT:
            return struct.unpack({2: "<e", 4: "<f", 8: "<d"}[self.width], value)[0]
        if self.kind in (UTF8, LARGE_UTF8):
            return value.decode()
        if self.kind == STRUCT:
            return {child.name: child.plain(part) for child, part in zip(self.children, value, strict=True)}
        if self.kind in LISTS:
            return [self.children[0].plain(item) for item in value]
        return value

    def canonical(self, value: object) -> bytes:
        """The canonical encoding of a value as Values gives it."""
        if value is None:
            return b"\0"
        if self.kind in BYTES:
            return b"\1" + struct.pack("<Q", len(value)) + value
        if self.kind == BOOL:
            return b"\1\1" if value else b"\1\0"
        if self.kind == STRUCT:
            return b"\1" + b"".join(child.canonical(part) for child, part in zip(self.children, value, strict=True))
        if self.kind in LISTS:
            return b"\1" + struct.pack("<Q", len(value)) + b"".join(map(self.children[0].canonical, value))
        return b"\1" + value


def canonical(field: Type, value: object) -> bytes:
    encoded = field.name.encode()
    return struct.pack("<I", len(encoded)) + encoded + field.canonical(value)


class Schema:
    """The columns of a Schema of Schema.fbs, and how many buffers they have in a record batch."""

    def __init__(self, schema: Flat) -> None:
        numbers = itertools.count()
        self.columns = [Type(field, numbers) for field in schema.tables(1)]
        self.buffers = next(numbers)

    def __getitem__(self, name: str) -> Type:
        return next(field for field in self.columns if field.name == name)


class Values:
    """The values of a record batch, each found by itself; `read(start, stop)` gives bytes of the body."""

    def __init__(self, rows: int, buffers: list[tuple[int, int]], read: Callable[[int, int], bytes]) -> None:
        self.rows, self.buffers, self.read = rows, buffers, read
        self.empty_items = 0

    def _take(self, number: int, start: int, stop: int) -> bytes:
        offset, length = self.buffers[number]
        need(0 <= start <= stop <= length, "value", f"bytes {start} to {stop} of buffer {number}, which has {length}")
        return self.read(offset + start, offset + stop)

    def _bit(self, number: int, row: int) -> bool:
        return bool(self._take(number, row >> 3, (row >> 3) + 1)[0] >> (row & 7) & 1)

    def ends(self, field: Type, row: int) -> tuple[int, int]:
        """Where the value begins and ends: in the data, or in the items of a list."""
        if field.kind == FIXED_LIST:
            return row * field.size, (row + 1) * field.size
        code = OFFSETS[field.kind]
        size = struct.calcsize("<" + code)
        start, stop = struct.unpack(f"<2{code}", self._take(field.offsets, row * size, (row + 2) * size))
        need(0 <= start <= stop, "value", f"offsets {start} and {stop}")
        return start, stop

    def value(self, field: Type, row: int) -> object:
        """A value of any type: None, bytes (also of numbers), bool, list for lists, tuple for structs."""
        if field.kind == NULL:
            return None
        if self.buffers[field.validity][1] and not self._bit(field.validity, row):
            return None
        if field.kind == BOOL:
            return self._bit(field.data, row)
        if field.kind == STRUCT:
            return tuple(self.value(child, row) for child in field.children)
        if field.kind in LISTS:
            start, stop = self.ends(field, row)
            (item,) = field.children
            self.empty_items += (stop - start) * item.empty
            need(self.empty_items <= MOST_EMPTY_ITEMS, "value", "more items that take no bytes than a batch may have")
            if item.width:
                self._take(item.data, start * item.width, stop * item.width)  # one read for all of them
            return [self.value(item, i) for i in range(start, stop)]
        if field.kind in BYTES:
            found = self._take(field.data, *self.ends(field, row))
            need(field.kind not in (UTF8, LARGE_UTF8) or is_utf8(found), "value", "a text that is not UTF-8")
            return found
        return self._take(field.data, row * field.width, (row + 1) * field.width)


def is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
