"""Tell which folders of an image folder are its splits: by their names, or as they are mapped; and what is left out.

Folders that look like splits and aren't taken as such would become classes called train and test: that is refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from toolkit.errors import NotFoundError, SourceError, UsageError, did_you_mean
from toolkit.sources.names import printable
from toolkit.sources.splits import LIKE_SPLIT, SPLIT_NAMES, check_name
from toolkit.storage.files import storage_errors

__all__ = ["SplitFolders", "check_mapping", "mapped", "named", "refuse_mixed"]

_TRAIN_SPELLINGS = ("train", "Train", "TRAIN", "training", "Training")
_SHOWN = 3


@dataclass(frozen=True)
class SplitFolders:
    """The folders of each split, in order, as paths below the source with "/" between parts.

    Attributes:
        chosen: The splits to take.
        all: These, and the others beside them: one class map is for all of them.
        left_out: Names beside mapped folders that are not taken, folders with "/" behind them.
    """

    chosen: Mapping[str, tuple[str, ...]]
    all: Mapping[str, tuple[str, ...]]
    left_out: tuple[str, ...] = ()


def check_mapping(mapping: Mapping[str, tuple[str, ...]]) -> None:
    """Raise UsageError when `mapping` (split -> folders) can't be taken as it is."""
    seen: list[tuple[str, str, list[str]]] = []
    for split, folders in mapping.items():
        check_name(split)
        if not folders:
            raise UsageError(f"--splits: the split {split!r} has no folder: give {split}=FOLDER")
        for folder in folders:
            parts = folder.split("/")
            if not all(parts) or {".", ".."} & set(parts):
                raise UsageError(
                    f"--splits: {folder!r} is no folder below the source: give its path there, as in images/train"
                )
            for other_split, other, other_parts in seen:
                if parts[: len(other_parts)] == other_parts or other_parts[: len(parts)] == parts:
                    raise UsageError(
                        f"--splits: {other!r} is in the split {other_split!r}, and {folder!r} in {split!r}: "
                        "a folder belongs to one split"
                    )
            seen.append((split, folder, parts))


def mapped(base: str, mapping: Mapping[str, tuple[str, ...]], split: str | None) -> SplitFolders:
    """Return the folders that are mapped, or those of one split, and the names of what lies beside them.

    Raises:
        NotFoundError: A folder, or the split asked for, isn't there.
        StorageError: A folder can't be read.
    """
    for folder in (folder for folders in mapping.values() for folder in folders):
        path = os.path.join(base, folder)
        if not os.path.isdir(path):
            above = os.path.dirname(path)
            beside = [name for name, is_folder in _names(above) if is_folder] if os.path.isdir(above) else []
            hint = did_you_mean(os.path.basename(folder), beside)
            shown = f" Folders there: {_listed(beside)}." if beside else ""
            raise NotFoundError(f"--splits: there is no folder {folder!r} in {base!r}.{hint}{shown}")
    ordered = {name: tuple(sorted(folders, key=lambda one: one.split("/"))) for name, folders in mapping.items()}
    if split is not None and split not in ordered:
        raise NotFoundError(
            f"--splits gives no split {split!r}, only {', '.join(ordered)}.{did_you_mean(split, ordered)}"
        )
    chosen = ordered if split is None else {split: ordered[split]}
    return SplitFolders(chosen, ordered, tuple(_left_out(base, ordered)))


def named(base: str, folders: Sequence[str], split: str | None) -> SplitFolders | None:
    """Return the split folders when all `folders` at the top are called as splits are, else None.

    Raises:
        NotFoundError: The split asked for isn't there.
    """
    if not folders or not set(folders) <= set(SPLIT_NAMES):
        return None
    here = {name: (name,) for name in SPLIT_NAMES if name in folders}
    if split is None:
        return SplitFolders(here, here)
    if split not in here:
        raise NotFoundError(
            f"{base!r} has no split folder {split!r}, only {', '.join(here)}.{did_you_mean(split, here)}"
        )
    return SplitFolders({split: (split,)}, here)


