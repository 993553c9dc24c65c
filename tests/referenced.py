"""Datasets of references, made of packed ones: the same samples, whose images stay in files of a folder or of a tar."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa

import toolkit
from toolkit._native.shards.sums import ChunkSums
from toolkit.format.commit import Transaction
from toolkit.format.contents import read_classes, read_schema
from toolkit.format.manifest import Manifest, Split, encode_manifest
from toolkit.format.pin import resolve
from toolkit.format.references import REFERENCE_TYPE, REFERENCES, UNHASHED
from toolkit.format.schema import DIGEST, KEY, arrow_schema
from toolkit.format.shard import ShardWriter
from toolkit.format.tables import encode_schema_table
from toolkit.format.unhashed import encode_stats, stat_path
from toolkit.storage.local import LocalStore
from toolkit.storage.roots_file import write_roots

__all__ = ["refer", "sums_of"]

BATCH_BODY_BYTES = 4096  # several record batches of a few references each

Place = tuple[str, int, bytes]  # path below the root, offset, and the value


def sums_of(data: bytes) -> bytes:
    """Return the CRC32C of each 16 KiB, as a reference has them."""
    sums = ChunkSums()
    sums.update(data)
    return sums.digest()


def refer(
    packed: Path,
    dataset: Path,
    root: Path,
    *,
    column: str = "image",
    hashed: bool = True,
    tar: bool = False,
    shards: int = 2,
    own: bool = True,
    change: Callable[[int, dict[str, object]], dict[str, object]] | None = None,
) -> Path:
    """Write the images of a packed dataset to files below `root`, and a dataset that refers to them; return that.

    Keys, order and other columns are those of the packed one, and so are the digests.

    Args:
        packed: A dataset with one column of images that keeps the source's bytes.
        dataset: The new one.
        root: Where the files go; it may have them already.
        column: The column of images.
        hashed: Whether references have sums; without, sizes and times stand for them.
        tar: Put all values into one tar, in place of a file each.
        shards: Into how many shards each split is cut.
        own: Whether roots.json says where the root is, proved to be this user's own.
        change: Changes the reference of a row of a split.
    """
    version = resolve(packed)
    columns, schema = version.manifest.columns, read_schema(version)
    types = {one.name: schema.field(one.name).type for one in columns} | {column: REFERENCE_TYPE}
    columns = tuple(
        msgspec.structs.replace(one, arrow_type=str(REFERENCE_TYPE)) if one.name == column else one for one in columns
    )
    derived = version.manifest.derived
    referred = arrow_schema(columns, types, read_classes(version), derived, hashed=hashed)
    store = LocalStore(str(dataset))
    made: dict[str, Split] = {}
    with Transaction(store, replace=True) as transaction:
        for name, split in version.manifest.splits.items():
            rows = _rows(packed, name)
            places = _written(root, name, rows, column, tar=tar)
            records = []
            for number, run in enumerate(np.array_split(np.arange(rows.num_rows), shards)):
                piece = rows.slice(int(run[0]) if len(run) else 0, len(run))
                values = [_reference(places[row], piece, at, column, hashed) for at, row in enumerate(run.tolist())]
                if change is not None:
                    values = [v and change(row, dict(v)) for row, v in zip(run.tolist(), values, strict=True)]
                shard = transaction.new_shard(f"{name}-{number}")
                writer = ShardWriter(shard, referred, batch_body_bytes=BATCH_BODY_BYTES)
                writer.write(_batch(piece, column, values, referred, hashed=hashed, derived=[d.name for d in derived]))
                record = writer.close()
                path = transaction.publish_shard(shard, f"{name}-{number:06d}-{record.sha256.hex()[:16]}.arrow")
                records.append(type(record)(path, *record_rest(record)))
                if not hashed:
                    store.write(stat_path(path), encode_stats([_stats(root, values)]))
            tables = transaction.add_shard_tables(records)
            made[name] = Split(
                rows=split.rows, bytes=sum(table.bytes for table in tables), labels=split.labels, tables=tables
            )
        for table in (packed / "tables").iterdir():
            (dataset / "tables" / table.name).write_bytes(table.read_bytes())
        manifest = Manifest(
            format=version.manifest.format,
            requires=(REFERENCES,) if hashed else (REFERENCES, UNHASHED),
            columns=columns,
            derived=derived,
            schema=transaction.add_table(encode_schema_table(referred)),
            splits=made,
            options={},
            parent=None,
            user={},
        )
        if own:
            write_roots(store, {"source": str(root)}, encode_manifest(manifest)[1])
        transaction.commit(manifest, {})
    return dataset


def record_rest(record: object) -> list[object]:
    return [getattr(record, name) for name in list(type(record).__dataclass_fields__)[1:]]  # type: ignore[attr-defined]


def _rows(packed: Path, split: str) -> pa.RecordBatch:
    batches = []
    for file in toolkit.open(packed, split=split).files:
        opened = pa.ipc.open_file(file)
        batches += [opened.get_batch(number) for number in range(opened.num_record_batches)]
    return pa.concat_batches(batches)


def _written(root: Path, split: str, rows: pa.RecordBatch, column: str, *, tar: bool) -> list[Place | None]:
    keys = rows.column(KEY).to_pylist()
    values = [None if value is None else value["bytes"] for value in rows.column(column).to_pylist()]
    if not tar:
        for key, value in zip(keys, values, strict=True):
            if value is not None and not (root / key).exists():
                (root / key).parent.mkdir(parents=True, exist_ok=True)
                (root / key).write_bytes(value)
        return [None if value is None else (key, 0, value) for key, value in zip(keys, values, strict=True)]
    root.mkdir(parents=True, exist_ok=True)
    name = f"{split}.tar"
    if not (root / name).exists():
        with tarfile.open(root / name, "w") as archive:
            for number, value in enumerate(values):
                if value is not None:
                    path = root / "member"
                    path.write_bytes(value)
                    archive.add(path, arcname=f"{number:06d}.jpg")
                    path.unlink()
    with tarfile.open(root / name) as archive:
        offsets = {member.name: member.offset_data for member in archive.getmembers()}
    return [None if v is None else (name, offsets[f"{n:06d}.jpg"], v) for n, v in enumerate(values)]


def _reference(place: Place | None, rows: pa.RecordBatch, at: int, column: str, hashed: bool) -> dict | None:
    if place is None:
        return None
    path, offset, value = place
    name = rows.column(column)[at].as_py()["path"]
    sums = sums_of(value) if hashed else None
    return {"root": "source", "path": path, "offset": offset, "length": len(value), "name": name, "crc32c": sums}


def _batch(
    rows: pa.RecordBatch, column: str, values: list, schema: pa.Schema, *, hashed: bool, derived: list[str]
) -> pa.RecordBatch:
    arrays = {name: rows.column(name) for name in rows.schema.names}
    arrays[column] = pa.array(values, REFERENCE_TYPE)
    if not hashed:
        arrays[DIGEST] = pa.nulls(rows.num_rows, schema.field(DIGEST).type)
        arrays |= {name: pa.nulls(rows.num_rows, schema.field(name).type) for name in derived}
    return pa.RecordBatch.from_arrays([arrays[name] for name in schema.names], schema=schema)


def _stats(root: Path, values: list) -> tuple[np.ndarray, np.ndarray]:
    infos = [None if value is None else (root / value["path"]).stat() for value in values]
    return (
        np.array([-1 if info is None else info.st_size for info in infos], np.int64),
        np.array([-1 if info is None else info.st_mtime_ns for info in infos], np.int64),
    )
