"""Check a version of a dataset against its pin: sizes and metadata, or every byte; decode every image on request."""

from __future__ import annotations

import builtins
import enum
import hashlib
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from toolkit._native.chunks import CHUNK_BYTES, READ_OK
from toolkit._native.image import ImageError, Scratch
from toolkit.errors import CorruptShardError, StorageError
from toolkit.format.digest import sample_digests
from toolkit.format.manifest import LabelCounts
from toolkit.format.pin import resolve
from toolkit.format.reader import ShardReader, read_failure
from toolkit.format.schema import DIGEST, KEY, RAW_IMAGE_TYPE, Kind
from toolkit.loader.dataset import Dataset, open
from toolkit.loader.raw_images import size_fault
from toolkit.pipelines.build import compile_pipeline
from toolkit.pipelines.image import CompiledImage
from toolkit.pipelines.slots import pipeline, slot
from toolkit.processors import processors
from toolkit.storage.local import storage_errors

__all__ = ["Finding", "Level", "VerifyResult", "verify"]

_READ_BYTES = 4 * 1024 * 1024


class Level(enum.Enum):
    """How much is checked: sizes, tables and metadata of every shard; or every byte, chunk sum and sample digest."""

    QUICK = "quick"
    FULL = "full"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        kind: "integrity" (not the bytes that were packed), "storage" (the file system refuses to read them) or
            "sample" (packed so, but it can't be decoded).
        message: What is wrong, with the place.
        split, shard: Where; the shard's path inside the dataset.
        place: Which part of the shard: "file", "record batch 2, chunk 5", "sample".
        row, key: The sample, where it is known.
    """

    kind: str
    message: str
    split: str
    shard: str
    place: str
    row: int | None = None
    key: str | None = None


@dataclass(frozen=True, kw_only=True)
class VerifyResult:
    """What was checked and what was found; `findings` is empty when everything is as it was packed."""

    pin: str
    level: str
    decoded: bool
    shards: int
    samples: int
    bytes: int
    seconds: float
    findings: list[Finding]


def verify(
    reference: str | os.PathLike[str],
    *,
    level: Level = Level.QUICK,
    decode: bool = False,
    jobs: int | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> VerifyResult:
    """Check the version that `reference` names.

    Args:
        reference: As toolkit.open takes it.
        level: How much.
        decode: Decode every image as well.
        jobs: Shards checked at the same time; as many as there are processors when left out.
        progress: Called with (bytes done, bytes in all).

    Raises:
        PinMismatchError, CorruptTableError, FormatError, NotFoundError: It can't even be opened.
    """
    started = time.monotonic()
    version = resolve(reference)
    pinned = f"{version.root}@sha256:{version.pin}"
    cancelled = threading.Event()
    checks = [_SplitCheck(open(pinned, split=name), level, decode, cancelled) for name in version.manifest.splits]
    work = [(check, shard) for check in checks for shard in range(check.dataset.index.shards)]
    total = sum(split.bytes for split in version.manifest.splits.values())
    findings: list[Finding] = []
    done = 0
    with ThreadPoolExecutor(jobs or processors(), thread_name_prefix="toolkit-verify") as pool:
        try:
            for (check, shard), found in zip(work, pool.map(lambda item: item[0].shard(item[1]), work), strict=True):
                findings += found
                done += int(check.dataset.index.shard_bytes[shard])
                progress(done, total)
        except BaseException:
            cancelled.set()  # the pool waits for running shards: let them end at the next sample
            raise
    for check in checks:
        findings += check.totals(complete=not findings)
    return VerifyResult(
        pin=version.pin,
        level=level.value,
        decoded=decode,
        shards=len(work),
        samples=sum(len(check.dataset) for check in checks),
        bytes=total,
        seconds=time.monotonic() - started,
        findings=findings,
    )


class _SplitCheck:
    """The checks of one split. Its methods run on several threads, each for another shard."""

    def __init__(self, dataset: Dataset, level: Level, decode: bool, cancelled: threading.Event) -> None:
        self._cancelled = cancelled
        self._lock = threading.Lock()  # of the counters: shards are counted on several threads
        self.dataset = dataset
        self._full = level is Level.FULL
        self._labels = {column.name: Counter[int | None]() for column in dataset.columns if column.kind is Kind.LABEL}
        self._decoders: dict[str, CompiledImage] = {}
        if decode:
            images = [slot(c.name).decode_image() for c in dataset.columns if c.kind is Kind.IMAGE]
            compiled = compile_pipeline(pipeline(*images), dataset.columns, dataset.schema)
            self._decoders = {each.slot.column: each.image for each in compiled if each.image is not None}

    def shard(self, shard: int) -> list[Finding]:
        """Check one shard."""
        index = self.dataset.index
        try:
            reader = ShardReader(self.dataset.root, index, shard)
        except CorruptShardError as error:
            return [self._finding(shard, "file", str(error))]
        except StorageError as error:
            return [self._finding(shard, "file", str(error), kind="storage")]
        findings: list[Finding] = []
        if self._full or self._decoders:
            scratch = Scratch()
            for batch in range(int(index.shard_first_batch[shard]), int(index.shard_first_batch[shard + 1])):
                findings += self._batch(reader, shard, batch, scratch)
        if self._full and not findings:
            findings += self._file_hash(shard)
        return findings

    def totals(self, *, complete: bool) -> list[Finding]:
        """Compare what was counted with what the manifest says; only when every sample was read."""
        split = self.dataset.manifest.splits[self.dataset.split]
        problems = []
        if self.dataset.index.rows != split.rows:
            problems.append(f"the shard tables hold {self.dataset.index.rows} rows, the manifest says {split.rows}")
        if complete and self._full:
            for name, counted in self._labels.items():
                classes = len(self.dataset.class_names[name])
                strange = sorted(label for label in counted if label is not None and not 0 <= label < classes)
                if strange:
                    problems.append(f"column {name} has the label {strange[0]}, and its label table {classes} names")
                seen = LabelCounts(counts=tuple(counted[i] for i in range(classes)), missing=counted[None])
                if seen != split.labels[name]:
                    problems.append(f"the classes of column {name} occur otherwise than the manifest says")
        return [
            Finding(kind="integrity", message=text, split=self.dataset.split, shard="", place="manifest")
            for text in problems
        ]

    def _batch(self, reader: ShardReader, shard: int, batch: int, scratch: Scratch) -> Iterator[Finding]:
        index = self.dataset.index
        number = batch - int(index.shard_first_batch[shard])
        try:
            body = reader.body(batch)
        except CorruptShardError as error:
            yield self._finding(shard, f"record batch {number}", str(error))
            return
        data = np.empty(int(index.batch_body_bytes[batch]), np.uint8)
        bad_chunks = []
        for start in range(0, len(data), CHUNK_BYTES):
            status, chunk = body.read(start, data[start : start + CHUNK_BYTES])
            if status != READ_OK:
                bad_chunks.append(chunk)
                place = f"record batch {number}, chunk {chunk}"
                offset = int(index.batch_offset[batch] + index.batch_metadata_bytes[batch]) + start
                message = f"shard {reader.path}, file bytes from {offset}: {read_failure(status, chunk)}"
                yield self._finding(shard, place, message)
        if self._cancelled.is_set():
            return
        if bad_chunks:
            yield from self._bad_samples(shard, batch)
        else:
            yield from self._samples(reader, shard, batch, data, scratch)

    def _bad_samples(self, shard: int, batch: int) -> Iterator[Finding]:
        """Name the samples that lie in chunks that can't be trusted."""
        index = self.dataset.index
        for row in range(int(index.batch_start[batch]), int(index.batch_start[batch + 1])):
            try:
                self.dataset.check_row(row)
            except CorruptShardError as error:
                yield self._finding(shard, "sample", str(error), row=row, key=error.key)

    def _samples(
        self, reader: ShardReader, shard: int, batch: int, body: NDArray[np.uint8], scratch: Scratch
    ) -> Iterator[Finding]:
        first = int(self.dataset.index.batch_start[batch])
        message = pa.ipc.read_message(pa.BufferReader(pa.py_buffer(reader.message(batch) + body.tobytes())))
        try:
            records = pa.ipc.read_record_batch(message, self.dataset.schema)
            records.validate(full=True)
        except pa.ArrowException as error:
            yield self._finding(shard, "record batch", f"shard {reader.path}: not valid Arrow data: {error}")
            return
        keys = records.column(KEY).to_pylist()
        if self._full:
            with self._lock:
                for name, counter in self._labels.items():
                    counter.update(records.column(name).to_pylist())
            for place, (now, packed) in enumerate(
                zip(sample_digests(records), records.column(DIGEST).to_pylist(), strict=True)
            ):
                if now != packed:
                    where = self._where(reader, first + place, keys[place])
                    text = f"{where}: its digest is another than when it was packed"
                    yield self._finding(shard, "sample", text, first + place, keys[place])
        for name, decoder in self._decoders.items():
            images = records.column(name)
            # .field() would leave the struct's own nulls out.
            encoded = None if images.type == RAW_IMAGE_TYPE else pc.struct_field(images, "bytes")
            for place in range(records.num_rows):
                if self._cancelled.is_set():
                    return
                if encoded is None:
                    fault = _raw_fault(images[place])
                else:
                    fault = _decode_fault(decoder, encoded[place].as_py(), scratch)
                if fault is not None:
                    text = f"{self._where(reader, first + place, keys[place])}, column {name}: {fault}"
                    yield self._finding(shard, "sample", text, first + place, keys[place], kind="sample")

    def _where(self, reader: ShardReader, row: int, key: str) -> str:
        return f"shard {reader.path}, row {row}, key {key!r}"

    def _file_hash(self, shard: int) -> list[Finding]:
        path = self.dataset.files[shard]
        digest = hashlib.sha256()
        try:
            with storage_errors("read", path), builtins.open(path, "rb", buffering=0) as file:
                while not self._cancelled.is_set() and (piece := file.read(_READ_BYTES)):
                    digest.update(piece)
        except StorageError as error:
            return [self._finding(shard, "file", str(error), kind="storage")]
        if digest.digest() == self.dataset.index.sha256[shard].as_py():
            return []
        text = f"shard {self.dataset.index.shard_path(shard)}: its sha256 is another than when it was packed"
        return [self._finding(shard, "file", text)]

    def _finding(
        self,
        shard: int,
        place: str,
        message: str,
        row: int | None = None,
        key: str | None = None,
        kind: str = "integrity",
    ) -> Finding:
        return Finding(
            kind=kind,
            message=message,
            split=self.dataset.split,
            shard=self.dataset.index.shard_path(shard),
            place=place,
            row=row,
            key=key,
        )


def _decode_fault(decoder: CompiledImage, encoded: bytes | None, scratch: Scratch) -> str | None:
    if encoded is None:
        return None
    try:
        decoder.decode(encoded, scratch)
    except (ImageError, ValueError, MemoryError) as error:
        return str(error)
    return None


def _raw_fault(image: pa.StructScalar) -> str | None:
    if not image.is_valid or not all(image[name].is_valid for name in image):
        return None
    nbytes = image["pixels"].as_buffer().size
    return size_fault(nbytes, image["height"].as_py(), image["width"].as_py(), image["channels"].as_py())
