"""A packed dataset taken apart, edited at will, and written with every hash and pin mended: what a stranger can send.

    crafted = Crafted.of(root)
    crafted.batch("train").line["rows"] = 1000  # a shard table says so, the shard does not
    crafted.write(elsewhere)

Everything that a writer derives from something else (CRCs, digests, places, sizes and heads of record batches, hashes
of messages and files, sums of rows and tokens, table names, pins) is derived anew, so that a reader's checks of hashes
pass whatever was edited. What is derived can be overruled, at each level, by what is put into `line` (a shard's or
record batch's row of the shard table), `ref` (a shard table's entry in the manifest), `say` (any place of the manifest)
and `edit` (a table's bytes).
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import shutil
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash
from arrow_writer import batch_message, footer_of
from bodies import sums_of
from format.arrow_values import pure_schema
from format.pure_arrow import RECORD_BATCH, Damaged, Schema, Values, canonical, message, places
from format.pure_reader import DIGEST, KEY, group
from numpy.typing import NDArray

Edit = Callable[[bytes], bytes]

_MAGIC = b"ARROW1\0\0"
_END = b"\xff\xff\xff\xff\0\0\0\0"
_BATCH = pa.struct(
    [
        *(("offset", pa.int64()), ("metadata_bytes", pa.int32()), ("head_bytes", pa.int64())),
        *(("body_bytes", pa.int64()), ("rows", pa.int64()), ("tokens", pa.int64()), ("metadata_sha256", pa.binary(32))),
    ]
)
SHARD_TABLE = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
        pa.field("sha256", pa.binary(32), nullable=False),
        pa.field("nonbody_sha256", pa.binary(32), nullable=False),
        pa.field("tokens", pa.int64(), nullable=False),
        pa.field("batches", pa.list_(pa.field("item", _BATCH, nullable=False)), nullable=False),
    ]
)


@dataclass(frozen=True)
class Form:
    """What a shard table says of record batches by their schema.

    Attributes:
        first_large: The buffer that ends the head; None where the head is the whole body.
        ids: Buffers of token ids, each with the bytes of one.
    """

    first_large: int | None = None
    ids: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, schema: pa.Schema, manifest: dict[str, Any]) -> Form:
        """Make it of a schema; of one that nobody could read, an empty one."""
        try:
            fields = {field.name: field for field in pure_schema(schema).columns}
            kinds = [(fields[column["name"]], column["kind"]) for column in manifest["columns"]]
            data = [field.first_data() for field, kind in kinds if group(kind, field) == 4]
            items = [field.children[0] for field, kind in kinds if kind == "tokens"]
        except (Damaged, LookupError, TypeError, ValueError, struct.error):
            return cls()
        return cls(min((n for n in data if n is not None), default=None), tuple((i.data, i.width) for i in items))


@dataclass
class Batch:
    """A record batch as its message and body have it.

    Attributes:
        rows: Rows that the message says.
        nodes: [length, null count] of each field, depth first.
        buffers: [offset in the body, length] of each buffer.
        body: The body.
        sums: Chunk sums, uint32 each; None makes those of the body.
        message: The encapsulated message itself; None makes it of all the above.
        line: What the shard table says instead: offset, metadata_bytes, head_bytes, body_bytes, rows, tokens,
            metadata_sha256.
    """

    rows: int
    nodes: list[list[int]]
    buffers: list[list[int]]
    body: bytearray
    sums: bytes | None = None
    message: bytes | None = None
    line: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, encapsulated: bytes, body: bytes) -> Batch:
        """Take a message and its body apart."""
        _, header = message(encapsulated, RECORD_BATCH)
        nodes, buffers = ([list(one) for one in header.structs(number, "qq")] for number in (1, 2))
        return cls(header.number(0, "q"), nodes, buffers, bytearray(body))

    @classmethod
    def of(cls, rows: pa.RecordBatch) -> Batch:
        """Make one of rows, `__digest__` among them; the digests are mended when it is written."""
        data = rows.serialize().to_pybytes()
        stop = 8 + struct.unpack_from("<i", data, 4)[0]
        return cls.parse(data[:stop], data[stop:])

    def records(self, schema: pa.Schema) -> pa.RecordBatch:
        """Return the rows as pyarrow reads them, fully validated. Raises pa.ArrowException."""
        data = pa.py_buffer(self.encoded() + bytes(self.body))
        records = pa.ipc.read_record_batch(pa.ipc.read_message(pa.BufferReader(data)), schema)
        records.validate(full=True)
        return records

    def buffer(self, number: int) -> bytes:
        """Return the bytes of a buffer."""
        offset, length = self.buffers[number]
        return bytes(self.body[offset : offset + length])

    def numbers(self, number: int, dtype: Any) -> NDArray[Any]:
        """Return a copy of a buffer's whole numbers of that type."""
        data = self.buffer(number)
        return np.frombuffer(data[: len(data) // np.dtype(dtype).itemsize * np.dtype(dtype).itemsize], dtype).copy()

    def put(self, number: int, data: bytes | NDArray[Any]) -> None:
        """Give a buffer other bytes in its place; where they are more, what lies behind it moves."""
        data = data.tobytes() if isinstance(data, np.ndarray) else data
        offset, length = self.buffers[number]
        room = length + -length % 8
        if len(data) > room:
            more = len(data) + -len(data) % 8 - room
            self.body[offset : offset + room] = data + bytes(-len(data) % 8)
            for other, place in enumerate(self.buffers):
                place[0] += more if other != number and place[0] >= offset + length else 0
        else:
            self.body[offset : offset + len(data)] = data
        self.buffers[number] = [offset, len(data)]

    def mend_digests(self, schema: Schema) -> None:
        """Write each row's digest into the body, if the rows can be read at all."""
        if self.message is not None:
            return
        try:
            _, header = message(self.encoded(), RECORD_BATCH)
            buffers = places(header, len(self.body), schema.buffers)
            values = Values(self.rows, buffers, lambda start, stop: bytes(self.body[start:stop]))
            hashed = [one for one in schema.columns if one.name == KEY or not one.name.startswith("__")]
            rows = [b"".join(canonical(one, values.value(one, row)) for one in hashed) for row in range(self.rows)]
            offset, length = self.buffers[schema[DIGEST].data]
        except (Damaged, struct.error, StopIteration, ValueError, TypeError):
            return
        digests = b"".join(xxhash.xxh3_128(row).digest() for row in rows)
        if length == len(digests):
            self.body[offset : offset + length] = digests

    def told(self, form: Form, at: int) -> dict[str, Any]:
        """Return what the shard table says of it when it lies at `at`."""
        head, tokens = self.encoded(), 0
        for number, width in form.ids:
            tokens += self.buffers[number][1] // width if number < len(self.buffers) else 0
        first = form.first_large
        line = {
            "offset": at,
            "metadata_bytes": len(head),
            "head_bytes": self.buffers[first][0] if first is not None and first < len(self.buffers) else len(self.body),
            "body_bytes": len(self.body),
            "rows": self.rows,
            "tokens": tokens,
            "metadata_sha256": hashlib.sha256(head).digest(),
        }
        return {**line, **self.line}

    def encoded(self) -> bytes:
        """Return the encapsulated message."""
        if self.message is not None:
            return self.message
        sums = sums_of(bytes(self.body)) if self.sums is None else self.sums
        metadata = {"toolkit.crc32c": base64.b64encode(sums)}
        return batch_message(self.rows, self.nodes, self.buffers, len(self.body), metadata)


@dataclass
class Shard:
    """A shard file.

    Attributes:
        path: Where it is written, inside the dataset.
        schema: Its schema message.
        batches: Its record batches.
        footer: What lies behind the end-of-stream marker; None makes the footer of the above.
        line: What the shard table says instead: path, rows, bytes, sha256, nonbody_sha256, tokens, batches.
    """

    path: str
    schema: bytes
    batches: list[Batch]
    footer: bytes | None = None
    line: dict[str, Any] = field(default_factory=dict)

    def encoded(self, form: Form | None = None) -> tuple[bytes, dict[str, Any]]:
        """Return the file and its row of the shard table, heads and tokens of it by the form."""
        data, told = bytearray(_MAGIC + self.schema), []
        for batch in self.batches:
            told.append(batch.told(form or Form(), len(data)))
            data += batch.encoded() + batch.body
        footer = footer_of(self.schema, told) if self.footer is None else self.footer
        data += _END + footer
        nonbody, at = hashlib.sha256(), 0
        for one in told:  # as the table says, be it true or not
            body = one["offset"] + one["metadata_bytes"]
            nonbody.update(data[at:body])
            at = body + one["body_bytes"]
        nonbody.update(data[at:])
        line = {
            "path": self.path,
            "rows": sum(one["rows"] for one in told),
            "bytes": len(data),
            "sha256": hashlib.sha256(data).digest(),
            "nonbody_sha256": nonbody.digest(),
            "tokens": sum(one["tokens"] for one in told),
            "batches": told,
        }
        return bytes(data), {**line, **self.line}


@dataclass
class ShardTable:
    """A shard table: its shards, an edit of its bytes, and what the manifest says instead.

    The manifest says: sha256, shards, batches, rows, bytes, tokens.
    """

    shards: list[Shard]
    edit: Edit | None = None
    ref: dict[str, Any] = field(default_factory=dict)


@dataclass
class Crafted:
    """A version of a dataset, in parts.

    Attributes:
        manifest: The manifest; hashes and sums in it are mended, anything else is written as it stands.
        schema: The shards' schema.
        tables: Label, schema and tokenizer tables, by the sha256 that the manifest names them by.
        edits: Edits of the bytes of such tables, by that sha256.
        splits: The shard tables of each split.
        sayings: (place in the manifest, value): what it says in the end. See say().
    """

    manifest: dict[str, Any]
    schema: pa.Schema
    tables: dict[str, bytes]
    splits: dict[str, list[ShardTable]]
    edits: dict[str, Edit] = field(default_factory=dict)
    sayings: list[tuple[tuple[str | int, ...], Any]] = field(default_factory=list)

    @classmethod
    def of(cls, root: Path) -> Crafted:
        """Take the current version of a good dataset apart."""
        manifest = json.loads((root / "manifest.json").read_bytes())
        tables = {path.stem: path.read_bytes() for path in (root / "tables").iterdir()}
        splits = {}
        for name, split in manifest["splits"].items():
            splits[name] = [
                ShardTable([_shard(root, line) for line in _rows(tables.pop(ref["sha256"], b""))])
                for ref in split["tables"]
            ]
        schema = pa.ipc.open_file(pa.py_buffer(tables[manifest["schema"]])).schema
        return cls(manifest, schema, tables, splits)

    def say(self, *place: str | int, value: Any) -> None:
        """Let the manifest have `value` at a place, whatever is true: say("splits", "train", "rows", value=-1)."""
        self.sayings.append((place, value))

    def set_schema(self, schema: pa.Schema) -> None:
        """Give the schema table, the shards and the manifest's column types another schema."""
        sink = pa.BufferOutputStream()
        pa.ipc.new_file(sink, schema).close()
        self.tables[self.manifest["schema"]] = sink.getvalue().to_pybytes()
        self.schema = schema
        for column in self.manifest["columns"]:
            if column["name"] in schema.names:
                column["arrow_type"] = str(schema.field(column["name"]).type)
        for tables in self.splits.values():
            for table in tables:
                for shard in table.shards:
                    shard.schema = schema.serialize().to_pybytes()

    def batch(self, split: str | None = None, table: int = 0, shard: int = 0, batch: int = 0) -> Batch:
        """Return a record batch, by default the very first."""
        return self.shard(split, table, shard).batches[batch]

    def shard(self, split: str | None = None, table: int = 0, shard: int = 0) -> Shard:
        """Return a shard, by default the very first."""
        return self.splits[next(iter(self.splits)) if split is None else split][table].shards[shard]

    def write(self, root: Path, *, digests: bool = True) -> str:
        """Write it as the one version of a dataset folder, which is made anew; return its pin.

        `digests`: mend the samples' digests as well, where the rows can be read.
        """
        if root.exists():
            shutil.rmtree(root)
        for folder in ("manifests", "tables", "shards"):
            (root / folder).mkdir(parents=True)
        manifest = json.loads(json.dumps(self.manifest))
        names = {old: self._put_table(root, self.edits.get(old, bytes)(data)) for old, data in self.tables.items()}
        manifest = _renamed(manifest, names)
        for name, tables in self.splits.items():
            split = manifest["splits"].setdefault(name, {"labels": {}})
            split["tables"] = [self._write_shards(root, table, digests) for table in tables]
            split["rows"] = sum(ref["rows"] for ref in split["tables"])
            split["bytes"] = sum(ref["bytes"] for ref in split["tables"])
        for place, value in self.sayings:
            at: Any = manifest
            for step in place[:-1]:
                at = at[step]
            at[place[-1]] = value
        data = (
            json.dumps(manifest, ensure_ascii=False, sort_keys=True, indent=1).encode("utf-8", "surrogatepass") + b"\n"
        )
        return write_manifest(root, data)

    def _write_shards(self, root: Path, table: ShardTable, digests: bool) -> dict[str, Any]:
        lines, form = [], Form.of(self.schema, self.manifest)
        for shard in table.shards:
            if digests:
                with contextlib.suppress(Damaged, TypeError, ValueError, struct.error):
                    schema = pure_schema(self.schema)
                    for batch in shard.batches:
                        batch.mend_digests(schema)
            data, line = shard.encoded(form)
            (root / shard.path).write_bytes(data)
            lines.append(line)
        data = table_bytes(pa.Table.from_pylist(lines, SHARD_TABLE))
        digest = self._put_table(root, (table.edit or bytes)(data))
        sums = {key: sum(line[key] or 0 for line in lines) for key in ("rows", "bytes", "tokens")}
        sums |= {"shards": len(lines), "batches": sum(len(line["batches"]) for line in lines)}
        return {"sha256": digest, **sums, **table.ref}

    def _put_table(self, root: Path, data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        (root / "tables" / f"{digest}.arrow").write_bytes(data)
        return digest


def commit_by_hand(root: Path, document: object) -> str:
    """Make a manifest the current version of a dataset, whatever it says; return its pin."""
    return write_manifest(root, json.dumps(document, ensure_ascii=False, sort_keys=True, indent=1).encode() + b"\n")


def write_manifest(root: Path, data: bytes) -> str:
    """Make these bytes the current version, whatever they are; return their pin."""
    pin = hashlib.sha256(data).hexdigest()
    (root / "manifests" / f"{pin}.json").write_bytes(data)
    (root / "manifest.json").write_bytes(data)
    return pin


def table_bytes(table: pa.Table) -> bytes:
    """Return a table as an Arrow file of one record batch."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        for batch in table.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]:
            writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def edited_table(change: Callable[[pa.Table], pa.Table]) -> Edit:
    """Return an edit of a table's bytes that changes its rows or columns."""
    return lambda data: table_bytes(change(pa.ipc.open_file(pa.py_buffer(data)).read_all()))


def _rows(table: bytes) -> list[dict[str, Any]]:
    return list(pa.ipc.open_file(pa.py_buffer(table)).read_all().to_pylist())


def _shard(root: Path, line: dict[str, Any]) -> Shard:
    data = (root / line["path"]).read_bytes()
    batches, told = [], line["batches"]
    for place in told:
        start = place["offset"] + place["metadata_bytes"]
        batches.append(Batch.parse(data[place["offset"] : start], data[start : start + place["body_bytes"]]))
    stop = place["offset"] + place["metadata_bytes"] + place["body_bytes"] if told else data.index(_END, len(_MAGIC))
    first = told[0]["offset"] if told else stop
    return Shard(line["path"], data[len(_MAGIC) : first], batches)


def _renamed(value: Any, names: dict[str, str]) -> Any:
    """Return a JSON value with every text that is a table's name exchanged for its new one."""
    if isinstance(value, dict):
        return {key: _renamed(one, names) for key, one in value.items()}
    if isinstance(value, list):
        return [_renamed(one, names) for one in value]
    return names.get(value, value) if isinstance(value, str) else value
