"""A reader of format 1 written from docs/format.md alone: the standard library and xxhash, no toolkit, no pyarrow.

It checks every layer and is meant to be read, not to be fast. There are two ways to read:

    reader.samples(split)    every sample of a split, from whole files, with all that can be checked of them
    reader.row(split, 7)     one sample, by a few ranges of its shard; `reader.ranges` says what was read of which file

`skip` leaves out a layer so that a test can show that the next one finds the damage too. Not checked here is what the
dataset says of itself: keys that occur twice, labels without a class, tokens beyond the vocabulary, what derived
columns and footers say.
"""

import base64
import hashlib
import json
import os
import re
import struct
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath

import xxhash
from format.pure_arrow import (
    BYTES,
    NULL,
    RECORD_BATCH,
    Schema,
    Type,
    Values,
    arrow_footer,
    canonical,
    decoding,
    message,
    need,
    places,
)

CHUNK = 16384
MOST_ROWS, MOST_BYTES, MOST_SHARDS = 2**48, 2**60, 4096
KEY, DIGEST = "__key__", "__digest__"

# Columns and fields of tables, each with its type; others may follow them.
LABEL_TABLE = {"name": "utf8"}
TOKENIZER_TABLE = {"file": "binary"}
SHA256 = "fixed_size_binary(32)"
SHARD_TABLE = {"path": "utf8", "rows": "int64", "bytes": "int64", "sha256": SHA256, "nonbody_sha256": SHA256}
SHARD_TABLE |= {"tokens": "int64", "batches": "list"}
BATCH = {"offset": "int64", "metadata_bytes": "int32", "head_bytes": "int64", "body_bytes": "int64"}
BATCH |= {"rows": "int64", "tokens": "int64", "metadata_sha256": SHA256}

# The types of each kind of column. A kind that is not here is read by its Arrow type, whatever that is.
KINDS = {
    "image keep": r"struct<bytes: binary, path: utf8>",
    "image jpeg": r"struct<bytes: binary, path: utf8>",
    "image raw": r"struct<pixels: large_binary, height: int32, width: int32, channels: int8>",
    "label": r"int64",
    "text": r"utf8|large_utf8",
    "scalar": r"u?int(8|16|32|64)|float(16|32|64)|bool",
    "json": r"utf8",
    "bytes": r"binary|large_binary|fixed_size_binary\(\d+\)",
    "tensor": r"binary",
    "tokens": r"large_list<uint16>|large_list<uint32>",
}

REFERENCE = "struct<root: utf8, path: utf8, offset: int64, length: int64, name: utf8, crc32c: binary>"
FEATURES = {"references", "unhashed"}

DERIVED = {"height": "int32", "width": "int32", "orientation": "int8", "format": "utf8"}  # of images, version 1


def has_names(column: dict) -> bool:
    return column["kind"] == "label" or (column["kind"] == "value" and "label_table" in column)


def number(value: object, most: int, what: str, layer: str = "manifest") -> int:
    need(type(value) is int and 0 <= value <= most, layer, f"{what} is {value!r}, not a number from 0 to {most}")
    return value


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


# --- tables ---------------------------------------------------------------------------------------------------------


def table_rows(data: bytes, columns: dict[str, str]) -> list[dict]:
    """The rows of an Arrow file of one record batch: these columns, as plain values; further ones are left alone."""
    footer = arrow_footer(data)
    blocks = footer.structs(3, "qi4xq")
    need(len(blocks) == 1, "table", f"{len(blocks)} record batches in place of one")
    schema = Schema(footer.table(1))
    fields = known(schema.columns, columns)
    offset, metadata, body = blocks[0]
    found, batch = message(data[offset : offset + metadata], RECORD_BATCH)
    need(found.number(3, "q") == body and offset + metadata + body <= len(data), "arrow", "size of the record batch")
    buffers, start = places(batch, body, schema.buffers), offset + metadata
    values = Values(batch.number(0, "q"), buffers, lambda first, last: data[start + first : start + last])
    number(values.rows, MOST_ROWS, "rows", "table")
    rows = [{field.name: field.plain(values.value(field, row)) for field in fields} for row in range(values.rows)]
    need(all(value is not None for row in rows for value in row.values()), "table", "a value is missing")
    return rows


