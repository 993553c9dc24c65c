"""Find the samples of an image folder: their splits, keys, labels and sizes.

Lists what to pack; opens no image, writes nothing, and leaves what to do about rejects to whoever packs.
"""

from __future__ import annotations

import itertools
import os
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from toolkit.errors import SourceError, UsageError, did_you_mean
from toolkit.sources.files import stays_within
from toolkit.sources.images import IMAGE_EXTENSIONS, is_image
from toolkit.sources.kinds.imagefolder.doubts import class_doubts, table_doubts
from toolkit.sources.kinds.imagefolder.entries import Entries, Listed
from toolkit.sources.kinds.imagefolder.found import Entry, Found, FoundFiles
from toolkit.sources.kinds.imagefolder.split_folders import SplitFolders, check_mapping, mapped, named, refuse_mixed
from toolkit.sources.kinds.imagefolder.walk import FolderId, Met, folder_id, list_folder, walk_files
from toolkit.sources.labels import check_label_options
from toolkit.sources.names import is_utf8, printable
from toolkit.sources.options import LabelMode
from toolkit.sources.patterns import Patterns
from toolkit.sources.places import source_folder
from toolkit.sources.reject import Reject
from toolkit.sources.skips import Skips
from toolkit.sources.splits import DEFAULT_SPLIT, check_name
from toolkit.storage.files import storage_errors

