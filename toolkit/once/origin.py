"""What a dataset in memory was made of: files that are listed again elsewhere, or samples that only it has."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolkit.errors import SourceError, UsageError
from toolkit.format.pin import resolve
from toolkit.once.listing import LISTING
from toolkit.once.stored import StoredSource
from toolkit.options.option import options_of, take
from toolkit.pack.front import pack
from toolkit.pack.job import PackJob, PackResult
from toolkit.pack.make import make_job
from toolkit.pack.run import pack as run
from toolkit.sources.options import InputOptions
from toolkit.storage.memory import MemoryStore

__all__ = ["Files", "Records"]

_SHOWN = 2


@dataclass(frozen=True)
class Files:
    """Files, with the options by which they were listed.

    Attributes:
        paths: Absolute paths, patterns and brace lists.
        options: The keywords of toolkit.pack() that were given.
        limit: How many bytes may be in memory.
        make, listing: Make the store of a name, and say how the files are listed now. Functions that other processes
            find by their names.
    """

    paths: tuple[str, ...]
    options: Mapping[str, Any]
    limit: int
    make: Callable[[Files, str | None], MemoryStore]
    listing: Callable[[Files], object]

    @property
    def lasts(self) -> bool:
        """They lie on a disk, which other processes see."""
        return True

    def made(self, name: str) -> MemoryStore:
        """List them once more. Raises as toolkit.open()."""
        return self.make(self, name)

    def pack(self, store: MemoryStore, dataset: str | os.PathLike[str], options: Mapping[str, Any]) -> PackResult:
        """Pack them. Raises SourceError when they aren't what was listed, and as toolkit.pack()."""
        if self.listing(self) != resolve(store.location).manifest.options.get(LISTING):
            raise SourceError(
                f"{self} isn't what it was when the dataset was opened: files were added, removed or changed since. "
                "Open it anew, and pack that"
            )
        return pack(list(self.paths) if len(self.paths) > 1 else self.paths[0], dataset, **{**self.options, **options})

    def __str__(self) -> str:
        return _named(self.paths)


@dataclass(frozen=True)
class Records:
    """Samples that a program had.

    Attributes:
        what: What they were, in a few words.
    """

    what: str

    @property
    def lasts(self) -> bool:
        """They are in the store alone."""
        return False

    def made(self, name: str) -> MemoryStore:
        """Never asked."""
        raise NotImplementedError

    def pack(self, store: MemoryStore, dataset: str | os.PathLike[str], options: Mapping[str, Any]) -> PackResult:
        """Pack what is in the store. Raises as toolkit.pack()."""
        for name in (*options_of(InputOptions), "source_kind"):
            if name in options and name not in ("shuffle_seed", "verify_images"):
                raise UsageError(f"{name} means nothing for samples in memory: give it to toolkit.open()")
        given = dict(options)
        progress = given.pop("progress", None)
        unknown = sorted(given.keys() - options_of(PackJob).keys())
        if unknown:
            raise UsageError(f"toolkit.pack() takes no {unknown[0]!r}")
        job = make_job(["<memory>", os.fsdecode(dataset)], take(options_of(PackJob), given))
        return run(job, progress or (lambda *_: None), StoredSource(store))

    def __str__(self) -> str:
        return self.what


def _named(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return ", ".join(map(repr, paths[:_SHOWN])) + more
