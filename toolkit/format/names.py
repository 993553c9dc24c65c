"""The names that a dataset's folders hold, and by which shape a file there is known as the format's own."""

from __future__ import annotations

import re

from toolkit.format.pin import JOURNAL, MANIFEST, MANIFESTS, REPORTS, SHARDS, TABLES
from toolkit.storage.roots_file import ROOTS_FILE

__all__ = [
    "COMMIT_NOTE",
    "DROPPED_JOURNAL",
    "DROPPED_PARTS",
    "FOLDERS",
    "LOCK",
    "PARTS",
    "is_own",
    "is_temporary",
    "is_top_level",
]

LOCK = ".lock"
COMMIT_NOTE = ".commit"
"""Which version is about to be committed, or was, until a pack has said so."""

DROPPED_JOURNAL = ".tmp-journal"
"""What a journal is called from when it is dropped until it is gone."""

PARTS = ".parts"
"""Where parallel writers put what they wrote, each in a folder of its own, until it is merged."""

DROPPED_PARTS = ".tmp-parts"
"""What the parts' folder is called from when they are merged until it is gone."""

FOLDERS = (MANIFESTS, TABLES, SHARDS, REPORTS)
"""Where a dataset's files lie."""

_TOP_LEVEL = {MANIFEST, *FOLDERS, LOCK, JOURNAL, COMMIT_NOTE, DROPPED_JOURNAL, PARTS, DROPPED_PARTS, ROOTS_FILE}
# .tmp-<process>-<name> by write_durable(); .tmp-<split>-<slice>-<shard> of a shard whose hash isn't known yet.
_TEMPORARY = re.compile(r"\.tmp-(\d+-.+|.+-\d{6,}-\d+)", re.DOTALL)
_OWN = {
    MANIFESTS: re.compile(r"[0-9a-f]{64}\.json"),
    TABLES: re.compile(r"[0-9a-f]{64}\.arrow"),
    SHARDS: re.compile(r".+-\d{6,}-[0-9a-f]{16}\.(arrow|stat)", re.DOTALL),
    REPORTS: re.compile(r"([0-9a-f]{64}\.(rejects\.jsonl|provenance\.json)|failed\.rejects\.jsonl)"),
}


def is_temporary(name: str) -> bool:
    """Tell whether a writer gives this name to a file that it hasn't finished."""
    return _TEMPORARY.fullmatch(name) is not None


def is_own(folder: str, name: str) -> bool:
    """Tell whether a file of this name in one of FOLDERS is the format's own, finished or not."""
    return _OWN[folder].fullmatch(name) is not None or is_temporary(name)


def is_top_level(name: str) -> bool:
    """Tell whether a dataset's own folder may have this name in it."""
    return name in _TOP_LEVEL or is_temporary(name)
