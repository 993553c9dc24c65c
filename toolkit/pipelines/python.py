"""The step that calls a function of the user's own: python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from toolkit.escapes import short
from toolkit.pipelines import fields
from toolkit.pipelines.arrays import convert_numbers, owned_array, plain_array
from toolkit.pipelines.check import BadArgumentError, a_dtype, a_function, a_shape
from toolkit.pipelines.functions import function_identity, function_name
from toolkit.pipelines.pixels import Pixels
from toolkit.pipelines.randomness import generator
from toolkit.pipelines.registry import register
from toolkit.pipelines.state import Layout, Shape, State, ValueKind
from toolkit.pipelines.step import call_text, plain
from toolkit.pipelines.value_step import Call, ValueFaultError, Values, ValueStep

__all__ = ["Python"]


@register
class Python(ValueStep):
    """Call a function on a worker thread: fn(value), under the GIL.

    Args:
        fn: Gets the value so far: an array, number, str, bytes or object.
        schema: What it returns, which is checked: ("float32", (3, 224, 224)), "int64" for a number, or "object".
            A size may be None, and then samples come as a list of arrays. toolkit.pixels() says that it returns an
            image, which every step on images takes.
        random: Call fn(value, rng), with a numpy Generator that follows from seed, epoch and position alone.
        timeout: Seconds a call may take before the batch is an error; None: any time.
        version: Raise it when the function changes, so that describe() does too.
        name: What it draws by with `random`, in place of its number among those that have no name.
    """

    word = "python"
    limits = frozenset({"timeout"})
    is_slow = True
    fn: Callable[..., Any]
    dtype: str | None  # None: any object
    shape: Shape | None  # of what it returns; a size None: any
    random: bool = fields.flag(False, keyword=True)
    timeout: float | None = fields.number(60.0, least=0.001, keyword=True, optional=True)
    version: int = fields.whole(1, least=0, keyword=True)
    name: str | None = fields.draw_name()
    layout: Layout | None = None  # of pixels: then steps on images may follow

    @classmethod
    def of(
        cls,
        fn: Callable[..., Any],
        schema: str | tuple[str, tuple[int | None, ...]] | Pixels,
        *,
        random: bool = False,
        timeout: float | None = 60.0,
        version: int = 1,
        name: str | None = None,
    ) -> Self:
        """Return the step with the schema taken apart."""
        if name is not None and not random:
            raise BadArgumentError("name is what it draws by: say random=True, too")
        layout: Layout | None = None
        if isinstance(schema, Pixels):
            dtype, shape, layout = schema.state.dtype, schema.state.shape, schema.state.layout
        else:
            dtype, shape = _schema(schema)
        return cls.checked(
            fn=a_function(fn),
            dtype=dtype,
            shape=shape,
            layout=layout,
            random=random,
            timeout=timeout,
            version=version,
            name=name,
        )

    def after(self, state: State) -> State:
        """Make what the schema says."""
        if self.dtype is None:
            return State(ValueKind.OBJECT)
        if self.layout is not None:
            return State(ValueKind.PIXELS, self.dtype, self.shape, self.layout)
        return State(ValueKind.SCALAR if self.shape == () else ValueKind.TENSOR, self.dtype, self.shape)

    def text(self) -> str:
        """Write the function by its name."""
        schema: object = "object"
        if self.layout is not None and self.shape is not None:
            height, width, channels = self.shape
            schema = Pixels(None if height is None or width is None else (height, width), channels or 0)
        elif self.dtype is not None:
            schema = self.dtype if self.shape == () else (self.dtype, self.shape)
        rest = call_text("", schema, **self.changed("random", "timeout", "version", "name"))
        return f"{self.word}({function_name(self.fn)}, {rest.removeprefix('(')}"

    def identity(self) -> list[object]:
        """Return what counts in describe(): of the function its module and name."""
        given = {name: getattr(self, name) for name in ("dtype", "shape", "random", "version")}
        return [type(self).__name__, {"fn": function_identity(self.fn), **given, **self._unusual()}]

    def _unusual(self) -> dict[str, object]:
        """Return what most pipelines, also those described before there was such a thing, say nothing of."""
        return {name: plain(value) for name, value in self.changed("layout", "name").items()}

    @property
    def draws(self) -> bool:
        """Whether the function gets a generator."""
        return self.random

    @property
    def runs(self) -> str:
        """What runs it, for explain()."""
        return "your function, under the GIL"

    def run(self, values: Values, call: Call) -> Values:
        """Call the function on each value."""
        drawn = call.keys.tolist() if self.random and call.keys is not None else []
        fixed = None if self.dtype is None or self.shape is None or None in self.shape else self.shape
        out: Values = [None] * len(values)
        if fixed is not None:
            out = np.empty((len(values), *(size or 0 for size in fixed)), self.dtype)
        for i, value in enumerate(values):
            call.watch.begin(i, call.text, self.timeout)
            try:
                result = self.fn(value, generator(drawn[i])) if self.random else self.fn(value)
            except Exception as error:
                raise ValueFaultError(i, f"{type(error).__name__}: {error}") from error
            finally:
                call.watch.end()
            if isinstance(result, np.ndarray):
                # One that is copied into a batch anyway needs no layout of its own.
                try:
                    result = owned_array(result) if fixed is None else plain_array(result)
                except ValueError as error:
                    raise ValueFaultError(i, f"it returned an array of which {error}") from error
            out[i] = result if self.dtype is None else self._checked(i, result)
        return out

    def _checked(self, i: int, result: Any) -> Any:
        wanted, shape = np.dtype(self.dtype), self.shape or ()
        if isinstance(result, (bool, int, float)) and not shape:
            whole = np.asarray(result)
            if whole.dtype.kind in "biuf":  # a Python int beyond 64 bits is an object
                made, bad, _ = convert_numbers(wanted, whole[None])
                if bad.any() or (whole.dtype.kind, wanted.kind) in (("f", "i"), ("f", "u"), ("i", "b"), ("f", "b")):
                    raise ValueFaultError(
                        i, f"it returned {short(result, 80, quoted=True)}, the schema says {wanted.name}"
                    )
                return made[0]
        if not isinstance(result, (np.ndarray, np.generic)):
            given = type(result).__name__
            raise ValueFaultError(i, f"it returned {given}, the schema says {wanted.name} {_sizes(shape)}")
        fits = len(result.shape) == len(shape) and all(
            size is None or size == got for size, got in zip(shape, result.shape, strict=True)
        )
        if result.dtype != wanted or not fits:
            given = f"{result.dtype.name} {result.shape}"
            raise ValueFaultError(i, f"it returned {given}, the schema says {wanted.name} {_sizes(shape)}")
        return result


def _schema(schema: object) -> tuple[str | None, Shape | None]:
    if isinstance(schema, str) and schema == "object":
        return None, None
    if isinstance(schema, tuple):
        if len(schema) != 2:
            raise BadArgumentError(
                f"a schema is (dtype, shape), a dtype or 'object', got {short(schema, 80, quoted=True)}"
            )
        return a_dtype(schema[0]), a_shape("shape", schema[1])
    return a_dtype(schema, also=("object",)), ()


def _sizes(shape: Sequence[int | None]) -> str:
    return "a number" if not shape else "(" + ", ".join("any" if size is None else str(size) for size in shape) + ")"
