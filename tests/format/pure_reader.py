"""A reader of format 1 written from docs/format.md alone: the standard library and xxhash, no toolkit, no pyarrow.

It checks every layer and is meant to be read, not to be fast. `skip` leaves out a layer so that a test can show that
the next one finds the damage too.
"""

import base64
import hashlib
import json
import struct
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import xxhash

CHUNK = 16384
MAGIC = b"ARROW1"
SCHEMA, RECORD_BATCH = 1, 3  # Message.fbs: the header types that occur in format 1
TABLE_COLUMNS = ["path", "rows", "bytes", "sha256", "nonbody_sha256", "tokens", "batches"]


class Damaged(Exception):
    """The first word of the message names the layer that found it."""


def need(good: bool, layer: str, what: str) -> None:
    if not good:
        raise Damaged(f"{layer}: {what}")


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_CRC = _crc_table()


def crc32c(data: bytes) -> int:
    crc, table = 0xFFFFFFFF, _CRC
    for byte in data:
        crc = crc >> 8 ^ table[crc & 0xFF ^ byte]
    return crc ^ 0xFFFFFFFF


class Flat:
    """A table of a flatbuffer: fields by their number in the .fbs file, an absent one gives None, 0 or []."""

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
    need(found.number(1, "B") == header_type, "arrow", "message type")
    return found, found.table(2)


# Type of Schema.fbs -> what docs/format.md calls it.
NULL, INT, FLOAT, BINARY, UTF8, BOOL, DECIMAL, DATE, TIME, TIMESTAMP, INTERVAL, LIST, STRUCT = range(1, 14)
FIXED_BINARY, FIXED_LIST, DURATION, LARGE_BINARY, LARGE_UTF8, LARGE_LIST = 15, 16, 18, 19, 20, 21
BYTES = {BINARY: "i", UTF8: "i", LARGE_BINARY: "q", LARGE_UTF8: "q"}
LISTS = {LIST: "i", LARGE_LIST: "q"}


class Type:
    """A field of an Arrow schema: its name, number in Schema.fbs, bytes of a fixed-width value, and children."""

    def __init__(self, field: Flat) -> None:
        self.name, self.number = field.text(0), field.number(2, "B")
        self.children = [Type(child) for child in field.tables(5)]
        own = field.table(3)
        self.signed, self.size = True, 0
        match self.number:
            case n if n == INT:
                self.width, self.signed = own.number(0, "i") // 8, bool(own.number(1, "B"))
            case n if n == FLOAT:
                self.width = (2, 4, 8)[own.number(0, "h")]
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
            case n if n == FIXED_LIST:
                self.size = own.number(0, "i")
            case _:
                known = {NULL, BOOL, STRUCT, *BYTES, *LISTS}
                need(self.number in known, "arrow", f"type {self.number} of {self.name}")

    def plain(self, value: object) -> object:
        """The value as people know it: numbers, text, lists and dicts; other fixed-width types stay bytes."""
        if value is None:
            return None
        if self.number == INT:
            return int.from_bytes(value, "little", signed=self.signed)
        if self.number == FLOAT:
            return struct.unpack({2: "<e", 4: "<f", 8: "<d"}[self.width], value)[0]
        if self.number in (UTF8, LARGE_UTF8):
            return value.decode()
        if self.number == STRUCT:
            return {child.name: child.plain(part) for child, part in zip(self.children, value, strict=True)}
        if self.number in (LIST, LARGE_LIST, FIXED_LIST):
            return [self.children[0].plain(item) for item in value]
        return value

    def canonical(self, value: object) -> bytes:
        """The canonical encoding of a value as Body.column gives it."""
        if value is None:
            return b"\0"
        if self.number in BYTES:
            return b"\1" + struct.pack("<Q", len(value)) + value
        if self.number == BOOL:
            return b"\1\1" if value else b"\1\0"
        if self.number == STRUCT:
            return b"\1" + b"".join(child.canonical(part) for child, part in zip(self.children, value, strict=True))
        if self.number in (LIST, LARGE_LIST, FIXED_LIST):
            return b"\1" + struct.pack("<Q", len(value)) + b"".join(map(self.children[0].canonical, value))
        return b"\1" + value


def canonical(field: Type, value: object) -> bytes:
    encoded = field.name.encode()
    return struct.pack("<I", len(encoded)) + encoded + field.canonical(value)