def refuse_mixed(base: str, folders: Sequence[str], split: str | None, classes: Sequence[str] | None) -> None:
    """Refuse a folder that would mix a training split with one to test on: its folders look like splits.

    Someone who calls everything one split of another name, or has these names in the class map, has said so.

    Raises:
        SourceError: `folders` at the top have both, or one of them has.
    """
    known = set(classes or ())
    alike = _both([name for name in folders if name not in known])
    if alike and not _is_other_name(split, alike):
        raise SourceError(_refusal(base, "", alike, [name for name in folders if name not in alike]))
    for folder in folders:
        path = os.path.join(base, folder)
        # Looking for some names is cheaper than listing each class folder.
        if folder in known or not any(os.path.isdir(os.path.join(path, name)) for name in _TRAIN_SPELLINGS):
            continue
        inside = [name for name, is_folder in _names(path) if is_folder]
        alike = _both(inside)
        if alike and not _is_other_name(split, alike):
            raise SourceError(_refusal(base, f"{folder}/", alike, []))


def _both(folders: Sequence[str]) -> list[str]:
    """Return the folders that look like splits, when there is one to train on and one to test on."""
    found = {name: match for name in folders if (match := LIKE_SPLIT.fullmatch(name))}
    return list(found) if len({match["train"] is None for match in found.values()}) == 2 else []


def _is_other_name(split: str | None, alike: Sequence[str]) -> bool:
    return split is not None and not LIKE_SPLIT.fullmatch(split) and split not in alike


def _refusal(base: str, above: str, alike: Sequence[str], others: Sequence[str]) -> str:
    splits: dict[str, list[str]] = {}
    for name in alike:
        match = LIKE_SPLIT.fullmatch(name)
        word = (match["word"] if match else name).lower()
        splits.setdefault("train" if word == "training" else "test" if word == "testing" else word, []).append(name)
    ordered = sorted(splits.items(), key=lambda item: item[0] != "train")
    mapping = ",".join(f"{word}={','.join(above + name for name in names)}" for word, names in ordered)
    if above:
        cause = f"they lie in the folder {above[:-1]!r}, not at the top"
    elif others:
        cause = f"they lie beside {_listed(others)}"
    else:
        cause = f"split folders are called {', '.join(SPLIT_NAMES)}, in lower case"
    instead = f"give {os.path.join(base, above[:-1])!r} as SOURCE" if above else "leave others out with --exclude"
    return (
        f"{base!r} has folders that look like splits ({_listed([above + name for name in alike])}), and they would "
        f"become classes, because {cause}. Say what they are with --splits {mapping}, or {instead}. If they are no "
        "splits, give the one split a name of its own: --split all"
    )


def _left_out(base: str, mapping: Mapping[str, tuple[str, ...]]) -> Iterable[str]:
    """Yield what lies beside the mapped folders, and beside the folders that these lie in."""
    taken = {folder for folders in mapping.values() for folder in folders}
    above = {"/".join(folder.split("/")[:depth]) for folder in taken for depth in range(folder.count("/") + 1)}
    for parent in sorted(above, key=lambda one: one.split("/")):
        for name, is_folder in _names(os.path.join(base, parent)):
            inside = f"{parent}/{name}" if parent else name
            if inside not in taken and inside not in above:
                yield printable(f"{inside}/" if is_folder else inside)


def _names(path: str) -> list[tuple[str, bool]]:
    """Return the names in a folder that aren't hidden, sorted, and which are folders."""
    with storage_errors("read", path), os.scandir(path) as entries:
        found = [(one.name, one.is_dir()) for one in entries if not one.name.startswith(".") and one.name != "__MACOSX"]
    return sorted(found)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(printable(name)) for name in names[:_SHOWN])
    return f"{shown} and {len(names) - _SHOWN} more" if len(names) > _SHOWN else shown
