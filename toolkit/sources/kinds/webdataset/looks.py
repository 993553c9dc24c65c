"""Find which extensions of a WebDataset are media though their names don't say so: by their members' first bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection

from toolkit.format.kinds import Kind
from toolkit.pipelines.medium import HEAD_BYTES
from toolkit.sources.images import is_camera_file
from toolkit.sources.kinds.webdataset.parts import column_name, is_known
from toolkit.sources.kinds.webdataset.tar import Member
from toolkit.sources.payloads import begun_as

__all__ = ["Looks"]

_MEMBERS = 4  # of an extension that are looked at, the first ones that hold anything


class Looks:
    """Looks at the first members of each extension that says nothing, in the order they are met.

    An extension is a medium's when all of them begin as its files do. One that `asked` names as a column isn't looked
    at: its kind was given.
    """

    def __init__(self, asked: Collection[str]) -> None:
        self._asked = asked
        self._open: dict[str, bool] = {}  # extension -> whether it says nothing
        self._looked = Counter[str]()
        self._kinds: dict[str, Kind | None] = {}

    @property
    def media(self) -> dict[str, Kind]:
        """The extensions that are a medium's by what was seen, and its kind."""
        return {extension: kind for extension, kind in self._kinds.items() if kind is not None}

    def look(self, member: Member, extension: str, peek: Callable[[int], bytes]) -> None:
        """Look at a member, unless enough is known of its extension; `peek` returns so many of its first bytes."""
        says_nothing = self._open.get(extension)
        if says_nothing is None:
            given = is_known(extension) or is_camera_file(f".{extension}") or column_name(extension) in self._asked
            says_nothing = self._open[extension] = not given
        if says_nothing and member.size and self._looked[extension] < _MEMBERS:
            self._looked[extension] += 1
            kind = begun_as(peek(HEAD_BYTES))
            if kind is None or self._kinds.setdefault(extension, kind) is not kind:
                self._kinds[extension] = None
                self._looked[extension] = _MEMBERS
