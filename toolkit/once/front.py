"""toolkit.open: a dataset by its path, or what is none yet, at once."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from toolkit.errors import UsageError
from toolkit.loader import api
from toolkit.loader.api import Dataset
from toolkit.once.looks import names_dataset
from toolkit.storage.roots import RootsOption

if TYPE_CHECKING:
    from toolkit.once.keywords import SourceKeywords

__all__ = ["open"]


@overload
def open(
    reference: Any,
    *,
    split: Literal["*"],
    columns: Sequence[str] | None = None,
    verify: Literal["touch", "always"] = "touch",
    roots: RootsOption | None = None,
    pack: str | os.PathLike[str] | None = None,
    memory: int | str | None = None,
    **options: Unpack[SourceKeywords],
) -> dict[str, Dataset]: ...
@overload
def open(
    reference: Any,
    *,
    split: str | None = None,
    columns: Sequence[str] | None = None,
    verify: Literal["touch", "always"] = "touch",
    roots: RootsOption | None = None,
    pack: str | os.PathLike[str] | None = None,
    memory: int | str | None = None,
    **options: Unpack[SourceKeywords],
) -> Dataset: ...
def open(
    reference: Any,
    *,
    split: str | None = None,
    columns: Sequence[str] | None = None,
    verify: Literal["touch", "always"] = "touch",
    roots: RootsOption | None = None,
    pack: str | os.PathLike[str] | None = None,
    memory: int | str | None = None,
    **options: Unpack[SourceKeywords],
) -> Dataset | dict[str, Dataset]:
    """Open a dataset: a folder or manifest file, with or without a pin (PATH@sha256:<hex>); or at once what is none.

    A folder of images, a tar, a pattern as in "*.parquet", a list {000..099}, and whatever else toolkit.pack() takes,
    become a dataset in memory: images of folders stay where they are, other values are read. Order, keys and labels are
    those that a pack gives. See docs/in-place.md.

    Args:
        reference: The dataset. A plain path is the current version; a pin, or 12 or more of its digits, is that one. Or
            what toolkit.pack() takes: paths, a DataFrame, an Arrow table, a dataset of datasets or torch, records.
        split: Which split. May be left out when there is only one; "*" gives all of them, a dict by name.
        columns: The columns to read; when left out, all but derived ones, such as "__image.width__".
        verify: When stored bytes are checked against their CRC32C: "touch" as they are first read, and anew when the
            file may have changed since; "always" at every read.
        roots: Of a dataset that refers to files: the folder that they lie in, or a folder for each root by its name.
            Needed where they moved, or where somebody else made the dataset.
        pack: Of files that aren't packed: a folder, where they are packed at the first use and opened at later ones.
        memory: Of what isn't packed: bytes that may be read into memory, as in "2GiB"; if not given 1 GiB, or a quarter
            of the memory that is free, whichever is less.
        options: Of what isn't packed: options of its source, as toolkit.pack() has them; see
            toolkit.once.keywords.SourceKeywords.

    Raises:
        NotFoundError: There is no such dataset, split or column; the message names those that are there.
        PinMismatchError: No version has the pin, or the manifest was changed after it was packed.
        CorruptTableError, FormatError: A table is damaged, or the dataset is of a newer format.
        SourceError, RejectsError: What isn't packed can't be.
        ExistsError: With pack: that folder holds something else, or the files have changed since.
    """
    given = {name: value for name, value in options.items() if value is not None}
    if isinstance(reference, str | os.PathLike) and names_dataset(os.fsdecode(reference)):
        dataset = api.open(reference, split=split, columns=columns, verify=verify, roots=roots)
        late = [*given, *(name for name, value in (("pack", pack), ("memory", memory)) if value is not None)]
        if late:
            raise UsageError(f"{late[0]}= is for what isn't packed yet, and {os.fsdecode(reference)!r} is a dataset")
        return dataset
    api.check_columns(columns)
    if roots is not None:
        raise UsageError("roots= is for datasets that refer to files: what isn't packed yet is named itself")
    # Late: whoever opens a dataset needs nothing of what makes one.
    from toolkit.once.versions import made_version

    version = made_version(reference, columns, pack, memory, given)
    return api.open(version, split=split, columns=columns, verify=verify)
