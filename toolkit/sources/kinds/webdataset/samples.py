"""Gather the members of a tar into samples: neighbours with the same key."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from toolkit.errors import SourceError
from toolkit.sources.kinds.webdataset.looks import Looks
from toolkit.sources.kinds.webdataset.parts import skip_reason, split_name, unsafe
from toolkit.sources.kinds.webdataset.tar import Member, Tar
from toolkit.sources.names import printable
from toolkit.sources.skips import Skips

__all__ = ["Sample", "check_together", "gather"]

_MOST_KEYS = 1_000_000  # of a tar that are remembered, to tell whether the members of a sample lie apart


@dataclass(slots=True)
class Sample:
    """A sample that is being gathered. `fault` is why it is unusable; `parts` are its members by extension."""

    key: str
    start: int
    parts: dict[str, tuple[Member, memoryview | None]] = field(default_factory=dict)
    fault: str | None = None


def gather(
    tar: Tar,
    end: int | None,
    wanted: frozenset[str],
    skips: Skips | None = None,
    looks: Looks | None = None,
    *,
    most: int = 0,
) -> Iterator[tuple[Sample, int]]:
    """Yield the samples of a tar up to offset `end`, each with the offset where its last member ends.

    Args:
        tar: The tar, at the first header of a sample.
        end: Where to stop; None for the end of the archive.
        wanted: Extensions of the parts to read.
        most: Bytes of a part; a larger one is not read.
        skips: Where to note members that belong to no sample.
        looks: What looks at members whose names say nothing; then none are read.
    """
    skips = Skips() if skips is None else skips
    name = os.path.basename(tar.file.path)
    sample: Sample | None = None
    stop = 0
    for member in tar.members(end):
        reason = skip_reason(member)
        if reason is not None:
            skips.add(reason, f"{name}:{member.name}")
            continue
        key, extension = split_name(member.name)
        if sample is None or key != sample.key:
            if sample is not None:
                yield sample, stop
            sample = Sample(key, member.start)
        stop = member.data + member.size
        sample.fault = sample.fault or unsafe(member.name)
        if extension in sample.parts:
            sample.fault = sample.fault or f"two of its members have the extension {extension}"
        elif sample.fault is None:
            read = extension in wanted and member.size <= most
            sample.parts[extension] = (member, tar.read(member) if read else None)
            if looks is not None:
                looks.look(member, extension, functools.partial(tar.peek, member))
    if sample is not None:
        yield sample, stop


def check_together(tar: Tar, sample: Sample, seen: dict[str, tuple[int, tuple[str, ...]]]) -> None:
    """Raise SourceError when other parts of the sample came earlier in the tar; take note of it in `seen`."""
    parts = tuple(sample.parts)
    start, earlier = seen.get(sample.key, (0, parts))
    if parts and earlier and set(earlier).isdisjoint(parts):
        raise SourceError(
            f"{printable(tar.file.path)!r}: the members of the sample {printable(sample.key)!r} lie apart: "
            f"{_extensions(earlier)} at byte {start}, {_extensions(parts)} at byte {sample.start}. A WebDataset has "
            "them next to each other: make the tar again in the order of names (tar --sort=name), or leave it out with "
            "--exclude"
        )
    if len(seen) < _MOST_KEYS:
        seen.setdefault(sample.key, (sample.start, parts))


def _extensions(parts: Iterable[str]) -> str:
    return ", ".join(printable(part) if part else "no extension" for part in parts)
