"""The roots of an index: their names, which the manifest has, and their places, which only roots.json has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from toolkit.errors import UsageError
from toolkit.format.references import root_names as stored_names
from toolkit.pack.append import Base
from toolkit.pack.in_place.locate import Roots
from toolkit.storage.local import LocalStore
from toolkit.storage.roots_file import followed

__all__ = ["joined_roots", "root_names", "roots_of"]


def roots_of(sources: Sequence[str], base: Base | None) -> Roots:
    """Return the roots of these inputs; a folder that the dataset has already keeps its name.

    Raises:
        UsageError: Where the dataset's own roots lie isn't to be trusted.
    """
    return Roots(sources, _known(base), _names(base))


def root_names(base: Base | None, roots: Roots) -> list[str]:
    """Return the names of all roots of the version that is made."""
    return list(dict.fromkeys([*_names(base), *roots.places]))


def joined_roots(base: Base | None, roots: Roots) -> Mapping[str, str]:
    """Return where the roots of the version that is made lie, those of the one that is appended to as they did."""
    return {**_known(base), **roots.places}


def _names(base: Base | None) -> list[str]:
    return [] if base is None else stored_names(base.manifest.options)


def _known(base: Base | None) -> dict[str, str]:
    """Return where the roots of a version lie, as far as its roots.json has them."""
    if base is None:
        return {}
    try:
        said = followed(LocalStore(base.folder), base.pin)
    except UsageError as error:
        raise UsageError(
            f"{error} To append, remove that file: what is appended has its own roots then, and those of the dataset "
            "must be named when it is opened"
        ) from error
    return {name: place for name, place in said.items() if name in _names(base)}
