"""Rows that a user picks by numbers or by a mask, as he would of an array: ds[[2, -1]], ds[labels == 3]."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from toolkit.errors import UsageError
from toolkit.escapes import short

__all__ = ["picked_rows"]

_SHOWN = 80  # characters of a value that an error shows


def picked_rows(index: object, samples: int) -> NDArray[np.int64]:
    """Return the rows of 0..samples-1 that `index` picks, in its order: int64, of its own.

    Raises:
        UsageError: It is no list or array of whole numbers, and no mask.
        IndexError: There is no such row, or the mask has another length.
    """
    # Anything else would be taken for an array of one object: sets, dicts, generators.
    if isinstance(index, (str, bytes)) or not (isinstance(index, Sequence) or hasattr(index, "__array__")):
        raise _refused(index)
    try:
        given = np.asarray(index)
    except (ValueError, TypeError) as error:  # lists of several lengths; tensors on a GPU
        raise _refused(index) from error
    if given.ndim != 1 or (given.size and given.dtype.kind not in "biu"):
        raise _refused(index)
    if given.dtype.kind == "b":
        if len(given) != samples:
            raise IndexError(f"a mask of {len(given)} for {samples} samples: it takes one value for each sample")
        return np.flatnonzero(given).astype(np.int64, copy=False)
    # Compared as they are: unsigned numbers beyond int64 would wrap around.
    if given.size and not (int(given.min()) >= -samples and int(given.max()) < samples):
        wrong = next(int(row) for row in given.tolist() if not -samples <= row < samples)
        raise IndexError(f"sample {wrong} of {samples}")
    rows = given.astype(np.int64)
    rows[rows < 0] += samples
    return rows


def _refused(index: object) -> UsageError:
    return UsageError(
        "a dataset takes a row, a slice, the name of a column, or one list or array of rows or of True and False: "
        f"got {short(index, _SHOWN, quoted=True)}"
    )
