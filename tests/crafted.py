"""A packed dataset taken apart, edited at will, and written with every hash and pin mended: what a stranger can send.

    crafted = Crafted.of(root)
    crafted.batch("train").line["rows"] = 1000  # a shard table says so, the shard does not
    crafted.write(elsewhere)

Everything that a writer derives from something else (CRCs, digests, places and sizes of record batches, file hashes,
row sums, table names, pins) is derived anew, so that a reader's checks of hashes pass whatever was edited. What is
derived can be overruled, at each level, by what is put into `line` (a shard's or record batch's row of the shard
table), `ref` (a shard table's entry in the manifest), `say` (any place of the manifest) and `edit` (a table's bytes).
"""

from __future__ import annotations

import base64
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
from arrow_writer import batch_message, footer_of
from bodies import sums_of
from format.pure_reader import RECORD_BATCH, message
from numpy.typing import NDArray

from toolkit.format.digest import sample_digests
from toolkit.format.schema import DIGEST
from toolkit.format.shard import SUMS_KEY
from toolkit.format.tables import sha256

Edit = Callable[[bytes], bytes]

_MAGIC = b"ARROW1\0\0"
_END = b"\xff\xff\xff\xff\0\0\0\0"
_BATCH = pa.struct(
    [("offset", pa.int64()), ("metadata_bytes", pa.int32()), ("body_bytes", pa.int64()), ("rows", pa.int64())]
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


def commit_by_hand(root: Path, document: object) -> str:
    """Make a manifest the current version of a dataset, whatever it says; return its pin."""
    data = json.dumps(document, ensure_ascii=False, sort_keys=True, indent=1).encode() + b"\n"
    pin = sha256(data)
    for name in (f"manifests/{pin}.json", "manifest.json"):
        (root / name).write_bytes(data)
    return pin


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
        line: What the shard table says instead: offset, metadata_bytes, body_bytes, rows.
    """

    rows: int
    nodes: list[list[int]]
    buffers: list[list[int]]
    body: bytearray
    sums: bytes | None = None
    message: bytes | None = None
    line: dict[str, int] = field(default_factory=dict)

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
        """Give a buffer other bytes: in its place if they fit, else behind all others."""
        data = data.tobytes() if isinstance(data, np.ndarray) else data
        offset, length = self.buffers[number]
        if len(data) > length:
            self.body += bytes(-len(self.body) % 8)
            offset = len(self.body)
            self.body += data + bytes(-len(data) % 8)
        else:
            self.body[offset : offset + len(data)] = data
        self.buffers[number] = [offset, len(data)]

    def mend_digests(self, schema: pa.Schema) -> None:
        """Write each row's digest into the body, if the rows can be read at all."""
        if self.message is not None:
            return
        try:
            records = self.records(schema)
            digests = b"".join(sample_digests(records))
        except (pa.ArrowException, TypeError, ValueError, OSError):
            return
        if schema.names[1:2] == [DIGEST] and schema.field(1).type == pa.binary(16):
            offset, length = self.buffers[4]
            if length == len(digests) and offset + length <= len(self.body):
                self.body[offset : offset + length] = digests

    def encoded(self) -> bytes:
        """Return the encapsulated message."""
        if self.message is not None:
            return self.message
        sums = sums_of(bytes(self.body)) if self.sums is None else self.sums
        metadata = {SUMS_KEY: base64.b64encode(sums)}
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
        tokens: Tokens that the table says.
    """

    path: str
    schema: bytes
    batches: list[Batch]
    footer: bytes | None = None
    tokens: int = 0
    line: dict[str, Any] = field(default_factory=dict)

    def encoded(self) -> tuple[bytes, dict[str, Any]]:
        """Return the file and its row of the shard table."""
        front, nonbody, places = _MAGIC + self.schema, hashlib.sha256(), []
        data = bytearray(front)
        nonbody.update(front)
        for batch in self.batches:
            head = batch.encoded()
            place = {
                "offset": len(data),
                "metadata_bytes": len(head),
                "body_bytes": len(batch.body),
                "rows": batch.rows,
            }
            places.append({**place, **batch.line})
            data += head + batch.body
            nonbody.update(head)
        footer = footer_of(self.schema, places) if self.footer is None else self.footer
        data += _END + footer
        nonbody.update(_END + footer)
        line = {
            "path": self.path,
            "rows": sum(place["rows"] for place in places),
            "bytes": len(data),
            "sha256": hashlib.sha256(data).digest(),
            "nonbody_sha256": nonbody.digest(),
            "tokens": self.tokens,
            "batches": places,
        }
        return bytes(data), {**line, **self.line}


@dataclass
class ShardTable:
    """A shard table: its shards, an edit of its bytes, and what the manifest says instead (sha256, shards, rows)."""

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
            split["bytes"] = sum(path.stat().st_size for path in self._files(root, tables))
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
        lines = []
        for shard in table.shards:
            if digests:
                for batch in shard.batches:
                    batch.mend_digests(self.schema)
            data, line = shard.encoded()
            (root / shard.path).write_bytes(data)
            lines.append(line)
        data = table_bytes(pa.Table.from_pylist(lines, SHARD_TABLE))
        digest = self._put_table(root, (table.edit or bytes)(data))
        rows = sum(line["rows"] or 0 for line in lines)
        return {"sha256": digest, "shards": len(lines), "rows": rows, **table.ref}

    def _files(self, root: Path, tables: list[ShardTable]) -> list[Path]:
        return [root / shard.path for table in tables for shard in table.shards]

    def _put_table(self, root: Path, data: bytes) -> str:
        digest = sha256(data)
        (root / "tables" / f"{digest}.arrow").write_bytes(data)
        return digest


def write_manifest(root: Path, data: bytes) -> str:
    """Make these bytes the current version, whatever they are; return their pin."""
    pin = sha256(data)
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
    batches, places = [], line["batches"]
    for place in places:
        start = place["offset"] + place["metadata_bytes"]
        batches.append(Batch.parse(data[place["offset"] : start], data[start : start + place["body_bytes"]]))
    stop = place["offset"] + place["metadata_bytes"] + place["body_bytes"] if places else data.index(_END, len(_MAGIC))
    first = places[0]["offset"] if places else stop
    return Shard(line["path"], data[len(_MAGIC) : first], batches, tokens=line["tokens"])


def _renamed(value: Any, names: dict[str, str]) -> Any:
    """Return a JSON value with every text that is a table's name exchanged for its new one."""
    if isinstance(value, dict):
        return {key: _renamed(one, names) for key, one in value.items()}
    if isinstance(value, list):
        return [_renamed(one, names) for one in value]
    return names.get(value, value) if isinstance(value, str) else value