__all__ = ["Entry", "ImageFolderOptions", "Scan", "scan_imagefolder"]


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
        splits: Split -> its folders, below the source: only these are taken. Found by their names when empty.
        follow_links: Follow links that lead out of the folder; what they lead to is rejected otherwise.
        include, exclude: Glob patterns on keys; see toolkit.sources.patterns. A folder whose images are all left
            out by them is no class.
        empty_too: Files of no bytes are samples: whoever reads them finds out that they are none.
    """

    label_mode: LabelMode = LabelMode.AUTO
    require_labels: bool = False
    classes: tuple[str, ...] | None = None
    split: str | None = None
    limit: int | None = None
    splits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    follow_links: bool = False
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    empty_too: bool = False

    def __post_init__(self) -> None:
        check_label_options(self.label_mode, require_labels=self.require_labels, classes=self.classes)
        if self.split is not None:
            check_name(self.split)
        check_mapping(self.splits)
        if self.limit is not None and self.limit < 1:
            raise UsageError(f"limit is {self.limit}, it must be at least 1; leave it out to take all.")


@dataclass(frozen=True, slots=True)
class Scan:
    """What an image folder holds.

    Attributes:
        splits: Images of each split, sorted by the parts of their keys in code point order; splits in the
            order train, val, valid, validation, test. A split folder without images has none.
        classes: The class map of all splits in id order, or None for a dataset without labels.
        skipped: How much was passed over, by the reasons that toolkit.sources.kinds.imagefolder.walk.Met names.
        skipped_names: The first names of each reason; of `excluded` too.
        rejects: Image files that can't be packed.
        excluded: Images left out by the patterns.
        left_out: Names beside mapped split folders, which are not taken; folders with "/" behind them.
        doubts: What is doubtful about class names, and about tables that aren't read, for people.
    """

    splits: dict[str, Entries]
    classes: tuple[str, ...] | None
    skipped: Mapping[str, int]
    skipped_names: Mapping[str, tuple[str, ...]]
    rejects: list[Reject]
    excluded: int = 0
    left_out: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()


class _Chosen:
    """Lets through the images whose keys the patterns take; knows which folders have some, and which had."""

    def __init__(self, options: ImageFolderOptions) -> None:
        self.patterns = Patterns(options.include, options.exclude)
        self.skips = Skips(("excluded",))
        self._kept: set[str | None] = set()
        self._left_out: set[str | None] = set()

    @property
    def excluded(self) -> int:
        return self.skips.counts["excluded"]

    def of(self, found: Iterable[Found | FoundFiles]) -> Iterable[Found | FoundFiles]:
        return self._of_each(found) if self.patterns else found

    def _of_each(self, found: Iterable[Found | FoundFiles]) -> Iterator[Found]:
        for one in itertools.chain.from_iterable([one] if isinstance(one, Found) else one.each() for one in found):
            if self.patterns.takes(one.key):
                self._kept.add(one.folder)
                yield one
            else:
                self.skips.add("excluded", one.key)
                self._left_out.add(one.folder)

    def is_class(self, folder: str) -> bool:
        """Tell whether a class folder that was walked is one all the same."""
        return folder in self._kept or folder not in self._left_out


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
    chosen = _Chosen(options)
    top = list_folder(base)
    folders = [name for name in top.folders if chosen.patterns.may_take_below(name)]
    splits = _split_folders(base, top, folders, options, chosen.patterns)
    for name in () if splits is None or options.splits else sorted({*top.folders} - {*folders}):
        chosen.skips.add("excluded", name)  # beside split folders, so it isn't walked
    met, found = _walk(base, top, splits, options, chosen)
    if not met.lost and not any(map(len, found.values())):
        raise SourceError(_no_images(base, splits, met, chosen.excluded))

    classes: tuple[str, ...] | None = None
    doubts: tuple[str, ...] = ()
    if _is_labelled(base, met, found, options):
        classes = _class_map(base, splits, met, found, options, chosen)
        doubts = class_doubts(classes) if options.classes is None else ()
    if options.require_labels:
        _check_all_labelled(base, found, classes)
    rejects = [_reject(item) for item in met.lost]
    ids = None if classes is None else {name: number for number, name in enumerate(classes)}
    return Scan(
        splits={split: _take(items, ids, options.limit, rejects) for split, items in found.items()},
        classes=classes,
        skipped=met.skips.counts,
        skipped_names={**met.skips.names, **chosen.skips.names},
        rejects=rejects,
        excluded=chosen.excluded,
        left_out=() if splits is None else splits.left_out,
        doubts=(*doubts, *table_doubts(met.skips.names.get("annotations", ()), chosen.patterns)),
    )


def _split_folders(
    base: str, top: Met, folders: list[str], options: ImageFolderOptions, patterns: Patterns
) -> SplitFolders | None:
    """Return the split folders to walk; None when folders at the top are no splits."""
    if options.splits:
        return mapped(base, options.splits, options.split)
    splits = named(base, folders, options.split)
    if splits is None:
        refuse_mixed(base, folders, options.split, options.classes)
        return None
    if top.images and options.split is None and (beside := _images_beside(base, patterns)):
        raise SourceError(
            f"{base!r} has split folders ({', '.join(splits.all)}), but {beside[0]!r} lies beside them "
            f"({_count(len(beside), 'image')} in all). Move it into a split folder, "
            "or take a single split folder with --split."
        )
    return splits


def _images_beside(base: str, patterns: Patterns) -> list[str]:
    """Return the names of the images directly in the source that the patterns take."""
    with storage_errors("read", base), os.scandir(base) as entries:
        names = sorted(one.name for one in entries if not one.is_dir())
    return [
        name
        for name in names
        if not name.startswith(".") and patterns.takes(name) and is_image(os.path.join(base, name))
    ]


def _walk(
    base: str, top: Met, splits: SplitFolders | None, options: ImageFolderOptions, chosen: _Chosen
) -> tuple[Met, dict[str, Listed]]:
    stays = (lambda _: True) if options.follow_links else stays_within([os.path.realpath(base)])
    if splits is None:
        met = Met()
        found = walk_files(base, met, stays=stays, empty_too=options.empty_too)
        return met, {options.split or DEFAULT_SPLIT: Listed(base, chosen.of(found))}
    # What lies beside the split folders counts, unless only some were asked for.
    some = options.split is not None or bool(options.splits)
    lost = [one for one in top.lost if chosen.patterns.takes(one.key)]
    met = Met() if some else Met(top.skips, lost=lost)
    listed = {}
    for split, folders in splits.chosen.items():
        for name in folders:
            if not stays(os.path.join(base, name)):
                raise SourceError(
                    f"the split folder {printable(name)!r} in {base!r} is a link that leads out of the source, to "
                    f"{printable(os.path.realpath(os.path.join(base, name)))!r}: give --follow-links if that is meant"
                )
        walks = (
            walk_files(
                os.path.join(base, name),
                met,
                prefix=f"{name}/",
                above=_above(base, name),
                stays=stays,
                empty_too=options.empty_too,
            )
            for name in folders
        )
        listed[split] = Listed(base, chosen.of(itertools.chain.from_iterable(walks)))
    return met, listed


def _above(base: str, folder: str) -> frozenset[FolderId]:
    """Return the folders that a link below `folder` must not lead back to."""
    parts = folder.split("/")[:-1]
    return frozenset(folder_id(os.path.join(base, *parts[:depth])) for depth in range(len(parts) + 1))


def _no_images(base: str, splits: SplitFolders | None, met: Met, excluded: int) -> str:
    walked = [] if splits is None else [folder for folders in splits.chosen.values() for folder in folders]
    where = os.path.join(base, walked[0]) if len(walked) == 1 else base
    if excluded:
        return (
            f"No images below {where!r} are left: --include and --exclude leave out all {_count(excluded, 'image')}. "
            "Patterns are for paths below SOURCE, as in --include 'cat/*.jpg'."
        )
    counts = met.skips.counts
    skipped = [
        _count(counts["hidden"], "hidden name"),
        _count(counts["not_images"] + counts["annotations"], "file") + " with other extensions",
        _count(counts["loops"], "link") + " back to a folder above",
    ]
    return (
        f"No images below {where!r}; passed over {', '.join(skipped)}. "
        f"Image extensions are {' '.join(IMAGE_EXTENSIONS)}. Files of other names are images when they begin as one. "
        "Give the folder that holds the images."
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
    splits: SplitFolders | None,
    met: Met,
    found: dict[str, Listed],
    options: ImageFolderOptions,
    chosen: _Chosen,
) -> tuple[str, ...]:
    names = {name for name in met.folders if chosen.is_class(name)}
    if splits is not None and options.classes is None and options.split is not None:
        # A split packed alone gets the ids it has beside the others: one map for all of them.
        for folder in (folder for folders in splits.all.values() for folder in folders):
            below = list_folder(os.path.join(base, folder), above=_above(base, folder)).folders
            names.update(name for name in below if chosen.patterns.may_take_below(f"{folder}/{name}"))
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
