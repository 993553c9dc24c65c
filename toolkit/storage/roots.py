"""Where the files of a dataset's references lie: folders by name, said by the caller or proved to be this user's own.

A dataset that a stranger made may name any folder of this machine. So a folder that it names is opened only when it
lies inside the dataset's own, or when the sum beside it shows that it was written with this user's key; what the caller
names is opened as it is. Nothing is read from the environment but where the user's state lies.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import hmac
import json
import os
import re
import stat
import sys
from collections.abc import Callable, Collection, Mapping
from typing import Any

from toolkit.errors import NotFoundError, StorageError, UsageError, did_you_mean
from toolkit.escapes import listed, short
from toolkit.storage.files import storage_errors
from toolkit.storage.places import local_path
from toolkit.storage.store import NoObjectError, Store, WritableStore

__all__ = ["ROOTS_FILE", "GivenRoots", "Roots", "RootsOption", "check_roots", "has_openat2", "write_roots"]

ROOTS_FILE = "roots.json"

RootsOption = str | os.PathLike[str] | Mapping[str, str | os.PathLike[str]]
"""How callers name roots: a path, for a dataset with one; or a path for each name."""

GivenRoots = Mapping[str | None, str]
"""What they named, as absolute paths; the name None stands for the only root there is."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_FIRST = "source"
_MOST_BYTES = 1 << 20
_KEY_BYTES = 32
_OPENAT2, _AT_FDCWD, _RESOLVE_BENEATH = 437, -100, 8  # the same on every machine that Linux runs on
_DOMAIN = b"toolkit roots 1\0"  # nothing else that is made with the key begins so


class Roots:
    """The folders of one dataset, opened as they are asked for. Safe from any thread; pickles as what was given.

    Owns a descriptor of each folder that was opened, for as long as it lives: files are opened below that, so a folder
    that is renamed meanwhile stays the same.

    Attributes:
        given: What the caller named, as absolute paths; or None. A name of None stands for the only root there is.
    """

    def __init__(self, store: Store, given: GivenRoots | None = None) -> None:
        """`store` is the dataset's; `given` is what check_roots() returned."""
        self._store = store
        self.given = given
        self._said: Mapping[str, str] | None = None
        self._opened: dict[str, _Folder] = {}

    @property
    def option(self) -> RootsOption | None:
        """What was given, as check_roots() takes it."""
        if self.given is None or None in self.given:
            return None if self.given is None else self.given[None]
        return {name: path for name, path in self.given.items() if name is not None}

    def descriptor(self, name: str) -> int:
        """Return a descriptor of the folder, good as long as this object. Raises as folder()."""
        opened = self._opened.get(name)
        if opened is None:  # no lock, which a fork would copy: of two that are opened at a time one is closed again
            opened = self._opened.setdefault(name, _Folder(self.folder(name), name, self._store.location))
        return opened.fd

    def folder(self, name: str) -> str:
        """Return the absolute path of a root.

        Raises:
            UsageError: Nobody named it who is trusted; the message says how to.
            NotFoundError: The dataset names it, and it isn't there.
        """
        if self.given is not None:
            if name in self.given:
                return self.given[name]
            if None in self.given:
                self._check_only(name)
                return self.given[None]
        where = f"dataset {self._store.location!r}"
        said = self.said()
        if name not in said:
            known = f" Its {ROOTS_FILE} knows {listed(said)}." if said else ""
            raise UsageError(
                f"{where} has values in files of the root {name!r}, and nothing says where that is.{known} {_how(name)}"
            )
        return said[name]

    def said(self) -> Mapping[str, str]:
        """Return the roots that the dataset's own roots.json names, each where it may be followed; nothing without one.

        Raises:
            UsageError: It can't be read, or names a folder elsewhere that this user's own index didn't write.
        """
        if self._said is None:
            self._said = _followed(self._store, *_read(self._store))
        return self._said

    def places(self) -> dict[str, str]:
        """Return the absolute path of each root that is known. Raises as said()."""
        given = dict(self.given or {})
        only = given.pop(None, None)
        named = {name: path for name, path in given.items() if name is not None}
        if only is not None:
            return dict.fromkeys(self.names() or [_FIRST], only)
        return {**self.said(), **named} if set(self.names()) - named.keys() else named

    def names(self) -> list[str]:
        """Return the names that roots.json has, trusted or not; none where it can't be read."""
        with contextlib.suppress(UsageError):
            return list(_read(self._store)[0])
        return []

    def path(self, name: str, inside: str) -> str:
        """Say where a file of a root lies, for messages. Looks at nothing but roots.json."""
        try:
            return os.path.join(self.folder(name), inside)
        except (UsageError, NotFoundError, StorageError):
            return f"{name}:{inside}"

    def _check_only(self, name: str) -> None:
        """Raise UsageError where one path was given for several roots."""
        names = self.names() or [_FIRST]
        if names != [name]:
            all_names = sorted({*names, name})
            raise UsageError(
                f"dataset {self._store.location!r} has the roots {listed(all_names)}: say which of them is where: "
                f"roots={{{all_names[0]!r}: '/path', …}}"
            )


