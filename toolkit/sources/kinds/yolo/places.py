"""Find the pictures of a YOLO dataset, split by split, and the label file that belongs to each."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from toolkit.errors import NotFoundError, SourceError
from toolkit.sources.classes import read_classes
from toolkit.sources.contents import UnfitError, text_of
from toolkit.sources.files import walk
from toolkit.sources.images import IMAGE_EXTENSIONS
from toolkit.sources.kinds.yolo.config import Config, looks_like_config, read_config
from toolkit.sources.names import printable
from toolkit.sources.options import SourceOptions
from toolkit.sources.skips import Skips
from toolkit.sources.splits import DEFAULT_SPLIT, SPLIT_NAMES
from toolkit.sources.tables.listing import files_below, read_small, refuse_outside
from toolkit.storage.files import storage_errors

__all__ = ["IMAGES", "LABELS", "find_config", "is_yolo", "label_of", "pictures"]

IMAGES = "images"
LABELS = "labels"
_NAMES = ("classes.txt", "obj.names")
_MOST_LIST_BYTES = 256 * 1024 * 1024
_MOST_LOOKED_AT = 20  # label files, and folders of them
_LOOKED_AT_BYTES = 4096
_LINE = re.compile(rb"[0-9]+(?:[ \t]+[0-9.eE+-]+){4,}[ \t]*\r?\n?")


def is_yolo(root: str) -> bool:
    """Tell whether a folder is a YOLO dataset: by its YAML file, or by numbers in labels/ beside images/.

    Raises:
        StorageError: It can't be read.
    """
    with storage_errors("read", root):
        return bool(_configs(root)) or any(_holds_numbers(os.path.join(root, top, LABELS)) for top in _tops(root))


def find_config(options: SourceOptions) -> Config:
    """Return what is said of the dataset: by its YAML file, or by its folders and a list of class names.

    Raises:
        NotFoundError: A folder or list isn't there, or the split isn't.
        SourceError: It isn't such a dataset, or names something outside.
        StorageError: Something can't be read.
    """
    path = os.path.abspath(options.paths[0])
    if os.path.isfile(path):
        return read_config(path, options.root, options.split)
    with storage_errors("read", path):
        configs = _configs(path)
    if len(configs) > 1:
        raise SourceError(
            f"{printable(path)!r} has several YAML files of datasets: {', '.join(map(printable, configs))}. Give the "
            "one that is meant as SOURCE"
        )
    if configs:
        refuse_outside(os.path.join(path, configs[0]), path, follow_links=options.follow_links)
        return read_config(os.path.join(path, configs[0]), options.root, options.split)
    with storage_errors("read", path):
        return _bare(path if options.root is None else os.path.abspath(options.root), options)


def pictures(config: Config, place: str, follow_links: bool, skips: Skips) -> Iterator[tuple[int | None, str]]:
    """Yield the pictures of a folder, or of a list with their lines; paths below the dataset's folder.

    Raises:
        SourceError: A list can't be read as one, or a link leads out.
        StorageError: Something can't be read.
    """
    path = os.path.join(config.root, place)
    if os.path.isdir(path):
        for name in files_below(config.root, "" if place == "." else place, follow_links=follow_links, skips=skips):
            if name.lower().endswith(IMAGE_EXTENSIONS):
                yield None, name
            elif label_of(f"{os.path.splitext(name)[0]}.jpg") != name:  # label files may lie beside the pictures
                skips.add("other_kinds", name)
        return
    refuse_outside(path, config.root, follow_links=follow_links)
    try:
        text = text_of(read_small(path, _MOST_LIST_BYTES)).removeprefix("\ufeff")
    except UnfitError as fault:
        raise SourceError(f"{printable(path)!r}: {fault}. Mend the list, one picture a line") from fault
    folder = os.path.dirname(place)
    for number, line in enumerate(text.split("\n"), 1):
        name = line.strip()
        if name.startswith("./"):  # from the list's own folder, others from the dataset's
            name = f"{folder}/{name[2:]}" if folder else name[2:]
        if name:
            yield number, name


def label_of(picture: str) -> str:
    """Return where the label file of a picture is: labels/ in place of the last images/, and .txt for its ending."""
    before, images, behind = f"/{picture}".rpartition(f"/{IMAGES}/")
    path = f"{before}/{LABELS}/{behind}" if images else f"/{picture}"
    return os.path.splitext(path)[0].removeprefix("/") + ".txt"


def _configs(root: str) -> list[str]:
    return [name for name in sorted(os.listdir(root)) if looks_like_config(os.path.join(root, name))]


def _tops(root: str) -> list[str]:
    """Return the folders that have pictures beside labels: the root, "", or split folders."""
    return [
        top
        for top in ("", *SPLIT_NAMES)
        if all(os.path.isdir(os.path.join(root, top, name)) for name in (IMAGES, LABELS))
    ]


def _holds_numbers(folder: str) -> bool:
    """Tell whether the first text files below a folder hold a line as label files have them."""
    for looked, (base, names) in enumerate(walk(folder)):
        if looked == _MOST_LOOKED_AT:
            break
        texts = [name for name in names if name.endswith(".txt") and name not in _NAMES]
        for name in texts[:_MOST_LOOKED_AT]:
            if os.path.isfile(os.path.join(base, name)):
                with open(os.path.join(base, name), "rb") as file:
                    if _LINE.match(file.read(_LOOKED_AT_BYTES)):
                        return True
    return False


def _bare(root: str, options: SourceOptions) -> Config:
    """Return what folders alone say: images/ beside labels/, below or above folders of splits."""
    tops = _tops(root)
    if not tops:
        raise SourceError(
            f"{printable(root)!r} has neither a YAML file with names and train, nor {IMAGES}/ and {LABELS}/"
        )
    if tops[0]:
        splits = {top: [f"{top}/{IMAGES}"] for top in tops}
    else:
        inside = sorted(os.listdir(os.path.join(root, IMAGES)))
        folders = [name for name in inside if os.path.isdir(os.path.join(root, IMAGES, name))]
        named = [name for name in folders if name in SPLIT_NAMES]
        others = [name for name in inside if name not in named and not name.startswith(".")]
        if named and others:
            raise SourceError(
                f"{printable(os.path.join(root, IMAGES))!r} holds {printable(others[0])!r} beside the split "
                f"{named[0]!r}: it would belong to no split. Move it, or say where splits are in a data.yaml"
            )
        splits = {name: [f"{IMAGES}/{name}"] for name in named} or {options.split or DEFAULT_SPLIT: [IMAGES]}
    splits = {name: splits[name] for name in sorted(splits, key=SPLIT_NAMES.index if len(splits) > 1 else len)}
    if options.split is not None:
        if options.split not in splits:
            raise NotFoundError(f"{printable(root)!r} has the splits {', '.join(splits)}, not {options.split!r}")
        splits = {options.split: splits[options.split]}
    return Config(path=None, root=root, splits=splits, classes=_class_names(root, tops, options))


def _class_names(root: str, tops: Sequence[str], options: SourceOptions) -> tuple[str, ...] | None:
    folders = ["", *(f"{top}/{LABELS}" if top else LABELS for top in tops)]
    for name in _NAMES:
        for folder in folders:
            path = os.path.join(root, folder, name)
            if os.path.isfile(path):
                refuse_outside(path, root, follow_links=options.follow_links)
                return read_classes(path)
    return None
