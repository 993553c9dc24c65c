"""Index from Python. Made by scripts/make_pack.py of the declared options: don't edit it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Literal

from toolkit.options.option import take
from toolkit.pack.index.job import IndexJob, IndexResult
from toolkit.pack.index.run import index as run
from toolkit.pack.make import job_of, paths_of
from toolkit.pack.passes import Progress

__all__ = ["index"]

_Kind = Literal["image", "label", "text", "scalar", "tensor", "tokens", "json", "bytes", "value"]


def index(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    dataset: str | os.PathLike[str],
    *,
    split: str | None = None,
    limit: int | None = None,
    shuffle_seed: int | None = None,
    label_mode: Literal["auto", "none", "imagefolder"] = "auto",
    require_labels: bool = False,
    classes: str | os.PathLike[str] | Sequence[str] | None = None,
    splits: Mapping[str, str | Sequence[str]] | None = None,
    map: Mapping[str, str] | None = None,
    columns: Sequence[str] | None = None,
    rename: Mapping[str, str] | None = None,
    kind: Mapping[str, _Kind] | None = None,
    key: str | None = None,
    include: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    follow_links: bool = False,
    max_value_bytes: int | str = "256MiB",
    missing: Literal["null", "skip", "error"] = "error",
    image_column: Sequence[str] | None = None,
    root: str | os.PathLike[str] | None = None,
    delimiter: str | None = None,
    quote: str | None = None,
    encoding: str | None = None,
    field_names: Sequence[str] | None = None,
    pair: Mapping[str, str | Sequence[str]] | None = None,
    tfrecord_raw: bool = False,
    verify_images: Literal["header", "decode", "off"] = "header",
    source_kind: str | None = None,
    shard_size: int | str = "256MiB",
    max_pixels: int = 134217728,
    key_conflict: Literal["error", "suffix"] = "error",
    max_rejects: int | str = 0,
    on_existing: Literal["refuse", "resume", "overwrite", "append"] = "refuse",
    extend_classes: bool = False,
    user_metadata: Mapping[str, str] | None = None,
    jobs: int | str = "auto",
    trust: Literal["hash", "stat"] = "hash",
    progress: Progress | None = None,
) -> IndexResult:
    """Make `dataset` of `source`, whose media stay there; return what `toolkit index --json` prints.

    Shards hold where each value lies and what proves it; keys, labels, order and digests are those of a pack. Nothing
    is printed. A kill at any instant leaves the dataset as it was, or the new version; the same call again goes on
    where it was.

    Args:
        source: A folder or file, or several: an image folder ([SPLIT/]CLASS/IMAGE), uncompressed WebDataset tars or
            TFRecord files. Patterns and {000..099} lists are paths too. It must stay where it is, or be named where it
            is now when the dataset is opened.
        dataset: Folder to make.
        split: Name of the split, train if not given; with split folders, the one to pack.
        limit: At most N samples of each split.
        shuffle_seed: Spread the samples of each split over its shards, in an order that N decides.
        label_mode: Labels from class folders: when there are any, never, or always.
        require_labels: Refuse images that lie in no class folder.
        classes: Class names in id order, one a line.
        splits: The folders that splits are made of, as in train=Train,val=Test,dev (val is Test and dev); other folders
            are left out. For image folders. As {"train": "Train", "val": ["Test", "dev"]}.
        map: The columns to pack, and the field of each. As {"image": "jpg", "label": "cls"}.
        columns: The fields to pack, under their own names.
        rename: Other names for fields. As {"jpg": "image", "cls": "label"}.
        kind: What columns mean: image, label, text, scalar, tensor, tokens, json, bytes, value. As {"photo": "image",
            "caption": "text"}.
        key: The field that holds each sample's unique key.
        include: Take only input files that match one.
        exclude: Leave out input files that match one.
        follow_links: Follow symbolic links that lead out of `source`; they are refused if not given.
        max_value_bytes: Reject a sample with a larger value, if possible unread: bytes, or with a unit.
        missing: A sample that lacks a column: pack a null, skip it, or reject it.
        image_column: The fields of a table whose text is the path of an image, below --root.
        root: The folder that paths in tables and annotations are below; the table's own folder if not given.
        delimiter: The character between the fields of a CSV file; a comma, and in .tsv files a tab, if not given.
        quote: The character around fields of a CSV file; none where quotes mean nothing.
        encoding: The encoding of a table's text, as latin-1; UTF-8 if not given.
        field_names: Names of the fields of a CSV file whose first row is a sample already.
        pair: Files that belong together by name: the columns, and what the files of each are called, {} being what a
            sample's files have in common. Several may stand behind one another; the first without COLUMN= is the image.
            As {"image": "images/{}.jpg", "mask": "masks/{}.png"}.
        tfrecord_raw: Records are bytes, not tf.train.Example.
        verify_images: Reject images without a readable header, or those that can't be decoded; off looks at nothing.
        source_kind: What `source` is; found from its content if not given.
        shard_size: Fill shards up to this: bytes, or with a unit as in 100MB, 256MiB.
        max_pixels: Decode no image of more pixels; its header tells how many there are.
        key_conflict: A sample whose key an earlier one has: refuse the input, or call it KEY#1, KEY#2, ...
        max_rejects: Rejected samples to tolerate: a number, or a share of all as in 1%.
        on_existing: When `dataset` is there already. A killed pack goes on where it was in any case, and resume does
            nothing else; overwritten versions stay readable by their pins.
        extend_classes: An append may bring new classes; their ids come behind the old ones.
        user_metadata: Text to keep in the manifest; part of what is pinned. As {"owner": "me", "licence": "CC0"}.
        jobs: Shards written at the same time; never changes the result.
        trust: What tells a changed file later: hash reads every file once and keeps sums of its bytes; stat reads none
            and keeps sizes and times.
        progress: Called now and then, by one thread at a time, with the samples done, those in all (None
            when only reading tells), the bytes read and those in all.

    Raises:
        UsageError: An option doesn't take its value, contradicts another, or means nothing for the source.
        NotFoundError, SourceError: The input isn't there, or can't be packed.
        ExistsError: The dataset is there already; see `on_existing`.
        RejectsError: More samples were rejected than `max_rejects`; nothing was committed.
        StorageError: The disk is full or fails; nothing was committed.
    """
    given = {
        "split": split,
        "limit": limit,
        "shuffle_seed": shuffle_seed,
        "label_mode": label_mode,
        "require_labels": require_labels,
        "classes": classes,
        "splits": splits,
        "map": map,
        "columns": columns,
        "rename": rename,
        "kind": kind,
        "key": key,
        "include": include,
        "exclude": exclude,
        "follow_links": follow_links,
        "max_value_bytes": max_value_bytes,
        "missing": missing,
        "image_column": image_column,
        "root": root,
        "delimiter": delimiter,
        "quote": quote,
        "encoding": encoding,
        "field_names": field_names,
        "pair": pair,
        "tfrecord_raw": tfrecord_raw,
        "verify_images": verify_images,
        "source_kind": source_kind,
        "shard_size": shard_size,
        "max_pixels": max_pixels,
        "key_conflict": key_conflict,
        "max_rejects": max_rejects,
        "on_existing": on_existing,
        "extend_classes": extend_classes,
        "user_metadata": user_metadata,
        "jobs": jobs,
        "trust": trust,
    }
    job = job_of(IndexJob, paths_of(source, dataset), take(IndexJob.declared(), given))
    return run(job) if progress is None else run(job, progress)
