"""Find the samples of an image folder: their splits, keys, labels and sizes.

Lists what to pack; opens no image, writes nothing, and leaves what to do about rejects to whoever packs.
"""

from __future__ import annotations

import enum
import os
import re
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolkit.errors import NotFoundError, SourceError, UsageError, did_you_mean
from toolkit.sources.classes import check_class_names, read_classes
from toolkit.sources.reject import Reject
from toolkit.sources.scan import (
    IMAGE_EXTENSIONS,
    Entry,
    Found,
    Met,
    folder_id,
    holds_image,
    is_utf8,
    list_folder,
    printable,
    source_folder,
    walk_images,
)

if TYPE_CHECKING:
    from toolkit.sources.entries import Entries, Listed

__all__ = [
    "Entry",
    "ImageFolderOptions",
    "LabelMode",
    "Scan",
    "looks_like_imagefolder",
    "read_classes",
    "scan_imagefolder",
]

SPLIT_FOLDERS = ("train", "val", "valid", "validation", "test")
DEFAULT_SPLIT = "train"

_SPLIT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


class LabelMode(enum.Enum):
    """Where labels come from."""

    AUTO = "auto"
    """From class folders if one of them holds an image, else no labels."""

    NONE = "none"
    """No labels, however the images are nested."""

    IMAGEFOLDER = "imagefolder"
    """From class folders, and there must be one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageFolderOptions:
    """How to read an image folder.

    Attributes:
        label_mode: Where labels come from.
        require_labels: Refuse images that lie in no class folder instead of giving them no label.
        classes: The whole class map in id order, or None for the sorted names of the class folders.
        split: With split folders, the only one to take; without, what to call the one split ("train").
        limit: At most this many samples of each split, the first in order. Images behind the last one taken
            are not reported as rejects either; classes still come from the whole folder.
    """

    label_mode: LabelMode = LabelMode.AUTO
    require_labels: bool = False
    classes: tuple[str, ...] | None = None
    split: str | None = None
    limit: int | None = None

    def __post_init__(self) -> None:
        if self.label_mode is LabelMode.NONE and (self.require_labels or self.classes is not None):
            asked = "require_labels" if self.require_labels else "classes"
            raise UsageError(f"{asked} asks for labels and label_mode 'none' for none: leave one of them out.")
        if self.split is not None and not _SPLIT_NAME.fullmatch(self.split):
            raise UsageError(
                f"{self.split!r} can't name a split: use letters, digits, '_', '.' and '-', "
                "beginning with a letter or digit."
            )
        if self.limit is not None and self.limit < 1:
            raise UsageError(f"limit is {self.limit}, it must be at least 1; leave it out to take all.")
        if self.classes is not None:
            check_class_names(self.classes, where="classes", unit="id", first=0)


@dataclass(frozen=True, slots=True)
class Scan:
    """What an image folder holds.

    Attributes:
        splits: Images of each split, sorted by the parts of their keys in code point order; splits in the
            order train, val, valid, validation, test. A split folder without images has none.
        classes: The class map of all splits in id order, or None for a dataset without labels.
        skipped_hidden: Hidden files and folders passed over; a folder counts once.
        skipped_not_images: Files passed over because their extension isn't an image's.
        skipped_loops: Links to a folder they lie in, not followed.
        rejects: Image files that can't be packed.
    """

    splits: dict[str, Entries]
    classes: tuple[str, ...] | None
    skipped_hidden: int
    skipped_not_images: int
    skipped_loops: int
    rejects: list[Reject]


_DEFAULTS = ImageFolderOptions()


def scan_imagefolder(root: str | os.PathLike[str], options: ImageFolderOptions = _DEFAULTS) -> Scan:
    """List the images to pack below a folder.

    Split folders exist if every folder directly in `root` is called train, val, valid, validation or test.
    Class folders lie directly in `root`, or in a split folder; a class's id is its index among the sorted
    names of all class folders of all splits. As in torchvision, except that empty class folders are classes
    (torchvision refuses them), images outside class folders have no label (it passes over them), and hidden
    names are passed over. Names differing only in Unicode normalisation are different classes, as there.

    Raises:
        NotFoundError: `root` or the split asked for isn't there.
        UsageError: `root` is not a folder.
        SourceError: There is no image, images lie beside split folders, or labels can't be given as asked.
        StorageError: Something below `root` can't be read.
    """
    base = source_folder(root)
    top = list_folder(base)
    split_folders = _split_folders(base, top, options.split)
    met, found = _walk(base, top, split_folders, options.split)
    if not met.lost and not any(map(len, found.values())):
        raise SourceError(_no_images(base, split_folders, met))

    classes = None
    if _is_labelled(base, met, found, options):
        classes = _class_map(base, top.folders if split_folders else [], met, found, options)
    if options.require_labels:
        _check_all_labelled(base, found, classes)

    rejects = [_reject(item) for item in met.lost]
    ids = None if classes is None else {name: number for number, name in enumerate(classes)}
    splits = {split: _take(items, ids, options.limit, rejects) for split, items in found.items()}
    return Scan(splits, classes, met.hidden, met.not_images, met.loops, rejects)


def looks_like_imagefolder(root: str | os.PathLike[str]) -> bool:
    """Tell whether `root` is a folder with an image file somewhere below, stopping at the first.

    Raises:
        StorageError: A folder that had to be looked into can't be read.
    """
    name = os.fsdecode(root)
    return os.path.isdir(name) and holds_image(os.path.abspath(name))


def _split_folders(base: str, top: Met, split: str | None) -> tuple[str, ...]:
    """Return the split folders to walk, in their order; () when folders at the top are no splits."""
    if not top.folders or not set(top.folders) <= set(SPLIT_FOLDERS):
        return ()
    here = tuple(name for name in SPLIT_FOLDERS if name in top.folders)
    shown = ", ".join(here)
    if split is not None:
        if split not in here:
            raise NotFoundError(f"{base!r} has no split folder {split!r}, only {shown}.{did_you_mean(split, here)}")
        return (split,)
    if top.images:
        raise SourceError(
            f"{base!r} has split folders ({shown}), but {top.first_image!r} lies beside them "
            f"({_count(top.images, 'image')} in all). Move it into a split folder, "
            "or take a single split folder with --split."
        )
    return here


def _walk(base: str, top: Met, split_folders: tuple[str, ...], split: str | None) -> tuple[Met, dict[str, Listed]]:
    from toolkit.sources.entries import Listed  # imports NumPy, and the command line this module

    if not split_folders:
        met = Met()
        return met, {split or DEFAULT_SPLIT: Listed(base, walk_images(base, met))}
    # What lies beside the split folders counts, unless only one of these was asked for.
    met = Met() if split else Met(top.hidden, top.not_images, top.loops, lost=top.lost)
    above = frozenset({folder_id(base)})
    found = {
        name: Listed(base, walk_images(os.path.join(base, name), met, prefix=f"{name}/", above=above))
        for name in split_folders
    }
    return met, found


def _no_images(base: str, split_folders: tuple[str, ...], met: Met) -> str:
    where = os.path.join(base, split_folders[0]) if len(split_folders) == 1 else base
    skipped = [
        _count(met.hidden, "hidden name"),
        _count(met.not_images, "file") + " with other extensions",
        _count(met.loops, "link") + " back to a folder above",
    ]
    return (
        f"No images below {where!r}; passed over {', '.join(skipped)}. "
        f"Image extensions are {' '.join(IMAGE_EXTENSIONS)}. Give the folder that holds the images, "
        "and rename files that are images under another extension."
    )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _is_labelled(base: str, met: Met, found: dict[str, Listed], options: ImageFolderOptions) -> bool:
    if options.label_mode is LabelMode.NONE:
        return False
    # A class map is only given by someone who expects labels.
    if options.label_mode is LabelMode.IMAGEFOLDER or options.classes is not None:
        if not met.folders:
            raise SourceError(
                f"{base!r} has images but no class folder to take labels from. Put the images of each class "
                "in a folder named after it, or pack without labels (--label-mode none, no --classes)."
            )
        return True
    return any(items.in_folders for items in found.values())


def _class_map(
    base: str,
    siblings: list[str],
    met: Met,
    found: dict[str, Listed],
    options: ImageFolderOptions,
) -> tuple[str, ...]:
    names = set(met.folders)
    if options.classes is None and options.split is not None:
        # A split packed alone gets the ids it has beside the others: one map for all of them.
        above = frozenset({folder_id(base)})
        for split in siblings:
            names.update(list_folder(os.path.join(base, split), above=above).folders)
    for name in sorted(names):
        if not is_utf8(name):
            raise SourceError(
                f"The class folder {os.fsencode(name)!r} in {base!r} has a name that is not valid UTF-8. "
                "Rename it, or pack without labels (--label-mode none)."
            )
    if options.classes is None:
        return tuple(sorted(names))
    known = set(options.classes)
    for name in sorted(names - known):
        raise SourceError(_unknown_class(base, name, found, options.classes))
    return options.classes


def _unknown_class(base: str, name: str, found: dict[str, Listed], classes: tuple[str, ...]) -> str:
    held = sum(items.count(name) for items in found.values())
    twin = next((one for one in classes if _composed(one) == _composed(name)), None)
    if twin is None:
        hint = did_you_mean(name, classes)
    else:
        hint = f" {twin!a} is the same text as {name!a} in another Unicode normalisation."
    return (
        f"The class folder {name!r} ({_count(held, 'image')}) in {base!r} is not among the "
        f"{_count(len(classes), 'name')} of the class map.{hint} Add it behind the last name, "
        "or rename the folder."
    )


def _composed(name: str) -> str:
    return unicodedata.normalize("NFC", name)


def _check_all_labelled(base: str, found: dict[str, Listed], classes: tuple[str, ...] | None) -> None:
    bare = [key for items in found.values() for key in items.bare(everything=classes is None)]
    if bare:
        raise SourceError(
            f"{_count(len(bare), 'image')} in {base!r} without a label, the first is {bare[0]!r}, and labels "
            "are required. Move such images into class folders, or leave out --require-labels."
        )


def _take(items: Listed, ids: dict[str, int] | None, limit: int | None, rejects: list[Reject]) -> Entries:
    rejects += (_reject(one) for before, one in items.lost if limit is None or before < limit)
    return items.entries(ids)[:limit]


def _reject(item: Found) -> Reject:
    return Reject(printable(item.path), printable(item.key), item.reason or "")
