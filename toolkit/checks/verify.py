"""Check a version of a dataset against its pin: sizes and metadata, or every byte; decode all media on request."""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa

from toolkit._native.shards.body import CHUNK_BYTES, READ_OK
from toolkit.checks.against.compare import WHATS, AgainstResult, compare
from toolkit.checks.against.packed_source import packed_sources
from toolkit.checks.arguments import argument, check_flags, paths, progress_of, whole
from toolkit.checks.verify_derived import DerivedChecks
from toolkit.checks.verify_result import Finding, VerifyResult
from toolkit.checks.verify_samples import KeyLog, SampleChecks
from toolkit.errors import CorruptShardError, NotFoundError, StorageError, UsageError
from toolkit.format.layout import column_layouts
from toolkit.format.pin import resolve
from toolkit.format.reader import ShardReader, read_failure
from toolkit.format.schema import KEY, Column, Kind
from toolkit.format.shard_frame import frame_fault
from toolkit.format.values import DamagedValueError, read_rows
from toolkit.loader.api import Dataset, open
from toolkit.options.values import COUNT
from toolkit.pipelines.image.formats import DEFAULT_MAX_PIXELS
from toolkit.pipelines.media import Held, held_medium, medium_of
from toolkit.storage.store import pieces

__all__ = ["Finding", "VerifyResult", "verify"]

_READ_BYTES = 4 * 1024 * 1024
_NAMED_REPEATS = 100
_NAMED_DIFFERENCES = 20


