"""Check a version of a dataset against its pin: sizes and metadata, or every byte; decode all media on request."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from toolkit.checks.against.compare import WHATS, AgainstResult, compare
from toolkit.checks.against.packed_source import packed_sources
from toolkit.checks.arguments import argument, check_flags, paths, progress_of, whole
from toolkit.checks.verify_derived import DerivedChecks
from toolkit.checks.verify_result import Finding, VerifyResult
from toolkit.checks.verify_samples import KeyLog
from toolkit.checks.verify_split import SplitCheck
from toolkit.errors import UsageError
from toolkit.format.pin import resolve
from toolkit.format.references import REFERENCES, UNHASHED
from toolkit.format.schema import Column, Kind
from toolkit.loader.api import Dataset, open
from toolkit.options.values import COUNT
from toolkit.pipelines.image.formats import DEFAULT_MAX_PIXELS
from toolkit.pipelines.media import medium_of
from toolkit.storage.roots import RootsOption

__all__ = ["Finding", "VerifyResult", "verify"]

_NAMED_REPEATS = 100
_NAMED_DIFFERENCES = 20


def verify(
    dataset: str | os.PathLike[str],
    *,
    full: bool = False,
    decode: bool = False,
    max_pixels: int = DEFAULT_MAX_PIXELS,
    jobs: int | str = "auto",
    roots: RootsOption | None = None,
    against: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    options: Mapping[str, object] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> VerifyResult:
    """Check a version of a dataset against what was packed.

    Args:
        dataset: As toolkit.open takes it.
        full: Check every byte, chunk sum, sample digest and derived column, also of values that lie in other files;
            otherwise sizes, tables and metadata of every shard, and that each file that it refers to is there.
        decode: Decode every image, and every other medium, as well.
        max_pixels: An image of more pixels can't be decoded.
        jobs: Shards checked at the same time; "auto" is the number of processors.
        roots: As toolkit.open takes them: where the files of references lie.
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
    datasets = {name: open(pinned, split=name, roots=roots) for name in version.manifest.splits}
    for one in datasets.values():
        one.index.read_all()  # also a table that is said to have no shards, so that none of them would ask for it
    keys = KeyLog({name: len(one) for name, one in datasets.items()}) if full else None
    most = max_pixels if decode else None
    derived = DerivedChecks(version.manifest.columns, version.manifest.derived)
    checks = [SplitCheck(one, keys, derived, most, cancelled) for one in datasets.values()]
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
            findings += [*check.labels(), *check.more_files()]
        if keys is not None:
            findings += _repeated_keys(keys, datasets)
    left_out = _not_checked(decode, version.manifest.columns, derived, version.manifest.requires, full=full)
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


def _not_checked(
    decode: bool, columns: Sequence[Column], derived: DerivedChecks, requires: Sequence[str], *, full: bool
) -> list[str]:
    """Say what a verification leaves out."""
    left_out, kinds = [], [column.kind for column in columns]
    if UNHASHED in requires:
        left_out.append(
            "any byte of the files that it refers to: it is unhashed, and their sizes and times alone were compared"
        )
    elif REFERENCES in requires and not full:
        left_out.append("the bytes that references lead to: only that each file is there and ends behind them (--full)")
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
