"""A source as it is listed at one moment: one hash names all that was found, and its slices are few."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from toolkit.pack.report import listing_hash
from toolkit.sources.base import Rows, Slice, Source, Survey

__all__ = ["LISTING", "ListedSource"]

LISTING = "listing"
"""The word in a manifest's options for the hash of files, sizes and times."""

_MOST_SLICES = 64  # of all splits: each becomes a shard, and a shard in memory takes a descriptor


@dataclass(frozen=True, slots=True)
class _Joined:
    """Slices that are read one behind the other, as one."""

    parts: tuple[Slice, ...]


class ListedSource(Source):
    """Another source's rows, in fewer slices, with the hash of its listing among the options that make the pin."""

    def __init__(self, source: Source, kind: str, survey: Survey) -> None:
        """`kind` is the source's kind, and `survey` what it found."""
        self._source = source
        self._kind = kind
        self._survey = survey

    def survey(self) -> Survey:
        """Return what was found."""
        survey = self._survey
        options = {**survey.options, "source_kind": self._kind, LISTING: listing_hash(survey)}
        return replace(survey, slices=tuple(_joined(survey)), options=options)

    def read(self, survey: Survey, part: Slice) -> Iterator[Rows]:
        """Yield the rows of the slices that make one up."""
        assert isinstance(part.payload, _Joined)
        for one in part.payload.parts:
            yield from self._source.read(self._survey, one)

    def place(self, part: Slice, key: str) -> str:
        """Return the path of the file that a sample comes from, or of the first one that was read with it."""
        assert isinstance(part.payload, _Joined)
        return self._source.place(part.payload.parts[0], key)


def _joined(survey: Survey) -> Iterator[Slice]:
    for split in survey.splits:
        parts = [part for part in survey.slices if part.split == split]
        share = max(1, _MOST_SLICES * len(parts) // len(survey.slices)) if parts else 0
        for number, run in enumerate(_runs(parts, share)):
            counts = [part.samples for part in run]
            known = [count for count in counts if count is not None]
            yield Slice(
                split,
                number,
                sum(known) if len(known) == len(counts) else None,
                sum(part.bytes for part in run),
                _Joined(tuple(run)),
                run[0].source if len(run) == 1 else f"{run[0].source} to {run[-1].source}",
            )


def _runs(parts: Sequence[Slice], most: int) -> Iterator[Sequence[Slice]]:
    """Yield neighbours together, in `most` runs of about the same bytes."""
    if len(parts) <= most:
        yield from ([part] for part in parts)
        return
    ends: list[int] = []
    for part in parts:
        ends.append((ends[-1] if ends else 0) + part.bytes + 1)
    start = 0
    for number in range(1, most + 1):
        stop = max(start + 1, bisect.bisect_right(ends, ends[-1] * number // most))
        stop = min(stop, len(parts) - (most - number))
        yield parts[start:stop]
        start = stop
