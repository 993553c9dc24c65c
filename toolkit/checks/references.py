"""What a version refers to: the folders that its files lie in, whether they are followed, and how much lies there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from toolkit.errors import ToolkitError
from toolkit.format.layout import leaf_name
from toolkit.format.pin import Version
from toolkit.format.references import REFERENCES, UNHASHED, root_names
from toolkit.loader.api import Dataset
from toolkit.storage.roots import Roots, RootsOption, check_roots

__all__ = ["ReferenceFacts", "RootFacts", "reference_facts"]

_ROWS = 1 << 16


@dataclass(frozen=True, kw_only=True)
class RootFacts:
    """A folder that files lie in.

    Attributes:
        name: What references call it.
        path: Where it is said to be; None where nothing says it.
        followed: Whether it is read.
        why: Why it isn't.
    """

    name: str
    path: str | None
    followed: bool
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class ReferenceFacts:
    """What a version refers to.

    Attributes:
        columns: The columns whose values lie in other files.
        hashed: Whether it has sums of their bytes; without, sizes and times of files stand for them.
        roots: The folders.
        values, bytes: How many values the chosen splits refer to, and their bytes; None where no shard was opened.
    """

    columns: tuple[str, ...]
    hashed: bool
    roots: tuple[RootFacts, ...]
    values: int | None
    bytes: int | None


def reference_facts(
    version: Version, columns: Sequence[str], datasets: Sequence[Dataset], roots: RootsOption | None
) -> ReferenceFacts | None:
    """Return what a version refers to; None where it holds all its values. No file that it refers to is opened.

    Args:
        version: The version.
        columns: Its columns of references.
        datasets: The splits whose values are counted; none where no shard is to be opened.
        roots: As toolkit.open takes them.

    Raises:
        CorruptShardError: A reference can't be read.
    """
    if REFERENCES not in version.manifest.requires:
        return None
    values = nbytes = 0
    for dataset in datasets:
        for start in range(0, len(dataset), _ROWS):
            located = dataset.fetcher.locate(np.arange(start, min(start + _ROWS, len(dataset))))
            for name in columns:
                lengths = np.empty(len(located.rows), np.int64)
                null = dataset.fetcher.fixed(leaf_name(name, "length"), located, lengths.view(np.uint8))
                values += int(np.count_nonzero(~null))
                nbytes += int(np.clip(lengths[~null], 0, None).sum())
    return ReferenceFacts(
        columns=tuple(columns),
        hashed=UNHASHED not in version.manifest.requires,
        roots=tuple(_root(version, name, roots) for name in _names(version, columns, datasets)),
        values=values if datasets else None,
        bytes=nbytes if datasets else None,
    )


def _names(version: Version, columns: Sequence[str], datasets: Sequence[Dataset]) -> list[str]:
    """Return the names of the roots: those of the manifest, or of roots.json, or of the first reference."""
    said = version.manifest.options.get("roots")
    if isinstance(said, list) and said:
        return [str(name) for name in said]
    names = Roots(version.store, version=version.pin).names()
    if not names and datasets and len(datasets[0]):
        located = datasets[0].fetcher.locate(np.zeros(1, np.int64))
        found = datasets[0].fetcher.bytes(leaf_name(columns[0], "root"), located)[0]
        names = [] if found is None else [found.decode(errors="replace")]
    return names


def _root(version: Version, name: str, roots: RootsOption | None) -> RootFacts:
    path = Roots(version.store, version=version.pin).asked().get(name)
    try:
        found = Roots(
            version.store, check_roots(roots, version.store, root_names(version.manifest.options)), version.pin
        )
        path = found.folder(name)
        found.descriptor(name)  # whether it is there
    except ToolkitError as error:
        return RootFacts(name=name, path=path, followed=False, why=str(error))
    return RootFacts(name=name, path=path, followed=True)
