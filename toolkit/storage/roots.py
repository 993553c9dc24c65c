"""Where the files of a dataset's references lie: folders by name, said by the caller or proved to be this user's own.

A dataset that a stranger made may name any folder of this machine. So a folder that it names is opened only when it
lies inside the dataset's own, or when the sum beside it shows that it was written with this user's key; what the caller
names is opened as it is. Nothing is read from the environment but where the user's state lies.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Callable, Mapping, Sequence

from toolkit.errors import NotFoundError, StorageError, UsageError, did_you_mean
from toolkit.escapes import listed, short
from toolkit.storage.places import local_path
from toolkit.storage.roots_file import FIRST_ROOT, ROOT_NAME, ROOTS_FILE, followed, how_to_name, read_roots
from toolkit.storage.store import Store

__all__ = ["GivenRoots", "Roots", "RootsOption", "check_roots", "has_openat2"]

RootsOption = str | os.PathLike[str] | Mapping[str, str | os.PathLike[str]]
"""How callers name roots: a path, for a dataset with one; or a path for each name."""

GivenRoots = Mapping[str | None, str]
"""What they named, as absolute paths; the name None stands for the only root there is."""

_OPENAT2, _AT_FDCWD, _RESOLVE_BENEATH = 437, -100, 8  # the same on every machine that Linux runs on


class Roots:
    """The folders of one dataset, opened as they are asked for. Safe from any thread; pickles as what was given.

    Owns a descriptor of each folder that was opened, for as long as it lives: files are opened below that, so a folder
    that is renamed meanwhile stays the same.

    Attributes:
        given: What the caller named, as absolute paths; or None. A name of None stands for the only root there is.
    """

    def __init__(self, store: Store, given: GivenRoots | None = None, version: str | None = None) -> None:
        """`store` is the dataset's, `given` what check_roots() returned, `version` the pin; None: the newest one's."""
        self._store = store
        self._version = version
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
                f"{where} has values in files of the root {name!r}, and nothing says where that is.{known} "
                f"{how_to_name(name)}"
            )
        return said[name]

    def said(self) -> Mapping[str, str]:
        """Return the roots that the dataset's own roots.json names, each where it may be followed; nothing without one.

        Raises:
            UsageError: It can't be read, or names a folder elsewhere that this user's own index didn't write.
        """
        if self._said is None:
            self._said = followed(self._store, self._version)
        return self._said

    def places(self) -> dict[str, str]:
        """Return the absolute path of each root that is known. Raises as said()."""
        given = dict(self.given or {})
        only = given.pop(None, None)
        named = {name: path for name, path in given.items() if name is not None}
        if only is not None:
            return dict.fromkeys(self.names() or [FIRST_ROOT], only)
        return {**self.said(), **named} if set(self.names()) - named.keys() else named

    def asked(self) -> Mapping[str, str]:
        """Return the roots as roots.json says them, trusted or not: to be shown; nothing where it can't be read."""
        with contextlib.suppress(UsageError):
            return read_roots(self._store).of(self._version)
        return {}

    def names(self) -> list[str]:
        """Return the names that roots.json has, trusted or not; none where it can't be read."""
        return list(self.asked())

    def path(self, name: str, inside: str) -> str:
        """Say where a file of a root lies, for messages. Looks at nothing but roots.json."""
        try:
            return os.path.join(self.folder(name), inside)
        except (UsageError, NotFoundError, StorageError):
            return f"{name}:{inside}"

    def _check_only(self, name: str) -> None:
        """Raise UsageError where one path was given for several roots."""
        names = self.names() or [FIRST_ROOT]
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


def check_roots(given: RootsOption | None, store: Store, names: Sequence[str] = ()) -> GivenRoots | None:
    """Return what a caller named as absolute paths of folders; one path has the name None.

    Args:
        given: A path, for a dataset with one root; or a path for each name.
        store: The dataset's.
        names: Those of its roots, as its manifest has them; without any, those that its roots.json has are known.

    Raises:
        UsageError: It isn't of that form, or names a root that the dataset doesn't have.
        NotFoundError: A folder isn't there.
    """
    if given is None:
        return None
    if isinstance(given, Mapping):
        paths: dict[str | None, str] = {}
        known = names or Roots(store).names()
        for name, path in given.items():
            if not isinstance(name, str) or ROOT_NAME.fullmatch(name) is None:
                raise UsageError(f"roots: {short(name, 80, quoted=True)} is no name of a root, as 'source' is one")
            if known and name not in known:
                raise UsageError(
                    f"roots: dataset {store.location!r} has no root {name!r}; it has {listed(known)}."
                    f"{did_you_mean(name, known)}"
                )
            paths[name] = _folder(path, name, store)
        return paths
    return {None: _folder(given, None, store)}


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
        raise _missing(path, name or FIRST_ROOT, store.location)
    return path


def _missing(path: str, name: str, dataset: str) -> NotFoundError:
    what = "is no folder" if os.path.exists(path) else "isn't there"
    return NotFoundError(
        f"the root {name!r} of dataset {dataset!r} should be the folder {path!r}, which {what}. {how_to_name(name)}"
    )
