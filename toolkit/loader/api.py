"""What training code begins with: open a dataset, then take samples, loaders and token streams from it."""

from __future__ import annotations

import importlib
import os
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from toolkit.errors import CorruptTableError, NotFoundError, UsageError, did_you_mean
from toolkit.escapes import listed, short
from toolkit.format.pin import Version, resolve
from toolkit.format.reader import Verify
from toolkit.format.references import REFERENCES, root_names
from toolkit.format.schema import derived_columns
from toolkit.loader.dataset import verbs
from toolkit.loader.dataset.opened import Opened
from toolkit.loader.dataset.selection import Span
from toolkit.loader.dataset.views import view_hash
from toolkit.loader.options.fronts import LOADER, SAMPLES, STREAM
from toolkit.storage.memory import MemoryStore
from toolkit.storage.roots import GivenRoots, RootsOption, check_roots

if TYPE_CHECKING:
    from toolkit.loader.dry_run import DryRun
    from toolkit.loader.loader import Loader
    from toolkit.loader.options.keywords import LoaderKeywords, SamplesKeywords, StreamKeywords
    from toolkit.loader.tokens.stream import TokenStream
    from toolkit.pipelines.pipeline import Pipeline

__all__ = ["Dataset", "check_columns", "open"]

_PUBLIC = (
    "class_names",
    "classes",
    "column",
    "columns",
    "dry_run",
    "files",
    "filter",
    "is_view",
    "keys",
    "loader",
    "manifest",
    "open_split",
    "pack",
    "pin",
    "pins",
    "rename",
    "repeat",
    "root",
    "roots",
    "schema",
    "select",
    "sort",
    "split",
    "split_by",
    "take",
    "to_arrow",
    "to_hf",
    "to_pandas",
    "to_polars",
    "to_torch",
    "tokens",
    "train_test_split",
    "verified",
    "view",
    "with_key",
)

_SHOWN = 80  # characters of a value that an error shows


@overload
def open(  # type: ignore[overload-overlap]  # "*" is a text as well, and no split is called so
    reference: str | os.PathLike[str] | Version,
    *,
    split: Literal["*"],
    columns: Sequence[str] | None = None,
    verify: Literal["touch", "always"] = "touch",
    roots: RootsOption | None = None,
) -> dict[str, Dataset]: ...
@overload
def open(
    reference: str | os.PathLike[str] | Version,
    *,
    split: str | None = None,
    columns: Sequence[str] | None = None,
    verify: Literal["touch", "always"] = "touch",
    roots: RootsOption | None = None,
) -> Dataset: ...
def open(
    reference: str | os.PathLike[str] | Version,
    *,
    split: str | None = None,
    columns: Sequence[str] | None = None,
    verify: Literal["touch", "always"] = "touch",
    roots: RootsOption | None = None,
) -> Dataset | dict[str, Dataset]:
    """Open a version of a dataset: a folder or manifest file, with or without a pin (PATH@sha256:<hex>).

    Args:
        reference: The dataset. A plain path is the current version; a pin, or 12 or more of its digits, is that one.
            Or a version that was found already.
        split: Which split. May be left out when there is only one; "*" gives all of them, a dict by name.
        columns: The columns to read; when left out, all but derived ones, such as "__image.width__".
        verify: When stored bytes are checked against their CRC32C: "touch" as they are first read, and anew when the
            file may have changed since; "always" at every read.
        roots: Of a dataset that refers to files: the folder that they lie in, or a folder for each root by its name.
            Needed where they moved, or where somebody else made the dataset.

    Raises:
        NotFoundError: There is no such dataset, split or column; the message names those that are there.
        PinMismatchError: No version has the pin, or the manifest was changed after it was packed.
        CorruptTableError, FormatError: A table is damaged, or the dataset is of a newer format.
    """
    check_columns(columns)
    if split is not None and not isinstance(split, str):
        raise UsageError(f"split must be a text, got {short(split, _SHOWN, quoted=True)}")
    checks = Verify.named(verify)
    version = reference if isinstance(reference, Version) else resolve(reference)
    splits = version.manifest.splits
    if not splits:
        raise CorruptTableError(f"the manifest of {reference} has no splits")
    if split is None and len(splits) > 1:
        raise UsageError(f'{reference} has the splits {listed(splits)}: say split=, or split="*" for all of them')
    name = next(iter(splits)) if split in (None, "*") else split
    if name not in splits:
        raise NotFoundError(
            f"{reference} has no split {short(name, _SHOWN, quoted=True)}; it has {listed(splits)}."
            f"{did_you_mean(name, splits)}"
        )
    known = [column.name for column in version.manifest.columns]
    derived = [one.name for one in version.manifest.derived]
    for column in columns or ():
        if column not in known and column not in derived:
            made = f", and derived of them {listed(derived, 64)}" if derived else ""
            raise NotFoundError(
                f"{reference} has no column {short(column, _SHOWN, quoted=True)}; it has {listed(known, 64)}{made}."
                f"{did_you_mean(column, [*known, *derived])}"
            )
    given = check_roots(roots, version.store, root_names(version.manifest.options))
    if given is not None and REFERENCES not in version.manifest.requires:
        raise UsageError(f"{reference} holds all its values: roots= is for datasets that refer to files")
    if split == "*":
        return {one: _opened(version, one, columns, checks, given) for one in splits}
    return _opened(version, name, columns, checks, given)


