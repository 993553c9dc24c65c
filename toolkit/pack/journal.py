"""What a pack has finished so far, on disk: a killed pack goes on where it was, with the same result.

DATASET/.journal/job.json says what is packed and how; <split>-<slice>.json says what a slice came to, and lies there
only when its shards do; <split>-<slice>.keys has a 128-bit hash of each key, as the source gave it. A pack of two
passes has a journal of the first one in .journal/stage, beside the shards that that one wrote. `refused` says
that the input can't be packed with these options. The folder goes after the commit.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import shlex
import shutil

import msgspec

from toolkit.errors import ExistsError
from toolkit.format.key_hashes import HASH_BYTES
from toolkit.format.names import DROPPED_JOURNAL
from toolkit.format.pin import JOURNAL, SHARDS
from toolkit.format.shard import ShardRecord
from toolkit.sources.reject import Reject
from toolkit.storage.local import fsync_directory, read_file, storage_errors, write_durable

__all__ = ["STAGE", "Journal", "SliceResult"]

STAGE = f"{JOURNAL}/stage"
_JOB = "job.json"
_REFUSED = "refused"


class SliceResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a slice came to: its shards in order, how often each label occurs, and what was rejected.

    `fingerprint` is of the slice as it was listed: files, sizes, times, and the schema; `renames` is a hash of the keys
    that were changed, "" for none, and `renamed` how many they are.
    """

    split: str
    number: int
    source: str
    fingerprint: str
    rows: int
    records: tuple[ShardRecord, ...]
    labels: dict[str, tuple[tuple[int | None, int], ...]]
    rejects: tuple[Reject, ...]
    renames: str = ""
    renamed: int = 0


_RESULT = msgspec.json.Decoder(SliceResult)  # made within the import: see toolkit.format.manifest


