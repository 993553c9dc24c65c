"""Results of filters by functions, stored in the user's cache folder: by pins, split, view, function and version.

A file is a line of JSON, which says what it is of, and one bit for each sample of the view.
"""

from __future__ import annotations

import hashlib
import json
import types
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolkit.errors import StorageError, UsageError
from toolkit.escapes import short
from toolkit.loader.dataset.fingerprint import code_hash, function_name, python_name
from toolkit.storage.user_cache import UserCache

__all__ = ["KeptResult"]

_FORMAT = 2
_MOST_FILES = 1000
_MOST_BYTES = 1 << 30
_SHOWN = 80  # characters of a value that an error shows


class KeptResult:
    """The place of one function's result over one view."""

    def __init__(
        self,
        function: Callable[..., Any],
        version: int | str,
        view: str,
        pins: Sequence[str],
        split: str,
        columns: Sequence[str],
        batched: bool,
    ) -> None:
        """Raises UsageError: the version is none, or nothing says in another process which function it is."""
        if isinstance(version, bool) or not isinstance(version, (int, str)):
            raise UsageError(f"filter: version must be a number or a text, got {short(version, _SHOWN, quoted=True)}")
        name = function_name(function)
        if name is None or not isinstance(function, types.FunctionType):
            raise UsageError(
                "filter: version= stores a result by the function's name, and a lambda, partial or object has none "
                "that another process knows: write it as a function with def, or leave version= out"
            )
        self._name, self._version = name, version
        self._of: dict[str, Any] = {
            "format": _FORMAT,
            "pins": list(pins),
            "split": split,
            "view": view,
            "function": name,
            "version": version,
            "columns": list(columns),
            "batched": batched,
        }
        self._code = {"python": python_name(), "code": code_hash(function)}
        self._file = hashlib.sha256(json.dumps(self._of, sort_keys=True).encode()).hexdigest()
        self._cache = UserCache("filters", _MOST_FILES, _MOST_BYTES)

    def read(self, samples: int) -> NDArray[np.bool_] | None:
        """Return bool (samples,) as it was stored, or None. Raises UsageError: the function has changed since."""
        held = self._cache.read(self._file)
        if held is None:
            return None
        line, _, bits = held.partition(b"\n")
        try:
            said = json.loads(line)
        except ValueError:
            return None
        if not isinstance(said, dict) or len(bits) != -(-samples // 8):
            return None
        code = {name: said.pop(name, None) for name in self._code}
        if said != {**self._of, "samples": samples}:
            return None
        if code["python"] == self._code["python"] and code["code"] != self._code["code"]:
            raise UsageError(
                f"filter: {self._name} isn't what it was when its result was stored as version {self._version!r}: its "
                "code, or a constant or function that it uses, has changed. Give it another version to run it anew"
            )
        return np.unpackbits(np.frombuffer(bits, np.uint8), count=samples, bitorder="little").astype(np.bool_)

    def write(self, kept: NDArray[np.bool_]) -> None:
        """Store a result; where nothing can be stored, warn."""
        line = json.dumps({**self._of, "samples": len(kept), **self._code}, sort_keys=True).encode()
        try:
            self._cache.write(self._file, line + b"\n" + np.packbits(kept, bitorder="little").tobytes())
        except StorageError as error:
            warnings.warn(f"filter: the result of {self._name} isn't stored: {error}", RuntimeWarning, stacklevel=4)