def known(fields: list[Type], expected: dict[str, str]) -> list[Type]:
    """The columns, or fields of a struct, that begin with those expected."""
    first = fields[: len(expected)]
    found = [(field.name, str(field).partition("<")[0]) for field in first]
    need(found == list(expected.items()), "table", f"columns {dict(found)}, not {expected}")
    return first


def shard_rows(data: bytes) -> list[dict]:
    """The rows of a shard table, each and all together within what docs/format.md says of them."""
    (batches,) = [field for field in Schema(arrow_footer(data).table(1)).columns if field.name == "batches"]
    known(batches.children[0].children, BATCH)
    shards = table_rows(data, SHARD_TABLE)
    need(len(shards) <= MOST_SHARDS, "table", f"{len(shards)} shards, a table has {MOST_SHARDS} at most")
    for i, shard in enumerate(shards):
        path, where = PurePosixPath(shard["path"]), f"shard {i} ({shard['path']})"
        need(bool(shard["path"]) and not path.is_absolute() and ".." not in path.parts, "table", f"path of {where}")
        number(shard["rows"], MOST_ROWS, f"rows of {where}", "table")
        number(shard["bytes"], MOST_BYTES, f"bytes of {where}", "table")
        at = 0
        for j, batch in enumerate(shard["batches"]):
            here = f"record batch {j} of {where}"
            need(batch is not None and None not in map(batch.get, BATCH), "table", f"a value is missing in {here}")
            for key, most in (("rows", MOST_ROWS), ("body_bytes", MOST_BYTES), ("tokens", MOST_ROWS)):
                number(batch[key], most, f"{key} of {here}", "table")
            number(batch["head_bytes"], batch["body_bytes"], f"head_bytes of {here}", "table")
            aligned = batch["offset"] % 8 == 0 and batch["metadata_bytes"] % 8 == 0
            need(aligned and batch["metadata_bytes"] > 0 and batch["offset"] >= at, "table", f"place of {here}")
            least = 16 * batch["rows"] + 2 * batch["tokens"]
            need(least <= batch["body_bytes"], "table", f"more rows or tokens than bytes in {here}")
            need(batch["rows"] > 0 or not batch["tokens"], "table", f"tokens without rows in {here}")
            at = batch["offset"] + batch["metadata_bytes"] + batch["body_bytes"]
        need(at <= shard["bytes"], "table", f"record batches beyond the end of {where}")
        for key in ("rows", "tokens"):
            adds_up = shard[key] == sum(batch[key] for batch in shard["batches"])
            need(adds_up, "table", f"{key} of {where} are not those of its record batches")
    return shards


# --- record batches of shards ---------------------------------------------------------------------------------------