class Journal:
    """The journal of one pack, or of its first pass. Entries are written from several threads; the rest is for one."""

    def __init__(self, root: str, *, stage: bool = False) -> None:
        """`stage`: of a first pass, whose shards are in the stage until they are moved to where they belong."""
        self._root = root
        self._folder = os.path.join(root, STAGE if stage else JOURNAL)
        self._places = (STAGE, SHARDS) if stage else (SHARDS,)

    @property
    def folder(self) -> str:
        """Where the journal lies; what else is put there goes with it."""
        return self._folder

    def begin(self, job: dict[str, object]) -> dict[tuple[str, int], SliceResult]:
        """Start, or go on where a killed pack of the same job stopped; return the slices that are finished.

        Raises:
            ExistsError: The journal is of another job; the message says what differs.
        """
        path = os.path.join(self._folder, _JOB)
        before = self.job()
        if before is not None and self.is_refused():
            if self.is_of(job):
                os.unlink(os.path.join(self._folder, _REFUSED))  # perhaps its input was mended
            else:
                self.discard()
                before = None
        if before is None:
            with storage_errors("create", self._folder):
                shutil.rmtree(self._folder, ignore_errors=True)
                os.mkdir(self._folder)
            write_durable(path, msgspec.json.encode(job, order="sorted"))
            fsync_directory(self._root)
            return {}
        now = msgspec.json.decode(msgspec.json.encode(job))
        differing = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
        if differing:
            lines = "".join(
                f"\n  {name}: then {_text(before.get(name))}, now {_text(now.get(name))}" for name in differing
            )
            raise ExistsError(
                f"{self._root!r} holds an unfinished pack of another kind:{lines}\n"
                "Go on with it with the same options and versions, or give it up: "
                f"toolkit pack --abort {shlex.quote(self._root)}"
            )
        return self.finished()

    def job(self) -> dict[str, object] | None:
        """Return what is packed and how; None without a journal, or when it can't be read: then it is worth nothing."""
        path = os.path.join(self._folder, _JOB)
        if not os.path.exists(path):
            return None
        with storage_errors("read", path):
            data = read_file(path)
        try:
            return msgspec.json.decode(data, type=dict[str, object])
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None

    def finished(self) -> dict[tuple[str, int], SliceResult]:
        """Return the slices that are finished, by split and number."""
        return {(entry.split, entry.number): entry for entry in self._entries()}

    def is_of(self, job: dict[str, object]) -> bool:
        """Tell whether an unfinished pack of this very job is there."""
        path = os.path.join(self._folder, _JOB)
        if not os.path.exists(path):
            return False
        with storage_errors("read", path):
            return read_file(path) == msgspec.json.encode(job, order="sorted")

    def is_there(self) -> bool:
        """Tell whether there is a journal, of a pack to go on with or of one whose commit is done."""
        return os.path.exists(os.path.join(self._folder, _JOB))

    def refuse_input(self) -> None:
        """Note that its input can't be packed with its options: a pack with others may begin anew without asking."""
        write_durable(os.path.join(self._folder, _REFUSED), b"")

    def is_refused(self) -> bool:
        """Tell whether the input can't be packed with the options of this journal."""
        return os.path.exists(os.path.join(self._folder, _REFUSED))

    def discard(self) -> None:
        """Forget everything: shards of unfinished packs stay until they are collected."""
        rubbish = os.path.join(self._root, DROPPED_JOURNAL)
        with storage_errors("remove", self._folder):
            if os.path.isdir(self._folder):
                # At once: a kill or a power cut leaves a whole journal or none.
                os.rename(self._folder, rubbish)
                fsync_directory(self._root)
                shutil.rmtree(rubbish)

    def discard_if_empty(self) -> None:
        """Forget a pack that finished no slice: there is nothing to go on with."""
        names = (name for _, _, names in os.walk(self._folder) for name in names)
        if os.path.isdir(self._folder) and not any(name.endswith(".keys") for name in names):
            self.discard()

    def record(self, result: SliceResult, key_hashes: bytes | mmap.mmap) -> None:
        """Note that a slice is finished. Its shards are published already."""
        write_durable(self.keys_path(result.split, result.number), key_hashes)
        write_durable(self._path_of(result.split, result.number, "json"), msgspec.json.encode(result))

    def keys_path(self, split: str, number: int) -> str:
        """Return the path of a slice's key hashes: HASH_BYTES for each row."""
        return self._path_of(split, number, "keys")

    def shard_path(self, record: ShardRecord) -> str | None:
        """Return where a shard of an entry lies now; None when it is gone or has another size."""
        if os.path.dirname(record.path) != self._places[0]:
            return None
        for place in self._places:
            path = os.path.join(self._root, place, os.path.basename(record.path))
            if not os.path.islink(path) and os.path.isfile(path) and os.path.getsize(path) == record.file_bytes:
                return path
        return None

    def _entries(self) -> list[SliceResult]:
        entries = []
        for name in sorted(os.listdir(self._folder)) if os.path.isdir(self._folder) else ():
            if name.endswith(".json") and name != _JOB and not name.startswith("."):
                path = os.path.join(self._folder, name)
                with storage_errors("read", path):
                    data = read_file(path)
                # One that can't be read, or whose files aren't there, is a slice to pack again.
                with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
                    entry = _RESULT.decode(data)
                    if self._has_keys(entry) and all(self.shard_path(record) for record in entry.records):
                        entries.append(entry)
        return entries

    def _has_keys(self, entry: SliceResult) -> bool:
        path = self.keys_path(entry.split, entry.number)
        return os.path.isfile(path) and os.path.getsize(path) == entry.rows * HASH_BYTES

    def _path_of(self, split: str, number: int, suffix: str) -> str:
        return os.path.join(self._folder, f"{split}-{number:06d}.{suffix}")


def _text(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    # The end of a long path often is what differs: cut the middle out.
    return text if len(text) <= 200 else f"{text[:60]}…{text[-120:]}"
