"""Say which tars may lack members though all that can be checked is right: by how they end."""

from __future__ import annotations

from toolkit.sources.kinds.webdataset.tar import Ending, Tar
from toolkit.sources.names import printable

__all__ = ["TarDoubts"]

_SAID = {
    Ending.NO_MARKER: "no end-of-archive marker: members may be missing behind the last one, as when the file was cut. "
    "Compare it with where it came from; fine if its writer leaves the marker out",
    Ending.ZEROS: "many zeros behind the end of the archive: members may be missing there, as when a copy or download "
    "reserved room that it never filled. Compare it with where it came from",
    Ending.OTHER: "bytes behind the end of the archive that are no zeros: members may be missing there, as when zeros "
    "took the place of a header. Compare it with where it came from",
}
_SHOWN = 10


class TarDoubts:
    """Gathers tars whose end is doubtful."""

    def __init__(self) -> None:
        self._paths: dict[Ending, list[str]] = {}

    def look(self, tar: Tar) -> None:
        """Take note of a tar that was walked, if its end was reached."""
        if tar.ending in _SAID:
            self._paths.setdefault(tar.ending, []).append(tar.file.path)

    def said(self) -> tuple[str, ...]:
        """Return what is doubtful, a sentence or two for each way in which tars end."""
        return tuple(f"{_listed(paths)}: {_SAID[ending]}" for ending, paths in self._paths.items())


def _listed(paths: list[str]) -> str:
    shown = ", ".join(repr(printable(path)) for path in paths[:_SHOWN])
    return f"{shown} and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else shown
