"""What a verification found, as text for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit.report.tables import View
from toolkit.report.text import bytes_text, count

if TYPE_CHECKING:
    from toolkit.checks.verify import VerifyResult

__all__ = ["verify_views"]


def verify_views(result: VerifyResult) -> list[View]:
    """Return one line for each finding, and what was checked."""
    views: list[View] = [
        f"{one.kind}: {one.message}"
        for one in result.findings  # the message names the place
    ]
    checked = (
        f"{count(result.shards, 'shard')}, {count(result.samples, 'sample')}, {bytes_text(result.bytes)} "
        f"({result.level}{', decoded' if result.decoded else ''}) in {result.seconds:.2f} s"
    )
    verdict = "ok" if not result.findings else count(len(result.findings), "finding")
    views += [f"not looked at: {what}" for what in result.not_checked]
    if result.against is not None:
        against = result.against
        rejected = f", {against.rejected:,} of them rejected as in the pack" if against.rejected else ""
        differ = sum(against.counts.values())
        views.append(
            f"against {', '.join(against.sources)} ({against.kind}): {count(against.samples, 'sample')}{rejected}, "
            f"{differ:,} differ; compared: {against.compared}"
        )
    return [*views, f"{verdict}: {checked}, pin {result.pin}"]