def verify(
    dataset: str | os.PathLike[str],
    *,
    full: bool = False,
    decode: bool = False,
    max_pixels: int = DEFAULT_MAX_PIXELS,
    jobs: int | str = "auto",
    against: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    options: Mapping[str, object] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> VerifyResult:
    """Check a version of a dataset against what was packed.

    Args:
        dataset: As toolkit.open takes it.
        full: Check every byte, chunk sum, sample digest and derived column; otherwise sizes, tables and metadata of
            every shard.
        decode: Decode every image, and every other medium, as well.
        max_pixels: An image of more pixels can't be decoded.
        jobs: Shards checked at the same time; "auto" is the number of processors.
        against: The source that was packed, or several, those of appends too: all samples of it are read as they were
            packed, and compared with those of the dataset by key and digest.
        options: With `against`: options of the pack that the manifest doesn't have, by name, as toolkit.pack takes
            them: those that say where a tokenizer or the files of a table lie, which class names there are.
        progress: Called with (bytes done, bytes in all).

    Raises:
        UsageError: An option can't be, or the source isn't what was packed.
        NotFoundError, SourceError: The source can't be read.
        PinMismatchError, CorruptTableError, FormatError, NotFoundError: It can't even be opened.
    """
    check_flags(full=full, decode=decode)
    max_pixels = whole("max_pixels", max_pixels, 1)
    threads, told = argument("jobs", jobs, COUNT), progress_of(progress)
    sources = paths("against", against)
    if options and not sources:
        raise UsageError("options are those by which a source is read: give it with --against")
    started = time.monotonic()
    version = resolve(dataset)
    packed = packed_sources(version, sources, options or {}) if sources else []
    pinned = f"{version.root}@sha256:{version.pin}"
    cancelled = threading.Event()
    datasets = {name: open(pinned, split=name) for name in version.manifest.splits}
    for one in datasets.values():
        one.index.read_all()  # also a table that is said to have no shards, so that none of them would ask for it
    keys = KeyLog({name: len(one) for name, one in datasets.items()}) if full else None
    most = max_pixels if decode else None
    derived = DerivedChecks(version.manifest.columns, version.manifest.derived)
    checks = [_SplitCheck(one, keys, derived, most, cancelled) for one in datasets.values()]
    work = [(check, shard) for check in checks for shard in range(check.dataset.index.shards)]
    shard_bytes = sum(split.bytes for split in version.manifest.splits.values())
    total = shard_bytes + sum(part.bytes for one in packed for part in one.survey.slices)
    findings: list[Finding] = []
    done = 0
    with keys or contextlib.nullcontext(), ThreadPoolExecutor(threads, "toolkit-verify") as pool:
        try:
            for (check, shard), found in zip(work, pool.map(lambda item: item[0].shard(item[1]), work), strict=True):
                findings += found
                done += check.dataset.index.shard(shard).file_bytes
                told(done, total)
        except BaseException:
            cancelled.set()  # the pool waits for running shards: let them end at the next sample
            raise
        for check in checks:
            findings += check.labels()
        if keys is not None:
            findings += _repeated_keys(keys, datasets)
    left_out = _not_checked(decode, version.manifest.columns, derived, full=full)
    compared = None
    if packed and findings:
        left_out.append("the source: what was found comes first")
    elif packed:
        compared = compare(datasets, packed, threads, lambda nbytes: told(done + nbytes, total), cancelled)
        findings += _differences(compared)
    return VerifyResult(
        pin=version.pin,
        level="full" if full else "quick",
        decoded=decode,
        shards=len(work),
        samples=sum(map(len, datasets.values())),
        bytes=shard_bytes,
        seconds=time.monotonic() - started,
        findings=tuple(findings),
        not_checked=tuple(left_out),
        against=compared,
    )


def _not_checked(decode: bool, columns: Sequence[Column], derived: DerivedChecks, *, full: bool) -> list[str]:
    """Say what a verification leaves out."""
    left_out, kinds = [], [column.kind for column in columns]
    if not full:
        left_out.append("the bytes of every sample, their digests, and whether a key comes twice (--full)")
        if any(column.label_table is not None for column in columns):
            left_out.append("whether the labels are classes of their tables, and counted right (--full)")
        if Kind.TOKENS in kinds:
            left_out.append("whether the tokens are of the vocabulary (--full)")
        if derived.known:
            left_out.append("whether derived columns say what the stored values do (--full)")
    if derived.unknown:
        left_out.append(f"the derived columns {', '.join(derived.unknown)}, which this version of toolkit doesn't know")
    left_out += [f"the derived columns of some values: {reason}" for reason in sorted(derived.unread)]
    media = [medium.stored.plural for kind in dict.fromkeys(kinds) if (medium := medium_of(kind)) is not None]
    if media and not decode:
        left_out.append(f"whether {' and '.join(media)} can be decoded (--decode)")
    return left_out


def _differences(compared: AgainstResult) -> Iterator[Finding]:
    """Name the samples that the source has otherwise, the first of each kind if they are many."""
    for what, count in compared.counts.items():
        named = [one for one in compared.differences if one.what == what][:_NAMED_DIFFERENCES]
        for one in named:
            yield Finding(
                kind="source", message=one.message, split=one.split, shard="", place="source", row=one.row, key=one.key
            )
        if count > len(named):
            more = f"{count - len(named)} more samples, {count} in all: {WHATS[what]}"
            yield Finding(kind="source", message=more, split="", shard="", place="source")


def _repeated_keys(keys: KeyLog, datasets: Mapping[str, Dataset]) -> Iterator[Finding]:
    """Name the samples whose key another one has, the first of them if they are many."""
    more = 0
    for number, (split, row, first_split, first_row) in enumerate(keys.repeats()):
        if number >= _NAMED_REPEATS:
            more += 1
            continue
        place = datasets[split].fetcher.place(row)
        where = f"split {first_split}, row {first_row}"
        text = f"shard {place.shard}, row {row}, key {place.key!r}: the key of {where} as well"
        yield Finding(
            kind="integrity", message=text, split=split, shard=place.shard, place="sample", row=row, key=place.key
        )
    if more:
        yield Finding(kind="integrity", message=f"{more} more keys come twice", split="", shard="", place="manifest")


class _SplitCheck:
    """The checks of one split. Its methods run on several threads, each for another shard."""

    def __init__(
        self,
        dataset: Dataset,
        keys: KeyLog | None,
        derived: DerivedChecks,
        max_pixels: int | None,
        cancelled: threading.Event,
    ) -> None:
        """`keys`: where they are put when everything is checked; `max_pixels`: of pictures to decode; None: none."""
        self._cancelled = cancelled
        self.dataset = dataset
        self._store = dataset.stored.parts[0].version.store
        self._layouts = column_layouts(dataset.schema)
        self._shape = dataset.stored.parts[0].shape
        classes = {name: len(names) for name, names in dataset.class_names.items()}
        self._full = None if keys is None else SampleChecks(dataset.columns, classes, derived, keys, dataset.split)
        self._max_pixels = max_pixels
        self._decoded: dict[str, Held] = {}
        for column in dataset.columns if max_pixels is not None else ():
            held = held_medium(column.kind, dataset.schema.field(column.name).type)
            if held is not None:
                self._decoded[column.name] = held

    def shard(self, shard: int) -> list[Finding]:
        """Check one shard."""
        index = self.dataset.index
        try:
            reader = ShardReader(self._store, index, shard, self._shape)
            reader.check_nonbody()
        except CorruptShardError as error:
            return [self._finding(shard, "file", str(error))]
        except StorageError as error:
            return [self._finding(shard, "file", str(error), kind="storage")]
        findings: list[Finding] = []
        if self._full or self._decoded:
            checks = {name: _value_check(held, self._max_pixels or 0) for name, held in self._decoded.items()}
            for batch in index.shard(shard).batches:
                records = self._records(reader, shard, batch, findings)
                if records is not None:
                    findings += self._samples(reader, shard, batch, records, checks)
        if self._full and not findings:
            findings += self._file_hash(shard)
        if self._full and not findings:
            what = frame_fault(self._store, index, shard, self.dataset.schema)
            if what is not None:
                findings.append(self._finding(shard, "file", f"shard {reader.path}: {what}"))
        return findings

    def labels(self) -> Iterator[Finding]:
        """Compare the labels that were counted with what the manifest says, if every sample was read."""
        if self._full is None or self._full.rows < len(self.dataset):
            return
        for name, counts in self.dataset.manifest.splits[self.dataset.split].labels.items():
            fault = self._full.labels_fault(name, counts)
            if fault is not None:
                yield Finding(kind="integrity", message=fault, split=self.dataset.split, shard="", place="manifest")

    def _records(self, reader: ShardReader, shard: int, batch: int, findings: list[Finding]) -> pa.RecordBatch | None:
        """Return the rows of a record batch; None, and findings, where they aren't what was packed."""
        info = self.dataset.index.batch(batch)
        try:
            body = reader.body(batch)
        except CorruptShardError as error:
            findings.append(self._finding(shard, f"record batch {info.number}", str(error)))
            return None
        before = len(findings)
        piece = np.empty(CHUNK_BYTES, np.uint8)
        for start in range(0, info.body_bytes, CHUNK_BYTES):
            status, chunk = body.read(start, piece[: info.body_bytes - start])
            if status != READ_OK:
                place = f"record batch {info.number}, chunk {chunk}"
                offset = info.body_offset + start
                message = f"shard {reader.path}, file bytes from {offset}: {read_failure(status, chunk)}"
                findings.append(self._finding(shard, place, message))
        if self._cancelled.is_set():
            return None
        if len(findings) > before:
            findings += self._bad_samples(shard, batch)
            return None
        try:
            arrays = [read_rows(body, layout, 0, body.rows) for layout in self._layouts.values()]
            records = pa.RecordBatch.from_arrays(arrays, schema=self.dataset.schema)
            records.validate(full=True)
        except DamagedValueError as error:
            findings += self._bad_samples(shard, batch) or [
                self._finding(shard, f"record batch {info.number}", f"shard {reader.path}: {read_failure(*error.args)}")
            ]
            return None
        except pa.ArrowException as error:
            text = f"shard {reader.path}: not valid Arrow data: {error}"
            findings.append(self._finding(shard, f"record batch {info.number}", text))
            return None
        return records

    def _bad_samples(self, shard: int, batch: int) -> list[Finding]:
        """Name the samples that can't be read."""
        info = self.dataset.index.batch(batch)
        found = []
        for row in range(info.start, info.start + info.rows):
            try:
                self.dataset.check_row(row)
            except CorruptShardError as error:
                found.append(self._finding(shard, "sample", str(error), row=row, key=error.key))
        return found

    def _samples(
        self,
        reader: ShardReader,
        shard: int,
        batch: int,
        records: pa.RecordBatch,
        checks: Mapping[str, Callable[[pa.StructScalar], str | None]],
    ) -> Iterator[Finding]:
        info = self.dataset.index.batch(batch)
        first, where = info.start, f"record batch {info.number}"
        keys = records.column(KEY).to_pylist()
        left_out = self._full.tokens_fault(records, info.tokens) if self._full else None
        if left_out is not None:
            yield self._finding(shard, where, f"shard {reader.path}, {where}: {left_out}")
        for fault in self._full.look(records, first) if self._full else ():
            row, key = first + fault.row, keys[fault.row]
            yield self._finding(shard, "sample", f"{self._where(reader, row, key)}: {fault.what}", row, key)
        for name, check in checks.items():
            values = records.column(name)
            for place in range(records.num_rows):
                if self._cancelled.is_set():
                    return
                what = check(values[place])
                if what is not None:
                    text = f"{self._where(reader, first + place, keys[place])}, column {name}: {what}"
                    yield self._finding(shard, "sample", text, first + place, keys[place], kind="sample")

    def _where(self, reader: ShardReader, row: int, key: str) -> str:
        return f"shard {reader.path}, row {row}, key {key!r}"

    def _file_hash(self, shard: int) -> list[Finding]:
        info = self.dataset.index.shard(shard)
        digest = hashlib.sha256()
        try:
            for piece in pieces(self._store, info.path, _READ_BYTES):
                if self._cancelled.is_set():
                    break
                digest.update(piece)
        except (NotFoundError, StorageError) as error:
            return [self._finding(shard, "file", str(error), kind="storage")]
        if digest.digest() == info.sha256:
            return []
        text = f"shard {info.path}: its sha256 isn't the one that it was packed with"
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
            shard=self.dataset.index.shard(shard).path,
            place=place,
            row=row,
            key=key,
        )


def _value_check(held: Held, max_pixels: int) -> Callable[[pa.StructScalar], str | None]:
    """Return what says why a medium's value can't be decoded, for one thread; a missing one can."""
    form = held.form
    check = held.medium.decode_check(max_pixels)

    def of_file(value: pa.StructScalar) -> str | None:
        return check(value[form.payload].as_py()) if value.is_valid and value[form.payload].is_valid else None

    def of_array(value: pa.StructScalar) -> str | None:
        if not value.is_valid or not all(value[name].is_valid for name in value):
            return None
        nbytes = value[form.payload].as_buffer().size
        return held.medium.sizes_fault(nbytes, [value[name].as_py() for name in form.sizes])

    return of_array if form.is_decoded else of_file
