"""Write a dataset record by record: toolkit.writer()."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Literal, Self

from toolkit.errors import UsageError
from toolkit.options.option import options_of, take
from toolkit.options.value_type import expected
from toolkit.pack.job import PackJob, PackResult
from toolkit.pack.make import make_job, paths_of
from toolkit.pack.passes import Progress
from toolkit.pack.writer.collect import Collector
from toolkit.pack.writer.declared import Declaration, Declared, check_names, declare, declare_by
from toolkit.pack.writer.parts import Part, check_part, part_folder
from toolkit.pack.writer.session import Session
from toolkit.sources.class_option import ClassNames
from toolkit.sources.classes import check_class_names
from toolkit.sources.splits import DEFAULT_SPLIT, check_name
from toolkit.storage.store import WritableStore

__all__ = ["Classes", "Writer", "writer"]

Classes = str | os.PathLike[str] | Sequence[str] | Mapping[str, Sequence[str]]
"""Names of classes in id order: a list, or a file with one a line; for several label columns, a list for each."""

_ALL = "*"  # in names of classes: of whichever label column there is


class Writer:
    """Takes records one by one, and commits all of them as one version at the end of its block. For one thread.

    Attributes:
        result: What was packed, once the block has ended well.
    """

    def __init__(
        self,
        job: PackJob,
        columns: Mapping[str, Declaration] | None,
        classes: Mapping[str, Sequence[str]],
        progress: Progress = lambda *_: None,
        part: Part | None = None,
        store: WritableStore | None = None,
    ) -> None:
        """Use toolkit.writer()."""
        self.result: PackResult | None = None
        self._job = job
        self._columns = None if columns is None else dict(columns)
        self._classes = classes
        self._progress = progress
        self._part = part
        self._store = store
        self._session: Session | None = None
        self._collector: Collector | None = None
        self._failure: BaseException | None = None
        self._process = os.getpid()
        self._thread = threading.get_ident()
        self._is_ended = False

    def __enter__(self) -> Self:
        if self._session is not None or self._is_ended:
            raise UsageError("a writer has one `with` block: make another one")
        self._process, self._thread = os.getpid(), threading.get_ident()
        self._session = session = Session(self._job, self._given_classes, self._progress, self._part, self._store)
        try:
            if not session.is_whole:
                declared = self._declared(session.declared)
                if declared is not None:
                    self._collector = session.begin(declared)
        except BaseException:
            self._end(failed=True)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if os.getpid() != self._process:  # of a child that was forked inside the block: the parent's pack goes on
            return
        try:
            if error is None:
                if self._failure is not None:  # the block caught it, and the record isn't packed
                    raise self._failure
                assert self._session is not None
                if self._part is None:
                    self.result = self._session.finish()
                else:
                    self._session.complete()
        except BaseException:
            self._end(failed=True)
            raise
        done = self._end(failed=error is not None, kept=isinstance(error, Exception))
        if error is not None and done:
            error.add_note(
                f'toolkit: {done} records are safe in {self._job.dataset!r}: on_existing="resume" goes on there'
            )

    @property
    def done(self) -> int:
        """How many records are safe: an unfinished pack that this one goes on with had so many, the first ones given.

        Give those behind them: toolkit.pack() does so by itself.
        """
        return 0 if self._session is None else self._session.done

    def add(
        self,
        record: Mapping[str, Any] | None = None,
        /,
        *,
        key: str | int | None = None,
        split: str | None = None,
        **values: Any,
    ) -> None:
        """Add a record; what is given may be changed afterwards.

        An error ends the writer, also if it is caught: the end of the block raises it again, and commits nothing.

        Args:
            record: Column -> value. Another way to give them, for columns called key or split.
            key: The sample's key, unique in the dataset; the number of the record if not given.
            split: The split it belongs to, if it isn't the writer's.
            values: Column -> value.

        Raises:
            RejectsError: A value can't be packed, in this record or in one of the last ones, and no more rejects are
                allowed: the message names record, key and column.
            UsageError: There is no such split name, or the writer is not open, or another thread's.
            StorageError: The disk is full or fails.
        """
        if record is not None:
            if values:
                raise UsageError("give a record as a mapping, or its values by name, and not both")
            values = dict(record)
        if threading.get_ident() != self._thread or os.getpid() != self._process:
            self._refuse_others()
        if split is not None and type(split) is not str:
            raise UsageError(f"split: {expected('a name as text', split).message}")
        if self._failure is not None:
            raise UsageError(
                "this writer failed, and takes no more records: let the first error end the block, which commits "
                "nothing; max_rejects= leaves records out"
            ) from self._failure
        try:
            if self._collector is None:
                self._collector = self._begun(values)
            self._collector.add(values, key, split)
        except BaseException as error:
            if self._session is not None and not self._session.is_whole:
                self._failure = error
            raise

    def _refuse_others(self) -> None:
        if os.getpid() != self._process:
            raise UsageError(
                "this writer was opened in another process, which goes on with it: give each process a writer of its "
                "own with part= and parts=, and merge them by toolkit.merge_parts()"
            )
        raise UsageError("this writer was opened by another thread: add records from that one, or give each a part=")

    def _begun(self, values: Mapping[str, Any]) -> Collector:
        """Begin with what the first record shows."""
        if self._session is None:
            raise UsageError("the writer is not open: add records inside its block, `with toolkit.writer(...) as w:`")
        if self._session.is_whole:
            raise UsageError("all records were packed already: there is nothing to add")
        given = self._columns
        if not values:
            raise UsageError("the first record has no columns")
        check_names(values)
        names = values if given is None else given
        declared = [
            declare(name, given[name]) or declare_by(name, values.get(name), given[name])
            if given is not None
            else declare_by(name, values[name])
            for name in names
        ]
        return self._session.begin(declared)

    def _declared(self, before: Mapping[str, str]) -> list[Declared] | None:
        """Return the columns, with what an unfinished pack says of those that are open; None while any is open."""
        given: Mapping[str, Declaration] | None = self._columns
        if given is None:
            given = before or None
        if given is None:
            return None
        declared = [
            declare(name, one) or (declare(name, before[name]) if name in before else None)
            for name, one in given.items()
        ]
        return None if None in declared else [one for one in declared if one is not None]

    @property
    def _given_classes(self) -> Mapping[str, Sequence[str]]:
        if _ALL not in self._classes:
            return self._classes
        labels = [name for name, one in (self._columns or {}).items() if str(getattr(one, "value", one)) == "label"]
        if len(labels) != 1:
            raise UsageError(
                f"classes: there are {len(labels)} label columns: give the names of each, as in "
                '{"label": ["cat", "dog"]}'
            )
        return {labels[0]: self._classes[_ALL]}

    def _end(self, *, failed: bool, kept: bool = False) -> int:
        """End; return how many records are safe."""
        self._is_ended = True
        session, self._session, self._collector = self._session, None, None
        if session is None:
            return 0
        session.close(failed=failed, kept=kept)
        return session.done


def writer(
    dataset: str | os.PathLike[str],
    *,
    columns: Mapping[str, Declaration] | None = None,
    classes: Classes | None = None,
    split: str = DEFAULT_SPLIT,
    missing: Literal["null", "skip", "error"] = "error",
    max_value_bytes: int | str = "256MiB",
    verify_images: Literal["header", "decode", "off"] = "header",
    shard_size: int | str = "256MiB",
    image_encoding: str = "keep",
    short_side: int | None = None,
    max_pixels: int | None = None,
    shuffle_seed: int | None = None,
    key_conflict: Literal["error", "suffix"] = "error",
    max_rejects: int | str = 0,
    on_existing: Literal["refuse", "resume", "overwrite", "append"] = "refuse",
    extend_classes: bool = False,
    user_metadata: Mapping[str, str] | None = None,
    jobs: int | str = "auto",
    part: int | None = None,
    parts: int | None = None,
    progress: Progress | None = None,
) -> Writer:
    """Return a writer, to be used as `with toolkit.writer(...) as w: w.add(...)`; the end of the block commits.

    A kill at any instant, and an exception inside the block, leave the dataset as it was. What full shards had is kept:
    with on_existing="resume" the same records are gone on with behind `w.done` of them.

    Args:
        dataset: Folder to make.
        columns: Column -> what it holds: image, label, text, json, bytes, tensor, scalar, or an Arrow type, also as
            text: "int64", "float32", "list<int64>". What isn't said is found from the first record.
        classes: Names of classes in id order. Without them, a name gets the next id when it first occurs.
        split: The split of records that name none.
        missing: A record that lacks a column: pack a null, skip it, or reject it.
        max_value_bytes: Reject a record with a larger value: bytes, or with a unit.
        verify_images: Reject images without a readable header, or those that can't be decoded; off looks at nothing.
        shard_size: Fill shards up to this: bytes, or with a unit as in 100MB, 256MiB.
        image_encoding: Keep files as they are, or store images as JPEG of a quality ("jpeg:90"), or as pixels ("raw").
        short_side: With jpeg or raw: resize larger images so that their shorter side has this.
        max_pixels: Decode no image of more pixels.
        shuffle_seed: Spread the samples of each split over its shards, in an order that it decides.
        key_conflict: A sample whose key an earlier one has: refuse the input, or call it KEY#1, KEY#2, …
        max_rejects: Rejected records to tolerate: a number, or a share of all as in "1%".
        on_existing: When `dataset` is there already. "resume" goes on with an unfinished pack, and begins one where
            there is nothing; overwritten versions stay readable by their pins.
        extend_classes: An append may bring new classes; their ids come behind the old ones.
        user_metadata: Text to keep in the manifest; part of what is pinned.
        part: Write one of several parts, numbered from 0, beside other processes; toolkit.merge_parts() makes one
            version of all. Parts need `columns`, and `classes` for labels.
        parts: How many parts there are.
        jobs: Threads that make rows of records; never changes the result.
        progress: Called now and then, by one thread at a time, with the records done so far, None, 0 and 0.

    Raises:
        UsageError: An option doesn't take its value, or contradicts another.
    """
    given = {
        "split": split,
        "missing": missing,
        "max_value_bytes": max_value_bytes,
        "verify_images": verify_images,
        "shard_size": shard_size,
        "image_encoding": image_encoding,
        "short_side": short_side,
        "max_pixels": max_pixels,
        "shuffle_seed": shuffle_seed,
        "key_conflict": key_conflict,
        "max_rejects": max_rejects,
        "on_existing": on_existing,
        "extend_classes": extend_classes,
        "user_metadata": user_metadata,
        "jobs": jobs,
    }
    place = check_part(part, parts)
    if place is not None:
        _check_options_of_part(columns, given)
    job = make_job(paths_of("<records>", dataset), take(options_of(PackJob), given))
    if place is not None:
        job = replace(job, dataset=os.path.join(job.dataset, part_folder(place)))
    check_name(split)
    if columns is not None:
        check_names(columns)
        for name, one in columns.items():
            declare(name, one)
    return Writer(job, columns, names_of_classes(classes), progress or (lambda *_: None), place)


def _check_options_of_part(columns: Mapping[str, Declaration] | None, given: Mapping[str, object]) -> None:
    if columns is None:
        raise UsageError("a part needs columns=: all parts must have the same")
    for name in ("shuffle_seed", "user_metadata"):
        if given[name] is not None:
            raise UsageError(f"{name} means nothing for a part: leave it out")
    if given["key_conflict"] != "error" or given["extend_classes"] or given["on_existing"] == "append":
        name = next(
            name for name in ("key_conflict", "extend_classes", "on_existing") if given[name] not in ("error", False)
        )
        raise UsageError(f"{name}={given[name]!r} means nothing for a part: parts are merged by toolkit.merge_parts()")


def names_of_classes(classes: Classes | None) -> dict[str, tuple[str, ...]]:
    """Return the names by label column, as toolkit.writer() takes them. Raises UsageError, NotFoundError."""
    if classes is None:
        return {}
    if not isinstance(classes, Mapping):
        classes = {_ALL: classes}  # type: ignore[dict-item]
    names = {}
    for column, given in classes.items():
        plain = os.fsdecode(given) if isinstance(given, str | os.PathLike) else list(given)
        fault = ClassNames().fault(plain)
        if fault is not None:
            raise UsageError(f"classes: {fault.message}")
        names[column] = ClassNames().load(plain, reads=True)
        check_class_names(names[column], where="classes", unit="id", first=0)
    return names
