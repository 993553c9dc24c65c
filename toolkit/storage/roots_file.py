"""The roots.json of a dataset: where the roots of its references lie, and the sum that proves who said so.

{"roots": {"source": "/photos"}, "versions": ["<pin>"], "mac": "…"}; where an older version's roots lie elsewhere than
those of the newest one, "older" has them by its pin. So a version keeps its roots while another one takes its place.
The sum holds for the versions that are named: beside another dataset the same file proves nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from toolkit.errors import NotFoundError, StorageError, UsageError
from toolkit.escapes import short
from toolkit.storage.memory import MemoryStore
from toolkit.storage.store import NoObjectError, Store, WritableStore
from toolkit.storage.user_key import user_key

__all__ = ["FIRST_ROOT", "ROOTS_FILE", "ROOT_NAME", "RootsFile", "followed", "how_to_name", "read_roots", "write_roots"]

ROOTS_FILE = "roots.json"
ROOT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
FIRST_ROOT = "source"
_MOST_BYTES = 1 << 20
_DOMAIN = b"toolkit roots 1\0"  # nothing else that is made with the key begins so


class RootsFile(NamedTuple):
    """What a roots.json says, unproved: the roots of the newest version, those of older ones elsewhere, the pins of all
    versions that it is for, its sum.
    """

    roots: dict[str, str]
    older: dict[str, dict[str, str]]
    versions: list[str]
    mac: str | None

    def of(self, version: str | None) -> dict[str, str]:
        """Return the roots of a version, by its pin; None: the newest."""
        return self.roots if version is None else self.older.get(version, self.roots)


def read_roots(store: Store) -> RootsFile:
    """Return what roots.json says; nothing where there is no such file. Raises UsageError: it can't be read."""
    place = store.place(ROOTS_FILE)
    try:
        data = store.read(ROOTS_FILE, _MOST_BYTES)
    except NotFoundError:
        return RootsFile({}, {}, [], None)
    except NoObjectError as error:
        raise _refused(place, error.reason) from error
    try:
        said: Any = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _refused(place, "it is no JSON") from error
    if not isinstance(said, dict) or not isinstance(said.get("older", {}), dict):
        raise _refused(place, "it has no roots")
    older = said.get("older", {})
    for roots in (said.get("roots"), *older.values()):
        _check_said(place, roots)
    mac, versions = said.get("mac"), said.get("versions", [])
    if not isinstance(versions, list) or not all(isinstance(pin, str) for pin in versions):
        raise _refused(place, "its versions are no list of pins")
    return RootsFile(said["roots"], older, versions, mac if isinstance(mac, str) else None)


def write_roots(store: WritableStore, roots: Mapping[str, str], version: str, others: Collection[str] = ()) -> bool:
    """Write a dataset's roots.json, so that this user may open it without naming them; tell whether he may.

    Without a key of the user's, in a home that can't be written, nothing proves later that it was him.

    Args:
        store: The dataset's; whoever writes holds its lock.
        roots: Absolute paths of folders, or paths inside the dataset's own, by name.
        version: The pin of the version that has these roots.
        others: The pins of the other versions: their roots stay where they were, as far as this user wrote that.

    Raises:
        StorageError: The file system refuses.
    """
    key = None
    if not isinstance(store, MemoryStore):  # which nobody else can write
        with contextlib.suppress(StorageError):
            key = user_key(make=True)
    kept = {} if key is None else _kept(store, {*others} - {version})
    older = {pin: of for pin, of in kept.items() if any(roots.get(name) != place for name, place in of.items())}
    said = RootsFile(dict(roots), older, sorted([version, *kept]), None)
    sums = {} if key is None else {"versions": said.versions, "mac": _mac(key, said)}
    data = json.dumps({"roots": said.roots, **({"older": older} if older else {}), **sums}, indent=1, sort_keys=True)
    store.write(ROOTS_FILE, data.encode() + b"\n")
    return key is not None


def followed(store: Store, version: str | None) -> dict[str, str]:
    """Return the roots of a version as absolute paths, of roots.json.

    Raises:
        UsageError: It can't be read, or names a folder elsewhere that this user's own index didn't write.
    """
    said = read_roots(store)
    roots = said.of(version)
    if isinstance(store, MemoryStore):  # this process made it, of what its caller named
        return dict(roots)
    local = store.local_path("")
    home = None if local is None else os.path.realpath(local)
    absolute, elsewhere = {}, []
    for name, path in roots.items():
        place = path if os.path.isabs(path) or home is None else os.path.join(home, path)
        if home is None or os.path.commonpath([home, os.path.realpath(place)]) != home:
            elsewhere.append(name)
        absolute[name] = place
    if elsewhere:
        why = _unproved(said, version)
        if why is not None or not all(os.path.isabs(absolute[name]) for name in elsewhere):
            first = elsewhere[0]
            raise _refused(
                store.place(ROOTS_FILE),
                f"it names {roots[first]!r} as the root {first!r}, a folder outside of the dataset, and "
                f"{why or 'the path is relative'}. Nothing there is opened unless you say so",
                roots,
            )
    return absolute


def how_to_name(name: str) -> str:
    """Say how a root is named."""
    return f"Say where it is: toolkit.open(…, roots={{{name!r}: '/path'}}), or --roots {name}=/path"


def _kept(store: Store, versions: Collection[str]) -> dict[str, dict[str, str]]:
    """Return where the roots of those of these versions lie that this user wrote roots for."""
    with contextlib.suppress(UsageError, StorageError):
        before = read_roots(store)
        return {version: before.of(version) for version in sorted(versions) if _unproved(before, version) is None}
    return {}


def _check_said(place: str, roots: Any) -> None:
    if not isinstance(roots, dict):
        raise _refused(place, "it has no roots")
    for name, path in roots.items():
        if ROOT_NAME.fullmatch(name) is None or not isinstance(path, str):
            raise _refused(place, f"{short(name, 80, quoted=True)} is no root with the path of a folder")
        fault = _path_fault(path)
        if fault is not None:
            raise _refused(place, f"the root {name!r} is {short(path, 80, quoted=True)}, and {fault}")


def _path_fault(path: str) -> str | None:
    if not path or "\0" in path or not _is_text(path):
        return "that is no path"
    if "://" in path:
        return "only local folders are read"
    if path.startswith("~") or path.startswith("//"):
        return "only plain paths are followed"
    if ".." in path.split("/"):
        return "a path with '..' leads out of where it lies"
    return None


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _unproved(said: RootsFile, version: str | None) -> str | None:
    """Say why nothing proves that this user's own index wrote these roots for a version, or None: it did."""
    if said.mac is None:
        return "nothing shows that you wrote it"
    key = user_key()
    if key is None:
        return "you have no key that could show that you wrote it"
    if not hmac.compare_digest(_mac(key, said), said.mac.lower() if said.mac.isascii() else ""):
        return "it wasn't written by you, or was changed since"
    return None if version in said.versions else "it was written for another dataset"


def _refused(place: str, why: str, names: Collection[str] = ()) -> UsageError:
    name = next(iter(names), FIRST_ROOT)
    return UsageError(f"{place} isn't followed: {why}. {how_to_name(name)}")


def _mac(key: bytes, said: RootsFile) -> str:
    text = json.dumps([said.roots, said.older, said.versions], sort_keys=True, separators=(",", ":")).encode()
    return hmac.new(key, _DOMAIN + text, hashlib.sha256).hexdigest()
