"""Say what is doubtful about an image folder: class folders that are none, and tables that aren't read."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.sources.names import printable
from toolkit.sources.patterns import Patterns
from toolkit.sources.splits import SPLIT_NAMES, like_splits

__all__ = ["class_doubts", "table_doubts"]

_PICTURES = frozenset({"image", "images", "img", "imgs", "jpegimages", "photos", "pictures", "rgb"})
_BESIDE_PICTURES = frozenset(
    {"annotation", "annotations", "depth", "depths", "ground_truth", "groundtruth", "gt", "label", "labels", "mask"}
    | {"masks", "segmentation", "segmentations", "segmentationclass", "target", "targets"}
)
_KINDS = {".csv": "csv", ".tsv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
_SHOWN = 3


def class_doubts(classes: Sequence[str]) -> tuple[str, ...]:
    """Return what is doubtful about names of class folders, a sentence or two each."""
    doubts = []
    splits = like_splits(classes)
    if splits:
        others = [name for name in classes if name not in splits]
        cause = f"beside {_listed(others)}" if others else "split folders are written in lower case"
        doubts.append(
            f"{_listed(splits)} became class names, not splits: {cause}. Splits are {', '.join(SPLIT_NAMES)}; "
            f"other folders become splits with --splits, as in --splits train={splits[0]}"
        )
    pictures = [name for name in classes if name.lower() in _PICTURES]
    beside = [name for name in classes if name.lower() in _BESIDE_PICTURES]
    if pictures and (beside or len(pictures) == len(classes)):
        names = [*pictures, *beside]
        doubts.append(
            f"{_listed(names)} became class names: a sample's label says in which of these folders it lies. If they "
            f"are no classes, give SOURCE/{printable(pictures[0])} as SOURCE, leave folders out as with "
            f"--exclude '{printable((beside or pictures)[0])}/*', or pack without labels (--label-mode none)"
        )
    return tuple(doubts)


def table_doubts(names: Sequence[str], patterns: Patterns) -> tuple[str, ...]:
    """Return what is doubtful about tables that lie beside images and aren't read; `names` are their paths."""
    tables = [name for name in names if name.lower().endswith(tuple(_KINDS)) and patterns.takes(name)]
    if not tables:
        return ()
    kind = next(kind for suffix, kind in _KINDS.items() if tables[0].lower().endswith(suffix))
    verb = "isn't" if len(tables) == 1 else "aren't"
    return (
        f"{_listed(tables)} {verb} read. If it tells of the images, pack it instead, SOURCE/{printable(tables[0])} "
        f"with --source-kind {kind}, --image-column FIELD and --root; if not, leave it out with --exclude",
    )


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(printable(name)) for name in names[:_SHOWN])
    return f"{shown} and {len(names) - _SHOWN} more" if len(names) > _SHOWN else shown