class Body:
    """The buffers of one record batch body, taken in depth-first order of the columns."""

    def __init__(self, body: bytes, batch: Flat) -> None:
        self.body, self.rows = body, batch.number(0, "q")
        self.left = iter(batch.structs(2, "qq"))

    def buffer(self) -> bytes:
        offset, length = next(self.left)
        need(offset >= 0 and length >= 0 and offset + length <= len(self.body), "arrow", "buffer outside the body")
        return self.body[offset : offset + length]

    def valid(self, rows: int) -> list[bool]:
        bits = self.buffer()
        return [not bits or bool(bits[r >> 3] >> (r & 7) & 1) for r in range(rows)]

    def fixed(self, rows: int, code: str) -> list:
        valid, data = self.valid(rows), self.buffer()
        size = struct.calcsize("<" + code)
        return [struct.unpack_from("<" + code, data, r * size)[0] if valid[r] else None for r in range(rows)]

    def ends(self, rows: int, code: str) -> tuple[int, ...]:
        offsets = self.buffer()
        return struct.unpack_from(f"<{rows + 1}{code}", offsets) if rows else (0,)

    def binary(self, rows: int, code: str = "i") -> list[bytes | None]:
        valid, ends, data = self.valid(rows), self.ends(rows, code), self.buffer()
        return [data[ends[r] : ends[r + 1]] if valid[r] else None for r in range(rows)]

    def utf8(self, rows: int) -> list[str | None]:
        return [None if value is None else value.decode() for value in self.binary(rows)]

    def column(self, field: Type, rows: int) -> list:
        """Values of any type: None, bytes (also of numbers), bool, list for lists, tuple for structs."""
        if field.number == NULL:
            return [None] * rows
        if field.number in BYTES:
            return self.binary(rows, BYTES[field.number])
        valid = self.valid(rows)
        if field.number == BOOL:
            bits = self.buffer()
            values = [bool(bits[r >> 3] >> (r & 7) & 1) for r in range(rows)]
        elif field.number == STRUCT:
            children = [self.column(child, rows) for child in field.children]
            values = [tuple(child[r] for child in children) for r in range(rows)]
        elif field.number in LISTS:
            ends = self.ends(rows, LISTS[field.number])
            items = self.column(field.children[0], ends[-1])
            values = [items[ends[r] : ends[r + 1]] for r in range(rows)]
        elif field.number == FIXED_LIST:
            items = self.column(field.children[0], rows * field.size)
            values = [items[r * field.size : (r + 1) * field.size] for r in range(rows)]
        else:
            data = self.buffer()
            values = [data[r * field.width : (r + 1) * field.width] for r in range(rows)]
        return [values[r] if valid[r] else None for r in range(rows)]


def arrow_footer(data: bytes) -> Flat:
    need(data[:6] == MAGIC and data[-6:] == MAGIC, "arrow", "magic")
    length = struct.unpack("<i", data[-10:-6])[0]
    return Flat(data[-10 - length : -10])


def schema_table(path: Path, sha256: str) -> list[Type]:
    """The columns of every shard."""
    data = path.read_bytes()
    need(hashlib.sha256(data).hexdigest() == sha256, "table", path.name)
    footer = arrow_footer(data)
    need(not footer.structs(3, "qi4xq"), "arrow", f"{path.name} has record batches")
    return [Type(field) for field in footer.table(1).tables(1)]


def table_file(path: Path, sha256: str, names: list[str]) -> Body:
    """The one record batch of an Arrow file whose hash and column names are checked."""
    data = path.read_bytes()
    need(hashlib.sha256(data).hexdigest() == sha256, "table", path.name)
    footer = arrow_footer(data)
    need([field.text(0) for field in footer.table(1).tables(1)] == names, "arrow", f"columns of {path.name}")
    blocks = footer.structs(3, "qi4xq")
    need(len(blocks) == 1, "arrow", f"{path.name} has {len(blocks)} record batches")
    offset, metadata, body = blocks[0]
    _, batch = message(data[offset : offset + metadata], RECORD_BATCH)
    return Body(data[offset + metadata : offset + metadata + body], batch)


def label_names(path: Path, sha256: str) -> list[str]:
    body = table_file(path, sha256, ["name"])
    return body.utf8(body.rows)


def shard_rows(path: Path, sha256: str) -> list[dict]:
    body = table_file(path, sha256, TABLE_COLUMNS)
    n = body.rows
    columns = [body.utf8(n), body.fixed(n, "q"), body.fixed(n, "q"), body.fixed(n, "32s"), body.fixed(n, "32s")]
    columns.append(body.fixed(n, "q"))
    body.buffer()  # validity of the list
    ends = struct.unpack_from(f"<{n + 1}i", body.buffer()) if n else (0,)
    total = ends[-1]
    body.buffer()  # validity of the struct
    fields = [body.fixed(total, code) for code in "qiqq"]
    batches = list(zip(*fields, strict=True))
    columns.append([batches[ends[r] : ends[r + 1]] for r in range(n)])
    return [dict(zip(TABLE_COLUMNS, row, strict=True)) for row in zip(*columns, strict=True)]


