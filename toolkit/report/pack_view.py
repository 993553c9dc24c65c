"""A pack, done or planned, as text for a terminal."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from toolkit.pack.in_place.trust import Trust
from toolkit.pack.index.job import IndexResult
from toolkit.pack.job import PackJob, PackPlan, PackResult
from toolkit.report.tables import View
from toolkit.report.text import bytes_text, count
from toolkit.sources.registry import named
from toolkit.sources.reject import Reject
from toolkit.sources.skips import WORDS

__all__ = ["pack_views", "plan_views"]

_SHOWN_REJECTS = 5
_SHOWN_NAMES = 3
_SHOWN_LEFT_OUT = 20


def pack_views(result: PackResult, job: PackJob) -> list[View]:
    """Return what a pack did."""
    splits = ", ".join(f"{name} {rows:,}" for name, rows in result.splits.items())
    views: list[View] = [
        f"{_packed(result)} ({splits}) into {count(result.shards, 'shard')}, "
        f"{bytes_text(result.bytes)}, in {result.seconds:.2f} s",
        f"classes: {'none' if result.classes is None else f'{result.classes:,}'}; "
        f"shard size {bytes_text(job.shard_size)}",
        *_skipped(result),
        *_left_out(result.left_out),
    ]
    if result.renamed:
        views.append(f"renamed: {count(result.renamed, 'sample')} whose key an earlier one has, to KEY#1, KEY#2, …")
    if result.rejects_report is not None:
        views.append(f"rejected: {count(len(result.rejects), 'sample')}, listed in {result.rejects_report}")
    if isinstance(result, IndexResult):
        views += [f"values stay in {place} (root {name})" for name, place in result.roots.items()]
        if result.trust == Trust.STAT.value:
            views.append("UNHASHED: no file was read; their sizes and times tell later whether one has changed")
    views.append(f"open it as {os.path.normpath(result.dataset)}@sha256:{result.pin[:12]}")
    return views


def _packed(result: PackResult) -> str:
    if result.added == result.samples:
        done = "indexed" if isinstance(result, IndexResult) else "packed"
        return f"{done} {count(result.samples, 'sample')}"
    return f"appended {count(result.added, 'sample')}; the dataset now has {count(result.samples, 'sample')}"


def plan_views(plan: PackPlan, job: PackJob) -> list[View]:
    """Return what a pack would do."""
    columns = ", ".join(
        f"{name} ({kind}, {plan.encodings[name]})" if name in plan.encodings else f"{name} ({kind})"
        for name, kind in plan.columns.items()
    )
    views: list[View] = [f"dry run: nothing is written; {named(plan.source_kind).survey_text}"]
    for name, split in plan.splits.items():
        views.append(
            f"split {name}: {'samples not counted' if split.samples is None else count(split.samples, 'sample')}, "
            f"{count(split.tasks, 'slice')}, {bytes_text(split.bytes)} of source files"
        )
    classes = "none" if plan.classes is None else f"{len(plan.classes):,}"
    views.append(f"columns: {columns}; classes: {classes}; shard size {bytes_text(job.shard_size)}")
    if job.short_side is not None:
        views.append(f"images: resized where their shorter side has more than {job.short_side:,} pixels")
    return [
        *views,
        *_skipped(plan),
        *_left_out(plan.left_out),
        *_rejects(plan.rejects, job.max_rejects),
    ]


def _skipped(found: PackPlan | PackResult) -> list[View]:
    words = {**WORDS, **named(found.source_kind).skips}
    parts = [
        f"{amount:,} {_skipped_text(what, amount, words)}{_names_text(found.skipped_names.get(what, ()), amount)}"
        for what, amount in found.skipped.items()
        if amount
    ]
    return [f"passed over: {', '.join(parts)}"] if parts else []


def _names_text(names: Sequence[str], amount: int) -> str:
    if not names:
        return ""
    shown = ", ".join(names[:_SHOWN_NAMES])
    return f" ({shown}, …)" if amount > _SHOWN_NAMES else f" ({shown})"


def _skipped_text(what: str, amount: int, words: Mapping[str, tuple[str, str]]) -> str:
    return words[what][amount != 1] if what in words else f"of {what.replace('_', ' ')}"


def _left_out(names: Sequence[str]) -> Iterable[View]:
    if names:
        more = f" and {len(names) - _SHOWN_LEFT_OUT:,} more" if len(names) > _SHOWN_LEFT_OUT else ""
        yield f"left out, in no split: {', '.join(names[:_SHOWN_LEFT_OUT])}{more}"


def _rejects(rejects: list[Reject], allowed: int | float) -> Iterable[View]:
    if not rejects:
        return
    budget = f"{allowed:,}" if isinstance(allowed, int) else f"{allowed:.2%}"
    yield f"rejected by name or size: {count(len(rejects), 'sample')}, {budget} allowed"
    for reject in rejects[:_SHOWN_REJECTS]:
        yield f"  {reject.key}: {reject.reason}"
    if len(rejects) > _SHOWN_REJECTS:
        yield f"  … and {len(rejects) - _SHOWN_REJECTS:,} more"