class _Folder:
    """An open folder. Owns the descriptor."""

    def __init__(self, path: str, name: str, dataset: str) -> None:
        self.fd = -1
        try:
            self.fd = os.open(path, getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise _missing(path, name, dataset) from error
        except OSError as error:
            raise StorageError(
                f"can't open {path!r}, the root {name!r} of dataset {dataset!r}: {error.strerror or error}"
            ) from error

    def __del__(self, close: Callable[[int], None] = os.close) -> None:  # modules may be gone before it is
        if self.fd >= 0:
            close(self.fd)


def check_roots(given: RootsOption | None, store: Store) -> GivenRoots | None:
    """Return what a caller named as absolute paths of folders; one path has the name None.

    Args:
        given: A path, for a dataset with one root; or a path for each name.
        store: The dataset's, whose roots.json says which names there are, if it has one.

    Raises:
        UsageError: It isn't of that form, or names a root that the dataset doesn't have.
        NotFoundError: A folder isn't there.
    """
    if given is None:
        return None
    if isinstance(given, Mapping):
        paths: dict[str | None, str] = {}
        known = Roots(store).names()
        for name, path in given.items():
            if not isinstance(name, str) or _NAME.fullmatch(name) is None:
                raise UsageError(f"roots: {short(name, 80, quoted=True)} is no name of a root, as 'source' is one")
            if known and name not in known:
                raise UsageError(
                    f"roots: dataset {store.location!r} has no root {name!r}; it has {listed(known)}."
                    f"{did_you_mean(name, known)}"
                )
            paths[name] = _folder(path, name, store)
        return paths
    return {None: _folder(given, None, store)}


def write_roots(store: WritableStore, roots: Mapping[str, str]) -> bool:
    """Write a dataset's roots.json, so that this user may open it without naming them; tell whether he may.

    Without a key of the user's, in a home that can't be written, nothing proves later that it was him.

    Args:
        store: The dataset's; whoever writes holds its lock.
        roots: Absolute paths of folders, or paths inside the dataset's own, by name.

    Raises:
        StorageError: The file system refuses.
    """
    key = None
    with contextlib.suppress(StorageError):
        key = _key(make=True)
    sums = {} if key is None else {"mac": _mac(key, roots)}
    data = json.dumps({"roots": dict(roots), **sums}, indent=1, sort_keys=True)
    store.write(ROOTS_FILE, data.encode() + b"\n")
    return key is not None


def has_openat2() -> bool:
    """Tell whether this process may call openat2, by which files below a root are opened in one step."""
    if not sys.platform.startswith("linux"):
        return False
    how = (ctypes.c_uint64 * 3)(os.O_PATH | os.O_CLOEXEC, 0, _RESOLVE_BENEATH)
    fd = ctypes.CDLL(None).syscall(_OPENAT2, _AT_FDCWD, b".", how, ctypes.sizeof(how))
    if fd >= 0:
        os.close(fd)
    return bool(fd >= 0)


def _folder(given: object, name: str | None, store: Store) -> str:
    """Return a folder that a caller named as an absolute path."""
    text = os.fspath(given) if isinstance(given, str | os.PathLike) else None
    if not isinstance(text, str) or not text:
        raise UsageError(f"roots: a root is the path of a folder, got {short(given, 80, quoted=True)}")
    path = os.path.abspath(local_path(text, "copy the files here and give their folder"))
    if not os.path.isdir(path):
        raise _missing(path, name or _FIRST, store.location)
    return path


def _missing(path: str, name: str, dataset: str) -> NotFoundError:
    what = "is no folder" if os.path.exists(path) else "isn't there"
    return NotFoundError(
        f"the root {name!r} of dataset {dataset!r} should be the folder {path!r}, which {what}. {_how(name)}"
    )


def _how(name: str) -> str:
    return f"Say where it is: toolkit.open(…, roots={{{name!r}: '/path'}}), or --roots {name}=/path"


def _read(store: Store) -> tuple[dict[str, str], str | None]:
    """Return what roots.json says, unproved, and its sum; nothing where there is no such file."""
    place = store.place(ROOTS_FILE)
    try:
        data = store.read(ROOTS_FILE, _MOST_BYTES)
    except NotFoundError:
        return {}, None
    except NoObjectError as error:
        raise _refused(place, error.reason) from error
    try:
        said: Any = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _refused(place, "it is no JSON") from error
    roots = said.get("roots") if isinstance(said, dict) else None
    if not isinstance(roots, dict):
        raise _refused(place, "it has no roots")
    for name, path in roots.items():
        if _NAME.fullmatch(name) is None or not isinstance(path, str):
            raise _refused(place, f"{short(name, 80, quoted=True)} is no root with the path of a folder")
        fault = _path_fault(path)
        if fault is not None:
            raise _refused(place, f"the root {name!r} is {short(path, 80, quoted=True)}, and {fault}")
    mac = said.get("mac")
    return roots, mac if isinstance(mac, str) else None


def _path_fault(path: str) -> str | None:
    if not path or "\0" in path:
        return "that is no path"
    if "://" in path:
        return "only local folders are read"
    if path.startswith("~") or path.startswith("//"):
        return "only plain paths are followed"
    if ".." in path.split("/"):
        return "a path with '..' leads out of where it lies"
    return None


def _followed(store: Store, roots: Mapping[str, str], mac: str | None) -> dict[str, str]:
    """Return roots.json's roots as absolute paths. Raises UsageError where one may not be followed."""
    local = store.local_path("")
    home = None if local is None else os.path.realpath(local)
    absolute, elsewhere = {}, []
    for name, path in roots.items():
        place = path if os.path.isabs(path) or home is None else os.path.join(home, path)
        if home is None or os.path.commonpath([home, os.path.realpath(place)]) != home:
            elsewhere.append(name)
        absolute[name] = place
    if elsewhere:
        why = _unproved(roots, mac)
        if why is not None or not all(os.path.isabs(absolute[name]) for name in elsewhere):
            first = elsewhere[0]
            raise _refused(
                store.place(ROOTS_FILE),
                f"it names {roots[first]!r} as the root {first!r}, a folder outside of the dataset, and "
                f"{why or 'the path is relative'}. Nothing there is opened unless you say so",
                roots,
            )
    return absolute


def _unproved(roots: Mapping[str, str], mac: str | None) -> str | None:
    """Say why nothing proves that this user's own index wrote these roots, or None: it did."""
    if mac is None:
        return "nothing shows that you wrote it"
    key = _key()
    if key is None:
        return "you have no key that could show that you wrote it"
    if not hmac.compare_digest(_mac(key, roots), mac.lower() if mac.isascii() else ""):
        return "it wasn't written by you, or was changed since"
    return None


def _refused(place: str, why: str, names: Collection[str] = ()) -> UsageError:
    name = next(iter(names), _FIRST)
    return UsageError(f"{place} isn't followed: {why}. {_how(name)}")


def _mac(key: bytes, roots: Mapping[str, str]) -> str:
    said = json.dumps(dict(roots), sort_keys=True, separators=(",", ":")).encode()
    return hmac.new(key, _DOMAIN + said, hashlib.sha256).hexdigest()


def _key(*, make: bool = False) -> bytes | None:
    """Return this user's key; None where there is none and `make` isn't set.

    Raises:
        StorageError: Others may read or write it, or it is none; or the file system refuses.
    """
    path = os.path.join(_state_folder(), "key")
    with storage_errors("read", path):
        for _ in range(2):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                return _read_key(path)
            if not make:
                return None
            _make_key(path)
    return _read_key(path)


def _state_folder() -> str:
    base = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(base):  # as the XDG base directory specification has it
        base = os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(base, "toolkit")


def _read_key(path: str) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if os.path.islink(path):
            raise StorageError(f"{path!r} is a symbolic link, and your key must be a file: remove it") from error
        raise
    try:
        info = os.fstat(fd)
        fault = None
        if not stat.S_ISREG(info.st_mode):
            fault = "it is no file"
        elif info.st_uid != os.geteuid():
            fault = "it belongs to another user"
        elif info.st_mode & 0o077:
            fault = "others may read or write it"
        elif info.st_size != _KEY_BYTES:
            fault = f"it has {info.st_size} bytes in place of {_KEY_BYTES}"
        if fault is not None:
            raise StorageError(
                f"{path!r} can't be your key: {fault}. Remove it: the next `toolkit index` makes another, and until a "
                "dataset is indexed again its roots must be named"
            )
        return os.read(fd, _KEY_BYTES)
    finally:
        os.close(fd)


def _make_key(path: str) -> None:
    """Make a key, whole or not at all; where somebody else made one meanwhile, that one stays."""
    folder = os.path.dirname(path)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    temporary = os.path.join(folder, f".tmp-{os.getpid()}-{os.urandom(8).hex()}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            os.write(fd, os.urandom(_KEY_BYTES))
            os.fsync(fd)
        finally:
            os.close(fd)
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        os.unlink(temporary)