def _opened(
    version: Version, split: str, columns: Sequence[str] | None, checks: Verify, roots: GivenRoots | None
) -> Dataset:
    opened = Opened(version, split, checks, roots)
    selected = version.manifest.columns
    if columns is not None:
        readable = (*selected, *derived_columns(version.manifest.derived, opened.schema))
        selected = tuple(c for c in readable if c.name in columns)
    return Dataset(opened, selected, Span(opened.rows, 0, 1), view_hash("split", version.pin, split))


def check_columns(columns: object) -> None:
    """Raise UsageError for what is no list of names, and not None."""
    if isinstance(columns, str):
        name = short(columns, _SHOWN, quoted=True)
        raise UsageError(f"columns takes a list of names, got the text {name}: columns=[{name}]")
    if columns is not None and not (isinstance(columns, Collection) and all(isinstance(name, str) for name in columns)):
        raise UsageError(f"columns takes a list of names, got {short(columns, _SHOWN, quoted=True)}")


class Dataset(verbs.Dataset):
    """A split of a dataset, or a view of it: toolkit.loader.dataset.dataset.Dataset, and loaders over its samples."""

    def __dir__(self) -> list[str]:
        """List what is public, for completion: the rest is for rooms of toolkit that read for their users."""
        return list(_PUBLIC)

    def open_split(self, split: str) -> Dataset:
        """Return another split of the very same version, whatever was committed since this one was opened."""
        opened = self._only("other splits")
        other, names = open(opened.version, split=split, roots=opened.roots.option), opened.names
        renamed = other.rename(dict(names.changed))
        keyed = renamed if names.key is None else renamed.with_key(names.key)
        return keyed.select([column.name for column in self.columns])

    @LOADER.documented
    def loader(self, pipeline: Pipeline | None = None, **options: Unpack[LoaderKeywords]) -> Loader:
        """Return a loader over these samples; toolkit.loader.options.keywords declares the options.

        Raises:
            UsageError, PipelineError: An option, or a slot of the pipeline, can't be; no sample is read yet.
        """
        from toolkit.loader.loader import Loader
        from toolkit.loader.options.loader import LoaderOptions

        return Loader(self, pipeline, LoaderOptions(options))

    @STREAM.documented
    def tokens(self, **options: Unpack[StreamKeywords]) -> TokenStream:
        """Return a stream of windows over this split's tokens; toolkit.loader.options.keywords declares the options.

        Raises:
            UsageError: An option can't be, the dataset has no tokens, or it isn't one whole split.
            CorruptShardError: With pack=: a length can't be read. Nothing else is read yet.
        """
        from toolkit.loader.tokens.options import stream_options
        from toolkit.loader.tokens.stream import TokenStream

        return TokenStream(self, stream_options(options))

    def pack(self, dataset: str | os.PathLike[str], **options: Any) -> Any:
        """Make a lasting dataset of all that was opened at once: pack the same source with the same options.

        Args:
            dataset: Folder to make.
            options: Further options, as toolkit.pack() takes them.

        Returns:
            toolkit.PackResult, as toolkit.pack() does.

        Raises:
            UsageError: This is a view, or the dataset lasts already.
            ToolkitError: As toolkit.pack().
        """
        store = self._only("source").version.store
        if not isinstance(store, MemoryStore) or store.origin is None:
            raise UsageError(f"the dataset {self.root!r} is packed already: copy its folder")
        if self.is_view:
            raise UsageError(f"this is a view, and what is packed is all of {store.origin}: pack the dataset itself")
        return store.origin.pack(store, dataset, options)

    @SAMPLES.documented
    def to_torch(self, pipeline: Pipeline | None = None, **options: Unpack[SamplesKeywords]) -> Any:
        """Return a toolkit.torch.Dataset of these samples, for torch.utils.data.DataLoader: a dict of tensors by row.

        Raises:
            UsageError, PipelineError: An option, or a slot of the pipeline, can't be; no sample is read yet.
        """
        return importlib.import_module("toolkit.torch").Dataset(self, pipeline, **options)

    def dry_run(self, pipeline: Pipeline, samples: int = 8) -> DryRun:
        """Run the first samples through a pipeline, one by one: what its slots give, and errors by key."""
        from toolkit.loader.dry_run import dry_run

        return dry_run(self, pipeline, samples)
