"""The words of slots that are no images, and of functions of the user's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolkit.pipelines.check import (
    BadArgumentError,
    a_dtype,
    a_flag,
    a_function,
    a_number,
    a_shape,
    an_int,
)
from toolkit.pipelines.value_steps import Array, Bytes, Json, Npy, OneHot, Passthrough, Python, Scalar, Text
from toolkit.pipelines.words import Words, word

__all__ = ["ValueWords"]


class ValueWords(Words):
    """Decoding of text, numbers and arrays."""

    __slots__ = ()

    @word
    def passthrough(self) -> Passthrough:
        """Give the value as it is stored: numbers as arrays, anything else as a list."""
        return Passthrough()

    @word
    def bytes(self) -> Bytes:
        """Give the stored bytes of an image, text or bytes column, as a list of `bytes`."""
        return Bytes()

    @word
    def text(self, encoding: str = "utf-8") -> Text:
        """Give a list of `str`; bytes that are not in `encoding` are an error."""
        try:
            " ".encode(encoding)  # more than a look-up: "hex" is a codec, and none of text
        except (LookupError, TypeError):
            raise BadArgumentError(f"Python knows no encoding {encoding!r}: utf-8, latin-1, utf-16 …") from None
        return Text(encoding)

    @word
    def json(self) -> Json:
        """Give a list of the Python objects that the stored JSON describes."""
        return Json()

    @word
    def npy(self, dtype: str | None = None, shape: tuple[int | None, ...] | None = None) -> Npy:
        """Read a NumPy file (.npy); with dtype and shape given, which are checked, a batch is one array."""
        return Npy(None if dtype is None else a_dtype(dtype), None if shape is None else a_shape("shape", shape))

    @word
    def scalar(self, dtype: str) -> Scalar:
        """Give a number column as an array (n,) of `dtype`; a number that doesn't fit is an error."""
        return Scalar(a_dtype(dtype))

    @word
    def array(self, dtype: str, shape: tuple[int | None, ...]) -> Array:
        """Read raw bytes (little-endian, C order) or a list of numbers as an array.

        Args:
            dtype: Of the bytes, or what the list's numbers become.
            shape: Of each sample. One size may be None, and then samples come as a list of arrays.
        """
        sizes = a_shape("shape", shape)
        if sizes.count(None) > 1:
            raise BadArgumentError(f"only one size of an array can be None, got {shape!r}")
        return Array(a_dtype(dtype), sizes)

    @word
    def one_hot(self, classes: int) -> OneHot:
        """Make float32 (classes,) of a class id: 1 at the id, 0 elsewhere; an id outside is an error."""
        return OneHot(an_int("classes", classes))

    @word
    def python(
        self,
        fn: Callable[..., Any],
        schema: str | tuple[str, tuple[int | None, ...]],
        *,
        random: bool = False,
        timeout: float | None = 60.0,
        version: int = 1,
    ) -> Python:
        """Call a function on a worker thread: fn(value), under the GIL.

        Args:
            fn: Gets the value so far: an array, number, str, bytes or object.
            schema: What it returns, which is checked: ("float32", (3, 224, 224)), "int64" for a number, or "object".
                A size may be None, and then samples come as a list of arrays.
            random: Call fn(value, rng), with a numpy Generator that follows from seed, epoch and position alone.
            timeout: Seconds a call may take before the batch is an error; None: any time.
            version: Raise it when the function changes, so that describe() does too.
        """
        dtype, shape = _schema(schema)
        seconds = None if timeout is None else a_number("timeout", timeout, least=0.001)
        return Python(
            a_function(fn), dtype, shape, a_flag("random", random), seconds, an_int("version", version, least=0)
        )


def _schema(schema: object) -> tuple[str | None, tuple[int | None, ...] | None]:
    if schema == "object":
        return None, None
    if isinstance(schema, tuple):
        if len(schema) != 2:
            raise BadArgumentError(f"a schema is (dtype, shape), a dtype or 'object', got {schema!r}")
        return a_dtype(schema[0]), a_shape("shape", schema[1])
    return a_dtype(schema, also=("object",)), ()
