"""Keep what PIL and libtiff say of a damaged picture, so that it is told with the file's name, and not on stderr.

PIL warns through `warnings` and `logging`, libtiff prints. All three belong to the whole process: what is put there
looks at the thread, and is without effect on every thread that is not within heard().
"""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
import warnings
from collections.abc import Iterator
from typing import Any

from toolkit._native.image import libtiff

__all__ = ["Heard", "heard"]

_MOST_TEXTS = 2  # of PIL's that a reason repeats
_NO_FILE = "tempfile.tif: "  # what PIL calls every file that it hands to libtiff


class Heard:
    """What was said on this thread since heard() was entered."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def add(self, text: str) -> None:
        """Take note of a text, once."""
        if len(self._texts) < _MOST_TEXTS and text not in self._texts:
            self._texts.append(text)

    def why(self, error: BaseException) -> str:
        """Return why PIL failed: what it raised, and what was said before."""
        printed = libtiff.take().decode("ascii", "backslashreplace").removeprefix(_NO_FILE)
        if printed:
            self._texts.insert(0, printed)
        said = "; ".join(" ".join(text.split()).rstrip(".") for text in self._texts)
        raised = " ".join(str(error).split()) or type(error).__name__
        return f"{raised} ({said})" if said else raised


class _Thread(threading.local):
    heard: Heard | None = None


_thread = _Thread()


class _Listening:
    """Stands in a warning filter where a pattern of the text does: it matches on threads that listen."""

    def match(self, text: str) -> bool:
        if _thread.heard is None:
            return False
        _thread.heard.add(text)
        return True


_FILTER: Any = ("ignore", _Listening(), Warning, None, 0)


@contextlib.contextmanager
def heard() -> Iterator[Heard]:
    """Keep what PIL and libtiff say on this thread. Nothing else that may warn belongs inside."""
    _attach()
    if not warnings.filters or warnings.filters[0] is not _FILTER:
        _put_in_front()
    outer, _thread.heard = _thread.heard, Heard()
    libtiff.listen(True)
    try:
        yield _thread.heard
    finally:
        _thread.heard = outer
        libtiff.listen(outer is not None)


def _put_in_front() -> None:
    # Filters that were put in front since, an "error" above all, would come first.
    filters: Any = warnings.filters
    with contextlib.suppress(ValueError):
        filters.remove(_FILTER)
    filters.insert(0, _FILTER)
    warnings._filters_mutated()  # type: ignore[attr-defined]


@functools.cache
def _attach() -> None:
    from PIL import Image

    libtiff.attach(str(getattr(Image.core, "__file__", "")).encode())
    logging.getLogger("PIL.TiffImagePlugin").addFilter(_passes)


def _passes(record: logging.LogRecord) -> bool:
    if _thread.heard is None or record.levelno < logging.WARNING:
        return True
    _thread.heard.add(record.getMessage())
    return False
