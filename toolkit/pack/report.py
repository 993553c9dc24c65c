"""The texts and files that tell of a pack: rejects, and where and when it was made. None of it is hashed."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime

import msgspec

from toolkit.pack.job import PackJob
from toolkit.pack.versions import versions
from toolkit.sources.base import Survey
from toolkit.sources.reject import Reject
from toolkit.sources.scan import printable

__all__ = ["provenance", "rejects_jsonl", "rejects_text"]

_SHOWN_REJECTS = 5


def rejects_jsonl(rejects: Sequence[Reject]) -> bytes:
    """Return one JSON object a line: source, key, reason."""
    return "".join(json.dumps(asdict(reject), ensure_ascii=False) + "\n" for reject in rejects).encode()


def rejects_text(rejects: Sequence[Reject]) -> str:
    """Return the first rejects, a line each, and how many more there are."""
    shown = "".join(f"\n  {_name(reject)}: {reject.reason}" for reject in rejects[:_SHOWN_REJECTS])
    return shown + (f"\n  … and {len(rejects) - _SHOWN_REJECTS} more" if len(rejects) > _SHOWN_REJECTS else "")


def _name(reject: Reject) -> str:
    """Return the key, and the place in the input unless that is the key with a folder before it."""
    return reject.key if reject.source.endswith(reject.key) else f"{reject.key} ({reject.source})"


def provenance(job: PackJob, survey: Survey, seconds: float, *, renamed: int) -> bytes:
    """Return JSON that says with what, where and when the version was packed."""
    facts = {
        **versions(job),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 3),
        "source": printable(os.path.abspath(job.source)),
        "more_sources": [printable(os.path.abspath(one)) for one in job.more_sources],
        "jobs": job.jobs,
        "skipped": dict(survey.skipped),
        "renamed": renamed,
    }
    return msgspec.json.format(msgspec.json.encode(facts), indent=1) + b"\n"
