"""Find the version of a dataset that a path or PATH@sha256:<hex> names, and check that it is that version."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from toolkit.errors import (
    CorruptTableError,
    NotFoundError,
    PinMismatchError,
    StorageError,
    UsageError,
    did_you_mean,
)
from toolkit.format.manifest import Manifest, parse_manifest
from toolkit.format.tables import sha256
from toolkit.storage.local import NoFileError, read_file, storage_errors
from toolkit.storage.places import local_path

__all__ = [
    "JOURNAL",
    "MANIFEST",
    "MANIFESTS",
    "MANIFEST_BYTES",
    "REPORTS",
    "SHARDS",
    "TABLES",
    "Version",
    "holds_dataset",
    "read_table",
    "resolve",
    "split_pin",
]

MANIFEST = "manifest.json"
MANIFESTS = "manifests"
TABLES = "tables"
SHARDS = "shards"
JOURNAL = ".journal"
REPORTS = "reports"
_SHORTEST_PREFIX = 12
MANIFEST_BYTES = 256 << 20  # the counts of ten million classes
_TABLE_BYTES = 4 << 30  # ten million shards
_PIN = re.compile(r"(?P<path>.*)@sha256:(?P<hex>[^@/]*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a dataset: its folder, pin and manifest."""

    root: str
    pin: str
    manifest: Manifest


def split_pin(reference: str) -> tuple[str, str | None]:
    """Split PATH@sha256:<hex> into the path and the pin (or its prefix); a plain path has None."""
    match = _PIN.fullmatch(reference)
    if match is None:
        return reference, None
    prefix = match["hex"].lower()
    if not re.fullmatch(r"[0-9a-f]*", prefix) or len(prefix) > 64:
        raise UsageError(f"the pin {match['hex']!r} isn't hexadecimal: expected PATH@sha256:<12 to 64 hex digits>")
    if len(prefix) < _SHORTEST_PREFIX:
        raise UsageError(
            f"the pin {match['hex']!r} has {len(prefix)} digits: give at least {_SHORTEST_PREFIX} of the 64"
        )
    return match["path"], prefix


def resolve(reference: str | os.PathLike[str]) -> Version:
    """Return the version named by a dataset folder or a manifest file, with or without a pin.

    Raises:
        NotFoundError: There is no such dataset.
        PinMismatchError: The dataset has no version with that pin, or the manifest was changed.
        FormatError, CorruptTableError: As parse_manifest.
    """
    path, prefix = split_pin(os.fspath(reference))
    path = local_path(path, "copy the dataset's folder here, and give that")
    root, file = _locate(path, prefix)
    with storage_errors("read", file):
        try:
            data = read_file(file, MANIFEST_BYTES)
        except NoFileError as error:
            raise CorruptTableError(f"{file} is no manifest: {error.strerror}") from error
    pin = sha256(data)
    if prefix is not None and not pin.startswith(prefix):
        raise PinMismatchError(f"{file} has sha256 {pin}, not the pin {prefix}: it was changed after it was packed")
    if not os.path.exists(os.path.join(root, MANIFESTS, f"{pin}.json")):
        raise PinMismatchError(
            f"{file} has sha256 {pin}, which is no committed version: it was changed by hand. "
            f"Open a version by its pin, or copy it back: {_versions_text(root)}"
        )
    return Version(root=os.path.abspath(root), pin=pin, manifest=parse_manifest(data, file))


def holds_dataset(reference: str) -> bool:
    """Tell whether a path, with or without a pin, looks like that of a dataset, or of one whose pack isn't finished."""
    match = _PIN.fullmatch(reference)
    root = reference if match is None or os.path.lexists(reference) else match["path"]
    if os.path.isfile(root):
        folder = os.path.dirname(os.path.abspath(root))
        root = os.path.dirname(folder) if os.path.basename(folder) == MANIFESTS else folder

    def has(*names: str) -> bool:
        return os.path.exists(os.path.join(root, *names))

    return has(SHARDS) and ((has(MANIFEST) and has(MANIFESTS)) or has(JOURNAL, "job.json"))


def read_table(version: Version, digest: str) -> bytes:
    """Return the bytes of tables/<digest>.arrow, checked against that sha256."""
    path = os.path.join(version.root, TABLES, f"{digest}.arrow")
    try:
        data = read_file(path, _TABLE_BYTES)
    except NoFileError as error:
        raise CorruptTableError(f"{path} is no table: {error.strerror}") from error
    except FileNotFoundError as error:
        raise CorruptTableError(f"{path} is missing: copy the whole dataset folder again") from error
    except OSError as error:
        raise StorageError(f"can't read {path}: {error.strerror}") from error
    if sha256(data) != digest:
        raise CorruptTableError(f"{path} has sha256 {sha256(data)}, not its name: copy or pack the dataset again")
    return data


def _locate(path: str, prefix: str | None) -> tuple[str, str]:
    """Return the dataset's folder and the manifest file to read."""
    if os.path.isfile(path):
        folder = os.path.dirname(os.path.abspath(path))
        return (os.path.dirname(folder) if os.path.basename(folder) == MANIFESTS else folder), path
    if not os.path.isdir(path):
        parent = os.path.dirname(os.path.abspath(path))
        siblings = os.listdir(parent) if os.path.isdir(parent) else []
        raise NotFoundError(f"no dataset at {path!r}.{did_you_mean(os.path.basename(path), siblings)}")
    current = os.path.join(path, MANIFEST)
    if prefix is None:
        if not os.path.exists(current):
            raise NotFoundError(f"{path!r} has no {MANIFEST}: it isn't a dataset, or its pack did not finish")
        return path, current
    matches = [pin for pin in _versions(path) if pin.startswith(prefix)]
    if len(matches) == 1:
        return path, os.path.join(path, MANIFESTS, f"{matches[0]}.json")
    if len(matches) > 1:
        raise UsageError(f"the pin {prefix} fits {len(matches)} versions of {path!r}: give more digits")
    if not os.path.isdir(os.path.join(path, MANIFESTS)):
        raise NotFoundError(f"{path!r} has no {MANIFESTS} folder: it isn't a dataset, or its pack did not finish")
    raise PinMismatchError(f"{path!r} has no version with the pin {prefix}. {_versions_text(path)}")


def _versions(root: str) -> list[str]:
    folder = os.path.join(root, MANIFESTS)
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return sorted(name.removesuffix(".json") for name in names if re.fullmatch(r"[0-9a-f]{64}\.json", name))


def _versions_text(root: str) -> str:
    versions = _versions(root)
    if not versions:
        return "It has no versions at all."
    shown = ", ".join(pin[:_SHORTEST_PREFIX] for pin in versions[:5])
    return f"Its versions: {shown}{' …' if len(versions) > 5 else ''}"
