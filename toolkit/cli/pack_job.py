"""From the values of `toolkit pack`'s options to a job, and back to what --json says of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolkit.format.encodings import ImageEncoding
from toolkit.pack.job import KeyConflict, OnExisting, PackJob
from toolkit.sources.classes import read_classes
from toolkit.sources.options import LabelMode, Missing, VerifyImages

__all__ = ["make_job", "options_of"]

_UNREAD_CLASSES = ("a class",)


def make_job(values: Mapping[str, Any], *, reads: bool = True) -> PackJob:
    """Return the job that the command's parameters (name -> value) ask for.

    Args:
        values: As the command gets them; `source` and `dataset` may be missing, where nothing is packed.
        reads: Read the file of class names; without it some name stands for what it holds.

    Raises:
        UsageError: Options contradict each other.
        NotFoundError: There is no such file of class names.
    """
    paths = [values["source"] or "", values["dataset"] or "", *(values["further"] or [])]
    classes = values["classes"]
    return PackJob(
        source=paths[0],
        more_sources=tuple(paths[1:-1]),
        dataset=paths[-1],
        split=values["split"],
        shard_bytes=values["shard_size"],
        label_mode=LabelMode(values["label_mode"]),
        require_labels=values["require_labels"],
        classes=None if classes is None else read_classes(classes) if reads else _UNREAD_CLASSES,
        jobs=values["jobs"],
        limit=values["limit"],
        shuffle_seed=values["shuffle_seed"],
        key_conflict=KeyConflict(values["key_conflict"]),
        on_existing=OnExisting(values["on_existing"]),
        extend_classes=values["extend_classes"],
        max_rejects=values["max_rejects"],
        source_kind=values["source_kind"],
        mapping=values["mapping"],
        columns=None if values["columns"] is None else tuple(values["columns"]),
        rename=values["rename"] or {},
        kinds=values["kinds"] or {},
        key=values["key"],
        include=tuple(values["include"] or ()),
        exclude=tuple(values["exclude"] or ()),
        splits=values["splits"] or {},
        follow_links=values["follow_links"],
        max_value_bytes=values["max_value_bytes"],
        missing=Missing(values["missing"]),
        raw=values["raw"],
        verify_images=VerifyImages(values["verify_images"]),
        image_encoding=ImageEncoding.parse(values["image_encoding"]),
        short_side=values["short_side"],
        max_pixels=values["max_pixels"],
        tokenizer=values["tokenizer"],
        text_column=values["text_column"],
        eos=values["eos"],
        eos_token=values["eos_token"],
        user=values["user"] or {},
    )


def options_of(job: PackJob) -> dict[str, object]:
    """Return the job's options for JSON, by the keys of a config where there is one."""
    return {
        "source": job.source,
        "more_sources": list(job.more_sources),
        "source_kind": job.source_kind,
        "split": job.split,
        "shard_bytes": job.shard_bytes,
        "label_mode": job.label_mode.value,
        "require_labels": job.require_labels,
        "classes_given": job.classes is not None,
        "jobs": job.jobs,
        "limit": job.limit,
        "shuffle_seed": job.shuffle_seed,
        "key_conflict": job.key_conflict.value,
        "on_existing": job.on_existing.value,
        "extend_classes": job.extend_classes,
        "max_rejects": job.max_rejects,
        "map": job.mapping,
        "columns": job.columns,
        "rename": job.rename,
        "kind": {column: kind.value for column, kind in job.kinds.items()},
        "key": job.key,
        "include": job.include,
        "exclude": job.exclude,
        "splits": job.splits,
        "follow_links": job.follow_links,
        "max_value_bytes": job.max_value_bytes,
        "missing": job.missing.value,
        "tfrecord_raw": job.raw,
        "verify_images": job.verify_images.value,
        "image_encoding": str(job.image_encoding),
        "short_side": job.short_side,
        "max_pixels": job.max_pixels,
        "tokenizer": job.tokenizer,
        "text_column": job.text_column,
        "eos": job.eos,
        "eos_token": job.eos_token,
        "user_metadata": job.user,
    }
