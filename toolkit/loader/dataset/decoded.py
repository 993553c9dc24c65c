"""Read media that are stored decoded (encoding raw): their sizes, or the arrays where they were fetched to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolkit._native.shards.fetch import FetchBuffer
from toolkit.errors import SampleError
from toolkit.format.layout import leaf_name
from toolkit.loader.dataset.fetch import Fetcher
from toolkit.loader.dataset.located import Located, Variable
from toolkit.pipelines.media import Held

__all__ = ["DecodedColumn", "Sizes"]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Shapes of n arrays: int64 (n, axes), and bool (n,) where there is none."""

    shapes: NDArray[np.int64]
    missing: NDArray[np.bool_]

    def shape(self, i: int) -> tuple[int, ...]:
        """Return the shape of array `i`."""
        return tuple(self.shapes[i].tolist())


class DecodedColumn:
    """A column whose values are arrays: uint8 (height, width, 3) of an image. Stateless; used by every worker at once.

    Attributes:
        leaf: The name of the leaf with the arrays' numbers.
    """

    def __init__(self, fetcher: Fetcher, column: str, held: Held) -> None:
        """`held` is stored decoded."""
        form = held.form
        self._fetcher = fetcher
        self._column = column
        self._medium = held.medium
        self._typestr = np.dtype(form.dtype).str
        self._sizes = [
            (leaf_name(column, name), np.dtype(form.type.field(name).type.to_pandas_dtype())) for name in form.sizes
        ]
        self.leaf = leaf_name(column, form.payload)

    def sizes(self, located: Located) -> Sizes:
        """Read the sizes and not one number of the arrays. Raises CorruptShardError."""
        rows = len(located.rows)
        shapes, missing = np.empty((rows, len(self._sizes)), np.int64), np.zeros(rows, np.bool_)
        for axis, (leaf, dtype) in enumerate(self._sizes):
            stored = np.empty(rows, dtype)
            missing |= self._fetcher.fixed(leaf, located, stored.view(np.uint8))
            shapes[:, axis] = stored
        return Sizes(shapes, missing)

    def payloads(self, located: Located, buffer: FetchBuffer) -> Variable:
        """Fetch the numbers of arrays, one behind the other, into `buffer`. Raises CorruptShardError."""
        return self._fetcher.variable(self.leaf, located, buffer)

    def arrays(self, located: Located, payloads: Variable) -> Iterator[NDArray[Any] | None]:
        """Yield each array, or None where it is missing.

        They are read-only and lie in the memory that `payloads` were fetched to, until its next use: copy what is to
        stay.

        Raises:
            CorruptShardError: A size isn't what was packed.
            SampleError: The numbers don't fit their size; they were packed so.
        """
        sizes = self.sizes(located)
        for i in range(len(located.rows)):
            nbytes = int(payloads.lengths[i])
            if nbytes < 0 or sizes.missing[i]:
                yield None
                continue
            fault = self._medium.sizes_fault(nbytes, sizes.shape(i))
            if fault is not None:
                place = self._fetcher.place(int(located.rows[i]))
                raise SampleError(
                    f"{place}, column {self._column}: {fault}. It was packed so: pack it again",
                    dataset=place.dataset,
                    shard=place.shard,
                    row=place.row,
                    key=place.key,
                    slot=self._column,
                    step="read",
                )
            yield np.asarray(_Fetched(payloads, i, sizes.shape(i), self._typestr))


class _Fetched:
    """A fetched value, for numpy to see as an array. Keeps the buffer alive."""

    def __init__(self, payloads: Variable, i: int, shape: tuple[int, ...], typestr: str) -> None:
        self._payloads = payloads
        address = int(payloads.addresses[i])
        self.__array_interface__ = {"data": (address, True), "shape": shape, "typestr": typestr, "version": 3}