class Chunks:
    """A body of which chunks are there; a chunk is compared with its sum before any of its bytes is given out."""

    def __init__(self, size: int, sums: list[int], fetch: Callable[[int, int], bytes], where: str, check: bool) -> None:
        self.body, self.sums, self.fetch, self.where, self.check = bytearray(size), sums, fetch, where, check
        self.missing = set(range(len(sums)))

    def put(self, start: int, data: bytes) -> None:
        """Bytes of the body from a chunk's beginning to a chunk's end."""
        for at in range(0, len(data), CHUNK):
            chunk, i = data[at : at + CHUNK], (start + at) // CHUNK
            need(not self.check or crc32c(chunk) == self.sums[i], "crc", f"chunk {i} of {self.where}")
            self.missing.discard(i)
        self.body[start : start + len(data)] = data

    def read(self, start: int, stop: int) -> bytes:
        wanted = [i for i in range(start // CHUNK, -(-stop // CHUNK)) if i in self.missing]
        if wanted:
            first, last = wanted[0] * CHUNK, min(wanted[-1] * CHUNK + CHUNK, len(self.body))
            self.put(first, self.fetch(first, last))
        return bytes(self.body[start:stop])


def head_end(large: list[Type], buffers: list[tuple[int, int]], body_bytes: int) -> int:
    """Where the head ends by the message; all buffers before the one that ends it lie within it."""
    found = (field.first_data() for field in large)
    last = next((n for n in found if n is not None), None)
    end = body_bytes if last is None else buffers[last][0]
    for i, (offset, length) in enumerate(buffers[:last]):
        need(offset + length <= end, "head", f"buffer {i} ends behind the head")
    return end


class PureReader:
    """One version of a dataset: `pin`, `manifest`, `classes`, `samples()` and `row()`.

    `classes` has the names of each column with a label table, `ranges` what was read so far: (name of the file, start,
    stop).
    `roots` says where the folders of references are, by name.
    """

    def __init__(self, folder: Path, pin: str | None = None, roots: dict[str, Path] | None = None) -> None:
        self.folder, self.ranges, self.roots = Path(folder), [], roots or {}
        source = f"manifests/{pin}.json" if pin else "manifest.json"
        data = self._read(source)
        self.pin = hashlib.sha256(data).hexdigest()
        committed = (self.folder / f"manifests/{self.pin}.json").is_file()
        need(self.pin == pin if pin else committed, "pin", f"{source} has sha256 {self.pin}")
        self._shard_rows = {}
        with decoding("manifest", source):
            self.manifest = json.loads(data)
            need(self.manifest["format"] == 1, "format", f"{self.manifest['format']}, this reader knows 1")
            for word in self.manifest["requires"]:
                need(word in FEATURES, "requires", f"{word!r}, which this reader doesn't know")
            self.unhashed = "unhashed" in self.manifest["requires"]
            need("derived" in self.manifest, "format", "written before format 1 was settled; pack the dataset again")
            self._hashes()
            self._columns()
            self.classes = {name: self._names(name) for name, one in self.columns.items() if has_names(one)}
            for name, split in self.manifest["splits"].items():
                self._sums(f"split {name}", split)

    def _read(self, name: str, start: int = 0, stop: int | None = None) -> bytes:
        path = self.folder / name
        need(path.is_file(), "file", f"{name} is missing, or no regular file")
        with path.open("rb") as file:
            file.seek(start)
            data = file.read(-1 if stop is None else stop - start)
        need(stop is None or len(data) == stop - start, "size", f"{name} ends before {stop}")
        self.ranges.append((name, start, start + len(data)))
        return data

    def _table(self, sha256: str) -> bytes:
        data = self._read(f"tables/{sha256}.arrow")
        need(hashlib.sha256(data).hexdigest() == sha256, "table", f"tables/{sha256}.arrow has another sha256")
        return data

    # --- what is checked when a dataset is opened

    def _hashes(self) -> None:
        """Whatever is part of a file's name."""
        columns, splits = self.manifest["columns"], self.manifest["splits"].values()
        hashes = [self.manifest["schema"], *(ref["sha256"] for split in splits for ref in split["tables"])]
        hashes += [column["label_table"] for column in columns if has_names(column)]
        tokens = [column["tokens"] for column in columns if column["kind"] == "tokens"]
        hashes += [one["tokenizer_table"] for one in tokens if "tokenizer_table" in one]
        hashes += [] if self.manifest["parent"] is None else [self.manifest["parent"]]
        for sha256 in hashes:
            need(re.fullmatch("[0-9a-f]{64}", sha256) is not None, "manifest", f"{sha256!r} is not a sha256")

    def _columns(self) -> None:
        """Set `columns` (name -> column of the manifest), `derived` (their names), `schema`, `large` and `tokens`."""
        table = self.manifest["schema"]
        with decoding("arrow", f"schema table {table}"):
            footer = arrow_footer(self._table(table))
            need(not footer.structs(3, "qi4xq"), "table", f"schema table {table} has record batches")
            self.schema = Schema(footer.table(1))
        self.columns = {column["name"]: column for column in self.manifest["columns"]}
        need(len(self.columns) == len(self.manifest["columns"]), "manifest", "two columns have the same name")
        self.derived = [f"__{one['of']}.{one['what']}__" for one in self.manifest["derived"]]
        need(len(set(self.derived)) == len(self.derived), "manifest", "two derived columns have the same name")
        for one in self.manifest["derived"]:
            need(one["of"] in self.columns, "manifest", f"a derived column of {one['of']!r}, which is no column")
        names = [field.name for field in self.schema.columns]
        everything = [KEY, DIGEST, *self.columns, *self.derived]
        need(sorted(names) == sorted(everything), "table", f"columns {names} of the schema table, not {everything}")
        groups, self.references = {2: [], 3: [], 4: []}, []
        for name, column in self.columns.items():
            need(bool(name) and not name.startswith("__"), "manifest", f"a column has the name {name!r}")
            field, kind = self.schema[name], column["kind"]
            if kind == "image":
                encoding = column["encoding"]
                known = re.fullmatch(r"keep|raw|jpeg:([1-9]\d?|100)", encoding, re.ASCII) is not None
                need(known, "manifest", f"column {name} has the encoding {encoding!r}")
                kind = f"image {encoding.partition(':')[0]}"
            if kind == "image keep" and str(field) == REFERENCE:
                self.references.append(name)
                kind = "image of references"
            fits = kind not in KINDS or re.fullmatch(KINDS[kind], str(field)) is not None
            need(fits, "table", f"column {name} is of kind {kind}, its type {field}")
            if kind == "value" and has_names(column):
                listed = re.fullmatch(r"(large_)?list<int64>", str(field)) is not None
                need(listed, "table", f"column {name} has a label table, its type is {field}")
            groups[group(kind, field)].append(name)
        requires = self.manifest["requires"]
        alike = bool(self.references) == ("references" in requires) >= self.unhashed
        need(alike, "manifest", f"it requires {requires} and has references in {self.references}")
        order = [KEY, DIGEST, *groups[2], *groups[3], *self.derived, *groups[4]]
        need(names == order, "table", f"columns of shards in the order {names}, not {order}")
        for name, one in zip(self.derived, self.manifest["derived"], strict=True):
            if self.columns[one["of"]]["kind"] == "image" and one["version"] == 1:
                found = str(self.schema[name])
                need(DERIVED.get(one["what"], found) == found, "table", f"derived column {name} has the type {found}")
        own = [str(field) + " null" * field.nullable for field in self.schema.columns[:2]]
        digest = "fixed_size_binary(16)" + " null" * self.unhashed
        need(own == ["utf8", digest], "table", f"types of {KEY} and {DIGEST}: {own}")
        self.large = [self.schema[name] for name in groups[4]]
        self.tokens = [self.schema[name] for name, column in self.columns.items() if column["kind"] == "tokens"]
        need(len(self.tokens) <= 1, "manifest", f"{len(self.tokens)} columns of kind tokens")

    def _names(self, column: str) -> list[str]:
        """The classes of a column with a label table."""
        with decoding("arrow", f"label table of {column}"):
            rows = table_rows(self._table(self.columns[column]["label_table"]), LABEL_TABLE)
        return [row["name"] for row in rows]

    def _sums(self, where: str, split: dict) -> None:
        number(split["rows"], MOST_ROWS, f"rows of {where}")
        number(split["bytes"], MOST_BYTES, f"bytes of {where}")
        for i, ref in enumerate(split["tables"]):
            for key, most in (("rows", MOST_ROWS), ("bytes", MOST_BYTES), ("tokens", MOST_ROWS)):
                number(ref[key], most, f"{key} of table {i} of {where}")
            number(ref["shards"], MOST_SHARDS, f"shards of table {i} of {where}")
            number(ref["batches"], MOST_ROWS, f"batches of table {i} of {where}")
        for key in ("rows", "bytes"):
            adds_up = split[key] == sum(ref[key] for ref in split["tables"])
            need(adds_up, "manifest", f"{key} of {where} are not those of its tables")
        for name, classes in self.classes.items():
            if self.columns[name]["kind"] != "label":
                continue
            counts, missing = split["labels"][name]["counts"], split["labels"][name]["missing"]
            numbers = [number(n, MOST_ROWS, f"counts of {name} in {where}") for n in (*counts, missing)]
            need(len(counts) == len(classes), "manifest", f"{len(counts)} counts of {name} in {where}, not one a class")
            need(sum(numbers) == split["rows"], "manifest", f"counts of {name} in {where} are not its rows")

    # --- what is checked when a table is needed

    def tokenizer(self, column: str) -> bytes:
        """The file of the tokenizer that made a tokens column."""
        tokens = self.columns[column]["tokens"]
        with decoding("arrow", f"tokenizer table of {column}"):
            rows = table_rows(self._table(tokens["tokenizer_table"]), TOKENIZER_TABLE)
        need(len(rows) == 1, "table", f"{len(rows)} rows in the tokenizer table of {column}, not one")
        same = hashlib.sha256(rows[0]["file"]).hexdigest() == tokens["tokenizer"]
        need(same, "table", f"the tokenizer of {column} has another sha256")
        return rows[0]["file"]

    def shards_of(self, split: str, i: int) -> list[dict]:
        """The rows of a split's shard table: read when it is first asked for."""
        ref = self.manifest["splits"][split]["tables"][i]
        where = f"shard table {i} of split {split} (tables/{ref['sha256']}.arrow)"
        if ref["sha256"] not in self._shard_rows:
            data = self._table(ref["sha256"])
            with decoding("arrow", where):
                self._shard_rows[ref["sha256"]] = shard_rows(data)
        shards = self._shard_rows[ref["sha256"]]
        adds_up = {key: sum(shard[key] for shard in shards) for key in ("rows", "bytes", "tokens")}
        adds_up |= {"shards": len(shards), "batches": sum(len(shard["batches"]) for shard in shards)}
        for key, value in adds_up.items():
            need(ref[key] == value, "table", f"{where} has {value} {key}, the manifest says {ref[key]}")
        return shards

    def shards(self, split: str) -> Iterator[dict]:
        for i in range(len(self.manifest["splits"][split]["tables"])):
            yield from self.shards_of(split, i)

    # --- what is checked when a record batch is needed

    def _batch(
        self, shard: dict, i: int, read: Callable[[int, int], bytes], skip: frozenset[str] = frozenset()
    ) -> Values:
        """A record batch that can be trusted, by one range: its message and the chunks that its head touches.

        Its values read further chunks where they need them.
        """
        line, where = shard["batches"][i], f"record batch {i} of {shard['path']}"
        body_at, size = line["offset"] + line["metadata_bytes"], line["body_bytes"]
        ahead = min(-(-line["head_bytes"] // CHUNK) * CHUNK, size)
        data = read(line["offset"], body_at + ahead)
        head = data[: line["metadata_bytes"]]
        good = hashlib.sha256(head).digest() == line["metadata_sha256"]
        need("message" in skip or good, "message", f"{where} has another sha256")
        with decoding("arrow", where):
            found, batch = message(head, RECORD_BATCH)
            ids = [field.children[0] for field in self.tokens]

            def same(said: int, key: str) -> None:
                need(said == line[key], "message", f"{where} has {said} {key}, its shard table says {line[key]}")

            same(batch.number(0, "q"), "rows")
            same(found.number(3, "q"), "body_bytes")
            buffers = places(batch, size, self.schema.buffers)
            same(sum(buffers[item.data][1] // item.width for item in ids), "tokens")
            same(head_end(self.large, buffers, size), "head_bytes")
            never = [self.schema[KEY], *([] if self.unhashed else [self.schema[DIGEST]]), *self.tokens, *ids]
            for field in never:
                need(buffers[field.validity][1] == 0, "message", f"{where} has nulls in {field.name}")
            metadata = {pair.text(0): pair.text(1) for pair in found.tables(4)}
            sums = [n for (n,) in struct.iter_unpack("<I", base64.b64decode(metadata["toolkit.crc32c"], validate=True))]
        need(len(sums) == -(-size // CHUNK), "crc", f"{len(sums)} sums for the {size} bytes of {where}")
        chunks = Chunks(size, sums, lambda a, b: read(body_at + a, body_at + b), where, "crc" not in skip)
        chunks.put(0, data[line["metadata_bytes"] :])
        return Values(line["rows"], buffers, chunks.read)

    def _raw(self, values: Values, row: int, names: Iterable[str], where: str) -> dict:
        """Values as Values gives them, by column."""
        found = {}
        for name in names:
            with decoding("value", f"column {name} of {where}"):
                found[name] = values.value(self.schema[name], row)
        return found

    def _follow(self, raw: dict, shard: dict, at: int, where: str) -> dict:
        """Read what references of row `at` of a shard lead to; return them as packed structs, (bytes, path)."""
        found = dict(raw)
        for number, name in enumerate(self.references):
            if raw.get(name) is not None:
                value = self.schema[name].plain(raw[name])
                place = 16 * (at * len(self.references) + number)
                payload = self._payload(value, shard["path"].removesuffix(".arrow") + ".stat", place, where)
                found[name] = (payload, raw[name][4])
        return found

    def _payload(self, value: dict, stats: str, place: int, where: str) -> bytes:
        path, offset, length = value["path"], value["offset"], value["length"]
        parts = path.split("/")
        need(not {"", ".", ".."} & {*parts} and "\0" not in path, "reference", f"path {path!r} of {where}")
        need(value["root"] in self.roots, "reference", f"nobody says where the root {value['root']!r} is")
        need(offset >= 0 and length >= 0, "reference", f"offset {offset} and length {length} of {where}")
        root = Path(self.roots[value["root"]]).resolve()
        file = (root / path).resolve()
        need(file.is_relative_to(root), "reference", f"{path} of {where} leads out of its root")
        need(file.is_file(), "reference", f"{file} of {where} is missing, or no regular file")
        with file.open("rb") as opened:
            info = os.fstat(opened.fileno())
            opened.seek(offset)
            data = opened.read(length)
        need(len(data) == length, "reference", f"{file} ends before {where}")
        if value["crc32c"] is None:
            need(self.unhashed, "reference", f"{where} has no sums")
            listed = struct.unpack("<qq", self._read(stats, place, place + 16))
            same = listed == (info.st_size, info.st_mtime_ns)
            need(same, "reference", f"{file} has another size or time than {where} says")
        else:
            sums = [crc32c(data[at : at + CHUNK]) for at in range(0, length, CHUNK)]
            need(struct.pack(f"<{len(sums)}I", *sums) == value["crc32c"], "reference", f"bytes of {file} for {where}")
        return data

    def _canonical(self, name: str, value: object) -> bytes:
        """The canonical encoding of a value; of what a reference led to, that of the packed struct."""
        if name not in self.references:
            return canonical(self.schema[name], value)
        encoded = name.encode()
        header = struct.pack("<I", len(encoded)) + encoded
        if value is None:
            return header + b"\0"
        children = (b"\0" if one is None else b"\1" + struct.pack("<Q", len(one)) + one for one in value)
        return header + b"\1" + b"".join(children)

    def _plain(self, raw: dict, where: str) -> dict:
        followed = {name: raw[name] for name in self.references if name in raw}
        raw = {name: value for name, value in raw.items() if name not in followed}
        sample = {name: self.schema[name].plain(value) for name, value in raw.items()}
        for name, value in sample.items():
            if value is not None and self.columns.get(name, {}).get("encoding") == "raw":
                whole = None not in value.values()
                size = whole and value["height"] * value["width"] * value["channels"]
                need(whole and len(value["pixels"]) == size, "value", f"pixels of column {name} of {where}")
        for name, value in followed.items():
            path = None if value is None or value[1] is None else value[1].decode()
            sample[name] = None if value is None else {"bytes": value[0], "path": path}
        return sample

    def _run(self, values: Values, where: str) -> None:
        """Documents of a record batch lie one behind the other: of its tokens none is left out."""
        for field in self.tokens if values.rows else ():
            first, last = values.ends(field, 0)[0], values.ends(field, values.rows - 1)[1]
            held = values.buffers[field.children[0].data][1] // field.children[0].width
            need((first, last) == (0, held), "value", f"tokens {first} to {last} of {held} in {where}")

    # --- reading

    def find(self, split: str, row: int) -> tuple[dict, Values, int, int]:
        """The shard that a row is in, its record batch, and the row's number there and in the shard.

        Of tables, the one that has the row is read; of the shard, one range.
        """
        i, at = within([ref["rows"] for ref in self.manifest["splits"][split]["tables"]], row)
        shards = self.shards_of(split, i)
        i, at = within([shard["rows"] for shard in shards], at)
        path, shard = self.folder / shards[i]["path"], shards[i]
        need(path.is_file(), "file", f"{shard['path']} is missing, or no regular file")
        need(path.stat().st_size == shard["bytes"], "size", f"{shard['path']} has {path.stat().st_size} bytes")
        i, inner = within([batch["rows"] for batch in shard["batches"]], at)
        return shard, self._batch(shard, i, lambda start, stop: self._read(shard["path"], start, stop)), inner, at

    def row(self, split: str, row: int, columns: Iterable[str] | None = None) -> dict:
        """One sample: its key and these columns, derived ones among them; without `columns` all that aren't derived.

        One range of the shard has all small columns and says where the value of the first large one lies, which is a
        second range; a third and further ones are for other large columns, and for other fields of the first.
        """
        shard, values, inner, at = self.find(split, row)
        where = f"row {row} of split {split}, in {shard['path']}"
        raw = self._raw(values, inner, (KEY, *(self.columns if columns is None else columns)), where)
        return self._plain(self._follow(raw, shard, at, where), where)

    def samples(self, split: str, skip: frozenset[str] = frozenset(), derived: Iterable[str] = ()) -> Iterator[dict]:
        """All samples, and derived columns by their names, from files that are read and checked as a whole."""
        row = 0
        for shard in self.shards(split):
            data, path = self._read(shard["path"]), shard["path"]
            need("size" in skip or len(data) == shard["bytes"], "size", f"{path} has {len(data)} bytes")
            nonbody, at = hashlib.sha256(), 0
            for line in shard["batches"]:
                body = line["offset"] + line["metadata_bytes"]
                nonbody.update(data[at:body])
                at = body + line["body_bytes"]
            nonbody.update(data[at:])
            need("nonbody" in skip or nonbody.digest() == shard["nonbody_sha256"], "nonbody", path)
            whole = hashlib.sha256(data).digest()
            need("sha256" in skip or whole == shard["sha256"], "sha256", path)
            first = row
            for i, line in enumerate(shard["batches"]):
                values = self._batch(shard, i, lambda start, stop, data=data: data[start:stop], skip)
                values.read(0, line["body_bytes"])  # every chunk, padding too
                self._run(values, f"record batch {i} of {path}")
                for at in range(line["rows"]):
                    where = f"row {row} of split {split}, in record batch {i} of {path}"
                    raw = self._raw(values, at, [field.name for field in self.schema.columns], where)
                    raw = self._follow(raw, shard, row - first, where)
                    hashed = [KEY, *(field.name for field in self.schema.columns if not field.name.startswith("__"))]
                    encoded = b"".join(self._canonical(name, raw[name]) for name in hashed)
                    given = raw[DIGEST]
                    good = given is None or xxhash.xxh3_128(encoded).digest() == given
                    need("digest" in skip or good, "digest", f"{where}, key {raw[KEY].decode()}")
                    yield self._plain({name: raw[name] for name in (KEY, *self.columns, *derived)}, where)
                    row += 1


def within(rows: list[int], row: int) -> tuple[int, int]:
    """Which of these parts has a row, and the row's number there."""
    at = row
    for i, count in enumerate(rows):
        if 0 <= at < count:
            return i, at
        at -= count
    raise IndexError(row)


def group(kind: str, field: Type) -> int:
    """Which of the four groups of columns, in the order of shards, a column of the manifest belongs to."""
    one_width = field.data is not None and field.kind not in BYTES
    if kind in ("label", "scalar") or (kind == "value" and (one_width or field.kind == NULL)):
        return 2
    return 3 if kind in ("text", "json") else 4
