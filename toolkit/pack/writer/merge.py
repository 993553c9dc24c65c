"""Merge the parts of parallel writers into one version, in the order of their numbers: shards are moved, not copied."""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import msgspec

from toolkit.errors import SourceError, StorageError
from toolkit.format.commit import Transaction, locked
from toolkit.format.names import DROPPED_PARTS, PARTS
from toolkit.format.pin import SHARDS
from toolkit.format.tables import encode_schema_table, sha256
from toolkit.options.option import options_of, take
from toolkit.pack.append import Base
from toolkit.pack.job import OnExisting, PackJob, PackResult
from toolkit.pack.journal import Journal, SliceResult
from toolkit.pack.make import make_job, paths_of
from toolkit.pack.note import CommitNote
from toolkit.pack.prepare import Prepared, base_of, prepare, with_label_tables
from toolkit.pack.run import finish, known
from toolkit.pack.slices import fingerprint
from toolkit.pack.writer.checkpoints import Records, read_whole
from toolkit.pack.writer.parts import Part, PartFacts, check_part, part_folder, read_facts
from toolkit.pack.writer.staged import DeclaredRecords, StagedRows
from toolkit.sources.base import Slice
from toolkit.storage.local import LocalStore
from toolkit.storage.mapped import mapped

__all__ = ["merge_parts"]


def merge_parts(
    dataset: str | os.PathLike[str],
    *,
    parts: int,
    max_rejects: int | str = 0,
    on_existing: Literal["refuse", "overwrite", "append"] = "refuse",
    extend_classes: bool = False,
    user_metadata: Mapping[str, str] | None = None,
) -> PackResult:
    """Make one version of the parts that toolkit.writer(part=…, parts=…) wrote; return what was packed.

    Shards come in the order of the parts' numbers, whatever order they were written in. A kill at any instant leaves
    the dataset as it was, or the new version; the same call again goes on where it was.

    Args:
        dataset: The dataset's folder.
        parts: How many parts there are.
        max_rejects: Rejected records to tolerate in all parts together: a number, or a share of all as in "1%".
        on_existing: When `dataset` is there already.
        extend_classes: An append may bring new classes; their ids come behind the old ones.
        user_metadata: Text to keep in the manifest; part of what is pinned.

    Raises:
        SourceError: A part is missing or unfinished, parts differ, or a key occurs twice.
        ExistsError: The dataset is there already; a part is being written.
        RejectsError: More records were rejected than `max_rejects`; nothing was committed.
        StorageError: The disk is full or fails; nothing was committed.
    """
    check_part(0, parts)
    given = {
        "max_rejects": max_rejects,
        "on_existing": on_existing,
        "extend_classes": extend_classes,
        "user_metadata": user_metadata,
    }
    job = make_job(paths_of("<parts>", dataset), take(options_of(PackJob), given))
    return _Merge(job, parts).run()


