"""A task: a fixed slice of the source that becomes one shard. Reads its files, writes its shard, shares nothing."""

from __future__ import annotations

import io
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from toolkit._native.image import UNSUPPORTED, ImageError, probe
from toolkit.format.schema import KEY
from toolkit.format.shard import ShardRecord, ShardWriter
from toolkit.sources.imagefolder import Entry
from toolkit.sources.reject import Reject
from toolkit.sources.scan import printable
from toolkit.storage.local import storage_errors

__all__ = ["Cancelled", "Task", "TaskResult", "cut_tasks", "run_task", "shard_name"]

# What a row takes beside its file: key, path, digest, offsets, validity, label, padding; generous.
_ROW_OVERHEAD_BYTES = 96
_JPEG_MAGIC = b"\xff\xd8\xff"
_LARGEST_VALUE = (1 << 31) - 1


class Cancelled(Exception):  # noqa: N818 - not an error: another task failed, or the user said stop
    """The pack is stopping; this task's shard was removed."""


@dataclass(frozen=True, slots=True)
class Task:
    """A slice of a split, in order. `number` is its place in the split."""

    split: str
    number: int
    entries: Sequence[Entry]


@dataclass(frozen=True, slots=True)
class TaskResult:
    """A task's shard (None when every sample was rejected), its rejects, and how often each label occurs."""

    task: Task
    temporary: str
    record: ShardRecord | None
    rejects: list[Reject]
    labels: Counter[int | None]


def cut_tasks(splits: dict[str, list[Entry]], shard_bytes: int) -> Iterator[Task]:
    """Cut each split where the files' sizes fill a shard: from the source alone, so jobs can't change the result."""
    for split, entries in splits.items():
        start = total = number = 0
        for i, entry in enumerate(entries):
            size = entry.bytes + 2 * len(entry.key) + _ROW_OVERHEAD_BYTES
            if i > start and total + size > shard_bytes:
                yield Task(split, number, entries[start:i])
                start, total, number = i, 0, number + 1
            total += size
        yield Task(split, number, entries[start:])


def run_task(
    task: Task,
    schema: pa.Schema,
    temporary: str,
    cancelled: threading.Event,
    on_sample: Callable[[int], None],
) -> TaskResult:
    """Write the task's shard to `temporary`, fsynced.

    Raises:
        StorageError: The shard can't be written, or the source's disk fails.
        Cancelled: `cancelled` was set.
    """
    labels: Counter[int | None] = Counter()
    rejects: list[Reject] = []
    writer = ShardWriter(temporary, schema)
    has_labels = "label" in schema.names
    try:
        for entry in task.entries:
            if cancelled.is_set():
                raise Cancelled
            try:
                data = _read(entry)
                _check_header(data)
            except _Unusable as fault:
                rejects.append(Reject(source=printable(entry.path), key=entry.key, reason=str(fault)))
            else:
                sample: dict[str, object] = {
                    KEY: entry.key,
                    "image": {"bytes": data, "path": entry.key.rpartition("/")[2]},
                }
                if has_labels:
                    sample["label"] = entry.label
                    labels[entry.label] += 1
                writer.add(sample)
            on_sample(entry.bytes)
        if writer.rows:
            return TaskResult(task, temporary, writer.close(), rejects, labels)
    except BaseException:
        writer.abort()
        raise
    writer.abort()
    return TaskResult(task, temporary, None, rejects, labels)


class _Unusable(Exception):  # noqa: N818 - it becomes a Reject
    """Why a file is no sample."""


def _read(entry: Entry) -> bytes:
    try:
        with open(entry.path, "rb", buffering=0) as file:
            data = file.read()
    except FileNotFoundError as error:
        raise _Unusable("vanished during the pack") from error
    except PermissionError as error:
        raise _Unusable("permission denied") from error
    except OSError:
        with storage_errors("read", entry.path):
            raise
    if len(data) > _LARGEST_VALUE:
        raise _Unusable(f"{len(data)} bytes are more than an image column holds (2 GiB)")
    return data


def _check_header(data: bytes) -> None:
    """Raise _Unusable when `data` doesn't begin as an image does. Reads the header only."""
    if not data:
        raise _Unusable("empty file")
    if data.startswith(_JPEG_MAGIC):
        try:
            probe(data)
            return
        except ImageError as error:
            if error.status != UNSUPPORTED:  # CMYK and the like: PIL decodes them
                raise _Unusable(f"no readable JPEG header: {error}") from error
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data)):
            pass
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
        raise _Unusable("not an image: no header that is known") from error


def shard_name(task: Task, record: ShardRecord) -> str:
    """Return the name of the task's shard; the ordinal is for people, the hash makes it unique."""
    return f"{task.split}-{task.number:06d}-{record.sha256.hex()[:16]}.arrow"
