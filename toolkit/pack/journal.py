"""What a pack has finished so far, on disk: a killed pack goes on where it was, with the same result.

DATASET/.journal/job.json says what is packed and how; <split>-<slice>.json says what a slice came to, and lies there
only when its shards do; <split>-<slice>.keys has a 128-bit hash of each key, as the source gave it. A pack of two
passes has a journal of the first one in .journal/stage, beside the shards that that one wrote. `refused` says
that the input can't be packed with these options. The folder goes after the commit.
"""

from __future__ import annotations

import contextlib
import mmap
import shlex
from collections.abc import Mapping

import msgspec

from toolkit.errors import ExistsError, NotFoundError, StorageError
from toolkit.format.key_hashes import HASH_BYTES
from toolkit.format.names import DROPPED_JOURNAL
from toolkit.format.pin import JOURNAL, SHARDS
from toolkit.format.shard import ShardRecord
from toolkit.sources.reject import Reject
from toolkit.storage.store import WritableStore, local_path_of

__all__ = ["STAGE", "Journal", "SliceResult"]

STAGE = f"{JOURNAL}/stage"
_JOB = "job.json"
_REFUSED = "refused"
_GIVEN = "_given"  # behind the name of an option: whether it is given


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
    """The journal of one pack, or of its first pass. Entries are written from several threads; the rest is for one.

    Attributes:
        store: The dataset's.
    """

    def __init__(self, store: WritableStore, *, stage: bool = False) -> None:
        """`stage`: of a first pass, whose shards are in the stage until they are moved to where they belong."""
        self.store = store
        self._folder = STAGE if stage else JOURNAL
        self._places = (STAGE, SHARDS) if stage else (SHARDS,)

    @property
    def folder(self) -> str | None:
        """Path of the local folder that the journal lies in; what else is put there goes with it. None: in memory."""
        return None if self.store.local_path("") is None else local_path_of(self.store, self._folder)

    def begin(self, job: dict[str, object]) -> dict[tuple[str, int], SliceResult]:
        """Start, or go on where a killed pack of the same job stopped; return the slices that are finished.

        Raises:
            ExistsError: The journal is of another job; the message says what differs.
        """
        before = self.job()
        if before is not None and self.is_refused():
            if self.is_of(job):
                self.store.delete([f"{self._folder}/{_REFUSED}"])  # perhaps its input was mended
            else:
                self.discard()
                before = None
        if before is None:
            self.store.delete_folder(self._folder)
            self.store.make_folder(self._folder)
            self.store.write(f"{self._folder}/{_JOB}", msgspec.json.encode(job, order="sorted"))
            self.store.sync()
            return {}
        now = msgspec.json.decode(msgspec.json.encode(job))
        differing = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
        if differing:
            lines = "".join(
                f"\n  {name.removesuffix(_GIVEN)}: then {_text(name, before)}, now {_text(name, now)}"
                for name in differing
            )
            raise ExistsError(
                f"{self.store.location!r} holds an unfinished pack of another kind:{lines}\n"
                "Go on with it with the same options and versions, or give it up: "
                f"toolkit pack --abort {shlex.quote(self.store.location)}"
            )
        return self.finished()

    def job(self) -> dict[str, object] | None:
        """Return what is packed and how; None without a journal, or when it can't be read: then it is worth nothing."""
        data = self._job_file()
        if data is None:
            return None
        try:
            return msgspec.json.decode(data, type=dict[str, object])
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None

    def finished(self) -> dict[tuple[str, int], SliceResult]:
        """Return the slices that are finished, by split and number."""
        return {(entry.split, entry.number): entry for entry in self._entries()}

    def entry(self, split: str, number: int) -> SliceResult | None:
        """Return a slice's entry, wherever its shards are now; None when there is none that can be read."""
        with contextlib.suppress(NotFoundError, msgspec.MsgspecError, UnicodeDecodeError):
            entry = _RESULT.decode(self.store.read(self._name_of(split, number, "json")))
            return entry if self._has_keys(entry) else None
        return None

    def is_of(self, job: dict[str, object]) -> bool:
        """Tell whether an unfinished pack of this very job is there."""
        return self._job_file() == msgspec.json.encode(job, order="sorted")

    def is_there(self) -> bool:
        """Tell whether there is a journal, of a pack to go on with or of one whose commit is done."""
        return self.store.info(f"{self._folder}/{_JOB}") is not None

    def refuse_input(self) -> None:
        """Note that its input can't be packed with its options: a pack with others may begin anew without asking."""
        self.store.write(f"{self._folder}/{_REFUSED}", b"")

    def is_refused(self) -> bool:
        """Tell whether the input can't be packed with the options of this journal."""
        return self.store.info(f"{self._folder}/{_REFUSED}") is not None

    def discard(self) -> None:
        """Forget everything: shards of unfinished packs stay until they are collected."""
        self.store.delete_folder(self._folder, by_way_of=DROPPED_JOURNAL)

    def discard_if_empty(self) -> None:
        """Forget a pack that finished no slice: there is nothing to go on with."""
        here = self.store.entries(self._folder)
        below = [self.store.entries(f"{self._folder}/{one.name}") for one in here if one.is_folder]
        if not any(one.name.endswith(".keys") for entries in (here, *below) for one in entries):
            self.discard()

    def record(self, result: SliceResult, key_hashes: bytes | mmap.mmap) -> None:
        """Note that a slice is finished. Its shards are published already."""
        self.store.write(self._name_of(result.split, result.number, "keys"), memoryview(key_hashes))
        self.store.write(self._name_of(result.split, result.number, "json"), msgspec.json.encode(result))

    def keys_path(self, split: str, number: int) -> str:
        """Return the path of a slice's key hashes: HASH_BYTES for each row."""
        return local_path_of(self.store, self._name_of(split, number, "keys"))

    def shard_name(self, record: ShardRecord) -> str:
        """Return the name that a shard of an entry has now. Raises StorageError: it is gone."""
        name = self._find(record)
        if name is None:
            raise StorageError(f"{record.path!r} is gone, which this pack wrote: run it again")
        return name

    def shard_path(self, record: ShardRecord) -> str:
        """Return the path of a shard of an entry. Raises StorageError: it is gone."""
        return local_path_of(self.store, self.shard_name(record))

    def _job_file(self) -> bytes | None:
        try:
            return self.store.read(f"{self._folder}/{_JOB}")
        except NotFoundError:
            return None

    def _entries(self) -> list[SliceResult]:
        entries = []
        for name in [one.name for one in self.store.entries(self._folder)]:
            if name.endswith(".json") and name != _JOB and not name.startswith("."):
                data = self.store.read(f"{self._folder}/{name}")
                # One that can't be read, or whose files aren't there, is a slice to pack again.
                with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
                    entry = _RESULT.decode(data)
                    if self._has_keys(entry) and all(self._find(record) for record in entry.records):
                        entries.append(entry)
        return entries

    def _find(self, record: ShardRecord) -> str | None:
        """Return the name that a shard has now; None when it is gone or has another size."""
        folder, _, last = record.path.rpartition("/")
        if folder != self._places[0]:
            return None
        for place in self._places:
            info = self.store.info(f"{place}/{last}")
            if info is not None and not info.is_link and info.bytes == record.file_bytes:
                return f"{place}/{last}"
        return None

    def _has_keys(self, entry: SliceResult) -> bool:
        info = self.store.info(self._name_of(entry.split, entry.number, "keys"))
        return info is not None and info.bytes == entry.rows * HASH_BYTES

    def _name_of(self, split: str, number: int, suffix: str) -> str:
        return f"{self._folder}/{split}-{number:06d}.{suffix}"


def _text(name: str, job: Mapping[str, object]) -> str:
    """Return what a job has under a name, for a message."""
    if name.endswith(_GIVEN):
        return "given" if job.get(name) else "not given"
    text = msgspec.json.encode(job.get(name)).decode()
    # The end of a long path often is what differs: cut the middle out.
    return text if len(text) <= 200 else f"{text[:60]}…{text[-120:]}"
