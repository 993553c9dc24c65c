"""Find the version of a dataset that a path or PATH@sha256:<hex> names, and check that it is that version."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from toolkit.errors import CorruptTableError, NotFoundError, PinMismatchError, StorageError, UsageError
from toolkit.escapes import short
from toolkit.format.manifest import Manifest, parse_manifest
from toolkit.format.tables import sha256
from toolkit.storage.local import find_local
from toolkit.storage.memory import MemoryStore
from toolkit.storage.store import NoObjectError, Store
from toolkit.storage.stores import open_store

__all__ = [
    "JOURNAL",
    "MANIFEST",
    "MANIFESTS",
    "REPORTS",
    "SHARDS",
    "TABLES",
    "Version",
    "current_pin",
    "holds_dataset",
    "read_manifest",
    "read_table",
    "reference_text",
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
_MANIFEST_BYTES = 256 << 20  # the counts of ten million classes
_TABLE_BYTES = 4 << 30  # ten million shards
_PIN = re.compile(r"(?P<path>.*)@sha256:(?P<hex>[^@/]*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a dataset: where it lies, its pin and its manifest."""

    store: Store
    pin: str
    manifest: Manifest

    @property
    def root(self) -> str:
        """The dataset's folder, as an absolute path; or its URL."""
        return self.store.location

    def __str__(self) -> str:
        """Say which dataset it is, for messages."""
        origin = self.store.origin if isinstance(self.store, MemoryStore) else None
        return self.root if origin is None else str(origin)


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
        UsageError: It is no path.
        NotFoundError: There is no such dataset.
        PinMismatchError: The dataset has no version with that pin, or the manifest was changed.
        FormatError, CorruptTableError: As parse_manifest.
    """
    path, prefix = split_pin(reference_text(reference))
    store, name = _locate(path, prefix)
    place = store.place(name)
    try:
        data = store.read(name, _MANIFEST_BYTES)
    except NoObjectError as error:
        raise CorruptTableError(f"{place} is no manifest: {error.reason}") from error
    pin = sha256(data)
    if prefix is not None and not pin.startswith(prefix):
        raise PinMismatchError(f"{place} has sha256 {pin}, not the pin {prefix}: it was changed after it was packed")
    if store.info(f"{MANIFESTS}/{pin}.json") is None:
        if store.info(MANIFESTS) is None and name != MANIFEST:
            raise NotFoundError(f"{place} is a file and no dataset: give the folder that toolkit packed")
        raise PinMismatchError(
            f"{place} has sha256 {pin}, which is no committed version: it was changed by hand. "
            f"Open a version by its pin, or copy it back: {_versions_text(store)}"
        )
    return Version(store=store, pin=pin, manifest=parse_manifest(data, place))


def reference_text(reference: object) -> str:
    """Return what names a dataset as text. Raises UsageError: it is no path."""
    text = os.fspath(reference) if isinstance(reference, str | os.PathLike) else None
    if not isinstance(text, str):
        raise UsageError(f"a dataset is a path, or PATH@sha256:PIN; got {short(reference, 80, quoted=True)}")
    return text


def current_pin(store: Store) -> str | None:
    """Return the pin of a dataset's current version, or None where there is nothing that can be read as one."""
    try:
        return sha256(store.read(MANIFEST, _MANIFEST_BYTES))
    except (NotFoundError, StorageError):
        return None


def holds_dataset(reference: str) -> bool:
    """Tell whether a path, with or without a pin, looks like that of a dataset, or of one whose pack isn't finished."""
    match = _PIN.fullmatch(reference)
    found = find_local(reference) or (None if match is None else find_local(match["path"]))
    if found is None:
        return False
    store, _ = _rooted(*found)
    finished = store.info(MANIFEST) is not None and store.info(MANIFESTS) is not None
    return store.info(SHARDS) is not None and (finished or store.info(f"{JOURNAL}/job.json") is not None)


def read_manifest(version: Version) -> bytes:
    """Return the manifest's own bytes: it may hold more than is known here. Raises StorageError, PinMismatchError."""
    name = f"{MANIFESTS}/{version.pin}.json"
    data = version.store.read(name, _MANIFEST_BYTES)
    if sha256(data) != version.pin:
        raise PinMismatchError(f"{version.store.place(name)} was changed while it was read")
    return data


def read_table(version: Version, digest: str) -> bytes:
    """Return the bytes of tables/<digest>.arrow, checked against that sha256."""
    name = f"{TABLES}/{digest}.arrow"
    place = version.store.place(name)
    try:
        data = version.store.read(name, _TABLE_BYTES)
    except NoObjectError as error:
        raise CorruptTableError(f"{place} is no table: {error.reason}") from error
    except NotFoundError as error:
        raise CorruptTableError(f"{place} is missing: copy the whole dataset folder again") from error
    if sha256(data) != digest:
        raise CorruptTableError(f"{place} has sha256 {sha256(data)}, not its name: copy or pack the dataset again")
    return data


def _locate(path: str, prefix: str | None) -> tuple[Store, str]:
    """Return the store of a dataset, and the manifest to read."""
    store, name = _rooted(*open_store(path))
    if name:
        return store, name
    if prefix is None:
        if store.info(MANIFEST) is None:
            raise NotFoundError(f"{path!r} has no {MANIFEST}: it isn't a dataset, or its pack did not finish")
        return store, MANIFEST
    matches = [pin for pin in _versions(store) if pin.startswith(prefix)]
    if len(matches) == 1:
        return store, f"{MANIFESTS}/{matches[0]}.json"
    if len(matches) > 1:
        raise UsageError(f"the pin {prefix} fits {len(matches)} versions of {path!r}: give more digits")
    if store.info(MANIFESTS) is None:
        raise NotFoundError(f"{path!r} has no {MANIFESTS} folder: it isn't a dataset, or its pack did not finish")
    raise PinMismatchError(f"{path!r} has no version with the pin {prefix}. {_versions_text(store)}")


def _rooted(store: Store, name: str) -> tuple[Store, str]:
    """Return the dataset's store for a manifest in its folder of them; anything else as it is."""
    folder, slash, last = store.location.rpartition("/")
    if name and last == MANIFESTS:
        return open_store(folder or slash)[0], f"{MANIFESTS}/{name}"
    return store, name


def _versions(store: Store) -> list[str]:
    names = [one.name for one in store.entries(MANIFESTS, follow=True)]
    return sorted(name.removesuffix(".json") for name in names if re.fullmatch(r"[0-9a-f]{64}\.json", name))


def _versions_text(store: Store) -> str:
    versions = _versions(store)
    if not versions:
        return "It has no versions at all."
    shown = ", ".join(pin[:_SHORTEST_PREFIX] for pin in versions[:5])
    return f"Its versions: {shown}{' …' if len(versions) > 5 else ''}"