class PureReader:
    """One version of a dataset: `pin`, `manifest`, `classes` (label column -> names) and `samples(split)`."""

    def __init__(self, folder: Path, pin: str | None = None) -> None:
        self.folder = Path(folder)
        source = self.folder / (f"manifests/{pin}.json" if pin else "manifest.json")
        data = source.read_bytes()
        self.pin = hashlib.sha256(data).hexdigest()
        committed = (self.folder / f"manifests/{self.pin}.json").exists()
        need(self.pin == pin if pin else committed, "pin", f"{source.name} has sha256 {self.pin}")
        self.manifest = json.loads(data)
        need(self.manifest["format"] == 1, "format", str(self.manifest["format"]))
        need(not self.manifest["requires"], "requires", str(self.manifest["requires"]))
        self.columns = {column["name"]: column for column in self.manifest["columns"]}
        self.schema = schema_table(self._table(self.manifest["schema"]), self.manifest["schema"])
        names = ["__key__", "__digest__", *self.columns]
        need([field.name for field in self.schema] == names, "table", "columns of the schema table")
        self.classes = {
            name: label_names(self._table(column["label_table"]), column["label_table"])
            for name, column in self.columns.items()
            if column["kind"] == "label"
        }
        self.shards = {name: list(self._shards(split)) for name, split in self.manifest["splits"].items()}

    def _table(self, sha256: str) -> Path:
        return self.folder / f"tables/{sha256}.arrow"

    def _shards(self, split: dict) -> Iterator[dict]:
        for table in split["tables"]:
            shards = shard_rows(self._table(table["sha256"]), table["sha256"])
            need(len(shards) == table["shards"], "table", "number of shards")
            need(sum(shard["rows"] for shard in shards) == table["rows"], "table", "number of rows")
            for shard in shards:
                path = PurePosixPath(shard["path"])
                need(not path.is_absolute() and ".." not in path.parts, "table", f"path {path}")
                yield shard

    def samples(self, split: str, skip: frozenset[str] = frozenset()) -> Iterator[dict]:
        for shard in self.shards[split]:
            data = (self.folder / shard["path"]).read_bytes()
            need("size" in skip or len(data) == shard["bytes"], "size", shard["path"])
            nonbody, at = hashlib.sha256(), 0
            for offset, metadata, body, _ in shard["batches"]:
                nonbody.update(data[at : offset + metadata])
                at = offset + metadata + body
            nonbody.update(data[at:])
            need("nonbody" in skip or nonbody.digest() == shard["nonbody_sha256"], "nonbody", shard["path"])
            whole = hashlib.sha256(data).digest()
            need("sha256" in skip or whole == shard["sha256"], "sha256", shard["path"])
            need(sum(batch[3] for batch in shard["batches"]) == shard["rows"], "table", "rows of the batches")
            for offset, metadata, body, rows in shard["batches"]:
                start = offset + metadata
                yield from self._batch(data[offset:start], data[start : start + body], rows, skip, shard["path"])

    def _batch(self, head: bytes, body: bytes, rows: int, skip: frozenset[str], where: str) -> Iterator[dict]:
        found, batch = message(head, RECORD_BATCH)
        metadata = {pair.text(0): pair.text(1) for pair in found.tables(4)}
        sums = [number for (number,) in struct.iter_unpack("<I", base64.b64decode(metadata["toolkit.crc32c"]))]
        chunks = [body[at : at + CHUNK] for at in range(0, len(body), CHUNK)]
        need(len(sums) == len(chunks), "crc", f"number of chunks in {where}")
        for number, (chunk, expected) in enumerate(zip(chunks, sums, strict=True)):
            need("crc" in skip or crc32c(chunk) == expected, "crc", f"chunk {number} in {where}")
        reader = Body(body, batch)
        need(reader.rows == rows, "arrow", f"rows of a batch in {where}")
        columns = [reader.column(field, rows) for field in self.schema]
        need(next(reader.left, None) is None, "arrow", f"a buffer of no column in {where}")
        for values in zip(*columns, strict=True):
            row = [(field, value) for field, value in zip(self.schema, values, strict=True)]
            encoded = b"".join(canonical(field, value) for field, value in row if field.name != "__digest__")
            sample = {field.name: field.plain(value) for field, value in row}
            digest = sample.pop("__digest__")
            good = xxhash.xxh3_128(encoded).digest() == digest
            need("digest" in skip or good, "digest", f"{sample['__key__']} in {where}")
            yield sample
