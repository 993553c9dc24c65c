"""What is stored of a picture that a program has: its file's bytes as they are, or a PNG file of its pixels."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from toolkit.errors import SourceError
from toolkit.sources.base import too_large
from toolkit.sources.contents import UnfitError
from toolkit.sources.names import printable
from toolkit.sources.pictures import png_of
from toolkit.sources.regular import open_file

__all__ = ["payload_of"]

_CHANNELS = (1, 3, 4)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://([^/?#@]*@)?(?P<host>[^/?#:]*)")
_PLAIN_MODES = ("L", "RGB", "RGBA")
_PILLOW_MODES = {"1": "L", "LA": "RGBA", "PA": "RGBA"}


def payload_of(value: Any, most: int) -> bytes | tuple[bytes, str]:
    """Return the bytes to store; with a base name where they are a file's.

    Pixels are height x width, or height x width x 1, 3 or 4 channels of uint8. A tensor of torch has its channels in
    front, as torchvision has them, unless only its last axis can be channels. A value that can't be changed by anybody
    comes back as it is; of everything else this is a copy.

    Raises:
        UnfitError: It is no picture, or its file can't be read.
    """
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, str | os.PathLike):
        return _file(os.fsdecode(value), most)
    if isinstance(value, Mapping):
        return _of_struct(value, most)
    if isinstance(value, np.ndarray):
        return png_of(_pixels(value))
    module = type(value).__module__.partition(".")[0]
    if module == "torch":
        return png_of(_of_torch(value))
    if module == "PIL":
        return png_of(_of_pillow(value))
    raise UnfitError(
        f"a value of type {type(value).__name__} is no picture: give bytes of a file, a path, a PIL image, or pixels "
        "as an array or tensor of uint8"
    )


def _file(path: str, most: int) -> tuple[bytes, str]:
    url = _URL.match(path)
    if url is not None:
        raise UnfitError(
            f"{path.partition(':')[0]}://{printable(url['host'])}/… is a URL: download it, and give a path"
        )
    try:
        with open_file(path) as file:
            size = file.seek(0, 2)  # the end
            if size > most:
                raise UnfitError(too_large(size, most))
            file.seek(0)
            data = file.read(most)
    except UnfitError:
        raise
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UnfitError(f"can't read {printable(path)!r}: {why}") from error
    except SourceError as error:
        raise UnfitError(str(error)) from error
    return data, printable(os.path.basename(path))


def _of_struct(value: Mapping[str, Any], most: int) -> bytes | tuple[bytes, str]:
    """Return what Hugging Face's struct of bytes and path means."""
    data, path = value.get("bytes"), value.get("path")
    if not value.keys() <= {"bytes", "path"} or (data is None and path is None):
        raise UnfitError(f"a mapping of {', '.join(map(repr, value))} is no picture: it has bytes, or a path, or both")
    if data is None and path is not None:
        return _file(os.fsdecode(path), most)
    if not isinstance(data, bytes | bytearray | memoryview):
        raise UnfitError(f"its bytes are a value of type {type(data).__name__}")
    return bytes(data) if path is None else (bytes(data), printable(os.path.basename(os.fsdecode(path))))


def _pixels(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if array.dtype != np.uint8 or array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in _CHANNELS):
        raise UnfitError(
            f"an array of {_shape(array)} {array.dtype} is no picture: pixels are uint8, height x width, or height x "
            f"width x 1, 3 or 4 channels{_hint(array)}"
        )
    return array


def _of_torch(tensor: Any) -> np.ndarray[Any, Any]:
    if str(tensor.dtype) != "torch.uint8" or tensor.ndim not in (2, 3):
        raise UnfitError(
            f"a tensor of {_shape(tensor)} {tensor.dtype} is no picture: pixels are uint8, channels x height x width, "
            f"or height x width{_hint(tensor)}"
        )
    array = tensor.detach().cpu().numpy()
    if array.ndim == 3 and array.shape[0] in _CHANNELS:
        return np.ascontiguousarray(array.transpose(1, 2, 0))
    return _pixels(array)


def _of_pillow(image: Any) -> np.ndarray[Any, Any]:
    try:
        of_palette = "RGBA" if "transparency" in image.info else "RGB"
        mode = of_palette if image.mode == "P" else _PILLOW_MODES.get(image.mode, image.mode)
        if mode not in _PLAIN_MODES:
            raise UnfitError(f"an image of Pillow's mode {image.mode!r} has no plain pixels: image.convert('RGB') has")
        return np.asarray(image if image.mode == mode else image.convert(mode), np.uint8)
    except (OSError, SyntaxError, AttributeError) as error:  # Pillow reads files when their pixels are asked for
        raise UnfitError(f"Pillow can't decode it: {error}") from error


def _shape(value: Any) -> str:
    return " x ".join(map(str, value.shape)) or "no axes"


def _hint(value: Any) -> str:
    shape, dtype = tuple(value.shape), str(value.dtype)
    if "float" in dtype:
        return ": if it is from 0 to 1, give (255 * it).round() as uint8"
    if len(shape) == 1:
        return ": bytes of a file are given as bytes, by .tobytes()"
    if len(shape) == 3 and shape[0] in _CHANNELS and isinstance(value, np.ndarray):
        return ": .transpose(1, 2, 0) brings its channels behind"
    return ""
