"""Tell which libjpeg-turbo a compiled module calls: PIL may have another one of its own in the same process."""

from __future__ import annotations

import ctypes
import os
import re

__all__ = ["libjpeg_turbo"]

_VERSION = re.compile(rb"libjpeg-turbo version ([0-9][0-9.a-z]*)")


class _SymbolInfo(ctypes.Structure):
    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def libjpeg_turbo(module_file: str) -> tuple[str, str]:
    """Return version ("?" if it doesn't tell) and file of the libjpeg-turbo that the module in `module_file` calls."""
    # The symbol as that module sees it, the file the symbol lies in, and the version text in that file.
    function = ctypes.CDLL(module_file).jpeg_std_error
    info = _SymbolInfo()
    dladdr = ctypes.CDLL(None).dladdr
    if not dladdr(ctypes.cast(function, ctypes.c_void_p), ctypes.byref(info)) or not info.file:
        return "?", "linked in"
    path = os.fsdecode(info.file)
    with open(path, "rb") as file:
        match = _VERSION.search(file.read())
    return (match[1].decode() if match else "?"), path
