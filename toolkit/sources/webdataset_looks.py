"""Find which extensions of a WebDataset are pictures though their names don't say so: by their members' first bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection

from toolkit.pipelines.image.formats import HEAD_BYTES, find_format
from toolkit.sources.scan import is_camera_file
from toolkit.sources.tar import Member
from toolkit.sources.webdataset_parts import column_name, is_known

__all__ = ["Looks"]

_MEMBERS = 4  # of an extension that are looked at, the first ones that hold anything


class Looks:
    """Looks at the first members of each extension that says nothing, in the order they are met.

    An extension is a picture's when all of them begin as a picture does. One that `asked` names as a column isn't
    looked at: its kind was given.
    """

    def __init__(self, asked: Collection[str]) -> None:
        self._asked = asked
        self._open: dict[str, bool] = {}  # extension -> whether it says nothing
        self._looked = Counter[str]()
        self._others: set[str] = set()

    @property
    def images(self) -> frozenset[str]:
        """The extensions that are pictures' by what was seen."""
        return frozenset(self._looked.keys() - self._others)

    def look(self, member: Member, extension: str, peek: Callable[[int], bytes]) -> None:
        """Look at a member, unless enough is known of its extension; `peek` returns so many of its first bytes."""
        says_nothing = self._open.get(extension)
        if says_nothing is None:
            given = is_known(extension) or is_camera_file(f".{extension}") or column_name(extension) in self._asked
            says_nothing = self._open[extension] = not given
        if says_nothing and member.size and self._looked[extension] < _MEMBERS:
            self._looked[extension] += 1
            if find_format(peek(HEAD_BYTES)) is None:
                self._others.add(extension)
                self._looked[extension] = _MEMBERS
