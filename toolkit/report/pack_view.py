"""A pack, done or planned, as text for a terminal."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from toolkit.pack.job import PackJob, PackPlan, PackResult
from toolkit.report.text import bytes_text, count, plain
from toolkit.sources.reject import Reject

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["pack_views", "plan_views"]

_SHOWN_REJECTS = 5
# What a plan takes, as the sources' surveys do it.
_READ = {
    "imagefolder": "files are listed, no image is read",
    "parquet": "footers are read, and values only where they tell a kind or classes",
    "tfrecord": "every record is read once, to find the features",
    "webdataset": "the headers in tars are read, and compressed tars whole",
}
_SKIPPED = {
    "pandas_index": ("index column of pandas", "index columns of pandas"),
    "hidden": ("hidden name", "hidden names"),
    "not_images": ("file of another kind", "files of other kinds"),
    "loops": ("link back to a folder above", "links back to a folder above"),
    "not_tfrecord": ("file that is no TFRecord", "files that are no TFRecord"),
    "lacking_features": ("sample that lacks a feature", "samples that lack a feature"),
    "missing": ("sample that lacks a column", "samples that lack a column"),
    "folders": ("folder in a tar", "folders in tars"),
    "links": ("link in a tar", "links in tars"),
    "sparse": ("sparse file in a tar", "sparse files in tars"),
    "meta": ("metadata file in a tar", "metadata files in tars"),
    "no_extension": ("name without an extension", "names without an extension"),
    "other_types": ("tar member of another type", "tar members of other types"),
}


def pack_views(result: PackResult, job: PackJob, report: str | None) -> list[RenderableType]:
    """Return what a pack did; `report` is where its rejects are listed."""
    splits = ", ".join(f"{name} {rows:,}" for name, rows in result.splits.items())
    views: list[RenderableType] = [
        f"{_packed(result)} ({splits}) into {count(result.shards, 'shard')}, "
        f"{bytes_text(result.bytes)}, in {result.seconds:.2f} s",
        f"classes: {'none' if result.classes is None else f'{result.classes:,}'}; "
        f"shard size {bytes_text(job.shard_bytes)}",
        *_skipped(result.skipped),
    ]
    if result.renamed:
        views.append(f"renamed: {count(result.renamed, 'sample')} whose key an earlier one has, to KEY#1, KEY#2, …")
    if report is not None:
        views.append(f"rejected: {count(len(result.rejects), 'sample')}, listed in {plain(report)}")
    views.append(f"open it as {plain(os.path.normpath(result.dataset))}@sha256:{result.pin[:12]}")
    return views


def _packed(result: PackResult) -> str:
    if result.added == result.samples:
        return f"packed {count(result.samples, 'sample')}"
    return f"appended {count(result.added, 'sample')}; the dataset now has {count(result.samples, 'sample')}"


def plan_views(plan: PackPlan, job: PackJob) -> list[RenderableType]:
    """Return what a pack would do."""
    columns = ", ".join(
        f"{name} ({kind}, {plan.encodings[name]})" if name in plan.encodings else f"{name} ({kind})"
        for name, kind in plan.columns.items()
    )
    views: list[RenderableType] = [f"dry run: nothing is written; {_READ[plan.source_kind]}"]
    for name, split in plan.splits.items():
        views.append(
            f"split {name}: {'samples not counted' if split.samples is None else count(split.samples, 'sample')}, "
            f"{count(split.tasks, 'slice')}, {bytes_text(split.bytes)} of source files"
        )
    classes = "none" if plan.classes is None else f"{len(plan.classes):,}"
    views.append(f"columns: {columns}; classes: {classes}; shard size {bytes_text(job.shard_bytes)}")
    if job.short_side is not None:
        views.append(f"images: resized where their shorter side has more than {job.short_side:,} pixels")
    return [*views, *_skipped(plan.skipped), *_rejects(plan.rejects, job.max_rejects)]


def _skipped(skipped: dict[str, int]) -> list[RenderableType]:
    parts = [f"{amount:,} {_SKIPPED[what][amount != 1]}" for what, amount in skipped.items() if amount]
    return [f"passed over: {', '.join(parts)}"] if parts else []


def _rejects(rejects: list[Reject], allowed: int | float) -> Iterable[RenderableType]:
    if not rejects:
        return
    budget = f"{allowed:,}" if isinstance(allowed, int) else f"{allowed:.2%}"
    yield f"rejected by name or size: {count(len(rejects), 'sample')}, {budget} allowed"
    for reject in rejects[:_SHOWN_REJECTS]:
        yield f"  {plain(reject.key)}: {reject.reason}"
    if len(rejects) > _SHOWN_REJECTS:
        yield f"  … and {len(rejects) - _SHOWN_REJECTS:,} more"