class _Merge:
    """A merge. Holds the dataset, and every part."""

    def __init__(self, job: PackJob, parts: int) -> None:
        self._job = job
        self._parts = parts
        self._store = LocalStore(job.dataset)
        self._journal, self._note = Journal(self._store), CommitNote(self._store)
        self._started = time.monotonic()

    def run(self) -> PackResult:
        """Merge. Raises as merge_parts()."""
        if self._note.current() is not None and self._store.info(PARTS) is None:
            return self._was_committed()
        facts = read_facts(self._job.dataset, self._parts)
        with contextlib.ExitStack() as held:
            transaction = held.enter_context(Transaction(self._store, replace=True))
            for number in range(self._parts):
                held.enter_context(locked(self._part(number)))
            prepared = self._prepared(facts[0])
            records, slices = self._slices(len(facts))
            rows = StagedRows(prepared.survey, records, facts[0].classes, self._journal)
            prepared = replace(prepared, rows=rows, columns=with_label_tables(rows.survey))
            committed = self._note.of(self._job, prepared)
            if committed is None:
                if self._note.current() is not None:  # of another pack: nothing of it is unfinished
                    self._forget()
                if self._job.on_existing is OnExisting.REFUSE:
                    transaction.refuse_existing()
                self._move(prepared, transaction, slices)
                result = finish(
                    self._job,
                    prepared,
                    transaction,
                    self._journal,
                    self._note,
                    lambda *_: None,
                    self._started,
                    resumed=0,
                )
            else:
                result = known(self._job, prepared.survey, committed, self._note.rejects(committed), self._started)
        self._end()
        return result

    def _was_committed(self) -> PackResult:
        """Return what a merge came to that was stopped when its parts were on their way out."""
        committed = self._note.current()
        if committed is None or self._store.info(DROPPED_PARTS) is None:
            read_facts(self._job.dataset, self._parts)
            raise SourceError(f"{self._job.dataset!r} has no parts to merge")
        survey = DeclaredRecords([], {}, open_classes=False).survey()
        result = known(self._job, survey, committed, self._note.rejects(committed), self._started)
        self._end()
        return result

    def _end(self) -> None:
        """Take the parts away, and then what tells that they were merged."""
        # A failure is for the next pack or gc, which know what is left for what it is.
        with contextlib.suppress(StorageError), locked(self._store):
            if self._store.info(PARTS) is not None:
                self._store.move(PARTS, DROPPED_PARTS)
                self._store.sync()
            self._forget()
            self._store.delete_folder(DROPPED_PARTS)

    def _forget(self) -> None:
        self._journal.discard()
        self._note.remove()

    def _part(self, number: int) -> LocalStore:
        return LocalStore(os.path.join(self._job.dataset, part_folder(Part(number, self._parts))))

    def _prepared(self, facts: PartFacts) -> Prepared:
        given = {"image_encoding": facts.image_encoding, "short_side": facts.short_side, "shard_size": facts.shard_size}
        shaped = make_job(["<parts>", self._job.dataset], take(options_of(PackJob), given))
        self._job = replace(
            self._job,
            image_encoding=shaped.image_encoding,
            short_side=shaped.short_side,
            shard_size=shaped.shard_size,
        )
        base = base_of(self._job, self._journal, self._note.current())
        if base is not None:
            _check_ids(base, facts)
        source = DeclaredRecords(facts.columns, facts.classes, open_classes=False)
        return prepare(self._job, self._journal, self._note.current(), source)

    def _slices(self, parts: int) -> tuple[Records, list[tuple[Slice, int, int]]]:
        """Return all slices, numbered anew, and of each its part and its number there."""
        merged, found = Records(), []
        numbers: Counter[str] = Counter()
        for part in range(parts):
            try:
                checkpoints = list(read_whole(Journal(self._part(part))))
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise _damaged(part) from error
            for checkpoint in checkpoints:
                for split, number in checkpoint.slices.items():
                    span = f"part {part}, records {checkpoint.first} to {checkpoint.stop - 1}"
                    payload = ("part", part, checkpoint.first, checkpoint.stop)
                    one = Slice(split, numbers[split], None, 0, payload, span)
                    numbers[split] += 1
                    merged.slices.append(one)
                    found.append((one, part, number))
                merged.missing += checkpoint.missing
        return merged, found

    def _move(self, prepared: Prepared, transaction: Transaction, slices: list[tuple[Slice, int, int]]) -> None:
        """Move every shard to the dataset, and write the journal as if its slice had been packed there."""
        schema_hash = sha256(encode_schema_table(prepared.schema))
        if self._job.on_existing is OnExisting.OVERWRITE and not self._journal.is_of(prepared.asked):
            self._journal.discard()
        finished = self._journal.begin(prepared.asked)
        for one, part, number in slices:
            of_part = Journal(self._part(part)).entry(one.split, number)
            if of_part is None:
                raise _damaged(part)
            print_of = fingerprint(one, schema_hash)
            known_entry = finished.get((one.split, one.number))
            if (
                known_entry is not None
                and known_entry.fingerprint == print_of
                and known_entry.records == of_part.records
            ):
                continue
            for record in of_part.records:
                self._move_shard(part, record.path, record.file_bytes)
            transaction.sync_shards()
            result: SliceResult = msgspec.structs.replace(
                of_part, number=one.number, source=one.source, fingerprint=print_of
            )
            self._journal.record(result, mapped(Journal(self._part(part)).keys_path(one.split, number)))

    def _move_shard(self, part: int, path: str, nbytes: int) -> None:
        """Move a shard, unless a merge that was stopped has done that."""
        name = f"{part_folder(Part(part, self._parts))}/{path}"
        info = self._store.info(name)
        if info is not None and info.bytes == nbytes and not info.is_link:
            self._store.move(name, path)
            return
        moved = self._store.info(path)
        if moved is None or moved.bytes != nbytes or moved.is_link:
            raise SourceError(
                f'part {part} has lost {path.removeprefix(f"{SHARDS}/")!r}: write it anew, with on_existing="overwrite"'
            )


def _damaged(part: int) -> SourceError:
    return SourceError(f'part {part} is damaged: write it anew, with on_existing="overwrite"')


def _check_ids(base: Base, facts: PartFacts) -> None:
    """Raise SourceError unless the ids of the parts are those of the dataset, or come behind them."""
    for column, names in facts.classes.items():
        there = base.classes.get(column, ())
        if tuple(names[: len(there)]) != tuple(there):
            raise SourceError(
                f"the parts were written with other class names of {column!r} than the dataset has: their ids mean "
                "other classes. Write them with the dataset's names in front, and new ones behind"
            )
