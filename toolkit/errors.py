"""Every error toolkit raises on purpose.

    ToolkitError                    exit   when
    |-- UsageError (ValueError)       2    an option, argument or call that can't be carried out as given
    |   |-- PipelineError             2    a pipeline whose steps don't fit each other or the dataset
    |   `-- PluginError               2    what another package adds can't be used: it fails, or is none of its kind
    |-- NotFoundError (LookupError)   2    a path, split, column or version that isn't there
    |-- ExistsError                   2    the output is there already, or another pack is writing it
    |-- SourceError                   2    input that can't be packed at all: no images, an undecodable name
    |-- RejectsError                  3    more samples were rejected than --max-rejects allows
    |-- IntegrityError                4    bytes on disk aren't the bytes that were packed
    |   |-- PinMismatchError          4    the manifest's sha256 isn't the pin
    |   |-- CorruptShardError         4    a shard is missing, cut short, replaced, or has a flipped bit
    |   |   `-- ChangedFileError      4    a file that a dataset refers to isn't the one that was indexed
    |   `-- CorruptTableError         4    a manifest or table can't be read or has another hash
    |-- FormatError                   4    a dataset of a newer format, or one that requires unknown features
    |-- SampleError                   1    a stored sample that can't be decoded or transformed
    |-- StorageError (OSError)        5    permission, disk full, I/O failure
    `-- LoaderError (RuntimeError)    1    a loader used after close or in a forked child, out of memory, or broken

Each message says what happened, where, and what to do next. Values worth reading by a program are attributes.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

__all__ = [
    "ChangedFileError",
    "CorruptShardError",
    "CorruptTableError",
    "ExistsError",
    "FormatError",
    "IntegrityError",
    "LoaderError",
    "NotFoundError",
    "PinMismatchError",
    "PipelineError",
    "PluginError",
    "RejectsError",
    "SampleError",
    "SourceError",
    "StorageError",
    "ToolkitError",
    "UsageError",
    "did_you_mean",
]


class ToolkitError(Exception):
    """Base of every error raised on purpose; `exit_code` is what the command line returns for it."""

    exit_code = 1


# --- the call can't be carried out -----------------------------------------------------------------------------


class UsageError(ToolkitError, ValueError):
    """An option, argument or call that can't be carried out as given."""

    exit_code = 2


class PipelineError(UsageError):
    """A pipeline whose steps don't fit each other or the dataset; names slot and step."""


class PluginError(UsageError):
    """What another package adds can't be used; names the package, its entry point and what is wrong."""


class NotFoundError(ToolkitError, LookupError):
    """A path, split, column or version that isn't there."""

    exit_code = 2

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class ExistsError(ToolkitError):
    """The output is there already, or another pack is writing it."""

    exit_code = 2


class SourceError(ToolkitError):
    """Input that can't be packed at all."""

    exit_code = 2


class RejectsError(ToolkitError):
    """More samples were rejected than allowed; nothing was committed."""

    exit_code = 3


# --- what is on disk is not what was packed --------------------------------------------------------------------


class IntegrityError(ToolkitError):
    """Bytes on disk aren't the bytes that were packed."""

    exit_code = 4


class PinMismatchError(IntegrityError):
    """The manifest's sha256 isn't the pin that was asked for."""


class CorruptTableError(IntegrityError):
    """A manifest, shard table or label table can't be read or has another hash."""


class CorruptShardError(IntegrityError):
    """A shard is missing, cut short, replaced, or has a flipped bit.

    Attributes: shard (path inside the dataset), row (row of the split, or None), key (or None), column (or None).
    """

    def __init__(
        self,
        message: str,
        *,
        shard: str,
        row: int | None = None,
        key: str | None = None,
        column: str | None = None,
    ) -> None:
        super().__init__(message)
        self.shard = shard
        self.row = row
        self.key = key
        self.column = column


class ChangedFileError(CorruptShardError):
    """A file that a dataset refers to is gone, or isn't what it was when it was indexed.

    Attributes besides CorruptShardError's: file (where it should be).
    """

    def __init__(
        self,
        message: str,
        *,
        file: str,
        shard: str,
        row: int | None = None,
        key: str | None = None,
        column: str | None = None,
    ) -> None:
        super().__init__(message, shard=shard, row=row, key=key, column=column)
        self.file = file


class FormatError(ToolkitError):
    """A dataset of a newer format, or one that requires features this version doesn't know."""

    exit_code = 4


# --- a sample, the machine, the loader -------------------------------------------------------------------------


class SampleError(ToolkitError):
    """A stored sample that can't be decoded or transformed.

    Attributes: dataset (its folder), shard, row (row of the split), key, slot, step.
    """

    def __init__(self, message: str, *, dataset: str, shard: str, row: int, key: str, slot: str, step: str) -> None:
        super().__init__(message)
        self.dataset = dataset
        self.shard = shard
        self.row = row
        self.key = key
        self.slot = slot
        self.step = step


class StorageError(ToolkitError, OSError):
    """Permission, disk full, or another I/O failure; the previous version of the dataset is untouched."""

    exit_code = 5


class LoaderError(ToolkitError, RuntimeError):
    """A loader used after close or in a forked child, held batches in the way of the next, or a worker that broke."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return " Did you mean 'x'?" for the known name nearest to `name`, or "" when none is near.

    One that begins like it is nearest, then one that has it as a word: --user-metadata for --user, --tfrecord-raw for
    --raw.
    """
    names = list(known)
    word = name.lstrip("-")
    begin = [one for one in names if one.startswith(name)] if len(word) > 2 else []
    hold = [one for one in names if word in re.split("[-_]", one)] if len(word) > 2 else []
    near = (
        difflib.get_close_matches(name, names, n=1, cutoff=0.8)
        or sorted(begin, key=len)
        or hold
        or difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    )
    return f" Did you mean {near[0]!r}?" if near else ""
