"""The texts and files that tell of a pack: rejects, and of what and when it was made. None of it is hashed.

Files name places in the input by `Places`: a dataset that is passed on doesn't tell where its input lay.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime

from toolkit.escapes import json_text, plain
from toolkit.format.tables import sha256
from toolkit.pack.job import PackJob
from toolkit.pack.places import Places
from toolkit.pack.versions import versions
from toolkit.sources.base import Survey
from toolkit.sources.names import printable
from toolkit.sources.reject import Reject

__all__ = ["listing_hash", "provenance", "rejects_jsonl", "rejects_text"]

_SHOWN_REJECTS = 5


def rejects_jsonl(rejects: Sequence[Reject], job: PackJob) -> bytes:
    """Return one JSON object a line: source (from the input's name on), key, reason."""
    places = Places(job.read_places)
    lines = (
        {"source": places.place(one.source), "key": one.key, "reason": places.shorten(one.reason)} for one in rejects
    )
    return "".join(json_text(line) + "\n" for line in lines).encode()


def rejects_text(rejects: Sequence[Reject]) -> str:
    """Return the first rejects, a line each, and how many more there are."""
    shown = "".join(f"\n  {plain(_name(reject))}: {plain(reject.reason)}" for reject in rejects[:_SHOWN_REJECTS])
    return shown + (f"\n  … and {len(rejects) - _SHOWN_REJECTS} more" if len(rejects) > _SHOWN_REJECTS else "")


def _name(reject: Reject) -> str:
    """Return the key, and the place in the input unless that is the key with a folder before it."""
    is_path = reject.source == reject.key or reject.source.endswith(f"/{reject.key}")
    return reject.key if is_path else f"{reject.key} ({reject.source})"


def listing_hash(survey: Survey) -> str:
    """Return what changes with any file of an input, or any size or time: a hash of its slices as they were listed."""
    listed = [(part.split, part.number, part.samples, part.bytes, repr(part.payload)) for part in survey.slices]
    names = sorted((column, tuple(classes)) for column, classes in survey.classes.items())
    return sha256(repr((survey.splits, listed, names)).encode())


def provenance(job: PackJob, survey: Survey, seconds: float, *, renamed: int) -> bytes:
    """Return JSON that says with what, from what and when the version was packed."""
    places = Places(job.read_places)
    facts = {
        **versions(job),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 3),
        "source": places.place(printable(os.path.abspath(job.source))),
        "more_sources": [places.place(printable(os.path.abspath(one))) for one in job.more_sources],
        "jobs": job.jobs,
        "skipped": dict(survey.skipped),
        "left_out": list(survey.left_out),
        "skipped_names": dict(survey.skipped_names),
        "renamed": renamed,
        "listing": listing_hash(survey),
    }
    return json_text(facts, indent=1).encode() + b"\n"
